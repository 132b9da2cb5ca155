"""Options and patterns described from their classes, for --help, --list-patterns and the docs."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, is_dataclass
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from .. import universe
from ..rewriting import CheckedPattern
from ..session import Session
from .options import Leaf, leaves

_WORDS = {bool: "true, false", int: "integer", float: "number", str: "text"}


class Option(NamedTuple):
    """One option of a dataclass."""

    field: str
    type: Any
    """The type of its values: `bool`, `int`, `float`, `str`, a `Literal` or a `tuple` of these."""
    default: str
    """As text; empty if there is none, or if it is none of the values."""
    text: str
    """What it means, on one line."""

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def choices(self) -> tuple[Any, ...]:
        """The only values, if they can be listed."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def values(self) -> str:
        """What its text may be, in words."""
        return ", ".join(map(str, self.choices)) or ("list" if self.is_list else _WORDS[self.type])


def owners(cls: type[Any]) -> list[type[Any]]:
    """The classes that declare options of `cls`, itself first, and those of its parts last."""
    parts = dict.fromkeys(leaf.part for leaf in _leaves(cls) if leaf.part)
    return [*(c for c in cls.__mro__ if _declared(c)), *(o for p in parts for o in owners(get_type_hints(cls)[p]))]


def options(owner: type[Any]) -> Sequence[Option]:
    """The options that a class declares itself."""
    hints, texts = get_type_hints(owner), _documented(owner)
    return [Option(f.name, _value_type(hints[f.name]), _default(f), texts.get(f.name, "")) for f in _declared(owner)]


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
    ours = universe.patterns(pass_name, session.passes[pass_name])
    lines: list[str] = []
    for each in (*session.patterns_of(pass_name), *(ours[name] for name in ours)):
        lines += [f"{each.name} ({', '.join(_origins(each))})", f"  {_line(statement(each))}"]
        lines += [f"    {one.name}: {_line(one.statement)}" for one in each.conditions]
    return lines


def _origins(pattern: type[CheckedPattern[Any]]) -> list[str]:
    """What a pattern starts from: classes of operations, or layers of a framework."""
    roots = [getattr(root, "name", root.__name__) for root in pattern.roots]
    return [*roots, *(f"of {framework} {layer}" for framework, layer in getattr(pattern, "sources", ()))]


def _line(text: str) -> str:
    return " ".join(text.split())


def _declared(cls: type[Any]) -> list[Field[Any]]:
    return [leaf.field for leaf in _leaves(cls) if not leaf.part and leaf.field.name in inspect.get_annotations(cls)]


def _leaves(cls: type[Any]) -> Iterable[Leaf]:
    return leaves(cls).values() if is_dataclass(cls) else ()


def _value_type(hint: Any) -> Any:
    """The type that an option's text has: the first one of a union."""
    if hint in _WORDS or get_origin(hint) in (Literal, tuple):
        return hint
    return _value_type(next((each for each in get_args(hint) if each is not NoneType), str))


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return "required" if field.default_factory is MISSING else ""
    if field.default is None or field.default in ("", ()):
        return ""
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def _documented(cls: type[Any]) -> dict[str, str]:
    """The text below each field in the class's source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            texts[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return texts
