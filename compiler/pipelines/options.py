"""Option text: `bits=8 data=calib.npz skip=a,b`. Options are separated by blanks, values need no quotes, lists use commas."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from xdsl.utils.arg_spec import ArgSpec

from ..diagnostics import CompileError

_T = TypeVar("_T")

_SIZE = re.compile(r"\?|-1|[0-9]{1,18}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def build(cls: type[_T], text: str, what: str) -> _T:
    """An instance of the dataclass `cls` from option text. `what` names the thing in errors (`--quantize`).

    Dashes and underscores are the same. A bare option name means true; any other bare word is the value of the class's
    `positional` option. Raises CompileError for unknown options and bad values.
    """
    known = leaves(cls)
    positional: str | None = getattr(cls, "positional", None)
    given: list[tuple[str, str]] = []
    for part in split(text):
        key, equals, value = part.partition("=")
        if positional is not None and not equals and key.replace("-", "_") not in known:
            key, equals, value = positional, "=", part
        given.append((key, value if equals else "true"))
    return build_from(cls, given, what)


class Leaf(NamedTuple):
    """One option of a dataclass."""

    field: Field[Any]
    type: Any
    part: str
    """The field that holds the object with this option; empty for an option of the dataclass itself."""


def leaves(cls: type[Any]) -> dict[str, Leaf]:
    """The options of a dataclass by name. A field whose type is a dataclass is a part: its options count as the owner's."""
    hints, found = get_type_hints(cls), dict[str, Leaf]()
    for field in (f for f in fields(cls) if f.init):
        if is_dataclass(part := hints[field.name]):
            found |= {name: leaf._replace(part=field.name) for name, leaf in leaves(cast("type[Any]", part)).items()}
        else:
            found[field.name] = Leaf(field, hints[field.name], "")
    return found


def composed(cls: type[_T], values: Mapping[str, Any]) -> _T:
    """An instance from values of its options, each of which goes into its part."""
    hints, known = get_type_hints(cls), leaves(cls)
    own: dict[str, Any] = {name: value for name, value in values.items() if not known[name].part}
    for part in dict.fromkeys(leaf.part for leaf in known.values() if leaf.part):
        own[part] = hints[part](**{name: value for name, value in values.items() if known[name].part == part})
    return cls(**own)


def values_of(options: Any) -> dict[str, Any]:
    """The values of the options of an instance, from which `composed` makes an equal one."""
    known = leaves(cast("type[Any]", type(options)))
    return {name: getattr(getattr(options, leaf.part) if leaf.part else options, name) for name, leaf in known.items()}


def build_from_spec(cls: type[_T], spec: ArgSpec) -> _T:
    """Like `build`, from options that xDSL has parsed."""
    return build_from(cls, ((key, _text(values)) for key, values in spec.parameters.items()), f"--{spec.name}")


def _text(values: Sequence[Any]) -> str:
    """An option's values in a pipeline as the text of the same flag option; no value means true."""
    return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values) or "true"


class Parts:
    """A base of passes with parts: xDSL, which knows only fields of plain types, reads and prints all options of the pass."""

    name: ClassVar[str]

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        return build_from_spec(cls, spec)

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        known, given = leaves(type(self)), dict[str, tuple[Any, ...]]()
        for name, value in values_of(self).items():
            if include_default or value != known[name].field.default:
                single = () if value is None else (value,)
                given[name] = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else single
        return ArgSpec(self.name, given)


def build_from(cls: type[_T], given: Iterable[tuple[str, str]], what: str) -> _T:
    """Like `build`, from options that are already split into names and value texts."""
    known = leaves(cls)
    values: dict[str, Any] = {}
    for key, value in given:
        name = key.replace("-", "_")
        if name not in known:
            options = ", ".join(n.replace("_", "-") for n in known)
            raise CompileError(
                f"{what} has no option '{key}'", hint=f"options are {options}" if known else "it has none"
            )
        if name in values:
            raise CompileError(f"{what}: option '{key}' is given twice")
        values[name] = convert(value, known[name].type, f"{what}: {key}")
    for name, (field, *_) in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise CompileError(f"{what} needs the option '{name.replace('_', '-')}'")
    return composed(cls, values)


def split(text: str) -> list[str]:
    """Splits at blanks outside single or double quotes, and removes the quotes."""
    parts: list[str] = []
    current, quote, started = "", "", False
    for c in text:
        if quote:
            quote, current = ("", current) if c == quote else (quote, current + c)
        elif c in "'\"":
            quote, started = c, True
        elif c.isspace():
            if current or started:
                parts.append(current)
            current, started = "", False
        else:
            current += c
    if quote:
        raise CompileError(f"option text ends inside {quote}: {text}")
    return [*parts, current] if current or started else parts


def convert(value: str, hint: Any, what: str) -> Any:
    """A value of the hinted type: int, float, bool, str, Literal, a tuple of one of these, or one of these or None."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [a for a in get_args(hint) if a is not type(None)]
        return convert(value, inner[0], what)
    if origin is tuple:
        return tuple(convert(v, get_args(hint)[0], what) for v in value.split(",") if v)
    if origin is Literal:
        choices = get_args(hint)
        for choice in choices:
            if str(choice).lower() == value.lower():
                return choice
        raise CompileError(f"{what}: '{value}' is not one of {', '.join(map(str, choices))}")
    if hint is bool:
        if value.lower() not in _TRUE | _FALSE:
            raise CompileError(f"{what}: '{value}' is neither true nor false")
        return value.lower() in _TRUE
    if hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            raise CompileError(f"{what}: '{value}' is not {'an integer' if hint is int else 'a number'}") from None
    return value


def names(text: str) -> tuple[str, ...]:
    """`a,b` -> `("a", "b")`"""
    return tuple(filter(None, text.split(",")))


def shapes(text: str, separator: str, what: str) -> dict[str, tuple[int, ...]]:
    """`data:1,3,?;flag:` -> `{"data": (1, 3, -1), "flag": ()}`, with a comma as the separator; unknown sizes are `?` or `-1`.

    The last colon ends the name, because names often contain one (`serving_default_x:0`); sizes without a name have the key "".
    Raises CompileError, which calls the option `what`, for malformed text.
    """
    found: dict[str, tuple[int, ...]] = {}
    for part in filter(None, text.split(";")):
        name, colon, listed = part.rpartition(":")
        sizes = listed.split(separator) if listed else []
        if (colon and not name) or not all(map(_SIZE.fullmatch, sizes)):
            example = f"data:{separator.join(('1', '3', '224', '224'))};ids:{separator.join(('?', '16'))}"
            raise CompileError(f"{what}: '{part}' is malformed", hint=f"write {example}", option=what)
        if name in found:
            raise CompileError(f"{what}: '{name}' is given twice", option=what)
        found[name] = tuple(-1 if s == "?" else int(s) for s in sizes)
    return found


def shapes_of(inputs: Sequence[str], given: Mapping[str, tuple[int, ...]], where: str) -> dict[str, tuple[int, ...]]:
    """Shapes by input; a shape without a name belongs to the only input. Raises CompileError, located, for an unknown input."""
    hint = f"the inputs are {', '.join(inputs) or 'none'}"
    if unknown := [name for name in given if name and name not in inputs]:
        raise CompileError(f"the model has no input {', '.join(unknown)}", where=where, hint=hint)
    if "" in given and (len(inputs) != 1 or len(given) != 1):
        raise CompileError("a shape is given without the name of its input", where=where, hint=hint)
    return {name or inputs[0]: shape for name, shape in given.items()}
