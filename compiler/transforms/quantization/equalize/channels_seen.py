"""Collects statistics of channels, batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....backends import Runner, Wanted, Work
from ....diagnostics import op_error
from ....runtime.data import Samples
from ....session import Session

Array = np.ndarray[Any, np.dtype[Any]]

ROWS = 256
"""Rows that are kept of each value, from all batches alike."""


class ChannelsOf(NamedTuple):
    """The channels of a value, along an axis."""

    value: SSAValue
    axis: int


@dataclass
class Seen:
    """Statistics of channels. Those of different batches merge."""

    low: Array
    """The smallest number, at most 0: float64 [channels]."""
    high: Array
    """The largest, at least 0."""
    least: Array
    """The smallest number, whatever its sign."""
    rows: Array
    """Some of the numbers: float32 [rows, channels], at most `ROWS`."""

    @staticmethod
    def of(rows: Array, kept: int, seed: int) -> Seen:
        """Those of a batch, [rows, channels]. Raises ValueError for NaN and Inf."""
        low, high = (f(axis=0, initial=0).astype(np.float64) for f in (rows.min, rows.max))
        if not np.isfinite(low + high).all():
            raise ValueError("values hold NaN or Inf")
        picked = np.random.default_rng(seed).choice(len(rows), min(kept, len(rows)), replace=False)
        return Seen(low, high, rows.min(axis=0, initial=np.inf).astype(np.float64), rows[picked].astype(np.float32))

    def merge(self, other: Seen) -> None:
        """Add what another has seen."""
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.least = np.minimum(self.least, other.least)
        self.rows = np.concatenate([self.rows, other.rows])[:ROWS]

    @property
    def peaks(self) -> Array:
        """The largest magnitudes: float64 [channels]."""
        return np.maximum(-self.low, self.high)


def channels_seen(
    module: ModuleOp, wanted: Iterable[ChannelsOf], samples: Samples, session: Session, runner: Runner
) -> Mapping[ChannelsOf, Seen]:
    """Statistics of channels, while the samples run through the model.

    Raises CompileError, located at the operation that reads a value, for NaN or Inf in it.
    """
    axes: dict[SSAValue, set[int]] = {}
    for value, axis in wanted:
        axes.setdefault(value, set()).add(axis)
    found: dict[ChannelsOf, Seen] = {}
    kept = max(1, ROWS // samples.runs)

    def watch(value: SSAValue, array: Array) -> None:
        for axis in axes[value]:
            rows = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
            before = found.get(ChannelsOf(value, axis))
            try:
                seen = Seen.of(rows, kept, 0 if before is None else len(before.rows))
            except ValueError as e:
                hint = "look for an overflow in the model or its data"
                raise op_error(next(iter(value.uses)).operation, f"has an input whose {e}", hint) from None
            if before is None:
                found[ChannelsOf(value, axis)] = seen
            else:
                before.merge(seen)

    done = count(1)

    def tell() -> None:
        session.progress("equalize", next(done), samples.runs)

    runner.run(Work(module, dict.fromkeys(axes, Wanted()), samples, watch, tell, session))
    return found
