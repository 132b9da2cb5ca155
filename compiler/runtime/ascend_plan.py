"""An `ascend` module with fewer passes over its arrays, and the same bits.

Integers that only kernels read stay in float32, in which BLAS and the steps around it compute: those of AscendQuant and
AscendRequant, and accumulators if float32 can represent all of them. Linear activations before an AscendQuant become bounds of
its integers. Moments that nothing reads are not computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Operation

from ..dialects import ascend
from ..dialects.ascend.cube import DATA
from ..dialects.nn.shapes import element_of
from .bounds import Bounds, bounded, bounds_of
from .kernels import bare_kernel_for
from .kernels.ascend_cube import MATRIX_KERNELS, has_constant_weights
from .kernels.ascend_integer import quant, quant_in_float32, requant_in_float32
from .program import Program, Row, live

_ACTIVATIONS = (ascend.ReluOp, ascend.Relu6Op, ascend.ClipByValueOp)


def in_float32(program: Program) -> Program:
    """Rewrites rows; outputs, and slots that other operations read, stay the same."""
    rows = [_rewritten(program, row) for row in program.rows]
    return replace(program, rows=live(rows, program.asked))


def _rewritten(program: Program, row: Row) -> Row:
    op = row.op
    if isinstance(op, ascend.AscendQuantOp):
        slot, bounds = bounded(program, row.operands[0], _bounds_of)
        make = quant_in_float32 if _only_for(program, row, _multiplies) else quant
        return Row(op, (slot,), row.results, make(op, bounds))
    if isinstance(op, ascend.AscendRequantOp) and _only_for(program, row, _multiplies):
        return row._replace(kernel=requant_in_float32(op))
    if isinstance(op, ascend.CubeOp) and _multiplies(op) and _only_for(program, row, _scales):
        return row._replace(kernel=MATRIX_KERNELS[type(op)](op))
    if isinstance(op, ascend.MomentsOp) and not any(
        s in program.asked or s in program.readers for s in row.results[1:]
    ):
        return row._replace(results=row.results[:1], kernel=bare_kernel_for(op.normalization()))
    return row


def _only_for(program: Program, row: Row, reads: Callable[[Operation], bool]) -> bool:
    """Whether all readers of a row's result accept numbers of any type."""
    (slot,) = row.results
    return slot not in program.asked and all(reads(reader.op) for reader in program.readers.get(slot, ()))


def _multiplies(op: Operation) -> bool:
    """Whether an operation multiplies integer data by packed weights: it accepts the data in any number type."""
    if not isinstance(op, ascend.CubeOp) or type(op) not in MATRIX_KERNELS:
        return False
    return element_of(op.operands[0]) in DATA and has_constant_weights(op)


def _scales(op: Operation) -> bool:
    """Whether an operation rounds accumulators to float32 first."""
    if isinstance(op, ascend.AscendDequantOp):
        return not op.shifts
    return isinstance(op, ascend.AscendRequantOp | ascend.AscendDequantS16Op)


def _bounds_of(op: Operation) -> Bounds | None:
    return bounds_of(op.meaning().op) if isinstance(op, _ACTIVATIONS) else None
