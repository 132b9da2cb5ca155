"""Reads `.pt2` files without running anything that is in them.

`torch.export.load` unpickles example inputs and some weights, evaluates sizes as Python expressions, looks operators up by any
path below `torch`, imports modules that trees of inputs name, and loads compiled code. Therefore torch gets a copy of the file
with only what is known to be harmless: weights as bytes, and a graph of torch's operators.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from ...support.diagnostics import CompileError, first_line
from ...support.files import spooling
from .library import quiet

_MODEL = "models/model.json"
_CONFIGS = {
    "weights": "data/weights/model_weights_config.json",
    "constants": "data/constants/model_constants_config.json",
}
_PLAIN = ("archive_format", "archive_version", "byteorder", ".data/version")
_SAMPLES = "data/sample_inputs/model.pt"
"""Sample inputs, which are pickled and not needed: the copy does not contain them."""
_COMPILED = "data/aotinductor/"
_FILE = re.compile(r"(weight|tensor)_\d+")
"""Weights and constants as bytes; constants of other names are pickled objects."""

_SILENCED = " Please check the warnings above for possible errors."
"""The end of a message about warnings that are not shown."""
_TRUST = "if you trust the file, give amct_opt.load the program that torch.export.load reads"
_TARGET = re.compile(r"torch\.ops\.(aten|prims|prim|quantized_decomposed|higher_order|torchao)\.\w+(\.\w+)?")
_FUNCTIONS = re.compile(
    r"_operator\.(add|sub|mul|neg|truediv|floordiv|mod|pow|eq|ne|lt|le|gt|ge|and_|or_|getitem)|torch\.sym_\w+"
)
_FILES = re.compile(r"torch\.ops\.aten\.(from_file|save)\b")
_SYMBOL = re.compile(r"Symbol\('([szu]\d+)'(, \w+=True)*\)")
_POWER = re.compile(r"Pow\([szu]\d+, Integer\(\d\)\)")
"""Powers that may be computed. Others could take forever: nothing may be computed from numbers alone."""
_NUMBER = re.compile(r"\d{1,18}")
_SIZES = re.compile(
    r"[szu]\d+|Integer|Rational|Float|Add|Mul|Max|Min|Abs|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|Where|oo|int_oo|True|False|true|false"
    r"|Equality|Unequality|LessThan|StrictLessThan|GreaterThan|StrictGreaterThan"
    r"|FloorDiv|CleanDiv|CeilDiv|Mod|PythonMod|ModularIndexing|IntTrueDiv|FloatTrueDiv|CeilToInt|FloorToInt|TruncToInt|ToFloat"
)
_PUNCTUATION = re.compile(r"[\s+\-*/(),.<>=]")
_TREES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})


def load_program(torch: Any, path: Path) -> Any:
    """The exported program in a file. Raises CompileError, located at the file, for other content and for what could run code."""
    where = str(path)
    try:
        with ZipFile(path) as archive, spooling(), tempfile.TemporaryFile() as copy:
            _vet(archive, copy, where)
            copy.seek(0)
            with quiet():
                return torch.export.load(copy)
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror or e}", where=where) from None
    except BadZipFile as e:
        hint = "torch.export.save writes such files; a state dict (torch.save) has no graph"
        raise CompileError(f"is not a PyTorch program: {first_line(e)}", where=where, hint=hint) from None
    except CompileError:
        raise
    except Exception as e:  # torch raises anything for a file that contradicts itself
        hint = f"the file is damaged, or of another version of torch than {torch.__version__}"
        reason = first_line(e).removesuffix(_SILENCED)
        raise CompileError(f"torch cannot load it: {reason}", where=where, hint=hint) from None


def _vet(archive: ZipFile, copy: IO[bytes], where: str) -> None:
    """Writes the harmless parts of an archive. Raises CompileError for an archive without a program, and for a harmful part."""
    names = archive.namelist()
    folders = {name.partition("/")[0] for name in names}
    inside = {name.partition("/")[2] for name in names}
    if len(folders) != 1 or len(inside) != len(names) or _MODEL not in inside:
        raise CompileError("is not a PyTorch program", where=where, hint="torch.export.save(program, path) writes one")
    if any(name.startswith(_COMPILED) for name in inside):
        raise CompileError(
            "contains compiled code, which is not run", where=where, hint="save the exported program alone"
        )
    folder = folders.pop()
    model = archive.read(f"{folder}/{_MODEL}")
    _vet_graph(_json(model, where), where)
    with ZipFile(copy, "w", ZIP_STORED) as vetted:
        vetted.writestr(f"{folder}/{_MODEL}", model)
        vetted.writestr(f"{folder}/{_SAMPLES}", b"")
        for name in inside.intersection(_PLAIN):
            vetted.writestr(f"{folder}/{name}", archive.read(f"{folder}/{name}"))
        for kind, name in _CONFIGS.items():
            config = archive.read(f"{folder}/{name}") if name in inside else b'{"config": {}}'
            vetted.writestr(f"{folder}/{name}", config)
            for file in _bytes_of(_json(config, where), kind, where):
                if file in inside:  # torch says which one is missing
                    vetted.writestr(f"{folder}/{file}", archive.read(f"{folder}/{file}"))


def _json(data: bytes, where: str) -> Mapping[str, Any]:
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        raise CompileError("contains a description that is not JSON", where=where, hint="the file is damaged") from None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _bytes_of(config: Mapping[str, Any], kind: str, where: str) -> Iterator[str]:
    """The files of weights or constants, each once. Raises CompileError for pickled ones."""
    entries: Mapping[str, Any] = config.get("config", {})
    for name, entry in entries.items():
        if entry.get("use_pickle") or not _FILE.fullmatch(str(entry.get("path_name"))):
            raise CompileError(f"'{name}' is pickled: reading it would run code of the file", where=where, hint=_TRUST)
    yield from dict.fromkeys(f"data/{kind}/{entry['path_name']}" for entry in entries.values())


def _vet_graph(model: Mapping[str, Any], where: str) -> None:
    """Raises CompileError for a graph that names anything else than operators and sizes."""
    stack: list[object] = [model]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack.extend(cast("list[object]", each))
        elif isinstance(each, dict):
            for key, value in cast("dict[str, object]", each).items():
                check = _CHECKS.get(key)
                if check is not None and isinstance(value, str) and not check(value):
                    message = f"'{value[:80]}' is not {_MEANING[key]}: it may run code"
                    raise CompileError(message, where=where, hint=_TRUST)
                stack.append(value)


def _is_operator(text: str) -> bool:
    return bool(_TARGET.fullmatch(text) or _FUNCTIONS.fullmatch(text)) and not _FILES.match(text)


def _is_size(text: str) -> bool:
    """Whether an expression consists of numbers, symbols of sizes, and functions by which torch computes sizes."""
    plain = _POWER.sub("s0", _SYMBOL.sub(r"\1", text))
    words = _PUNCTUATION.sub(" ", plain).split()
    return "**" not in plain and all(_SIZES.fullmatch(word) or _NUMBER.fullmatch(word) for word in words)


def _is_tree(text: str) -> bool:
    """Whether a tree of inputs or results consists of tuples, lists and dictionaries."""
    try:
        stack: list[object] = [json.loads(text)] if text else []
    except (ValueError, RecursionError):
        return False
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack.extend(cast("list[object]", each))
        elif isinstance(each, dict):
            node = cast("dict[str, object]", each)
            if node.get("type") not in _TREES or "__enum__" in str(node.get("context")):
                return False
            stack.append(node.get("children_spec"))
    return True


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "target": _is_operator,
    "as_operator": _is_operator,
    "expr_str": _is_size,
    "in_spec": _is_tree,
    "out_spec": _is_tree,
}
_MEANING = {
    "target": "an operator of torch",
    "as_operator": "an operator of torch",
    "expr_str": "a size",
    "in_spec": "a tree of tuples, lists and dictionaries",
    "out_spec": "a tree of tuples, lists and dictionaries",
}
