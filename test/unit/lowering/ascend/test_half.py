"""Models of float16 and mixed types: imported, run, quantized, lowered; pooling and addition stay float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import Float16Type, Float32Type

from amct_opt import frontends
from amct_opt.dialects import ascend
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session

MIXED = [False, True]


def network(folder: Path, mixed: bool) -> Path:
    """Convolutions, pooling and an addition in float16, then a Gemm in float16 or, after a Cast, in float32."""
    rng = np.random.default_rng(0)
    last = np.float32 if mixed else np.float16

    def normal(*shape: int, dtype: type = np.float16) -> np.ndarray:
        return (rng.normal(size=shape) / 4).astype(dtype)

    constants = {
        "w": normal(4, 3, 3, 3),
        "b": normal(4),
        "d": normal(4, 1, 3, 3),
        "t": normal(4, 4, 2, 2),
        "g": normal(64, 5, dtype=last),
        "gb": normal(5, dtype=last),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "d"], ["dw"], "depthwise", pads=[1] * 4, group=4),
        helper.make_node("ConvTranspose", ["dw", "t"], ["u"], "up", strides=[2, 2]),
        helper.make_node("AveragePool", ["u"], ["p"], "average", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["p", "r"], ["a"], "add"),
        helper.make_node("MaxPool", ["a"], ["m"], "max", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["m"], ["f"], "flat"),
        helper.make_node("Cast", ["f"], ["h"], "cast", to=TensorProto.FLOAT if mixed else TensorProto.FLOAT16),
        helper.make_node("Gemm", ["h", "g", "gb"], ["y"], "fc"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n", 3, 8, 8])]
    element = TensorProto.FLOAT if mixed else TensorProto.FLOAT16
    outputs = [helper.make_tensor_value_info("y", element, ["n", 5])]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


X = np.random.default_rng(1).normal(size=(16, 3, 8, 8)).astype(np.float16)


@pytest.fixture(params=MIXED, ids=["float16", "mixed"])
def stages(request, tmp_path):
    """The model's file, the modules as imported, quantized and lowered, and the remarks."""
    path = network(tmp_path, request.param)
    np.savez(tmp_path / "x.npz", x=X)
    session = new_session()
    imported = frontends.read(path, session)
    quantized = imported.clone()
    make_pass("quantize", f"data={tmp_path / 'x.npz'}").apply(session, quantized)
    lowered = quantized.clone()
    make_pass("lower-to-ascend", "").apply(session, lowered)
    return path, imported, quantized, lowered, session.remarks


def test_outputs(stages):
    """The model as onnxruntime runs it, to the rounding of float16; quantized, to a few steps of int8."""
    ort = pytest.importorskip("onnxruntime")
    path, imported, quantized, lowered, _ = stages
    (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["y"], {"x": X})
    actual = run(imported, {"x": X})["y"]
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=2**-8, atol=2**-8)
    spread = np.abs(expected).max()
    for module in (quantized, lowered):
        quantized_y = run(module, {"x": X})["y"]
        assert quantized_y.dtype == expected.dtype
        np.testing.assert_allclose(quantized_y, expected, rtol=0, atol=0.04 * spread)


def test_pooling_and_addition_stay_float(stages):
    *_, remarks = stages
    missed = {r.layer: r.rule for r in remarks if r.pass_name == "insert-observers" and r.kind == "missed"}
    assert missed == {"average": "float16-off", "add": "float16-off", "max": "float16-off"}
    assert {r.layer for r in remarks if r.rule == "quantized"} == {"conv", "depthwise", "up", "fc"}


@pytest.mark.parametrize("behind", ["Cast", "nothing"])
def test_weights_that_a_cast_widens_are_of_float16(behind: str, tmp_path: Path) -> None:
    """Folding the Cast leaves float32 alone in the module, but the model has both types."""
    w = np.ones((4, 3, 1, 1), np.float32)
    cast = [helper.make_node("Cast", ["w"], ["w32"], "widen", to=TensorProto.FLOAT)] if behind == "Cast" else []
    nodes = [
        *cast,
        helper.make_node("Conv", ["x", "w32"], ["c"], "conv"),
        helper.make_node("AveragePool", ["c"], ["y"], "average", kernel_shape=[2, 2]),
    ]
    initializer = numpy_helper.from_array(w.astype(np.float16), "w") if cast else numpy_helper.from_array(w, "w32")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 4, 4]), ("y", None)))
    model = helper.make_model(helper.make_graph(nodes, "net", [x], [y], [initializer]), ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    for folds in (False, True):
        session = new_session()
        module = frontends.read(tmp_path / "net.onnx", session)
        if folds:
            make_pass("fold-constants", "").apply(session, module)
        make_pass("insert-observers", "").apply(session, module)
        missed = {r.layer: r.rule for r in session.remarks if r.pass_name == "insert-observers" and r.kind == "missed"}
        assert missed == ({"average": "float16-off"} if cast else {})


def test_dequantized_values_have_the_layers_type(stages):
    _, imported, _, lowered, _ = stages
    types = {
        layer_of(op): element_of(op.results[0]) for op in imported.walk() if op.name != "nn.constant" and op.results
    }
    found = [op for op in lowered.walk() if isinstance(op, ascend.AscendDequantOp)]
    assert {layer_of(op) for op in found} == {"conv", "depthwise", "up", "fc"}
    for op in found:
        assert element_of(op.y) == types[layer_of(op)]
        assert op.dtype.value.data == {Float32Type(): 0, Float16Type(): 1}[types[layer_of(op)]]


def test_dequantization_rounds_to_float16_once(equivalence):
    """float16(float32(acc) * deq_scale), also where the sum is not a float16 and the product is a tie or overflows."""
    text = """
    func.func @main(%x: tensor<1x4xf16>) -> tensor<1x1xf16> {
      %w = nn.constant dense<127> : tensor<4x1xi8>
      %scale = nn.constant dense<SCALE> : tensor<1xf32>
      %q = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<1x4xf16>) -> tensor<1x4xi8>
      %acc = ascend.MatMulV2 %q, %w : (tensor<1x4xi8>, tensor<4x1xi8>) -> tensor<1x1xi32>
      %y = ascend.AscendDequant %acc, %scale dtype 1 : (tensor<1x1xi32>, tensor<1xf32>) -> tensor<1x1xf16>
      func.return %y : tensor<1x1xf16>
    }
    """
    x = np.array([[100, 3, 100, 2]], np.float16)
    total = np.float32(127 * 205)
    for scale in (1.0, 0.5, 0.0625, 3.0, 0.000001):
        (y,) = run(equivalence.parse(text.replace("SCALE", f"{scale:.6f}")), {"x": x}).values()
        with np.errstate(over="ignore"):
            assert y == np.float16(total * np.float32(scale))
