"""The observers of a module's points, and the values they are shown: several samples at a time if the model takes any number.

The time of a small model is mostly the overhead of calling operations, so batches save most of it. A large model gains
nothing, and batches of its values fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import prod
from threading import Lock

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....data import Samples
from ....dialects import nn
from ....dialects.nn import ObserveOp
from ....dialects.nn.shapes import known, shape_of, static
from ....engines import Runner, Wanted, Work
from ....ir.functions import main_function
from ....observers import Observer, make_observer
from ....rewriting import Array
from ....runtime.executor import Watch
from ....session import Session
from ....support.diagnostics import CompileError, op_error


@dataclass
class Observation:
    """Points on one value, or joint points of a group, with the same settings, and their common observer."""

    points: list[ObserveOp]
    observer: Observer
    make: Callable[[], Observer]
    """Makes a fresh observer of the same kind."""

    @property
    def values(self) -> list[SSAValue]:
        """The observed values, each once."""
        return list(dict.fromkeys(point.input for point in self.points))

    def fresh(self) -> Observation:
        """An observation of these points with a fresh observer."""
        return Observation(self.points, self.make(), self.make)

    @contextmanager
    def located(self, hint: str = "") -> Generator[None]:
        """Turn a ValueError of the observer into a CompileError at its first point."""
        try:
            yield
        except ValueError as e:
            raise op_error(self.points[0], str(e), hint) from None


def observations(points: Iterable[ObserveOp], session: Session) -> list[Observation]:
    """Fresh observers, in the order of their first points. Joint points of a group share one, which sees all their values.

    Raises CompileError for an observer that the session does not know, located at its point, and for its bad options.
    """
    shared: dict[object, Observation] = {}
    for point in points:
        text, bits, symmetric = point.observer.data, point.bits.value.data, point.symmetric is not None
        what = point.input if point.joint is None or point.group is None else point.group.data
        key = what, text, bits, symmetric
        if key not in shared:
            make = partial(_observer, point, session)
            shared[key] = Observation([], make(), make)
        shared[key].points.append(point)
    return list(shared.values())


def _observer(point: ObserveOp, session: Session) -> Observer:
    text, bits, symmetric = point.observer.data, point.bits.value.data, point.symmetric is not None
    try:
        return make_observer(text, bits, symmetric=symmetric, known=session.observers)
    except CompileError as e:
        raise op_error(point, e.message, e.hint) from None


def passes(observed: Iterable[Observation]) -> int:
    """The number of passes over the data that the observers need."""
    return max(o.observer.passes for o in observed)


def begin_pass(observed: Iterable[Observation], turn: int) -> None:
    """Begin pass `turn`, counted from 0, for the observers that take part in it."""
    for each in observed:
        if turn and each.observer.passes > turn:
            with each.located():
                each.observer.next_pass()


MOST = 32
LARGEST = 1 << 18
"""The largest number of elements of a value in a batch."""


def observe(
    module: ModuleOp, observed: Sequence[Observation], samples: Samples, turn: int, session: Session, runner: Runner
) -> None:
    """Show all samples to the observers that take part in pass `turn`. Raises CompileError, located at a point or in the data."""
    by_value: dict[SSAValue, list[Observation]] = {}
    for each in observed:
        if each.observer.passes > turn:
            for value in each.values:
                by_value.setdefault(value, []).append(each)
    wanted = {value: _wanted(watching) for value, watching in by_value.items()}
    done, total = count(turn * samples.runs + 1), passes(observed) * samples.runs

    def report() -> None:
        session.progress("calibrate", next(done), total)

    runner.run(Work(module, wanted, samples, _watch(by_value), report, session))


def _wanted(watching: Sequence[Observation]) -> Wanted:
    observers = [each.observer for each in watching]
    return Wanted(
        extremes=all(one.extremes_suffice for one in observers),
        ordered=any(one.merging != "equal" for one in observers),
    )


def _watch(by_value: Mapping[SSAValue, Sequence[Observation]]) -> Watch:
    locks = {id(each): Lock() for watching in by_value.values() for each in watching}

    def watch(value: SSAValue, array: Array) -> None:
        for each in by_value[value]:
            with locks[id(each)], each.located("look for an overflow in the model or its data"):
                each.observer.update(array)

    return watch


def in_batches(module: ModuleOp, observed: Sequence[Observation], samples: Samples) -> Samples:
    """The samples, several at a time if that changes nothing: the model computes each separately, and no observer depends on
    batches.
    """
    if any(each.observer.batches_matter for each in observed):
        return samples
    operations = list(_operations(module))
    values = [*main_function(module).body.block.args, *(result for op in operations for result in op.results)]
    if not all(map(_counts_samples, values)) or not all(map(_acts_by_sample, operations)):
        return samples
    return replace(samples, at_a_time=max(1, min(MOST, LARGEST // max(1, *map(_numbers, values)))))


def _operations(module: ModuleOp) -> Iterator[Operation]:
    """All operations that compute a value."""
    return (op for op in main_function(module).body.walk() if op.results and not isinstance(op, nn.ConstantOp))


def _counts_samples(value: SSAValue) -> bool:
    """Whether only the first size is unknown."""
    first, *rest = shape_of(value) or (0,)
    return not known(first) and static(rest)


def _numbers(value: SSAValue) -> int:
    """The number of elements of one sample."""
    return prod(shape_of(value)[1:])


def _acts_by_sample(op: Operation) -> bool:
    """Whether an operation computes each sample separately; those inside a region are checked one by one."""
    return isinstance(op, nn.FusedOp) or (isinstance(op, nn.NNOp) and op.acts_by_sample)
