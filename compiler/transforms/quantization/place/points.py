"""The placer: inserts points, `nn.observe`, from the plans of layers, and groups those that share parameters.

A point is in front of the layers that read it, shared where they have it equal, or after the operation that makes its value.

Joint quantization (AMCT's joint_quant): the inputs and the result of a sum share one scale and one zero point. AMCT does not
document how. Here the points on a sum's inputs and on its result, which the quantized layers before and after it read through,
are one group and observed together: the range is searched on the union of their values. Sums in a row, as along a residual chain,
thereby share one. The result is that of the activation after the sum, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import (
    AddOp,
    DequantizeFloatOp,
    DequantizeOp,
    FusedOp,
    How,
    MovingOp,
    NNOp,
    ObserveOp,
    OpaqueOp,
    ParamsSource,
    ParamsSourceAttr,
    Plan,
    SliceOp,
    Unobserved,
    before_points,
    plan_of,
)
from ....dialects.nn.plan import Aligned
from ....ir.functions import main_function, producer_of
from ....rewriting import Remarks, Roots, StepPattern, condition, layer_of
from ....rewriting.driver import apply_once
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..decide.grids import point_behind, point_on
from ..decide.layer_inputs import inputs_of
from ..decide.planning import Decided, point_name
from ..decide.rows import Layer
from ..decide.sites import Site, sites
from ..decide.values import ValueLayer, ValueLayers
from ..profiles import Profile
from .alignment import align, choose_masters, groups_of, settle


def place_points(module: ModuleOp, decided: Decided, profile: Profile, remarks: Remarks) -> None:
    """Insert the points in the plans of layers, then those on single inputs; group those that share parameters."""
    points = _Points(module)
    _place_on_values(module, decided.layers)
    for site in (*decided.layers, *decided.tensors):
        points.place(site)
    points.erase_unused()
    _align_values(module, decided.layers, profile, remarks)
    if decided.sums is not None:
        apply_once(module, [JoinSum(module, decided.sums, remarks)])
        _tell_joined(module, remarks)


_WHOLE_RANGE = "minmax"
"""The observer of values that become floats, which have small steps for small numbers: nothing is gained by clipping."""


def place_format_points(module: ModuleOp, number_format: str, profile: Profile, remarks: Remarks) -> None:
    """Insert points on the inputs of layers whose weights are planned in a number format; these inputs get `number_format`."""
    how = How(observer=_WHOLE_RANGE, number_format=number_format)
    apply_once(module, [pattern := PlaceFormat(module, how, profile, remarks)])
    pattern.points.erase_unused()


class _Points:
    """Creates points in front of layers, and shares equal ones."""

    def __init__(self, module: ModuleOp) -> None:
        self._order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}
        self._made: dict[tuple[SSAValue, How, Site | None], tuple[ObserveOp, int]] = {}
        """The points, each with the position of its first reader, which it precedes."""
        self._replaced: set[ObserveOp] = set()

    def place(self, site: Site) -> None:
        """Let a layer read operands as its plan has them. One whose channels are balanced has points of its own."""
        plan = plan_of(site.compute) or Plan()
        only_for = None if plan.balance is None else site
        for at, index, how, name in plan.points:
            if at == "operand" and isinstance(how, How):
                self.observe(site, index, how, name or point_name(layer_of(site.compute), at, index), only_for)
            elif at == "result" and isinstance(site.compute, OpaqueOp) and isinstance(how, Unobserved):
                _observe_states(site.compute, how.of)

    def observe(self, site: Site, index: int, how: How, name: str, only_for: Site | None) -> None:
        """Let an operation read an operand through a point, replacing any point that it reads through now; `only_for` gives a
        layer a point that is not shared.
        """
        operand = site.operand(index)
        assert operand is not None, "legality has asked for it"
        value = before_points(operand)
        if isinstance(old := producer_of(operand), ObserveOp):
            self._replaced.add(old)
        key = (value, how, only_for)
        place = self._order[site.owner]
        if key not in self._made:
            made = make_point(value, name, how, site.compute.location)
            Rewriter.insert_op(made, InsertPoint.before(site.owner))
            self._made[key] = made, place
        point, first = self._made[key]
        if place < first:
            point.detach()
            Rewriter.insert_op(point, InsertPoint.before(site.owner))
            self._made[key] = point, place
        site.set_operand(index, point.result)

    def erase_unused(self) -> None:
        """Erase the points that were replaced."""
        for point in self._replaced:
            if not point.result.uses:
                point.detach()
                point.erase()


class PlaceFormat(StepPattern[Site]):
    """The input of a layer whose weight is in a number format becomes floats of 8 bits, too"""

    name = "place-format"

    def __init__(self, module: ModuleOp, how: How, profile: Profile, remarks: Remarks):
        super().__init__(remarks)
        self.how: How = how
        self.points: _Points = _Points(module)
        self.layers: Mapping[Operation, Site] = {site.compute: site for site in sites(module, profile.rows)}

    @condition
    def input_format(self, m: Site) -> str | None:
        """the input is computed outside of the layer's region, and is not quantized already"""
        if m.activation is None:
            return "its input stays float: it is computed in the same region"
        quantized = isinstance(producer_of(m.activation), DequantizeOp | DequantizeFloatOp)
        return "its input is quantized already" if quantized else None

    @classmethod
    def kinds(cls, profile: Profile) -> list[type[NNOp]]:
        """The layers of a profile whose weights may be in a number format."""
        return [kind for kind, row in profile.rows.items() if row.weight_only == "always" or row.channel_formats]

    def match(self, op: Operation) -> Site | None:
        plan = plan_of(op)
        in_format = plan is not None and plan.weights and plan.weights[0].number_format is not None
        return self.layers.get(op) if in_format else None

    def rewrite(self, m: Site, rewriter: PatternRewriter) -> None:
        self.points.observe(m, 0, self.how, point_name(layer_of(m.compute), "operand", 0), None)
        reason = f"its input becomes {self.how.number_format}, observed by {self.how.observer}"
        self.remarks.note(m.compute, "input-format", reason)


def make_point(value: SSAValue, name: str, how: How, location: LocationAttr) -> ObserveOp:
    """A new point on a value, not inserted yet."""
    return ObserveOp.make(
        value,
        point=name,
        observer=how.observer,
        bits=how.bits,
        symmetric=how.symmetric,
        qparams=how.given,
        number_format=how.number_format,
        source=None if how.given is None else ParamsSourceAttr(ParamsSource.RECORD),
        location=location,
    )


def how_at(point: ObserveOp) -> How:
    """The quantization of a value at a point without parameters."""
    return How(point.bits.value.data, point.symmetric is not None, point.observer.data)


def _place_on_values(module: ModuleOp, layers: Sequence[Layer]) -> None:
    """Insert points after the operations that make values: those on arguments come first, in the order of the arguments. All
    readers of a layer's result read through its point; any other value, the layers that have the point in their plans.
    """
    planned: dict[SSAValue, tuple[str, How]] = {}
    results: set[SSAValue] = set()
    readers: dict[SSAValue, set[tuple[Operation, int]]] = {}
    for layer in layers:
        site = layer
        for at, index, how, name in (plan_of(site.compute) or Plan()).points:
            value = site.owner.results[index] if at == "result" else site.operand(index)
            if value is None or value in results or isinstance(value.owner, ObserveOp):
                continue
            if at != "operand" and isinstance(how, How) and point_on(value) is None:
                planned[value] = name or point_name(layer.name, at, index), how
            if at == "result":
                results.add(value)
            elif (slot := site.slot(index)) is not None:
                readers.setdefault(value, set()).add((site.owner, slot))
    block = main_function(module).body.block
    head = next(op for op in block.ops if not isinstance(op, ObserveOp))
    for value in [*block.args, *(result for op in block.ops for result in op.results)]:
        if value not in planned:
            continue
        uses = [use for use in value.uses if value in results or (use.operation, use.index) in readers[value]]
        if not uses:
            continue
        name, how = planned[value]
        first, place = uses[0].operation, InsertPoint.before(head)
        if isinstance(value, OpResult):
            first, place = value.op, InsertPoint.after(value.op)
        point = make_point(value, name, how, first.location)
        Rewriter.insert_op(point, place)
        for use in uses:
            use.operation.operands[use.index] = point.result


def _observe_states(op: OpaqueOp, name: str) -> None:
    """Observe the states of a recurrent layer that follow the first, together with this one, whose point has the name."""
    points = (value.owner for value in op.operands if isinstance(value.owner, ObserveOp))
    first = next(point for point in points if point.point.data == name)
    later = SliceOp.make(op.results[0], starts=(0,), ends=(-1,), axes=(0,), location=op.location)
    after = make_point(later.result, f"{layer_of(op)}:states", how_at(first), op.location)
    Rewriter.insert_op([later, after], InsertPoint.after(op))
    align("joint", f"{layer_of(op)}:state", [first, after], ())


def _align_values(module: ModuleOp, layers: Sequence[Layer], profile: Profile, remarks: Remarks) -> None:
    """Group the points of each operation that requires alignment. Each point left out gets a remark with the reason."""
    by_owner: dict[Operation, ValueLayer] = {each.owner: each for each in layers if isinstance(each, ValueLayer)}
    plans = [(layer, plan_of(layer.compute) or Plan()) for layer in by_owner.values()]
    followers: set[ObserveOp] = set()
    for layer, plan in plans:
        if (mode := plan.aligned) is None:
            continue
        if plan.apart:
            _keep_shared_points(layer, by_owner, profile)
        behind = (point_behind(value, profile.rows) for _, value in layer.reads())
        operands = [p for p in behind if isinstance(p, ObserveOp)]
        results = _result_points(layer, by_owner)
        others = align(mode, layer.name, operands, results)
        followers.update(p for p in _followers(mode, layer, results, profile) if p not in others)
        for point in others:
            reason = f"{point.point.data} is of other bits or another symmetry: it keeps its own parameters"
            remarks.note(layer.compute, f"alignment-{point.point.data}", reason)
    choose_masters(module, followers)
    for given_up in settle(module) if any(plan.aligned for _, plan in plans) else ():
        names = ", ".join(p.point.data for p in given_up)
        for layer in by_owner.values():
            if any(p in given_up for _, v in layer.reads() if (p := point_behind(v, profile.rows)) is not None):
                remarks.note(
                    layer.compute, "alignment", f"the parameters that {names} have already differ: not aligned"
                )


def _followers(mode: Aligned, layer: ValueLayer, results: list[ObserveOp], profile: Profile) -> Iterator[ObserveOp]:
    """The points that may adopt the range of the other side of an operation without contributing to it.

    An operand must not have another reader, because that would get the range of a value that it does not read.
    """
    if mode == "output" and _result_dictates(layer):
        for _, value in layer.reads():
            point = point_behind(value, profile.rows)
            if isinstance(point, ObserveOp) and not _is_shared(value, point, layer):
                yield point
    elif mode == "input" and _within_operand(layer, results):
        yield from results


def _result_dictates(layer: ValueLayer) -> bool:
    """Whether operands take the result's range. Concat and nearest Resize copy elements of their operands, so a linear activation
    after them could come before them. Other interpolations narrow the range, but read all of it. For sums and averages PPQ
    defines the mode; no profile uses it by default.
    """
    op = layer.compute
    return not isinstance(op, MovingOp) or op.only_moves


def _within_operand(layer: ValueLayer, results: list[ObserveOp]) -> bool:
    """Whether the result is limited to its operand's range: false after a clip, and for cubic interpolation, which overshoots."""
    op = layer.compute
    is_own = all(point.input is op.results[0] for point in results)
    return is_own and not (isinstance(op, MovingOp) and op.overshoots)


def _keep_shared_points(layer: ValueLayer, layers: ValueLayers, profile: Profile) -> None:
    """Give an operation its own points on values that others read as well: these values are quantized twice."""
    for index, value in list(layer.reads()):
        point = point_behind(value, profile.rows)
        if not isinstance(point, ObserveOp) or not _is_shared(value, point, layer):
            continue
        made_by_quantized = isinstance(point.input, OpResult) and point.input.op in layers
        source = value if made_by_quantized or value is not point.result else point.input
        own = make_point(source, f"{layer.name}:{index}", how_at(point), layer.compute.location)
        Rewriter.insert_op(own, InsertPoint.before(layer.owner))
        layer.set_operand(index, own.result)


def _is_shared(value: SSAValue, point: ObserveOp, layer: ValueLayer) -> bool:
    """Whether anything else, such as a graph output, reads the value or any value between it and its point."""
    reader: Operation = layer.owner
    while all(use.operation is reader for use in value.uses):
        if value is point.result:
            return False
        assert isinstance(value, OpResult), "a point is after it"
        reader, value = value.op, value.op.operands[0]
    return True


def _result_points(layer: ValueLayer, layers: ValueLayers) -> list[ObserveOp]:
    """The point on a layer's result, or on the result of the activation that replaces it."""
    value = layer.result
    while (point := point_on(value)) is None:
        uses = list(value.uses)
        if len(uses) != 1 or (reader := layers.get(uses[0].operation)) is None:
            return []
        value = reader.result
    return [point] if isinstance(point, ObserveOp) else []


_JOINT = "joint-quant"
_Sum = tuple[Site, str | None, list[ObserveOp]]
"""A sum, why AMCT does not quantize it jointly, and the points around it."""


class JoinSum(StepPattern[_Sum]):
    """The points on the inputs of a sum, and on its result, share one scale and one zero point (AMCT's joint_quant)"""

    name = "join-sum"
    roots: ClassVar[Roots] = (AddOp,)

    def __init__(self, module: ModuleOp, sums: Mapping[NNOp, tuple[Site, str | None]], remarks: Remarks):
        super().__init__(remarks)
        self._sums = sums
        self._order = {op: i for i, op in enumerate(main_function(module).body.block.ops)}

    @condition
    def joint_quant(self, m: _Sum) -> str | None:
        """the sum is a layer Add or Eltwise of AMCT's table, and two or more of its inputs and readers are quantized"""
        return m[1] or ("at least two of its inputs and readers must be quantized" if len(set(m[2])) < 2 else None)

    @classmethod
    def kinds(cls, profile: Profile) -> Roots:
        """The sums of a profile; with points on values, these are aligned."""
        return cls.roots if profile.points == "layers" else ()

    def match(self, op: Operation) -> _Sum | None:
        if (found := self._sums.get(cast(AddOp, op))) is None:
            return None
        return *found, [p for value in _values(found[0]) for p in _points_on(value, self._order)]

    def rewrite(self, m: _Sum, rewriter: PatternRewriter) -> None:
        site, _, members = m
        for point in align("joint", layer_of(site.compute), members, ()):
            other = f"{members[0].point.data}, which {_described(members[0])}"
            reason = f"{point.point.data} {_described(point)}, unlike {other}"
            self.remarks.note(site.compute, f"{_JOINT}-{point.point.data}", reason)


def _tell_joined(module: ModuleOp, remarks: Remarks) -> None:
    """Leave a remark for each layer that reads through a point with shared parameters. Given ones that differ stay apart."""
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


def _tell(point: ObserveOp, remarks: Remarks, what: str) -> None:
    """Leave a remark for each layer that reads through a point."""
    for user in users(point.result):
        op = next((o for o in user.body.block.ops if isinstance(o, NNOp)), None) if isinstance(user, FusedOp) else user
        if op is not None:
            remarks.note(op, f"{_JOINT}-{point.point.data}", f"{point.point.data} {what}")
