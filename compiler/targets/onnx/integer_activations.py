"""Writes activations so that integer runtimes keep them in integers between operations; the numbers stay the same."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects.nn import BoundOp, DequantizeOp, QParams, QParamsAttr, QuantizeOp
from ...ir.dtypes import integer_range
from ...ir.functions import main_function
from ...transforms.inline_fused import inline_fused
from ...transforms.quantization.convert.pairs import quantized_pair
from ...transforms.quantization.decide.grids import Grids
from ...transforms.quantization.profiles import Profile

_UNSIGNED = {IntegerType(bits): IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16)}


def with_integer_activations(module: ModuleOp, profile: Profile) -> ModuleOp:
    """A copy of a quantized module with the profile's activations in uint8 or uint16, and each passive operation between Q/DQ
    pairs.
    """
    copy = module.clone()
    inline_fused(copy)
    _repeat_behind_passive(copy, profile)
    for op in [o for o in copy.walk() if isinstance(o, QuantizeOp)]:
        _repeat_before_bound(op)
    for op in [o for o in copy.walk() if isinstance(o, QuantizeOp)]:
        if profile.unsigned_file == "all" or any(op.qparams.data.zero_point):
            _store_unsigned(op)
    return copy


def with_unsigned_activations(module: ModuleOp) -> ModuleOp:
    """A copy of a module with its int8 activations in uint8; the module itself if it has none."""
    if not any(_is_int8_activation(op) for op in module.walk()):
        return module
    copy = module.clone()
    for op in [o for o in copy.walk() if isinstance(o, QuantizeOp) and _is_int8_activation(o)]:
        _store_unsigned(op)
    return copy


def _repeat_behind_passive(module: ModuleOp, profile: Profile) -> None:
    """Quantizes results of passive operations by the parameters of their inputs: an identity, because they are on the grid."""
    grids = Grids(profile.rows)
    for op in list(main_function(module).body.block.ops):
        if not grids.is_passive(op) or (dequantize := _dequantized_activation(op.operands[0])) is None:
            continue
        for result in op.results:
            _repeat(result, dequantize)


def _repeat_before_bound(op: QuantizeOp) -> None:
    """Also quantizes the input of a linear activation, unless runtimes can leave the activation to saturation.

    Exact: rounding is monotone, so that bounding before it and bounding on the grid give the same integers. Other readers of
    the activation would read rounded values.
    """
    bound = op.input.owner
    if op.input.has_more_than_one_use():
        return
    if not isinstance(bound, BoundOp) or _saturates_within(op.qparams.data, bound):
        return
    before = bound.operands[0]
    if not isinstance(before, OpResult) or isinstance(before.op, DequantizeOp) or before.has_more_than_one_use():
        return
    quantize, dequantize = quantized_pair(before, op.qparams, op.location)
    Rewriter.insert_op([quantize, dequantize], InsertPoint.before(bound))
    bound.operands[0] = dequantize.result


def _saturates_within(p: QParams, bound: BoundOp) -> bool:
    """Whether the range of the integers is within the bounds, which are then left out."""
    if p.axis is not None:
        return False
    low, high = bound.bounds
    least, most = integer_range(p.storage)
    scale, zero_point = p.scales(), p.zero_points()
    return bool(low <= (least - zero_point) * scale and (most - zero_point) * scale <= high)


def _dequantized_activation(value: SSAValue) -> DequantizeOp | None:
    if not isinstance(value, OpResult) or not isinstance(value.op, DequantizeOp):
        return None
    source = value.op.input
    return value.op if isinstance(source, OpResult) and isinstance(source.op, QuantizeOp) else None


def _repeat(result: SSAValue, like: DequantizeOp) -> None:
    uses = list(result.uses)
    if not uses or any(isinstance(use.operation, QuantizeOp) for use in uses):
        return
    quantize, dequantize = quantized_pair(result, like.qparams, like.location)
    assert isinstance(result, OpResult)
    Rewriter.insert_op([quantize, dequantize], InsertPoint.after(result.op))
    for use in uses:
        use.operation.operands[use.index] = dequantize.result


def _is_int8_activation(op: Operation) -> bool:
    """Whether its result is int8 and only read by dequantizes."""
    return isinstance(op, QuantizeOp) and op.qparams.data.storage == i8 and _is_activation(op)


def _is_activation(op: QuantizeOp) -> bool:
    return all(isinstance(use.operation, DequantizeOp) for use in op.result.uses)


def _store_unsigned(op: QuantizeOp) -> None:
    """Signed integers between a quantize and its dequantizes become unsigned, with the zero point moved by as much."""
    p = op.qparams.data
    if (storage := _UNSIGNED.get(p.storage)) is None or not _is_activation(op):
        return
    half = 1 << (storage.width.data - 1)
    moved = QParamsAttr(replace(p, storage=storage, zero_point=tuple(z + half for z in p.zero_point)))
    readers = [use.operation for use in op.result.uses]
    quantize = QuantizeOp.make(op.input, qparams=moved, source=op.source, location=op.location)
    quantize.result.name_hint = op.result.name_hint
    Rewriter.replace_op(op, quantize)
    for reader in readers:
        assert isinstance(reader, DequantizeOp)
        reader.qparams = moved
