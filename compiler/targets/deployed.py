"""The common parts of deployable files of all frameworks: names of layers and weights, stored forms of weights,
scales of averages.
"""

from __future__ import annotations

import re

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects import ascend, nn
from ..dialects.ascend.base import FALSE, i8, i16
from ..dialects.nn import NNOp
from ..dialects.nn.shapes import element_of
from ..formats.deq_scale import Array, before_averaging
from ..lowering.ascend.chips.kernels import chips_without
from ..session import Session
from ..support.diagnostics import op_error
from ..support.tables import numbered
from .graph import identity_of, label_of

_SUFFIXES = re.compile(r"(\.folded)?(\.(i2|i4|i8|i32))?(\.filter)?$")
"""The suffixes that quantization and lowering add to the keys of constants."""

_WEIGHTS_ALONE = (
    ascend.AscendAntiQuantOp,
    ascend.AscendAntiQuantV2Op,
    ascend.WeightQuantBatchMatmulV2Op,
    nn.DequantizeOp,
)
"""The operations that dequantize the weights of layers that compute in float."""

Made = dict[tuple[object, str], SSAValue]
"""Rearranged constants by original and arrangement, so that shared ones stay shared."""


def weight_name(key: str) -> str:
    """The name of integers: that of their weight or bias."""
    return _SUFFIXES.sub("", key, count=1)


def warn_of_floats(module: ModuleOp, session: Session) -> None:
    """Warns if no layer of a lowered module computes in integers, and reports what is left of its quantization."""
    if any(isinstance(op, ascend.AscendQuantOp | ascend.WindowCacheOp) for op in module.walk()):
        return
    alone = any(isinstance(op, _WEIGHTS_ALONE) for op in module.walk())
    left = "only weights are quantized" if alone else "the file is a float model"
    session.warn(f"no layer computes in integers: {left}")


def note_int16(module: ModuleOp, session: Session) -> None:
    """Notes the chips that cannot run a file with AscendQuant to INT16."""
    wide = [op for op in module.walk() if isinstance(op, ascend.AscendQuantOp) and op.storage == i16]
    if wide and (chips := chips_without("AscendQuant", str(i16))):
        session.note(
            f"{numbered(len(wide), 'AscendQuant')} to INT16: chips {', '.join(chips)} have no kernel that gives it"
        )


def is_integer(op: Operation) -> bool:
    """Whether an operation produces accumulators."""
    return element_of(op.results[0]) == i32


def part_of_another(op: ascend.AscendOp) -> bool:
    """Whether the operation is one of several of a layer, and not the one with the layer's name."""
    if op.origin is None:
        return False
    behind = [use.operation for result in op.results for use in result.uses]
    around = [*(o.owner for o in op.operands), *behind]
    return any(isinstance(each, ascend.AscendOp) and each.origin == op.origin for each in around)


def layer_behind(value: SSAValue, default: str) -> str:
    """The layer that reads a value: the first one in the program with a name."""
    users = {use.operation for use in value.uses}
    op = value.owner.next_op if isinstance(value.owner, Operation) else None
    while op is not None:
        if op in users and isinstance(op, NNOp) and op.origin is not None and op.origin.layer.data:
            return op.origin.layer.data
        op = op.next_op
    return default


def quant_name(quantized: SSAValue, default: str) -> str:
    """`L.quant` for the first layer L that reads the integers; `L.quant1` if they are its second input."""
    layer = layer_behind(quantized, default)
    readers = [use for use in quantized.uses if isinstance(use.operation, NNOp) and label_of(use.operation) == layer]
    second = bool(readers) and all(isinstance(use.operation, ascend.MatrixOp) and use.index == 1 for use in readers)
    return f"{layer}.quant{1 if second else ''}"


def layer_before(value: SSAValue, default: str) -> str:
    """The layer that produces a value."""
    return label_of(value.op) if isinstance(value, OpResult) else default


def rearranged(value: SSAValue, made: Made, how: str, order: tuple[int, ...], shape: tuple[int, ...]) -> SSAValue:
    """A constant with its axes in another order, then in another shape, under the same key."""
    constant = nn.constant_of(value)
    assert constant is not None
    known = identity_of(constant), how
    if known not in made:
        array = np.ascontiguousarray(constant.array.transpose(order)).reshape(shape)
        moved = nn.ConstantOp.of(array, constant.key, constant.location)
        Rewriter.insert_op(moved, InsertPoint.after(constant))
        made[known] = moved.result
    return made[known]


def turn_weight(op: ascend.MatrixOp, made: Made) -> None:
    """int8 weights are stored `[..., K, N]`, as AMCT saves a Gemm with transB."""
    _, transposed = op.transposes
    if not transposed or element_of(op.x2) != i8 or (constant := nn.constant_of(op.x2)) is None:
        return
    *batch, rows, columns = constant.array.shape
    rank = len(batch)
    order = (*range(rank), rank + 1, rank)
    op.operands[1] = rearranged(op.x2, made, "transposed", order, (*batch, columns, rows))
    op.properties[op.FLAGS[1]] = FALSE


def unaveraged(op: Operation, accumulator: SSAValue, scale: Array) -> Array:
    """Converts scales of window sums to those of averages; other scales stay unchanged. Raises CompileError, located at `op`."""
    pool = accumulator.op if isinstance(accumulator, OpResult) else None
    if not isinstance(pool, ascend.AveragingOp):
        return scale
    if (count := pool.constant_count()) is None:
        raise op_error(op, "dequantizes a pool whose windows do not all count the same number of elements")
    if (found := before_averaging(scale, count, _reciprocal(pool))) is None:
        message = f"has a scale that no float32 number divided by {count}, the size of a window, gives"
        raise op_error(op, message, hint="write the module before --fuse-requant")
    return found


def _reciprocal(pool: ascend.AveragingOp) -> np.float32 | None:
    """The scale of the AscendQuant before a pool."""
    quant = pool.x.op if isinstance(pool.x, OpResult) else None
    return np.float32(quant.scale.value.data) if isinstance(quant, ascend.AscendQuantOp) else None
