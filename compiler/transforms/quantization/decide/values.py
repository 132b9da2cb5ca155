"""Layers and points of a profile that quantizes each value once: at graph inputs and after active operations (PPQ).

A value has no point if an activation replaces it, if it is computed inside nn.fused, or if it is the result of a passive
operation: then the parameters of that operation's input apply (PPQ's OVERLAPPED). Quantized operations that read the result of a
float operation read it through a point.

Some operations are quantized only between others (`Row.between`): a runtime computes these in float as well as in integers.
Quantizing such an operation saves time where integers come in and integers go out. Anywhere else it only adds a rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter

from ....configuration.record import Record
from ....dialects.nn import (
    AddOp,
    DequantizeOp,
    FusedOp,
    How,
    NNOp,
    ObserveOp,
    ParamsSource,
    ParamsSourceAttr,
    Plan,
    Point,
    PointOp,
    Unobserved,
    array_of,
    before_points,
    is_layer,
    plan_of,
    set_plan,
)
from ....dialects.nn.properties import integer
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import main_function
from ....rewriting import Condition, Remarks, Roots, condition, layer_of
from ....rewriting.driver import apply_once
from ...fusion.computing import COMPUTING
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..request import Resolved
from .conditions import PATTERNS
from .deciding import Decide, first_refusal
from .grids import Grids, point_on, uses_of
from .legality import DecideWeights, KeepIntegers, has_quantized_weight
from .planning import Decided, Planner, how_of, point_name, recorded
from .rows import Layer
from .sites import Site, sites


class ValueLayer(Layer):
    """A quantized operation: `owner` is in the graph."""

    @property
    def is_passive(self) -> bool:
        """Whether its results contain only elements of its first operand. A region that begins with such an operation is not
        passive: later operations compute new values.
        """
        return not self.row.active and self.owner is self.compute

    @property
    def result(self) -> SSAValue:
        return self.owner.results[0]

    def reads(self) -> Iterator[tuple[int, SSAValue]]:
        """The real values that it reads through quantization, by operand."""
        for i in range(len(self.compute.operands)):
            value = self.operand(i)
            if value is not None and i != self.row.bias and is_quantizable(value) and (self.row.active or i == 0):
                yield i, value

    @cached_property
    def slots(self) -> Mapping[int, int]:
        """The first index of each operand that `reads` gives, by its index in the operation in the graph."""
        found: dict[int, int] = {}
        for i, _ in self.reads():
            slot = self.slot(i)
            assert slot is not None, "it reads values from outside the region"
            found.setdefault(slot, i)
        return found


ValueLayers = Mapping[Operation, ValueLayer]
"""The layers by their operation in the graph."""


def quantized_layers(module: ModuleOp, request: Resolved, remarks: Remarks) -> dict[Operation, ValueLayer]:
    """The quantized layers; with a record, only those it lists. All others with real results are marked to stay float."""
    deciding = Values(module, request, remarks)
    deciding.decide(module)
    apply_once(module, [DecideOther(request, remarks, deciding.first, main_function(module))])
    return {owner: deciding.layers[owner] for owner in deciding.first if owner in deciding.layers}


class Other(NamedTuple):
    """An operation of the graph."""

    compute: Any


class DecideOther(Decide[Other]):
    """An operation with real results."""

    name = "quantize-other"
    roots: ClassVar[Roots] = (Operation,)

    def __init__(self, request: Resolved, remarks: Remarks, known: Collection[Operation], graph: FuncOp):
        super().__init__(request, remarks)
        self._known, self._graph = known, graph

    def match(self, op: Operation) -> Other | None:
        return Other(op) if op.parent_op() is self._graph and plan_of(op) is None and _gives_reals(op) else None

    def rewrite(self, m: Other, rewriter: PatternRewriter) -> None:
        """Does nothing: the operation is decided as one of the profile."""

    @condition
    def not_in_profile(self, m: Other) -> str | None:
        """the profile quantizes operations of this kind"""
        known = m.compute in self._known
        return None if known else f"profile {self.request.profile.name} does not quantize this operation"

    asks: ClassVar[tuple[Condition[Any], ...] | None] = (not_in_profile,)


class Values(Planner):
    """Decides layers of a profile that has its points on values."""

    PATTERNS: ClassVar[tuple[type[Decide[Any]], ...]] = (DecideWeights, KeepIntegers, *PATTERNS)

    def __init__(self, module: ModuleOp, request: Resolved, remarks: Remarks):
        super().__init__(request, remarks)
        self._grids = Grids(request.profile.rows)
        self.first: dict[Operation, Site] = {}
        """The first site of each operation in the graph, not a later one of a region."""
        self.layers: dict[Operation, ValueLayer] = {}
        for site in sites(module, request.profile.rows):
            self.first.setdefault(site.owner, site)
        for site in self.first.values():
            if request.record is not None:
                set_plan(site.compute, None)
            if (plan := plan_of(site.compute)) is None:
                self.undecided[site.compute] = self.layer_at(site)
            elif plan.input:  # decided already
                self._add(self.layer_at(site))

    def has_integers(self, m: Layer) -> bool:
        if m.held.skipped == Decide.left_in_float.name:
            return has_quantized_weight(m) or self._came_quantized(m)
        return m.held.quantize and has_quantized_weight(m)

    def unrecorded(self, m: Layer) -> str | None:
        record = self.request.record
        if record is None or self._came_quantized(m) or _is_listed(m, record):
            return None
        return None if _belongs_to_layer(m, self.layers) else "does not list it"

    def quantize(self, m: Layer) -> None:
        self.decided(m)
        if self._came_quantized(m) and (half := first_refusal(None, m, (KeepIntegers.weight_quantized,))) is not None:
            self.remarks.missed(m.compute, *half)
        self._add(m)

    def keep(self, m: Layer) -> None:
        """Keeps a layer, which computes on integers, unless only its weight is quantized."""
        self.decided(m)
        moves = m.held.quantize or not m.row.active  # an operation that only moves integers has its input's parameters
        if moves and self._came_quantized(m) and not self.takes_weight(m):
            self._add(m)

    def _add(self, m: Layer) -> None:
        self.layers[m.owner] = ValueLayer.at(m, m.row, m.source, m.held)

    def _came_quantized(self, site: Site) -> bool:
        return isinstance(self._grids.behind(site.activation), DequantizeOp)


def _belongs_to_layer(site: Site, layers: ValueLayers) -> bool:
    """Whether it is a linear activation and the only reader of a quantized result: it has no entry of its own in records."""
    value = site.activation
    if single_kind(site.compute) not in LINEAR or not isinstance(value, OpResult):
        return False
    return value.op in layers and value.has_one_use()


def _is_listed(site: Site, record: Record) -> bool:
    given = record.layers.get(layer_of(site.compute))
    return given is not None and given.scale_d is not None


def _gives_reals(op: Operation) -> bool:
    return (is_layer(op) or isinstance(op, FusedOp)) and any(is_float(element_of(v)) for v in op.results)


def is_quantizable(value: SSAValue) -> bool:
    """Whether a value is a float tensor and not a constant."""
    return is_float(element_of(value)) and array_of(value) is None


NO_INTEGER_OPERANDS = "not all of its operands are computed in integers"
NO_INTEGER_READER = "nothing that computes in integers reads its result"


class Between:
    """The neighbours of values: which readers compute in integers, and which layers therefore stay in float, with the reasons."""

    def __init__(self, module: ModuleOp, layers: ValueLayers):
        self._layers = layers
        self._some = _demand(module, layers, any, lambda reader: reader.row.between)
        self._some_at_once = _demand(module, layers, any, lambda reader: reader.is_passive)
        self._all = _demand(module, layers, all, lambda reader: reader.is_passive or _is_linear(reader))
        self.in_float: dict[Operation, str] = {}
        for owner, layer in layers.items():
            if layer.row.between and (reason := self._why_float(layer)) is not None:
                self.in_float[owner] = reason

    def wants_integers(self, value: SSAValue) -> bool:
        """Whether all readers of a value take integers, directly or after passive operations and linear activations."""
        return self._all[before_points(value)]

    def _why_float(self, layer: ValueLayer) -> str | None:
        values = [value for _, value in layer.reads()]
        if layer.is_passive:
            kept = self._is_quantized(values[0]) or self.wants_integers(values[0])
            return None if kept else NO_INTEGER_OPERANDS
        constant = any(array_of(operand) is not None for operand in layer.compute.operands)
        if constant or not all(map(self._is_quantized, values)):
            return NO_INTEGER_OPERANDS
        if _is_linear(layer) and _is_read_once(before_points(values[0])):
            return None  # it belongs to the operation that computes its operand
        return None if self._some[layer.result] else NO_INTEGER_READER

    def _is_quantized(self, value: SSAValue) -> bool:
        """Whether a value is quantized in any case, so that reading it in integers adds no rounding."""
        value = before_points(value)
        if not isinstance(value, OpResult):
            return self._some_at_once[value]
        if (layer := self._layers.get(value.op)) is None or value.op in self.in_float:
            return False
        return not layer.row.gives_reals or self.wants_integers(value)


def decide_values(module: ModuleOp, request: Resolved, remarks: Remarks) -> Decided:
    """Decide each operation, and plan one point on every value that settings, the profile and its rules allow to quantize.
    What is not quantized and has real results is marked to stay float.

    With a record only the values that quantized operations read have points, with the parameters that it gives.
    """
    asked = {t.layer_name for t in request.settings.tensor_quantize}
    for site in sites(module, request.profile.rows):
        if layer_of(site.compute) in asked:
            reason = f"profile {request.profile.name} quantizes values, its inputs among them"
            remarks.note(site.compute, "tensor-quantize", reason)
    layers = quantized_layers(module, request, remarks)
    between = Between(module, layers)
    for owner, reason in between.in_float.items():
        reason = f"profile {request.profile.name} leaves it in float: {reason}"
        compute = layers.pop(owner).compute
        set_plan(compute, Plan("between"))
        remarks.missed(compute, "between", reason)
    deciding = _Points(layers, between, request, remarks)
    for value in _results(module):
        deciding.decide(value)
    for layer in layers.values():
        deciding.write(layer)
    return Decided(list(layers.values()))


def _results(module: ModuleOp) -> Iterator[SSAValue]:
    """Graph inputs and the results of layers."""
    block = main_function(module).body.block
    yield from block.args
    for op in block.ops:
        if is_layer(op) or isinstance(op, FusedOp):
            yield from op.results


class _Points:
    """Decides in program order which values have points, and which share those of others."""

    def __init__(self, layers: ValueLayers, between: Between, request: Resolved, remarks: Remarks):
        self._layers, self._between, self._request, self._remarks = layers, between, request, remarks
        self._given = None if request.record is None else recorded_values(layers, request.record)
        self._kinds = request.points.activations(request.profile)
        self._modes = request.points.modes(request.profile, request.settings.joint_quant)
        self._grids = Grids(request.profile.rows)
        self._order = {owner: i for i, owner in enumerate(layers)}
        self._points: dict[SSAValue, str] = {}
        """The point whose parameters apply to a value, by its name."""
        self._for_some: dict[SSAValue, str] = {}
        """The point through which quantized operations alone read a value."""
        self._taken_over: dict[SSAValue, str] = {}
        """The point after the activation that takes a value over."""
        self._planned: dict[Operation, dict[tuple[bool, int], Point]] = {owner: {} for owner in layers}
        """The points of each operation in the graph, by result (True) or operand, and index."""

    def decide(self, value: SSAValue) -> None:
        layer = self._layers.get(value.owner) if isinstance(value, OpResult) else None
        point = point_on(value)
        if point is not None or not is_quantizable(value):
            given = None if self._given is None else self._given.get(value)
            if given is not None and isinstance(point, ObserveOp) and point.qparams is None:
                point.bits, point.symmetric = integer(given.bits), UnitAttr() if given.symmetric else None
                point.qparams, point.source = given.given, ParamsSourceAttr(ParamsSource.RECORD)
        elif layer is None or (layer.row.gives_reals and not self._between.wants_integers(value)):
            self._for_readers(value)
        else:
            assert isinstance(value, OpResult), "a layer computes it"
            how = self._of_result(value, layer)
            self._plan(layer, Point("result", value.index, how))
            if isinstance(how, How):
                self._points[value] = point_name(layer.name, "result", value.index)
        if isinstance(value, OpResult) and value not in self._points and value.op.operands:
            before = self._behind(value.op.operands[0], value.op)
            if before is not None and self._grids.is_passive(value.op):
                self._points[value] = before

    def write(self, layer: ValueLayer) -> None:
        """Add the decisions to the plan of a layer."""
        compute, plan = layer.compute, plan_of(layer.compute) or Plan()
        owner = layer.owner
        for slot, i in layer.slots.items():
            value = owner.operands[slot]
            name = self._behind(value, owner) or self._taken_over.get(value)
            if name is not None and (False, i) not in self._planned[owner]:
                self._plan(layer, Point("operand", i, Unobserved("shared with", name)))
        constants = [i for i, v in enumerate(compute.operands) if _is_factor(layer, i) and array_of(v) is not None]
        for i in constants:
            self._plan(layer, Point("operand", i, Unobserved("float", "constant-operand")))
        if constants:
            self._remarks.note(compute, "constant-operand", "its constant operand stays float")
        known = {(p.at == "result", p.number): p for p in plan.points}
        for key, point in self._planned[owner].items():
            if isinstance(point.how, How) or key not in known:
                known[key] = point
        mode = "none" if layer.row.alignment is None else self._modes[layer.row.alignment]
        if mode == "joint" and not isinstance(compute, AddOp):
            mode = "large"
        apart = mode in ("large", "output", "joint") and self._request.points.force_alignment_overlap is False
        points, aligned = tuple(known[key] for key in sorted(known)), None if mode == "none" else mode
        set_plan(compute, replace(plan, points=points, aligned=aligned, apart=apart))

    def _plan(self, layer: ValueLayer, point: Point) -> None:
        self._planned[layer.owner][point.at == "result", point.number] = point

    def _of_result(self, value: OpResult, layer: ValueLayer) -> How | Unobserved:
        """The quantization of a quantized operation's result, with a remark."""
        op, remarks, given = layer.compute, self._remarks, self._given
        before = self._behind(layer.activation, layer.owner)
        if layer.is_passive and self._request.points.fuse_passive_op is not False and before is not None:
            remarks.applied(op, "overlapped", "its input's parameters hold for its results")
            return Unobserved("shared with", before)
        if (activation := _taken_over_by(layer, self._kinds, self._layers)) is not None:
            remarks.applied(op, "overlapped", f"its result takes the point of {layer_of(activation)}")
            name = self._taken_over[value] = point_name(layer_of(activation), "result", 0)
            return Unobserved("shared with", name)
        if given is not None and value not in given:
            reason = "its result stays float: the record has no parameters for it"
            remarks.note(op, "record-result", reason)
            return Unobserved("float", "record-result")
        how = how_of(layer.held, None) if given is None else given[value]
        source = f"observed by {how.observer}" if given is None else "has the record's parameters"
        remarks.applied(op, "observed", f"result {source}")
        return how

    def _for_readers(self, value: SSAValue) -> None:
        """Plan a point on a value that no quantized operation computes, for the quantized operations that read it.

        The settings are those of the reader that needs most: one that computes before one that moves, symmetric before
        asymmetric, few bits before many. They do not depend on the order of the operations.
        """
        layers, given = self._layers, self._given
        uses = [u for u in value.uses if (layer := layers.get(u.operation)) is not None and u.index in layer.slots]
        if not uses or (given is not None and value not in given):
            return

        def by_need(use: Use) -> tuple[bool, bool, int, str, int]:
            held = layers[use.operation].held
            moves = layers[use.operation].is_passive
            return moves, not held.symmetric, held.bits, held.observer, self._order[use.operation]

        owner = min(uses, key=by_need).operation
        first = layers[owner]
        index = min(first.slots[u.index] for u in uses if u.operation is owner)
        name = self._for_some[value] = point_name(first.name, "value", index)
        for reader, slot in ((layers[u.operation], u.index) for u in uses):
            self._plan(reader, Point("operand", reader.slots[slot], Unobserved("shared with", name)))
        self._plan(first, Point("value", index, how_of(first.held, None) if given is None else given[value]))

    def _behind(self, value: SSAValue | None, reader: Operation) -> str | None:
        """The name of the point whose parameters apply to a value that an operation reads."""
        if isinstance(value, OpResult) and isinstance(value.op, ObserveOp | DequantizeOp):
            return value.op.point.data if isinstance(value.op, ObserveOp) else value.name_hint or "integers"
        if value is None:
            return None
        own = self._for_some.get(value) if reader in self._layers else None
        return self._points.get(value) if own is None else own


def _is_factor(layer: ValueLayer, index: int) -> bool:
    """Whether an operand is neither weight nor bias, and not inside a region."""
    return index not in (layer.row.weight, layer.row.bias) and layer.row.active and layer.slot(index) is not None


def _taken_over_by(layer: ValueLayer, kinds: Collection[str], layers: ValueLayers) -> NNOp | None:
    """The quantized activation that is the only reader of a layer's result, if the target computes both in one operation.

    PPQ: any of the kinds after a computing operation, linear ones after every active operation.
    """
    uses = list(uses_of(layer.result))
    if len(uses) != 1 or layer.is_passive or (reader := layers.get(uses[0].operation)) is None:
        return None
    activation = reader.owner
    kind = single_kind(activation)
    if kind not in kinds or not (kind in LINEAR or isinstance(layer.compute, COMPUTING)):
        return None
    return reader.compute


def recorded_values(layers: ValueLayers, record: Record) -> Mapping[SSAValue, How]:
    """The parameters of a record by value: entry `layer` is for the layer's first input, `layer:1` for its second.
    After quantized passive operations, the entry is for the input of these.

    Raises CompileError, located in the record's file, if two layers read one value with different parameters, and for
    an entry without an input.
    """
    found: dict[SSAValue, tuple[str, How]] = {}
    used: set[str] = set()
    for layer in layers.values():
        for index, value in layer.reads():
            name = layer.name if index == 0 else f"{layer.name}:{index}"
            if (entry := record.layers.get(name)) is None or entry.scale_d is None:
                continue
            used.add(name)
            how = recorded(layer.held.observer, entry)
            other, first = found.setdefault(_root(value, layers), (name, how))
            if (first.bits, first.given) != (how.bits, how.given):
                reason = f"layer '{other}' has the same input with other parameters"
                raise record.error(name, reason, "this profile has one point on each value")
    if unused := [name for name, entry in record.layers.items() if entry.is_tensor_quantize and name not in used]:
        raise record.error(unused[0], "is not an input of a quantized layer")
    return {value: how for value, (_, how) in found.items()}


def _root(value: SSAValue, layers: ValueLayers) -> SSAValue:
    """The value whose point applies to another: before passive operations, and before an existing point."""
    while isinstance(value, OpResult):
        layer = layers.get(value.op)
        if isinstance(value.op, ObserveOp):
            value = value.op.input
        elif layer is not None and layer.is_passive:
            value = layer.owner.operands[0]
        else:
            return value
    return value


def _demand(
    module: ModuleOp,
    layers: ValueLayers,
    combine: Callable[[Iterable[bool]], bool],
    passes: Callable[[ValueLayer], bool],
) -> Mapping[SSAValue, bool]:
    """Whether any or all readers of a value compute in integers or pass it on to readers that do, by value; False
    without readers.
    """
    block = main_function(module).body.block
    found: dict[SSAValue, bool] = {}

    def by(reader: Operation, slot: int) -> bool:
        layer = layers.get(reader)
        if layer is None or slot not in layer.slots:
            return False
        if not layer.row.between:
            return True
        return passes(layer) and combine(found[result] for result in reader.results)

    values = [*block.args, *(result for op in block.ops if not isinstance(op, PointOp) for result in op.results)]
    for value in reversed(values):
        readers = list(_readers(value))
        found[value] = bool(readers) and combine(by(reader, slot) for reader, slot in readers)
    return found


def _is_linear(layer: ValueLayer) -> bool:
    return layer.owner is layer.compute and single_kind(layer.compute) in LINEAR


def _is_read_once(value: SSAValue) -> bool:
    return len(list(islice(_readers(value), 2))) == 1


def _readers(value: SSAValue) -> Iterator[tuple[Operation, int]]:
    """The readers of a value, directly or through points, with the index of the operand."""
    for use in value.uses:
        if isinstance(use.operation, PointOp):
            yield from _readers(use.operation.results[0])
        else:
            yield use.operation, use.index
