"""Collects statistics of channels, batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from .....data import Samples
from .....engines import Runner
from .....engines.findings import Finding, State, show
from .....ir.array import Array
from .....session import Session
from .....support.diagnostics import op_error

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
    """Some of the value's numbers: float32 [rows, channels], at most `ROWS`."""

    @staticmethod
    def of(rows: Array, kept: int, seed: int) -> Seen:
        """The channels of a batch, [rows, channels]. Raises ValueError for NaN and Inf."""
        low, high = (f(axis=0, initial=0).astype(np.float64) for f in (rows.min, rows.max))
        if not np.isfinite(low + high).all():
            raise ValueError("values hold NaN or Inf")
        picked = np.random.default_rng(seed).choice(len(rows), min(kept, len(rows)), replace=False)
        return Seen(low, high, rows.min(axis=0, initial=np.inf).astype(np.float64), rows[picked].astype(np.float32))

    def merge(self, other: Seen) -> None:
        """Add the observations of another one."""
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.least = np.minimum(self.least, other.least)
        self.rows = np.concatenate([self.rows, other.rows])[:ROWS]

    @property
    def peaks(self) -> Array:
        """The largest magnitudes: float64 [channels]."""
        return np.maximum(-self.low, self.high)


@dataclass
class _Channels:
    """Collects the statistics of a value's channels."""

    reader: Operation
    """The operation that reads the value."""
    axis: int
    kept: int
    """The number of rows that are kept of a run."""
    seen: Seen | None = None

    def show(self, array: Array, run: int) -> None:
        rows = np.moveaxis(array, self.axis, -1).reshape(-1, array.shape[self.axis])
        try:
            self._add(Seen.of(rows, self.kept, run * self.kept))
        except ValueError as e:
            hint = "look for an overflow in the model or its data"
            raise op_error(self.reader, f"has an input whose {e}", hint) from None

    def state(self) -> State:
        return vars(self.found)

    def merge(self, state: State) -> None:
        self._add(Seen(**state))

    @property
    def found(self) -> Seen:
        assert self.seen is not None, "there are samples"
        return self.seen

    def _add(self, other: Seen) -> None:
        if self.seen is None:
            self.seen = other
        else:
            self.seen.merge(other)


def channels_seen(
    module: ModuleOp, wanted: Iterable[ChannelsOf], samples: Samples, session: Session, runner: Runner
) -> Mapping[ChannelsOf, Seen]:
    """Statistics of channels, while the samples run through the model.

    Raises CompileError, located at the operation that reads a value, for NaN or Inf in it.
    """
    kept = max(1, ROWS // samples.runs)
    each = {of: _Channels(next(iter(of.value.uses)).operation, of.axis, kept) for of in dict.fromkeys(wanted)}
    findings: dict[SSAValue, list[Finding]] = {}
    for of, channels in each.items():
        findings.setdefault(of.value, []).append(channels)
    show(module, findings, samples, session, runner, "equalize")
    return {of: channels.found for of, channels in each.items()}
