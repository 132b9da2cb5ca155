"""`--insert-observers`: decides what is quantized and how, and reports why the rest is not. Later passes follow it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....configuration.layer_settings import recorded_impossible
from ....configuration.record import Record
from ....configuration.settings import Settings
from ....dialects.nn import ObserveOp, OpaqueOp, Plan, plan_of, set_plan
from ....ir.layer_names import LayerNames
from ....rewriting import Remarks, layer_of
from ....rewriting.driver import garbage_collection_off
from ....session import Session, session_of
from ..convert.precision import mark_fp16, wants_fp16
from ..convert.recurrent_weights import plan_recurrent
from ..decide.layers import (
    Layers,
    able_names,
    check_record,
    half_quantized,
    is_dequantized,
    is_quantized,
    takes_int16,
)
from ..decide.legality import first_broken, other_layers
from ..decide.missed_fusions import note_foldable_norms, note_small_operations
from ..decide.named_layers import note_modules
from ..decide.planning import (
    SKIPPED,
    Broken,
    Computed,
    check_factors,
    leave_in_float,
    note_unbalanced,
    plan_balance,
    plan_layers,
    warn_unbalanced,
)
from ..decide.sites import Site, note_other_functions, sites
from ..decide.weight_only import plan_weight_only, takes_weight_only
from ..profiles import Profile
from ..request import QuantizationOptions, Request, Resolved
from .joint import join_sums
from .points import Points, producer_of, spec_of
from .tensor_points import insert_tensor_points, recorded_tensors
from .value_points import insert_value_points


@dataclass(frozen=True)
class InsertObserversPass(QuantizationOptions, ModulePass):
    """Decide what is quantized, and how: observers stand on what the target profile quantizes and legality allows, the inputs of
    layers or every value, and each layer has a plan, `nn.plan`. The passes behind this one follow both, and decide nothing.
    """

    name = "insert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        insert_observers(op, self.request(session), session)


@garbage_collection_off()
def insert_observers(module: ModuleOp, request: Request, session: Session) -> None:
    """Decide what is quantized, and how: points on inputs of layers or on values, and a plan for each operation that could be.

    Settings, the profile and legality decide; with a record, only what it lists is quantized, with its parameters. What has a
    plan already keeps it, unless a record is given. Raises CompileError, located in the file of the settings or the record, for
    layers and values that the module does not have, and for what they cannot have.
    """
    before = Remarks(session, InsertObserversPass.name)
    note_modules(request.settings, LayerNames.of(module), before)
    request = request.within(module, session)
    settings, record, profile = request.settings, request.record, request.profile
    note_foldable_norms(module, before)
    note_small_operations(module, request.points.activations(profile), before)
    before.flush()
    remarks = Remarks(session, InsertObserversPass.name)
    note_other_functions(module, remarks)
    if record is not None:
        _check_layers(record, module, request.layers)
    plan_recurrent(module, request, remarks)
    if profile.points == "values":
        _note_tensors(settings, module, profile, remarks)
        layers = insert_value_points(module, request, remarks)
    else:
        layers = _insert_layer_points(module, request, remarks)
    plan_layers(layers, request, session, remarks)
    if wants_fp16(settings, record):
        mark_fp16(module)
    remarks.flush()


def _insert_layer_points(module: ModuleOp, request: Resolved, remarks: Remarks) -> list[Computed]:
    """Insert points on layer inputs and on requested tensors. Returns the layers that compute on quantized inputs."""
    settings, record, profile = request.settings, request.record, request.profile
    points = Points(module)
    layers: list[Computed] = []
    for site in sites(module, profile.rows):
        row = profile.rows[type(site.compute)]
        held = request.layers.held[site.compute]
        layer = Computed(site, row, held)
        if plan_of(site.compute) is not None and record is None:
            continue  # already decided
        set_plan(site.compute, None)
        producer = producer_of(site.activation)
        if isinstance(producer, ObserveOp):
            given = record.layers.get(layer.name) if record is not None else None
            balance = plan_balance(layer, request)
            if given is not None and given.scale_d is not None and producer.qparams is None:
                points.observe(site, 0, producer.input, spec_of(held, given), f"{layer.name}:0")
        elif is_quantized(site):
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
            elif request.shifts and is_dequantized(site.activation):
                layers.append(layer)
            continue
        elif takes_weight_only(site, held, record):
            plan_weight_only(site, row, held, settings, record, remarks)
            continue
        elif (broken := _broken(layer, request)) is not None:
            leave_in_float(site.compute, *broken, remarks)
            warn_unbalanced(site.compute, broken.reason, request, remarks)
            continue
        else:
            balance = plan_balance(layer, request)
            _observe(layer, points, request, remarks, None if balance is None or isinstance(balance, Broken) else site)
        layers.append(layer)
        if isinstance(balance, Broken):
            note_unbalanced(site.compute, balance, request, remarks)
        elif balance is not None:
            set_plan(site.compute, Plan(balance=balance))
    for site, (rule, reason) in other_layers(module, profile.rows) if profile.table else ():
        if plan_of(site.compute) is None:
            leave_in_float(site.compute, rule.name, reason, remarks)
    insert_tensor_points(module, settings, _of_tensors(record, module, profile), points, remarks)
    points.erase_unused()
    if settings.joint_quant:
        join_sums(module, remarks)
    return layers


def _broken(layer: Computed, request: Request) -> Broken | None:
    """The first rule that leaves a layer in float."""
    if layer.held.skipped is not None:
        return Broken(layer.held.skipped, SKIPPED[layer.held.skipped])
    if (broken := first_broken(layer.site, layer.row.rules, request.profile.table)) is not None:
        return Broken(broken[0].name, broken[1])
    lacks = None if request.record is None else _lacking(request.record, layer.name, layer.site)
    return None if lacks is None else Broken("record", f"the record {lacks}")


def _observe(layer: Computed, points: Points, request: Request, remarks: Remarks, only_for: Site | None) -> None:
    """Insert points on the inputs that a layer multiplies, with remarks. `only_for`: a balanced layer needs its own points."""
    site, held, record = layer.site, layer.held, request.record
    given = record.layers.get(layer.name) if record is not None else None
    for index in site.inputs:
        value = site.operand(index)
        assert value is not None, "legality has asked for it"
        if is_dequantized(value):
            continue
        recorded = None if record is None else record.layers[_entry(layer.name, index)]
        points.observe(site, index, value, spec_of(held, recorded), f"{layer.name}:{index}", only_for)
    inputs = "inputs" if site.multiplies_inputs else "input"
    source = f"{inputs} observed by {held.observer}" if given is None else "parameters from the record"
    remarks.applied(site.compute, "observed", source)


def _lacking(record: Record, name: str, site: Site) -> str | None:
    """The part of a layer's inputs that a record lacks; inputs that are already quantized need nothing."""
    for index in site.inputs:
        given = record.layers.get(_entry(name, index))
        if (given is None or given.scale_d is None) and not is_dequantized(site.operand(index)):
            what = "it" if index == 0 else "its second input"
            return f"does not list {what}" if given is None else f"has no scale_d of {what}"
    return None


def _entry(name: str, index: int) -> str:
    """The record key of an input; for the first input it is the layer's name (AMCT)."""
    return name if index == 0 else f"{name}:{index}"


def _of_tensors(record: Record | None, module: ModuleOp, profile: Profile) -> Record | None:
    """The record without the second inputs of products, which belong to these layers."""
    if record is None:
        return None
    found = (s for s in sites(module, profile.rows) if profile.rows[type(s.compute)].two_inputs and s.multiplies_inputs)
    taken = {_entry(layer_of(site.compute), 1) for site in found}
    return replace(record, layers={name: layer for name, layer in record.layers.items() if name not in taken})


def _note_tensors(settings: Settings, module: ModuleOp, profile: Profile, remarks: Remarks) -> None:
    """Leave a remark for each tensor requested: in profiles with points on values, inputs need no points of their own."""
    asked = {t.layer_name for t in settings.tensor_quantize}
    for site in sites(module, profile.rows):
        if layer_of(site.compute) in asked:
            remarks.note(
                site.compute, "tensor-quantize", f"profile {profile.name} quantizes values, its inputs among them"
            )


def _check_layers(record: Record, module: ModuleOp, known: Layers) -> None:
    """Raises CompileError, located in the record's file, unless all its layers can be quantized."""
    found = {each.layer.name: each for each in known.candidates}
    recurrent = {name for name, each in found.items() if isinstance(each.site.compute, OpaqueOp)}
    check_record(record, recurrent)
    quantizable = able_names(known.candidates)
    alone = {name for name, each in found.items() if each.alone() is None} | recurrent
    layers = {layer_of(op) for op in module.walk()}
    tensors = recorded_tensors(record, layers)
    for name in (name for name in record.layers if name not in tensors):
        if name not in layers:
            raise record.error(name, "the model has no such layer")
        if record.layers[name].weight_compress_only and name not in alone:
            raise record.error(name, "has no weight that can be quantized alone")
        if name not in quantizable and name not in alone:
            raise record.error(name, "cannot be quantized")
        if name in recurrent:
            continue
        check_factors(site := found[name].site, record)
        if record.layers[name].bits == 16 and not takes_int16(site, known.profile.rows[type(site.compute)]):
            raise record.error(name, "its input is INT16, which no operator of Ascend IR for it takes")
        if (reason := recorded_impossible(record.layers[name], found[name].layer)) is not None:
            raise record.error(name, reason)
