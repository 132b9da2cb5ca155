"""Lowers carried operators of ONNX that Ascend IR has or can express by other operators: same numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, StringAttr, i1
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import element_of, known, shape_of, static
from ...ir.dtypes import numpy_dtype
from ...rewriting import condition
from .indexing import sizes_of
from .rules import Builder, Lowering, Source, Values, lowers


@lowers(nn.OpaqueOp, source=("onnx", "IsNaN"))
def is_nan(build: Builder, op: nn.OpaqueOp) -> Values:
    """NaN test by NotEqual of x and x: only NaN differs from itself."""
    (x,) = op.inputs
    return [build.add(ascend.NotEqualOp, x, x).y]


@lowers(nn.OpaqueOp, source=("onnx", "Range"))
def range_(build: Builder, op: nn.OpaqueOp) -> Values:
    return [build.add(ascend.RangeOp, *op.inputs).y]


@lowers(nn.OpaqueOp, source=("onnx", "Tile"))
def tile(build: Builder, op: nn.OpaqueOp) -> Values:
    return [build.add(ascend.TileOp, *op.inputs).y]


@lowers(nn.OpaqueOp, source=("onnx", "ConstantOfShape"))
def constant_of_shape(build: Builder, op: nn.OpaqueOp) -> Values:
    """Fill; zeros of float32 by default."""
    (dims,) = op.inputs
    given = None if op.attrs is None else op.attrs.data.get("value")
    element = element_of(op.outputs[0])
    number = 0 if given is None else _scalar_of(given)
    value = build.constant(np.array([number], numpy_dtype(element)), f"{build.hint}_value")
    return [build.add(ascend.FillOp, dims, value).y]


def _scalar_of(tensor: object) -> int | float | bool:
    """The only element of a tensor attribute."""
    assert isinstance(tensor, DenseIntOrFPElementsAttr)
    (value,) = tensor.get_values()
    return value  # pyright: ignore[reportReturnType]


@lowers(nn.OpaqueOp, source=("onnx", "Trilu"))
def trilu(build: Builder, op: nn.OpaqueOp) -> Values:
    """Elements on one side of a diagonal, zeros on the other: by the difference of column and row."""
    x, k = (*op.arguments(), None)[:2]
    assert x is not None
    upper = op.attrs is None or _flag(op.attrs.data.get("upper"), True)
    keep = _one_side(build, x, k, upper)
    element = element_of(x)
    if element == i1:
        return [build.add(ascend.LogicalAndOp, keep, x).y]
    zero = build.constant(np.array(0, numpy_dtype(element)), f"{build.hint}_zero")
    return [build.add(ascend.SelectOp, keep, x, zero).y]


def _flag(value: object, default: bool) -> bool:
    return bool(value.value.data) if isinstance(value, IntegerAttr) else default


def _one_side(build: Builder, x: SSAValue, k: SSAValue | None, upper: bool) -> SSAValue:
    """Booleans `[rows, columns]`: whether column - row is at least k, or at most k."""
    rows, columns = shape_of(x)[-2:]
    diagonal = 0 if k is None else nn.constant_ints(k)
    if static((rows, columns)) and diagonal is not None:
        offset = diagonal if isinstance(diagonal, int) else diagonal[0]
        difference = np.arange(columns) - np.arange(rows)[:, None]
        return build.constant(difference >= offset if upper else difference <= offset, f"{build.hint}_kept")
    down, across = (_counted(build, x, axis, name) for axis, name in ((-2, "rows"), (-1, "columns")))
    down = build.add(ascend.UnsqueezeOp, down, axes=[1], name=f"{build.hint}_down").y
    difference = build.add(ascend.SubOp, across, down, name=f"{build.hint}_difference").y
    limit = build.index(0, "diagonal") if k is None else k
    kind = ascend.GreaterEqualOp if upper else ascend.LessEqualOp
    return build.add(kind, difference, limit, name=f"{build.hint}_kept").y


def _counted(build: Builder, x: SSAValue, axis: int, name: str) -> SSAValue:
    """0, 1, ... along an axis of x; the axis counts from the end."""
    shape = shape_of(x)
    if known(shape[axis]):
        return build.constant(np.arange(shape[axis]), f"{build.hint}_{name}")
    size = sizes_of(build, x, len(shape) + axis, 1, f"{name}_count")
    count = build.add(ascend.SqueezeOp, size, axis=[0], name=f"{build.hint}_{name}_scalar_of").y
    return build.add(
        ascend.RangeOp, build.index(0, "first"), count, build.index(1, "step"), name=f"{build.hint}_{name}"
    ).y


class OuterProduct(Lowering[nn.OpaqueOp]):
    """`i,j->ij` and similar equations without a sum: axes of size 1 and a product"""

    sources: ClassVar[tuple[Source, ...]] = (("onnx", "Einsum"),)

    @condition
    def outer_product(self, op: nn.OpaqueOp) -> str | None:
        """the result has the axes of one input before those of the other, and each of them once"""
        terms, result = _equation(op)
        outer = len(terms) == 2 and len(set(result)) == len(result) and "".join(terms) == result and result.isalpha()
        return None if outer else f"'{_text(op)}' is not an outer product"

    def rewrite(self, build: Builder, op: nn.OpaqueOp) -> Values:
        terms, result = _equation(op)
        first, second = op.inputs
        behind = [*range(len(terms[0]), len(result))]
        widened = build.add(ascend.UnsqueezeOp, first, axes=behind, name=f"{build.hint}_column").y
        return [build.add(ascend.MulOp, widened, second).y]


def _equation(op: nn.OpaqueOp) -> tuple[list[str], str]:
    """The axes of the inputs and of the result."""
    inputs, _, result = _text(op).replace(" ", "").partition("->")
    return inputs.split(","), result


def _text(op: nn.OpaqueOp) -> str:
    equation = None if op.attrs is None else op.attrs.data.get("equation")
    assert isinstance(equation, StringAttr)
    return equation.data


PATTERNS = (OuterProduct,)
