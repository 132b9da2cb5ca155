"""The observers of a module's quantization points, and showing them what runs through the module."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....diagnostics import op_error
from ....dialects.nn import ObserveOp
from ....rewriting import Array
from ....runtime.data import Samples
from ....runtime.executor import Executable, Watch
from ....runtime.observers import Observer, make_observer
from ....session import Session


@dataclass
class Observation:
    """Points on one value, or joint points of a group, that ask the same, and what was seen for them."""

    points: list[ObserveOp]
    observer: Observer

    @property
    def values(self) -> list[SSAValue]:
        """What is observed, each value once."""
        return list(dict.fromkeys(point.input for point in self.points))

    def fresh(self) -> Observation:
        """The same points, nothing seen."""
        one = self.observer
        return Observation(self.points, make_observer(self.points[0].observer.data, one.bits, symmetric=one.symmetric))

    @contextmanager
    def located(self, hint: str = "") -> Generator[None]:
        """A ValueError of the observer becomes a CompileError at its first point."""
        try:
            yield
        except ValueError as e:
            raise op_error(self.points[0], str(e), hint) from None


def observations(points: Iterable[ObserveOp]) -> list[Observation]:
    """Fresh observers, in the order of their first points. Joint points of a group have one, which sees the values of all."""
    shared: dict[object, Observation] = {}
    for point in points:
        text, bits, symmetric = point.observer.data, point.bits.value.data, point.symmetric is not None
        what = point.input if point.joint is None or point.group is None else point.group.data
        key = what, text, bits, symmetric
        if key not in shared:
            shared[key] = Observation([], make_observer(text, bits, symmetric=symmetric))
        shared[key].points.append(point)
    return list(shared.values())


def passes(observed: Iterable[Observation]) -> int:
    """How often the observers must see the data."""
    return max(o.observer.passes for o in observed)


def begin_pass(observed: Iterable[Observation], turn: int) -> None:
    """Tell the observers that take part in pass `turn`, counted from 0, that it begins."""
    for each in observed:
        if turn and each.observer.passes > turn:
            with each.located():
                each.observer.next_pass()


def observe(module: ModuleOp, observed: Sequence[Observation], samples: Samples, turn: int, session: Session) -> None:
    """Show all samples to the observers that take part in pass `turn`. Raises CompileError, located at a point or in the data."""
    active = [each for each in observed if each.observer.passes > turn]
    by_value: dict[SSAValue, list[Observation]] = {}
    for each in active:
        for value in each.values:
            by_value.setdefault(value, []).append(each)
    watch = _watch(by_value)
    executable = Executable(module, list(by_value))
    for i, batch in enumerate(samples.batches()):
        executable.run(batch, watch)
        session.progress("calibrate", turn * samples.runs + i + 1, passes(observed) * samples.runs)


def _watch(by_value: Mapping[SSAValue, Sequence[Observation]]) -> Watch:
    def watch(value: SSAValue, array: Array) -> None:
        for each in by_value[value]:
            with each.located("look for an overflow in the model or its data"):
                each.observer.update(array)

    return watch
