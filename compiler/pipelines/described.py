"""Classes and their patterns described, for --help, --list-patterns and the docs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, cast

from ..rewriting import CheckedPattern, Condition
from ..session import Session
from ..session.catalogue import PIPELINES


def statement(cls: type[Any]) -> str:
    """A docstring; dataclasses without one have their signature there, and no statement."""
    text = inspect.getdoc(cls) or ""
    return "" if text.startswith(f"{cls.__name__}(") else text


def patterns(pass_name: str, session: Session) -> list[str]:
    """Describes a pass in a sentence, then its patterns in the order in which they are tried, with their roots,
    statements and conditions: lines of text. The patterns of a pipeline, or of a pass that runs other passes (`RUNS`),
    are below the names of these, and those that an option chooses (`BY_OPTION`) below the option.

    Raises CompileError for a pass that does not exist.
    """
    made: Any = None if pass_name in PIPELINES else session.passes[pass_name]
    if runs := PIPELINES.get(pass_name) or getattr(made, "RUNS", ""):
        return _below((f"--{each}", patterns(each, session)) for each in runs.split(","))
    chosen = getattr(made, "patterns_for", None)
    ours = getattr(made, "PATTERNS", ()) if chosen is None else chosen(session.profiles[session.profile])
    by_option = {each: _lines(some, session) for each, some in getattr(made, "BY_OPTION", {}).items()}
    return [
        _line(re.split(r"(?<=\.)\s", statement(made) if made.__doc__ else made.name, maxsplit=1)[0]),
        *_lines((*session.patterns_of(pass_name), *ours), session),
        *_below((f"--{pass_name}={each}", lines) for each, lines in by_option.items() if lines),
    ]


def _below(parts: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    return [line for name, lines in parts for line in (name, *(f"  {each}" for each in lines))]


def _lines(patterns: Iterable[Any], session: Session) -> list[str]:
    lines: list[str] = []
    for each in cast("Iterable[type[CheckedPattern[Any]]]", patterns):
        if not (origins := _origins(each, session)):
            continue
        lines += [f"{each.name} ({', '.join(origins)})", f"  {_line(statement(each))}"]
        lines += [
            f"    {one.name}{f' ({of})' if of else ''}: {_line(one.statement)}" for one, of in _asked(each, session)
        ]
    return lines


def _asked(pattern: type[CheckedPattern[Any]], session: Session) -> Iterable[tuple[Condition[Any], str]]:
    """The conditions of a pattern, each with the layers that it applies to, if these are not all."""
    listed = getattr(pattern, "listed", None)
    return ((each, "") for each in pattern.conditions) if listed is None else listed(session.profiles[session.profile])


def _origins(pattern: type[CheckedPattern[Any]], session: Session) -> list[str]:
    """The roots of a pattern: classes of operations, of the profile alone where it asks that, or layers of a framework."""
    if (kinds := getattr(pattern, "kinds", None)) is not None:
        return [kind.name for kind in kinds(session.profiles[session.profile])]
    roots = [getattr(root, "name", root.__name__) for root in pattern.roots]
    return [*roots, *(f"of {framework} {layer}" for framework, layer in getattr(pattern, "sources", ()))]


def _line(text: str) -> str:
    return " ".join(text.split())
