"""`--insert-observers`: decides what is quantized and how, and reports why the rest is not. Later passes follow it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ....configuration.layer_settings import recorded_impossible
from ....configuration.record import Record
from ....dialects.nn import BatchNormOp, MulOp, NNOp, OpaqueOp
from ....ir.layer_names import LayerNames
from ....pipelines.options import Parts
from ....rewriting import CheckedPattern, Remarks, Reported, layer_of, nn_ops
from ....rewriting.driver import garbage_collection_off
from ....session import Session, session_of
from ....support.tables import numbered
from ...fusion.fuse_activation.activations import activation_of
from ...fusion.fuse_bn.compute import FuseComputeBatchNorm, norm_behind
from ...fusion.regions import in_region
from ..decide import values
from ..decide.deciding import Decide
from ..decide.inputs import (
    Inputs,
    QuantizeEmbedding,
    QuantizeExperts,
    QuantizeRecurrent,
    decide_inputs,
    decide_recurrent,
    decide_tables,
)
from ..decide.layer_inputs import recorded_tensors
from ..decide.layers import Layers, able_names, check_record, int16_refusal
from ..decide.legality import DecideOther
from ..decide.named_layers import note_modules
from ..decide.planning import Decided, check_factors, plan_layers
from ..decide.sites import note_other_functions
from ..decide.values import Values, decide_values
from ..numbers.parameters import mark_fp16, wants_fp16
from ..options import PointOptions, QuantizeOptions, SettingsOptions
from ..profiles import Profile
from ..request import Request, Resolved, request_of
from .points import JoinSum, PlaceFormat, place_format_points, place_points

LAYERS: Mapping[str, Sequence[type[Decide[Any]]]] = {
    "layers": (*Inputs.PATTERNS, DecideOther),
    "values": (*Values.PATTERNS, values.DecideOther),
}
"""The patterns that decide layers of the graph, by the places of the profile's points."""

TABLES = (QuantizeExperts, QuantizeEmbedding, QuantizeRecurrent)
"""The patterns that decide tables, experts and recurrent layers, wherever the points of a profile are."""


@dataclass(frozen=True, init=False)
class InsertObserversPass(Parts, ModulePass):
    """Patterns decide what is quantized, and how: each layer has a plan, `nn.plan`, and observers stand where plans have them.
    The target profile says whether points are on the inputs of layers or on values. The passes after this one decide nothing.
    """

    name = "insert-observers"

    PATTERNS: ClassVar[Sequence[type[Decide[Any]]]] = (*TABLES, *LAYERS["layers"])
    """The patterns that decide layers, in the order in which they are tried, for points on the inputs of layers."""

    BY_OPTION: ClassVar[Mapping[str, Sequence[type[CheckedPattern[Any]]]]] = {
        "joint-quant=true": (JoinSum,),
        "activation-format=fp8-e4m3": (PlaceFormat,),
    }
    """The patterns that an option adds."""

    @classmethod
    def patterns_for(cls, profile: Profile) -> Sequence[type[Decide[Any]]]:
        """The patterns that decide the layers of a profile."""
        return (*TABLES, *LAYERS[profile.points])

    settings: SettingsOptions
    points: PointOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        asked = QuantizeOptions(settings=self.settings, points=self.points)
        insert_observers(op, request_of(asked, session), session)


DECIDE: Mapping[str, Callable[[ModuleOp, Resolved, Remarks], Decided]] = {
    "layers": decide_inputs,
    "values": decide_values,
}
"""The decider, by the places of the profile's points."""


@garbage_collection_off()
def insert_observers(module: ModuleOp, request: Request, session: Session) -> Reported:
    """Decide what is quantized, and how: points on inputs of layers or on values, and a plan for each operation that could be.

    Settings, the profile and legality decide; with a record, only what it lists is quantized, with its parameters. What has a
    plan already keeps it, unless a record is given. Raises CompileError, located in the file of the settings or the record, for
    layers and values that the module does not have, and for what they cannot have. Returns the remarks.
    """
    before = Remarks(session, InsertObserversPass.name)
    note_modules(request.settings, LayerNames.of(module), before)
    request = request.within(module, session)
    settings, record, profile = request.settings, request.record, request.profile
    for norm, layer in foldable_norms(module, before).items():
        before.note(norm, "batch-norm", f"it could be folded into {layer_of(layer)} before quantization: --fuse-all")
    note_small_operations(module, request.points.activations(profile), before)
    first = before.flush()
    remarks = Remarks(session, InsertObserversPass.name)
    note_other_functions(module, remarks)
    if record is not None:
        _check_layers(record, module, request.layers)
    decide_tables(module, request, remarks)
    recurrent, decided = decide_recurrent(module, request, remarks), DECIDE[profile.points](module, request, remarks)
    for each in (recurrent, decided):
        place_points(module, each, profile, remarks)
    plan_layers(decided.layers, request, session, remarks)
    if settings.activation_format is not None:
        place_format_points(module, settings.activation_format, profile, remarks)
    if wants_fp16(settings, record):
        mark_fp16(module)
    reported = Reported((*first, *remarks.flush()))
    if left := sum(each.rule == Decide.left_in_float.name for each in reported):
        layers = numbered(left, "layer")
        session.warn(f"the model is already quantized; {layers} left in float: only-layers names those to quantize")
    return reported


def _check_layers(record: Record, module: ModuleOp, known: Layers) -> None:
    """Raises CompileError, located in the record's file, unless all its layers can be quantized."""
    found = {each.layer.name: each for each in known.candidates}
    recurrent = {name for name, each in found.items() if isinstance(each.site.compute, OpaqueOp)}
    check_record(record, recurrent)
    quantizable = able_names(known.candidates)
    alone = {name for name, each in found.items() if each.alone(None) is None} | recurrent
    layers = {layer_of(op) for op in module.walk()}
    tensors = recorded_tensors(record, layers)
    for name in (name for name in record.layers if name not in tensors):
        if name not in layers:
            raise record.error(name, "the model has no such layer")
        if record.layers[name].weight_compress_only and name not in alone:
            raise record.error(name, "has no weight that can be quantized by itself")
        if name not in quantizable and name not in alone:
            raise record.error(name, "cannot be quantized")
        if name in recurrent:
            continue
        check_factors(site := found[name].site, record)
        narrow = record.layers[name].bits == 16 and int16_refusal(site, known.profile.rows[type(site.compute)])
        if narrow:
            raise record.error(name, f"its input is INT16, which no operator of Ascend IR for it takes: {narrow}")
        if (reason := recorded_impossible(record.layers[name], found[name].layer)) is not None:
            raise record.error(name, reason)


def foldable_norms(module: ModuleOp, remarks: Remarks) -> dict[Operation, NNOp]:
    """The batch norms that a fusion would fold, with the layers before them."""
    pattern = FuseComputeBatchNorm(remarks)
    found = {norm: match for norm in nn_ops(module, BatchNormOp) if (match := norm_behind(norm)) is not None}
    return {norm: match.compute for norm, match in found.items() if pattern.tried(match)[0] is None}


def note_small_operations(module: ModuleOp, kinds: Collection[str], remarks: Remarks) -> None:
    """Leave a remark for each activation of these kinds that is split into several operations and so has several points."""
    for op in nn_ops(module, MulOp):
        activation = None if in_region(op) else activation_of(op)
        if activation is not None and activation.kind in kinds:
            reason = f"{activation.kind} is {len(activation.ops)} operations here, each with a point of its own"
            remedy = f"--fuse-activation=activation-type={activation.kind} makes one of them"
            remarks.note(op, "activation-type", f"{reason}; {remedy}")
