"""Points on values, where a profile quantizes each value once: at graph inputs and behind active operations (PPQ).

A value has no point if an activation replaces it, if it is computed inside nn.fused, or if it is the result of a passive
operation: then the parameters of that operation's input apply (PPQ's OVERLAPPED). Quantized operations that read the result of a
float operation read it through a point.

Points that must have equal parameters are grouped (PPQ's alignment), from the operations that read or compute their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.record import Record
from ....dialects.nn import AddOp, FusedOp, NNOp, ObserveOp, ResizeMode, ResizeOp, Spec, array_of, is_layer
from ....ir.functions import main_function
from ....rewriting import Remarks, layer_of
from ...fusion.computing import COMPUTING
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..decide.value_layers import ValueLayer, ValueLayers, is_quantizable, layers_in_integers
from ..profiles import Mode, Profile
from ..request import Resolved
from .alignment import align, choose_masters, settle
from .grids import Grids, point_behind, point_on, uses_of
from .points import make_point, recorded, set_parameters, spec_of


def insert_value_points(module: ModuleOp, request: Resolved, remarks: Remarks) -> list[ValueLayer]:
    """Insert one point on every value that settings, the profile and its rules allow to quantize; group aligned points. Returns
    the operations that compute on quantized values.

    With a record only the values that quantized operations read have points, with the parameters that it gives.
    """
    profile, options = request.profile, request.points
    layers, between = layers_in_integers(module, request, remarks)
    given = None if request.record is None else recorded_values(layers, request.record)
    order, grids = {owner: i for i, owner in enumerate(layers)}, Grids(profile.rows)
    kinds = options.activations(profile)
    head = next(op for op in main_function(module).body.block.ops if not isinstance(op, ObserveOp))
    for value in list(_values(main_function(module))):
        layer = layers.get(value.owner) if isinstance(value, OpResult) else None
        place = InsertPoint.after(value.op) if isinstance(value, OpResult) else InsertPoint.before(head)
        if (point := point_on(value)) is not None or not is_quantizable(value):
            if given is not None and value in given and isinstance(point, ObserveOp) and point.qparams is None:
                set_parameters(point, given[value])
        elif layer is None or (layer.row.gives_reals and not between.wants_integers(value)):
            _observe_for(value, layers, order, given, place)
        elif (
            layer.is_passive
            and options.fuse_passive_op is not False
            and grids.behind(layer.site.activation) is not None
        ):
            remarks.applied(layer.site.compute, "overlapped", "its input's parameters hold for its results")
        elif (activation := _taken_over_by(layer, kinds, layers)) is not None:
            remarks.applied(layer.site.compute, "overlapped", f"its result takes the point of {layer_of(activation)}")
        elif given is not None and value not in given:
            reason = "its result stays float: the record has no parameters for it"
            remarks.note(layer.site.compute, "record-result", reason)
        else:
            spec = given[value] if given is not None else spec_of(layer.held, None)
            _observe(value, f"{layer.name}:{_which(value)}", spec, list(value.uses), place)
            source = f"observed by {spec.observer}" if given is None else "has the record's parameters"
            remarks.applied(layer.site.compute, "observed", f"result {source}")
    align_values(module, layers, request, remarks)
    for layer in layers.values():
        if any(array_of(v) is not None for i, v in enumerate(layer.site.compute.operands) if _is_factor(layer, i)):
            remarks.note(layer.site.compute, "constant-operand", "its constant operand stays float")
    return list(layers.values())


def _values(function: FuncOp) -> Iterator[SSAValue]:
    yield from function.body.block.args
    for op in function.body.block.ops:
        if is_layer(op) or isinstance(op, FusedOp):
            yield from op.results


def _is_factor(layer: ValueLayer, index: int) -> bool:
    """Whether an operand is neither weight nor bias, and not inside a region."""
    return index not in (layer.row.weight, layer.row.bias) and layer.row.active and layer.site.slot(index) is not None


def _taken_over_by(layer: ValueLayer, kinds: Collection[str], layers: ValueLayers) -> NNOp | None:
    """The quantized activation that is the only reader of a layer's result, if the target computes both in one operation.

    PPQ: any of the kinds after a computing operation, linear ones after every active operation.
    """
    uses = list(uses_of(layer.result))
    if len(uses) != 1 or layer.is_passive or (reader := layers.get(uses[0].operation)) is None:
        return None
    activation = reader.site.owner
    kind = single_kind(activation)
    if kind not in kinds or not (kind in LINEAR or isinstance(layer.site.compute, COMPUTING)):
        return None
    return reader.site.compute


def _which(value: SSAValue) -> str:
    assert isinstance(value, OpResult)
    return f"out{value.index or ''}"


def _observe_for(
    value: SSAValue,
    layers: ValueLayers,
    order: Mapping[Operation, int],
    given: Mapping[SSAValue, Spec] | None,
    place: InsertPoint,
) -> None:
    """Insert a point on a value that no quantized operation computes, at a place, for the quantized operations that read it.

    The settings are those of the reader that needs most: one that computes before one that moves, symmetric before asymmetric,
    few bits before many. They do not depend on the order of the operations. `order` is the position of each layer in the program.
    """
    uses = [u for u in value.uses if (layer := layers.get(u.operation)) is not None and u.index in layer.slots]
    if not uses or (given is not None and value not in given):
        return

    def by_need(use: Use) -> tuple[bool, bool, int, str, int]:
        layer = layers[use.operation]
        held = layer.held
        return layer.is_passive, not held.symmetric, held.bits, held.observer, order[use.operation]

    owner = min(uses, key=by_need).operation
    first = layers[owner]
    index = min(first.slots[u.index] for u in uses if u.operation is owner)
    spec = given[value] if given is not None else spec_of(first.held, None)
    _observe(value, f"{first.name}:{index}", spec, uses, place)


def _observe(value: SSAValue, point: str, spec: Spec, uses: Sequence[Use], place: InsertPoint) -> None:
    """Insert a point on a value, for these uses. Points on arguments stand first, in the order of the arguments."""
    if not uses:
        return
    first = value.op if isinstance(value, OpResult) else uses[0].operation
    observe = make_point(value, point, spec, first.location)
    Rewriter.insert_op(observe, place)
    for use in uses:
        use.operation.operands[use.index] = observe.result


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


def align_values(module: ModuleOp, layers: ValueLayers, request: Resolved, remarks: Remarks) -> None:
    """Group the points of each operation that requires alignment. Each point left out gets a remark with the reason."""
    profile, options = request.profile, request.points
    modes = options.modes(profile, request.settings.joint_quant)
    followers: set[ObserveOp] = set()
    for layer in layers.values():
        if layer.row.alignment is None:
            continue
        mode = modes[layer.row.alignment]
        if mode == "joint" and not isinstance(layer.site.compute, AddOp):
            mode = "large"
        if mode not in ("none", "input") and options.force_alignment_overlap is False:
            _keep_shared_points(layer, layers, profile)
        behind = (point_behind(value, profile.rows) for _, value in layer.reads())
        operands = [p for p in behind if isinstance(p, ObserveOp)]
        results = _result_points(layer, layers)
        others = align(mode, layer.name, operands, results)
        followers.update(p for p in _followers(mode, layer, results, profile) if p not in others)
        for point in others:
            reason = f"{point.point.data} is of other bits or another symmetry: it keeps its own parameters"
            remarks.note(layer.site.compute, f"alignment-{point.point.data}", reason)
    choose_masters(module, followers)
    for given_up in settle(module):
        names = ", ".join(p.point.data for p in given_up)
        for layer in layers.values():
            if any(p in given_up for _, v in layer.reads() if (p := point_behind(v, profile.rows)) is not None):
                remarks.note(
                    layer.site.compute, "alignment", f"the parameters that {names} have already differ: not aligned"
                )


def _followers(mode: Mode, layer: ValueLayer, results: list[ObserveOp], profile: Profile) -> Iterator[ObserveOp]:
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
    op = layer.site.compute
    return not isinstance(op, ResizeOp) or op.mode.data is ResizeMode.NEAREST


def _within_operand(layer: ValueLayer, results: list[ObserveOp]) -> bool:
    """Whether the result is limited to its operand's range: false after a clip, and for cubic interpolation, which overshoots."""
    op = layer.site.compute
    is_own = all(point.input is op.results[0] for point in results)
    return is_own and not (isinstance(op, ResizeOp) and op.mode.data is ResizeMode.CUBIC)


def _keep_shared_points(layer: ValueLayer, layers: ValueLayers, profile: Profile) -> None:
    """Give an operation its own points on values that others read as well: these values are quantized twice."""
    for index, value in list(layer.reads()):
        point = point_behind(value, profile.rows)
        if not isinstance(point, ObserveOp) or not _is_shared(value, point, layer):
            continue
        made_by_quantized = isinstance(point.input, OpResult) and point.input.op in layers
        source = value if made_by_quantized or value is not point.result else point.input
        spec = Spec(point.observer.data, point.bits.value.data, point.symmetric is not None)
        own = make_point(source, f"{layer.name}:{index}", spec, layer.site.compute.location)
        Rewriter.insert_op(own, InsertPoint.before(layer.site.owner))
        layer.site.set_operand(index, own.result)


def _is_shared(value: SSAValue, point: ObserveOp, layer: ValueLayer) -> bool:
    """Whether anything else, such as a graph output, reads the value or any value between it and its point."""
    reader: Operation = layer.site.owner
    while all(use.operation is reader for use in value.uses):
        if value is point.result:
            return False
        assert isinstance(value, OpResult), "a point is behind it"
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
