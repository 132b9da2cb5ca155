"""`--quantize-dynamic`: products with int8 weights whose inputs are quantized in each run, by a scale for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f16, f32, i8
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ....dialects.nn import (
    AbsOp,
    AddOp,
    CastOp,
    ConstantOp,
    DequantizeOp,
    DivOp,
    FusedOp,
    MatMulIntegerOp,
    MatMulOp,
    MaxOp,
    MulOp,
    NNOp,
    QParamsAttr,
    QuantizeOp,
    ReduceMaxOp,
    RoundOp,
    constant_of,
)
from ....dialects.nn.fused import outside
from ....dialects.nn.shapes import element_of, shape_of
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....rewriting import Remarks, Roots, StepPattern, condition, rewrite
from ....runtime.affine import LEAST_SCALE
from ....session import Session, session_of
from ...inline_fused import inline
from ..portable import why_inexact
from ..profiles import profile_of

_U8 = IntegerType(8, Signedness.UNSIGNED)
_WHOLE = QParamsAttr.of(i8, 1.0)
_STEPS, _MIDDLE = 127, 128
"""The largest integer of a row, and the zero point: onnxruntime multiplies uint8 by int8 faster than int8 by int8."""


@dataclass(frozen=True)
class Product:
    """A product of an activation with a dequantized weight."""

    op: MatMulOp
    weight: DequantizeOp


class _Rows(NamedTuple):
    """A value whose rows, along the last axis, are quantized."""

    integers: SSAValue
    """uint8, with the zero point 128; or between the points of an operation that computes on int8."""
    scale: SSAValue
    """The scale of each row: its last axis has size 1."""


class QuantizeDynamic(StepPattern[Product]):
    """a product with an int8 weight: each row of its input is quantized by its own largest number, in each run"""

    name = "dynamic"
    roots: ClassVar[Roots] = (MatMulOp,)

    def __init__(self, remarks: Remarks):
        super().__init__(remarks)
        self._rows: dict[SSAValue, _Rows] = {}
        self._kernels = profile_of(remarks.session).facts.kernels

    @condition
    def input_float(self, m: Product) -> str | None:
        """its input is float32, or float16 for targets that compute between points, and not quantized already"""
        if (element := element_of(m.op.lhs)) not in ((f32,) if self._kernels else (f32, f16)):
            return f"its input is of {element}"
        return "its input is quantized already" if isinstance(m.op.lhs.owner, DequantizeOp) else None

    @condition
    def rows(self, m: Product) -> str | None:
        """the rows of its input are summed over"""
        if m.op.transpose_a is not None:
            return "its input is transposed"
        return "its input is a vector" if len(shape_of(m.op.lhs)) < 2 else None

    @condition
    def int8_matrix(self, m: Product) -> str | None:
        """its weight is a matrix of int8 without zero points, with one scale, or one for each output channel"""
        params = m.weight.qparams.data
        if (rank := len(shape_of(m.op.rhs))) != 2:
            return f"its weight is of rank {rank}"
        if params.storage != i8 or any(params.zero_point):
            return f"its weight is of {params.storage}" if params.storage != i8 else "its weight has zero points"
        if params.block is not None:
            return "its weight has scales for groups of input channels"
        if params.axis not in (None, m.op.weight_axis):
            return "its weight has scales for input channels"
        return None

    def match(self, op: Operation) -> Product | None:
        if not isinstance(op, MatMulOp) or not isinstance(weight := op.rhs.owner, DequantizeOp):
            return None
        done = any(op.lhs is each.integers for each in self._rows.values())
        return None if done or constant_of(weight.input) is None else Product(op, weight)

    def rewrite(self, m: Product, rewriter: PatternRewriter) -> None:
        op, made = m.op, list[Operation]()
        integers, scale = self._rows.get(op.lhs) or self._quantized(op, rewriter)

        def step(kind: type[NNOp], *operands: Any, **given: Any) -> SSAValue:
            made.append(kind.make(*operands, location=op.location, **given))
            return made[-1].results[0]

        reason = None
        if self._kernels:
            weight, scales = self._weight(m), np.atleast_1d(m.weight.qparams.data.scales())
            reason = why_inexact(weight.array.T[None], op)
            factors = ConstantOp.of(scales, f"{weight.key}.scale", op.location)
            made += [weight, factors]
            sums = step(MatMulIntegerOp, integers, weight.result, lhs_zero_point=_MIDDLE)
            real = step(CastOp, sums, result_types=[TensorType(f32, shape_of(sums))])
            last = step(MulOp, real, step(MulOp, scale, factors.result))
        else:
            turned = op.transpose_b is not None
            last = step(MulOp, step(MatMulOp, integers, op.rhs, transpose_b=turned, origin=op.origin), scale)
        if op.bias is not None:
            last = step(AddOp, last, op.bias)
        if op.origin is not None:
            made[-1].properties["origin"] = op.origin
        rewriter.insert(made, InsertPoint.before(op))
        last.name_hint = op.result.name_hint
        self.remarks.applied(op, "dynamic", "a scale for each row of its input, in each run")
        if reason:
            self.remarks.note(op, "portable", reason)
        rewriter.replace(op, [], [last])
        if not any(m.weight.result.uses):
            rewriter.erase(m.weight)

    def _weight(self, m: Product) -> ConstantOp:
        """The integers as `[K, N]`; a constant with other readers stays as it is."""
        constant = constant_of(m.weight.input)
        assert constant is not None
        array = constant.array if m.op.transpose_b is None else np.ascontiguousarray(constant.array.T)
        return ConstantOp.of(array, constant.key, constant.location)

    def _quantized(self, op: MatMulOp, rewriter: PatternRewriter) -> _Rows:
        """The rows of a product's input, where it is made: `round(x / s)` with `s = max |x| / 127`."""
        made, value = list[Operation](), op.lhs
        dtype = numpy_dtype(element_of(value))
        least = max(LEAST_SCALE, float(np.finfo(dtype).tiny))

        def step(kind: type[NNOp], *operands: Any, **given: Any) -> SSAValue:
            made.append(kind.make(*operands, location=op.location, **given))
            return made[-1].results[0]

        def number(n: Array | float) -> SSAValue:
            made.append(ConstantOp.of(np.asarray(n, dtype), "number", op.location))
            return made[-1].results[0]

        def cast_to(element: Attribute, x: SSAValue) -> SSAValue:
            return step(CastOp, x, result_types=[TensorType(element, shape_of(x))])

        largest = step(ReduceMaxOp, step(AbsOp, value), axes=(-1,), keepdims=True)
        scale = step(DivOp, step(MaxOp, largest, number(least * _STEPS)), number(_STEPS))
        steps = step(DivOp, value, scale)
        if self._kernels:
            integers = cast_to(_U8, step(AddOp, step(RoundOp, steps), number(_MIDDLE)))
        else:
            points = step(QuantizeOp, steps, qparams=_WHOLE)
            integers = step(DequantizeOp, points, qparams=_WHOLE, result_types=[value.type])
        self._rows[value] = _Rows(integers, scale)
        owner = value.owner
        rewriter.insert(made, InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner))
        return self._rows[value]


@dataclass(frozen=True)
class QuantizeDynamicPass(ModulePass):
    """Quantize the inputs of products with int8 weights in each run, after `--quantize=weight-only=true`.

    Each row of an input has the scale `max |x| / 127`, so that nothing is calibrated; sums of products are int32, exact
    (`nn.matmul_integer`), and multiplied by the scales of row and output channel. For Ascend, which computes between points, the
    product stands between them, and rows are scaled around it. A region of `nn.fused` with such a product is unpacked. Products
    that stay have a remark; if all do, or there are none, that is a warning.
    """

    name = "quantize-dynamic"

    PATTERNS: ClassVar[tuple[type[QuantizeDynamic], ...]] = (QuantizeDynamic,)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantize_dynamic(op, session_of(ctx))


def quantize_dynamic(module: ModuleOp, session: Session) -> None:
    """Run the pass."""
    for region in [op for op in module.walk() if isinstance(op, FusedOp)]:
        products = (op for op in region.body.block.ops if isinstance(op, MatMulOp))
        if any(isinstance(outside(op.rhs).owner, DequantizeOp) for op in products):
            inline(region)
    remarks = Remarks(session, QuantizeDynamicPass.name)
    kinds = (*session.patterns_of(QuantizeDynamicPass.name), *QuantizeDynamicPass.PATTERNS)
    rewrite(module, *(kind(remarks) for kind in kinds))
    remarks.flush_requested("no input is quantized", "no product has a quantized weight")
