"""ATC's listing of a compiled model: the operators with compressed weights (the `mapping_file` of NUQ)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .json_object import JsonObject, read_object

COMPRESSED = "_fe_weight_compress"
ORIGINAL_NAMES = "_datadump_original_op_names"


def compressed_operators(path: Path) -> Mapping[str, tuple[str, ...]]:
    """The operators with compressed weights, each with its source layers.

    The file is the JSON that `atc --mode=1 --om=model.om --json=model.json` writes: graphs, their operators, and their
    attributes as keys and values. Raises CompileError, located in the file, for other content.
    """
    top = read_object(path)
    if "graph" not in top.values:
        raise top.error("has no graph", "`atc --mode=1 --om=model.om --json=model.json` lists a compiled model")
    found: dict[str, tuple[str, ...]] = {}
    for op in (op for graph in top.take_objects("graph") for op in graph.take_objects("op")):
        name = op.take("name", str, "")
        op.path = f"operator '{name}'"
        attributes = {attribute.take("key", str): attribute for attribute in op.take_objects("attr")}
        if COMPRESSED in attributes and _value(attributes[COMPRESSED]).take("b", bool, False):
            found[name] = _names(attributes[ORIGINAL_NAMES]) if ORIGINAL_NAMES in attributes else ()
    return found


def _names(attribute: JsonObject) -> tuple[str, ...]:
    return tuple(_value(attribute).take_object("list", ORIGINAL_NAMES).take_list("s", str))


def _value(attribute: JsonObject) -> JsonObject:
    return attribute.take_object("value", "value of an attribute")
