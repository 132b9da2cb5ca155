"""Points on values, where a profile quantizes each value once: at graph inputs and behind active operations (PPQ).

A value has no point of its own where an activation takes it over, where it is made inside nn.fused, and where a passive operation
gives it: the parameters of that operation's input hold for it (PPQ's OVERLAPPED). Where an operation stays float, those quantized
operations that read its result read it through a point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ...configuration.settings import LayerSettings, Settings, settings_for
from ...dialects.nn import ConstantOp, DequantizeOp, FusedOp, NNOp, ObserveOp, QuantizeOp, array_of
from ...dialects.nn.shapes import element_of
from ...dtypes import is_float
from ...functions import body, main_function
from ...rewriting import Remarks, layer_of
from ..fusion.computing import COMPUTING
from ..fusion.fuse_activation.activations import LINEAR, single_kind
from .alignment import align
from .grids import point_behind, point_on
from .layers import half_quantized, has_integer_weight, layer_at
from .legality import first_broken
from .point_options import PointOptions
from .profiles import Profile, Row
from .sites import Site, sites
from .skipped import SKIPPED
from .weight_only import note_weight_only, takes_weight_only


class _Layer(NamedTuple):
    """A quantized operation: `site.owner` stands in the graph."""

    site: Site
    row: Row
    held: LayerSettings

    @property
    def result(self) -> SSAValue:
        return self.site.owner.results[0]

    def reads(self) -> Iterator[tuple[int, SSAValue]]:
        """The real values that it takes through quantization, by operand."""
        for i in range(len(self.site.compute.operands)):
            value = self.site.operand(i)
            if value is not None and i != self.row.bias and _is_quantizable(value) and (self.row.active or i == 0):
                yield i, value


_Layers = Mapping[Operation, _Layer]


def insert_value_points(
    module: ModuleOp, settings: Settings, options: PointOptions, profile: Profile, remarks: Remarks
) -> None:
    """Give every value that settings, the profile and its rules allow to quantize one point; group those that are aligned."""
    layers = _quantized_layers(module, settings, profile, remarks)
    kinds = options.activations(profile)
    function = main_function(module)
    for value in list(_values(function)):
        layer = layers.get(value.owner) if isinstance(value, OpResult) else None
        if point_on(value) is not None or not _is_quantizable(value):
            continue
        if layer is None:
            _observe_for(value, layers)
        elif not layer.row.active and options.fuse_passive_op is not False and _on_grid(layer, profile):
            remarks.applied(layer.site.compute, "overlapped", "its input's parameters hold for its results")
        elif (activation := _taken_over_by(layer, kinds, layers)) is not None:
            remarks.applied(layer.site.compute, "overlapped", f"its result takes the point of {layer_of(activation)}")
        else:
            _observe(value, f"{layer_of(layer.site.compute)}:{_which(value)}", layer.held, list(value.uses))
            remarks.applied(layer.site.compute, "observed", f"result observed by {layer.held.observer}")
    _align(layers, options, profile)
    for layer in layers.values():
        if any(array_of(v) is not None for i, v in enumerate(layer.site.compute.operands) if _is_factor(layer, i)):
            remarks.note(layer.site.compute, "constant-operand", "its constant operand stays float")


def _quantized_layers(module: ModuleOp, settings: Settings, profile: Profile, remarks: Remarks) -> _Layers:
    """By the operation that stands in the graph, those that are quantized; a remark for each other that gives reals."""
    layers: dict[Operation, _Layer] = {}
    considered: set[Operation] = set()
    for site in sites(module, profile.rows):
        if site.owner in considered:
            continue  # what follows in a region
        considered.add(site.owner)
        row = profile.rows[type(site.compute)]
        held = settings_for(settings, layer_at(site, row))
        if held.skipped is not None:
            remarks.missed(site.compute, held.skipped, SKIPPED[held.skipped])
        elif takes_weight_only(site, row, settings, None):
            note_weight_only(site, row, held, remarks)
        elif isinstance(point_behind(site.activation, profile.rows), DequantizeOp):
            layers[site.owner] = _Layer(site, row, held)
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
        elif has_integer_weight(site):
            continue  # its weight alone
        elif (broken := first_broken(site, row.rules, profile.table)) is not None:
            remarks.missed(site.compute, broken[0].name, broken[1])
        else:
            layers[site.owner] = _Layer(site, row, held)
    for op in body(main_function(module)).ops:
        if op not in considered and _gives_reals(op):
            remarks.missed(op, "not-in-profile", f"profile {profile.name} quantizes no {op.name}")
    return layers


_NO_LAYERS = (ConstantOp, ObserveOp, QuantizeOp, DequantizeOp)


def _gives_reals(op: Operation) -> bool:
    return not isinstance(op, _NO_LAYERS) and any(is_float(element_of(v)) for v in op.results)


def _values(function: FuncOp) -> Iterator[SSAValue]:
    yield from function.body.block.args
    for op in function.body.block.ops:
        if isinstance(op, NNOp | FusedOp) and not isinstance(op, _NO_LAYERS):
            yield from op.results


def _is_quantizable(value: SSAValue) -> bool:
    return is_float(element_of(value)) and array_of(value) is None


def _is_factor(layer: _Layer, index: int) -> bool:
    """The operand is neither weight nor bias, and not inside a region."""
    return index not in (layer.row.weight, layer.row.bias) and layer.row.active and layer.site.slot(index) is not None


def _on_grid(layer: _Layer, profile: Profile) -> bool:
    return point_behind(layer.site.activation, profile.rows) is not None


def _taken_over_by(layer: _Layer, kinds: Collection[str], layers: _Layers) -> NNOp | None:
    """The quantized activation that alone reads a layer's result, where both are one operation to the target.

    PPQ: any of the kinds behind a computing operation, linear ones behind every active operation.
    """
    uses = list(layer.result.uses)
    if len(uses) != 1 or not layer.row.active or (reader := layers.get(uses[0].operation)) is None:
        return None
    activation = reader.site.owner
    kind = single_kind(activation)
    if kind not in kinds or not (kind in LINEAR or isinstance(layer.site.compute, COMPUTING)):
        return None
    return reader.site.compute


def _which(value: SSAValue) -> str:
    assert isinstance(value, OpResult)
    return f"out{value.index or ''}"


def _observe_for(value: SSAValue, layers: _Layers) -> None:
    """Let the quantized operations that read a value of no quantized operation read it through a point."""
    uses = [u for u in value.uses if (layer := layers.get(u.operation)) is not None and _reads(layer, u)]
    if not uses:
        return
    in_order = sorted(uses, key=lambda u: _position(u.operation))
    first = layers[in_order[0].operation]
    index = next(i for i, v in first.reads() if v is value)
    _observe(value, f"{layer_of(first.site.compute)}:{index}", first.held, uses)


def _reads(layer: _Layer, use: Use) -> bool:
    return any(layer.site.slot(i) == use.index for i, _ in layer.reads())


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)


def _observe(value: SSAValue, point: str, held: LayerSettings, uses: Sequence[Use]) -> None:
    """A point that these uses read a value through."""
    if not uses:
        return
    owner = value.owner
    produced = isinstance(owner, Operation)
    observe = ObserveOp.make(
        value,
        point=point,
        observer=held.observer,
        bits=held.bits,
        symmetric=held.symmetric,
        location=owner.location if produced else uses[0].operation.location,
    )
    Rewriter.insert_op(observe, InsertPoint.after(owner) if produced else _behind_points(owner))
    for use in uses:
        use.operation.operands[use.index] = observe.result


def _behind_points(block: Block) -> InsertPoint:
    """Points on arguments come first, in the order of the arguments."""
    return InsertPoint.before(next(op for op in block.ops if not isinstance(op, ObserveOp)))


def _align(layers: _Layers, options: PointOptions, profile: Profile) -> None:
    modes = options.modes()
    for layer in layers.values():
        if layer.row.alignment is None:
            continue
        operands = _points([v for _, v in layer.reads()], profile)
        align(modes[layer.row.alignment], layer_of(layer.site.compute), operands, _result_points(layer, layers))


def _points(values: Sequence[SSAValue], profile: Profile) -> list[ObserveOp]:
    behind = (point_behind(v, profile.rows) for v in values)
    return [p for p in behind if isinstance(p, ObserveOp)]


def _result_points(layer: _Layer, layers: _Layers) -> list[ObserveOp]:
    """The point on a layer's result, or on that of the activation that took it over."""
    value = layer.result
    while (point := point_on(value)) is None:
        uses = list(value.uses)
        if len(uses) != 1 or (reader := layers.get(uses[0].operation)) is None:
            return []
        value = reader.result
    return [point] if isinstance(point, ObserveOp) else []
