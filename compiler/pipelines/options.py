"""Options: fields of dataclasses, whose texts stand below them; and option text, `bits=8 data=calib.npz skip=a,b`, in which
options are separated by blanks, values need no quotes, and lists use commas.

A field whose type is a dataclass is a part: its options count as those of the class that it is in.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from xdsl.utils.arg_spec import ArgSpec

from ..support.diagnostics import CompileError

_T = TypeVar("_T")

_SIZE = re.compile(r"\?|-1|[0-9]{1,18}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WORDS = {bool: "true, false", int: "integer", float: "number", str: "text"}
_DECLARED = "option"
"""The key of `option`'s facts in the metadata of a field."""


class Facts(NamedTuple):
    """Facts about an option, apart from its type, its default and its text."""

    value: str = ""
    """What stands for its value in --help: `LAYER,...`; by default the option's name."""
    group: str = ""
    """The heading in --help; by default that of its class, `GROUP`."""
    also: str = ""
    """A further name of its flag."""
    flag: bool = True
    """Whether the commands of `amct` have a flag of its name."""
    was: str = ""
    """The name that it had in the last release: it still works, with a warning."""


def option(default: Any, value: str = "", group: str = "", *, also: str = "", flag: bool = True, was: str = "") -> Any:
    """A field of a dataclass that is an option with these facts."""
    return field(default=default, metadata={_DECLARED: Facts(value, group, also, flag, was)})


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


class Option(NamedTuple):
    """A field of a dataclass that is an option."""

    field: str
    hint: Any
    """The annotation of the field."""
    default: Any
    """The value that stands for one that is not given; MISSING if one must be given."""
    facts: Facts
    owner: type[Any]
    """The class that declares it."""
    part: str
    """The field that holds the object with this option; empty for an option of the dataclass itself."""

    @property
    def type(self) -> Any:
        """The type of its values: `bool`, `int`, `float`, `str`, a `Literal` or a `tuple` of these."""
        return _value_type(self.hint)

    @property
    def text(self) -> str:
        """The meaning of the option, on one line: the text below the field. Names of other options are in backticks, with
        dashes.
        """
        return _texts(self.owner.__module__).get(f"{self.owner.__qualname__}.{self.field}", "")

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of `amct`'s commands for it, the first of which is shown."""
        return tuple(filter(None, (f"--{self.name}" if self.facts.flag else "", self.facts.also)))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The only values, if they can be listed."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def values(self) -> str:
        """The possible values, in words."""
        return ", ".join(map(str, self.choices)) or ("list" if self.is_list else _WORDS[self.type])

    @property
    def shown(self) -> str:
        """The default as text; empty if there is none, or if it is none of the values."""
        if self.required or self.default in (None, "", ()):
            return "required" if self.required else ""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    def spelled(self, names: Mapping[str, str]) -> str:
        """The text with other names of options, which are in backticks."""
        return re.sub("`([^`]*)`", lambda quoted: names.get(quoted[1], quoted[0]), self.text)

    def brief(self, names: Mapping[str, str]) -> str:
        """The text as a part of a sentence: without backticks, full stop and capital letter."""
        text = self.spelled(names).replace("`", "").removesuffix(".")
        return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


@cache
def leaves(cls: type[Any]) -> Mapping[str, Option]:
    """The options of a dataclass by name, those of its parts among them."""
    hints, found = get_type_hints(cls), dict[str, Option]()
    for each in (f for f in fields(cls) if f.init):
        if is_dataclass(part := hints[each.name]):
            found |= {name: leaf._replace(part=each.name) for name, leaf in leaves(cast("type[Any]", part)).items()}
            continue
        owner = next(c for c in cls.__mro__ if each.name in inspect.get_annotations(c))
        facts: Facts = each.metadata.get(_DECLARED) or Facts()
        facts = facts._replace(group=facts.group or getattr(owner, "GROUP", ""))
        default = each.default if each.default_factory is MISSING else each.default_factory()
        found[each.name] = Option(each.name, hints[each.name], default, facts, owner, "")
    return found


def parts_of(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass by values of its options, each of which goes into its part; by whole parts, too, in which values
    of their options take the place of those that they have.
    """
    hints, known = get_type_hints(cls), leaves(cls)
    found = {name: value for name, value in values.items() if name not in known or not known[name].part}
    for part in dict.fromkeys(leaf.part for leaf in known.values() if leaf.part):
        own = {name: value for name, value in values.items() if name in known and known[name].part == part}
        given = values_of(found[part]) if part in found else {}
        found[part] = composed(hints[part], given | own)
    return found


def composed(cls: type[_T], values: Mapping[str, Any]) -> _T:
    """An instance from values of its options."""
    return cls(**parts_of(cls, values))


def values_of(options: Any) -> dict[str, Any]:
    """The values of the options of an instance, from which `composed` makes an equal one."""
    known = leaves(cast("type[Any]", type(options)))
    found = {part: values_of(getattr(options, part)) for part in {leaf.part for leaf in known.values() if leaf.part}}
    return {name: found[leaf.part][name] if leaf.part else getattr(options, name) for name, leaf in known.items()}


def options(owner: type[Any]) -> list[Option]:
    """The options that a class declares itself."""
    return [each for each in _described(owner) if each.owner is owner]


def _described(cls: type[Any]) -> Iterable[Option]:
    return leaves(cls).values() if is_dataclass(cls) else ()


def owners(cls: type[Any]) -> list[type[Any]]:
    """The classes that declare options of `cls`: itself and those that it derives from first, then parts."""
    found = dict.fromkeys(each.owner for each in _described(cls))
    return [*(each for each in cls.__mro__ if each in found), *(each for each in found if each not in cls.__mro__)]


def _value_type(hint: Any) -> Any:
    """The type that an option's text has: the first one of a union."""
    if hint in _WORDS or get_origin(hint) in (Literal, tuple):
        return hint
    return _value_type(next((each for each in get_args(hint) if each is not types.NoneType), str))


@cache
def _texts(module: str) -> Mapping[str, str]:
    """The texts below the fields of a module's classes, by `Class.field`."""
    texts: dict[str, str] = {}
    source = Path(sys.modules[module].__file__ or "").read_text("utf-8")
    for definition in ast.parse(source).body:
        body = definition.body if isinstance(definition, ast.ClassDef) else ()
        for declared, text in pairwise(body):
            if (
                isinstance(declared, ast.AnnAssign)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                name = f"{cast(ast.ClassDef, definition).name}.{ast.unparse(declared.target)}"
                texts[name] = " ".join(str(text.value.value).split())
    return texts


def from_keywords(cls: type[_T], what: str, keywords: Mapping[str, Any], others: Sequence[str] = ()) -> _T:
    """An instance from keywords of Python, with lists, paths and single names as they are in text; None is not given. `what` has
    the options, and its function these other parameters.

    Raises CompileError for a name that is none of them, and for a value that is none of an option's choices.
    """
    known, given = leaves(cls), dict[str, Any]()
    for key, value in keywords.items():
        if (name := _current(key, known)) not in known:
            close = get_close_matches(name, [*known, *others], 1)
            hint = f"did you mean {close[0]}?" if close else f"options are {', '.join(known)}"
            raise CompileError(f"{what} has no option '{name}'", hint=hint)
        if isinstance(value, list):
            value = tuple(cast("list[Any]", value))
        elif isinstance(value, str) and known[name].type == tuple[str, ...]:
            value = (value,)
        elif isinstance(value, os.PathLike):
            value = os.fspath(cast("os.PathLike[str]", value))
        elif value is not None and (choices := known[name].choices) and value not in choices:
            raise _not_one_of(value, choices, f"{what}: {name}")
        if value is not None:
            given[name] = value
    return composed(cls, given)


def _current(name: str, known: Mapping[str, Option]) -> str:
    """The name of an option, in place of the one that it had in the last release."""
    new = next((new for new, leaf in known.items() if leaf.facts.was == name), name)
    if new != name:
        warn_of_rename(name, new)
    return new


def warn_of_rename(was: str, name: str) -> None:
    """Print that an option has another name now."""
    print(f"warning: {was} is called {name} now; the old name is removed in the next release", file=sys.stderr)


def build_from_spec(cls: type[_T], spec: ArgSpec) -> _T:
    """Like `build`, from options that xDSL has parsed."""
    return build_from(cls, ((key, _text(values)) for key, values in spec.parameters.items()), f"--{spec.name}")


def _text(values: Sequence[Any]) -> str:
    """An option's values in a pipeline as the text of the same flag option; no value means true."""
    return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values) or "true"


class Parts:
    """A base of passes with parts, which are made from options, some by position: `QuantizePass("calib.npz", bits=8)`. xDSL reads
    and prints the same options.
    """

    name: ClassVar[str]

    def __init__(self, *first: Any, **values: Any) -> None:
        known = leaves(type(self))
        given = dict(zip(list(known)[: len(first)], first, strict=True)) | values
        if unknown := given.keys() - known.keys() - {leaf.part for leaf in known.values()}:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        for name, value in parts_of(type(self), given).items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """The value of an option, whichever part has it."""
        if (option := leaves(type(self)).get(name)) is None or not option.part:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return values_of(getattr(self, option.part))[name]

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        return build_from_spec(cls, spec)

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        known, given = leaves(type(self)), dict[str, tuple[Any, ...]]()
        for name, value in values_of(self).items():
            if include_default or value != known[name].default:
                single = () if value is None else (value,)
                given[name] = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else single
        return ArgSpec(self.name, given)


def build_from(cls: type[_T], given: Iterable[tuple[str, str]], what: str) -> _T:
    """Like `build`, from options that are already split into names and value texts."""
    known = leaves(cls)
    values: dict[str, Any] = {}
    for key, value in given:
        if (name := _current(key.replace("-", "_"), known)) not in known:
            options = ", ".join(n.replace("_", "-") for n in known)
            raise CompileError(
                f"{what} has no option '{key}'", hint=f"options are {options}" if known else "it has none"
            )
        if name in values:
            raise CompileError(f"{what}: option '{key}' is given twice")
        values[name] = convert(value, known[name].hint, f"{what}: {key}")
    for name, leaf in known.items():
        if name not in values and leaf.required:
            raise CompileError(f"{what} needs the option '{name.replace('_', '-')}'")
    return composed(cls, values)


def split(text: str) -> list[str]:
    """Splits at blanks outside single or double quotes, and removes the quotes."""
    lexer: Any = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise CompileError(f"option text ends inside {lexer.state}: {text}") from None


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
        raise _not_one_of(value, choices, what)
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


def _not_one_of(value: object, choices: Sequence[object], what: str) -> CompileError:
    return CompileError(f"{what}: '{value}' is not one of {', '.join(map(str, choices))}")


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


def numbers(text: str, what: str) -> dict[str, float]:
    """`use_cache=true;scale=0.5` -> `{"use_cache": 1.0, "scale": 0.5}`; the last `=` ends the name.

    Raises CompileError, which calls the option `what`, for malformed text.
    """
    found: dict[str, float] = {}
    for part in filter(None, text.split(";")):
        name, _, value = part.rpartition("=")
        try:
            number = _TRUTH[value] if value in _TRUTH else float(value)
        except ValueError:
            number = nan
        if not name or not isfinite(number):
            raise CompileError(f"{what}: '{part}' is malformed", hint="write use_cache=true;scale=0.5", option=what)
        if name in found:
            raise CompileError(f"{what}: '{name}' is given twice", option=what)
        found[name] = number
    return found


_TRUTH = {"true": 1.0, "false": 0.0}


def shapes_of(inputs: Sequence[str], given: Mapping[str, tuple[int, ...]], where: str) -> dict[str, tuple[int, ...]]:
    """Shapes by input; a shape without a name belongs to the only input. Raises CompileError, located, for an unknown input."""
    hint = f"the inputs are {', '.join(inputs) or 'none'}"
    if unknown := [name for name in given if name and name not in inputs]:
        raise CompileError(f"the model has no input {', '.join(unknown)}", where=where, hint=hint)
    if "" in given and (len(inputs) != 1 or len(given) != 1):
        raise CompileError("a shape is given without the name of its input", where=where, hint=hint)
    return {name or inputs[0]: shape for name, shape in given.items()}
