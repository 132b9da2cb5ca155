"""Dask clusters: `local:N` processes of this machine, or the address of a scheduler."""

from __future__ import annotations

import atexit
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from ..diagnostics import CompileError

_DIED = "the workers of the cluster keep dying on the same samples"
_LOGS = "their logs say why; if memory runs out, start fewer workers on each machine"

_ATTEMPTS = 3
"""How often all workers may die before one has finished a share."""

T = TypeVar("T")
R = TypeVar("R")

_INSTALL = "pip install 'amct-opt[cluster]'"
_LOCAL = re.compile(r"local:([1-9]\d{0,3})")
_ADDRESS = re.compile(r"(?:tcp|tls|ucx|ws|wss)://\S+")
_SECONDS = 10
"""How long to wait for a scheduler."""


def check(text: str) -> None:
    """Raises CompileError for a text that does not name a cluster, or if Dask is not installed."""
    if not (_LOCAL.fullmatch(text) or _ADDRESS.fullmatch(text)):
        hint = "local:N starts N processes here, tcp://host:8786 is the scheduler of a Dask cluster"
        raise CompileError(f"'{text}' is not a cluster", hint=hint)
    if find_spec("distributed") is None:
        raise CompileError("a cluster requires Dask to be installed", hint=_INSTALL)


@cache
def client(text: str) -> Any:
    """The client (`distributed.Client`) of a cluster, open until the end. Raises CompileError if it cannot be reached."""
    from distributed import Client, LocalCluster

    if (match := _LOCAL.fullmatch(text)) is None:
        try:
            return _until_the_end(Client(text, timeout=_SECONDS))
        except (OSError, TimeoutError) as e:
            raise CompileError(f"no scheduler answers within {_SECONDS} seconds", where=text) from e
    options: dict[str, Any] = {
        "memory_limit": None,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
    }
    workers = LocalCluster(n_workers=int(match[1]), threads_per_worker=1, **options)
    atexit.register(_closed, workers)
    return _until_the_end(Client(workers))


def _until_the_end(opened: Any) -> Any:
    atexit.register(_closed, opened)
    return opened


def _closed(opened: Any) -> None:
    with suppress(Exception):  # what is lost with it is computed already
        opened.close()


def shared_out(opened: Any, work: Callable[[Any, T], R], common: Any, shares: Sequence[T]) -> Iterator[tuple[int, R]]:
    """What `work(common, share)` returns on some worker, with the share's number, in order of arrival.

    `common` goes to each worker once. The shares of a worker that dies are computed by others. Raises CompileError if
    they keep dying.
    """
    from distributed import KilledWorker, as_completed

    left, attempts = dict(enumerate(shares)), 0
    while left and attempts < _ATTEMPTS:
        before = len(left)
        sent = opened.scatter([common], broadcast=True)[0]
        futures: dict[Any, int] = {
            opened.submit(work, sent, share, pure=False): number for number, share in left.items()
        }
        try:
            for future in cast(Iterable[Any], as_completed(futures)):
                with suppress(CancelledError):  # all workers that had `common` died: once more
                    result = future.result()
                    del left[futures[future]]
                    yield futures[future], result
        except KilledWorker as e:
            raise CompileError(_DIED, hint=_LOGS) from e
        finally:
            opened.cancel(list(futures))
        attempts = 0 if len(left) < before else attempts + 1
    if left:
        raise CompileError(_DIED, hint=_LOGS)
