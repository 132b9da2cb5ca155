"""Showing observers what runs through a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from threading import Lock

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....backends import Runner, Wanted, Work
from ....rewriting import Array
from ....runtime.data import Samples
from ....runtime.executor import Watch
from ....session import Session
from .observations import Observation, passes


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

    def tell() -> None:
        session.progress("calibrate", next(done), total)

    runner.run(Work(module, wanted, samples, _watch(by_value), tell, session))


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
