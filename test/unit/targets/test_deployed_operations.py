"""Every operation of `ascend`, in float32 and, where it takes it, float16: written, read back, and equal in every bit.

Layers on integers, and the steps between them, have tests of their own (`test_round_trip.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

from amct_opt.dialects import ascend
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError

from .nets import Net


def reals(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).uniform(0.1, 2, shape).astype(np.float32)


def typed(n: Net, array: Any, key: str) -> Any:
    """A constant of the element type of x."""
    return n.constant(np.asarray(array).astype(numpy_dtype(element_of(n.x))), key)


def parameters(n: Net, *roles: str) -> list[Any]:
    """Vectors of float32, one number per channel."""
    return [n.constant(reals(4) + i, role) for i, role in enumerate(roles)]


def indices(n: Net, *values: int) -> Any:
    return n.constant(np.array(values, np.int64), f"i{len(n.block.ops)}")


def index(n: Net, value: int) -> Any:
    return n.constant(np.array(value), f"i{len(n.block.ops)}")


def convolution(n: Net, kind: Any, *shape: int, bias: bool = True, **properties: Any) -> Any:
    operands = [n.x, typed(n, reals(*shape), "w"), *([typed(n, reals(shape[0]), "b")] if bias else [])]
    return kind.make(*operands, strides=(1, 1, 1, 1), pads=(1, 0, 0, 1), data_format="NCHW", **properties)


def transposed(n: Net, kind: Any, **properties: Any) -> Any:
    size, w, b = indices(n, 0, 0, 0, 0), typed(n, reals(4, 2, 2, 2), "w"), typed(n, reals(2), "b")
    return kind.make(size, n.x, w, b, strides=(1, 1, 2, 2), pads=(1, 0, 0, 1), data_format="NCHW", **properties)


def backprop(n: Net) -> Any:
    size = n.constant(np.zeros(4, np.int32), "size")
    return ascend.Conv2DBackpropInputOp.make(
        size, typed(n, reals(4, 2, 2, 2), "w"), n.x, strides=(1, 1, 2, 2), pads=(0, 0, 0, 0), data_format="NCHW"
    )


def matrix(n: Net) -> Any:
    return n.add(ascend.ReshapeOp, n.x, indices(n, 8, 9))


def truths(n: Net) -> Any:
    return n.add(ascend.GreaterOp, n.x, typed(n, 0.1, "limit"))


WINDOW = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 1, 1), "data_format": "NCHW"}
UNARY = (
    *(ascend.ReluOp, ascend.Relu6Op, ascend.SigmoidOp, ascend.TanhOp, ascend.HardSwishOp, ascend.GeluOp),
    *(ascend.SoftplusOp, ascend.MishOp, ascend.ErfOp, ascend.ExpOp, ascend.ReciprocalOp, ascend.NegOp, ascend.AbsOp),
    *(ascend.SinOp, ascend.CosOp, ascend.FloorOp, ascend.CeilOp, ascend.RintOp, ascend.SoftsignOp, ascend.SeluOp),
    *(ascend.IdentityOp, ascend.SquareOp, ascend.SwishOp, ascend.FastGeluOp, ascend.ShapeOp, ascend.LeakyReluOp),
    *(
        ascend.Relu6DOp,
        ascend.HardSigmoidOp,
        ascend.EluOp,
        ascend.FlattenOp,
        ascend.LRNOp,
        ascend.SoftmaxV2Op,
        ascend.LogSoftmaxV2Op,
    ),
)
OF_POSITIVE = (ascend.SqrtOp, ascend.RsqrtOp, ascend.LogOp)
BINARY = (
    *(ascend.AddOp, ascend.SubOp, ascend.MulOp, ascend.RealDivOp, ascend.MaximumOp, ascend.MinimumOp),
    *(ascend.EqualOp, ascend.NotEqualOp, ascend.LessOp, ascend.LessEqualOp, ascend.GreaterOp, ascend.GreaterEqualOp),
)
REDUCTIONS = (ascend.ReduceMeanOp, ascend.ReduceSumOp, ascend.ReduceMaxOp, ascend.ReduceMinOp, ascend.ReduceProdOp)


def named(kind: Any) -> str:
    return kind.name.removeprefix("ascend.")


CASES: dict[str, Callable[[Net], Any]] = {
    **{named(kind): lambda n, kind=kind: kind.make(n.x) for kind in UNARY},
    **{named(kind): lambda n, kind=kind: kind.make(n.add(ascend.ExpOp, n.x)) for kind in OF_POSITIVE},
    **{named(kind): lambda n, kind=kind: kind.make(n.x, typed(n, reals(3, 1), "c")) for kind in BINARY},
    **{named(kind): lambda n, kind=kind: kind.make(n.x, indices(n, 1, -1), keep_dims=True) for kind in REDUCTIONS},
    "Conv2D": lambda n: convolution(n, ascend.Conv2DOp, 6, 2, 2, 3, groups=2, dilations=(1, 1, 2, 1)),
    "Conv3D": lambda n: ascend.Conv3DOp.make(
        n.add(ascend.UnsqueezeOp, n.x, axes=(2,)),
        typed(n, reals(3, 4, 1, 2, 2), "w"),
        strides=(1, 1, 1, 1, 1),
        pads=(0, 0, 1, 0, 0, 1),
        data_format="NCDHW",
    ),
    "DepthwiseConv2D": lambda n: ascend.DepthwiseConv2DOp.make(
        n.x,
        typed(n, reals(2, 2, 4, 2), "w"),
        typed(n, reals(8), "b"),
        strides=(1, 1, 1, 1),
        pads=(1, 0, 0, 1),
        data_format="NCHW",
    ),
    "Conv2DTranspose": lambda n: transposed(n, ascend.Conv2DTransposeOp, output_padding=(0, 0, 1, 0)),
    "Conv2DBackpropInput": backprop,
    "Deconvolution": lambda n: ascend.DeconvolutionOp.make(
        n.x, typed(n, reals(4, 1, 2, 2), "w"), typed(n, reals(2), "b"), strides=(2, 2), groups=2
    ),
    "MatMulV2": lambda n: ascend.MatMulV2Op.make(
        matrix(n), typed(n, reals(5, 9), "w"), typed(n, reals(5), "b"), transpose_x2=True
    ),
    "BatchMatMulV2": lambda n: ascend.BatchMatMulV2Op.make(
        n.x, typed(n, reals(4, 3, 2), "w"), typed(n, reals(2), "b"), adj_x1=True
    ),
    "FullyConnection": lambda n: ascend.FullyConnectionOp.make(
        n.x, typed(n, reals(5, 36), "w"), typed(n, reals(5), "b"), num_output=5
    ),
    "BiasAdd": lambda n: ascend.BiasAddOp.make(n.x, typed(n, reals(4), "b"), data_format="NCHW"),
    "MaxPoolV3": lambda n: ascend.MaxPoolV3Op.make(n.x, **WINDOW, pads=(1, 0, 0, 1)),
    "AvgPoolV2": lambda n: ascend.AvgPoolV2Op.make(n.x, **WINDOW, pads=(1, 0, 0, 1)),
    "AvgPoolV2 counted": lambda n: ascend.AvgPoolV2Op.make(n.x, **WINDOW, pads=(1, 0, 0, 1), exclusive=False),
    "AvgPoolV2 global": lambda n: ascend.AvgPoolV2Op.make(n.x, **WINDOW, global_pooling=True),
    "MaxPool": lambda n: ascend.MaxPoolOp.make(n.x, **WINDOW, padding="SAME"),
    "AvgPool": lambda n: ascend.AvgPoolOp.make(n.x, **WINDOW, padding="SAME"),
    "Pooling": lambda n: ascend.PoolingOp.make(n.x, mode=1, window=(2, 2), stride=(2, 2), pad=(1, 1, 1, 1)),
    "Pooling largest": lambda n: ascend.PoolingOp.make(n.x, window=(2, 2), stride=(2, 2)),
    "LeakyRelu 0.3": lambda n: ascend.LeakyReluOp.make(n.x, negative_slope=0.3),
    "Elu with a scale": lambda n: ascend.EluOp.make(n.x, alpha=1.3, scale=0.7),
    "PRelu": lambda n: ascend.PReluOp.make(n.x, typed(n, reals(4), "s")),
    "ClipByValue": lambda n: ascend.ClipByValueOp.make(n.x, typed(n, -0.5, "low"), typed(n, 1, "high")),
    "Pow": lambda n: ascend.PowOp.make(n.add(ascend.ExpOp, n.x), typed(n, [[1.5], [2.0], [-1.0]], "c")),
    "Pow 3": lambda n: ascend.PowOp.make(n.x, typed(n, 3.0, "c")),
    "Cast": lambda n: ascend.CastOp.make(n.x, dst_type=3),
    "Cast to float16": lambda n: ascend.CastOp.make(n.x, dst_type=1),
    "Cast of AscendQuant": lambda n: ascend.CastOp.make(
        n.add(ascend.AscendQuantOp, n.x, scale=20.0, offset=3.0), dst_type=3
    ),
    "BNInfer": lambda n: ascend.BNInferOp.make(n.x, *parameters(n, "s", "b", "m", "v"), epsilon=0.001),
    "LRN 5": lambda n: ascend.LRNOp.make(n.x, depth_radius=2, alpha=0.0002, beta=0.75),
    "SoftmaxV2 of channels": lambda n: ascend.SoftmaxV2Op.make(n.x, axes=(1,)),
    "LogSoftmaxV2 of channels": lambda n: ascend.LogSoftmaxV2Op.make(n.x, axes=(1,)),
    "Reshape": lambda n: ascend.ReshapeOp.make(n.x, indices(n, 4, -1)),
    "Transpose": lambda n: ascend.TransposeOp.make(n.x, indices(n, 3, 1, 0, 2)),
    "Squeeze": lambda n: ascend.SqueezeOp.make(n.add(ascend.UnsqueezeOp, n.x, axes=(0, 3)), axis=(3,)),
    "Unsqueeze": lambda n: ascend.UnsqueezeOp.make(n.x, axes=(0, -1)),
    "ConcatV2": lambda n: ascend.ConcatV2Op.make([n.x, typed(n, reals(2, 1, 3, 3), "c")], index(n, 1), N=2),
    "SplitV": lambda n: ascend.SplitVOp.make(n.x, indices(n, 1, 3), index(n, 1), num_split=2),
    "StridedSliceV2": lambda n: ascend.StridedSliceV2Op.make(
        n.x, indices(n, -1, 0), indices(n, -9, 2), indices(n, 1, 2), indices(n, -2, 1)
    ),
    "GatherV2": lambda n: ascend.GatherV2Op.make(n.x, indices(n, 2, 0, 0), index(n, 1)),
    "PadV3": lambda n: ascend.PadV3Op.make(n.x, indices(n, 0, 0, 0, 0, 1, 0, 2, 1), typed(n, 0.3, "v")),
    "PadV3 reflected": lambda n: ascend.PadV3Op.make(n.x, indices(n, 0, 0, 0, 0, 1, 0, 2, 1), mode="reflect"),
    "Select": lambda n: ascend.SelectOp.make(truths(n), n.x, typed(n, reals(3), "c")),
    "LogicalAnd": lambda n: ascend.LogicalAndOp.make(truths(n), truths(n)),
    "LogicalOr": lambda n: ascend.LogicalOrOp.make(truths(n), truths(n)),
    "LogicalNot": lambda n: ascend.LogicalNotOp.make(truths(n)),
    "ResizeBilinearV2": lambda n: ascend.ResizeBilinearV2Op.make(
        n.x,
        n.constant(np.array([5, 7], np.int32), "s"),
        half_pixel_centers=True,
        data_format="NCHW",
        dtype=0 if element_of(n.x) == f32 else 1,
    ),
    "ResizeNearestNeighborV2": lambda n: ascend.ResizeNearestNeighborV2Op.make(
        n.x, n.constant(np.array([5, 7], np.int32), "s"), align_corners=True, data_format="NCHW"
    ),
    "Resize": lambda n: ascend.ResizeOp.make(
        n.x, n.constant(np.array([1, 1, 1.7, 2.5], np.float32), "f"), indices(n), mode="cubic"
    ),
    "DepthToSpace": lambda n: ascend.DepthToSpaceOp.make(n.x, block_size=2, data_format="NCHW"),
    "SpaceToDepth": lambda n: ascend.SpaceToDepthOp.make(n.x, block_size=3, data_format="NCHW"),
    "SpaceToBatchND": lambda n: ascend.SpaceToBatchNDOp.make(
        n.x, indices(n, 2, 3), n.constant(np.array([[0, 0], [1, 2]]), "p")
    ),
    "BatchToSpaceND": lambda n: ascend.BatchToSpaceNDOp.make(n.x, indices(n, 2), n.constant(np.array([[1, 0]]), "c")),
    "Range": lambda n: ascend.RangeOp.make(index(n, 7), index(n, 0), index(n, -2)),
    "Tile at run time": lambda n: ascend.TileOp.make(n.x, n.add(ascend.ShapeOp, n.x, dtype=9)),
    "Fill at run time": lambda n: ascend.FillOp.make(n.add(ascend.ShapeOp, n.x), typed(n, [0.1], "v")),
    "Adds": lambda n: ascend.AddsOp.make(n.x, value=0.3),
    "Muls": lambda n: ascend.MulsOp.make(n.x, value=0.3),
    "AddN": lambda n: ascend.AddNOp.make([n.x, n.x, typed(n, reals(2, 4, 3, 3), "c")], N=3),
    "AddN of one": lambda n: ascend.AddNOp.make([n.x], N=1),
    "Eltwise": lambda n: ascend.EltwiseOp.make([n.x, typed(n, reals(2, 4, 3, 3), "c")], N=2, mode=2),
    "Eltwise weighted": lambda n: ascend.EltwiseOp.make(
        [n.x, typed(n, reals(2, 4, 3, 3), "c")], N=2, coeff=(0.5, -0.3)
    ),
    "Swish 2": lambda n: ascend.SwishOp.make(n.x, scale=2.0),
    "ClipByValueV2": lambda n: ascend.ClipByValueV2Op.make(n.x, typed(n, [-0.5], "low"), typed(n, [1], "high")),
    "Scale": lambda n: ascend.ScaleOp.make(n.x, typed(n, reals(4), "s"), typed(n, reals(4), "b")),
    "Scale by one": lambda n: ascend.ScaleOp.make(n.x, typed(n, reals(1), "s"), num_axes=0),
    "Bias": lambda n: ascend.BiasOp.make(n.x, typed(n, reals(4, 3), "b"), num_axes=2),
    "BNInference": lambda n: ascend.BNInferenceOp.make(
        n.x, typed(n, reals(4), "m"), typed(n, reals(4), "v"), typed(n, [1.5], "f")
    ),
    "LayerNorm": lambda n: ascend.LayerNormOp.make(
        n.x, typed(n, reals(3), "g"), typed(n, reals(3), "b"), begin_norm_axis=3, begin_params_axis=3
    ),
    "InstanceNorm": lambda n: ascend.InstanceNormOp.make(
        n.x, typed(n, reals(4), "g"), typed(n, reals(4), "b"), data_format="NCHW"
    ),
    "GroupNorm": lambda n: ascend.GroupNormOp.make(
        n.x, typed(n, reals(4), "g"), typed(n, reals(4), "b"), num_groups=2, data_format="NCHW"
    ),
    "Gather": lambda n: ascend.GatherOp.make(n.x, n.constant(np.array([1, 0, 1]), "i")),
    "GatherNd": lambda n: ascend.GatherNdOp.make(n.x, n.constant(np.array([[1, 3], [0, 2]], np.int32), "i")),
    "Tile": lambda n: ascend.TileOp.make(n.x, n.constant(np.array([1, 2, 1, 3]), "m")),
    "Pack": lambda n: ascend.PackOp.make([n.x, n.x], N=2, axis=-1),
    "Unpack": lambda n: ascend.UnpackOp.make(n.x, num=4, axis=1),
    "Split": lambda n: ascend.SplitOp.make(n.constant(np.array(1, np.int32), "d"), n.x, num_split=2),
    "Slice": lambda n: ascend.SliceOp.make(
        n.x, n.constant(np.array([0, 1, 0, 1]), "o"), n.constant(np.array([2, 2, -1, 1]), "s")
    ),
    "Fill": lambda n: ascend.FillOp.make(
        n.constant(np.array([2, 3]), "d"), n.constant(np.array([0.25], np.float32), "v")
    ),
    "ArgMin": lambda n: ascend.ArgMinOp.make(n.x, index(n, -1)),
    "ArgMaxV2": lambda n: ascend.ArgMaxV2Op.make(n.x, n.constant(np.array(1), "d"), dtype=3),
}

INTEGERS = {
    *("AscendQuant", "AscendAntiQuant", "AscendDequant", "AscendRequant", "AscendWeightQuant"),
    *("AscendAntiQuantV2", "WeightQuantBatchMatmulV2"),
    *("BasicLSTMInplaceFillWindowCache", "BasicGRUInplaceFillWindowCache"),
}
"""Whose files have tests of their own."""
UNWRITTEN = {"AscendDequantS16", "AscendRequantS16", "AscendQuantV2"}
"""What files have no operator for."""


def test_every_operation_has_a_case() -> None:
    assert {named(kind) for kind in ascend.OPERATIONS} == {case.split()[0] for case in CASES} | INTEGERS | UNWRITTEN


def takes(case: str, element: Any) -> bool:
    kind = next(kind for kind in ascend.OPERATIONS if named(kind) == case.split()[0])
    return element == f32 or element in next(iter(kind.TYPES.values()), (element,))


def network(case: str, element: Any) -> tuple[ModuleOp, dict[str, Any]]:
    """The operation as a module, and inputs of it."""
    net = Net(2, 4, 3, 3, element=element)
    op = CASES[case](net)
    net.block.add_op(op)
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype(numpy_dtype(element))
    return net.module(*(op.results[:1] if isinstance(op, ascend.MomentsOp) else op.results)), {"x": x}


def assert_same_bits(module: ModuleOp, read: ModuleOp, inputs: dict[str, Any]) -> None:
    expected, actual = run(module, inputs), run(read, inputs)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].tobytes() == array.tobytes()


FIRST_OPSET = {("LessEqual", f32): 12, ("GreaterEqual", f32): 12, ("LessEqual", f16): 12, ("GreaterEqual", f16): 12}
"""LessOrEqual and GreaterOrEqual came with opset 12."""
FIRST_OPSET[("BNInfer", f16)] = 15  # parameters of another type than x


@pytest.mark.slow
@pytest.mark.parametrize(("element", "opset"), [(f32, 11), (f32, 17), (f16, 17)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str, element: Any, opset: int, deploy: Any) -> None:
    if not takes(case, element):
        return
    opset = max(opset, FIRST_OPSET.get((case, element), opset))
    module, inputs = network(case, element)
    verify(module)
    deploy.write(module, opset=opset)
    assert_same_bits(module, deploy.read(), inputs)


REORDERED = {"Elu with a scale"}
"""What TensorFlow says in operators that round in another order."""


@pytest.mark.slow
@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize("case", [case for case in CASES if case not in REORDERED])
def test_tensorflow(case: str, element: Any, deploy_tf: Any) -> None:
    """Equal in every bit, or refused: these files hold the layers on integers, and what TensorFlow has by the same name."""
    if not takes(case, element) or (element == f16 and "MatMul" in case):  # whose bias is a BiasAdd of float16
        return
    module, inputs = network(case, element)
    try:
        deploy_tf.write(module)
    except CompileError:
        assert not deploy_tf.path.exists()
        return
    assert_same_bits(module, deploy_tf.read(), inputs)


def test_moments_have_no_place(deploy: Any) -> None:
    net = Net(2, 4)
    op = ascend.LayerNormOp.make(
        net.x, typed(net, reals(4), "g"), typed(net, reals(4), "b"), begin_norm_axis=1, begin_params_axis=1
    )
    net.block.add_op(op)
    with pytest.raises(CompileError, match="gives mean and variance"):
        deploy.write(net.module(op.y, op.mean))
