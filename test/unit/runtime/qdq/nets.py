"""Quantized chains in `nn`, and data that brings them to ties and to both ends of their range."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ...targets.nets import Net

Array = np.ndarray[Any, np.dtype[Any]]


class Point(NamedTuple):
    """Parameters of a value: scale and zero point of int8."""

    scale: float
    zero_point: int = 0


class Chain(Net):
    """Layers with parameters of their own; integers of weights are drawn over the whole range unless given."""

    def __init__(self, *shape: int, seed: int = 0):
        super().__init__(*shape)
        self.rng = np.random.default_rng(seed)

    def at(self, value: SSAValue, point: Point) -> SSAValue:
        return self.quantized(value, *point)

    def input(self, *shape: int) -> SSAValue:
        """One more input."""
        from xdsl.dialects.builtin import TensorType, f32

        return self.block.insert_arg(TensorType(f32, shape), len(self.block.args))

    def weighted(
        self,
        kind: Any,
        x: SSAValue,
        point: Point,
        shape: tuple[int, ...],
        scales: Any,
        *,
        axis: int = 0,
        bias: bool = True,
        weight: Array | None = None,
        **properties: Any,
    ) -> SSAValue:
        """A convolution or matrix product of `x`, which stands at `point`."""
        if weight is None:
            weight = self.rng.integers(-128, 128, shape).astype(np.int8)
        scales = np.asarray(scales, np.float32)
        key = f"w{len(list(self.block.ops))}"
        operands = [x, self.parameter(weight, scales, axis if scales.ndim else None, key)]
        if bias:
            channels = weight.shape[axis]
            values = self.rng.integers(-3000, 3000, channels).astype(np.int32)
            at = np.float32(point.scale) * scales
            operands.append(self.parameter(values, at, 0 if scales.ndim else None, f"{key}.bias"))
        return self.add(kind, *operands, **properties)


def reals(rng: np.random.Generator, shape: tuple[int, ...], point: Point) -> Array:
    """Reals of all integers, ends twice as often as others, and a few beyond."""
    integers = np.clip(rng.integers(-140, 140, shape), -130, 130)
    return ((integers - point.zero_point) * np.float32(point.scale)).astype(np.float32)


def channel_scales(rng: np.random.Generator, count: int) -> Array:
    return rng.uniform(0.001, 0.01, count).astype(np.float32)
