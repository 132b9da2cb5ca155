"""The work of an engine: run a module over samples, and show some of its values to a watcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..data import Samples
from ..runtime.executor import Watch
from ..session import Session


class Wanted(NamedTuple):
    """The form in which a value is shown."""

    extremes: bool = False
    """Whether an array of the smallest and the largest number is enough. If there is a NaN, one of the two is NaN."""
    ordered: bool = True
    """Whether batches must come in order; otherwise several threads may show values of different batches at a time."""


@dataclass(frozen=True)
class Work:
    """A module, its wanted values, and the samples."""

    module: ModuleOp
    wanted: Mapping[SSAValue, Wanted]
    samples: Samples
    watch: Watch
    """Called with each wanted value of a batch, in the order of the module. An exception ends the work."""
    done: Callable[[], None]
    """Called after each batch, never twice at a time."""
    session: Session
