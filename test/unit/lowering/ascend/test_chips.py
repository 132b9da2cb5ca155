"""The numbers of requantization per chip: the interpreter computes each step as the chip's fusions have it, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend.fuse_requant import FuseRequantPass
from amct_opt.lowering.ascend.fuse_requant.chips import Chip
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget

from ...values import parsed

Array = np.ndarray[Any, np.dtype[Any]]
f32 = np.float32

NET = """
func.func @main(%x: tensor<1x2x40x50xf32> {{nn.name = "x"}}) -> (tensor<1x2x40x50xi8> {{nn.name = "y"}}) {{
  %w = nn.constant dense<[[[[97]], [[-13]]], [[[-5]], [[61]]]]> : tensor<2x2x1x1xi8>
  %s = nn.constant dense<[{scales}]> : tensor<2xf32>
  %i = ascend.AscendQuant %x scale 30.0 offset 3.0 : (tensor<1x2x40x50xf32>) -> tensor<1x2x40x50xi8>
  %a = ascend.Conv2D %i, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x 3 :
    (tensor<1x2x40x50xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x40x50xi32>
  %d = ascend.AscendDequant %a, %s : (tensor<1x2x40x50xi32>, tensor<2xf32>) -> tensor<1x2x40x50xf32>
  {activation}
  %y = ascend.AscendQuant %r scale 17.3 offset -100.0 : (tensor<1x2x40x50xf32>) -> tensor<1x2x40x50xi8>
  func.return %y : tensor<1x2x40x50xi8>
}}
"""
SCALES, SMALL = (0.0013, 0.0029), (1.0e-6, 0.0029)
RELU, RELU6 = (f"%r = ascend.{kind} %d : tensor<1x2x40x50xf32>" for kind in ("Relu", "Relu6"))


def sums(x: Array) -> Array:
    integers = np.clip(np.rint(x * f32(30) + f32(3)), -128, 127).astype(np.int64) - 3
    return np.einsum("oc,nchw->nohw", np.array([[97, -13], [-5, 61]]), integers).astype(f32)


def integers(y: Array) -> Array:
    return np.clip(np.rint(y), -128, 127).astype(np.int8)


def products(scales: tuple[float, float]) -> Array:
    return (np.array(scales, f32) * f32(17.3)).reshape(1, 2, 1, 1)


def merged(x: Array, scales: tuple[float, float]) -> Array:
    y = np.maximum(sums(x) * products(scales), f32(0))
    return np.clip(np.rint(y) - 100, -128, 127).astype(np.int8)


def bounded(x: Array, scales: tuple[float, float]) -> Array:
    y = np.clip(sums(x) * products(scales), f32(0), f32(6 * float(f32(17.3))))
    return integers(y + f32(-100))


def in_float16(x: Array, scales: tuple[float, float]) -> Array:
    """By float16 scales; below 2^-14 by their square roots, twice."""
    found = products(scales)
    if found.min() < 2.0**-14:
        root = np.sqrt(found).astype(np.float16).astype(f32)
        y = sums(x) * root * root
    else:
        y = sums(x) * found.astype(np.float16).astype(f32)
    return integers(np.maximum(y, f32(0)) + f32(-100))


def shortened(x: Array, scales: tuple[float, float]) -> Array:
    found = (products(scales).view(np.uint32) & np.uint32(0xFFFFE000)).view(f32)
    return np.clip(np.rint(np.maximum(sums(x) * found, f32(0))) - 100, -128, 127).astype(np.int8)


CASES: dict[str, tuple[Chip, Any, tuple[float, float], Callable[..., Array]]] = {
    "v200": ("v200", RELU, SCALES, merged),
    "v200 with Relu6": ("v200", RELU6, SCALES, bounded),
    "v100": ("v100", RELU, SCALES, in_float16),
    "v100 with square roots": ("v100", RELU, SMALL, in_float16),
    "310b": ("310b", RELU, SCALES, shortened),
    "a2": ("a2", RELU, SCALES, shortened),
    "950": ("950", RELU, SCALES, shortened),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: str, tmp_path: Any) -> None:
    """Also through a deployable file."""
    chip, activation, scales, formula = CASES[case]
    session = new_session()
    text = NET.format(activation=activation, scales=", ".join(f"{s:.7f}" for s in scales))
    module, plain = (parse_module(session, text, "net.mlir") for _ in range(2))
    FuseRequantPass(chip).apply(session, module)
    verify(module)
    x = np.random.default_rng(0).normal(size=(1, 2, 40, 50)).astype(f32) * f32(1.5)
    found = run(module, {"x": x})["y"]
    np.testing.assert_array_equal(found, formula(x, scales))
    assert (np.abs(found.astype(int) - run(plain, {"x": x})["y"]) <= 1).all()
    OnnxAscendTarget().write(module, tmp_path / "net.onnx", session)
    np.testing.assert_array_equal(run(frontends.read(tmp_path / "net.onnx", new_session()), {"x": x})["y"], found)


def test_without_a_chip_it_is_as_before() -> None:
    text = NET.format(activation=RELU, scales="0.0013, 0.0029")
    module, session = parsed(text)
    FuseRequantPass().apply(session, module)
    assert [op.name for op in module.walk() if "quant" in op.name.lower()] == [
        "ascend.AscendQuant",
        "ascend.AscendRequant",
    ]
