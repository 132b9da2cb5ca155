"""Engines that share out work: a Dask cluster, an executor of this machine, or any object with the method of `Engine`.

A Dask cluster is `local:N` processes of this machine, the address of a scheduler, or a `distributed.Client`.
"""

from __future__ import annotations

import atexit
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

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


@runtime_checkable
class Engine(Protocol):
    """Computes shares of work somewhere."""

    def shared_out(self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /) -> Iterator[tuple[int, R]]:
        """What `work(common, share)` returns, with the number of the share, in order of arrival.

        All three can be pickled, and so can results. Work may be done twice. Raises CompileError if the engine fails.
        """
        ...


def engine_of(given: Any) -> Engine:
    """The engine of a `distributed.Client`, of a `concurrent.futures.Executor`, or an object that is one.

    Raises CompileError for anything else.
    """
    if isinstance(given, Executor):
        return OfExecutor(given)
    if isinstance(given, Engine):
        return given
    if hasattr(given, "scatter") and hasattr(given, "submit"):
        return OnDask(given)
    hint = "give a distributed.Client, a concurrent.futures.Executor, or an object with the method shared_out"
    raise CompileError(f"{type(given).__name__} is not a client of a cluster", hint=hint)


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


@dataclass(frozen=True)
class OnDask:
    """The workers of a Dask cluster. `common` goes to each of them once; the shares of one that dies are computed by others."""

    client: Any

    def shared_out(self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /) -> Iterator[tuple[int, R]]:
        """See `Engine`. Raises CompileError if workers keep dying."""
        from distributed import KilledWorker, as_completed

        left, attempts = dict(enumerate(shares)), 0
        while left and attempts < _ATTEMPTS:
            before = len(left)
            sent = self.client.scatter([common], broadcast=True)[0]
            futures: dict[Any, int] = {
                self.client.submit(work, sent, share, pure=False): number for number, share in left.items()
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
                self.client.cancel(list(futures))
            attempts = 0 if len(left) < before else attempts + 1
        if left:
            raise CompileError(_DIED, hint=_LOGS)


@dataclass(frozen=True)
class OfExecutor:
    """The threads or processes of an executor. `common` goes with each share."""

    executor: Executor

    def shared_out(self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /) -> Iterator[tuple[int, R]]:
        """See `Engine`. Raises CompileError if a process dies."""
        futures = {self.executor.submit(work, common, share): number for number, share in enumerate(shares)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as e:
            raise CompileError("a process of the executor died", hint="a Dask cluster replaces workers that die") from e
        finally:
            for future in futures:
                future.cancel()


def engine_named(named: str | Engine) -> Engine:
    """The engine of `--cluster`, or the given one. Raises CompileError if it cannot be reached."""
    return OnDask(client(named)) if isinstance(named, str) else named
