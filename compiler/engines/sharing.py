"""Shares of work: samples are cut at the same places whatever the number of workers is, modules and errors are sent as data.

A share is a number of whole runs of the model, so that every run is the one of a single process, to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import get_ident
from typing import Any, Generic, NamedTuple, Never, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..data import ArrayRows, Rows, Samples, SpooledRows
from ..ir.array import Array
from ..ir.metadata import tool_version
from ..ir.text import parse_module, write_module
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.files import scratch, scratch_until_the_end
from .cluster import Failed, Status, Storing, Workers, failure, workers_named
from .store import Stored, fetched, stored

S = TypeVar("S")
R = TypeVar("R")

_FEWEST_RUNS = 16
"""Runs of the model in a share, at least."""
_MOST_SHARES = 1000
_LOADED = 32
"""Modules that a worker keeps, for all of its threads."""
_FILE = "model.mlir"


class Packed(NamedTuple):
    """A module as in its files, and the profile of its session."""

    text: bytes
    arrays: bytes | Stored
    """The content of the side file with arrays; empty without one."""
    profile: str

    @property
    def digest(self) -> str:
        """SHA-256 over all of it, as hex."""
        hashes = (
            bytes.fromhex(part.digest) if isinstance(part, Stored) else hashlib.sha256(part).digest()
            for part in (self.text, self.arrays, self.profile.encode())
        )
        return hashlib.sha256(b"".join(hashes)).hexdigest()


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The outcome of a share: a result, or the message, place, hint and option of an error."""

    result: R | None = None
    error: tuple[str, str, str, str] | None = None


@dataclass(frozen=True)
class PartRows:
    """Rows from `first` on, read by their numbers among all rows."""

    part: Rows
    first: int
    count: int
    """Number of rows in all."""

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


def shares_of(samples: Samples, fewest: int = _FEWEST_RUNS, most: int = _MOST_SHARES) -> list[Samples]:
    """Shares of at least `fewest` runs of the model, at most `most` of them; an incomplete last run, which is filled up from the
    one before, is in one share with it.
    """
    step = max(fewest, -(-samples.runs // most)) * samples.batch_size
    starts = [*range(0, samples.count, step)]
    if len(starts) > 1 and samples.count - starts[-1] < samples.batch_size:
        starts.pop()
    ends = [*starts[1:], samples.count]
    return [part_of(samples, samples.first + a, b - a) for a, b in zip(starts, ends, strict=True)]


def part_of(samples: Samples, first: int, count: int) -> Samples:
    """Some of all samples, in a form that a worker can read: samples in memory are sent, files are read there."""
    rows = {name: _sent(each, first, first + count) for name, each in samples.rows.items()}
    return replace(samples, rows=rows, first=first, count=count)


def sends(samples: Samples) -> bool:
    """Whether `part_of` copies numbers, because workers do not read the data themselves."""
    return any(_is_copied(rows) for rows in samples.rows.values())


def _is_copied(rows: Rows) -> bool:
    return _is_copied(rows.part) if isinstance(rows, PartRows) else isinstance(rows, ArrayRows | SpooledRows)


def _sent(rows: Rows, start: int, stop: int) -> Rows:
    match rows:
        case PartRows():
            part = _sent(rows.part, start - rows.first, stop - rows.first)
            if not isinstance(part, PartRows):
                return replace(rows, part=part)
            return PartRows(part.part, rows.first + part.first, rows.count)
        case ArrayRows() if rows.array.ndim:
            part = ArrayRows(np.array(rows.read(start, stop)), rows.source)
        case SpooledRows():
            part = rows.part(start, stop)
        case _:
            return rows
    return PartRows(part, start, rows.shape[0])


class Bar(NamedTuple):
    """A progress bar: it counts samples, or other units of which a share has several."""

    phase: str
    sizes: Sequence[int]
    """The number of units in each share."""
    done: int
    """Units that were done before these shares."""
    total: int

    @staticmethod
    def of(phase: str, sizes: Sequence[int]) -> Bar:
        """A bar of these shares alone."""
        return Bar(phase, sizes, 0, sum(sizes))

    def text(self, status: Status, failed: int) -> str:
        """The text in front of the bar: the phase, the workers, and how many shares failed there."""
        shares = f"{failed} share{'s' if failed > 1 else ''} failed" if failed else ""
        return ": ".join(filter(None, (self.phase, ", ".join(filter(None, (status.text(), shares))))))


def whole(share: object) -> Never:
    """Raises CompileError for a share that cannot be cut into parts."""
    raise failure()


def halves(samples: Samples) -> Sequence[Samples]:
    """A share of samples in two. Raises CompileError for a single run of the model, with the numbers of its samples."""
    first, last = samples.first, samples.first + samples.count - 1
    parts = shares_of(samples, fewest=-(-samples.runs // 2), most=2)
    if len(parts) == 1:
        raise failure(f"{samples.source}: sample{f's {first} to {last}' if first < last else f' {first}'}")
    return parts


def in_order(
    cluster: str | Workers,
    work: Callable[[Any, S], R],
    common: Any,
    shares: Sequence[S],
    session: Session,
    bar: Bar,
    parts: Callable[[S], Sequence[S]] = whole,
) -> Iterator[list[R]]:
    """Yields what `work(common, share)` returns on workers, in the order of the shares: a list for each share.

    A share that needs more memory than workers have is cut into its `parts`, and a part that does is cut again. The session
    warns about that, and its progress grows with each share that arrives.

    `work` is a function of a module. Raises the CompileError of the first share that has one, the one that a single process
    would find; `parts` raises it for a share that cannot be cut.
    """
    workers = workers_named(cluster)
    waiting, merged, done, status = dict[int, Outcome[list[R]]](), 0, bar.done, Status(workers)
    failed, cut = 0, 0
    for number, found in workers.shared_out(partial(_outcome, work, tool_version()), common, shares):
        if isinstance(found, Failed):
            failed += 1
            session.progress(bar.text(status, failed), done, bar.total)
            smaller, found = _in_parts(workers, work, common, shares[number], parts)
            cut += smaller > 1
        waiting[number], done = found, done + bar.sizes[number]
        session.progress(bar.text(status, failed), done, bar.total)
        while merged in waiting:
            yield _result(waiting.pop(merged))
            merged += 1
    if cut:
        of = f"{cut} of {len(shares)} shares" if len(shares) > 1 else "a share"
        session.warn(f"{bar.phase}: {of} computed in smaller parts, because workers ran out of memory or died")


def _in_parts(
    workers: Workers, work: Callable[[Any, S], R], common: Any, share: S, parts: Callable[[S], Sequence[S]]
) -> tuple[int, Outcome[list[R]]]:
    """The number of parts that a share is cut into, and what they give together."""
    try:
        smaller = parts(share)
    except CompileError as e:
        return 0, _error(e)
    outcomes: dict[int, Outcome[list[R]]] = {}
    for number, found in workers.shared_out(partial(_outcome, work, tool_version()), common, smaller):
        outcomes[number] = (
            _in_parts(workers, work, common, smaller[number], parts)[1] if isinstance(found, Failed) else found
        )
    try:
        return len(smaller), Outcome([each for number in sorted(outcomes) for each in _result(outcomes[number])])
    except CompileError as e:
        return len(smaller), _error(e)


def _outcome(work: Callable[[Any, S], R], version: str, common: Any, share: S) -> Outcome[list[R]] | Failed:
    """Runs a share on a worker, and returns its outcome: an error, if the worker has another version of this tool."""
    if (own := tool_version()) != version:
        return _error(CompileError(f"a worker has {own}, not {version}", hint=f"install {version} on all machines"))
    try:
        return Outcome([work(common, share)])
    except MemoryError:
        return Failed()
    except CompileError as e:
        return Failed() if isinstance(e.__cause__, MemoryError) else _error(e)


def _error(e: CompileError) -> Outcome[Any]:
    return Outcome(error=(e.message, e.where, e.hint, e.option))


def _result(outcome: Outcome[R]) -> R:
    if outcome.error is not None:
        message, where, hint, option = outcome.error
        raise CompileError(message, where=where, hint=hint, option=option)
    assert outcome.result is not None, "work returns something"
    return outcome.result


def packed(module: ModuleOp, session: Session, cluster: str | Workers) -> Packed:
    """A module that can be sent to a cluster. Raises CompileError if its weights cannot be stored for the workers."""
    with scratch() as folder:
        path = folder / _FILE
        _, *beside = write_module(module, path, locations=True)
        return Packed(path.read_bytes(), _arrays(beside[0], cluster) if beside else b"", session.profile)


def _arrays(file: Path, cluster: str | Workers) -> bytes | Stored:
    return stored(file, cluster.folder) if isinstance(cluster, Storing) else file.read_bytes()


def unpacked(given: Packed) -> tuple[ModuleOp, Session]:
    """The module, which each thread of a worker reads once, in a silent session. Its arrays are mapped from a file.

    Shares that come later get the same module: work does not change its operations.
    """
    return _unpacked(given, get_ident())


@lru_cache(maxsize=_LOADED)
def _unpacked(given: Packed, thread: int) -> tuple[ModuleOp, Session]:
    from ..session.universe import new_session

    session = new_session().silent()
    session.profile = given.profile
    return parse_module(session, given.text.decode(), str(_beside(given.arrays).with_suffix(".mlir"))), session


def _beside(arrays: bytes | Stored) -> Path:
    """The path of the side file, which the text refers to by its name."""
    if isinstance(arrays, Stored):
        return fetched(arrays)
    path = (scratch_until_the_end() / _FILE).with_suffix(".safetensors")
    if arrays:
        path.write_bytes(arrays)
    return path
