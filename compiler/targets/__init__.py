"""Targets: what `-t` writes. One file or package per format."""

from __future__ import annotations

from typing import cast

from ..catalogue import TARGETS
from ..registry import load
from ..session import Target as Target


def target_named(name: str) -> type[Target]:
    """Our target of that name. Raises KeyError if there is none."""
    return cast("type[Target]", load(TARGETS[name]))
