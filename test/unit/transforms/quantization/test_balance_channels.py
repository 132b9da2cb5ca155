"""DMQ: the factors against brute force, the float model before and after, accuracy where channels differ, records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.record import RecordTarget
from amct_opt.tools import amct_opt
from amct_opt.transforms.quantization.recover.balance_channels import BALANCER

from ...values import normal, parsed

SPREAD = np.array([0.01, 30.0, 1.0, 0.2, 5.0, 0.5], np.float32)
"""How far apart the channels of the test data are."""


def dense(array: np.ndarray) -> str:
    kind = {"float32": "f32", "float16": "f16"}[array.dtype.name]
    shape = "x".join(map(str, array.shape))
    return f'dense<"0x{array.tobytes().hex()}"> : tensor<{shape}x{kind}>'


def layer(op: str, x: str, weight: np.ndarray, y: str) -> str:
    kind = "f16" if weight.dtype == np.float16 else "f32"
    w = f"tensor<{'x'.join(map(str, weight.shape))}x{kind}>"
    x, y = f"tensor<{x}x{kind}>", f"tensor<{y}x{kind}>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> ({y} {{nn.name = "y"}}) {{
  %w = nn.constant {dense(weight)}
  %y = {op} : ({x}, {w}) -> {y}
  func.return %y : {y}
}}
"""


def spread(*shape: int, axis: int = 1, dtype: type = np.float32) -> np.ndarray:
    """Normal data whose six channels on this axis differ by orders of magnitude."""
    factors = SPREAD.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return (normal(*shape, seed=1) * factors).astype(dtype)


def applied(name: str, options: str, text: str) -> tuple[ModuleOp, Session]:
    module, session = parsed(text)
    make_pass(name, options).apply(session, module)
    verify(module)
    return module, session


def balanced(data: Path, text: str, strength: float = 0.5) -> tuple[ModuleOp, Session]:
    """Planned, then balanced; observers, which stand after the products, compute nothing yet."""
    module, session = applied("insert-observers", f"dmq={strength}", text)
    make_pass("balance-channels", f"data={data}").apply(session, module)
    verify(module)
    return module, session


def factors_in(module: ModuleOp) -> np.ndarray:
    (product,) = [op for op in module.walk() if isinstance(op, nn.MulOp)]
    assert isinstance(product.origin, nn.OriginAttr)
    assert product.origin.op_type.data == BALANCER
    inverse = nn.array_of(product.operands[1])
    assert inverse is not None
    return 1 / inverse.astype(np.float64).reshape(-1)


def expected(activation: np.ndarray, weight: np.ndarray, strength: float) -> np.ndarray:
    """Channel by channel; both operands have their channels first."""
    a = [np.abs(channel).max() for channel in activation]
    w = [np.abs(channel).max() for channel in weight]
    return np.array([x**strength / y ** (1 - strength) for x, y in zip(a, w, strict=True)])


def first(array: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(array, axis, 0)


def by_group(weight: np.ndarray, groups: int) -> np.ndarray:
    """[out, in/groups, ...] to [in, out/groups, ...]."""
    return np.concatenate([first(part, 1) for part in np.split(weight, groups)])


CONV, GROUPED, DEPTH, VOLUME = normal(4, 6, 3, 3), normal(4, 3, 2, 2), normal(12, 1, 3, 3), normal(2, 6, 2, 2, 2)
DECONV, SPLIT = normal(6, 5, 2, 2), normal(6, 2, 2, 2)
FC, ROWS, LINE = normal(6, 5), normal(5, 6), normal(4, 6, 3)
HALF = normal(4, 6, 1, 1).astype(np.float16)

CASES = {
    "conv": (layer("nn.conv %x, %w", "?x6x5x5", CONV, "?x4x3x3"), spread(4, 6, 5, 5), 1, first(CONV, 1)),
    "nhwc": (
        layer("nn.conv %x, %w layout nhwc", "?x?x5x6", CONV, "?x?x3x4"),
        spread(4, 5, 5, 6, axis=3),
        3,
        first(CONV, 1),
    ),
    "line": (layer("nn.conv %x, %w", "2x6x5", LINE, "2x4x3"), spread(4, 6, 5), 1, first(LINE, 1)),
    "grouped": (
        layer("nn.conv %x, %w groups 2", "1x6x5x5", GROUPED, "1x4x4x4"),
        spread(4, 6, 5, 5),
        1,
        by_group(GROUPED, 2),
    ),
    "depthwise": (
        layer("nn.conv %x, %w groups 6", "1x6x5x5", DEPTH, "1x12x3x3"),
        spread(4, 6, 5, 5),
        1,
        DEPTH.reshape(6, 2, 3, 3),
    ),
    "volume": (layer("nn.conv %x, %w", "1x6x3x3x3", VOLUME, "1x2x2x2x2"), spread(2, 6, 3, 3, 3), 1, first(VOLUME, 1)),
    "deconv": (layer("nn.conv_transpose %x, %w", "1x6x3x3", DECONV, "1x5x4x4"), spread(4, 6, 3, 3), 1, DECONV),
    "split deconv": (
        layer("nn.conv_transpose %x, %w groups 3", "1x6x3x3", SPLIT, "1x6x4x4"),
        spread(4, 6, 3, 3),
        1,
        SPLIT,
    ),
    "matmul": (layer("nn.matmul %x, %w", "?x6", FC, "?x5"), spread(64, 6), 1, FC),
    "transpose_b": (layer("nn.matmul %x, %w transpose_b", "?x6", ROWS, "?x5"), spread(4, 6), 1, ROWS.T),
    "transpose_a": (layer("nn.matmul %x, %w transpose_a", "6x3", FC, "3x5"), spread(4, 6, 3), 1, FC),
    "batched": (layer("nn.matmul %x, %w", "?x?x6", FC, "?x?x5"), spread(4, 3, 6, axis=2), 2, FC),
}


@pytest.mark.parametrize("strength", [0.5, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_factors_and_equivalence(case: str, strength: float, tmp_path: Path) -> None:
    """The product and the weight cancel out; their factors are those of all data."""
    text, x, axis, weight_ = CASES[case]
    np.savez(tmp_path / "x.npz", x=x)
    module, session = balanced(tmp_path / "x.npz", text, strength)
    assert [r.rule for r in session.remarks if r.pass_name == "balance-channels"] == ["balanced"]
    np.testing.assert_allclose(factors_in(module), expected(first(x, axis), weight_, strength), rtol=1e-6)
    whole = parsed(text)[0]
    sample = x[:1] if text.count("?x") or "1x6x" in text else x[:2]
    sample = x[0] if case == "transpose_a" else sample
    before, after = (run(m, {"x": sample})["y"] for m in (whole, module))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * np.abs(before).max())


def test_half_precision(tmp_path: Path) -> None:
    """The weight is multiplied by what the rounded reciprocals divide by."""
    text = layer("nn.conv %x, %w", "1x6x2x2", HALF, "1x4x2x2")
    x = spread(4, 6, 2, 2, dtype=np.float16)
    np.savez(tmp_path / "x.npz", x=x)
    module, _ = balanced(tmp_path / "x.npz", text)
    np.testing.assert_allclose(factors_in(module), expected(first(x, 1), first(HALF, 1), 0.5), rtol=2e-3)
    before, after = (run(m, {"x": x[:1]})["y"] for m in (parsed(text)[0], module))
    np.testing.assert_allclose(after.astype(np.float32), before, atol=2e-3 * np.abs(before).max())


@pytest.mark.parametrize("case", ["conv", "grouped", "deconv", "matmul"])
def test_accuracy_of_spread_channels(case: str, tmp_path: Path) -> None:
    """One scale cannot serve channels of 0.01 and 30: balanced, they gain more than a bit gives, 6 dB."""
    text, x, axis, _ = CASES[case]
    np.savez(tmp_path / "x.npz", x=x)
    small = np.where(np.arange(6) == 1, 0, 1).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    sample = (x * small)[: None if "?x" in text else 1].astype(
        np.float32
    )  # the largest channel silent: what the others give
    truth = run(parsed(text)[0], {"x": sample})["y"]
    found = {
        option: sqnr(truth, run(applied("quantize", f"data={tmp_path}/x.npz {option}", text)[0], {"x": sample})["y"])
        for option in ("", "dmq=0.5")
    }
    assert found["dmq=0.5"] > found[""] + 6


def test_record_round_trip(tmp_path: Path) -> None:
    """A record of a balanced model gives the same model, and the same record."""
    text, x, _, _ = CASES["conv"]
    text = text.replace(" : (tensor<?x6x5x5", ' from <onnx, "Conv", "conv1"> : (tensor<?x6x5x5')
    np.savez(tmp_path / "x.npz", x=x)
    path, again = tmp_path / "record.txt", tmp_path / "again.txt"
    module, session = applied("quantize", f"data={tmp_path}/x.npz dmq=0.5", text)
    RecordTarget().write(module, path, session)
    assert path.read_text().count("tensor_balance_factor") == 6
    second, session = applied("quantize", f"record={path}", text)
    RecordTarget().write(second, again, session)
    assert again.read_text() == path.read_text()
    np.testing.assert_array_equal(run(second, {"x": x})["y"], run(module, {"x": x})["y"])


def test_balanced_once(tmp_path: Path) -> None:
    """Neither a second request nor a second quantization balances what is balanced."""
    text, x, _, _ = CASES["conv"]
    np.savez(tmp_path / "x.npz", x=x)
    module, session = balanced(tmp_path / "x.npz", text)
    for _ in range(2):
        make_pass("quantize", f"data={tmp_path}/x.npz dmq=0.5").apply(session, module)
    assert factors_in(module).size == 6


def test_an_overflow_is_located(tmp_path: Path) -> None:
    """An input that is finite, and a value in the model that is not."""
    text = """
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> (tensor<1x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %e = nn.mul %x, %x : tensor<1x2xf32>
  %y = nn.matmul %e, %w from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""
    np.savez(tmp_path / "x.npz", x=np.full((1, 2), 1e30, np.float32))
    with pytest.raises(CompileError, match=r"net\.mlir:5:3.*has an input whose values hold NaN or Inf"):
        balanced(tmp_path / "x.npz", text)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("simple.cfg", "override_layer_configs { layer_name: 'conv1' calibration_config { dmq_balancer {} } }"),
        ("simple.cfg", "override_layer_types { layer_type: 'Conv' calibration_config { dmq_balancer {} } }"),
        ("config.json", '{"conv1": {"dmq_balancer_param": 0.5}}'),
    ],
)
def test_configured_on_the_command_line(name: str, content: str, tmp_path: Path) -> None:
    """`amct-opt --quantize` with each form of configuration: the factors of the first run, in a product of the file."""
    import onnx

    text, x, _, weight_ = CASES["conv"]
    np.savez(tmp_path / "x.npz", x=x)
    (tmp_path / name).write_text(content)
    net = tmp_path / "net.mlir"
    net.write_text(text.replace(" : (tensor<?x6x5x5", ' from <onnx, "Conv", "conv1"> : (tensor<?x6x5x5'))
    options = f"--quantize=config={tmp_path / name} data={tmp_path}/x.npz"
    assert amct_opt.run([str(net), options, "-t", "onnx", "-o", str(tmp_path / "out.onnx")]) == 0
    graph = onnx.load(tmp_path / "out.onnx").graph
    (product,) = [n for n in graph.node if n.op_type == "Mul"]
    (quantize,) = [n for n in graph.node if n.op_type == "QuantizeLinear"]
    assert quantize.input[0] == product.output[0]
    (inverse,) = [i for i in graph.initializer if i.name == product.input[1]]
    found = 1 / onnx.numpy_helper.to_array(inverse).reshape(-1)
    np.testing.assert_allclose(found, expected(first(x[:1], 1), weight_, 0.5), rtol=1e-6)
