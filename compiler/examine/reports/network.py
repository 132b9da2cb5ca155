"""The layers of a quantized module in the order of the network: decisions, errors, inputs and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ...dialects.nn import ConstantOp, DequantizeOp, FusedOp, NNOp, OpaqueOp, QParams, QuantizeOp, YieldOp, is_layer
from ...dialects.nn.fused import computed, outside
from ...dialects.nn.shapes import shape_of
from ...ir.array import Array
from ...ir.dtypes import as_stored, integer_range
from ...ir.functions import input_names, main_function
from ...rewriting import layer_of
from ...runtime.affine import in_blocks
from ...support.diagnostics import Remark
from ...transforms.quantization.decide.layers import channel_axis
from .measures import clip_lines, quantize_ops
from .reading import DrawnLayer, LayerError, Point, Weights

QUANTIZING = ("insert-observers", "convert-observers", "adapt-qat")
_CHANNELS = 256
"""Bars of a drawing of weights; more channels share bars."""
_WIDEST_WEIGHT = 8


def layers_of(module: ModuleOp, remarks: Sequence[Remark], errors: Mapping[str, LayerError]) -> list[DrawnLayer]:
    """The layers of a quantized module. Raises CompileError for arrays that are missing."""
    said = _decisions(remarks)
    points = {
        op: Point(_maker(op.input), i, op.qparams.data.storage.width.data, clip_lines(op))
        for i, op in enumerate(quantize_ops(module))
    }
    worst: dict[SSAValue, float] = {}
    found: list[DrawnLayer] = []
    for op in _operations(module):
        name = layer_of(op)
        before = min((worst.get(outside(v), inf) for v in op.operands), default=inf)
        layer = is_layer(op)
        error = errors.get(name) if layer else None
        own = before if error is None or error.sqnr is None else error.sqnr
        for result in op.results:
            worst[result] = own
        if isinstance(op, YieldOp):
            worst[cast(Operation, op.parent_op()).results[0]] = own
        if not layer:
            continue
        drop = None if before == inf or error is None or error.sqnr is None else before - error.sqnr
        decision, rule, reason = _decision(op, said)
        read = [points[p] for v in op.operands if (p := _quantized_by(v)) is not None and p in points]
        kind = f"{op.name} {op.op_type.data}" if isinstance(op, OpaqueOp) else op.name
        shape = _shape(op.results[0]) if op.results else ""
        found.append(DrawnLayer(name, kind, shape, decision, rule, reason, error, drop, read, _weights(op)))
    return found


def costliest(layers: Sequence[DrawnLayer], least: float, count: int) -> list[tuple[float, DrawnLayer]]:
    """The quantized layers that lose more than `least` dB, with their losses: the `count` that lose most, the worst first."""
    drops = [(layer.drop, layer) for layer in layers if layer.drop is not None and layer.decision == "quantized"]
    return sorted((each for each in drops if each[0] > least), key=lambda each: -each[0])[:count]


def _operations(module: ModuleOp) -> Iterator[Operation]:
    """Yields operations in program order, those of a region in place of the operation that it belongs to."""
    for op in main_function(module).body.block.ops:
        yield from op.body.block.ops if isinstance(op, FusedOp) else (op,)


def _decisions(remarks: Sequence[Remark]) -> dict[str, Remark]:
    """The remark that decided about a layer, by layer name: that it is quantized, otherwise the first reason why it is not."""
    found: dict[str, Remark] = {}
    for remark in remarks:
        if remark.pass_name not in QUANTIZING:
            continue
        if remark.layer not in found or (remark.kind == "applied" and remark.rule == "quantized"):
            found[remark.layer] = remark
    return found


def _decision(op: Operation, said: Mapping[str, Remark]) -> tuple[str, str, str]:
    remark = said.get(layer_of(op))
    if remark is not None:
        return "quantized" if remark.kind == "applied" else "float", remark.rule, remark.reason
    region = op.parent_op()
    inside = region.body.block.ops if isinstance(region, FusedOp) else ()
    whole = (said.get(layer_of(other)) for other in inside)
    if (quantized := next((r for r in whole if r is not None and r.kind == "applied"), None)) is not None:
        return "inside", "", f"part of {quantized.layer}"
    return "float", "", "the profile does not quantize this operation" if said else ""


def _quantized_by(value: SSAValue) -> QuantizeOp | None:
    """The operation that quantized the input of a layer."""
    value = outside(value)
    if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp):
        value = value.op.input
    return value.op if isinstance(value, OpResult) and isinstance(value.op, QuantizeOp) else None


def _maker(value: SSAValue) -> str:
    """The layer or the input of the model that a value comes from."""
    value = computed(value)
    if isinstance(value, BlockArgument):
        function = value.block.parent_op()
        names = input_names(cast(Any, function)) if function is not None and function.name == "func.func" else []
        return names[value.index] if value.index < len(names) else "input"
    return layer_of(cast(OpResult, value).op)


def _shape(value: SSAValue) -> str:
    return "x".join("?" if n < 0 else str(n) for n in shape_of(value))


def _weights(op: Operation) -> Weights | None:
    """The first weight of a layer that is a constant of integers; a bias is not."""
    for value in op.operands:
        owner = outside(value).owner
        if isinstance(owner, DequantizeOp) and isinstance(constant := owner.input.owner, ConstantOp):
            params = owner.qparams.data
            if params.storage.width.data <= _WIDEST_WEIGHT and len(shape_of(constant.result)) > 1:
                return _ranges(constant.array, params, channel_axis(op) if isinstance(op, NNOp) else None)
    return None


def _ranges(integers: Array, params: QParams, channels: int | None) -> Weights:
    """`channels` is the axis of the output channels."""
    axis = (params.axis if params.block is None and params.axis is not None else channels or 0) % integers.ndim
    others = tuple(i for i in range(integers.ndim) if i != axis)
    stored = as_stored(integers)
    if params.axis is None or params.block is None:
        least, most = stored.min(axis=others, keepdims=True), stored.max(axis=others, keepdims=True)
        scales, zeros = params.broadcastable(integers.shape)
    else:  # only the ends of each group become reals
        missing = -integers.shape[params.axis] % params.block
        filled = [(0, missing if i == params.axis else 0) for i in range(integers.ndim)]
        groups = in_blocks(np.pad(stored, filled, "edge") if missing else stored, params.axis, params.block)
        least, most = groups.min(axis=params.axis + 1), groups.max(axis=params.axis + 1)
        scales, zeros = (p.reshape(least.shape) if p.ndim else p for p in (params.scales(), params.zero_points()))
    found = [(end.astype(np.float32) - zeros) * scales for end in (least, most)]  # a negative scale turns them round
    low, high = np.minimum(*found).min(axis=others), np.maximum(*found).max(axis=others)
    ends = [np.abs((end - zeros) * scales) for end in integer_range(params.storage)]
    limit = np.broadcast_to(np.maximum(*ends), least.shape).max(axis=others)
    largest = np.maximum(np.abs(low), np.abs(high))
    median = float(np.median(largest[largest > 0])) if (largest > 0).any() else 1.0
    count = int(low.size)
    starts = list(range(0, count, -(-count // _CHANNELS)))
    return Weights(
        bits=params.storage.width.data,
        scales="one scale"
        if params.axis is None
        else "a scale per channel"
        if params.block is None
        else "a scale per group",
        channels=count,
        low=_rounded(np.minimum.reduceat(low, starts)),
        high=_rounded(np.maximum.reduceat(high, starts)),
        limit=_rounded(np.maximum.reduceat(limit, starts)),
        outliers=float(largest.max(initial=0.0)) / median,
    )


def _rounded(values: Array) -> list[float]:
    """Four digits: enough to draw."""
    return [float(f"{value:.4g}") for value in values]
