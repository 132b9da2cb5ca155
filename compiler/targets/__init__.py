"""Targets: the formats of `-t`. One file or package per format."""

from __future__ import annotations

from typing import cast

from ..session import Target as Target
from ..session.catalogue import TARGETS
from ..support.registry import load


def target_named(name: str) -> type[Target]:
    """Our target of that name. Raises KeyError if there is none."""
    return cast("type[Target]", load(TARGETS[name]))
