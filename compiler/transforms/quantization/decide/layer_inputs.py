"""Inputs of source layers: the operation and operand of each, as import may split a layer; which inputs are quantized, and how.

Single inputs are quantized only to move less data, AMCT's tensor_quantize. They are requested by layer name and input index, so
one that cannot be quantized is an error; AMCT's table 1 lists these layers for input tensors only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Activation, Calibration, Settings, tensor_parts
from ....dialects.nn import (
    AddOp,
    DequantizeOp,
    FusedOp,
    How,
    MulOp,
    NNOp,
    ObserveOp,
    Plan,
    Point,
    array_of,
    plan_of,
    set_plan,
)
from ....dialects.nn.fused import computed
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import producer_of
from ....rewriting import Remarks, layer_of
from ....support.diagnostics import CompileError, describe
from ..profiles import Profile
from ..request import Resolved
from ..tables import LayerRow
from .conditions import DecideLayer, first_of
from .legality import row_of
from .planning import entry_of, recorded
from .sites import Site, sites


class LayerInput(NamedTuple):
    """Operand `slot` of one of a layer's operations."""

    site: Site
    slot: int

    @property
    def value(self) -> SSAValue | None:
        """The input's value; None if it is computed inside a fused region."""
        return self.site.operand(self.slot)


def inputs_of(site: Site) -> list[LayerInput]:
    """The inputs of the layer whose last operation is at `site`, in the layer's order.

    Caffe's Eltwise of many inputs is a chain of additions, with a product for each coefficient.
    """
    found: list[LayerInput] = []
    for slot in range(len(site.compute.operands)):
        before = _within_layer(site, slot)
        if before is None:
            found.append(LayerInput(site, slot))
        elif isinstance(site.compute, AddOp) and isinstance(before.compute, MulOp):
            found.append(LayerInput(before, 0))
        else:
            found.extend(inputs_of(before))
    return found


def ends_layer(site: Site) -> bool:
    """Whether no operation of the same layer reads an operation's results."""
    op, owner = site.compute, site.owner
    readers = [use.operation for use in op.results[0].uses]
    if isinstance(owner, FusedOp):
        readers += [use.operation for use in owner.result.uses]
    return op.origin is None or all(op.origin != r.properties.get("origin") for r in readers)


def _within_layer(site: Site, slot: int) -> Site | None:
    """The operation of the same layer that computes an operand."""
    before = _producer(site, slot)
    if before is None or site.compute.origin is None or layer_of(before.compute) != layer_of(site.compute):
        return None
    return before


def _producer(site: Site, slot: int) -> Site | None:
    """The operation that computes an operand, in the same region or another."""
    op = computed(site.compute.operands[slot]).owner
    if not isinstance(op, NNOp):
        return None
    region = op.parent_op()
    return Site(region if isinstance(region, FusedOp) else op, op, site.half_precision)


def tensor_broken(site: Site, index: int) -> tuple[str, str] | None:
    """The first condition, by its name, that keeps input `index` of a layer from being quantized by itself, and the reason.

    `site` is the layer's last operation. The layer has to be one that AMCT's table 1 has for its input tensors only.
    """
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return DecideLayer.tensor_only.name, "only inputs of max pooling and addition are quantized by themselves"
    if (broken := _row_broken(site, row)) is not None:
        return broken
    inputs = inputs_of(site)
    if not 0 <= index < len(inputs):
        return "input-index", f"it has {len(inputs)} input{'s' if len(inputs) > 1 else ''}, counted from 0"
    if (value := inputs[index].value) is None:
        return DecideLayer.input_computed.name, f"its input {index} is computed inside a fused region"
    if not is_float(element_of(value)):
        return DecideLayer.input_float.name, f"its input {index} is of {element_of(value)}"
    return None if array_of(value) is None else (DecideLayer.input_computed.name, f"its input {index} is a constant")


def sum_broken(site: Site) -> str | None:
    """The reason why the values around a sum are not quantized jointly."""
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return "it is not one of the sums that AMCT quantizes"
    return broken[1] if (broken := _row_broken(site, row)) is not None else None


def _row_broken(site: Site, row: LayerRow) -> tuple[str, str] | None:
    """The first condition of the layer's row, or of masks, that the layer does not meet, apart from `tensor_only`."""
    rules = (each for each in row.rules if each is not DecideLayer.tensor_only)
    broken = first_of(site, (*rules, DecideLayer.softmax_input))
    return None if broken is None else (broken[0].name, broken[1])


_TENSOR = "tensor-quantize"
_NARROW = "AscendAntiQuant takes int8"


def decide_tensors(module: ModuleOp, request: Resolved, remarks: Remarks) -> list[Site]:
    """Plan points on the inputs that settings and the record name, and return the operations that read them. With a
    record, only its inputs get points, with its parameters.

    Raises CompileError, located in the file of the request, else at the layer, for an input that cannot be quantized.
    """
    settings, record = request.settings, _of_tensors(request.record, module, request.profile)
    if record is None and not settings.tensor_quantize:
        return []
    found = sites(module, (NNOp,))
    layers = {layer_of(site.compute): site for site in found}
    given: Mapping[str, LayerRecord] = {} if record is None else recorded_tensors(record, layers)
    wanted = {f"{t.layer_name}:{t.input_index}": t.activation for t in settings.tensor_quantize}
    common = (settings.common or Calibration()).activation
    planned: dict[Operation, list[tuple[LayerInput, How, str]]] = {}
    left: list[tuple[Operation, str]] = []
    for name in {**wanted, **given}:
        where = settings.where if name in wanted or record is None else record.where
        if record is not None and name in given and given[name].scale_d is None:
            raise record.error(name, "has no scale_d")
        last, tensor = _input_named(name, layers, settings, where)
        how = _how(wanted.get(name, common), given.get(name), settings)
        if how.bits == 16:
            if record is not None and name in given:
                raise record.error(name, f"its input is INT16, {_NARROW}")
            left.append((last.compute, f"input {name} has 8 bits, not 16: {_NARROW}"))
            how = replace(how, bits=8)
        if (reason := _left(tensor, how, record is None or name in given)) is not None:
            left.append((last.compute, f"input {name} {reason}"))
        else:
            planned.setdefault(last.compute, []).append((tensor, how, name))
    for op, inputs in planned.items():
        for part in (s.compute for s in found if layer_of(s.compute) == layer_of(op)):
            remarks.forget(part)
            if (plan := plan_of(part)) is not None and plan.is_float:
                set_plan(part, Plan(input=True))
        for tensor, how, name in inputs:
            plan = plan_of(tensor.site.compute) or Plan()
            points = [p for p in plan.points if (p.at, p.number) != ("operand", tensor.slot)]
            point = Point("operand", tensor.slot, how, name)
            set_plan(tensor.site.compute, replace(plan, points=(*points, point)))
        source = "parameters from the record"
        texts = [
            f"input {name} {source if name in given else f'observed by {how.observer}'}" for _, how, name in inputs
        ]
        remarks.applied(op, _TENSOR, "; ".join(texts))
    for op, text in left:
        remarks.note(op, f"{_TENSOR}-left", text)
    return [tensor.site for inputs in planned.values() for tensor, _, _ in inputs]


def layers_of_inputs(module: ModuleOp, request: Resolved) -> set[str]:
    """The layers of which settings or the record name single inputs."""
    asked = {t.layer_name for t in request.settings.tensor_quantize}
    if (record := _of_tensors(request.record, module, request.profile)) is None:
        return asked
    layers = {layer_of(site.compute) for site in sites(module, (NNOp,))}
    return asked | {tensor_parts(name)[0] for name in recorded_tensors(record, layers)}


def recorded_tensors(record: Record, layers: Collection[str]) -> Mapping[str, LayerRecord]:
    """The entries of a record for single inputs. Not every flavour of AMCT marks them: `layer:1` is one unless a layer has that
    name.
    """
    return {
        name: entry
        for name, entry in record.layers.items()
        if entry.is_tensor_quantize or (name not in layers and tensor_parts(name)[0] in layers)
    }


def _input_named(name: str, layers: Mapping[str, Site], settings: Settings, where: str) -> tuple[Site, LayerInput]:
    """The layer's last operation, and the operand of the named input."""
    layer, index = tensor_parts(name)
    if layer not in layers:
        raise CompileError(f"tensor_quantize names '{name}', but the model has no layer '{layer}'", where=where)
    site = layers[layer]
    broken = tensor_broken(site, index)
    if layer in settings.skip_layers:
        broken = "skip-layers", "it is on the list of skip-layers"
    if broken is not None:
        rule, reason = broken
        hidden = rule == DecideLayer.input_computed.name and any(each.value is None for each in inputs_of(site))
        hint = f"keep it out of the region: --skip-fusion={layer}" if hidden else ""
        message = f"tensor_quantize names '{name}', which cannot be quantized ({rule}): {reason}"
        raise CompileError(message, where=where or describe(site.compute.location), hint=hint)
    return site, inputs_of(site)[index]


def _how(held: Activation, given: LayerRecord | None, settings: Settings) -> How:
    if given is not None:
        return recorded(held.observer, given)
    asymmetric = settings.activation_offset if held.asymmetric is None else held.asymmetric
    return How(held.bits, not asymmetric, held.observer)


def _left(tensor: LayerInput, how: How, listed: bool) -> str | None:
    """The reason why an input is not quantized."""
    plan = plan_of(tensor.site.compute) or Plan()
    known = {p.number: p.how.given for p in plan.points if p.at == "operand" and isinstance(p.how, How)}
    match producer_of(tensor.value):
        case DequantizeOp():
            return "is quantized already"
        case ObserveOp(qparams=params):
            pass
        case _ if tensor.slot in known:
            params = known[tensor.slot]
        case _:
            return None if listed else "stays float: the record does not list it"
    return "is observed already" if params is not None or how.given is None else None


def _of_tensors(record: Record | None, module: ModuleOp, profile: Profile) -> Record | None:
    """The record without the second inputs of products, which belong to these layers."""
    if record is None:
        return None
    found = (s for s in sites(module, profile.rows) if profile.rows[type(s.compute)].two_inputs and s.multiplies_inputs)
    taken = {entry_of(layer_of(site.compute), 1) for site in found}
    return replace(record, layers={name: layer for name, layer in record.layers.items() if name not in taken})
