"""Products with a weight that is quantized by itself: as `nn` computes them, and next to float64 where every step is exact."""

from pathlib import Path

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
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
    expected = {2: "WeightQuantBatchMatmulV2", 3: "BatchMatMulV2"}[rank]
    assert f"ascend.{expected}" in [op.name for op in after.walk()]
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
    """What is read back from a deployable file computes the same bits.

    ONNX's MatMul has no bias: the Add after one of float16 would round a second time.
    """
    source = text(PARAMETERS[name], transposed, rank, element, integer)
    if (rank, element) == (3, "f16"):
        source = source.replace("%d, %b", "%d").replace(", tensor<3xf16>) ->", ") ->")
    module = equivalence.parse(source)
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


def in_groups(channels: int, transposed: bool, element: str, points: str = "", rank: int = 2) -> str:
    """A product with a weight of 4 bits in groups of 32 input channels."""
    groups, stored = -(-channels // 32), f"3x{channels}" if transposed else f"{channels}x3"
    rng = np.random.default_rng(2)
    numbers = rng.integers(-8, 8, [int(d) for d in stored.split("x")]).tolist()
    signs = 1 if points else rng.choice([-1, 1], 3 * groups)
    scales = (rng.uniform(0.01, 0.3, 3 * groups) * signs).astype(np.float16).tolist()
    x, y = (f"{'2x' * (rank - 2)}5x{n}x{element}" for n in (channels, 3))
    zero = f", zero_point = {rng.integers(-8, 8, 3 * groups).tolist()}" if points else ""
    return f"""
    func.func @main(%x: tensor<{x}>, %b: tensor<3x{element}>) -> tensor<{y}> {{
      %w = nn.constant dense<{numbers}> : tensor<{stored}xi4>
      %d = nn.dequantize %w by <i4, scale = {scales}{zero}, axis = {int(transposed)}, block = 32> :
        (tensor<{stored}xi4>) -> tensor<{stored}x{element}>
      %y = nn.matmul %x, %d, %b{" transpose_b" if transposed else ""} :
        (tensor<{x}>, tensor<{stored}x{element}>, tensor<3x{element}>) -> tensor<{y}>
      func.return %y : tensor<{y}>
    }}"""


@pytest.mark.parametrize("points", ["", "points"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_groups(element, transposed, points, equivalence, tmp_path):
    """The same numbers before lowering, after it, and read back from a deployable file."""
    before = equivalence.parse(in_groups(64, transposed, element, points))
    lowered = equivalence.after(before, "lower-to-ascend")
    operator = {"f32": "AscendAntiQuant", "f16": "WeightQuantBatchMatmulV2"}[element]
    assert f"ascend.{operator}" in [op.name for op in lowered.walk()]
    OnnxAscendTarget().write(lowered, tmp_path / "y.onnx", new_session())
    read = frontends.read(tmp_path / "y.onnx", new_session())
    x = equivalence.random_inputs(before)
    (wanted,), (actual,), (again,) = (run(m, x).values() for m in (before, lowered, read))
    np.testing.assert_allclose(
        actual, wanted, rtol=0, atol={"f32": 1e-5, "f16": 2.0**-9}[element] * np.abs(wanted).max()
    )
    assert again.tobytes() == actual.tobytes()


@pytest.mark.parametrize(
    ("source", "rule", "reason"),
    [
        (in_groups(40, False, "f32"), "group-size", "groups of 32 do not divide its 40 input channels"),
        (
            in_groups(32, False, "f16"),
            "group-size",
            "WeightQuantBatchMatmulV2 has groups of 32, 64, ... fewer than all",
        ),
        (in_groups(64, False, "f16", rank=3), "channel-scales", "AscendAntiQuantV2 has scales along the last axis"),
    ],
    ids=["last-group", "one-group", "batch"],
)
def test_groups_that_have_no_form(source, rule, reason, equivalence):
    """The product stays float, with a remark."""
    before = equivalence.parse(source)
    session = new_session()
    after = before.clone()
    make_pass("lower-to-ascend", "").apply(session, after)
    said = [(r.rule, r.reason) for r in session.remarks if r.kind == "missed"]
    assert any(r == rule and reason in text for r, text in said), said
    equivalence.assert_equivalent(before, after, rtol=2e-3, atol=2e-3)


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
