"""A quantized `nn` module in integers: `quantize(op(dequantize(x), ...))` becomes one integer kernel.

onnxruntime does the same to the chains of a QDQ file, with the same numbers. A chain must be whole: no value inside
has another reader, is watched or is an output. Linear activations before the quantization belong to it. Passive operations move
integers. Everything else runs in float, as without this rewrite.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import f32

from ..dialects import nn
from ..dialects.nn.shapes import element_of
from ..support.diagnostics import CompileError
from .bounds import bounded
from .integer_chains import CHAINS, Chain, float_product
from .integer_values import Integers, IntegerValues, per_tensor_8_bits
from .kernels.quantized import Result
from .kernels.shape import refilled
from .program import Program, Row, live


def in_integers(program: Program) -> Program:
    """`Executable(module, rewrite=in_integers)`: quantized operations of `nn` in integers, as onnxruntime computes its QDQ file.

    The slots stay the same. Raises CompileError if no operation has integers as operands and results.
    """
    rewritten = _Rewriter(program).rewritten()
    if not any(row.kernel is not None for row in rewritten.rows):
        hint = "quantize first: --profile=qdq --fuse-all --quantize; ascend modules compute in integers by themselves"
        raise CompileError("no operation of this module takes and gives integers", hint=hint)
    return rewritten


class _Rewriter:
    def __init__(self, program: Program):
        self.program, self.slots = program, program.slots
        self.values = IntegerValues(program.constants)

    def rewritten(self) -> Program:
        asked = self.program.asked
        rows = [new for row in self.program.rows for new in self._rewrite(row)]
        unchained = {row.results for row in live(rows, asked)}
        rows = [self._with_integer_sums(row) if row.results in unchained else row for row in rows]
        return Program(self.slots, self.program.constants, live(rows, asked), asked)

    def _rewrite(self, row: Row) -> list[Row]:
        op = row.op
        if isinstance(op, nn.DequantizeOp) and element_of(op.result) == f32:
            self.values.held[row.results[0]] = Integers(row.operands[0], op.qparams.data)
        if isinstance(op, nn.QuantizeOp) and (chain := self._chain(row)) is not None:
            return [_by(chain, row)]
        return [row, *self._moved(row, op)] if isinstance(op, nn.NNOp) else [row]

    def _with_integer_sums(self, row: Row) -> Row:
        """A matrix product whose result stays float."""
        chain = float_product(self.values, row) if isinstance(row.op, nn.MatMulOp) else None
        return row if chain is None else _by(chain, row)

    def _moved(self, row: Row, op: nn.NNOp) -> list[Row]:
        """The row on integers, if its operand is available as integers, and it acts on integers as on reals. A pad fills in the
        zero point where reals get 0.
        """
        source = self.values.held.get(row.operands[0]) if row.operands else None
        if source is None or source.params.axis is not None:
            return []
        kernel = refilled(op, int(source.params.zero_points()))
        if kernel is None and not op.is_passive:
            return []
        moved = tuple(range(self.slots, self.slots + len(row.results)))
        self.slots += len(moved)
        self.values.held.update({r: Integers(m, source.params) for r, m in zip(row.results, moved, strict=True)})
        return [Row(row.op, (source.slot, *row.operands[1:]), moved, kernel)]

    def _chain(self, quantize: Row) -> Chain | None:
        """The chain that ends in this quantization, None if there is none."""
        params = cast(nn.QuantizeOp, quantize.op).qparams.data
        if not per_tensor_8_bits(params):
            return None
        slot, bounds = bounded(self.program, quantize.operands[0])
        row = self.program.made_for_one(slot)
        if row is None or (make := CHAINS.get(type(row.op))) is None:
            return None
        return make(self.values, row, Result(params, bounds))


def _by(chain: Chain, row: Row) -> Row:
    return Row(row.op, chain.operands, row.results, chain.kernel)
