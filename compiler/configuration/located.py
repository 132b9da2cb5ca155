"""Parses protobuf text to messages whose fields have places in the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import text_format

from ..formats.prototxt import Entry, entries, unknown
from ..support.diagnostics import CompileError, first_line
from ..support.files import read_text

_T = TypeVar("_T")


@dataclass(frozen=True)
class Located:
    """A message, with the places of itself and of its fields."""

    message: Any
    fields: Sequence[Entry]
    file: str
    line: int

    def child(self, name: str) -> Located:
        """The message of a field that is set."""
        place = [f for f in self.fields if f.name == name][-1]
        return Located(getattr(self.message, name), place.entries, self.file, place.line)

    def children(self, name: str) -> list[Located]:
        """The messages of a repeated field."""
        places = [f for f in self.fields if f.name == name]
        messages = getattr(self.message, name)
        return [Located(m, p.entries, self.file, p.line) for m, p in zip(messages, places, strict=True)]

    def error(self, reason: str, hint: str = "", field: str = "") -> CompileError:
        """An error at a field if it is set, otherwise at the message."""
        line = next((f.line for f in reversed(self.fields) if f.name == field), self.line)
        return CompileError(reason, where=f"{self.file}:{line}", hint=hint)

    def need(self, *names: str) -> None:
        """Raises CompileError if one of these fields is not set."""
        if missing := [name for name in names if not self.message.HasField(name)]:
            raise self.error(f"{self.message.DESCRIPTOR.name} has no {missing[0]}")

    def make(self, function: Callable[..., _T], *arguments: Any, **values: Any) -> _T:
        """The result of the function; a CompileError that it raises is located here."""
        try:
            return function(*arguments, **values)
        except CompileError as e:
            raise self.error(e.message, e.hint) if not e.where else e from None


def parse(path: Path, message: Any, what: str) -> Located:
    """Parses a file into an empty message; `what` describes the expected file in errors.

    As in protobuf, the last of a field's values, and of a oneof's members, wins. Raises CompileError, located at the line.
    """
    text, file = read_text(path), str(path)
    try:
        text_format.Merge(text, message, allow_unknown_field=True)
        fields = entries(text)
    except text_format.ParseError as e:
        raise _parse_error(e, text, file, what) from None
    except RecursionError:
        raise CompileError("is nested too deeply", where=file) from None
    for name, entry in unknown(fields, message.DESCRIPTOR):
        outer, _, own = name.rpartition(".")
        close = get_close_matches(own, _known(message.DESCRIPTOR, outer), 1)
        hint = f"did you mean '{close[0]}'?" if close else ""
        raise CompileError(f"{what} has no field '{name}'", where=f"{file}:{entry.line}", hint=hint)
    return Located(message, fields, file, 1)


def _known(descriptor: Any, path: str) -> list[str]:
    """The fields of the message that a path of fields leads to; none if a number is in place of a name, which has a dot."""
    for name in filter(None, path.split(".")):
        if name not in descriptor.fields_by_name:
            return []
        descriptor = descriptor.fields_by_name[name].message_type
    return list(descriptor.fields_by_name)


def _parse_error(error: text_format.ParseError, text: str, file: str, what: str) -> CompileError:
    line = error.GetLine()
    if not line:
        return CompileError(f"is not a {what}: {first_line(str(error))}", where=file)
    reason = str(error).partition(" : ")[2]
    for read in (text.split("\n")[line - 1], ""):  # "" at the end of the file
        reason = reason.removeprefix(f"'{read}': ")
    return CompileError(f"is not a {what}: {first_line(reason).rstrip('.')}", where=f"{file}:{line}")
