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
"""How many more objects there must be before Python looks for dead cycles. A module is millions of objects that live on: with
Python's own figure, 700, a tenth of importing and of building large modules is looking at them in vain.
"""


def run_tool(name: str, run: Callable[[Sequence[str]], int]) -> None:
    """Run a tool on the process's arguments and exit with its status.

    Text is UTF-8 whatever the locale. A reader that goes away and Ctrl-C end the tool quietly; anything else that comes out of
    `run` is a bug, is called one, and keeps its traceback.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    # read when numpy is loaded. Threads inside of products wait for each other in loops: they gain little on an idle machine,
    # and take several times the processor time on a busy one. What runs many samples has a thread for each of several.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else None)
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has no reader
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
