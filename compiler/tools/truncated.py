"""A file that becomes shorter while it is mapped ends a tool with one line. The system's signal would end it without a word."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

from ..support.files import abandon

_MAPS = Path("/proc/self/maps")
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


def end_in_one_line() -> None:
    """Ends the process in one line from now on. Python's own handlers never run: they wait for the instruction that fails."""
    ctypes.CDLL(None).signal(signal.SIGBUS, _END)


@_HANDLER
def _END(_: int) -> None:
    if (file := _truncated()) is None:  # sent by another process, or broken hardware
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGBUS)
        return
    abandon()
    with suppress(OSError):
        os.write(2, os.fsencode(f"{file}: error: became shorter while it was read\n"))
    os._exit(1)


def _truncated() -> str | None:
    """A mapped file that is shorter than its mapping, on systems that list mappings."""
    for line in _MAPS.read_text(errors="surrogateescape").splitlines() if _MAPS.exists() else ():
        place, _, offset, _, inode, *path = line.split(maxsplit=5)
        if inode == "0" or not path:
            continue
        begin, end = (int(address, 16) for address in place.split("-"))
        with suppress(OSError):
            pages = -(-Path(path[0]).stat().st_size // os.sysconf("SC_PAGESIZE")) * os.sysconf("SC_PAGESIZE")
            if pages < int(offset, 16) + end - begin:
                return path[0]
    return None
