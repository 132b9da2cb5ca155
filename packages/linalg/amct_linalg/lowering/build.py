"""Builders for the rules of the lowering to linalg: whole tensors, and the scalar operations inside `linalg.generic`.

linalg, tensor, arith and math know signless integers only, so that unsigned ones are stored in signless types of the same
width, and those of fewer than 8 bits in i8. Rules read from the operation that they lower what the bits mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i8,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from amct_opt.dialects.nn import ConstantOp, array_of
from amct_opt.dialects.nn.shapes import DYNAMIC, element_of, known, shape_of
from amct_opt.ir.array import Array
from amct_opt.ir.dtypes import Tensor, integer_range

Size = int | SSAValue
"""A size: a number, or a value of type index."""
INDEX = IndexType()


def integer_of(element: Attribute) -> IntegerType | None:
    """An element type, if it is one of integers."""
    return cast(IntegerType, element) if isinstance(element, IntegerType) else None


def signless(element: Attribute) -> Attribute:
    """The element type that stores a type of `nn`."""
    integer = integer_of(element)
    if integer is None or integer.width.data == 1:
        return element
    return i8 if integer.width.data < 8 else IntegerType(integer.width.data)


def is_unsigned(element: Attribute) -> bool:
    """Whether the integers of an element type are never negative; i1 is a truth value."""
    integer = integer_of(element)
    return integer is not None and (integer.signedness.data is Signedness.UNSIGNED or integer.width.data == 1)


def range_of(element: Attribute) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    return integer_range(cast(IntegerType, element))


class Multiplied(Protocol):
    """A product and its sum, by element types."""

    def body(self, s: Scalars, x: SSAValue, w: SSAValue, total: SSAValue, /) -> SSAValue:
        """`total + x * w`."""
        ...


class Builder:
    """Builds operations on tensors before one operation, with its location; remembers them so that they can be removed."""

    NAMED: ClassVar[bool] = True
    """Whether convolutions, with channels last, and products are named operations if linalg has them."""
    DIALECTS: ClassVar[frozenset[str]] = frozenset(
        {"arith", "builtin", "cf", "complex", "func", "linalg", "math", "scf", "stablehlo", "tensor", "tosa"}
    )
    """The dialects that the compilers of what is built read."""

    def __init__(self, op: Operation, root: Callable[[SSAValue, int], object]):
        self.op = op
        self.root = root
        """The origin of an unknown size, by value and axis: sizes with the same origin are equal."""
        self.made: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        """Inserts an operation; returns its first result."""
        op.location = self.op.location
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        self.made.append(op)
        return op.results[0]

    def take_back(self) -> None:
        for op in reversed(self.made):
            op.detach()
            op.erase()
        self.made.clear()

    # Constants

    def constant(self, array: Array, key: str = "constant") -> SSAValue:
        """A constant tensor. A large one stays `nn.constant`, whose array, which may be a view, is next to the text."""
        return self.add(ConstantOp.of(np.atleast_1d(array), key, self.op.location))

    def scalar(self, value: float, element: Attribute) -> SSAValue:
        return self.add(scalar_constant(value, element))

    def index(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, INDEX)))

    # Sizes

    def sizes(self, value: SSAValue) -> list[Size]:
        """The sizes of a tensor."""
        return [self.size(value, axis) for axis in range(len(shape_of(value)))]

    def size(self, value: SSAValue, axis: int) -> Size:
        size = shape_of(value)[axis]
        return size if known(size) else self.add(tensor.DimOp(value, self.index(axis)))

    def plus(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return self.add(arith.AddiOp(self.as_index(a), self.as_index(b)))

    def times(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        return self.add(arith.MuliOp(self.as_index(a), self.as_index(b)))

    def quotient(self, a: Size, b: int) -> Size:
        """`a / b`, rounded down; a is not negative."""
        return a // b if isinstance(a, int) else self.add(arith.DivUIOp(a, self.index(b)))

    def choose(self, predicate: str, a: SSAValue, b: int, on_true: Size, on_false: Size) -> SSAValue:
        """Chooses one of two sizes, by a comparison of an index with a number."""
        condition = self.add(arith.CmpiOp(a, self.index(b), predicate))
        return self.add(arith.SelectOp(condition, self.as_index(on_true), self.as_index(on_false)))

    def as_index(self, size: Size) -> SSAValue:
        return self.index(size) if isinstance(size, int) else size

    def sizes_known(self, value: SSAValue, sizes: Sequence[Size]) -> bool:
        """Whether a tensor has exactly these sizes, all of which are numbers."""
        return list(shape_of(value)) == list(sizes)

    # Tensors

    def empty(self, sizes: Sequence[Size], element: Attribute) -> SSAValue:
        return self.add(tensor.EmptyOp([s for s in sizes if not isinstance(s, int)], shaped(sizes, element)))

    def filled(self, sizes: Sequence[Size], element: Attribute, value: float) -> SSAValue:
        """A tensor that has one number everywhere."""
        return self.add(FillOp([self.scalar(value, element)], [self.empty(sizes, element)]))

    def generic(
        self,
        operands: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        out: SSAValue,
        out_map: Sequence[AffineExpr],
        loops: int,
        body: Body,
    ) -> SSAValue:
        """`linalg.generic` over `loops` loops; those that the result does not name are reductions.

        `body` takes the scalars, an element of each operand, and, if there are reductions, that of the result so far.
        """
        maps = [exprs for _, exprs in operands] + [out_map]
        parallel = set(out_map)
        names = [AffineExpr.dimension(i) for i in range(loops)]
        kinds = [IteratorType.PARALLEL if name in parallel else IteratorType.REDUCTION for name in names]
        values = [v for v, _ in operands]
        block = Block(arg_types=[*map(element_of, values), element_of(out)])
        scalars = Scalars(block, self.op)
        used = block.args if len(parallel) < loops else block.args[:-1]
        block.add_op(YieldOp(cast(Callable[..., SSAValue], body)(scalars, *used)))
        attributes = [AffineMapAttr(AffineMap(loops, 0, tuple(exprs))) for exprs in maps]
        kind_attributes = [IteratorTypeAttr(kind) for kind in kinds]
        return self.add(GenericOp(values, [out], Region(block), attributes, kind_attributes, [out.type]))

    def contract(
        self,
        operands: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        out: SSAValue,
        out_map: Sequence[AffineExpr],
        loops: int,
        kinds: Multiplied,
    ) -> SSAValue:
        """`out` plus the sums of products of two operands."""
        return self.generic(operands, out, out_map, loops, kinds.body)

    def elementwise(
        self, operands: Sequence[SSAValue], element: Attribute, body: Body, sizes: Sequence[Size]
    ) -> SSAValue:
        """Computes a result of these sizes element by element; operands of fewer axes, or of size 1, broadcast as in numpy.

        A constant of one element is a scalar inside.
        """
        scalars = [(array.item() if (array := array_of(v)) is not None and array.size == 1 else None) for v in operands]
        maps: list[tuple[SSAValue, Sequence[AffineExpr]]] = []
        for value, number in zip(operands, scalars, strict=True):
            if number is None:
                maps.append(self.broadcast(value, sizes))

        def run(s: Scalars, *elements: SSAValue) -> SSAValue:
            rest = iter(elements)
            given = [
                next(rest) if number is None else s.number(number, element_of(value))
                for value, number in zip(operands, scalars, strict=True)
            ]
            return cast(Callable[..., SSAValue], body)(s, *given)

        out = self.empty(sizes, element)
        return self.generic(maps, out, identity(len(sizes)), len(sizes), cast(Body, run))

    def broadcast(self, value: SSAValue, sizes: Sequence[Size]) -> tuple[SSAValue, Sequence[AffineExpr]]:
        """A tensor without the axes of size 1 that broadcast, and the axes of the result that it has."""
        shape, first = shape_of(value), len(sizes) - len(shape_of(value))
        gone = [i for i, size in enumerate(shape) if size == 1 and sizes[first + i] != 1]
        left = [i for i in range(len(shape)) if i not in gone]
        value = self.without(value, gone) if gone else value
        return value, [AffineExpr.dimension(first + i) for i in left]

    def without(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """A tensor without some axes, whose size is 1."""
        shape = shape_of(value)
        left = [i for i in range(len(shape)) if i not in axes]
        if (array := array_of(value)) is not None:
            return self.constant(array.reshape([shape[i] for i in left]), key_of(value))
        groups: list[list[int]] = [[i] for i in left]
        for i in axes if groups else ():
            groups[max(sum(j < i for j in left) - 1, 0)].append(i)
        groups = [sorted(group) for group in groups]
        return self.collapse(value, groups)

    def collapse(self, value: SSAValue, groups: Sequence[Sequence[int]]) -> SSAValue:
        """A tensor whose neighbouring axes are merged."""
        sizes = self.sizes_of_groups(value, groups)
        result = shaped(sizes, element_of(value))
        return self.add(
            tensor.CollapseShapeOp.build(
                operands=[value], result_types=[result], properties={"reassociation": _groups(groups)}
            )
        )

    def sizes_of_groups(self, value: SSAValue, groups: Sequence[Sequence[int]]) -> list[Size]:
        sizes: list[Size] = []
        for group in groups:
            size: Size = 1
            for axis in group:
                size = self.times(size, self.size(value, axis))
            sizes.append(size)
        return sizes

    def expand(self, value: SSAValue, groups: Sequence[Sequence[int]], sizes: Sequence[Size]) -> SSAValue:
        """A tensor whose axes are split: axis i into the axes `groups[i]` of these sizes."""
        static = [s if isinstance(s, int) else DYNAMIC for s in sizes]
        dynamic = [s for s in sizes if not isinstance(s, int)]
        result = shaped(sizes, element_of(value))
        return self.add(tensor.ExpandShapeOp(value, dynamic, _groups(groups), static, result))

    def cast(self, value: SSAValue, type_: Tensor) -> SSAValue:
        """A tensor by a type that knows more or fewer sizes."""
        return value if value.type == type_ else self.add(tensor.CastOp(value, type_))

    def slice(self, value: SSAValue, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int]) -> SSAValue:
        """Takes every `step`-th element of each axis, from `start` on."""
        dynamic = [[s for s in values if not isinstance(s, int)] for values in (starts, sizes)]
        known_ = [[s if isinstance(s, int) else DYNAMIC for s in values] for values in (starts, sizes, steps)]
        names = ("static_offsets", "static_sizes", "static_strides")
        lists = (DenseArrayBase.from_list(i64, values) for values in known_)
        return self.add(
            tensor.ExtractSliceOp.build(
                operands=[value, *dynamic, []],
                result_types=[shaped(sizes, element_of(value))],
                properties=dict(zip(names, lists, strict=True)),
            )
        )

    def pad(self, value: SSAValue, low: Sequence[int], high: Sequence[int], fill: float) -> SSAValue:
        """A tensor between margins of one number."""
        if not any(low) and not any(high):
            return value
        element, shape = element_of(value), shape_of(value)
        sizes: list[Size] = [
            before + size + after if known(size) else self.plus(self.size(value, i), before + after)
            for i, (before, size, after) in enumerate(zip(low, shape, high, strict=True))
        ]
        filling = self.scalar(fill, element)
        block = Block(arg_types=[INDEX] * len(shape))
        block.add_op(tensor.YieldOp(filling))
        result = shaped(sizes, element)
        return self.add(tensor.PadOp(value, [], [], Region(block), list(low), list(high), result))

    def covered(self, value: SSAValue, first: int, rows: Iterable[tuple[int, int, int]]) -> SSAValue:
        """The part of a padded value that a single window along an axis covers; `rows` are kernel, stride and dilation
        from axis `first` on. IREE drops loops of one step, and then expects that the rest covers the axis.
        """
        sizes = self.sizes(value)
        for i, (kernel, stride, dilation) in enumerate(rows, first):
            size, reach = sizes[i], dilation * (kernel - 1) + 1
            if isinstance(size, int) and reach < size < reach + stride:
                sizes[i] = reach
        if sizes == self.sizes(value):
            return value
        return self.slice(value, [0] * len(sizes), sizes, [1] * len(sizes))

    def transpose(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """A tensor with its axes in another order: `perm[i]` becomes axis i."""
        if list(perm) == list(range(len(perm))):
            return value
        if (array := array_of(value)) is not None:
            return self.constant(array.transpose(perm), key_of(value))
        sizes = [self.size(value, axis) for axis in perm]
        exprs: list[AffineExpr] = [AffineExpr.dimension(list(perm).index(i)) for i in range(len(perm))]
        out = self.empty(sizes, element_of(value))
        return self.generic([(value, exprs)], out, identity(len(perm)), len(perm), lambda s, x: x)


class Scalars:
    """Builds scalar operations at the end of the block of a `linalg.generic`."""

    def __init__(self, block: Block, of: Operation):
        self.block = block
        self.of = of

    def add(self, op: Operation) -> SSAValue:
        op.location = self.of.location
        self.block.add_op(op)
        return op.results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        return self.add(scalar_constant(value, element))

    def position(self, loop: int) -> SSAValue:
        """The index of the element along a loop."""
        return self.add(IndexOp(loop))

    def like(self, value: float, other: SSAValue) -> SSAValue:
        return self.number(value, other.type)

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.AddfOp(a, b) if is_real(a) else arith.AddiOp(a, b))

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.SubfOp(a, b) if is_real(a) else arith.SubiOp(a, b))

    def times(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.MulfOp(a, b) if is_real(a) else arith.MuliOp(a, b))

    def product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """A product that is rounded before anything is added to it.

        Compilers may contract a product and a sum into one operation that rounds once; IREE does so wherever it finds them. Here
        a choice stands between them: the product if it is below 1, and the larger of the product and 1 else.
        """
        y = self.times(a, b)
        if not is_real(y):
            return y
        one = self.like(1, y)
        return self.choose(self.compare("lt", y, one), y, self.most(y, one))

    def over(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.DivfOp(a, b))

    def least(self, a: SSAValue, b: SSAValue, unsigned: bool = False) -> SSAValue:
        """The smaller number; NaN if one is."""
        if is_real(a):
            return self.add(arith.MinimumfOp(a, b))
        return self.add(arith.MinUIOp(a, b) if unsigned else arith.MinSIOp(a, b))

    def most(self, a: SSAValue, b: SSAValue, unsigned: bool = False) -> SSAValue:
        """The larger number; NaN if one is."""
        if is_real(a):
            return self.add(arith.MaximumfOp(a, b))
        return self.add(arith.MaxUIOp(a, b) if unsigned else arith.MaxSIOp(a, b))

    def between(self, x: SSAValue, low: float, high: float, unsigned: bool = False) -> SSAValue:
        return self.least(self.most(x, self.like(low, x), unsigned), self.like(high, x), unsigned)

    def choose(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(arith.SelectOp(condition, a, b))

    def compare(self, name: str, a: SSAValue, b: SSAValue, unsigned: bool = False) -> SSAValue:
        """A truth value: `eq`, `ne`, `lt`, `le`, `gt`, `ge`. A NaN is unequal to everything, and compares as false."""
        if is_real(a):
            return self.add(arith.CmpfOp(a, b, "une" if name == "ne" else f"o{name}"))
        prefix = "" if name in ("eq", "ne") else "u" if unsigned else "s"
        return self.add(arith.CmpiOp(a, b, prefix + name))

    def function(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        return self.add(kind(*operands))

    def convert(self, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        """A number of an element type of `nn` as another one; integers that do not fit are undefined, as in C."""
        to = signless(target)
        if isinstance(to, AnyFloat):
            if isinstance(source, AnyFloat):
                return self._to_width(x, to)
            return self.add(arith.UIToFPOp(x, to) if is_unsigned(source) else arith.SIToFPOp(x, to))
        integer = cast(IntegerType, to)
        if isinstance(source, AnyFloat):
            return self.add(arith.FPToUIOp(x, integer) if is_unsigned(target) else arith.FPToSIOp(x, integer))
        have, want = _width(x.type), _width(to)
        if have == want:
            return x
        if have > want:
            return self.add(arith.TruncIOp(x, integer))
        return self.add(arith.ExtUIOp(x, integer) if is_unsigned(source) else arith.ExtSIOp(x, integer))

    def _to_width(self, x: SSAValue, target: AnyFloat) -> SSAValue:
        if x.type == target:
            return x
        wider = target.bitwidth > cast(AnyFloat, x.type).bitwidth
        if not wider and target.bitwidth == cast(AnyFloat, x.type).bitwidth:
            return self._to_width(self._to_width(x, f32), target)
        return self.add(arith.ExtFOp(x, target) if wider else arith.TruncFOp(x, target))


Body = (
    Callable[[Scalars, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue, SSAValue], SSAValue]
)
"""Builds the scalar operations of one element: the scalars first, then one value for each operand."""


def is_real(value: SSAValue) -> bool:
    """Whether a scalar, or the element of a tensor, is a float."""
    return isinstance(element_of(value) if isinstance(value.type, TensorType) else value.type, AnyFloat)


def reshaped(build: Builder, x: SSAValue, sizes: Sequence[Size]) -> SSAValue:
    """A tensor in other sizes: all axes are merged, then split."""
    if build.sizes_known(x, sizes):
        return x
    rank = len(shape_of(x))
    flat = build.collapse(x, [list(range(rank))]) if rank > 1 else x
    if not all(isinstance(s, int) for s in sizes):
        flat = build.cast(flat, TensorType(element_of(x), [DYNAMIC]))
    if len(sizes) == 1 and rank >= 1:
        return flat
    if rank == 0:
        return build.expand(x, [], sizes)
    if not sizes:
        return build.collapse(flat, [])
    return build.expand(flat, [list(range(len(sizes)))], sizes)


def scalar_constant(value: float, element: Attribute) -> arith.ConstantOp:
    """A number of an element type; integers outside of a signless type's range wrap to its bits."""
    if isinstance(element, AnyFloat):
        return arith.ConstantOp(FloatAttr(float(value), element))
    if isinstance(element, IndexType):
        return arith.ConstantOp(IntegerAttr(int(value), INDEX))
    stored = signless(element)
    width = _width(stored)
    number = int(value) & (2**width - 1)
    number -= 2**width if width > 1 and number >= 2 ** (width - 1) else 0
    return arith.ConstantOp(IntegerAttr(-number if width == 1 else number, cast(IntegerType, stored)))


def shaped(sizes: Sequence[Size], element: Attribute) -> Tensor:
    """The type of a tensor of these sizes."""
    return TensorType(element, [s if isinstance(s, int) else DYNAMIC for s in sizes])


def identity(rank: int) -> list[AffineExpr]:
    """The loops in their order, as the map of a tensor that has one axis for each."""
    return [AffineExpr.dimension(i) for i in range(rank)]


def key_of(value: SSAValue) -> str:
    """The name of a constant's array."""
    owner = value.owner
    return owner.key if isinstance(owner, ConstantOp) else value.name_hint or "constant"


def _groups(groups: Sequence[Sequence[int]]) -> ArrayAttr[Any]:
    return ArrayAttr([ArrayAttr([IntegerAttr(axis, i64) for axis in group]) for group in groups])


def _width(element: Attribute) -> int:
    return cast(IntegerType, element).width.data
