"""What a command costs as a whole process: wall clock, processor time and peak memory.

Linux hands a process's largest resident size on to the program that it starts, so a large parent would be read as the child's
peak. Commands are therefore started by a bare interpreter of a few MB, which waits and reports.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_LAUNCHER = """
import json, os, sys, threading, time

def own(pid):
    with open(f"/proc/{pid}/status") as stream:
        found = dict(line.split(":", 1) for line in stream)
    kept = sum(int(found.get(name, "0 kB").split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
    with open(f"/proc/{pid}/task/{pid}/children") as stream:
        return kept + sum(map(own, stream.read().split()))

def watch():
    global most
    while not ended.wait(0.01):
        try:
            most = max(most, own(child))
        except OSError:
            pass  # a process that ends

most, ended, watcher = 0, threading.Event(), threading.Thread(target=watch)
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
watcher.start()
_, status, usage = os.wait4(child, 0)
wall = time.perf_counter() - start
ended.set()
watcher.join()
report = [os.waitstatus_to_exitcode(status), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, most]
os.write(int(sys.argv[1]), json.dumps(report).encode())
"""


class Cost(NamedTuple):
    """Of one run of a command."""

    wall: float
    """Seconds from start to end."""
    cpu: float
    """Seconds of all its threads, and of the processes that it waited for."""
    peak: int
    """Bytes resident at most; of several processes the largest."""
    own: int
    """Bytes at most that no file holds (RssAnon, RssShmem), of all its processes together; seen every hundredth of a second."""
    output: str
    """What it printed to stdout."""


class FailedError(Exception):
    """A command ended with another status than 0; the message is the end of what it printed to stderr."""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command once. Raises FailedError.

    Python keeps the bytecode of what it has compiled, as it has that of installed packages: peers are.
    """
    outer = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    receive, send = os.pipe()
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(send), *command]
    done = subprocess.run(
        launcher,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        pass_fds=(send,),
        env={**outer, **(environment or {})},
    )
    os.close(send)
    with os.fdopen(receive) as stream:
        report = stream.read()
    if done.returncode:
        raise FailedError(f"{command[0]}: {done.stderr.strip()[-2000:]}")
    status, wall, cpu, peak, own = json.loads(report)
    if status:
        raise FailedError(f"{' '.join(command)}:\nstatus {status}\n{done.stderr.strip()[-2000:]}")
    return Cost(wall, cpu, peak, own, done.stdout)


def in_turn(runs: int, *commands: Callable[[], Cost]) -> list[list[Cost]]:
    """The costs of each command; they take turns, so that a machine whose speed drifts does so for all of them."""
    rounds = [[command() for command in commands] for _ in range(runs)]
    return [list(costs) for costs in zip(*rounds, strict=True)]


class Spread(NamedTuple):
    """Least, median and largest of several figures."""

    least: float
    median: float
    most: float

    def text(self, unit: float = 1, digits: int = 2) -> str:
        """`0.41 (0.40-0.43)`: the median first."""
        least, median, most = (f"{x / unit:.{digits}f}" for x in self)
        return f"{median} ({least}-{most})"


def spread(figures: Sequence[float]) -> Spread:
    return Spread(min(figures), statistics.median(figures), max(figures))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ours over theirs, round by round."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])
