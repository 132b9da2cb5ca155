"""Points on values, where a profile quantizes each value once: at graph inputs and behind active operations (PPQ).

A value has no point if an activation replaces it, if it is computed inside nn.fused, or if it is the result of a passive
operation: then the parameters of that operation's input apply (PPQ's OVERLAPPED). Quantized operations that read the result of a
float operation read it through a point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import FusedOp, NNOp, ObserveOp, array_of, is_layer
from ....ir.functions import main_function
from ....rewriting import Remarks, layer_of
from ...fusion.computing import COMPUTING
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..decide.between import layers_in_integers
from ..decide.value_layers import ValueLayer, ValueLayers, is_quantizable
from ..request import Resolved
from .aligned_values import align_values
from .grids import Grids, point_on, uses_of
from .points import Spec, make_point, set_parameters, spec_of
from .recorded_values import recorded_values


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
