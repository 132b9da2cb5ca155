"""Calibration on a cluster: workers show shares of the samples to observers of their own, whose states merge.

A share is a number of whole runs of the model, cut at the same samples whatever the number of workers is: results are equal
to the bit to those of one process.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner, Work
from ....backends.cluster import client, shared_out
from ....diagnostics import CompileError, op_error
from ....dialects.nn import ObserveOp
from ....ir.text import parse_module, write_module
from ....rewriting import Array
from ....runtime.data import ArrayRows, Rows, Samples, SpooledRows
from ....runtime.observers.state import State
from ....session import Session
from .observations import Observation, observations, passes
from .observing import observe

_FEWEST_RUNS = 16
"""Runs of the model in a share, at least."""
_MOST_SHARES = 1000


class Model(NamedTuple):
    """A module with its points as files hold it, and the states with which its observers begin."""

    text: bytes
    arrays: bytes
    turn: int
    states: Sequence[State]
    runner: Runner


class Seen(NamedTuple):
    """The states of observers, or why there are none."""

    states: Sequence[State] = ()
    error: tuple[str, str, str] | None = None
    """Message, place and hint."""


@dataclass(frozen=True)
class PartRows:
    """Some of all rows: those from `first` on, read by their numbers among all."""

    part: Rows
    first: int
    count: int
    """How many rows there are in all."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count, *self.part.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.part.dtype

    def read(self, start: int, stop: int) -> Array:
        return self.part.read(start - self.first, stop - self.first)

    def place(self, index: int) -> str:
        return self.part.place(index - self.first)


def observe_shares(
    module: ModuleOp, observed: Sequence[Observation], samples: Samples, turn: int, session: Session, runner: Runner
) -> None:
    """Shows all samples to the observers, on a cluster. Raises CompileError like `observe`, of the first share that fails,
    and for observers whose merged states are not equal to that of one process.
    """
    assert runner.cluster is not None
    for each in observed:
        if each.observer.merging != "equal":
            name = each.points[0].observer.data
            hint = "run it without a cluster, or choose another observer: mse, minmax, percentile, kl, octav or ifmr"
            raise op_error(each.points[0], f"has the observer {name}, which depends on the order of the samples", hint)
    shares = _shares(samples)
    states = [each.observer.state() for each in observed] if turn else []
    settled = runner.settled(Work(module, {}, samples, _ignore, _ignore, session))
    model = _packed(module, turn, states, settled)
    runs, total = turn * len(shares), passes(observed) * len(shares)
    merged, waiting = 0, dict[int, Seen]()
    for number, seen in shared_out(client(runner.cluster), _seen, model, shares):
        waiting[number] = seen
        session.progress("calibrate", runs := runs + 1, total)
        while merged in waiting:  # in order, so that the first error is the one that a single process finds
            _merge(observed, turn, waiting.pop(merged))
            merged += 1


def _ignore(*_: object) -> None:
    """No work is done here, so there is nothing to see."""


def _merge(observed: Sequence[Observation], turn: int, seen: Seen) -> None:
    """Adds the states of a share. Raises CompileError if it has none."""
    if seen.error is not None:
        message, where, hint = seen.error
        raise CompileError(message, where=where, hint=hint)
    for each, state in zip(observed, seen.states, strict=True):
        if each.observer.passes > turn:
            other = each.fresh()
            other.observer.restore(state)
            with each.located():
                each.observer.merge(other.observer)


def _shares(samples: Samples) -> list[Samples]:
    """Whole runs of the model; an incomplete last run, which is filled up from the one before, is in one share with it."""
    step = max(_FEWEST_RUNS, -(-samples.runs // _MOST_SHARES)) * samples.batch_size
    starts = [*range(0, samples.count, step)]
    if len(starts) > 1 and samples.count - starts[-1] < samples.batch_size:
        starts.pop()
    ends = [*starts[1:], samples.count]
    return [_share(samples, samples.first + a, b - a) for a, b in zip(starts, ends, strict=True)]


def _share(samples: Samples, first: int, count: int) -> Samples:
    rows = {name: _sent(each, first, first + count) for name, each in samples.rows.items()}
    return replace(samples, rows=rows, first=first, count=count)


def _sent(rows: Rows, start: int, stop: int) -> Rows:
    """Rows that a worker can read: what is in memory is sent, files are read there."""
    match rows:
        case ArrayRows() if rows.array.ndim:
            part = ArrayRows(np.array(rows.read(start, stop)), rows.source)
        case SpooledRows():
            part = rows.part(start, stop)
        case _:
            return rows
    return PartRows(part, start, rows.shape[0])


def _packed(module: ModuleOp, turn: int, states: Sequence[State], runner: Runner) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlir"
        files = write_module(module, path, locations=True)
        text, arrays = path.read_bytes(), b"" if len(files) == 1 else files[1].read_bytes()
    return Model(text, arrays, turn, states, replace(runner, cluster=None, threads=runner.threads or 1))


# On workers


def _seen(model: Model, share: Samples) -> Seen:
    try:
        return Seen(_states(model, share))
    except CompileError as e:
        return Seen(error=(e.message, e.where, e.hint))


def _states(model: Model, share: Samples) -> list[State]:
    module, session = _loaded(model.text, model.arrays)
    points = [op for op in module.walk() if isinstance(op, ObserveOp) and op.qparams is None]
    observed = observations(points, session)
    if model.turn:
        for each, state in zip(observed, model.states, strict=True):
            each.observer.restore(state)
    observe(module, observed, share, model.turn, session, model.runner)
    return [each.observer.state() for each in observed]


@lru_cache(maxsize=2)
def _loaded(text: bytes, arrays: bytes) -> tuple[ModuleOp, Session]:
    """The module, which a worker reads once. Its arrays are mapped from a file of the worker's own."""
    from ....universe import new_session

    session = new_session().silent()
    path = Path(tempfile.mkdtemp(prefix="amct-opt")) / "model.mlir"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    path.write_bytes(text)
    if arrays:
        path.with_suffix(".safetensors").write_bytes(arrays)
    return parse_module(session, text.decode(), str(path)), session
