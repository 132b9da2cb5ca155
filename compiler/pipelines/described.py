"""Classes and their patterns described, for --help, --list-patterns and the docs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

from ..rewriting import CheckedPattern
from ..session import Session


def statement(cls: type[Any]) -> str:
    """A docstring; dataclasses without one have their signature there, and no statement."""
    text = inspect.getdoc(cls) or ""
    return "" if text.startswith(f"{cls.__name__}(") else text


def patterns(pass_name: str, session: Session) -> list[str]:
    """A pass's patterns in the order in which they are tried, with their roots, statements and conditions: lines of text. Those
    of a pass that runs other passes (`RUNS`) stand below the names of these.

    Raises CompileError for a pass that does not exist, or that is not made of patterns.
    """
    if runs := getattr(session.passes[pass_name], "RUNS", ()):
        return [line for each in runs for line in (f"--{each}", *(f"  {one}" for one in patterns(each, session)))]
    ours = session.own_patterns(pass_name)
    lines: list[str] = []
    tried = (*session.patterns_of(pass_name), *(ours[name] for name in ours))
    for each in cast("Sequence[type[CheckedPattern[Any]]]", tried):
        lines += [f"{each.name} ({', '.join(_origins(each))})", f"  {_line(statement(each))}"]
        lines += [f"    {one.name}: {_line(one.statement)}" for one in each.conditions]
    return lines


def _origins(pattern: type[CheckedPattern[Any]]) -> list[str]:
    """What a pattern starts from: classes of operations, or layers of a framework."""
    roots = [getattr(root, "name", root.__name__) for root in pattern.roots]
    return [*roots, *(f"of {framework} {layer}" for framework, layer in getattr(pattern, "sources", ()))]


def _line(text: str) -> str:
    return " ".join(text.split())
