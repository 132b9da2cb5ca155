"""A model in a file, what to run it on, and what an independent program computes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One model, with inputs, and the outputs that the program of its format computes."""

    format: str
    path: Path
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    traits: tuple[str, ...] = ()
    """What is counted about it."""
    exact: bool = True
    """Whether all of it is in float32."""
    imports: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of how it is read."""
