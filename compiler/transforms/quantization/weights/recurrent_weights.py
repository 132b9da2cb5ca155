"""Integer weights of recurrent layers: W and R, each with its own scales, in weight-only quantization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from ....configuration.layer_settings import LayerSettings, settings_for
from ....configuration.record import Record
from ....configuration.settings import Arq, Settings
from ....diagnostics import op_error
from ....dialects.nn import Plan, WeightPlan, plan_of, set_plan
from ....dialects.nn.shapes import shape_of
from ....rewriting import Remarks
from ..planning import SKIPPED
from ..recurrent import ROWS, Recurrent, recurrent_layers
from .layer_weights import IntegerWeights, described, weight_as
from .planned_weights import recorded_weight, weight_as_held

_NOT_ASKED = "weight-only", "no operator computes it in integers: only its weights are quantized"


def plan_recurrent(module: ModuleOp, settings: Settings, record: Record | None, remarks: Remarks) -> None:
    """Decide for each recurrent layer whether its weights are quantized, and leave a remark.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    for each in recurrent_layers(module):
        if each.is_quantized or (plan_of(each.op) is not None and record is None):
            continue
        held = settings_for(settings, each.layer)
        if (broken := _broken(each, held, record)) is not None:
            set_plan(each.op, Plan(broken[0]))
            remarks.missed(each.op, *broken)
            continue
        set_plan(each.op, Plan(weights=tuple(_weights(each, held, record))))
        remarks.applied(each.op, "weight-only", "it stays float, its weights W and R are quantized")
        if isinstance(held.weight, Arq) and held.weight.group_size is not None and record is None:
            reason = "its weights have a scale for each row, not for each group: they are not matrices"
            remarks.missed(each.op, "matrix-weight", reason)
        given = None if record is None else record.layers[each.layer.name]
        if given is not None and (given.scale_d is not None or given.scale_h is not None):
            remarks.note(each.op, "record", "the record's scales of its input and state are not used: these stay float")


def _broken(each: Recurrent, held: LayerSettings, record: Record | None) -> tuple[str, str] | None:
    """The rule that leaves a layer in float, by its name, and the reason."""
    if held.skipped is not None:
        return held.skipped, SKIPPED[held.skipped]
    entry = None if record is None else record.layers.get(each.layer.name)
    asked = held.weight_compress_only if record is None else entry is not None and bool(entry.scale_r)
    return each.broken if asked else _NOT_ASKED


def _weights(each: Recurrent, held: LayerSettings, record: Record | None) -> Iterator[WeightPlan]:
    """The plans of W and R: from the record, else from the settings."""
    for name, value in zip("wr", each.weights, strict=True):
        if record is not None:
            yield recorded_weight(record, each.layer.name, name, ROWS, shape_of(value))
        else:
            assert isinstance(held.weight, Arq), "weights alone take no other algorithm"
            whole = replace(held.weight, group_size=None)
            yield weight_as_held(whole, ROWS if whole.channel_wise else None)


def quantize_recurrent(module: ModuleOp, weights: IntegerWeights, remarks: Remarks) -> None:
    """Feed integer weights to the recurrent layers that are planned to have them.

    Raises CompileError, located at the layer, for a plan that does not fit its weights.
    """
    for each in list(recurrent_layers(module)):
        plan = plan_of(each.op)
        if each.is_quantized or plan is None or not plan.weights:
            continue
        if len(plan.weights) != len(each.weights):
            raise op_error(each.op, "has a plan for one weight, where W and R are quantized together")
        found = [weight_as(value, how, each.op) for value, how in zip(each.weights, plan.weights, strict=True)]
        for index, weight in enumerate(found, 1):
            weights.feed(each.site, index, weight)
        remarks.applied(each.op, "quantized", f"W {described(found[0])}, R {described(found[1])}, alone")
