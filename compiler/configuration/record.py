"""Record files: AMCT's quantization parameters by layer, in protobuf text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, cast

import numpy as np
from google.protobuf import text_encoding

from ..formats.protobuf import message_classes
from ..ir.numbers import f32
from ..support.diagnostics import CompileError
from .located import Located, parse

TYPES: Mapping[str, str] = {
    "scale_d": "float",
    "offset_d": "int32",
    "scale_w": "repeated float",
    "offset_w": "repeated int32",
    "shift_bit": "repeated uint32",
    "tensor_balance_factor": "repeated float",
    "channels": "uint32",
    "height": "uint32",
    "width": "uint32",
    "skip_fusion": "bool",
    "is_tensor_quantize": "bool",
    "dst_type": "string",
    "op_data_type": "string",
    "act_type": "string",
    "wts_type": "string",
    "fakequant_precision_mode": "string",
    "scale_h": "float",
    "offset_h": "int32",
    "scale_r": "repeated float",
    "offset_r": "repeated int32",
    "cluster": "repeated int32",
    "weight_compress_only": "bool",
}

_SHARED = {"scale_d": 1, "offset_d": 2, "scale_w": 3, "offset_w": 4, "shift_bit": 5}

NUMBERS: Mapping[str, Mapping[str, int]] = {
    "pytorch": {
        **_SHARED,
        "tensor_balance_factor": 6,
        "skip_fusion": 9,
        "dst_type": 10,
        "act_type": 11,
        "wts_type": 12,
        "fakequant_precision_mode": 13,
        "scale_h": 21,
        "offset_h": 22,
        "scale_r": 23,
        "offset_r": 24,
    },
    "onnx": {
        **_SHARED,
        "skip_fusion": 6,
        "is_tensor_quantize": 10,
        "tensor_balance_factor": 13,
        "op_data_type": 15,
        "act_type": 20,
        "wts_type": 21,
    },
    "tensorflow": {**_SHARED, "skip_fusion": 9},
    "caffe": {**_SHARED, "channels": 6, "height": 7, "width": 8, "skip_fusion": 9},
}
"""The fields of each flavour of AMCT, by number."""

EPSILON = 1.1920929e-07
"""The machine epsilon of float32."""

UNWRITTEN = frozenset({"skip_fusion", "fakequant_precision_mode"})
"""Fields that AMCT for PyTorch reads, but that its calibration does not write."""
_STATED: Mapping[str | None, frozenset[str]] = {
    "pytorch": frozenset({"act_type", "wts_type"}),
    "onnx": frozenset({"act_type", "wts_type", "op_data_type"}),
}
"""The fields that a flavour of AMCT writes with their default as well."""
_DEFAULTS = {"act_type": "INT8", "wts_type": "INT8"}
_FIRST: Mapping[str | None, tuple[str, ...]] = {
    "onnx": ("scale_d", "offset_d", "act_type", "op_data_type"),
}
"""Fields that calibration writes before those of weights, if AMCT does not keep fields in the order of their numbers."""

_TYPES_OF_INTEGERS = {"INT4": 4, "INT8": 8, "INT16": 16}
NARROW_WEIGHTS = {"INT6": 6, "INT7": 7}
"""Types of weights that are stored as int8 but use fewer bits. Of AMCT's records only those of PyTorch name them."""
CLUSTERS = (16, 32)


class BadField(CompileError):
    """A value that a field of a record cannot have."""

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field} {reason}")
        self.field = field


@dataclass(frozen=True)
class LayerRecord:
    """The record of one layer, with AMCT's names: `_d` is for its input, `_w` for its weight. Floats are float32 values.

    Raises CompileError for values that no layer can have.
    """

    scale_d: float | None = None
    offset_d: int | None = None
    scale_w: tuple[float, ...] = ()
    offset_w: tuple[int, ...] = ()
    shift_bit: tuple[int, ...] = ()
    tensor_balance_factor: tuple[float, ...] = ()
    channels: int | None = None
    height: int | None = None
    width: int | None = None
    skip_fusion: bool = False
    is_tensor_quantize: bool = False
    dst_type: str | None = None
    op_data_type: str | None = None
    act_type: str | None = None
    wts_type: str | None = None
    fakequant_precision_mode: str | None = None
    scale_h: float | None = None
    offset_h: int | None = None
    scale_r: tuple[float, ...] = ()
    offset_r: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    weight_compress_only: bool = False
    """Whether only the weight is quantized, so that it may have zero points."""

    def __post_init__(self) -> None:
        for name, kind in TYPES.items():
            value = getattr(self, name)
            if kind == "repeated float":
                object.__setattr__(self, name, tuple(map(f32, value)))
            elif kind == "float" and value is not None:
                object.__setattr__(self, name, f32(value))
        if broken := next(_broken(self), None):
            raise BadField(*broken)

    @property
    def bits(self) -> int:
        """The width of the input's integers."""
        return _TYPES_OF_INTEGERS[self.act_type or self.dst_type or "INT8"]

    @property
    def weight_bits(self) -> int:
        """The width of the weight's integers; those of 6 and 7 bits are stored as int8."""
        return _types("wts_type")[self.wts_type or "INT8"]

    def given(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}


def _types(name: str) -> Mapping[str, int]:
    """The integer types that a field may contain, by their bits; weights have at most 8."""
    return {"INT4": 4, "INT8": 8, **NARROW_WEIGHTS} if name == "wts_type" else _TYPES_OF_INTEGERS


def _broken(record: LayerRecord) -> Iterator[tuple[str, str]]:
    """Yields the rules of AMCT's parser that a record breaks: the field, and what is wrong with it."""
    for name in ("dst_type", "act_type", "wts_type"):
        if (value := getattr(record, name)) not in (None, *_types(name)):
            yield name, f"must be one of {', '.join(_types(name))}, not '{value}'"
            return
    for name in ("scale_d", "scale_h"):
        yield from _bad_scales(name, (getattr(record, name),) if getattr(record, name) is not None else ())
    for name in ("scale_w", "scale_r"):
        yield from _bad_scales(name, getattr(record, name))
    for of in "dh":
        if (getattr(record, f"scale_{of}") is None) != (getattr(record, f"offset_{of}") is None):
            yield f"scale_{of}", f"and offset_{of} belong together"
    limit = 2 ** (record.bits - 1)
    for name in ("offset_d", "offset_h"):
        if (value := getattr(record, name)) is not None and not -limit <= value < limit:
            yield name, f"must lie in [{-limit}, {limit - 1}], not {value}"
    for of in "wr":
        scales, offsets = getattr(record, f"scale_{of}"), getattr(record, f"offset_{of}")
        if len(scales) != len(offsets):
            yield f"scale_{of}", f"and offset_{of} must have the same length, not {len(scales)} and {len(offsets)}"
    yield from _bad_weight_offsets(record)
    if not all(0 <= n <= 16 for n in record.shift_bit):
        yield "shift_bit", "must lie in [0, 16]"
    if record.cluster and len(record.cluster) not in CLUSTERS:
        yield "cluster", f"must hold 16 or 32 numbers, not {len(record.cluster)}"
    if outside := [n for n in record.cluster if not -128 <= n <= 127]:
        yield "cluster", f"must lie in [-128, 127], not {outside[0]}"
    if outside := [x for x in record.tensor_balance_factor if not f32(EPSILON) <= x <= f32(1 / EPSILON)]:
        yield "tensor_balance_factor", f"must lie in [{EPSILON:g}, {1 / EPSILON:g}], not {outside[0]:g}"
    if record.is_tensor_quantize and record.scale_w:
        yield "is_tensor_quantize", "is for inputs that are quantized by themselves: scale_w does not apply"


def _bad_weight_offsets(record: LayerRecord) -> Iterator[tuple[str, str]]:
    limit = 2 ** (record.weight_bits - 1)
    for name in ("offset_w", "offset_r"):
        offsets: tuple[int, ...] = getattr(record, name)
        if not record.weight_compress_only and any(offsets):
            yield name, f"must be 0, not {next(n for n in offsets if n)}"
        elif outside := [n for n in offsets if not -limit <= n < limit]:
            yield name, f"must lie in [{-limit}, {limit - 1}], not {outside[0]}"
    if record.weight_compress_only and record.scale_d is not None:
        yield "weight_compress_only", "is for weights that are quantized by themselves: scale_d does not apply"


def _bad_scales(name: str, scales: Sequence[float]) -> Iterator[tuple[str, str]]:
    if bad := [x for x in scales if not 0 < x < inf]:
        yield name, f"must be positive and finite, not {bad[0]:g}"


@dataclass(frozen=True)
class CacheRecord:
    """The `kv_cache_value` of a layer: how a KV cache keeps its output, one pair or one for each index of the last axis.

    Raises CompileError for values that no layer can have.
    """

    scale: tuple[float, ...]
    offset: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", tuple(map(f32, self.scale)))
        for reason in _bad_scales("scale", self.scale):
            raise BadField(*reason)
        if not self.scale or len(self.scale) != len(self.offset):
            raise BadField(
                "scale", f"and offset must have the same length, not {len(self.scale)} and {len(self.offset)}"
            )
        if outside := [n for n in self.offset if not -128 <= n <= 127]:
            raise BadField("offset", f"must lie in [-128, 127], not {outside[0]}")


@dataclass(frozen=True)
class Record:
    """Records by layer; an input of `tensor_quantize` by `layer:index`."""

    layers: Mapping[str, LayerRecord] = field(default_factory=dict[str, LayerRecord])
    where: str = field(default="", compare=False)
    """The file that it was read from, for messages."""
    caches: Mapping[str, CacheRecord] = field(default_factory=dict[str, CacheRecord])
    """The layers whose outputs a KV cache keeps (AMCT for PyTorch). They do not change the model."""

    def error(self, layer: str, reason: str, hint: str = "") -> CompileError:
        return CompileError(f"layer '{layer}': {reason}", where=self.where, hint=hint)


@cache
def _class(flavour: str | None) -> type[Any]:
    """The message of a whole file; without a flavour it has every field."""
    numbers = {name: i + 1 for i, name in enumerate(TYPES)} if flavour is None else NUMBERS[flavour]
    table = {
        "ScaleOffsetRecord": {"record": (1, "repeated MapFiledEntry")},
        "MapFiledEntry": {
            "key": (1, "string"),
            "value": (2, "SingleLayerRecord"),
            **({"kv_cache_value": (3, "SingleLayerKVCacheRecord")} if flavour in (None, "pytorch") else {}),
        },
        "SingleLayerKVCacheRecord": {"scale": (1, "repeated float"), "offset": (2, "repeated int32")},
        "SingleLayerRecord": {name: (number, TYPES[name]) for name, number in numbers.items()},
    }
    return message_classes(f"amct.record.{flavour or 'any'}", "proto2", table, {})["ScaleOffsetRecord"]


def read_record(path: Path, flavour: str | None = None, *, joint_quant: bool = True) -> Record:
    """The record in a file, of this flavour or any. Without `joint_quant` it must not have `shift_bit`.

    Raises CompileError, located at the line, that names the layer, if a rule of AMCT's parser is broken.
    """
    file = parse(path, _class(flavour)(), "record")
    layers: dict[str, LayerRecord] = {}
    caches: dict[str, CacheRecord] = {}
    for entry in file.children("record"):
        cached = "kv_cache_value" in _fields(entry.message)
        entry.need("key", *(() if cached else ("value",)))
        name = entry.message.key
        if name in (caches if cached else layers):
            raise entry.error(f"layer '{name}' appears twice")
        if cached:
            caches[name] = _read_cache(name, entry.child("kv_cache_value"))
        if "value" in _fields(entry.message):
            layers[name] = _read_layer(name, entry.child("value"), joint_quant)
    return Record(layers, str(path), caches)


def _fields(message: Any) -> list[str]:
    return [field.name for field, _ in message.ListFields()]


def _read_cache(name: str, value: Located) -> CacheRecord:
    try:
        return CacheRecord(tuple(value.message.scale), tuple(value.message.offset))
    except BadField as e:
        raise value.error(f"layer '{name}': {e.message}", field=e.field) from None


def _read_layer(name: str, value: Located, joint_quant: bool) -> LayerRecord:
    values: dict[str, Any] = {f.name: _plain(v) for f, v in value.message.ListFields()}
    if "shift_bit" in values and not joint_quant:
        raise value.error(f"layer '{name}': shift_bit requires joint_quant", field="shift_bit")
    try:
        return LayerRecord(**values)
    except BadField as e:
        raise value.error(f"layer '{name}': {e.message}", field=e.field) from None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else tuple(value)


def own_fields(layer: LayerRecord, flavour: str | None) -> list[str]:
    """The fields of a layer that AMCT's record of this flavour lacks, or whose values it does not know."""
    if flavour is None:
        return []
    own = [name for name in layer.given() if name not in NUMBERS[flavour]]
    named = flavour == "pytorch" or layer.wts_type not in NARROW_WEIGHTS
    return own if named or "wts_type" in own else [*own, "wts_type"]


def as_written(layer: LayerRecord, flavour: str | None) -> LayerRecord:
    """A layer in the form of an AMCT flavour's record, which may lack default types, the type of the data, and marks
    that names show as well. Without a flavour, default types and the type of the data are left out.
    """
    stated = _STATED.get(flavour, frozenset[str]())
    left: dict[str, Any] = {name: None for name, value in _DEFAULTS.items() if getattr(layer, name) == value}
    changed = {name: value for name, value in (left | {"op_data_type": None}).items() if name not in stated}
    if flavour is not None and "is_tensor_quantize" not in NUMBERS[flavour]:
        changed["is_tensor_quantize"] = False
    if flavour == "pytorch":
        changed |= {f.name: f.default for f in fields(layer) if f.name in UNWRITTEN}
    return replace(layer, **changed)


def record_text(record: Record, flavour: str | None = None) -> str:
    """A record as protobuf text, fields in AMCT's order. Floats have the fewest digits that give the same float32 number, in
    records of PyTorch and ONNX; otherwise up to 9. ONNX's `scale_d`, which C++ writes, has up to 10.

    Comments mark the fields that AMCT's record of the flavour does not have.
    """
    lines: list[str] = []
    for name, layer in record.layers.items():
        own = own_fields(layer, flavour)
        lines += ["record {", f"  key: {_text(name)}", "  value {"]
        given = layer.given()
        for field_name in dict.fromkeys((*(n for n in _FIRST.get(flavour, ()) if n in given), *given)):
            if field_name in own:
                lines.append(f"    # amct-opt's own, not of AMCT's record for {flavour}")
            value = given[field_name]
            values: Sequence[Any] = value if TYPES[field_name].startswith("repeated") else (value,)
            lines += [f"    {field_name}: {_field_text(field_name, v, flavour)}" for v in values]
        lines += ["  }", "}"]
    for name, kept in record.caches.items():
        lines += ["record {", f"  key: {_text(name)}", "  kv_cache_value {"]
        lines += [f"    scale: {_field_text('scale', x, flavour)}" for x in kept.scale] + [
            f"    offset: {n}" for n in kept.offset
        ]
        lines += ["  }", "}"]
    return "".join(f"{line}\n" for line in lines)


def _field_text(name: str, value: str | float, flavour: str | None) -> str:
    """A value of a field in the form of a flavour's AMCT, which is written in Python and C++."""
    if flavour not in _STATED:
        return _text(value)
    if flavour == "onnx" and name == "scale_d":
        return f"{value:.10g}"
    if name == "op_data_type":
        return f"'{value}'"
    return str(float(str(np.float32(value)))) if isinstance(value, float) else _text(value)


def _text(value: str | float) -> str:
    """A value in protobuf text."""
    match value:
        case str():
            return f'"{text_encoding.CEscape(cast(Any, value), as_utf8=True)}"'
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.9g}"
        case _:
            return str(value)


def merged(first: Record, second: Record) -> Record:
    """The layers of both. Values that both have for a layer must agree; each may lack values of the other.

    Raises CompileError, located in the second file, that names the layer, if they do not agree.
    """
    layers = dict(first.layers)
    for name, layer in second.layers.items():
        layers[name] = _merged(name, layers[name], layer, second) if name in layers else layer
    return Record(layers, second.where or first.where, {**first.caches, **second.caches})


def _merged(name: str, first: LayerRecord, second: LayerRecord, record: Record) -> LayerRecord:
    known, added = first.given(), second.given()
    for each, value in added.items():
        if known.get(each, value) != value:
            raise record.error(name, f"{each} differs from the record that it is merged into")
    try:
        return replace(first, **added)
    except CompileError as e:
        raise record.error(name, e.message) from None
