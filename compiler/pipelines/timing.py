"""The time of the phases of a compilation, and the peak memory of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.limits import locating

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Phase:
    """The time and memory of one phase; the phases inside it follow, one `depth` deeper."""

    def __init__(self, name: str, depth: int):
        self.name = name
        self.depth = depth
        self.seconds: float = 0.0
        self.peak = 0
        """The largest resident size while it ran, in bytes."""


class Timer:
    """Phases in the order in which they began."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._running: list[Phase] = []

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Measures the code inside `with`; phases may nest."""
        self._note_peak()
        phase = Phase(name, len(self._running))
        self.phases.append(phase)
        self._running.append(phase)
        start = time.perf_counter()
        try:
            with locating(name):
                yield
        finally:
            phase.seconds = time.perf_counter() - start
            self._note_peak()
            self._running.pop()

    def _note_peak(self) -> None:
        """Applies the peak since the last call to all phases that ran."""
        peak = peak_memory()
        for each in self._running:
            each.peak = max(each.peak, peak)
        _forget_peak()

    def lines(self) -> Iterator[str]:
        """A table of seconds and MiB for each phase; nested phases are indented."""
        yield f"{'phase':<40} {'seconds':>9} {'peak MiB':>9}"
        for each in self.phases:
            yield f"{'  ' * each.depth + each.name:<40} {each.seconds:9.3f} {each.peak / 2**20:9.0f}"


def peak_memory() -> int:
    """The largest resident size of this process in bytes: since `_forget_peak` on Linux, elsewhere since it began.

    Linux's `ru_maxrss` does not help: a process inherits that of the program that started it.
    """
    for line in _STATUS.read_text().splitlines() if _STATUS.exists() else ():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _forget_peak() -> None:
    """Resets Linux's peak (proc(5), clear_refs: 5); if that fails, peaks are those since the process began."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return
