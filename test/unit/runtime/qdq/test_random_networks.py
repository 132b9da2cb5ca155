"""Random networks: which operations become integer kernels is the same on both sides, and so is every number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import SSAValue

from amct_opt.dialects import nn

from .nets import Array, Chain, Point, channel_scales, reals
from .peer import both

CHANNELS, SIZE, LAYERS = 6, 8, 14


class Network:
    """Layers on `[2, 6, 8, 8]`, each of earlier values; some results are not quantized, some are outputs too."""

    def __init__(self, seed: int):
        self.net = Chain(2, CHANNELS, SIZE, SIZE, seed=seed)
        self.rng = self.net.rng
        self.start = Point(0.05, int(self.rng.integers(-128, 128)))
        self.values = [(self.net.at(self.net.x, self.start), self.start)]
        self.outputs: list[SSAValue] = []
        for _ in range(LAYERS):
            self.add_layer()
        self.outputs.append(self.values[-1][0])

    def add_layer(self) -> None:
        makers = (self.conv, self.conv, self.conv, self.pair, self.pair, self.average, self.maximum, self.join)
        y, size = makers[self.rng.integers(len(makers))]()
        if self.rng.random() < 0.4:
            bounds = {"min": float(-size * self.rng.random()), "max": float(size * self.rng.random())}
            kind, properties = [(nn.ReluOp, {}), (nn.Relu6Op, {}), (nn.ClipOp, bounds)][self.rng.integers(3)]
            y = self.net.add(kind, y, **properties)
        if self.rng.random() < 0.1:
            self.outputs.append(y)
        low = bool(self.rng.random() < 0.5)
        point = Point(size / 120 * float(self.rng.uniform(0.5, 2)), -128 if low else int(self.rng.integers(-128, 128)))
        self.values.append((self.net.at(y, point), point))

    def any(self) -> tuple[SSAValue, Point]:
        return self.values[max(0, len(self.values) - 1 - int(self.rng.integers(4)))]

    def conv(self) -> tuple[SSAValue, float]:
        x, point = self.any()
        groups = int(self.rng.choice([1, 2, CHANNELS]))
        shape = (CHANNELS, CHANNELS // groups, 3, 3)
        scales = channel_scales(self.rng, CHANNELS) if self.rng.random() < 0.7 else 0.004
        bias = bool(self.rng.random() < 0.7)
        y = self.net.weighted(nn.ConvOp, x, point, shape, scales, bias=bias, groups=groups, pads=(1, 1, 1, 1))
        return y, point.scale * 128 * np.sqrt(9 * CHANNELS / groups) * 0.5

    def pair(self) -> tuple[SSAValue, float]:
        (a, p), (b, q) = self.any(), self.any()
        if self.rng.random() < 0.7:
            return self.net.add(nn.AddOp, a, b), 128 * (p.scale + q.scale)
        return self.net.add(nn.MulOp, a, b), 64 * 64 * p.scale * q.scale

    def average(self) -> tuple[SSAValue, float]:
        x, point = self.any()
        return self.net.add(nn.AveragePoolOp, x, kernel=(3, 3), pads=(1, 1, 1, 1)), point.scale * 80

    def maximum(self) -> tuple[SSAValue, float]:
        x, point = self.any()
        return self.net.add(nn.MaxPoolOp, x, kernel=(3, 3), pads=(1, 1, 1, 1)), point.scale * 128

    def join(self) -> tuple[SSAValue, float]:
        (a, p), (b, _) = self.any(), self.any()
        joined = self.net.add(nn.ConcatOp, [a, b], axis=1)
        return self.net.add(nn.SliceOp, joined, starts=(3,), ends=(3 + CHANNELS,), axes=(1,)), p.scale * 128

    def input(self) -> Array:
        return reals(self.rng, (2, CHANNELS, SIZE, SIZE), self.start)


@pytest.mark.parametrize("seed", range(12))
def test_random_network(seed: int, tmp_path: Path) -> None:
    network = Network(seed)
    pair = both(network.net.module(*network.outputs), [network.input()], tmp_path)
    assert sum(pair.kernels[k] for k in pair.kernels if k.startswith("QLinear")) > 3
    *floats, (ours, theirs) = zip(pair.ours, pair.theirs, strict=True)
    np.testing.assert_array_equal(ours, theirs)
    for a, b in floats:  # what is an output too runs in float, where sums round in their order
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * float(np.abs(b).max()))
