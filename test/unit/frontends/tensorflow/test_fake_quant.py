"""Fake quantization against TensorFlow.

TensorFlow rounds halves up and counts from the least number of the grid; `nn.quantize` rounds halves to even and counts from 0.
Numbers within rounding of the middle of two steps may come out one step apart, as they do between TensorFlow's own kernels, so
those are left out here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn

from ...frameworks import later, tf
from .conftest import kinds

Agrees = Callable[..., ModuleOp]
q = later("tensorflow.quantization")

RANGES = {
    "symmetric": (-6.0, 6.0),
    "positive": (0.0, 6.0),
    "negative": (-3.0, 0.0),
    "skewed": (-0.3, 7.1),
    "above-0": (0.5, 4.0),
    "below-0": (-4.0, -0.5),
    "small": (-1e-3, 3e-3),
    "zero": (0.0, 0.0),
}


def off_the_middle(least: float, greatest: float, bits: int, narrow: bool, count: int = 400) -> np.ndarray:
    """Numbers in and around a range, none within a hundredth of a step of the middle of two."""
    step = (greatest - least) / ((1 << bits) - 1 - narrow) or 1.0
    x = np.random.default_rng(7).uniform(least - 2 * step - 1e-3, greatest + 2 * step + 1e-3, 4 * count)
    place = x / step
    return x[np.abs(place - np.floor(place) - 0.5) > 0.01][:count].astype(np.float32).reshape(-1, 4)


BITS = [
    (8, False), (8, True), (2, True), (4, False), (4, True), (5, False), (7, True), (12, False), (16, False),
    (16, True),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "narrow"), BITS)
@pytest.mark.parametrize("name", RANGES)
def test_per_tensor(agrees: Agrees, name: str, bits: int, narrow: bool) -> None:
    least, greatest = RANGES[name]
    x = off_the_middle(least, greatest, bits, narrow)
    bound = 1e-6 * max(abs(least), abs(greatest))
    function = q.fake_quant_with_min_max_vars
    module = agrees(
        lambda x, a, b: function(x, a, b, bits, narrow),
        x,
        variables=[np.float32(least), np.float32(greatest)],
        atol=bound,
    )
    exact = (bits in (4, 8, 16) and not narrow) and name != "zero"
    assert kinds(module) == ["quantize", "dequantize"] if exact else ["clip", "quantize", "dequantize"]
    storage = next(op for op in module.walk() if isinstance(op, nn.QuantizeOp)).qparams.data.storage
    assert storage.width.data == (4 if bits <= 4 else 8 if bits <= 8 else 16)


@pytest.mark.parametrize("name", [n for n in RANGES if n != "zero"])
def test_by_attributes(agrees: Agrees, name: str) -> None:
    least, greatest = RANGES[name]
    x = off_the_middle(least, greatest, 8, False)
    agrees(lambda x: q.fake_quant_with_min_max_args(x, least, greatest), x, signature=[tf.TensorSpec([None, 4])])


def test_defaults(agrees: Agrees) -> None:
    x = off_the_middle(-6, 6, 8, False)
    agrees(lambda x: tf.raw_ops.FakeQuantWithMinMaxArgs(inputs=x), x)


CHANNELS = (np.array([-1, 0, -6, 0], np.float32), np.array([1, 3, 0.5, 0], np.float32))


@pytest.mark.parametrize(("bits", "narrow"), BITS)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 5, 4)], ids=str)
def test_per_channel(agrees: Agrees, shape: tuple[int, ...], bits: int, narrow: bool) -> None:
    """The last channel has a range of 0 alone."""
    columns = [off_the_middle(a, b, bits, narrow).reshape(-1) for a, b in zip(*CHANNELS, strict=True)]
    size = int(np.prod(shape[:-1]))
    x = np.stack([c[:size] for c in columns], axis=-1).reshape(shape)
    function = q.fake_quant_with_min_max_vars_per_channel
    agrees(lambda x, a, b: function(x, a, b, bits, narrow), x, variables=CHANNELS, atol=6e-6)


@pytest.mark.parametrize(("bits", "narrow"), BITS)
def test_weights_are_integers(agrees: Agrees, bits: int, narrow: bool) -> None:
    """The filter is turned as integers, so that it stays a constant."""
    w = np.random.default_rng(7).normal(size=(3, 3, 2, 4)).astype(np.float32)
    function = q.fake_quant_with_min_max_vars_per_channel

    def convolved(x: Any, w: Any, a: Any, b: Any) -> Any:
        return tf.nn.conv2d(x, function(w, a, b, bits, narrow), 1, "SAME")

    x = np.random.default_rng(7).normal(size=(1, 5, 5, 2)).astype(np.float32)
    module = agrees(convolved, x, variables=[w, *CHANNELS], atol=1e-4)
    assert kinds(module) == ["dequantize", "conv"]
    dequantize = next(op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    assert isinstance(dequantize.input.owner, nn.ConstantOp)
    assert dequantize.qparams.data.axis == 0


def test_depthwise_weights_are_integers(agrees: Agrees) -> None:
    """Per tensor, and per index of the last axis, which each channel has."""
    w = np.random.default_rng(7).normal(size=(3, 3, 2, 4)).astype(np.float32)
    x = np.random.default_rng(7).normal(size=(1, 5, 5, 2)).astype(np.float32)
    for quantized in (
        lambda w, a, b: q.fake_quant_with_min_max_vars(w, -2.0, 2.0, narrow_range=True),
        lambda w, a, b: q.fake_quant_with_min_max_vars_per_channel(w, a, b, narrow_range=True),
    ):
        module = agrees(
            lambda x, w, a, b, f=quantized: tf.nn.depthwise_conv2d(x, f(w, a, b), [1] * 4, "SAME"),
            x,
            variables=[w, *CHANNELS],
            atol=1e-4,
        )
        assert kinds(module) == ["dequantize", "conv"]


def test_symmetric_weights_have_zero_points_of_0(agrees: Agrees) -> None:
    w = np.random.default_rng(7).normal(size=(5, 4)).astype(np.float32)
    x = np.random.default_rng(7).normal(size=(2, 5)).astype(np.float32)
    module = agrees(
        lambda x, w: x @ q.fake_quant_with_min_max_vars(w, -3.0, 3.0, narrow_range=True), x, variables=[w], atol=1e-5
    )
    dequantize = next(op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    assert dequantize.qparams.data.zero_point == (0,)
    assert str(dequantize.qparams.data.storage) == "i8"


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)], ids=str)
def test_an_empty_range_is_carried(frozen: Callable[..., Any], ends: tuple[float, float]) -> None:
    graph = frozen(lambda x: q.fake_quant_with_min_max_vars(x, *ends), np.ones(3, np.float32))
    assert kinds(graph.read()) == ["opaque"]


def test_a_range_of_run_time_is_carried(frozen: Callable[..., Any]) -> None:
    graph = frozen(lambda x: q.fake_quant_with_min_max_vars(x, tf.reduce_min(x), 3.0), np.ones(3, np.float32))
    assert kinds(graph.read()) == ["reduce_min", "opaque"]
