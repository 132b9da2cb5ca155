"""Findings of passes in values while samples run through a module: here, or in shares on a cluster, added in order.

Results are equal to the bit to those of one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..data import Samples
from ..ir.array import Array
from ..session import Session
from . import Runner, Wanted, Work
from .checkpoint import Checkpoint
from .data_hash import digest_of
from .references import referred, resolved
from .sharing import Bar, Packed, halves, in_order, packed, shares_of, unpacked

State = Mapping[str, Array]


class Finding(Protocol):
    """Adds up what it is shown of one value. One that has seen nothing can be pickled, apart from references to the module."""

    def show(self, array: Array, run: int) -> None:
        """Shows the value in the run of this number, after those before. Raises CompileError."""
        ...

    def state(self) -> State:
        """The findings so far."""
        ...

    def merge(self, state: State) -> None:
        """Adds what another one has found in the runs after."""
        ...


Findings = Mapping[SSAValue, Sequence[Finding]]


def show(module: ModuleOp, findings: Findings, samples: Samples, session: Session, runner: Runner, phase: str) -> None:
    """Shows all samples to findings that have seen nothing. The cluster of `runner`, if it has one, shares the samples.

    Raises CompileError, located in the data, at an operation, or as findings do.
    """
    if runner.cluster is not None:
        _shared(module, findings, samples, session, runner, phase)
        return
    done = count(1)
    _shown(module, findings, samples, 0, session, runner, lambda: session.progress(phase, next(done), samples.runs))


def _shown(
    module: ModuleOp,
    findings: Findings,
    samples: Samples,
    first: int,
    session: Session,
    runner: Runner,
    done: Callable[[], None],
) -> None:
    """Shows samples whose first run has this number."""
    runs: Counter[SSAValue] = Counter()

    def watch(value: SSAValue, array: Array) -> None:
        for each in findings[value]:
            each.show(array, first + runs[value])
        runs[value] += 1

    runner.run(Work(module, dict.fromkeys(findings, Wanted()), samples, watch, done, session))


class _Common(NamedTuple):
    """The data that all shares need."""

    module: Packed
    findings: bytes
    """Refers to the module."""
    first: int
    """The number of the first sample of all."""
    runner: Runner

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies what is looked for, as plain data, apart from the samples."""
        return self.module.digest, self.findings.hex(), self.runner.engine


def _shared(
    module: ModuleOp, findings: Findings, samples: Samples, session: Session, runner: Runner, phase: str
) -> None:
    assert runner.cluster is not None
    settled = runner.settled(Work(module, dict.fromkeys(findings, Wanted()), samples, _ignore, _ignore, session))
    here = replace(settled, cluster=None, checkpoint=None, threads=settled.threads or 1)
    common = _Common(packed(module, session, runner.cluster), referred(module, findings), samples.first, here)
    shares, every = shares_of(samples), [each for found in findings.values() for each in found]
    digest = partial(digest_of, samples, session, runner.cluster)
    checkpoint = Checkpoint.of(runner.checkpoint, lambda: (*common.key, digest(), samples.batch_size))
    merged, arrays = checkpoint.taken_up()
    if merged:
        for i, each in enumerate(every):
            each.merge({name.partition("/")[2]: a for name, a in arrays.items() if name.startswith(f"{i}/")})
    sizes = [share.count for share in shares]
    bar = Bar(phase, sizes[merged:], sum(sizes[:merged]), samples.count)
    for states in in_order(runner.cluster, _states, common, shares[merged:], session, bar, halves):
        for state in states:
            for one, found in zip(every, state, strict=True):
                one.merge(found)
        merged += 1
        checkpoint.keep(partial(_arrays, every), merged, last=merged == len(shares))


def _ignore(*_: object) -> None:
    """Does nothing: no work is done here, so there is nothing to see."""


def _arrays(findings: Sequence[Finding]) -> Mapping[str, Array]:
    return {f"{i}/{name}": array for i, each in enumerate(findings) for name, array in each.state().items()}


def _states(common: _Common, share: Samples) -> list[State]:
    """The findings in a share, on a worker."""
    module, session = unpacked(common.module)
    findings: Findings = resolved(module, common.findings)
    first = (share.first - common.first) // share.batch_size
    _shown(module, findings, share, first, session, common.runner, _ignore)
    return [each.state() for found in findings.values() for each in found]
