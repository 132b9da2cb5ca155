"""Points on inputs of layers: those that layers' plans have, those on single inputs that are requested, and the ones of sums.

Points on one value with equal specifications are shared. Inputs that are quantized only to move less data, AMCT's
tensor_quantize, are requested by layer name and input index, so one that cannot be quantized is an error; AMCT's table 1 lists
these layers for input tensors only.

Joint quantization (AMCT's joint_quant): the inputs and the result of a sum share one scale and one zero point. AMCT does not
document how. Here the points on a sum's inputs and on its result, which the quantized layers before and behind it read through,
are one group and observed together: the range is searched on the union of their values. Sums in a row, as along a residual chain,
thereby share one. The result is that of the activation behind the sum, where there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from xdsl.dialects.builtin import IntegerType, LocationAttr, ModuleOp, UnitAttr
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Activation, Calibration, Settings, tensor_parts
from ....diagnostics import CompileError, describe
from ....dialects.nn import (
    AddOp,
    DequantizeOp,
    FusedOp,
    NNOp,
    ObserveOp,
    ParamsSource,
    ParamsSourceAttr,
    Plan,
    QParamsAttr,
    Spec,
    plan_of,
    set_plan,
)
from ....dialects.nn.properties import integer
from ....ir.functions import main_function
from ....rewriting import Remarks, layer_of
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..decide.conditions import DecideLayer
from ..decide.layer_inputs import LayerInput, ends_layer, inputs_of, sum_broken, tensor_broken
from ..decide.sites import Site, sites
from .alignment import align, groups_of, settle


def spec_of(held: LayerSettings, given: LayerRecord | None) -> Spec:
    """The specification from settings, or the parameters from a record."""
    return Spec(held.observer, held.bits, held.symmetric) if given is None else recorded(held.observer, given)


def recorded(observer: str, given: LayerRecord) -> Spec:
    """The parameters of a record's `scale_d` and `offset_d`."""
    assert given.scale_d is not None
    assert given.offset_d is not None
    params = QParamsAttr.of(IntegerType(given.bits), given.scale_d, given.offset_d)
    return Spec(observer, given.bits, given.offset_d == 0, params)


def producer_of(value: SSAValue | None) -> Operation | None:
    """The operation that computes a value, None for an argument."""
    return value.op if isinstance(value, OpResult) else None


class Points:
    """Creates points, and shares equal ones."""

    def __init__(self, module: ModuleOp) -> None:
        self._order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
        self._made: dict[tuple[SSAValue, Spec, Site | None], tuple[ObserveOp, int]] = {}
        """The points, each with the position of its first reader, before which it stands."""
        self._replaced: set[ObserveOp] = set()

    def observe(
        self, site: Site, index: int, value: SSAValue, spec: Spec, name: str, only_for: Site | None = None
    ) -> None:
        """Let an operation read `value` through a point, replacing any point that it reads through now; `only_for` gives a
        layer a point that is not shared.
        """
        if isinstance(old := producer_of(site.operand(index)), ObserveOp):
            self._replaced.add(old)
        key = (value, spec, only_for)
        place = self._order[site.owner]
        if key not in self._made:
            made = make_point(value, name, spec, site.compute.location)
            Rewriter.insert_op(made, InsertPoint.before(site.owner))
            self._made[key] = made, place
        point, first = self._made[key]
        if place < first:
            point.detach()
            Rewriter.insert_op(point, InsertPoint.before(site.owner))
            self._made[key] = point, place
        site.set_operand(index, point.result)

    def place(self, site: Site, layer: str) -> None:
        """Let a layer read operands as its plan has them. One whose channels are balanced has points of its own."""
        plan = plan_of(site.compute) or Plan()
        only_for = None if plan.balance is None else site
        for index, spec in plan.points:
            value = site.operand(index)
            assert value is not None, "legality has asked for it"
            if index == 0 and isinstance(value.owner, ObserveOp):
                value = value.owner.input
            self.observe(site, index, value, spec, f"{layer}:{index}", only_for)

    def erase_unused(self) -> None:
        """Erase the points that were replaced."""
        for point in self._replaced:
            if not point.result.uses:
                point.detach()
                point.erase()


def make_point(value: SSAValue, name: str, spec: Spec, location: LocationAttr) -> ObserveOp:
    """A new point on a value, not inserted yet."""
    return ObserveOp.make(
        value,
        point=name,
        observer=spec.observer,
        bits=spec.bits,
        symmetric=spec.symmetric,
        qparams=spec.qparams,
        source=None if spec.qparams is None else ParamsSourceAttr(ParamsSource.RECORD),
        location=location,
    )


def set_parameters(point: ObserveOp, spec: Spec) -> None:
    """Give an existing point the parameters of a record."""
    point.bits, point.symmetric = integer(spec.bits), UnitAttr() if spec.symmetric else None
    point.qparams, point.source = spec.qparams, ParamsSourceAttr(ParamsSource.RECORD)


_TENSOR = "tensor-quantize"
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
        remarks.applied(op, _TENSOR, "; ".join(texts))
    for op, text in left:
        remarks.note(op, f"{_TENSOR}-left", text)


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


_JOINT = "joint-quant"


def join_sums(module: ModuleOp, remarks: Remarks) -> None:
    """Group the points of each sum (layer types Add and Eltwise). Leaves a remark for each member, and for sums without two."""
    sums = [site for site in sites(module, (AddOp,)) if ends_layer(site)]
    order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
    for site in sums:
        if (reason := sum_broken(site)) is not None:
            remarks.missed(site.compute, _JOINT, reason)
            continue
        members = [p for value in _values(site) for p in _points_on(value, order)]
        for point in align("joint", layer_of(site.compute), members, ()):
            remarks.note(
                site.compute,
                f"{_JOINT}-{point.point.data}",
                f"{point.point.data} {_described(point)}, unlike {_first(members)}",
            )
        if len(set(members)) < 2:
            remarks.missed(site.compute, _JOINT, "at least two of its inputs and readers must be quantized")
    for given_up in settle(module):
        for point in given_up:
            _tell(point, remarks, "shares no parameters: the given ones differ")
    for name, members in groups_of(module).items():
        for point in members:
            if point.joint is not None:
                others = ", ".join(m.point.data for m in members if m is not point)
                _tell(point, remarks, f"shares scale and zero point with {others}, group {name}")


def _values(site: Site) -> Iterator[SSAValue]:
    """The inputs of a sum, and its result."""
    yield from (raw for each in inputs_of(site) if (raw := _observed(each.value)) is not None)
    result = site.owner.results[0]
    yield result
    yield from (user.results[0] for user in users(result) if single_kind(user) in LINEAR)


def _observed(value: SSAValue | None) -> SSAValue | None:
    """The result of a value's point."""
    producer = producer_of(value)
    return producer.input if isinstance(producer, ObserveOp) else value


def users(value: SSAValue) -> list[Operation]:
    """The operations that read a value, one for each use."""
    return [use.operation for use in value.uses]


def _points_on(value: SSAValue, order: Mapping[Operation, int]) -> list[ObserveOp]:
    """The points on a value in order, except those of layers that read it balanced."""
    return sorted(
        (op for op in users(value) if isinstance(op, ObserveOp) and not _is_balanced(op)), key=order.__getitem__
    )


def _is_balanced(point: ObserveOp) -> bool:
    readers = (op for user in users(point.result) for op in user.walk())
    return any(plan.balance is not None for op in readers if (plan := plan_of(op)) is not None)


def _described(point: ObserveOp) -> str:
    return f"is of {point.bits.value.data} bits, {'asymmetric' if point.symmetric is None else 'symmetric'}"


def _first(members: list[ObserveOp]) -> str:
    return f"{members[0].point.data}, which {_described(members[0])}"


def _tell(point: ObserveOp, remarks: Remarks, what: str) -> None:
    """Leave a remark for each layer that reads through a point."""
    for user in users(point.result):
        op = next((o for o in user.body.block.ops if isinstance(o, NNOp)), None) if isinstance(user, FusedOp) else user
        if op is not None:
            remarks.note(op, f"{_JOINT}-{point.point.data}", f"{point.point.data} {what}")
