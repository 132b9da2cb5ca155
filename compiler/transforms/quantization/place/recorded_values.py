"""Turns a record's parameters, which belong to layers' inputs, into parameters of values."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import OpResult, SSAValue

from ....configuration.record import Record
from ....dialects.nn import ObserveOp, Spec
from ..decide.value_layers import ValueLayers
from .points import recorded


def recorded_values(layers: ValueLayers, record: Record) -> Mapping[SSAValue, Spec]:
    """The parameters of a record by value: entry `layer` is for the layer's first input, `layer:1` for its second.
    After quantized passive operations, the entry is for the input of these.

    Raises CompileError, located in the record's file, if two layers read one value with different parameters, and for
    an entry without an input.
    """
    found: dict[SSAValue, tuple[str, Spec]] = {}
    used: set[str] = set()
    for layer in layers.values():
        for index, value in layer.reads():
            name = layer.name if index == 0 else f"{layer.name}:{index}"
            if (entry := record.layers.get(name)) is None or entry.scale_d is None:
                continue
            used.add(name)
            spec = recorded(layer.held.observer, entry)
            other, first = found.setdefault(_root(value, layers), (name, spec))
            if (first.bits, first.qparams) != (spec.bits, spec.qparams):
                reason = f"layer '{other}' has the same input with other parameters"
                raise record.error(name, reason, "this profile has one point on each value")
    if unused := [name for name, entry in record.layers.items() if entry.is_tensor_quantize and name not in used]:
        raise record.error(unused[0], "is not an input of a quantized layer")
    return {value: spec for value, (_, spec) in found.items()}


def _root(value: SSAValue, layers: ValueLayers) -> SSAValue:
    """The value whose point applies to another: before passive operations, and before an existing point."""
    while isinstance(value, OpResult):
        layer = layers.get(value.op)
        if isinstance(value.op, ObserveOp):
            value = value.op.input
        elif layer is not None and layer.is_passive:
            value = layer.site.owner.operands[0]
        else:
            return value
    return value
