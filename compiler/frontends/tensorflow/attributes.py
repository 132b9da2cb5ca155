"""What `origin` keeps of a TensorFlow node's attributes: those that rules read, where they are not the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute


def _flag(value: Any) -> Attribute | None:
    return IntegerAttr(1, i64) if value.b else None


def _dilations(value: Any) -> Attribute | None:
    sizes = list(value.list.i)
    return DenseArrayBase.from_list(i64, sizes) if set(sizes) - {1} else None


def _text(value: Any) -> Attribute | None:
    return StringAttr(value.s.decode(errors="replace"))


_KEPT: Mapping[str, Callable[[Any], Attribute | None]] = {
    "adj_x": _flag,
    "adj_y": _flag,
    "data_format": _text,
    "dilations": _dilations,
    "is_training": _flag,
    "transpose_a": _flag,
    "transpose_b": _flag,
}


def provenance(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attributes of a node (protobuf messages, by name) that `origin` keeps; dilations have an entry for every axis."""
    kept = {name: keep(attributes[name]) for name, keep in _KEPT.items() if name in attributes}
    return {name: value for name, value in kept.items() if value is not None}
