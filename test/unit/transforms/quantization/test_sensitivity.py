"""The sensitivity of layers, against numpy and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.data import from_batches, load_samples
from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.recover.sensitivity import sensitivities

from ...values import dense, normal

FIRST = normal(6, 5)
SECOND = (normal(5, 4) ** 5).astype(np.float32)


NET = f"""
func.func @main(%x: tensor<?x6xf32> {{nn.name = "x"}}) -> (tensor<?x4xf32> {{nn.name = "y"}}) {{
  %w = nn.constant {dense(FIRST)}
  %v = nn.constant {dense(SECOND)}
  %1 = nn.fused "LinearReLU" (%a = %x, %b = %w) : (tensor<?x6xf32>, tensor<6x5xf32>) -> tensor<?x5xf32> {{
    %c = nn.matmul %a, %b from <onnx, "Gemm", "fc1"> : (tensor<?x6xf32>, tensor<6x5xf32>) -> tensor<?x5xf32>
    %r = nn.relu %c : tensor<?x5xf32>
    nn.yield %r : tensor<?x5xf32>
  }}
  %y = nn.matmul %1, %v from <onnx, "Gemm", "fc2"> : (tensor<?x5xf32>, tensor<5x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}}
"""


def parsed(text: str) -> tuple[ModuleOp, Session]:
    session = new_session()
    return parse_module(session, text, "net.mlir"), session


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> Path:
    x = (rng.normal(size=(7, 6)) * np.array([0.1, 30, 1, 1, 0.5, 2])).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    return tmp_path / "x.npz"


def found(data: Path, options: str) -> dict[str, float]:
    whole, session = parsed(NET)
    quantized = whole.clone()
    make_pass("quantize", f"data={data} {options}").apply(session, quantized)
    return sensitivities(whole, quantized, load_samples(data, main_function(whole)), session)


def rounded(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Through eight asymmetric bits."""
    scale = np.float32((high - low) / 255)
    zero = np.rint(-128 - low / scale)
    return ((np.clip(np.rint(x / scale) + zero, -128, 127) - zero) * scale).astype(np.float32)


def symmetric(w: np.ndarray) -> np.ndarray:
    scale = np.float32(w.max() / 127 if w.max() >= -w.min() else -w.min() / 128)
    return (np.clip(np.rint(w / scale), -128, 127) * scale).astype(np.float32)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return 0.5 + 0.5 * float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def test_against_numpy(data: Path) -> None:
    """Each layer by itself, with the inputs of the float model, over all samples; the worst first."""
    x = np.load(data)["x"]
    h = np.maximum(x @ FIRST, 0)
    expected = {
        "fc1": cosine(x @ FIRST, rounded(x, min(x.min(), 0), max(x.max(), 0)) @ symmetric(FIRST)),
        "fc2": cosine(h @ SECOND, rounded(h, 0, h.max()) @ symmetric(SECOND)),
    }
    sensitivity = found(data, "")
    assert sensitivity == pytest.approx(expected, abs=1e-7)
    assert list(sensitivity) == sorted(expected, key=lambda name: expected[name])


@pytest.mark.parametrize("options", ["dmq=0.5", "joint-quant=true shift=true", "weight-only=true"])
def test_what_belongs_to_a_layer(data: Path, options: str) -> None:
    """The product that balances it, what shifts its sums, a weight alone: part of the quantized layer."""
    sensitivity = found(data, options)
    assert set(sensitivity) == {"fc1", "fc2"}
    assert all(0.99 < value < 1 for value in sensitivity.values())
    assert sensitivity != found(data, "")


@pytest.mark.parametrize(("weight", "scale", "expected"), [(0, 0.5, 1.0), (3, 1e6, 0.0), (3, 0.5, 1.0)])
def test_layers_of_zeros(weight: int, scale: float, expected: float) -> None:
    """Zeros in floats count as no difference; zeros for want of a finer scale as the largest."""
    text = """
func.func @main(%x: tensor<1x2xf32> {{nn.name = "x"}}) -> (tensor<1x2xf32> {{nn.name = "y"}}) {{
  {lines}
  func.return %y : tensor<1x2xf32>
}}
"""
    product = 'nn.matmul {}, %w from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>'
    whole, session = parsed(
        text.format(lines=f"%w = nn.constant dense<{weight}.0> : tensor<2x2xf32> %y = {product.format('%x')}")
    )
    quantized, _ = parsed(
        text.format(
            lines=f"""
  %i = nn.constant dense<{weight}> : tensor<2x2xi8>
  %w = nn.dequantize %i by <i8, scale = 1.0> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %q = nn.quantize %x by <i8, scale = {scale:.1f}> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %d = nn.dequantize %q by <i8, scale = {scale:.1f}> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %y = {product.format("%d")}"""
        )
    )
    samples = from_batches([np.full((1, 2), 0.5, np.float32)], main_function(whole))
    assert sensitivities(whole, quantized, samples, session) == {"fc": expected}


PRODUCTS = """
func.func @main(%x: tensor<?x4x6xf32> {nn.name = "x"}) -> (tensor<?x4x6xf32> {nn.name = "y"}) {
  %p = nn.softmax %x axis -1 : tensor<?x4x6xf32>
  %1 = nn.matmul %x, %x transpose_b from <onnx, "MatMul", "square"> : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x4xf32>
  %y = nn.matmul %1, %p from <onnx, "MatMul", "both"> : (tensor<?x4x4xf32>, tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  func.return %y : tensor<?x4x6xf32>
}
"""


def test_products_of_two_inputs(rng: np.random.Generator) -> None:
    """Each gets the inputs that it has in floats, one value on both sides too."""
    x = rng.normal(size=(3, 4, 6)).astype(np.float32)
    whole, session = parsed(PRODUCTS)
    session.profile = "ascend-a2"
    quantized = whole.clone()
    make_pass("quantize", "observer=minmax").apply(session, quantized)
    result = sensitivities(whole, quantized, from_batches([{"x": x}], main_function(whole)), session)
    params = [op.qparams.data.scales() for op in quantized.walk() if isinstance(op, nn.DequantizeOp)]
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    values = zip((x, x @ x.swapaxes(1, 2), p), params, strict=True)
    numbers = [np.clip(np.rint(a / s), -128, 127) * s for a, s in values]
    square = x @ x.swapaxes(1, 2)
    expected = {
        "square": cosine(square, numbers[0] @ numbers[0].swapaxes(1, 2)),
        "both": cosine(square @ p, numbers[1] @ numbers[2]),
    }
    assert result == pytest.approx(expected, rel=1e-6)
    assert all(value < 1 for value in result.values())
