"""AMCT's fusion information file: the source layers in each layer of a quantized model, for tools that compare dumps.

JSON of the graph in the form of Ascend's tools: `{"name", "graph": [{"op": [{"name", "type", "attr", "output_desc"}]}]}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, ModuleOp, NameLoc
from xdsl.ir import Attribute, Operation

from ..dialects.nn import NNOp, OriginAttr, is_layer
from ..ir.functions import main_function
from ..rewriting import layer_of
from ..session import Session
from ..support.files import replacing
from ..transforms.quantization.decide.layers import is_dequantized
from ..transforms.quantization.decide.sites import Site, sites
from ..transforms.quantization.profiles import profile_of
from . import Target

_QUANTIZING = {"caffe": ("Quant", "DeQuant")}
"""The types of the layers before and after a quantized one, unless they are AscendQuant and AscendDequant."""

_STRINGS = 1
"""The number of Ascend's type for lists of strings."""


@dataclass(frozen=True)
class FusionInfoTarget(Target):
    """Lists the layers of a quantized `nn` module as AMCT's deployable files contain them, with the source's layers in each."""

    name = "fusion-info"
    ending = ".json"

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        listed = {"name": path.stem.removesuffix("_quant"), "graph": [{"op": list(_layers(module, session))}]}
        with replacing(path) as stream:
            stream.write(json.dumps(listed, indent=2, ensure_ascii=False).encode())
        return [path]


def _layers(module: ModuleOp, session: Session) -> Iterator[dict[str, Any]]:
    quantized = {s.compute: s for s in sites(module, profile_of(session).rows) if _is_quantized(s)}
    named: set[object] = set()
    for op in main_function(module).body.walk():
        if not isinstance(op, NNOp) or not is_layer(op):
            continue
        if (site := quantized.get(op)) is None:
            yield _layer(op)
            continue
        before, behind = _QUANTIZING.get(_framework(op), ("AscendQuant", "AscendDequant"))
        for index in site.inputs:
            if (value := site.operand(index)) not in named:  # one node for all that read the value
                named.add(value)
                yield _entry(f"{layer_of(op)}.quant{index or ''}", before, _originals(op))
        yield _entry(layer_of(op), _type(op), _originals(op))
        yield {
            **_entry(f"{layer_of(op)}.dequant", behind, _originals(op)),
            "output_desc": [_output(_originals(op)[-1])],
        }


def _is_quantized(site: Site) -> bool:
    return all(is_dequantized(site.operand(i)) for i in site.inputs)


def _layer(op: NNOp) -> dict[str, Any]:
    originals = _originals(op)
    if originals == [layer_of(op)]:
        return {"name": layer_of(op), "type": _type(op)}
    return _entry(layer_of(op), _type(op), originals)


def _entry(name: str, type_: str, originals: list[str]) -> dict[str, Any]:
    value = {"list": {"val_type": _STRINGS, "s": originals}}
    return {"name": name, "type": type_, "attr": [{"key": "_datadump_original_op_names", "value": value}]}


def _output(origin: str) -> dict[str, Any]:
    """The output of the source model to compare a result with."""
    entries: Mapping[str, Mapping[str, object]] = {
        "_datadump_origin_format": {"s": "NCHW"},
        "_datadump_data_type": {"s": "DT_FLOAT"},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_name": {"s": origin},
    }
    return {"attr": [{"key": key, "value": value} for key, value in entries.items()]}


def _origin(op: Operation) -> OriginAttr | None:
    origin = op.properties.get("origin")
    return origin if isinstance(origin, OriginAttr) else None


def _type(op: Operation) -> str:
    origin = _origin(op)
    return op.name if origin is None else origin.op_type.data


def _framework(op: Operation) -> str:
    origin = _origin(op)
    return "" if origin is None else origin.framework.data


def _originals(op: Operation) -> list[str]:
    """The source layers that were merged into an operation, from its location, including the operation's own."""
    names = list(dict.fromkeys(_names(op.location)))
    return names if layer_of(op) in names else [layer_of(op), *names]


def _names(location: Attribute) -> Iterator[str]:
    if isinstance(location, NameLoc):
        yield location.desc.data
    elif isinstance(location, FusedLoc):
        for part in cast("ArrayAttr[Attribute]", location.locations):
            yield from _names(part)
