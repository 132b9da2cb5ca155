"""Points on single layer inputs, which are quantized only to move less data (AMCT's tensor_quantize).

Users request them by layer name and input index, so an input that cannot be quantized is an error. The layers are those
that AMCT's table 1 lists for input tensors only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Activation, Calibration, Settings, tensor_parts
from ....diagnostics import CompileError, describe
from ....dialects.nn import DequantizeOp, NNOp, ObserveOp, Plan, plan_of, set_plan
from ....rewriting import Remarks, layer_of
from ..decide.layer_inputs import LayerInput, inputs_of
from ..decide.rules.layer_rules import input_is_computed
from ..decide.rules.tensor_rules import tensor_broken
from ..decide.sites import Site, sites
from .points import Points, Spec, producer_of, recorded

_RULE = "tensor-quantize"
_NARROW = "AscendAntiQuant takes int8"


def insert_tensor_points(
    module: ModuleOp, settings: Settings, record: Record | None, points: Points, remarks: Remarks
) -> None:
    """Insert points on the inputs that settings and the record name. With a record, only its inputs get points, with its
    parameters.

    Raises CompileError, located in the file of the request, else at the layer, for an input that cannot be quantized.
    """
    if record is None and not settings.tensor_quantize:
        return
    found = sites(module, (NNOp,))
    layers = {layer_of(site.compute): site for site in found}
    given: Mapping[str, LayerRecord] = {} if record is None else recorded_tensors(record, layers)
    wanted = {f"{t.layer_name}:{t.input_index}": t.activation for t in settings.tensor_quantize}
    common = (settings.common or Calibration()).activation
    observed: dict[Operation, list[str]] = {}
    left: list[tuple[Operation, str]] = []
    for name in {**wanted, **given}:
        where = settings.where if name in wanted or record is None else record.where
        if record is not None and name in given and given[name].scale_d is None:
            raise record.error(name, "has no scale_d")
        last, tensor = _input_named(name, layers, settings, where)
        spec = _spec(wanted.get(name, common), given.get(name), settings)
        if spec.bits == 16:
            if record is not None and name in given:
                raise record.error(name, f"its input is INT16, {_NARROW}")
            left.append((last.compute, f"input {name} has 8 bits, not 16: {_NARROW}"))
            spec = spec._replace(bits=8)
        if (reason := _left(tensor, spec, record is None or name in given)) is not None:
            left.append((last.compute, f"input {name} {reason}"))
            continue
        _observe(tensor, spec, name, points)
        source = "parameters from the record" if name in given else f"observed by {spec.observer}"
        observed.setdefault(last.compute, []).append(f"input {name} {source}")
    for op, texts in observed.items():
        for part in (s.compute for s in found if layer_of(s.compute) == layer_of(op)):
            remarks.forget(part)
            if (plan := plan_of(part)) is not None and plan.is_float:
                set_plan(part, Plan(input=True))
        remarks.applied(op, _RULE, "; ".join(texts))
    for op, text in left:
        remarks.note(op, f"{_RULE}-left", text)


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
        hidden = rule == input_is_computed.name and any(each.value is None for each in inputs_of(site))
        hint = f"keep it out of the region: --skip-fusion={layer}" if hidden else ""
        message = f"tensor_quantize names '{name}', which cannot be quantized ({rule}): {reason}"
        raise CompileError(message, where=where or describe(site.compute.location), hint=hint)
    return site, inputs_of(site)[index]


def _spec(held: Activation, given: LayerRecord | None, settings: Settings) -> Spec:
    if given is not None:
        return recorded(held.observer, given)
    asymmetric = settings.activation_offset if held.asymmetric is None else held.asymmetric
    return Spec(held.observer, held.bits, not asymmetric)


def _left(tensor: LayerInput, spec: Spec, listed: bool) -> str | None:
    """The reason why an input is not quantized."""
    match producer_of(tensor.value):
        case DequantizeOp():
            return "is quantized already"
        case ObserveOp() as point if point.qparams is not None or spec.qparams is None:
            return "is observed already"
        case _:
            return None if listed else "stays float: the record does not list it"


def _observe(tensor: LayerInput, spec: Spec, name: str, points: Points) -> None:
    value, producer = tensor.value, producer_of(tensor.value)
    assert value is not None, "legality has asked for it"
    points.observe(tensor.site, tensor.slot, producer.input if isinstance(producer, ObserveOp) else value, spec, name)
