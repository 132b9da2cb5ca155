"""JSON objects whose keys are taken one by one, with located errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..support.diagnostics import CompileError
from ..support.files import read_text
from ..support.parsing import parsing

_T = TypeVar("_T")
Json = dict[str, Any]

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    dict: "an object",
}


def read_object(path: Path) -> JsonObject:
    """The object in a file. Raises CompileError, located, for other content, and for duplicate keys."""
    values = _read(path)
    if not isinstance(values, dict):
        raise CompileError("must be a JSON object", where=str(path))
    return JsonObject(cast(Json, values), str(path))


def read_objects(path: Path) -> list[JsonObject]:
    """The objects in the list in a file. Raises CompileError like `read_object`."""
    values = _read(path)
    if not isinstance(values, list):
        raise CompileError("must be a JSON list", where=str(path))
    return JsonObject({"entry": values}, str(path)).take_objects("entry")


def _read(path: Path) -> Any:
    where = str(path)
    try:
        with parsing(where):
            text = read_text(path).removeprefix("\ufeff")
            return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except CompileError as e:
        raise e.at(e.where or where) from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> Json:
    values: Json = {}
    for key, value in pairs:
        if key in values:
            raise CompileError(f"key '{key}' appears twice in one object")
        values[key] = value
    return values


def _no_constant(text: str) -> None:
    raise CompileError(f"{text} is not a JSON number")


class JsonObject:
    """An object whose keys are taken one by one; keys that are left at the end are unknown."""

    def __init__(self, values: Json, where: str, path: str = ""):
        self.values = values
        self.where = where
        self.path = path

    def error(self, reason: str, hint: str = "") -> CompileError:
        return CompileError(f"{self.path}: {reason}" if self.path else reason, where=self.where, hint=hint)

    def take(self, key: str, kind: type[_T], default: _T | None = None) -> Any:
        """The value of a key, which must be of this type; `default` if absent. Integers count as floats."""
        return self._checked(key, self.values.pop(key), kind) if key in self.values else default

    def take_list(self, key: str, kind: type[_T]) -> list[_T]:
        """The values of a list, empty if absent."""
        values = self.values.pop(key, [])
        if not isinstance(values, list):
            raise self.error(f"{key} must be a list")
        return [self._checked(key, each, kind) for each in cast("list[Any]", values)]

    def take_object(self, key: str, path: str) -> JsonObject:
        """The object of a key, empty if absent. `path` is its name in errors."""
        return JsonObject(self._checked(path, self.values.pop(key, {}), cast("type[Json]", dict)), self.where, path)

    def take_objects(self, key: str) -> list[JsonObject]:
        objects = self.take_list(key, cast("type[Json]", dict))
        return [JsonObject(each, self.where, f"{key}[{i}]") for i, each in enumerate(objects)]

    def done(self) -> None:
        if self.values:
            raise self.error(f"unknown key '{next(iter(self.values))}'")

    def make(self, function: Callable[..., _T], *arguments: Any, **values: Any) -> _T:
        """The result of the function; a CompileError that it raises is located here."""
        try:
            return function(*arguments, **values)
        except CompileError as e:
            raise self.error(e.message, e.hint) from None

    def _checked(self, key: str, value: Any, kind: type[_T]) -> _T:
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise self.error(f"{key} must be {_KINDS[kind]}, not {json.dumps(value)[:40]}")
        return cast(_T, value)
