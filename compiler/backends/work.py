"""The work of a backend: run a module over samples, and show some of its values to whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..runtime.data import Samples
from ..runtime.executor import Watch
from ..session import Session


class Wanted(NamedTuple):
    """How a value is shown."""

    extremes: bool = False
    """Whether an array of the smallest and the largest number will do in place of all. Any NaN is one of the two."""
    ordered: bool = True
    """Whether batches must come one after the other. Else several threads may show values of different batches at a time."""


@dataclass(frozen=True)
class Work:
    """A module, what of its values is wanted, and the samples."""

    module: ModuleOp
    wanted: Mapping[SSAValue, Wanted]
    samples: Samples
    watch: Watch
    """Told the wanted values of a batch, in the order of the module. What it raises ends the work."""
    done: Callable[[], None]
    """Called after each batch, never twice at a time."""
    session: Session
