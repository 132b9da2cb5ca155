"""The structure of protobuf text: the places of fields, including those that no schema knows.

`text_format` returns messages without places, and drops unknown fields; this module finds both.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | (?P<string> "(?:[^"\\\n]++|\\.)*+" | '(?:[^'\\\n]++|\\.)*+') | [{}<>\[\]:;,] | [^\s{}<>\[\]:;,"'\#]+""",
    re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">", "[": "]"}


@dataclass(frozen=True)
class Entry:
    """A field in a text."""

    name: str
    line: int
    column: int
    text: str
    """The place of the field in the file; the values of a list share it."""
    entries: tuple[Entry, ...] = ()
    """The fields of a message."""


def entries(text: str) -> tuple[Entry, ...]:
    """The fields of a text that `text_format` has parsed."""
    return _Reader(text).message()


def unknown(fields: tuple[Entry, ...], descriptor: Any, path: str = "") -> Iterator[tuple[str, Entry]]:
    """The fields that a message's descriptor lacks, with their paths, including those of nested messages."""
    for entry in fields:
        field = descriptor.fields_by_name.get(entry.name)
        if field is None:
            yield path + entry.name, entry
        elif field.message_type is not None:
            yield from unknown(entry.entries, field.message_type, f"{path}{entry.name}.")


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.tokens = [m for m in _TOKEN.finditer(text) if not m.group().isspace() and m.group()[0] != "#"]
        self.at = 0
        self.lines = [0, *(m.end() for m in re.finditer("\n", text))]

    def message(self, closing: str = "") -> tuple[Entry, ...]:
        found: list[Entry] = []
        while self.at < len(self.tokens) and self._peek() != closing:
            if self._peek() in (";", ","):
                self.at += 1
            else:
                found.extend(self._field())
        self.at += 1
        return tuple(found)

    def _field(self) -> list[Entry]:
        start = self.tokens[self.at]
        self.at += 1
        if self._peek() == ":":
            self.at += 1
        values = self._values()
        text = self.text[start.start() : self.tokens[min(self.at, len(self.tokens)) - 1].end()]
        line = bisect_right(self.lines, start.start())
        column = start.start() - self.lines[line - 1] + 1
        return [Entry(start.group(), line, column, text, inner) for inner in values]

    def _values(self) -> list[tuple[Entry, ...]]:
        """The values of a field: its fields if it is a message. A list has several."""
        opening = self._peek()
        string = self.tokens[self.at].group("string") if opening else None
        self.at += 1
        if opening == "[":
            values: list[tuple[Entry, ...]] = []
            while self._peek() not in ("]", ""):
                if self._peek() == ",":
                    self.at += 1
                else:
                    values.extend(self._values())
            self.at += 1
            return values
        if opening in _CLOSING:
            return [self.message(_CLOSING[opening])]
        while string is not None and self._peek() and self.tokens[self.at].group("string") is not None:
            self.at += 1
        return [()]

    def _peek(self) -> str:
        return self.tokens[self.at].group() if self.at < len(self.tokens) else ""
