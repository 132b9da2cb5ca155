"""Python's garbage collector, set aside while a pass makes many operations."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_aside() -> Generator[None]:
    """Also a decorator. The collector walks all of a large module again and again while new operations are made; what a pass
    leaves behind is collected afterwards. This alone makes large modules linear.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
