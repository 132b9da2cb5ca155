"""`--insert-observers`: decides where quantization happens, and says why not elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...collector import collector_aside
from ...configuration.checks import check_observers
from ...configuration.layer_settings import LayerSettings, recorded_impossible, settings_for
from ...configuration.record import Record
from ...configuration.settings import Settings
from ...dialects.nn import ObserveOp
from ...layer_names import LayerNames
from ...rewriting import Remarks, layer_of
from ...session import Session, session_of
from .layers import (
    checked,
    half_quantized,
    is_dequantized,
    is_quantized,
    layer_at,
    quantizable_layers,
)
from .legality import first_broken, other_layers, weight_only_broken
from .missed_fusions import note_foldable_norms, note_small_operations
from .named_layers import note_modules
from .options import SettingsOptions
from .point_options import PointOptions
from .points.joint import join_sums
from .points.points import Points, producer_of, spec_of
from .points.tensor_points import insert_tensor_points, recorded_tensors
from .profiles import Profile, profile_of
from .recurrent import recurrent_layers
from .sites import Site, sites
from .skipped import SKIPPED
from .supported import check_record
from .values.value_points import insert_value_points
from .weights.recurrent_weights import note_recurrent
from .weights.weight_only import note_weight_only, takes_weight_only

_AS_THE_PROFILE = PointOptions()


@dataclass(frozen=True)
class InsertObserversPass(SettingsOptions, PointOptions, ModulePass):
    """Put observers on what the target profile quantizes and legality allows: the inputs of layers, or every value."""

    name = "insert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        insert_observers(op, settings, self.records(settings), session_of(ctx), self)


@collector_aside()
def insert_observers(
    module: ModuleOp,
    settings: Settings,
    record: Record | None,
    session: Session,
    options: PointOptions = _AS_THE_PROFILE,
) -> None:
    """Observe the inputs of the layers that settings, the profile and legality allow; with a record, of those that it lists, and
    with its parameters. A profile that quantizes values has its points on these, as options say.

    Raises CompileError, located in the file of the settings or the record, for layers and values that the module does not have.
    """
    profile = profile_of(session)
    before = Remarks(session, InsertObserversPass.name)
    note_modules(settings, LayerNames.of(module), before)
    settings = checked(settings, module, profile)
    check_observers(settings, session.observers)
    options.check_points(profile)
    note_foldable_norms(module, before)
    note_small_operations(module, options.activations(profile), before)
    before.flush()
    remarks = Remarks(session, InsertObserversPass.name)
    if record is not None:
        _check_layers(record, module, session)
    note_recurrent(module, settings, record, remarks)
    if profile.points == "values":
        _note_tensors(settings, module, profile, remarks)
        insert_value_points(module, settings, record, options, profile, remarks)
        remarks.flush()
        return
    points = Points()
    for site in sites(module, profile.rows):
        row = profile.rows[type(site.compute)]
        layer, producer = layer_at(site, row), producer_of(site.activation)
        held = settings_for(settings, layer)
        given = record.layers.get(layer.name) if record is not None else None
        if isinstance(producer, ObserveOp):
            if given is not None and given.scale_d is not None and producer.qparams is None:
                points.observe(site, 0, producer.input, spec_of(held, given), f"{layer.name}:0")
        elif is_quantized(site):
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
        elif held.skipped is not None:
            remarks.missed(site.compute, held.skipped, SKIPPED[held.skipped])
        elif takes_weight_only(site, row, settings, record):
            note_weight_only(site, row, held, remarks)
        elif (broken := first_broken(site, row.rules, profile.table)) is not None:
            remarks.missed(site.compute, broken[0].name, broken[1])
        elif record is not None and (lacks := _lacking(record, layer.name, site)) is not None:
            remarks.missed(site.compute, "record", f"the record {lacks}")
        else:
            _observe_inputs(site, held, record, layer.name, points)
            inputs = "inputs" if site.multiplies_inputs else "input"
            source = f"{inputs} observed by {held.observer}" if given is None else "parameters from the record"
            remarks.applied(site.compute, "observed", source)
            if held.remarks and given is None:
                remarks.note(
                    site.compute, "configuration", f"not as the configuration has it: {'; '.join(held.remarks)}"
                )
    for site, (rule, reason) in other_layers(module, profile.rows):
        remarks.missed(site.compute, rule.name, reason)
    insert_tensor_points(module, settings, _of_tensors(record, module, profile), points, remarks)
    points.erase_unused()
    if settings.joint_quant:
        join_sums(module, remarks)
    remarks.flush()


def _lacking(record: Record, name: str, site: Site) -> str | None:
    """The part of a layer's inputs that a record lacks; inputs that are already quantized need nothing."""
    for index in site.inputs:
        given = record.layers.get(_entry(name, index))
        if (given is None or given.scale_d is None) and not is_dequantized(site.operand(index)):
            what = "it" if index == 0 else "its second input"
            return f"does not list {what}" if given is None else f"has no scale_d of {what}"
    return None


def _entry(name: str, index: int) -> str:
    """The key of a record for an input: AMCT's for the first one is the layer's name."""
    return name if index == 0 else f"{name}:{index}"


def _observe_inputs(site: Site, held: LayerSettings, record: Record | None, name: str, points: Points) -> None:
    """Points on what a layer multiplies, one or two inputs."""
    for index in site.inputs:
        value = site.operand(index)
        assert value is not None, "legality has asked for it"
        if is_dequantized(value):
            continue
        given = None if record is None else record.layers[_entry(name, index)]
        points.observe(site, index, value, spec_of(held, given), f"{name}:{index}")


def _of_tensors(record: Record | None, module: ModuleOp, profile: Profile) -> Record | None:
    """The record without the second inputs of products, which belong to these layers."""
    if record is None:
        return None
    found = (s for s in sites(module, profile.rows) if profile.rows[type(s.compute)].two_inputs and s.multiplies_inputs)
    taken = {_entry(layer_of(site.compute), 1) for site in found}
    return replace(record, layers={name: layer for name, layer in record.layers.items() if name not in taken})


def _note_tensors(settings: Settings, module: ModuleOp, profile: Profile, remarks: Remarks) -> None:
    """Where values are quantized, inputs need no points of their own."""
    asked = {t.layer_name for t in settings.tensor_quantize}
    for site in sites(module, profile.rows):
        if layer_of(site.compute) in asked:
            remarks.note(
                site.compute, "tensor-quantize", f"profile {profile.name} quantizes values, its inputs among them"
            )


def _check_layers(record: Record, module: ModuleOp, session: Session) -> None:
    """The record is of layers that can be quantized. Raises CompileError, located in its file."""
    profile = profile_of(session)
    recurrent = {each.layer.name for each in recurrent_layers(module)}
    check_record(record, recurrent)
    quantizable = {layer.name for layer in quantizable_layers(module, profile)}
    found = {layer_of(site.compute): site for site in sites(module, profile.rows)}
    alone = {
        name
        for name, site in found.items()
        if is_quantized(site) or weight_only_broken(site, profile.rows[type(site.compute)]) is None
    }
    alone |= recurrent
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
        layer = layer_at(found[name], profile.rows[type(found[name].compute)])
        if (reason := recorded_impossible(record.layers[name], layer)) is not None:
            raise record.error(name, reason)
