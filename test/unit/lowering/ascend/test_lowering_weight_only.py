"""Products with a weight that is quantized by itself: as `nn` computes them, and next to float64 where every step is exact."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from amct_opt import frontends
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.tools import amct_opt

TRANSFORMER = Path(__file__).parents[4] / "examples" / "models" / "transformer.onnx"

COLUMNS = "scale = [0.25, 0.013, 1.7], zero_point = [3, -4, 0], axis = %d"
PARAMETERS = {
    "tensor": "scale = 0.013",
    "tensor_zero_point": "scale = 0.013, zero_point = -7",
    "columns": "scale = [0.25, 0.013, 1.7], axis = %d",
    "columns_zero_points": COLUMNS,
    "columns_one_zero_point": "scale = [0.25, 0.013, 1.7], zero_point = 5, axis = %d",
}


def text(parameters: str, transposed: bool, rank: int, element: str, integer: str = "i8") -> str:
    stored = "3x4" if transposed else "4x3"
    parameters = parameters.replace("%d", "0" if transposed else "1")
    rng = np.random.default_rng(0)
    low, high = (-128, 128) if integer == "i8" else (-8, 8)
    numbers = rng.integers(low, high, [int(d) for d in stored.split("x")]).tolist()
    x, y = (f"{'2x' * (rank - 2)}5x{n}x{element}" for n in (4, 3))
    flag = " transpose_b" if transposed else ""
    return f"""
    func.func @main(%x: tensor<{x}>, %b: tensor<3x{element}>) -> tensor<{y}> {{
      %w = nn.constant dense<{numbers}> : tensor<{stored}x{integer}>
      %d = nn.dequantize %w by <{integer}, {parameters}> : (tensor<{stored}x{integer}>) -> tensor<{stored}x{element}>
      %y = nn.matmul %x, %d, %b{flag} : (tensor<{x}>, tensor<{stored}x{element}>, tensor<3x{element}>) -> tensor<{y}>
      func.return %y : tensor<{y}>
    }}"""


@pytest.mark.parametrize("integer", ["i8", "i4"])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", PARAMETERS)
def test_float32(name, transposed, rank, integer, equivalence):
    before = equivalence.parse(text(PARAMETERS[name], transposed, rank, "f32", integer))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    assert "ascend.AscendAntiQuant" in [op.name for op in after.walk()]
    equivalence.assert_equivalent(before, after, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("integer", ["i8", "i4"])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", PARAMETERS)
def test_float16(name, transposed, rank, integer, equivalence):
    """Scales are rounded to float16 for the one operation of matrices: 2^-11 of every summand, as the sums are rounded."""
    before = equivalence.parse(text(PARAMETERS[name], transposed, rank, "f16", integer))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    assert "ascend.WeightQuantBatchMatmulV2" in [op.name for op in after.walk()]
    x = equivalence.random_inputs(before)
    wanted = run(before, x)["result0"].astype(float)
    actual = run(after, x)["result0"].astype(float)
    scale = np.abs(x["x"].astype(float)).max() * 140 * 4 * 1.7 if integer == "i8" else 100
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=scale * 2.0**-10)


@pytest.mark.slow
@pytest.mark.parametrize(("element", "integer"), [("f32", "i8"), ("f32", "i4"), ("f16", "i8"), ("f16", "i4")])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", PARAMETERS)
def test_files(name, transposed, rank, element, integer, equivalence, tmp_path):
    """What is read back from a deployable file computes the same bits."""
    module = equivalence.parse(text(PARAMETERS[name], transposed, rank, element, integer))
    lowered = equivalence.after(module, "lower-to-ascend")
    OnnxAscendTarget().write(lowered, tmp_path / "y.onnx", new_session())
    x = equivalence.random_inputs(lowered)
    (expected,), (actual,) = (run(m, x).values() for m in (lowered, frontends.read(tmp_path / "y.onnx", new_session())))
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == expected.tobytes()


def test_scales_of_powers_of_two_are_exact(equivalence):
    """x of small integers: every number is exact, so that float64 gives the same."""
    parameters = "scale = [0.25, 2.0, 0.5], zero_point = [3, -4, 100], axis = %d"
    rng = np.random.default_rng(1)
    x, b = rng.integers(-9, 9, (5, 4)).astype(np.float32), rng.integers(-9, 9, 3).astype(np.float32)
    w = np.random.default_rng(0).integers(-128, 128, (4, 3))
    real = (w - np.array([3, -4, 100])) * np.array([0.25, 2, 0.5])
    module = equivalence.after(equivalence.parse(text(parameters, False, 2, "f32")), "lower-to-ascend")
    np.testing.assert_array_equal(run(module, {"x": x, "b": b})["result0"], x.astype(float) @ real + b)


def test_a_weight_of_a_float_layer_is_the_same_numbers(equivalence, net):
    """Channels last, where the filter is rearranged, and channels second."""
    from amct_opt.dialects import nn

    rng = np.random.default_rng(0)
    for layout, shape in (("nchw", (1, 3, 5, 5)), ("nhwc", (1, 5, 5, 3))):
        n = net(*shape)
        weight = n.parameter(rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8), [0.1, 0.2, 0.3, 0.4], axis=0)
        before = n.module(n.add(nn.ConvOp.make(n.x, weight, layout=layout)))
        equivalence.assert_equivalent(before, equivalence.after(before, "lower-to-ascend", "legalize-ascend"))


def in_groups(
    channels: int, transposed: bool, element: str, points: str = "", rank: int = 2, block: int = 32, out: int = 3
) -> str:
    """A product with a weight of 4 bits in groups of input channels."""
    groups, stored = -(-channels // block), f"{out}x{channels}" if transposed else f"{channels}x{out}"
    rng = np.random.default_rng(2)
    numbers = rng.integers(-8, 8, [int(d) for d in stored.split("x")]).tolist()
    signs = 1 if points else rng.choice([-1, 1], out * groups)
    scales = (rng.uniform(0.01, 0.3, out * groups) * signs).astype(np.float16).tolist()
    x, y = (f"{'2x5x'[-2 * (rank - 1) :] if rank > 1 else ''}{n}x{element}" for n in (channels, out))
    zero = f", zero_point = {rng.integers(-8, 8, out * groups).tolist()}" if points else ""
    return f"""
    func.func @main(%x: tensor<{x}>, %b: tensor<{out}x{element}>) -> tensor<{y}> {{
      %w = nn.constant dense<{numbers}> : tensor<{stored}xi4>
      %d = nn.dequantize %w by <i4, scale = {scales}{zero}, axis = {int(transposed)}, block = {block}> :
        (tensor<{stored}xi4>) -> tensor<{stored}x{element}>
      %y = nn.matmul %x, %d, %b{" transpose_b" if transposed else ""} :
        (tensor<{x}>, tensor<{stored}x{element}>, tensor<{out}x{element}>) -> tensor<{y}>
      func.return %y : tensor<{y}>
    }}"""


@pytest.mark.parametrize("points", ["", "points"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("element", "rank", "block", "operator"),
    [
        *(("f32", rank, 32, "AscendAntiQuant") for rank in (2, 3)),
        *(("f16", rank, block, "WeightQuantBatchMatmulV2") for rank in (1, 2, 3) for block in (32, 64)),
        ("f16", 3, 16, "AscendAntiQuant"),
    ],
)
def test_groups(element, rank, block, operator, transposed, points, equivalence, tmp_path):
    """The same numbers before lowering, after it, and read back from a deployable file."""
    before = equivalence.parse(in_groups(64, transposed, element, points, rank, block))
    lowered = equivalence.after(before, "lower-to-ascend")
    assert f"ascend.{operator}" in [op.name for op in lowered.walk()]
    OnnxAscendTarget().write(lowered, tmp_path / "y.onnx", new_session())
    read = frontends.read(tmp_path / "y.onnx", new_session())
    x = equivalence.random_inputs(before)
    (wanted,), (actual,), (again,) = (run(m, x).values() for m in (before, lowered, read))
    np.testing.assert_allclose(
        actual, wanted, rtol=0, atol={"f32": 1e-5, "f16": 2.0**-9}[element] * np.abs(wanted).max()
    )
    assert again.tobytes() == actual.tobytes()


@pytest.mark.parametrize("out", [16, 12])
def test_int4_is_stored_packed(out, equivalence, tmp_path):
    """Eight numbers in an int32 where they divide the columns, else one in an int8."""
    module = equivalence.parse(in_groups(64, True, "f16", out=out))
    OnnxAscendTarget().write(module, tmp_path / "y.onnx", new_session())
    graph = onnx.load(tmp_path / "y.onnx").graph
    (node,) = [node for node in graph.node if node.op_type == "WeightQuantBatchMatmulV2"]
    (weight,) = [onnx.numpy_helper.to_array(each) for each in graph.initializer if each.name == node.input[1]]
    assert (node.domain, weight.dtype, weight.shape) == {16: ("npu", "int32", (64, 2)), 12: ("npu", "int8", (64, 12))}[
        out
    ]
    x = equivalence.random_inputs(module)
    lowered, read = equivalence.after(module, "lower-to-ascend"), frontends.read(tmp_path / "y.onnx", new_session())
    (wanted,), (actual,) = (run(m, x).values() for m in (lowered, read))
    assert actual.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("element", "integer"), [("f32", "i4"), ("f32", "i8"), ("f16", "i4")])
def test_int4_next_to_float32_is_stored_as_int8_with_a_note(element, integer, equivalence, tmp_path, capsys):
    module = equivalence.parse(text(PARAMETERS["tensor"], False, 2, element, integer))
    OnnxAscendTarget().write(module, tmp_path / "y.onnx", new_session())
    assert ("stored in 8 bits" in capsys.readouterr().err) == ((element, integer) == ("f32", "i4"))


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_a_weight_that_would_become_floats_is_an_error_of_the_file(element, equivalence, tmp_path):
    """As a pass it is a remark."""
    module = equivalence.parse(in_groups(40, False, element, block=12))
    session = new_session()
    after = module.clone()
    make_pass("lower-to-ascend", "").apply(session, after)
    assert any(r.rule == "group-size" for r in session.remarks)
    equivalence.assert_equivalent(module, after, rtol=2e-3, atol=2e-3)
    with pytest.raises(
        CompileError, match=r"cannot read as integers: .*groups of 12 do not divide its 40 input channels"
    ):
        OnnxAscendTarget().write(module, tmp_path / "y.onnx", session)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    ["channel-wise=true weight-asymmetric=true", "weight-bits=4 channel-wise=true", "weight-bits=4 group-size=16"],
)
def test_a_transformer_on_the_command_line(options, equivalence, tmp_path):
    """All products keep integers, the file is less than half of the float one, and the numbers are those before lowering."""
    passes = ["--fuse-all", f"--quantize=weight-only=true {options}"]
    assert amct_opt.run([str(TRANSFORMER), *passes, "-o", str(tmp_path / "nn.mlir")]) == 0
    lowering = ["--lower-to-ascend", "--legalize-ascend"]
    assert amct_opt.run([str(TRANSFORMER), *passes, *lowering, "-o", str(tmp_path / "y.mlir")]) == 0
    assert amct_opt.run([str(TRANSFORMER), *passes, "-t", "onnx-ascend", "-o", str(tmp_path / "y.onnx")]) == 0
    assert (tmp_path / "y.onnx").stat().st_size < TRANSFORMER.stat().st_size / 2
    before, after, deployed = (
        frontends.read(tmp_path / name, new_session()) for name in ("nn.mlir", "y.mlir", "y.onnx")
    )
    assert len([op for op in after.walk() if op.name == "ascend.AscendAntiQuant"]) == 13
    x = equivalence.random_inputs(before)
    (wanted,), (actual,), (read,) = (run(module, x).values() for module in (before, after, deployed))
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert read.tobytes() == actual.tobytes()
