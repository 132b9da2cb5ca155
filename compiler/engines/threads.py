"""Threads that take batches from one iterator, and take turns if the order of batches matters."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Condition, Thread
from typing import Generic, TypeVar

MOST_THREADS = 8
"""The default limit: each thread has the values of a batch in memory."""

T = TypeVar("T")

Turn = AbstractContextManager[None]
"""A context that is entered when all earlier batches have left theirs. Every batch must take its turn."""


def threads_here() -> int:
    """Number of threads to use: one per core that this process may use, at most `MOST_THREADS`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def threads_of_blas(count: int) -> AbstractContextManager[object]:
    """A context in which numpy's products use `count` threads; more than one in each of ours would compete for the cores."""
    from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

    return threadpool_limits(count, user_api="blas")


class _Overtaken(Exception):
    """Raised if an earlier batch has failed, so that this one is not needed."""


class OrderedBatches(Generic[T]):
    """Batches in order, and the number of the batch whose turn it is."""

    def __init__(self, batches: Iterable[T]):
        self._batches = iter(batches)
        self._changed = Condition()
        self._taken = 0
        self._turn = 0
        self._failures: dict[int, BaseException] = {}

    def run(self, work: Callable[[T, Turn], None], threads: int) -> None:
        """Call `work` for each batch, in this many threads. When one fails those before it are finished, none is begun any more,
        and what the first of them raised is raised.
        """
        with threads_of_blas(1) if threads > 1 else nullcontext():
            self._run(work, threads)

    def _run(self, work: Callable[[T, Turn], None], threads: int) -> None:
        others: list[Thread] = []
        with suppress(RuntimeError):  # the system allows no more threads: fewer do the same
            for _ in range(threads - 1):
                thread = Thread(target=self._work, args=(work,), daemon=True)
                thread.start()
                others.append(thread)
        self._work(work)
        for thread in others:
            thread.join()
        if self._failures:
            raise self._failures[min(self._failures)]

    def _work(self, work: Callable[[T, Turn], None]) -> None:
        while (taken := self._take()) is not None:
            index, batch = taken
            try:
                work(batch, self._turn_of(index))
            except _Overtaken:
                return
            except BaseException as e:
                self._fail(index, e)

    def _take(self) -> tuple[int, T] | None:
        """The next batch is read while the other threads compute."""
        with self._changed:
            if self._failures:
                return None
            index = self._taken
            try:
                batch = next(self._batches)
            except StopIteration:
                return None
            except BaseException as e:
                self._failures[index] = e
                self._changed.notify_all()
                return None
            self._taken += 1
            return index, batch

    def _fail(self, index: int, error: BaseException) -> None:
        with self._changed:
            self._failures[index] = error
            self._changed.notify_all()

    @contextmanager
    def _turn_of(self, index: int) -> Generator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == index or any(i < index for i in self._failures))
            if self._turn != index:
                raise _Overtaken
        yield
        with self._changed:
            self._turn = index + 1
            self._changed.notify_all()
