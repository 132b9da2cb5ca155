"""How the command-line tools start and end."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable, Sequence

INTERRUPTED = 130
INTERNAL_ERROR = 70
_NEW_OBJECTS = 50_000
"""How many new objects trigger Python's search for dead cycles. A module consists of millions of objects that stay alive:
with Python's default, 700, a tenth of the time for importing and building large modules is spent on that search in vain.
"""


def run_tool(name: str, run: Callable[[Sequence[str]], int]) -> None:
    """Run a tool on the process's arguments and exit with its status.

    Text is UTF-8 whatever the locale. A closed pipe and Ctrl-C end the tool quietly; any other exception that leaves `run` is
    reported as a bug, with its traceback.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    # read when numpy is loaded. Threads within a matrix product spin while they wait: they gain little on an idle machine,
    # and take several times the processor time on a busy one. Code that runs many samples uses a thread per batch instead.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else None)
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads what is still buffered
        status = 1
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Exception as e:
        _report(name, e)
        status = INTERNAL_ERROR
    sys.exit(status)


def _report(name: str, error: Exception) -> None:
    import traceback

    error.__notes__ = []  # xDSL notes the whole module, weights included
    traceback.print_exception(error)
    print(f"{name}: internal error: this is a bug in {name}; please report it with the lines above", file=sys.stderr)
