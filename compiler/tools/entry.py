"""Start and end of the command-line tools. It is loaded first, and therefore loads only what Python has loaded already."""

from __future__ import annotations

import _thread
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn, TextIO

    from ..support.diagnostics import CompileError

_INTERRUPTS: Mapping[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
"""The signals that end a tool in one line, with its word for them. The status is 128 more than the signal, as a shell reports it.
"""
_GRACE = 2.0
"""Seconds that a tool has to end after a signal. Native code may run longer before Python notices the signal."""
INTERNAL_ERROR = 70
_ADDRESSES = 400 << 20
"""Bytes of addresses that Python, numpy and its linear algebra take while they are loaded."""
_UNMAPPED = "failed to map segment"
"""What the loader says of a library that memory has no room for."""
_USAGE = 2
_NEW_OBJECTS = 50_000
"""Number of new objects that triggers Python's search for dead cycles. A module consists of millions of objects that stay alive:
with Python's default, 700, a tenth of the time for importing and building large modules is spent on that search in vain.
"""
_STDERR: list[int] = []
"""A second descriptor of stderr: the usual one leads nowhere while libraries are loaded that print to it."""
with suppress(OSError):  # it is closed
    _STDERR.append(os.dup(2))
_IMPORTS = "<frozen importlib._bootstrap>"
"""The file that Python gives for the code of its import statement."""
_STREAMS = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
"""The standard streams by descriptor, with how the null device takes the place of one that is closed: reading from stdin and
printing to stdout fail, messages to stderr are lost.
"""


def amct() -> None:
    """The command line `amct`."""
    _start("amct", "amct")


def amct_opt() -> None:
    """The command line `amct-opt`."""
    _start("amct-opt", "amct_opt")


def _start(name: str, module: str) -> None:
    from importlib import import_module

    def end(number: int, _: object) -> None:
        _end_interrupted(name, number)

    for number in _INTERRUPTS:  # libraries that are being loaded make other errors of KeyboardInterrupt
        signal.signal(number, end)
    _require_addresses()
    import_module(".truncated", __package__).end_in_one_line()
    import_module("..support.files", __package__).own_temporary_folder()
    run_tool(name, import_module(f".{module}", __package__).run)


def _require_addresses() -> None:
    """End in one line if this process may have fewer addresses than libraries need: otherwise they end it, or fail in any way."""
    with suppress(ImportError):  # Windows
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        if (most := getrlimit(RLIMIT_AS)[0]) != RLIM_INFINITY and most < _ADDRESSES:
            shown = f"allows {most >> 20} MB of memory, and libraries by themselves take {_ADDRESSES >> 20} MB"
            sys.exit(f"ulimit -v: error: {shown}")


def run_tool(name: str, run: Callable[[Sequence[str]], int]) -> None:
    """Run a tool on the process's arguments and exit with its status.

    Text is UTF-8 whatever the locale. A closed pipe ends the tool quietly, Ctrl-C and SIGTERM with one line; any other exception
    that leaves `run` is reported as a bug, with its traceback.
    """
    interrupts = _Interrupts(name)
    try:
        status = _status(name, run)
        interrupts.end()
    except KeyboardInterrupt:
        _end_interrupted(name, interrupts.seen or signal.SIGINT)
    except Exception as e:
        if interrupts.seen:  # a library made another error of it
            _end_interrupted(name, interrupts.seen)
        status = _report(name, e)
    sys.exit(status)


def _set_up() -> None:
    """Set up Python, its standard streams, and the environment that libraries read when they are loaded."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    # read when numpy is loaded. Threads within a matrix product spin while they wait: they gain little on an idle machine,
    # and take several times the processor time on a busy one. Code that runs many samples uses a thread per batch instead.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=None if stream is sys.stdin else "backslashreplace")
    if sys.stdout is sys.__stdout__:
        sys.stdout = _Output(sys.stdout)


def _status(name: str, run: Callable[[Sequence[str]], int]) -> int | str | None:
    """Run a tool. Returns its status, 1 if not everything could be printed."""
    status: int | str | None = 0
    try:
        try:
            _set_up()
            status = _limit_memory() or run(sys.argv[1:])
        except SystemExit as e:  # --help and --version
            status = e.code
        sys.stdout.flush()
        if isinstance(sys.stdout, _Output) and sys.stdout.failure is not None:  # argparse ignores it
            raise sys.stdout.failure
        return status
    except BrokenPipeError:
        pass
    except (OSError, MemoryError, ImportError) as e:
        if isinstance(e, ImportError) and _UNMAPPED not in str(e):
            raise
        if not status:  # else the tool has said so
            with suppress(OSError):
                print(explained(e, name if isinstance(e, ImportError) else ""), file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody gets what is still buffered
    return 1


def _limit_memory() -> int:
    """Sets the limit of this process. Returns the status to end with, not 0 if the environment's limit is not a size."""
    from ..support.diagnostics import CompileError
    from ..support.limits import enforce

    try:
        enforce()
    except CompileError as e:
        print(e, file=sys.stderr)
        return _USAGE
    return 0


class _Output(io.TextIOWrapper):
    """Standard output in UTF-8. Its errors have its name."""

    def __init__(self, stream: TextIO):
        through = getattr(stream, "write_through", False)
        bare = open(stream.fileno(), "wb", buffering=0 if through else -1, closefd=False)  # noqa: SIM115
        terminal = stream.line_buffering
        super().__init__(bare, "utf-8", "backslashreplace", line_buffering=terminal, write_through=through)  # pyright: ignore
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as e:
            self._fail(e)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as e:
            self._fail(e)

    def _fail(self, error: OSError) -> NoReturn:
        if isinstance(error, BrokenPipeError):
            raise error
        self.failure = OSError(error.errno, f"cannot be written: {error.strerror}", "standard output")
        raise self.failure from None


class _Interrupts:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt. They end the process where that cannot be raised, while a library is loaded,
    the second time, and if the tool does not end soon after the first time."""

    def __init__(self, name: str):
        self.name = name
        self.seen = 0
        """The signal that came, 0 before."""
        for number in _INTERRUPTS:
            signal.signal(number, self._raise)
        sys.unraisablehook, self._hook = self._lost, sys.unraisablehook
        arrived, arrives = os.pipe()
        os.set_blocking(arrives, False)
        signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)  # written to at once, also while native code runs
        with suppress(RuntimeError):  # no thread can be started: native code delays the end
            _thread.start_new_thread(self._watch, (arrived,))

    def _raise(self, number: int, frame: FrameType | None) -> NoReturn:
        if self.seen or _in_import(frame):
            _end_interrupted(self.name, number)
        self.seen = number
        raise KeyboardInterrupt

    def _watch(self, arrived: int) -> None:
        while (number := os.read(arrived, 1)[0]) not in _INTERRUPTS:
            pass
        time.sleep(_GRACE)
        if signal.getsignal(number) == self._raise:
            _end_interrupted(self.name, number)

    def _lost(self, unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            self._hook(unraisable)
        else:
            _end_interrupted(self.name, self.seen or signal.SIGINT)

    def end(self) -> None:
        """The result is complete: from now on these signals change nothing."""
        for number in _INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = self._hook


def _in_import(frame: FrameType | None) -> bool:
    """Whether this frame, or one that called it, loads a library: many make an ImportError of KeyboardInterrupt, which
    would report that they are not installed.
    """
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


def _end_interrupted(name: str, number: int) -> NoReturn:
    """End at once: neither running threads nor the exit handlers of libraries may delay or print anything."""
    files = sys.modules.get(f"{__name__.partition('.')[0]}.support.files")
    if abandon := getattr(files, "abandon", None):  # not while it is being loaded
        abandon()
    with suppress(OSError):
        for stderr in _STDERR:
            os.write(stderr, f"{name}: {_INTERRUPTS[number]}\n".encode())
    os._exit(128 + number)


def _open_closed_streams() -> None:
    """Opens standard streams that are closed, so that no other file gets their descriptors."""
    for descriptor, (name, mode, flags) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def explained(error: OSError | MemoryError | ImportError, command: str = "") -> CompileError:
    """An error of the system as one line: the file or step, or else the command, and the system's message."""
    from ..support.diagnostics import CompileError
    from ..support.limits import HINT

    if not isinstance(error, OSError):
        steps = ", ".join(dict.fromkeys(reversed(getattr(error, "__notes__", ()))))
        return CompileError(f"not enough memory. {error}".removesuffix(". "), where=steps or command, hint=HINT)
    where = error.filename2 or error.filename
    return CompileError(error.strerror or str(error), where=command if where is None else os.fsdecode(where))


def _report(name: str, error: Exception) -> int:
    """Print what a plugin raised, or a traceback. Returns the status to end with."""
    import traceback

    from ..support.registry import failed_plugin

    if (failure := failed_plugin(error)) is not None:
        print(failure, file=sys.stderr)
        return 1
    error.__notes__ = []  # xDSL notes the whole module, weights included
    traceback.print_exception(error)
    print(f"{name}: internal error: this is a bug in {name}; please report it with the lines above", file=sys.stderr)
    return INTERNAL_ERROR
