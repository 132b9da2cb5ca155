"""The operators of chips' libraries, as data: a file per chip, of what is known about it.

`ports` are operands and results (`?` optional, `[]` any number), `attributes` have a type and a default (`!` required), and
`rows` are the element types of all ports that belong together; without `rows` a function of the library decides, and the file
does not say what. An operator that is null is none of the library's; nothing is known about one that is not listed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Operator(NamedTuple):
    """An operator of a library."""

    operands: tuple[str, ...]
    """Names, in order, with their marks."""
    results: tuple[str, ...]
    attributes: Mapping[str, str]
    """Type and default by name: `int = 1`, `float!`, `bool`."""
    rows: tuple[tuple[str, ...], ...] | None
    """Element types of operands and results, by row; None where they are not known."""


Library = Mapping[str, Operator | None]
"""Operators by name; None for one that the library does not have."""


@cache
def library(chip: str) -> Library:
    """What is known about a chip's library; empty if nothing is."""
    return {name: each and _operator(each) for name, each in _data(chip).get("operators", {}).items()}


def marked(chip: str) -> Mapping[str, str]:
    """The reasons of what the `ascend` dialect has otherwise than the library, by `Operator.name`, as patterns."""
    return {name: reason for reason, names in _data(chip).get("deviations", {}).items() for name in names}


@cache
def _data(chip: str) -> Mapping[str, Any]:
    file = Path(__file__).with_name(f"{chip}.json")
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def _operator(data: Mapping[str, Any]) -> Operator:
    ports: str = data["ports"]
    given: str = data.get("attributes", "")
    operands, results = (tuple(side.split(", ")) for side in ports.split(" -> "))
    found = filter(None, given.split("; "))
    attributes = {name: text for name, _, text in (each.partition(": ") for each in found)}
    rows = tuple(tuple(row.split()) for row in data["rows"]) if "rows" in data else None
    return Operator(operands, results, attributes, rows)
