"""Lowers to operations on whole tensors for AscendNPU-IR, which does not have a `linalg.generic` with several steps.

A step on elements is an operation of arith or math on tensors, a conversion or rounding is `hfusion.cast`, sums over one axis or
more are `linalg.reduce`. Windows of pools are slices that are combined; convolutions are im2col and `linalg.matmul`, one for each
group or batch. All sizes must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.linalg.ops import BroadcastOp, MatmulOp, ReduceOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import IRDLOperation, Operand, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.printer import Printer

from amct_opt.dialects.nn import array_of
from amct_opt.dialects.nn.base import ANY_TENSOR, Result
from amct_opt.dialects.nn.shapes import element_of, shape_of, static
from amct_opt.lowering.refusal import NotLowered, require

from .build import Body, Builder, Multiplied, Scalars, key_of, reshaped, shaped, signless

_ROUNDING: dict[type[Operation], str] = {
    math.RoundEvenOp: "rint",
    math.FloorOp: "floor",
    math.CeilOp: "ceil",
    math.TruncOp: "trunc",
}


@irdl_op_definition
class CastOp(IRDLOperation):
    """`hfusion.cast`: elements of another type, or rounded in theirs."""

    name = "hfusion.cast"

    mode: StringAttr = prop_def(StringAttr)
    input: Operand = operand_def(ANY_TENSOR)
    init: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {{round_mode = #hfusion.round_mode<{self.mode.data}>}} ins(")
        printer.print_ssa_value(self.input)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(") outs(")
        printer.print_ssa_value(self.init)
        printer.print_string(" : ")
        printer.print_attribute(self.init.type)
        printer.print_string(") -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`arith.select` by a tensor of truth values, whose type upstream prints."""

    name = "arith.select"

    condition: Operand = operand_def(ANY_TENSOR)
    a: Operand = operand_def(ANY_TENSOR)
    b: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list((self.condition.type, self.result.type), printer.print_attribute)


class WholeBuilder(Builder):
    """Writes what rules say about elements as operations on tensors."""

    NAMED: ClassVar[bool] = False
    DIALECTS: ClassVar[frozenset[str]] = Builder.DIALECTS | {"hfusion"}

    def generic(
        self,
        operands: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        out: SSAValue,
        out_map: Sequence[AffineExpr],
        loops: int,
        body: Body,
    ) -> SSAValue:
        self._check(out, *(v for v, _ in operands))
        run = cast(Callable[..., SSAValue], body)
        sizes = shape_of(out)
        elements = WholeScalars(self, sizes)
        if len(set(out_map)) == loops:
            return run(elements, *(self._spread(v, [_loop(e) for e in exprs], sizes) for v, exprs in operands))
        (x, exprs), *rest = operands
        rows = [_coefficients(e, loops) for e in exprs]
        if all(len(row) == 1 for row in rows):
            require(not rest, "position", "it looks for the place of an element")
            return self._reduced(x, out, [i for i, e in enumerate(exprs) if e not in out_map], run)
        ((window, window_map),) = rest
        taps = [_loop(e) for e in window_map]
        for tap in product(*map(range, shape_of(window))):
            out = run(elements, self._tapped(x, rows, dict(zip(taps, tap, strict=True)), out_map, sizes), window, out)
        return out

    def contract(
        self,
        operands: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        out: SSAValue,
        out_map: Sequence[AffineExpr],
        loops: int,
        kinds: Multiplied,
    ) -> SSAValue:
        """A product by `linalg.matmul`: axes are sorted into batches, rows, columns and the sum."""
        self._check(out, *(v for v, _ in operands))
        results = [_loop(e) for e in out_map]
        size = dict(zip(results, shape_of(out), strict=True))
        for value, exprs in operands:
            rows = (_coefficients(e, loops) for e in exprs)
            size |= {next(iter(row)): s for row, s in zip(rows, shape_of(value), strict=True) if len(row) == 1}
        (a, left), (b, right) = (self._unfolded(v, exprs, size, loops) for v, exprs in operands)
        batches = [i for i in results if i in left and i in right]
        rows = [i for i in results if i in left and i not in right]
        columns = [i for i in results if i in right and i not in left]
        sums = [i for i in left if i in right and i not in results]
        batch, m, n, k = (prod(size[i] for i in group) for group in (batches, rows, columns, sums))
        a = reshaped(self, self.transpose(a, [left.index(i) for i in (*batches, *rows, *sums)]), [batch, m, k])
        b = reshaped(self, self.transpose(b, [right.index(i) for i in (*batches, *sums, *columns)]), [batch, k, n])
        order = [*batches, *rows, *columns]
        out = reshaped(self, self.transpose(out, [results.index(i) for i in order]), [batch, m, n])
        parts = [self._product(*(self._matrix(v, i) for v in (a, b, out))) for i in range(batch)]
        y = parts[0] if batch == 1 else self.add(tensor.ConcatOp(parts, 0, shaped([batch * m, n], element_of(out))))
        y = reshaped(self, y, [size[i] for i in order])
        return self.transpose(y, [order.index(i) for i in results])

    def _matrix(self, value: SSAValue, batch: int) -> SSAValue:
        """A matrix of a tensor `[batch, rows, columns]`."""
        count, rows, columns = shape_of(value)
        if count > 1:
            value = self.slice(value, [batch, 0, 0], [1, rows, columns], [1, 1, 1])
        return self.collapse(value, [[0, 1], [2]])

    def _product(self, a: SSAValue, b: SSAValue, out: SSAValue) -> SSAValue:
        return self.add(MatmulOp([a, b], [out], [out.type]))

    def transpose(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """Transposes two axes at a time, as hivm requires; constants are transposed here."""
        if (array := array_of(value)) is not None and list(perm) != list(range(len(perm))):
            return self.constant(array.transpose(perm), key_of(value))
        order = list(range(len(perm)))
        for i, axis in enumerate(perm):
            if (j := order.index(axis)) == i:
                continue
            swap = list(range(len(perm)))
            swap[i], swap[j], order[i], order[j] = j, i, order[j], order[i]
            out = self.empty([shape_of(value)[k] for k in swap], element_of(value))
            value = self.add(TransposeOp(value, out, DenseArrayBase.from_list(i64, swap), out.type))
        return value

    def _check(self, *values: SSAValue) -> None:
        require(all(static(shape_of(v)) for v in values), "dynamic", "AscendNPU-IR needs all sizes")

    def _spread(self, value: SSAValue, axes: Sequence[int], sizes: Sequence[int]) -> SSAValue:
        """A tensor with these of the result's axes, repeated along the others."""
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        value = self.transpose(value, order)
        if len(axes) == len(sizes):
            return value
        missing = [i for i in range(len(sizes)) if i not in axes]
        out = self.empty(sizes, element_of(value))
        return self.add(BroadcastOp(value, out, DenseArrayBase.from_list(i64, missing), out.type))

    def _reduced(self, x: SSAValue, out: SSAValue, axes: Sequence[int], run: Callable[..., SSAValue]) -> SSAValue:
        block = Block(arg_types=[element_of(x), element_of(out)])
        block.add_op(YieldOp(run(Scalars(block, self.op), *block.args)))
        return self.add(ReduceOp(x, out, DenseArrayBase.from_list(i64, list(axes)), Region(block)))

    def _tapped(
        self,
        x: SSAValue,
        rows: Sequence[dict[int, int]],
        tap: dict[int, int],
        out_map: Sequence[AffineExpr],
        sizes: Sequence[int],
    ) -> SSAValue:
        """The elements of all windows at one place of the window."""
        places = [_loop(e) for e in out_map]
        starts = [sum(c * tap[i] for i, c in row.items() if i in tap) for row in rows]
        moved = [next((i, c) for i, c in row.items() if i not in tap) for row in rows]
        counts = [sizes[places.index(i)] for i, _ in moved]
        return self.slice(x, starts, counts, [c for _, c in moved])

    def _unfolded(
        self, x: SSAValue, exprs: Sequence[AffineExpr], size: dict[int, int], loops: int
    ) -> tuple[SSAValue, list[int]]:
        """A tensor with one axis for each loop that reads it (im2col), and these loops; `size` has those of all loops."""
        rows = [_coefficients(e, loops) for e in exprs]
        places = [next(iter(row)) for row in rows]
        taps = [loop for row in rows for loop in list(row)[1:]]
        if not taps:
            return x, places
        sizes = [size[i] for i in places]
        parts: list[SSAValue] = []
        for tap in product(*(range(size[i]) for i in taps)):
            at = dict(zip(taps, tap, strict=True))
            starts = [sum(c * at[i] for i, c in row.items() if i in at) for row in rows]
            steps = [row[i] for row, i in zip(rows, places, strict=True)]
            parts.append(reshaped(self, self.slice(x, starts, sizes, steps), [1, *sizes]))
        y = parts[0]
        if len(parts) > 1:
            y = self.add(tensor.ConcatOp(parts, 0, shaped([len(parts), *sizes], element_of(x))))
        return reshaped(self, y, [*(size[i] for i in taps), *sizes]), [*taps, *places]


class WholeScalars(Scalars):
    """Steps on elements, of whole tensors of one shape."""

    def __init__(self, build: WholeBuilder, sizes: Sequence[int]):
        super().__init__(Block(), build.op)
        self.build = build
        self.sizes: list[int] = list(sizes)

    def add(self, op: Operation) -> SSAValue:
        kind = type(op)
        if kind in _ROUNDING:
            return self._cast(op.operands[0], element_of(op.operands[0]), _ROUNDING[kind])
        if isinstance(op, arith.MaxnumfOp | arith.MinnumfOp):
            if _is_least(op.operands[1]):
                return op.operands[0]
            bounded = arith.MaximumfOp if isinstance(op, arith.MaxnumfOp) else arith.MinimumfOp
            op = bounded(op.lhs, op.rhs)
        if isinstance(op, arith.NegfOp):
            return self.times(op.operand, self.like(-1, op.operand))
        if isinstance(op, math.Log1pOp):
            return self.add(math.LogOp(self.plus(op.operand, self.like(1, op.operand))))
        if isinstance(op, math.ExpM1Op):
            return self.plus(self.add(math.ExpOp(op.operand)), self.like(-1, op.operand))
        if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp) and element_of(op.lhs) == i8:
            a, b = (self._cast(v, i32, "rint") for v in op.operands)
            return self._cast(self.build.add(type(op)(a, b)), i8, "truncwithoverflow")
        require(not isinstance(op, tensor.ExtractOp), "position", "it looks elements up")
        return self.build.add(op)

    def product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """An operation on whole tensors stays one."""
        return self.times(a, b)

    def number(self, value: float, element: Attribute) -> SSAValue:
        stored = element_of_type(element)
        type_ = TensorType(signless(stored), self.sizes)
        if not isinstance(stored, AnyFloat):
            value = int(value)
        return self.build.add(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(cast(Any, type_), [value])))

    def position(self, loop: int) -> SSAValue:
        raise NotLowered("position", f"it computes with the place of an element along axis {loop}")

    def compare(self, name: str, a: SSAValue, b: SSAValue, unsigned: bool = False) -> SSAValue:
        op = super().compare(name, a, b, unsigned).owner
        assert isinstance(op, Operation)
        op.detach()
        self.build.made.remove(op)
        truth = TensorType(i1, self.sizes)
        return self.build.add(type(op).create(operands=[a, b], result_types=[truth], properties=op.properties))

    def choose(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.add(SelectOp(operands=[condition, a, b], result_types=[a.type]))

    def convert(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        have, to = element_of(x), signless(element_of_type(target))
        if have == to:
            return x
        if have == i8 and isinstance(to, AnyFloat):
            x = self._cast(x, i32, "rint")
        return self._cast(x, to, _mode(have, to))

    def _cast(self, x: SSAValue, element: Attribute, mode: str) -> SSAValue:
        init = self.build.empty(self.sizes, element)
        return self.build.add(
            CastOp(operands=[x, init], result_types=[init.type], properties={"mode": StringAttr(mode)})
        )


def _mode(source: Attribute, target: Attribute) -> str:
    """The rounding mode of hfusion: integers of 8 bits are rounded before, and have no other mode."""
    if isinstance(source, AnyFloat):
        return "rint" if isinstance(target, AnyFloat) or target == i8 else "trunc"
    narrower = not isinstance(target, AnyFloat) and _width(target) < _width(source)
    return "truncwithoverflow" if narrower else "rint"


def _width(element: Attribute) -> int:
    return cast(IntegerType, element).width.data


def element_of_type(kind: Attribute) -> Attribute:
    """An element type, or that of a tensor."""
    return cast("TensorType[Attribute]", kind).element_type if isinstance(kind, TensorType) else kind


def _is_least(value: SSAValue) -> bool:
    """Whether this is the bound of a product, which only keeps it apart from a sum."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, DenseIntOrFPElementsAttr):
        return False
    return element_of(value) == f32 and op.value.is_splat() and op.value.get_values()[0] == np.finfo(np.float32).min


def _loop(expr: AffineExpr) -> int:
    """The loop that an expression is."""
    from xdsl.ir.affine import AffineDimExpr

    assert isinstance(expr, AffineDimExpr)
    return expr.position


def _coefficients(expr: AffineExpr, loops: int) -> dict[int, int]:
    """The factors of the loops in an expression, by loop; it has no constant."""
    values = {i: expr.eval([int(i == j) for j in range(loops)], []) for i in range(loops)}
    return {i: factor for i, factor in values.items() if factor}
