"""`--settings FILE`: options of a command from a YAML, TOML or JSON file, under the names that they have on the command line."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..support.diagnostics import CompileError
from ..support.files import read_text
from ..support.limits import check_aliases
from ..support.parsing import parsing
from .parser import Parser

_WITHOUT = frozenset({"help", "settings", "trust_settings"})
"""Options that a file does not have."""
_FILES: Mapping[str, str] = {
    **dict.fromkeys(("check", "data", "test"), ";"),
    **dict.fromkeys(
        ("checkpoint", "cluster_store", "config", "evaluator", "labels", "output", "record", "weights"), "\n"
    ),
    "cluster_tls": ",",
}
"""Options whose values name files or code, by the attribute that they set, and what separates several of them."""
_CODE = re.compile(r"\.py(:|$)")
_ELSEWHERE = re.compile(r"|folders|none|.*://.*")
"""What stands in the place of a file: nothing, the classes of folders, no certificates, an address."""


class _Entry(NamedTuple):
    key: str
    value: object
    line: int


def add_settings(parser: Parser) -> None:
    """`--settings` and `--trust-settings`."""
    text = "options of this command, under their names without dashes in front; the command line overrides them"
    parser.add_argument("--settings", type=Path, metavar="FILE", help=f"a .yaml, .toml or .json file with {text}")
    text = "let the file name code (FILE.py), addresses, and files outside of its folder"
    parser.add_argument("--trust-settings", action="store_true", help=text)


def settings_of(args: argparse.Namespace, parser: Parser, quantize: Parser) -> dict[str, Any]:
    """The values that the file of `args` gives, by the attribute that the option sets. An option that only `amct quantize` has is
    noted.

    Dashes and underscores are the same. Lists and mappings stand for the text with commas and colons. Paths are relative to the
    file. Raises CompileError, located at the line, for what cannot be read, for keys that are not options of a command, and for
    values of another kind. Code, addresses and files outside of its folder are errors as well, unless the file is trusted or the
    command line has another value.
    """
    known, path = _known(parser), cast(Path, args.settings)
    found: dict[str, Any] = {}
    for entry in _entries(path):
        where, name = f"{path}:{entry.line}", _plain(entry.key)
        if (action := known.get(name)) is None:
            if name in _known(quantize):
                print(f"note: {where}: '{entry.key}' is for {quantize.prog} and has no effect here", file=sys.stderr)
                continue
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"{parser.prog} --help lists the options"
            raise CompileError(f"{parser.prog} has no option '{entry.key}'", where=where, hint=hint)
        if action.dest in found:
            raise CompileError(f"'{entry.key}' is given twice", where=where)
        try:
            found[action.dest] = _value(parser, action, entry, path.parent)
            if not args.trust_settings and getattr(args, action.dest) == action.default:
                _check_trust(action, entry, path.parent)
        except argparse.ArgumentError as e:
            raise CompileError(f"{entry.key}: {e.message}", where=where) from None
        except CompileError as e:
            raise e.at(where) from None
        except ValueError:  # written in hex, it has more digits than Python prints
            raise CompileError(f"{entry.key}: the number has too many digits", where=where) from None
    return found


def located(error: CompileError, args: argparse.Namespace, parser: Parser) -> CompileError:
    """An error about the value of an option, at the option's line if the value comes from the settings file."""
    known, path = _known(parser), args.settings
    wrong = known.get(_plain(error.option))
    if error.where or wrong is None:
        return error
    for entry in _entries(path):
        if known.get(_plain(entry.key)) is wrong and _value(parser, wrong, entry, path.parent) == getattr(
            args, wrong.dest
        ):
            return error.at(f"{path}:{entry.line}")
    return error


def _known(parser: Parser) -> dict[str, argparse.Action]:
    """The options of a command that a file may have, by `_plain` name."""
    return {
        _plain(option): action
        for action in parser.actions()
        for option in action.option_strings
        if option.startswith("--") and action.dest not in _WITHOUT
    }


def _plain(option: str) -> str:
    """The name of an option without its spellings: with dashes or underscores, and with or without dashes in front."""
    return option.removeprefix("--").replace("_", "-")


def _entries(path: Path) -> list[_Entry]:
    """The options in a file. Raises CompileError, located in the file, if it cannot be read."""
    if (read := _READERS.get(path.suffix.lower())) is None:
        raise CompileError("is not a settings file", where=str(path), hint=f"its name ends in {', '.join(_READERS)}")
    with parsing(str(path)):
        return list(read(path, read_text(path)))


def _check_trust(action: argparse.Action, entry: _Entry, folder: Path) -> None:
    """Raises CompileError for a value that names code, an address, or a file outside of the folder, after links are followed."""
    text = _text(action, entry.value) or ""
    parts = text.split(_FILES[action.dest]) if action.dest in _FILES else []
    if action.dest == "cluster" and "://" in text:
        parts = [text]
    for part in parts:
        if _CODE.search(part):
            what = "code, which is executed"
        elif "://" in part:
            what = "an address"
        elif not (folder / part).resolve().is_relative_to(folder.resolve()):
            what = f"a file outside of {folder}, its folder"
        else:
            continue
        hint = f"give {action.option_strings[0]} on the command line, or --trust-settings"
        raise CompileError(f"'{entry.key}' names {what}: '{part}'", hint=hint)


def _by_part(dest: str, text: str, change: Callable[[str], object]) -> str:
    """The value of an option with its files changed; any other value as it is."""
    if (separator := _FILES.get(dest)) is None:
        return text
    return separator.join(part if _ELSEWHERE.fullmatch(part) else str(change(part)) for part in text.split(separator))


def relative_to(folder: Path, dest: str, text: str) -> str:
    """The value of an option for a settings file in a folder, which reads relative paths from there."""
    real = os.path.realpath(folder)
    return _by_part(dest, text, lambda part: part if Path(part).is_absolute() else os.path.relpath(part, real))


def _value(parser: Parser, action: argparse.Action, entry: _Entry, folder: Path) -> Any:
    key, value = entry.key, entry.value
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise CompileError(f"{key}: {_shown(value)} is neither true nor false")
        negated = isinstance(action, argparse.BooleanOptionalAction) and key.startswith("no")
        return value != negated
    text = _text(action, value)
    if text is None:
        raise CompileError(f"{key}: {_shown(value)} is not {_wanted(action)}")
    return parser.value_of(action, _by_part(action.dest, text, lambda part: folder / part))


def _text(action: argparse.Action, value: object) -> str | None:
    """The text of a value on the command line; None if it has none."""
    form = str(action.metavar or "")
    separator = form[-4] if form.endswith("...") else ""
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        if ":" not in form:
            return None
        return separator.join(f"{name}:{_joined(each)}" for name, each in items)
    if isinstance(value, list):
        return separator.join(map(str, cast("list[object]", value))) if separator else None
    if value is None or isinstance(value, bool) or (isinstance(value, float) and action.type not in (float, None)):
        return None
    return str(value)


def _joined(value: object) -> str:
    return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _wanted(action: argparse.Action) -> str:
    if str(action.metavar or "").endswith("..."):
        return f"of the form {action.metavar}, or a list"
    kinds: Mapping[Any, str] = {int: "an integer", float: "a number"}
    return kinds.get(action.type, "text" if not action.choices else f"one of {', '.join(map(str, action.choices))}")


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _yaml(path: Path, text: str) -> Iterator[_Entry]:
    import yaml

    loader: Any = yaml.SafeLoader(text)
    node = loader.get_single_node()
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise _not_a_mapping(path)
    for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        check_aliases((key, value), len(text), f"{path}:{key.start_mark.line + 1}")
        made = loader.construct_object(value, deep=True)
        yield _Entry(str(key.value), made, key.start_mark.line + 1)


def _toml(path: Path, text: str) -> Iterator[_Entry]:
    import tomllib

    for key, value in tomllib.loads(text).items():
        yield _Entry(key, value, _line(text, rf"^\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[\]=.]"))


def _json(path: Path, text: str) -> Iterator[_Entry]:
    table = json.loads(text, object_pairs_hook=_Pairs)
    if not isinstance(table, _Pairs):
        raise _not_a_mapping(path)
    for key, value in table:
        plain = dict(value) if isinstance(value, _Pairs) else value
        yield _Entry(key, plain, _line(text, rf"{re.escape(json.dumps(key))}\s*:"))


class _Pairs(list[tuple[str, object]]):
    """An object of JSON, with keys that are repeated."""


def _line(text: str, pattern: str) -> int:
    """The line of the first match; the first line if there is none."""
    match = re.search(pattern, text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1


def _not_a_mapping(path: Path) -> CompileError:
    return CompileError(
        "does not map options to values", where=str(path), hint="write weight-bits: 4, one option a line"
    )


_READERS = {".yaml": _yaml, ".yml": _yaml, ".toml": _toml, ".json": _json}
