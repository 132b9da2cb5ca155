"""Reads deployed files of any framework: which values are integers, their zero points, and their scales."""

from __future__ import annotations

from math import isfinite

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, OpResult, SSAValue

from ..dialects import ascend, nn
from ..dialects.nn.shapes import element_of
from ..formats.deq_scale import Array, averaged
from .node import SourceNode

_OF_ONE_SCALE = (nn.ConcatOp, nn.PadOp)
"""Operations that are not passive in general, but on integers everything has the scale of the first operand."""


def producer(value: object) -> Operation | None:
    """The operation whose result this is, otherwise None."""
    return value.op if isinstance(value, OpResult) else None


def quantizer_of(value: SSAValue) -> ascend.AscendQuantOp | ascend.AscendRequantOp | None:
    """The AscendQuant or AscendRequant that these integers come from, past operations that only move them."""
    op = producer(value)
    while isinstance(op, nn.NNOp) and (op.is_passive or isinstance(op, _OF_ONE_SCALE)):
        op = producer(op.operands[0])
    return op if isinstance(op, ascend.AscendQuantOp | ascend.AscendRequantOp) else None


def zero_point(node: SourceNode, value: SSAValue) -> int:
    """The zero point of a layer's integer input. Raises CompileError if it does not come from an AscendQuant."""
    if (quant := quantizer_of(value)) is None:
        raise node.error("takes integers that come from no AscendQuant: its zero point is not known")
    return int(quant.offset.value.data)


def is_second_input(node: SourceNode, value: SSAValue) -> bool:
    """Whether the second operand comes from an AscendQuant, not from a weight. Raises CompileError if it has a zero point."""
    if (quant := quantizer_of(value)) is None:
        return False
    if zero := quant.offset.value.data:
        raise node.error(f"multiplies by integers with the zero point {zero:g}, but it must be 0")
    return True


def is_accumulator(value: object) -> bool:
    """Whether a value is the int32 result of a layer."""
    op = producer(value)
    return isinstance(op, ascend.CubeOp | ascend.AveragingOp) and element_of(op.results[0]) == i32


def accumulator(node: SourceNode) -> SSAValue:
    """The first input, which must be the result of a layer."""
    x = node.value(0)
    if element_of(x) != i32:
        raise node.error(f"takes the int32 result of a layer, not {node.dtype(0)}")
    return x


def parameter(node: SourceNode) -> Array:
    """The second input, a vector of uint64 with scales."""
    packed = constant(node, 1, "parameter", "uint64")
    if packed.ndim != 1 or not packed.size:
        raise node.error(f"has a parameter of shape {list(packed.shape)}, but it must be a vector")
    return packed


def shifts(node: SourceNode, shift: Array) -> list[int] | None:
    """The shifts; None if accumulators are not shifted."""
    if not shift.any():
        return None
    if shift.max() > 16:
        raise node.error(f"has shifts that are not in [0, 16]: {sorted(set(shift.tolist()))}")
    return [int(n) for n in shift]


def scales(node: SourceNode, x: SSAValue, scale: Array) -> Array:
    """The scales of an accumulator; those of a pool, whose operator averages, are converted to scales of sums."""
    if not np.all((scale > 0) & np.isfinite(scale)):
        raise node.error("has a scale that is not positive and finite")
    pool = producer(x)
    if not isinstance(pool, ascend.AveragingOp):
        return scale
    if (count := pool.constant_count()) is None:
        raise node.error("follows a pool whose windows do not all count the same number of elements")
    return averaged(scale, count)


def constant(node: SourceNode, index: int, what: str, dtype: str) -> Array:
    """The numbers of an input of this type."""
    if node.dtype(index).name != dtype:
        raise node.error(f"has a {what} of {node.dtype(index)}, but it must be {dtype}")
    if (array := node.array(index)) is None:
        raise node.error(f"has a {what} that is computed at run time, but it must be a constant")
    return array


def real(node: SourceNode) -> SSAValue:
    """The first input, which must be a tensor of floats."""
    if (name := node.dtype(0).name) not in ("float32", "float16"):
        raise node.error(f"takes float32 or float16, not {name}")
    return node.value(0)


def check_finite(node: SourceNode, name: str, value: float) -> float:
    """The number. Raises CompileError, at the node, for NaN and Inf."""
    if not isfinite(value):
        raise node.error(f"has the {name} {value}")
    return value


def check_offset(node: SourceNode, offset: float, low: int, high: int) -> None:
    """Raises CompileError, at the node, for an offset that is not an integer from `low` to `high`."""
    if not (offset.is_integer() and low <= offset <= high):
        raise node.error(f"has the offset {offset:g}, but it must be an integer in [{low}, {high}]")
