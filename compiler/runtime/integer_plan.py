"""A quantized `nn` module in integers: `quantize(op(dequantize(x), ...))` becomes one integer kernel.

What onnxruntime makes of the same chains in a QDQ file, with the same numbers: the chain must be whole, so that no value inside
has another reader, is watched or an output. Linear activations before the quantization belong to it. Passive operations move
integers. Whatever is not such a chain runs in float, as it does without this rewrite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Operation

from ..diagnostics import CompileError
from ..dialects import nn
from ..dialects.nn import QParams
from ..dialects.nn.shapes import DYNAMIC, element_of, shape_of
from .executor import Program, Row
from .kernels import Array, Kernel
from .kernels import quantized as kernels
from .kernels.quantized import Result, Sums, Weight
from .kernels.shape import padding

_PASSIVE = (
    nn.FlattenOp,
    nn.GlobalMaxPoolOp,
    nn.MaxPoolOp,
    nn.PadOp,
    nn.ReshapeOp,
    nn.SliceOp,
    nn.SplitOp,
    nn.SqueezeOp,
    nn.TransposeOp,
    nn.UnsqueezeOp,
)
"""Operations that take integers as they take reals, and give nothing but elements of operand 0, and zeros."""


class Integers(NamedTuple):
    """What a slot of reals holds, as integers in another slot."""

    slot: int
    params: QParams


class Chain(NamedTuple):
    """An integer kernel and the slots that it takes."""

    kernel: Kernel
    operands: tuple[int, ...]


def in_integers(program: Program) -> Program:
    """The same slots, quantized operations computed in integers. Raises CompileError where there are none."""
    rewritten = _Rewriter(program).rewritten()
    if not any(row.kernel is not None for row in rewritten.rows):
        hint = "quantize first: --profile=qdq --fuse-all --quantize; ascend modules compute in integers by themselves"
        raise CompileError("no operation of this module takes and gives integers", hint=hint)
    return rewritten


class _Rewriter:
    def __init__(self, program: Program):
        self.program, self.slots = program, program.slots
        self.integers: dict[int, Integers] = {}
        self.maker = {slot: row for row in program.rows for slot in row.results}
        self.uses = Counter(slot for row in program.rows for slot in row.operands)
        self.uses.update(program.asked)

    def rewritten(self) -> Program:
        asked = self.program.asked
        rows = [new for row in self.program.rows for new in self._rewrite(row)]
        unchained = {row.results for row in _live(rows, asked)}
        rows = [self._with_integer_sums(row) if row.results in unchained else row for row in rows]
        return Program(self.slots, self.program.constants, _live(rows, asked), asked)

    def _rewrite(self, row: Row) -> list[Row]:
        op = row.op
        if isinstance(op, nn.DequantizeOp) and element_of(op.result) == f32:
            self.integers[row.results[0]] = Integers(row.operands[0], op.qparams.data)
        if isinstance(op, nn.QuantizeOp) and (chain := self._chain(row)) is not None:
            return [_by(chain, row)]
        return [row, *self._moved(row)] if isinstance(op, _PASSIVE) else [row]

    def _with_integer_sums(self, row: Row) -> Row:
        """A matrix product whose result stays float."""
        chain = _float_product(self, row) if isinstance(row.op, nn.MatMulOp) else None
        return row if chain is None else _by(chain, row)

    def _moved(self, row: Row) -> list[Row]:
        """The row on integers, where its operand is given as such."""
        source = self.integers.get(row.operands[0])
        if source is None or source.params.axis is not None or _fills_in_reals(row.op):
            return []
        moved = tuple(range(self.slots, self.slots + len(row.results)))
        self.slots += len(moved)
        self.integers.update({r: Integers(m, source.params) for r, m in zip(row.results, moved, strict=True)})
        zero = int(source.params.zero_points())
        kernel = padding(row.op, zero) if isinstance(row.op, nn.PadOp) else None
        return [Row(row.op, (source.slot, *row.operands[1:]), moved, kernel)]

    def _chain(self, quantize: Row) -> Chain | None:
        """What ends in this quantization, None where it is no chain."""
        params = cast(nn.QuantizeOp, quantize.op).qparams.data
        if not _per_tensor_8_bits(params):
            return None
        bounds: list[tuple[float, float]] = []
        slot = quantize.operands[0]
        while (row := self._only_for_one(slot)) is not None and (bound := _BOUNDS.get(type(row.op))) is not None:
            bounds.append(bound(row.op))
            slot = row.operands[0]
        if row is None or (make := _CHAINS.get(type(row.op))) is None:
            return None
        return make(self, row, Result(params, _together(bounds)))

    def _only_for_one(self, slot: int) -> Row | None:
        """The row that makes a value, where the value has one reader."""
        return self.maker.get(slot) if self.uses[slot] == 1 else None

    def activations(self, slots: Sequence[int]) -> list[Integers] | None:
        """Integers of 8 bits with one scale, None where one of the slots has not such."""
        found = [self.integers.get(slot) for slot in slots]
        present = [i for i in found if i is not None and _per_tensor_8_bits(i.params)]
        return present if len(present) == len(found) else None

    def weight(self, x: Integers, slot: int, bias_slot: int | None = None, *, axis: int) -> Weight | None:
        """A constant weight of 8 bits without zero points, scales along `axis` if any, and its bias at the scale of the sums."""
        integers = self.integers.get(slot)
        array = None if integers is None else self.program.constants.get(integers.slot)
        if integers is None or array is None:
            return None
        p = integers.params
        if p.storage.width.data != 8 or any(p.zero_point) or p.axis not in (None, axis):
            return None
        if bias_slot is None:
            return Weight(p, array)
        bias = self._bias(bias_slot, np.asarray(x.params.scales() * p.scales()))
        return None if bias is None else Weight(p, array, bias)

    def sums(self, row: Row, bias: Sequence[int]) -> tuple[Sums, QParams, QParams, tuple[int, ...]] | None:
        """Of a matrix product, whose second operand is a weight or an activation: sums, parameters, and operands."""
        op = cast(nn.MatMulOp, row.op)
        if (x := self.activations(row.operands[:1])) is None:
            return None
        rank = len(shape_of(op.rhs))
        axis = rank - 2 if op.transpose_b is not None else rank - 1
        if (weight := self.weight(x[0], row.operands[1], *bias, axis=axis)) is not None:
            return kernels.matmul_sums(op, x[0].params, weight), x[0].params, weight.params, (x[0].slot,)
        if bias or (both := self.activations(row.operands[:2])) is None:
            return None
        a, b = both
        return kernels.matmul_of_activations(op, a.params, b.params), a.params, b.params, (a.slot, b.slot)

    def _bias(self, slot: int, scale: Array) -> Array | None:
        integers = self.integers.get(slot)
        if integers is None or integers.params.storage != i32 or any(integers.params.zero_point):
            return None
        fits = np.array_equal(np.broadcast_to(integers.params.scales(), scale.shape), scale)
        return self.program.constants.get(integers.slot) if fits else None


def _conv(rewriter: _Rewriter, row: Row, result: Result) -> Chain | None:
    op = cast(nn.ConvOp, row.op)
    x = rewriter.activations(row.operands[:1])
    if x is None or (weight := rewriter.weight(x[0], *row.operands[1:], axis=0)) is None:
        return None
    return Chain(kernels.quantized_conv(op, x[0].params, weight, result), (x[0].slot,))


def _product(rewriter: _Rewriter, row: Row, result: Result) -> Chain | None:
    """A product with a bias that is no Gemm is no chain: the bias is added in float."""
    op, bias = cast(nn.MatMulOp, row.op), row.operands[2:]
    if bias and not _is_gemm(op):
        return None
    if (found := rewriter.sums(row, bias)) is None:
        return None
    sums, x, weight, slots = found
    return Chain(kernels.quantized_product(sums, x, weight, result), slots)


def _float_product(rewriter: _Rewriter, row: Row) -> Chain | None:
    op, bias = cast(nn.MatMulOp, row.op), row.operands[2:]
    if (found := rewriter.sums(row, bias if _is_gemm(op) else ())) is None:
        return None
    sums, x, weight, slots = found
    product = kernels.float_product(sums, x, weight)
    return Chain(product, slots) if _is_gemm(op) or not bias else Chain(kernels.biased(product), (*slots, *bias))


def _is_gemm(op: nn.MatMulOp) -> bool:
    """Whether onnxruntime makes one operation of a product and its bias: of rows of a known number and a matrix."""
    rows = shape_of(op.lhs)
    return len(shape_of(op.rhs)) == 2 and (len(rows) == 2 or DYNAMIC not in rows)


def _pairs(make: Callable[[QParams, QParams, Result], Kernel]) -> Callable[[_Rewriter, Row, Result], Chain | None]:
    def chain(rewriter: _Rewriter, row: Row, result: Result) -> Chain | None:
        if (both := rewriter.activations(row.operands)) is None:
            return None
        a, b = both
        return Chain(make(a.params, b.params, result), (a.slot, b.slot))

    return chain


def _pool(make: Callable[[Any, QParams, Result], Kernel]) -> Callable[[_Rewriter, Row, Result], Chain | None]:
    def chain(rewriter: _Rewriter, row: Row, result: Result) -> Chain | None:
        if (x := rewriter.activations(row.operands)) is None:
            return None
        return Chain(make(row.op, x[0].params, result), (x[0].slot,))

    return chain


_CHAINS: dict[type[Operation], Callable[[_Rewriter, Row, Result], Chain | None]] = {
    nn.ConvOp: _conv,
    nn.MatMulOp: _product,
    nn.AddOp: _pairs(kernels.quantized_add),
    nn.MulOp: _pairs(kernels.quantized_mul),
    nn.AveragePoolOp: _pool(kernels.quantized_average_pool),
    nn.GlobalAveragePoolOp: _pool(kernels.quantized_global_average_pool),
}
"""Operations with an integer kernel."""

_BOUNDS: dict[type[Operation], Callable[[Any], tuple[float, float]]] = {
    nn.ReluOp: lambda _: (0.0, float("inf")),
    nn.Relu6Op: lambda _: (0.0, 6.0),
    nn.ClipOp: lambda op: op.bounds,
}
"""Linear activations."""


def _by(chain: Chain, row: Row) -> Row:
    return Row(row.op, chain.operands, row.results, chain.kernel)


def _fills_in_reals(op: Operation) -> bool:
    """Whether an operation pads with what may not be on the grid."""
    return isinstance(op, nn.PadOp) and op.mode.data is nn.PadMode.CONSTANT and op.value.value.data != 0


def _together(bounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """One pair of bounds for several, the last of which acts first."""
    low, high = float("-inf"), float("inf")
    for least, most in reversed(bounds):
        low, high = min(max(low, least), most), min(max(high, least), most)
    return low, high


def _per_tensor_8_bits(p: QParams) -> bool:
    return p.axis is None and p.storage.width.data == 8


def _live(rows: Sequence[Row], asked: frozenset[int]) -> list[Row]:
    """The rows that something asked for depends on."""
    needed, live = set(asked), list[Row]()
    for row in reversed(rows):
        if not needed.isdisjoint(row.results):
            needed.update(row.operands)
            live.append(row)
    return live[::-1]
