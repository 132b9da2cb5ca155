"""Decides which points on values share parameters (PPQ's alignment), from the operations that read or compute the values."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import AddOp, ObserveOp, ResizeMode, ResizeOp, Spec
from ....rewriting import Remarks
from ..decide.value_layers import ValueLayer, ValueLayers
from ..profiles import Mode, Profile
from ..request import Request
from .alignment import align, choose_masters, settle
from .grids import point_behind, point_on
from .points import make_point


def align_values(module: ModuleOp, layers: ValueLayers, request: Request, remarks: Remarks) -> None:
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
