"""Weight-only quantization, weights with offsets, and activations with scales per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr, bf16, f16, f32
from xdsl.ir import SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ..nn.base import ANY_TENSOR, BOOL, INT, TEXT, Bool, Int, Result, Text, integer
from ..nn.shapes import (
    Shape,
    axis_of,
    broadcast,
    element_of,
    known,
    merge_dim,
    merge_shape,
    same_element,
    shape_of,
    tensor,
)
from .base import DATA_TYPES, FALSE, FB, AscendOp, ElementTypes, check_choice, declare, i4, i8
from .quantization import STORAGE

_HALF: ElementTypes = (f16, bf16)


@declare(x=(i8,), offset=(i8,))
class AscendWeightQuantOp(AscendOp):
    """`x - offset`, the integers of a weight without its zero points; they must fit into int8 (`dst_type 2`) or int4 (29).

    x int8; offset int8, of a shape that broadcasts to x. A difference out of range is an error at run time.
    """

    DEVIATION: ClassVar[str] = "the header gives no formula"

    x: Operand = operand_def(ANY_TENSOR)
    offset: Operand = operand_def(ANY_TENSOR)
    dst_type: Int = prop_def(INT, default_value=integer(2))
    y: Result = result_def(ANY_TENSOR)

    @property
    def storage(self) -> IntegerType:
        return _storage(self.dst_type.value.data)

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        merge_shape(x, broadcast(x, shape_of(self.offset)), "shapes of x and broadcast offset")
        return [tensor(self.storage, x)]


@declare(x=FB, scale=FB, offset=FB)
class AscendQuantV2Op(AscendOp):
    """`clip(round(x * scale + offset))` along `axis`, to int8 (`dst_type 2`) or int4 (29).

    x of any shape; scale and offset of its element type, `[1]` or as long as the axis. Product, sum and rounding each round to
    float32; with `sqrt_mode` the product is `x * scale * scale`.
    """

    x: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    offset: OptOperand = opt_operand_def(ANY_TENSOR)
    sqrt_mode: Bool = prop_def(BOOL, default_value=FALSE)
    round_mode: Text = prop_def(TEXT, default_value=StringAttr("round"))
    dst_type: Int = prop_def(INT, default_value=integer(2))
    axis: Int = prop_def(INT, default_value=integer(-1))
    y: Result = result_def(ANY_TENSOR)

    @property
    def storage(self) -> IntegerType:
        return _storage(self.dst_type.value.data)

    @property
    def parameter_shape(self) -> Shape:
        """The shape in which a vector of parameters broadcasts to x."""
        rank = len(shape_of(self.x))
        return (-1, *(1,) * (rank - 1 - axis_of(self.axis.value.data, rank)))

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        check_choice("round_mode", self.round_mode, ("round", "floor", "ceil", "trunc"))
        same_element(self.x, self.scale, self.offset)
        length = x[axis_of(self.axis.value.data, len(x))]
        for name, value in (("scale", self.scale), ("offset", self.offset)):
            if value is not None:
                _check_vector(name, value, length, "axis")
        if self.storage == i4 and known(x[-1]) and x[-1] % 2:
            raise VerifyException("int4 needs an even last size")
        return [tensor(self.storage, x)]


@declare(x=(i8, i4), scale=(f32, bf16), offset=(f32, bf16))
class AscendAntiQuantV2Op(AscendOp):
    """`(x + offset) * scale` along the last axis, as float16 (`dst_type 1`) or bfloat16 (27).

    x int8 or int4; scale and offset of one type, `[1]` or as long as the last axis. Sum and product each round to float32; with
    `sqrt_mode` it is multiplied twice.
    """

    x: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    offset: OptOperand = opt_operand_def(ANY_TENSOR)
    dst_type: Int = prop_def(INT, default_value=integer(1))
    sqrt_mode: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x, element = shape_of(self.x), DATA_TYPES.get(self.dst_type.value.data)
        if element is None or element not in _HALF:
            raise VerifyException(f"dst_type {self.dst_type.value.data} is neither 1 (float16) nor 27 (bfloat16)")
        if not x:
            raise VerifyException("x must be of rank 1 or more, not 0")
        same_element(self.scale, self.offset)
        for name, value in (("scale", self.scale), ("offset", self.offset)):
            if value is not None:
                _check_vector(name, value, x[-1], "last axis")
        return [tensor(element, x)]


@declare(x=_HALF, weight=(i8, i4), antiquant_scale=_HALF, antiquant_offset=_HALF, bias=(*_HALF, f32))
class WeightQuantBatchMatmulV2Op(AscendOp):
    """`x * ((weight + antiquant_offset) * antiquant_scale) + bias`: a product of floats with a quantized weight.

    x `[M, K]`, weight `[K, N]` int8 or int4, after their transpose flags; antiquant_scale and antiquant_offset `[1]`, `[N]`, or
    with `antiquant_group_size` g `[ceil(K/g), N]`; bias `[N]` as x or float32; y `[M, N]` as x. The weight is computed in
    float32 and rounded to the type of x; sums are taken in float32.
    """

    DEVIATION: ClassVar[str] = (
        "antiquant_offset is not optional (zeros where the weight is symmetric); the float result only: quant_scale and "
        "quant_offset are left out"
    )

    x: Operand = operand_def(ANY_TENSOR)
    weight: Operand = operand_def(ANY_TENSOR)
    antiquant_scale: Operand = operand_def(ANY_TENSOR)
    antiquant_offset: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    transpose_x: Bool = prop_def(BOOL, default_value=FALSE)
    transpose_weight: Bool = prop_def(BOOL, default_value=FALSE)
    antiquant_group_size: Int = prop_def(INT, default_value=integer(0))
    dtype: Int = prop_def(INT, default_value=integer(-1))
    inner_precise: Int = prop_def(INT, default_value=integer(0))
    y: Result = result_def(ANY_TENSOR)

    @property
    def group_size(self) -> int:
        return self.antiquant_group_size.value.data

    def derive(self) -> Sequence[Tensor]:
        for name, only, value in (("dtype", -1, self.dtype), ("inner_precise", 0, self.inner_precise)):
            if value.value.data != only:
                raise VerifyException(f"{name} must be {only}")
        element = same_element(self.x, self.antiquant_scale, self.antiquant_offset)
        (m, k), (rows, n) = (
            _matrix(name, value, bool(flag.value.data))
            for name, value, flag in (
                ("x", self.x, self.transpose_x),
                ("weight", self.weight, self.transpose_weight),
            )
        )
        k = merge_dim(k, rows, "contracted sizes")
        if self.group_size < 0:
            raise VerifyException(f"antiquant_group_size must not be negative, but is {self.group_size}")
        for name, value in (("antiquant_scale", self.antiquant_scale), ("antiquant_offset", self.antiquant_offset)):
            self._check_parameter(name, value, k, n)
        if self.bias is not None:
            _check_vector("bias", self.bias, n, "columns", one=False)
            if element_of(self.bias) not in (element, f32):
                raise VerifyException(f"bias is of {element_of(self.bias)}, expected {element} or {f32}")
        return [tensor(element, (m, n))]

    def _check_parameter(self, name: str, value: SSAValue, k: int, n: int) -> None:
        if not self.group_size:
            _check_vector(name, value, n, "columns")
            return
        shape = shape_of(value)
        if len(shape) != 2:
            raise VerifyException(f"{name} must be of rank 2 next to antiquant_group_size, not {len(shape)}")
        if known(k):
            merge_dim(shape[0], -(-k // self.group_size), f"rows of {name} and groups")
        merge_dim(shape[1], n, f"columns of {name} and of weight")


def _matrix(name: str, value: SSAValue, transposed: bool) -> Shape:
    shape = shape_of(value)
    if len(shape) != 2:
        raise VerifyException(f"{name} must be of rank 2, not {len(shape)}")
    return shape[::-1] if transposed else shape


def _check_vector(name: str, value: SSAValue, length: int, what: str, one: bool = True) -> None:
    """Raises VerifyException unless there is one number per element of an axis, or one for all."""
    shape = shape_of(value)
    if len(shape) != 1:
        raise VerifyException(f"{name} must be of rank 1, not {len(shape)}")
    if not (one and shape == (1,)):
        merge_dim(length, shape[0], f"{what} and {name} length")


def _storage(number: int) -> IntegerType:
    if (storage := STORAGE.get(number)) is None:
        raise VerifyException(f"dst_type {number} is neither 2 (int8) nor 29 (int4)")
    return storage


__all__ = ["AscendAntiQuantV2Op", "AscendQuantV2Op", "AscendWeightQuantOp", "WeightQuantBatchMatmulV2Op"]
