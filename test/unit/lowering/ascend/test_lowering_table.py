"""Every layer of AMCT's table 1 becomes the operator that the table names, in float and, where the layer can be, in integers."""

import numpy as np
import pytest
from xdsl.dialects.builtin import i32

from amct_opt.dialects import nn
from amct_opt.dialects.ascend import AscendQuantOp, CubeOp
from amct_opt.dialects.nn.shapes import tensor_of
from amct_opt.transforms.quantization.tables import UNIFORM

PLANES, VOLUME, ROWS, BATCHES = (2, 4, 6, 6), (1, 4, 4, 5, 5), (3, 8), (2, 3, 8)

X = {nn.ConvOp: PLANES, nn.ConvTransposeOp: PLANES, nn.MatMulOp: ROWS}


def integers(*shape):
    return np.random.default_rng(shape).integers(-127, 128, shape).astype(np.int8)


WEIGHTS = {
    "DepthwiseConv2dNative": (integers(8, 1, 3, 3), {"groups": 4}),
    "Conv3D": (integers(3, 4, 2, 2, 2), {}),
    nn.ConvOp: (integers(6, 2, 3, 3), {"groups": 2}),
    nn.ConvTransposeOp: (integers(4, 6, 3, 3), {"strides": (2, 2)}),
    nn.MatMulOp: (integers(8, 5), {}),
}


def build(net, row, kind, quantized):
    """The layer alone, as its framework's frontend leaves it, with an int32 bias among the sums where it has weights."""
    origin = nn.OriginAttr.of(row.framework, row.op_type, "layer")
    three = "Conv3D" in row.ascend and "Conv2D" not in row.ascend
    shape = VOLUME if three else BATCHES if row.ascend == ("BatchMatMulV2",) else X.get(kind, PLANES)
    n = net(*shape)
    x = n.quantized(n.x, 0.5, 0 if three or row.op_type == "Conv2DBackpropInput" else 3) if quantized else n.x
    if kind in WEIGHTS:
        weight, properties = WEIGHTS.get(row.op_type, WEIGHTS[kind])
        axis = 1 if kind is nn.ConvTransposeOp else 0
        scales = np.full(weight.shape[axis], 0.25, np.float32)
        held = n.parameter(weight, scales, axis) if kind is not nn.MatMulOp else n.parameter(weight, 0.25)
        if not quantized:
            held = n.constant(weight.astype(np.float32))
        return n.module(n.add(kind.make(x, held, origin=origin, **properties)))
    if issubclass(kind, nn.BinaryOp):
        return n.module(n.add(kind.make(x, x, origin=origin)))
    if issubclass(kind, nn.GlobalPoolOp):
        return n.module(n.add(kind.make(x, origin=origin)))
    return n.module(n.add(kind.make(x, kernel=(2, 2), strides=(2, 2), origin=origin)))


CASES = [
    (row, kind, quantized)
    for row in UNIFORM
    for kind in row.operations
    for quantized in ([False] if row.tensor_only or issubclass(kind, nn.GlobalPoolOp) else [False, True])
]


@pytest.mark.parametrize(
    ("row", "kind", "quantized"), CASES, ids=[f"{r.framework}-{r.op_type}-{k.__name__}-{q}" for r, k, q in CASES]
)
def test_operator(row, kind, quantized, net, equivalence):
    before = build(net, row, kind, quantized)
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    names = [op.name.removeprefix("ascend.") for op in after.walk()]
    if row.framework == "onnx" and kind is nn.GlobalAveragePoolOp:  # whose operator is not to be used
        assert "ReduceMean" in names
    else:
        assert set(row.ascend) & set(names), names
    assert any(isinstance(op, AscendQuantOp) for op in after.walk()) == quantized
    equivalence.assert_equivalent(before, after, rtol=0 if not quantized else 2e-6, atol=1e-4 if quantized else 0)


def test_all_weighted_rows_give_accumulators(net, equivalence):
    """None of them falls back to floats."""
    for row, kind, quantized in CASES:
        if quantized and kind in WEIGHTS:
            after = equivalence.after(build(net, row, kind, True), "lower-to-ascend")
            (layer,) = [op for op in after.walk() if isinstance(op, CubeOp)]
            assert tensor_of(layer.results[0]).element_type == i32
