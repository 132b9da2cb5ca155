"""The difference of the outputs of two modules, on a cluster: workers measure each run, and the measures are added in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from threading import get_ident
from typing import Any, NamedTuple, TypeVar

from xdsl.dialects.builtin import ModuleOp

from ..data import Samples
from ..engines.cluster import Workers
from ..engines.sharing import Bar, Packed, halves, in_order, packed, shares_of, unpacked
from ..runtime.executor import Executable
from ..runtime.metrics import Measure
from ..session import Session

M = TypeVar("M", bound=Measure)


class _Pair(NamedTuple):
    expected: Packed
    other: Packed
    measure: Callable[[], Any]


def shared_difference(
    cluster: str | Workers,
    expected: ModuleOp,
    other: ModuleOp,
    samples: Samples,
    session: Session,
    measure: Callable[[], M],
) -> M:
    """The difference of the outputs of two modules, equal to that of `difference_of` to the bit. Workers call `measure`."""
    total, shares = measure(), shares_of(samples)
    pair = _Pair(packed(expected, session, cluster), packed(other, session, cluster), measure)
    bar = Bar.of("measure", [share.count for share in shares])
    for found in in_order(cluster, _measured, pair, shares, session, bar, halves):
        for each in chain.from_iterable(found):
            total.merge(each)
    return total


def _measured(pair: _Pair, share: Samples) -> list[Any]:
    """Measures each run, on a worker. Sums of runs would round otherwise than one after the other."""
    expected, other = (_executable(each, get_ident()) for each in (pair.expected, pair.other))
    measured: list[Any] = []
    for batch in share.batches():
        measured.append(one := pair.measure())
        one.add(expected.run(batch), other.run(batch))
    return measured


@lru_cache(maxsize=16)
def _executable(given: Packed, thread: int) -> Executable:
    return Executable(unpacked(given)[0])
