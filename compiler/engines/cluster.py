"""Engines that share out work: a Dask cluster, an executor of this machine, or any object with the method of `Workers`.

A Dask cluster is `local:N` processes of this machine, the address of a scheduler, or a `distributed.Client`.
"""

from __future__ import annotations

import atexit
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, cast, runtime_checkable
from urllib.parse import urlsplit

from ..support.diagnostics import CompileError, UsageError, first_line
from ..support.tables import numbered

_DIED = "workers of the cluster run out of memory, or die, on the same work again and again"
_FEWER = "if memory runs out, start fewer workers on each machine"
_LOGS = f"their logs say why; {_FEWER}"

_RESUME = "with --checkpoint DIR the same command goes on where it was stopped"

_LARGE = "distributed.admin.large-graph-warning-threshold"

T = TypeVar("T")
R = TypeVar("R")

_INSTALL = "pip install 'amct-opt[cluster]'"
_LOCAL = re.compile(r"local:([1-9]\d{0,3})")
_ADDRESS = re.compile(r"(?:tcp|tls|ucx|ws|wss)://\S+")
_CERTIFICATES = "write --cluster tls://host:8786 --cluster-tls ca.pem,cert.pem,key.pem"
_WITHOUT = ("none",)
"""In place of certificates: whoever reaches the network is trusted."""
_TLS = ("tls_ca_file", "tls_client_cert", "tls_client_key")
_SECONDS = 10
"""Seconds to wait for a scheduler."""
_LOOK = 5
"""Seconds after which workers are looked for."""
_PAUSED = 20
"""Seconds after which a share is taken from a worker that does not begin it."""
_SENDING = 10
"""Seconds to wait for a result that is computed, at first; then twice as long each time, because large ones take long to send."""
_PATIENCE = 300
"""Seconds without any worker that end the work, if there was a worker before."""


class Failed:
    """A share without a result: the memory of workers ran out, or one after the other died on it."""


def failure(where: str = "") -> CompileError:
    """The error about a share that failed and cannot be cut into smaller parts."""
    return CompileError(_DIED, where=where, hint=_LOGS)


@dataclass(frozen=True)
class Settled:
    """A share whose worker keeps something for the next work on it: it goes to the same worker again, if that is possible."""

    number: int
    """The share's number among those shares."""


@runtime_checkable
class Workers(Protocol):
    """Computes shares of work somewhere."""

    def shared_out(
        self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /
    ) -> Iterator[tuple[int, R | Failed]]:
        """Yields what `work(common, share)` returns, with the number of the share, in order of arrival; `Failed()` for
        a share on which workers die.

        All three can be pickled, and so can results. Work may be done twice. Raises CompileError if they fail.
        """
        ...


def workers_of(given: Any) -> Workers:
    """The workers of a `distributed.Client`, of a `concurrent.futures.Executor`, or of an object with `shared_out`.

    Raises CompileError for anything else.
    """
    if isinstance(given, Executor):
        return OfExecutor(given)
    if isinstance(given, Workers):
        return given
    if hasattr(given, "scatter") and hasattr(given, "submit"):
        return OnDask(given)
    hint = "give a distributed.Client, a concurrent.futures.Executor, or an object with the method shared_out"
    raise CompileError(f"{type(given).__name__} is not a client of a cluster", hint=hint)


def check(text: str) -> None:
    """Raises CompileError for a text that does not name a cluster, or if Dask is not installed."""
    if not (_LOCAL.fullmatch(text) or _ADDRESS.fullmatch(text)):
        hint = "local:N starts N processes here, tcp://host:8786 is the scheduler of a Dask cluster"
        raise CompileError(f"'{text}' is not a cluster", hint=hint, option="cluster")
    if find_spec("distributed") is None:
        raise CompileError("a cluster requires Dask to be installed", hint=_INSTALL, option="cluster")


def secured(cluster: str | Workers | None, files: tuple[str, ...]) -> str | Workers | None:
    """The cluster; that of a scheduler that is reached by TLS with the certificate of its authority, an own one, and its key.

    Raises CompileError if they cannot be reached, and for files that are missing; UsageError for a scheduler of another machine
    without TLS, unless `none` is in place of the files.
    """
    if not files and isinstance(cluster, str) and _ADDRESS.fullmatch(cluster) and not _is_here(cluster):
        message = f"{cluster} is another machine: without TLS, who reaches it or this one runs code and sees all data"
        hint = f"{_CERTIFICATES}, or on a network of your own --cluster-tls none"
        raise UsageError(message, hint=hint, option="cluster")
    if not files or files == _WITHOUT:
        return cluster
    if not isinstance(cluster, str) or not cluster.startswith("tls://") or len(files) != len(_TLS):
        message = "certificates are three files, for a cluster at tls://"
        raise CompileError(message, hint=_CERTIFICATES, option="cluster-tls")
    check(cluster)
    for file in files:
        if not Path(file).is_file():
            raise CompileError("there is no such file", where=file)
    return OnDask(client(cluster, files))


def _is_here(address: str) -> bool:
    """Whether an address is of the loopback interface, which no other machine reaches."""
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # it is a name
        return False


@cache
def client(text: str, tls: tuple[str, ...] = ()) -> Any:
    """The client (`distributed.Client`) of a cluster, open until the end. Raises CompileError if they cannot be reached."""
    from distributed import Client, LocalCluster, Security

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is an error here
    if text.startswith("tls://") and not tls:
        raise CompileError("a cluster at tls:// needs certificates", where=text, hint=_CERTIFICATES)
    if (match := _LOCAL.fullmatch(text)) is None:
        try:
            secure = Security(require_encryption=True, **dict(zip(_TLS, tls, strict=True))) if tls else None
            return _until_the_end(Client(text, timeout=_SECONDS, security=secure))
        except (
            OSError,
            TimeoutError,
            MemoryError,
        ) as e:  # those of TLS; another server's answer read as the size of a message
            raise CompileError(f"no scheduler answers within {_SECONDS} seconds", where=text) from e
    options: dict[str, Any] = {
        "memory_limit": None,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
    }
    try:
        workers = LocalCluster(n_workers=int(match[1]), threads_per_worker=1, **options)
        atexit.register(_closed, workers)
        return _until_the_end(Client(workers))
    except Exception as e:  # Dask's have no other base; the first one says what went wrong
        while e.__cause__ is not None:
            e = cast("Exception", e.__cause__)
        reason = first_line(e).rstrip(".") or type(e).__name__
        raise CompileError(f"the workers do not start: {reason}", where=text, hint=_FEWER) from None


def _until_the_end(opened: Any) -> Any:
    atexit.register(_closed, opened)
    if (link := opened.dashboard_link) and find_spec("bokeh") is not None:
        print(f"note: dashboard of the cluster: {link}", file=sys.stderr)
    return opened


class Status:
    """The workers, in words."""

    def __init__(self, workers: Workers):
        self._client = workers.client if isinstance(workers, OnDask) else None
        self._seen: set[str] = set()
        self._text = ""

    def text(self) -> str:
        """The numbers of present and of lost workers; empty if they are not known."""
        if self._client is None:
            return ""
        with suppress(OSError):  # a scheduler that is gone is an error where work is waited for
            present: set[str] = {*self._client.nthreads()}
            self._seen |= present
            lost = len(self._seen - present)
            self._text = numbered(len(present), "worker") + (f", {lost} lost" if lost else "")
        return self._text


def _closed(opened: Any) -> None:
    with suppress(Exception):  # what is lost with it is computed already
        opened.close()


@dataclass(frozen=True)
class OnDask:
    """The workers of a Dask cluster. `common` goes to each of them once; the shares of one that dies are computed by others."""

    client: Any

    def shared_out(
        self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /
    ) -> Iterator[tuple[int, R | Failed]]:
        """See `Workers`. Raises CompileError if workers die before they begin, or the scheduler does not answer any more.

        `common` is the result of a task, not scattered data: if all workers that have it die, Dask computes it again. Scattered
        data may be lost unnoticed if a worker dies while it receives them, and then all others wait for ever.
        """
        from dask import config
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        futures: dict[Any, int] = {}
        waiting: dict[Any, float] = {}
        try:
            workers = self._workers()
            with config.set({_LARGE: "1TB"}):  # the model and arrays are meant to be sent
                sent = self.client.submit(_given, common, pure=False)
                futures |= {
                    self.client.submit(work, sent, share, pure=False, **_place(share, workers)): number
                    for number, share in enumerate(shares)
                }
            waiting |= dict.fromkeys([sent, *futures], _SENDING)
            for future, stranded, patience in self._arriving(waiting, had_workers=bool(workers)):
                if future is sent:
                    continue
                try:
                    result = Failed() if stranded else future.result(patience)
                except TimeoutError:
                    if future.status == "error":  # the work's own
                        raise
                    # the worker takes long to send the result, or died with it; then Dask computes it again, on others
                    waiting[future] = 2 * patience
                    continue
                except KilledWorker as e:
                    if e.task == sent.key:
                        raise failure() from e
                    result = Failed()
                yield futures[future], result
        except (CommClosedError, CancelledError) as e:
            raise CompileError("the scheduler of the cluster is gone", hint=_RESUME) from e
        finally:
            with suppress(CommClosedError):
                self.client.cancel(list(futures))

    def _workers(self) -> list[str]:
        """The addresses of all workers. Raises CommClosedError if the scheduler does not answer."""
        from distributed.comm.core import CommClosedError

        try:
            return sorted(self.client.nthreads())
        except OSError as e:
            raise CommClosedError(str(e)) from e

    def _arriving(self, waiting: dict[Any, float], had_workers: bool) -> Iterator[tuple[Any, bool, float]]:
        """Futures as they are done, until none is `waiting`, with the seconds to wait for their results. The second element is
        true for a future that will never be done: it waited on a worker without memory, and was cancelled.

        `had_workers` tells whether there were workers before anything was sent, which may take long. Raises CompileError if all
        workers were lost long ago.
        """
        arrived, idle = SimpleQueue[Any](), dict[str, float]()
        looked = seen = time.monotonic()
        future: Any
        for future in waiting:
            future.add_done_callback(arrived.put)
        while waiting:
            try:
                future = arrived.get(timeout=max(0, looked + _LOOK - time.monotonic()))
            except Empty:
                future = None
            if future in waiting:
                yield future, False, waiting.pop(future)
            if future in waiting:  # without a result
                future.add_done_callback(arrived.put)
            if time.monotonic() - looked < _LOOK:
                continue
            looked = time.monotonic()
            _revive(self.client.cluster)
            if self._workers():
                had_workers, seen = True, time.monotonic()
            elif had_workers and time.monotonic() - seen > _PATIENCE:
                raise CompileError("the cluster has lost all of its workers", hint=f"{_LOGS}; {_RESUME}")
            stranded = self._stranded(idle)
            for future in [future for future in waiting if future.key in stranded]:
                future.cancel()
                yield future, True, waiting.pop(future)

    def _stranded(self, idle: dict[str, float]) -> set[str]:
        """The keys of tasks on workers that Dask has paused because their memory is nearly full, and that do not compute anything
        that would free some of it; these workers are restarted. `idle` has the time since when each is so.
        """
        workers = self.client.scheduler_info(n_workers=-1).get("workers", {})
        now, before = time.monotonic(), dict(idle)
        idle.clear()
        for address, worker in workers.items():
            if worker["status"] == "paused" and not worker["metrics"].get("task_counts", {}).get("executing"):
                idle[address] = before.get(address, now)
        long = [address for address, since in idle.items() if now - since > _PAUSED]
        stranded = {key for keys in self.client.processing(long).values() for key in keys} if long else set[str]()
        if stranded:
            with suppress(ValueError):  # they have no nanny: what waits there stays in their memory
                self.client.restart_workers(long, raise_for_error=False)
        return stranded


def _revive(cluster: Any) -> None:
    """Restarts workers of a local cluster that died while they started: Dask gives these up."""
    from distributed import LocalCluster
    from distributed.core import Status

    def forget() -> None:
        for name, worker in list(cluster.workers.items()):
            if worker.status in (Status.closed, Status.failed):
                del cluster.workers[name]

    if isinstance(cluster, LocalCluster):
        cluster.loop.add_callback(forget)  # pyright: ignore
        cluster.scale(len(cluster.worker_spec))  # pyright: ignore


def _place(share: object, workers: Sequence[str]) -> Mapping[str, Any]:
    """The worker that a share prefers, as arguments of Dask."""
    if not isinstance(share, Settled) or not workers:
        return {}
    return {"workers": workers[share.number % len(workers)], "allow_other_workers": True}


def _given(common: T) -> T:
    return common


@dataclass(frozen=True)
class OfExecutor:
    """The threads or processes of an executor. `common` goes with each share."""

    executor: Executor

    def shared_out(self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /) -> Iterator[tuple[int, R]]:
        """See `Workers`. Raises CompileError if a process dies."""
        futures = {self.executor.submit(work, common, share): number for number, share in enumerate(shares)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as e:
            raise CompileError("a process of the executor died", hint="a Dask cluster replaces workers that die") from e
        finally:
            for future in futures:
                future.cancel()


@dataclass(frozen=True)
class Storing:
    """Workers that read the weights of models from a folder, or from an address that fsspec reads."""

    workers: Any
    """The name of a cluster, or what `workers_of` takes."""
    folder: str

    def __post_init__(self) -> None:
        """Raises CompileError for a bad name of a cluster, and for anything else that is not one."""
        if isinstance(self.workers, str):
            check(self.workers)
        else:
            workers_of(self.workers)

    def shared_out(
        self, work: Callable[[Any, T], R], common: Any, shares: Sequence[T], /
    ) -> Iterator[tuple[int, R | Failed]]:
        """See `Workers`."""
        return workers_named(self).shared_out(work, common, shares)


def workers_named(named: str | Workers) -> Workers:
    """The workers of `--cluster`, or the given ones. Raises CompileError if they cannot be reached."""
    inner = named.workers if isinstance(named, Storing) else named
    return OnDask(client(inner)) if isinstance(inner, str) else workers_of(inner)
