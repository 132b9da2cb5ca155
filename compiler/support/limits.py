"""Limits of the memory that a command may take, so that files cannot ask for more.

A file of a few hundred bytes can declare a tensor of terabytes. What it asks for beyond the limit is an error, not memory:
`AMCT_MAX_MEMORY` sets the limit, by default four fifths of the machine's memory, or of the container's.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from .diagnostics import CompileError

VARIABLE = "AMCT_MAX_MEMORY"
"""The environment variable that sets the limit: bytes, or with a unit: `500MB`, `16GB`."""

HINT = f"the environment variable {VARIABLE} sets the limit, such as {VARIABLE}=32GB"

HELP = f"{VARIABLE}=16GB in the environment sets how much memory a command may take (default: 80% of the machine's)"
"""The line about the limit in --help."""

_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SHARE = 0.8
_OF_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SMALL = 1 << 20
"""Bytes that are always within the limit."""
_MOST_EXPANDED = 1 << 20
"""Characters that aliases may add to a text of YAML. One of a few hundred characters could add terabytes."""
_UNKNOWN = 1 << 34
"""The memory of a machine that does not say how much it has."""


def most_bytes() -> int:
    """The limit. Raises CompileError if the variable is not a size."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return int(_SHARE * _memory())
    if (match := _SIZE.fullmatch(text)) is None or not int(match[1]):
        raise CompileError(f"'{text}' is not a size", where=VARIABLE, hint="write bytes or a unit: 500MB, 16GB")
    return int(match[1]) * _UNITS[match[2].lower()]


@cache
def _memory() -> int:
    """The memory of the machine, or of the container if that is less."""
    sizes: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _OF_CONTAINER:
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min((size for size in sizes if size > 0), default=_UNKNOWN)


def require(size: int, what: str, where: str) -> None:
    """Raises CompileError, located at `where`, if `what` takes more bytes than the limit."""
    if size > (limit := most_bytes()):
        raise CompileError(f"{what} takes {shown(size)}, and the limit is {shown(limit)}", where=where, hint=HINT)


def check_aliases(node: Any, length: int, where: str) -> None:
    """Raises CompileError, located at `where`, for a node of YAML, or a pair of them, that aliases make much longer than the text
    of `length` characters that it comes from.
    """
    if _size(node, {}) > _MOST_EXPANDED + 2 * length:
        raise CompileError("takes too much memory when its aliases are expanded", where=where)


def _size(node: Any, known: dict[int, float]) -> float:
    """The characters in a node of YAML, or in a pair of nodes, with aliases expanded; infinite for a node that contains itself.

    `known` has the sizes of its parts.
    """
    inside: Any = getattr(node, "value", node)
    if isinstance(inside, str):
        return 1 + len(inside)
    if id(node) not in known:
        known[id(node)] = math.inf
        known[id(node)] = 1 + sum(_size(each, known) for each in inside)
    return known[id(node)]


def shown(size: int) -> str:
    """A number of bytes, to three digits."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 10**15 else f"{size:.3g} bytes"
    return f"{size} bytes"


def shortage(error: MemoryError) -> str:
    """The message about an allocation that failed: numpy says how much it was."""
    return str(error) or "more memory is needed than there is"


@contextmanager
def locating(step: str) -> Generator[None]:
    """Adds a note to a MemoryError with the step in which it was raised; outer steps are added to inner ones."""
    try:
        yield
    except MemoryError as e:
        e.add_note(step)
        raise


def check_view(size: int) -> None:
    """Raises MemoryError for an array above the limit that is a view, and takes memory only from operations that read it."""
    if size > _SMALL and size > (limit := most_bytes()):
        raise MemoryError(f"its result takes {shown(size)}, and the limit is {shown(limit)}")


def enforce() -> None:
    """Makes allocations beyond the limit fail, in this process and those that it starts, if the system can.

    Memory that is mapped from files does not count. A limit that the process has already is not raised.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [n for n in (most_bytes(), soft, hard) if n != resource.RLIM_INFINITY]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
