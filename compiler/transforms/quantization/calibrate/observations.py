"""The observers of a module's quantization points."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from ....diagnostics import CompileError, op_error
from ....dialects.nn import ObserveOp
from ....runtime.observers import Observer, make_observer
from ....session import Session


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
        """The same points with a fresh observer."""
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
    """How many passes over the data the observers need."""
    return max(o.observer.passes for o in observed)


def begin_pass(observed: Iterable[Observation], turn: int) -> None:
    """Begin pass `turn`, counted from 0, for the observers that take part in it."""
    for each in observed:
        if turn and each.observer.passes > turn:
            with each.located():
                each.observer.next_pass()
