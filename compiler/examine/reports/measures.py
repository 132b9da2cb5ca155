"""The error of each layer and the distribution of each quantized value, measured on a few samples: `layers.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...data import Samples
from ...dialects.nn import QuantizeOp
from ...dialects.nn.shapes import element_of
from ...ir.array import Array
from ...ir.dtypes import integer_range, is_float
from ...ir.functions import main_function
from ...observers.histogram import Histogram
from ...runtime.boundary import InReals, boundary_of
from ...runtime.comparison import match_layers
from ...runtime.executor import Executable
from ...runtime.metrics import Differences
from ...session import Session

SAMPLES = 16
"""The default number of samples to measure with."""

_BINS = 128
_MOST_HISTOGRAMS = 500
_KEPT = 1 << 24
"""Numbers kept of all layers together in one run (64 MB). Values of which more would be kept are sampled evenly."""
_LARGEST = 1 << 16
"""Most elements of one value that are examined in one run."""


@dataclass(frozen=True)
class Measuring:
    """The number of samples that a run measures for its report."""

    samples: int = SAMPLES


MEASURING = Measuring()


def measure_layers(reference: ModuleOp, quantized: ModuleOp, samples: Samples, session: Session) -> dict[str, Any]:
    """`layers`: the SQNR in dB and the cosine of each layer's result in the quantized module, where all layers before
    it are quantized too, against `reference`. `activations`: for each of `quantize_ops`, the distribution of its input
    in the quantized module, None beyond the first 500.

    The two are modules of the same network. Large values are sampled evenly. Numbers that are not finite are None.
    """
    common = match_layers(reference, quantized)[0]
    pairs = {layer: pair for layer, pair in common.items() if all(is_float(element_of(value)) for value in pair)}
    operations = quantize_ops(quantized)
    points = {op: _Point(*clip_lines(op)) for op in operations[:_MOST_HISTOGRAMS]}
    most = max(256, min(_LARGEST, _KEPT // max(1, len(pairs))))
    errors = {layer: Differences() for layer in pairs}
    by_value: dict[SSAValue, list[str]] = {}
    for layer, (_, value) in pairs.items():
        by_value.setdefault(value, []).append(layer)
    counted: dict[SSAValue, list[_Point]] = {}
    for op, point in points.items():
        counted.setdefault(op.input, []).append(point)
    expected: dict[SSAValue, Array] = {}

    def keep(value: SSAValue, array: Array) -> None:
        expected[value] = _part(array, most)

    def compare(value: SSAValue, array: Array) -> None:
        part = _part(array, most)
        for layer in by_value.get(value, ()):
            of_reference = expected[pairs[layer][0]]
            if of_reference.shape == part.shape:  # otherwise sizes that only a run knows differ
                errors[layer].add(of_reference, part)
        for point in counted.get(value, ()):
            point.add(array, part)

    first = Executable(reference, [pair[0] for pair in pairs.values()])
    second = InReals(Executable(quantized, list({**by_value, **counted})), boundary_of(quantized, reference))
    for i, batch in enumerate(samples.batches()):
        first.run(batch, keep)
        second.run(batch, compare)
        expected.clear()
        session.progress("measure layers", i + 1, samples.runs)
    return {
        "samples": samples.count,
        "layers": {layer: _error(total) for layer, total in errors.items() if total.count},
        "activations": [points[op].data() if op in points else None for op in operations],
    }


def _part(array: Array, most: int) -> Array:
    """Picks at most about `most` numbers, evenly: the step between them has no factor in common with any axis."""
    flat = array.reshape(-1)
    if flat.size <= most:
        return flat.astype(np.float32)
    step = -(-flat.size // most)
    while gcd(step, flat.size) > 1:
        step += 1
    return flat[::step].astype(np.float32)


def _error(total: Differences) -> dict[str, Any]:
    return {"sqnr": _finite_number(total.sqnr), "cosine": _finite_number(total.cosine)}


def _finite_number(value: float) -> float | None:
    """Six digits, which are enough to draw; None if it is not finite."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def quantize_ops(module: ModuleOp) -> list[QuantizeOp]:
    """The quantizations of activations with one scale per value, in program order."""
    operations = main_function(module).body.block.ops
    return [op for op in operations if isinstance(op, QuantizeOp) and op.qparams.data.axis is None]


def clip_lines(op: QuantizeOp) -> tuple[float, float]:
    """The reals beyond which numbers are clipped: half a step beyond the first and the last integer."""
    params = op.qparams.data
    low, high = integer_range(params.storage)
    scale, zero = float(params.scales()), int(params.zero_points())
    return (low - 0.5 - zero) * scale, (high + 0.5 - zero) * scale


@dataclass
class _Point:
    """The distribution of a value between its clip lines and beyond."""

    low: float
    high: float
    histogram: Histogram = field(default_factory=lambda: Histogram(_BINS))
    clipped: int = 0

    def add(self, array: Array, part: Array) -> None:
        """A run's value, and the part of its numbers to count."""
        finite = part[np.isfinite(part)]
        if not finite.size:
            return
        low, high = (float(f(array).astype(np.float32)) for f in (np.min, np.max))
        if not np.isfinite([low, high]).all():
            low, high = float(finite.min()), float(finite.max())
        self.histogram.add(finite, low, high)
        self.clipped += int(np.count_nonzero((finite < self.low) | (finite > self.high)))

    def data(self) -> dict[str, Any] | None:
        """The measurements as plain data; None if the value had no numbers."""
        seen = self.histogram
        if not seen.counts.size:
            return None
        return {
            "range": [_finite_number(seen.low), _finite_number(seen.high)],
            "clipped": _finite_number(self.clipped / max(1, seen.total)),
            "start": seen.first * seen.width,
            "width": seen.width,
            "counts": seen.counts.tolist(),
        }
