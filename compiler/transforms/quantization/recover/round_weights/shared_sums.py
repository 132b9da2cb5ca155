"""Sums over the inputs of layers, on a cluster: workers keep the networks of their shares in front of the layer asked for last.

A worker that does not have a share's networks there, because it is new or another worker had the share before, is given all that
it takes to begin. Sums are equal to the bit to those of one process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from xdsl.dialects.builtin import ModuleOp

from .....data import Samples
from .....engines import Runner
from .....engines.checkpoint import Checkpoint
from .....engines.cluster import Settled, failure
from .....engines.sharing import Bar, Packed, in_order, packed, part_of, unpacked
from .....session import Session
from .....support.files import scratch
from ...profiles import profile_of
from .integer_layers import WEIGHT, IntegerLayer, integer_layers
from .prefixes import Operands, Solution, Twins, accumulated
from .sums import Summed, Wish, merged_sums

Changes = Mapping[int, Operands]
"""The operands that layers read in place of the module's, by the number of the layer."""


class _Asked(NamedTuple):
    """A request for the sums of a layer."""

    job: str
    before: int
    """The number of the layer that was asked for before, -1 for none."""
    layer: int
    """The number of the layer."""
    wish: Wish
    changes: Changes
    """The changes of the layers from `before` on."""


class _Start(NamedTuple):
    """A request for sums with all that it takes to begin."""

    module: Packed
    beside: bool
    asked: _Asked
    """The request, with the changes of all layers."""


@dataclass(frozen=True)
class _Share(Settled):
    """The samples that are summed together."""

    first: int
    """The number of their first run."""
    samples: Samples
    attempts: int = 3
    """Number of attempts left when workers die again and again: they may have died on other shares."""


def _forgotten(share: Settled) -> Sequence[Settled]:
    """A share whose worker died gives nothing: it is begun anew."""
    return ()


def _again(share: _Share) -> Sequence[_Share]:
    """A share once more, as a whole: parts of it would round otherwise. Raises CompileError after the last attempt."""
    if share.attempts == 1:
        raise failure()
    return (replace(share, attempts=share.attempts - 1),)


class SharedSums:
    """See `Elsewhere`."""

    def __init__(
        self,
        runner: Runner,
        module: ModuleOp,
        shares: Sequence[Samples],
        session: Session,
        layers: int,
        key: Callable[[], Sequence[object]],
        *,
        beside: bool,
    ):
        """The module must be as it is before the first layer; `layers` is their number. `key` tells the work from others on the
        module.
        """
        assert runner.cluster is not None
        self._cluster, self._session, self._layers, self._beside = runner.cluster, session, layers, beside
        self._folder, self._key = runner.checkpoint, cache(key)
        self._module = packed(module, session, runner.cluster)
        sent = (part_of(each, each.first, each.count) for each in shares)
        firsts = accumulated(shares)
        self._shares = [_Share(i, first, part) for i, (first, part) in enumerate(zip(firsts, sent, strict=True))]
        self._job, self._before = uuid4().hex, -1

    def solved(
        self, number: int, wish: Wish, changed: Callable[[int], Operands], solve: Callable[[Any], Solution]
    ) -> Solution:
        """Raises CompileError like `Wish.sums`, for the first share that fails."""
        checkpoint = Checkpoint.of(self._folder, lambda: (*self._key(), self._module.digest, number))
        done, solution = checkpoint.taken_up()
        if not done:
            solution = solve(merged_sums(self._sums(number, wish, changed)))
            checkpoint.keep(lambda: solution, 1, last=True)
        return solution

    def _sums(self, number: int, wish: Wish, changed: Callable[[int], Operands]) -> Iterator[Summed]:
        """The sums of each share, in order."""
        known = {i: changed(i) for i in range(number)}
        recent = {i: operands for i, operands in known.items() if i >= self._before}
        asked = _Asked(self._job, self._before, number, wish, recent)
        found: dict[int, Summed] = {}
        if self._before >= 0:
            every = [Settled(share.number) for share in self._shares]
            answers = in_order(self._cluster, _went_on, asked, every, self._session, self._bar(number), _forgotten)
            found = {each.number: sums for each, answer in zip(every, answers, strict=True) for sums in chain(*answer)}
        self._before = number
        begun = [share for share in self._shares if share.number not in found]
        if begun:
            start = _Start(self._module, self._beside, asked._replace(changes=known))
            others = in_order(self._cluster, _begun, start, begun, self._session, self._bar(number), _again)
            found |= {share.number: sums for share, (sums,) in zip(begun, others, strict=True)}
        for share in self._shares:
            yield found.pop(share.number)

    def _bar(self, number: int) -> Bar:
        return Bar("layers", [0] * len(self._shares), number, self._layers)


class _Folder:
    """A folder for temporary files, removed with this object."""

    def __init__(self) -> None:
        cleanup = ExitStack()
        self.path: Path = cleanup.enter_context(scratch())
        weakref.finalize(self, cleanup.close)


@dataclass
class _Going:
    """A worker's networks over a share."""

    layers: Sequence[IntegerLayer]
    twins: Twins
    first: int
    folder: _Folder
    """Keeps the values that wait in files."""
    at: int = -1
    """The number of the layer that was asked for."""

    def sums(self, asked: _Asked) -> Summed:
        for i, operands in asked.changes.items():
            self.twins.quantized.operands[self.layers[i].compute].update(operands)
        layer = self.layers[asked.layer]
        found = asked.wish.sums(self.twins.inputs(layer.compute), layer, self.first)
        self.at = asked.layer
        return found


class _Kept:
    """The networks of a worker for the last job that began, by the numbers of shares."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._job = ""
        self._going: dict[int, _Going] = {}

    def taken(self, job: str, number: int) -> _Going | None:
        """The networks of a share, which nobody else has until they are put back."""
        with self._lock:
            return self._going.pop(number, None) if job == self._job else None

    def put(self, job: str, number: int, going: _Going, *, begun: bool) -> None:
        """Keeps the networks of a share; a new job takes the place of the one before."""
        with self._lock:
            if begun and job != self._job:
                self._job = job
                self._going.clear()
            if job == self._job:
                self._going[number] = going


_KEPT = _Kept()


def _went_on(asked: _Asked, share: Settled) -> list[Summed]:
    """Goes on, on a worker, to the sums of a share, as the only element; empty if its networks are not here, in front
    of the layer before.
    """
    going = _KEPT.taken(asked.job, share.number)
    if going is None or going.at != asked.before:
        return []
    sums = going.sums(asked)
    _KEPT.put(asked.job, share.number, going, begun=False)
    return [sums]


def _begun(start: _Start, share: _Share) -> Summed:
    """The sums of a share, on a worker, whose networks run from their inputs to the layer."""
    module, session = unpacked(start.module)
    layers = integer_layers(module, profile_of(session))
    folder = _Folder()
    computes = [layer.compute for layer in layers]
    twins = Twins(module, computes, [share.samples], folder.path, beside=start.beside)
    if twins.float is not None:
        for layer in layers:
            twins.float.operands[layer.compute][WEIGHT] = layer.float_weight
    going = _Going(layers, twins, share.first, folder)
    sums = going.sums(start.asked)
    _KEPT.put(start.asked.job, share.number, going, begun=True)
    return sums
