"""Profile qdq in numbers: group ranges, the integers of weights, and files that onnxruntime runs in integer kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.data import load_samples
from amct_opt.dialects import nn
from amct_opt.engines import Runner
from amct_opt.ir.functions import main_function, return_op
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend.profiles import like_amct
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import Executable, run
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.transforms.quantization.calibrate import calibrate

from ...scripts import script
from ...targets.operations import const, module_of
from ...values import layer_of, made_by

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES = Path(__file__).parents[4] / "examples"
DIGITS = EXAMPLES / "digits"


def qdq_session(profile: str = "qdq") -> Session:
    session = new_session()
    session.profile = profile
    return session


def quantized(model: Path, data: Path, options: str = "", profile: str = "qdq") -> tuple[ModuleOp, Session]:
    session = qdq_session(profile)
    module = frontends.read(model, session)
    passes = [make_pass("fuse-all"), make_pass("quantize", f"data={data} {options}")]
    run_passes(module, passes, session)
    return module, session


def in_onnxruntime(path: Path, inputs: dict[str, Array], optimized: Path | None = None) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it says that an optimized file is for this machine
    if optimized is None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    else:
        options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (output,) = map(np.asarray, session.run(None, inputs))
    return output


def kernels(optimized: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(optimized).graph.node)


def output_scale(module: ModuleOp) -> float:
    """The scale of the model's one output."""
    (value,) = return_op(main_function(module)).operands
    return float(made_by(value, nn.DequantizeOp).qparams.data.scales())


def heldout() -> dict[str, Array]:
    with np.load(DIGITS / "heldout.npz") as arrays:
        return dict(arrays)


def test_digits_in_integer_kernels(tmp_path: Path) -> None:
    """Five convolutions, the addition, the poolings and the product are integer; outputs are the interpreter's."""
    module, session = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz")
    path, optimized = tmp_path / "digits_qdq.onnx", tmp_path / "optimized.onnx"
    OnnxTarget().write(module, path, session)
    inputs = heldout()
    (ours,) = Executable(module, rewrite=in_integers).run(inputs).values()
    theirs = in_onnxruntime(path, inputs, optimized)
    found = kernels(optimized)
    assert found["QLinearConv"] == 5
    assert (
        found["QGemm"] == found["QLinearAdd"] == found["QLinearAveragePool"] == found["QLinearGlobalAveragePool"] == 1
    )
    assert not {"Conv", "FusedConv", "Gemm", "Add", "AveragePool"} & set(found)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    labels = np.load(DIGITS / "heldout_labels.npy")
    floats = in_onnxruntime(DIGITS / "digits.onnx", inputs)
    for logits in (ours, theirs):
        assert (logits.argmax(1) == labels).mean() >= (floats.argmax(1) == labels).mean() - 0.005


@pytest.mark.parametrize("batch", [(), (2,), ("N",), ("N", 3)], ids=str)
def test_products_with_their_constant_on_the_left(
    batch: tuple[str | int, ...], tmp_path: Path, rng: np.random.Generator
) -> None:
    """They mix channels, with a bias for each: integer kernels, of any rank, that give the interpreter's outputs."""
    numbers = {"W": (6, 4), "b": (6, 1), "V": (3, 6)}
    held = [onnx.numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in numbers.items()]
    nodes = [
        onnx.helper.make_node("MatMul", ["W", "x"], ["mixed"]),
        onnx.helper.make_node("Add", ["mixed", "b"], ["sum"]),
        onnx.helper.make_node("Relu", ["sum"], ["positive"]),
        onnx.helper.make_node("MatMul", ["V", "positive"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(n, 1, [*batch, c, 9]) for n, c in (("x", 4), ("y", 3))]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], held),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    source, data, path, optimized = (tmp_path / name for name in ("m.onnx", "x.npz", "q.onnx", "o.onnx"))
    onnx.save(model, source)
    sizes = [2 if isinstance(size, str) else size for size in batch]
    inputs = {"x": rng.normal(size=[*sizes, 4, 9]).astype(np.float32)}
    np.savez(data, x=inputs["x"])
    session = qdq_session()
    module = frontends.read(source, session)
    like_amct(of_amct := module.clone(), as_amct := new_session())
    run_passes(of_amct, [make_pass("canonicalize")], as_amct)
    assert sum(isinstance(op, nn.MatMulOp) for op in of_amct.walk()) == 2, "AMCT's files keep to AMCT's layers"
    run_passes(module, [make_pass(n) for n in ("canonicalize", "fuse-all")], session)
    run_passes(module, [make_pass("quantize", f"data={data}")], session)
    OnnxTarget().write(module, path, session)
    theirs, expected = in_onnxruntime(path, inputs, optimized), in_onnxruntime(source, inputs)
    found = kernels(optimized)
    assert found["QLinearConv"] == 2
    assert not {"MatMul", "Conv", "FusedConv", "Add", "Relu"} & set(found)
    (ours,) = Executable(module, rewrite=in_integers).run(inputs).values()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.square(expected).sum() > 10**3 * np.square(theirs - expected).sum()  # 30 dB


def zero_points(path: Path) -> list[Array]:
    """The zero points of a file's activations."""
    graph = onnx.load(path).graph
    arrays = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    found = [arrays[n.input[2]] for n in graph.node if n.op_type == "QuantizeLinear"]
    assert len(found) > 5
    return found


@pytest.mark.parametrize("offset", [True, False])
def test_openvino_gets_uint8_only_with_zero_points(offset: bool, tmp_path: Path) -> None:
    """It computes in float what reads int8 with a zero point."""
    options = f"activation-offset={str(offset).lower()}"
    module, session = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz", options, "openvino")
    OnnxTarget().write(module, tmp_path / "digits_qdq.onnx", session)
    found = zero_points(tmp_path / "digits_qdq.onnx")
    assert all(each == 0 if each.dtype == np.int8 else each != 128 for each in found)
    assert any(each.dtype == np.uint8 for each in found) == offset


def test_activations_are_uint8_with_the_same_numbers(tmp_path: Path) -> None:
    """Every QuantizeLinear of activations gives uint8; without onnxruntime's optimizations the file is the module's numbers."""
    module, session = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz", profile="ppq")
    path = tmp_path / "digits_qdq.onnx"
    OnnxTarget().write(module, path, session)
    assert {zero_point.dtype for zero_point in zero_points(path)} == {np.dtype(np.uint8)}
    inputs = heldout()
    (ours,) = run(module, inputs).values()
    steps = np.abs(ours - in_onnxruntime(path, inputs)) / output_scale(module)
    assert steps.max() <= 1.01
    assert (steps > 0.5).mean() < 0.01


@pytest.mark.slow
def test_squeezenet_in_integer_kernels(tmp_path: Path) -> None:
    """All 26 convolutions, the concats and the poolings between them: nothing in between is float.

    Weights are random and sums round differently on the two sides, so outputs are held to each other by their correlation.
    """
    models = script("examples/models/light")
    model, data = tmp_path / "squeezenet.onnx", tmp_path / "calib.npz"
    full = models.without_softmax(models.build("squeezenet"))
    onnx.save(full, model)
    name = full.graph.input[0].name
    np.savez(data, **{name: models.images(4, 3)})
    module, session = quantized(model, data)
    path, optimized = tmp_path / "int8.onnx", tmp_path / "optimized.onnx"
    OnnxTarget().write(module, path, session)
    inputs = {name: models.images(1, 5)}
    theirs = in_onnxruntime(path, inputs, optimized)
    found = kernels(optimized)
    assert found["QLinearConv"] == 26
    assert found["QLinearConcat"] == 8
    assert found["QuantizeLinear"] == found["DequantizeLinear"] == 1
    assert not {"Conv", "FusedConv", "Concat", "Relu"} & set(found)
    (ours,) = run(module, inputs).values()
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.98


ADDITION = """func.func @main(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) -> tensor<1x8xf32> {
  %s = nn.add %x, %y from <onnx, "Add", "s"> : tensor<1x4xf32>
  %c = nn.concat %s, %y axis 1 from <onnx, "Concat", "c"> : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
  func.return %c : tensor<1x8xf32>
}"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # x in [-1, 3], y in [-5, 2], their sum in [-6, 5], all of it in the concat
        ("align-concat=none", {"x": (-5, 3), "y": (-5, 3), "s": (-6, 5), "c": (-6, 5)}),
        ("align-elementwise=none align-concat=none", {"x": (-1, 3), "y": (-5, 2), "s": (-6, 5), "c": (-6, 5)}),
        ("align-elementwise=output align-concat=none", {"x": (-6, 5), "y": (-6, 5), "s": (-6, 5), "c": (-6, 5)}),
        ("align-elementwise=none", {"x": (-1, 3), "y": (-6, 5), "s": (-6, 5), "c": (-6, 5)}),
        ("align-elementwise=none align-concat=large", {"x": (-1, 3), "y": (-6, 5), "s": (-6, 5), "c": (-6, 5)}),
        ("", {"x": (-6, 5), "y": (-6, 5), "s": (-6, 5), "c": (-6, 5)}),
    ],
)
def test_groups_share_a_range(options: str, expected: dict[str, tuple[float, float]], tmp_path: Path) -> None:
    source = tmp_path / "add.mlir"
    source.write_text(ADDITION)
    session = qdq_session("ppq")
    module = frontends.read(source, session)
    run_passes(module, [make_pass("insert-observers", options)], session)
    points = [o for o in module.walk() if isinstance(o, nn.ObserveOp)]
    first, second = np.array([[-1, 3, 0, 0]], np.float32), np.array([[-5, 2, 0, 0]], np.float32)
    np.savez(tmp_path / "data.npz", x=first, y=second)
    calibrate(module, points, load_samples(tmp_path / "data.npz", main_function(module)), session, Runner())
    assert {p.input.name_hint: p.range and p.range.data for p in points} == expected
    groups = {p.group for p in points if p.group is not None}
    assert all(len({p.qparams for p in points if p.group == group}) == 1 for group in groups)


def test_an_encoder_is_in_integers_where_it_pays(tmp_path: Path) -> None:
    """Profile qdq keeps in float what onnxruntime computes in float: closer to the float model than PPQ's placement."""
    model, data = EXAMPLES / "models" / "transformer.onnx", tmp_path / "calib.npz"
    random = np.random.default_rng(0)
    name = onnx.load(model).graph.input[0].name
    np.savez(data, **dict[str, Any]({name: random.standard_normal((32, 16, 64), np.float32)}))
    held_out = {name: random.standard_normal((1, 16, 64), np.float32)}
    reference = in_onnxruntime(model, held_out)
    noise: dict[str, float] = {}
    for profile in ("qdq", "ppq"):
        module, session = quantized(model, data, profile=profile)
        path, optimized = tmp_path / f"{profile}.onnx", tmp_path / f"{profile}_optimized.onnx"
        OnnxTarget().write(module, path, session)
        noise[profile] = float(np.square(in_onnxruntime(path, held_out, optimized) - reference).sum())
        found = kernels(optimized)
        assert not {"MatMul", "Gemm", "FusedMatMul"} & set(found)
        assert found["QLinearAdd"] == 0 or profile == "ppq"
    assert noise["qdq"] < 0.8 * noise["ppq"]


def test_weights_have_a_scale_per_column_under_transposes_too(tmp_path: Path) -> None:
    """The scale of each column is its largest sum of two neighbours over 127, whichever way the matrix lies."""
    weight = np.array([[1, 10, 100], [0.5, 2, 3]], np.float32)
    for text, matrix, axis in (("", weight, 1), ("transpose_b ", weight.T, 0)):
        numbers = ", ".join(str([float(v) for v in row]) for row in matrix)
        shape = "x".join(map(str, matrix.shape))
        source = tmp_path / "product.mlir"
        source.write_text(
            f"""func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {{
  %w = nn.constant dense<[{numbers}]> : tensor<{shape}xf32>
  %y = nn.matmul %x, %w {text}: (tensor<1x2xf32>, tensor<{shape}xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}}"""
        )
        session = qdq_session()
        module = frontends.read(source, session)
        np.savez(tmp_path / "data.npz", x=np.array([[1, -1]], np.float32))
        run_passes(module, [make_pass("quantize", f"data={tmp_path / 'data.npz'}")], session)
        (product,) = (o for o in module.walk() if isinstance(o, nn.MatMulOp))
        p = made_by(product.rhs, nn.DequantizeOp).qparams.data
        assert p.axis == axis
        np.testing.assert_array_equal(p.scales(), (np.array([1.5, 12, 103], np.float64) / 127).astype(np.float32))


def test_quantizing_twice_changes_nothing(tmp_path: Path) -> None:
    module, session = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz")
    before = str(module)
    run_passes(module, [make_pass("quantize", f"data={DIGITS / 'calib.npz'}")], session)
    assert str(module) == before


def at_run_time(x: Any) -> Any:
    """A convolution with a weight that is computed, and one that is constant, of the same value."""
    weight = nn.ReluOp.make(x)
    return nn.ConvOp.make(x, weight, pads=(1, 1, 1, 1)), nn.ConvOp.make(x, const(np.ones((3, 3, 1, 1))))


FLOAT_AFTER_INTEGERS: Mapping[str, Callable[[Any], Any]] = {
    "linear resize": lambda x: nn.ResizeOp.make(x, sizes=(0, 0, 5, 5), mode="linear"),
    "cubic resize": lambda x: nn.ResizeOp.make(x, sizes=(0, 0, 5, 5), mode="cubic"),
    "padding with one": lambda x: nn.PadOp.make(x, pads=(0, 0, 1, 1) * 2, value=1.0),
    "computed weight": at_run_time,
}
"""Operations that stay float although they read what others quantize."""


@pytest.mark.parametrize("profile", ["qdq", "ppq", "ascend", "ascend-a2"])
@pytest.mark.parametrize("name", FLOAT_AFTER_INTEGERS)
def test_quantizing_twice_leaves_float_what_was_float(name: str, profile: str, tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        results = FLOAT_AFTER_INTEGERS[name](nn.ConvOp.make(x, const(np.ones((3, 3, 1, 1)))))
        results = results if isinstance(results, tuple) else (results,)
        return tuple(nn.TransposeOp.make(each, perm=(3, 2, 1, 0)) for each in results)

    image = np.random.default_rng(0).normal(size=(3, 3, 3, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x0=image)
    module, session = module_of(build, [image], dynamic=False), qdq_session(profile)
    quantize = make_pass("quantize", f"data={tmp_path / 'data.npz'}")
    run_passes(module, [quantize], session)
    before = str(module)
    run_passes(module, [quantize], session)
    assert str(module) == before


@pytest.mark.parametrize("profile", ["qdq", "ascend"])
def test_a_quantized_file_stays_as_it_is(profile: str, tmp_path: Path) -> None:
    """Layers that the first run left in float stay so, unless they are named."""
    file = tmp_path / "qdq.onnx"
    first, session = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz", "skip-layers=conv1,conv2", profile)
    OnnxTarget().write(first, file, session)
    before = frontends.read(file, session)

    def points(module: ModuleOp) -> int:
        return sum(isinstance(op, nn.QuantizeOp | nn.DequantizeOp) for op in module.walk())

    again, session = quantized(file, DIGITS / "calib.npz", profile=profile)
    assert points(again) == points(before)
    assert next(r.rule for r in session.remarks if r.layer == "conv1" and r.kind == "missed") == "left-in-float"
    assert [each for each in session.warnings if each.startswith("the model is already quantized; ")]
    named, session = quantized(file, DIGITS / "calib.npz", "layer-weight-bits=conv1:8", profile)
    assert points(named) > points(before)
    assert not [r for r in session.remarks if r.layer == "conv1" and r.rule == "left-in-float"]


@pytest.mark.parametrize(("options", "points"), [("", 1), ("only-layers=product", 2)])
def test_a_product_gets_the_point_that_it_lacks_where_it_is_named(options: str, points: int, tmp_path: Path) -> None:
    text = """func.func @main(%q: tensor<2x2xf32> {nn.name = "q"}) -> tensor<2x2xf32> {
      %k = nn.quantize %q by <i8, scale = 0.5> : (tensor<2x2xf32>) -> tensor<2x2xi8>
      %d = nn.dequantize %k by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
      %y = nn.matmul %q, %d from <onnx, "MatMul", "product"> : tensor<2x2xf32>
      func.return %y : tensor<2x2xf32>
    }"""
    np.savez(tmp_path / "data.npz", q=np.ones((2, 2), np.float32))
    session = qdq_session("ascend-a2")
    module = parse_module(session, text)
    run_passes(module, [make_pass("quantize", f"data={tmp_path / 'data.npz'} {options}")], session)
    assert sum(isinstance(op, nn.QuantizeOp) for op in module.walk()) == points


def test_a_layer_that_is_skipped_keeps_its_weight(tmp_path: Path) -> None:
    module, _ = quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz", "skip-layers=conv2")
    weights = {
        layer_of(o): type((fused.operands[1] if isinstance(fused := o.parent_op(), nn.FusedOp) else o.weight).owner)
        for o in module.walk()
        if isinstance(o, nn.ConvOp)
    }
    assert {name for name, kind in weights.items() if kind is not nn.DequantizeOp} == {"conv2"}


@pytest.mark.parametrize("computing_first", [True, False])
def test_settings_of_a_shared_input_do_not_depend_on_the_order_of_its_readers(computing_first: bool) -> None:
    """A convolution of rank 5 takes symmetric activations only, a reshape takes any."""
    readers = [
        "%y = nn.conv %x, %w : (tensor<1x2x3x4x4xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x3x4x4xf32>",
        "%z = nn.reshape %x to [1, 96] : (tensor<1x2x3x4x4xf32>) -> tensor<1x96xf32>",
    ]
    text = "\n".join([
        'func.func @main(%x: tensor<1x2x3x4x4xf32> {nn.name = "x"}) -> '
        '(tensor<1x2x3x4x4xf32> {nn.name = "y"}, tensor<1x96xf32> {nn.name = "z"}) {',
        "%w = nn.constant dense<0.5> : tensor<2x2x1x1x1xf32>",
        *(readers if computing_first else reversed(readers)),
        "func.return %y, %z : tensor<1x2x3x4x4xf32>, tensor<1x96xf32>\n}",
    ])  # fmt: skip
    session = qdq_session()
    module = parse_module(session, text)
    make_pass("insert-observers", "").apply(session, module)
    (x,) = main_function(module).body.block.args
    (point,) = [use.operation for use in x.uses if isinstance(use.operation, nn.ObserveOp)]
    assert point.symmetric is not None
