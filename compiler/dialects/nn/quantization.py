"""Quantization: points where values are observed, and the steps from reals to integers and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, Float8E8M0FNUType, IntegerType, f16, f32, i32
from xdsl.ir import OpResult, SSAValue
from xdsl.irdl import Operand, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, integer_range, is_float, is_narrow_float
from ...ir.number_formats import ACTIVATION_FORMATS
from ...ir.weights import Weight
from .attributes import ParamsSourceAttr, RangeAttr
from .base import ANY_TENSOR, FLAG, INT, INTS, TEXT, Flag, Int, Ints, NNOp, Result, Text, integer, ints, operation
from .permutations import Moved, Perm
from .qparams import QParams, QParamsAttr, blocks_of
from .shapes import Shape, axis_of, element_of, merge_dim, shape_of, static, tensor, tensor_of


class PointOp(NNOp):
    """Base of operations on a value between layers: they attach quantization parameters to it, or round it to them."""

    KEEPS_SHAPE: ClassVar[bool] = True

    @property
    def acts_by_sample(self) -> bool:
        qparams = self.properties.get("qparams")
        return not isinstance(qparams, QParamsAttr) or (qparams.data.axis != 0 and qparams.data.block is None)

    def axis_behind(self, axis: int) -> int | None:
        return axis

    def commuted(self, perm: Perm) -> Moved | None:
        qparams = self.properties.get("qparams")
        if not isinstance(qparams, QParamsAttr) or qparams.data.axis is None:
            return Moved((perm,), {}, (perm,))
        moved = qparams.data.transposed(perm, shape_of(self.operands[0]))
        return Moved((perm,), {"qparams": QParamsAttr(moved)}, (perm,))

    def check_axis(self, qparams: QParamsAttr) -> None:
        """Checks that the axis exists and has one scale per index, or one per block."""
        p, shape = qparams.data, shape_of(self.operands[0])
        if p.axis is None:
            return
        axis = axis_of(p.axis, len(shape))
        if p.block is not None:
            self._check_blocks(p, shape)
            return
        if not isinstance(p.scale, Weight):
            merge_dim(shape[axis], len(p.scale), f"size of axis {axis} and number of scales")
        if len(p.zero_point) > 1:
            merge_dim(shape[axis], len(p.zero_point), f"size of axis {axis} and number of zero points")

    def _check_blocks(self, p: QParams, shape: Shape) -> None:
        if not static(shape):
            raise VerifyException("blocks need a tensor of known sizes")
        assert p.axis is not None
        assert p.block is not None
        count = prod(blocks_of(shape, p.axis, p.block))
        for name, numbers in (("scales", p.scale), ("zero points", p.zero_point)):
            if not isinstance(numbers, Weight) and len(numbers) != count and (numbers is p.scale or len(numbers) > 1):
                raise VerifyException(f"{len(numbers)} {name} for {count} blocks")


@operation
class ObserveOp(PointOp):
    """A quantization point: an identity on a value, for the consumers that share one observer specification.

    input of any float shape, result as input. `point` is `"layer:operand"` of the (first) consumer, `observer` the algorithm,
    `bits` and `symmetric` the specification. Calibration adds `range`, `qparams` and `source`; points with one `group` carry
    equal parameters: those of its `master`s, if it has any, otherwise of all members. `joint` members of a group are observed
    together, as if their values were one. A scale of `fp16_scale` keeps as many bits as float16's has (AMCT's FORCE_FP16_QUANT).
    With a `number_format` (`fp8-e4m3`, `fp8-e5m2`) the value becomes floats of 8 bits, whose scale follows from `range`.
    """

    KEYWORDS: ClassVar[Mapping[str, str]] = {"point": "as", "observer": "by", "qparams": "gives", "source": "given"}

    input: Operand = operand_def(ANY_TENSOR)
    point: Text = prop_def(TEXT)
    observer: Text = prop_def(TEXT)
    bits: Int = prop_def(INT, default_value=integer(8))
    symmetric: Flag | None = opt_prop_def(FLAG)
    range: RangeAttr | None = opt_prop_def(RangeAttr)
    qparams: QParamsAttr | None = opt_prop_def(QParamsAttr)
    source: ParamsSourceAttr | None = opt_prop_def(ParamsSourceAttr)
    group: Text | None = opt_prop_def(TEXT)
    master: Flag | None = opt_prop_def(FLAG)
    joint: Flag | None = opt_prop_def(FLAG)
    fp16_scale: Flag | None = opt_prop_def(FLAG)
    number_format: Text | None = opt_prop_def(TEXT)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        if not is_float(element_of(self.input)):
            raise VerifyException("only float values are observed")
        if self.number_format is not None and self.number_format.data not in ACTIVATION_FORMATS:
            known = " or ".join(ACTIVATION_FORMATS)
            raise VerifyException(f"number_format must be {known}, not '{self.number_format.data}'")
        if self.joint is not None and self.group is None:
            raise VerifyException("joint needs a group")
        if not 2 <= (bits := self.bits.value.data) <= 16:
            raise VerifyException(f"bits must lie in [2, 16], not {bits}")
        if self.qparams is not None and self.qparams.data.storage.width.data != bits:
            raise VerifyException(f"parameters for {self.qparams.data.storage} at a point of {bits} bits")
        if self.qparams is not None and self.qparams.data.block is not None:
            raise VerifyException("a point has no blocks")
        return [tensor_of(self.input)]


@operation
class QuantizeOp(PointOp):
    """`saturate(round_half_even(x / scale) + zero_point)` (ONNX QuantizeLinear).

    input of any float shape, result of the same shape in the storage type of `qparams`. NaN becomes the least integer.
    `group` and `master` are those of the point.
    """

    KEYWORDS: ClassVar[Mapping[str, str]] = {"qparams": "by", "source": "given"}

    input: Operand = operand_def(ANY_TENSOR)
    qparams: QParamsAttr = prop_def(QParamsAttr)
    source: ParamsSourceAttr | None = opt_prop_def(ParamsSourceAttr)
    group: Text | None = opt_prop_def(TEXT)
    master: Flag | None = opt_prop_def(FLAG)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        if not is_float(element_of(self.input)):
            raise VerifyException("input must be of a float type")
        self.check_axis(self.qparams)
        return [tensor(self.qparams.data.storage, shape_of(self.input))]


@operation
class DequantizeOp(PointOp):
    """`(q - zero_point) * scale` (ONNX DequantizeLinear).

    input of any shape in the storage type of `qparams`, result of the same shape in float32, or in the declared float type.
    `bits` and `levels` state that a weight uses fewer integers than its type has: those of this many bits, or these, ascending.
    """

    KEYWORDS: ClassVar[Mapping[str, str]] = {"qparams": "by"}

    input: Operand = operand_def(ANY_TENSOR)
    qparams: QParamsAttr = prop_def(QParamsAttr)
    bits: Int | None = opt_prop_def(INT)
    levels: Ints | None = opt_prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    @property
    def level_list(self) -> tuple[int, ...]:
        """The integers of a weight of few levels; empty if it may have all."""
        return () if self.levels is None else ints(self.levels)

    def infer(self) -> Sequence[Tensor]:
        storage: IntegerType = self.qparams.data.storage
        low, high = integer_range(storage)
        if self.bits is not None and not 2 <= self.bits.value.data <= storage.width.data:
            raise VerifyException(f"bits must lie in [2, {storage.width.data}], not {self.bits.value.data}")
        levels = self.level_list
        if not all(low <= level <= high for level in levels) or list(levels) != sorted(set(levels)):
            raise VerifyException(f"levels must ascend in [{low}, {high}]")
        if element_of(self.input) != storage:
            raise VerifyException(f"input is of {element_of(self.input)}, the parameters are for {storage}")
        if not is_float(element_of(self.result)):
            raise VerifyException("result must be of a float type")
        self.check_axis(self.qparams)
        return [tensor(element_of(self.result), shape_of(self.input))]


@operation
class QuantizeFloatOp(PointOp):
    """`x / scale` in float32, as the nearest float of 8 bits, ties to even (ONNX QuantizeLinear with `saturate`).

    input of any float shape; scale f32 `[]`; result of the same shape in f8E4M3FN or f8E5M2. Beyond the range of the type,
    and for infinity, the largest number; NaN stays NaN.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def commuted(self, perm: Perm) -> Moved | None:
        return Moved((perm, None), {}, (perm,))

    def infer(self) -> Sequence[Tensor]:
        if not is_float(element_of(self.input)):
            raise VerifyException("input must be of a float type")
        if element_of(self.scale) != f32 or shape_of(self.scale) != ():
            raise VerifyException("scale must be one number of f32")
        element = element_of(self.result)
        if not isinstance(element, Float8E4M3FNType | Float8E5M2Type):
            raise VerifyException(f"result must be of f8E4M3FN or f8E5M2, not {element}")
        return [tensor(element, shape_of(self.input))]


@operation
class DequantizeFloatOp(PointOp):
    """`x * scale` in float32, for numbers that are stored in floats of 8 or 4 bits (ONNX DequantizeLinear).

    input of f8E4M3FN, f8E5M2, f4E2M1FN, or f16 with the numbers of HiF8; scale f32, f8E8M0FNU or f8E4M3FN: `[]`, `[size of
    axis]`, or with `block` one for this many indices of `axis` and each index of the others, `[ceil(K / block), N]` for an input
    `[K, N]` with axis 0. result as input, in float32 or the declared float type. A scale that has a scale of its own (NVFP4) is
    the result of this operation.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    axis: Int | None = opt_prop_def(INT)
    block: Int | None = opt_prop_def(INT)
    result: Result = result_def(ANY_TENSOR)

    @property
    def acts_by_sample(self) -> bool:
        return self.axis is None

    def axis_behind(self, axis: int) -> int | None:
        return axis if self.axis is None else None

    def commuted(self, perm: Perm) -> Moved | None:
        return Moved((perm, None), {}, (perm,)) if self.axis is None else None

    def infer(self) -> Sequence[Tensor]:
        element, scale, shape = element_of(self.input), element_of(self.scale), shape_of(self.input)
        if not (is_narrow_float(element) or element == f16) or isinstance(element, Float8E8M0FNUType):
            raise VerifyException(f"input must be of f8E4M3FN, f8E5M2, f4E2M1FN or f16, not {element}")
        if scale != f32 and not isinstance(scale, Float8E8M0FNUType | Float8E4M3FNType):
            raise VerifyException(f"scale must be of f32, f8E8M0FNU or f8E4M3FN, not {scale}")
        if not is_float(element_of(self.result)):
            raise VerifyException("result must be of a float type")
        if (wanted := self._scale_shape(shape)) != shape_of(self.scale):
            raise VerifyException(f"scale has the shape {list(shape_of(self.scale))}, not {list(wanted)}")
        return [tensor(element_of(self.result), shape)]

    def _scale_shape(self, shape: Shape) -> Shape:
        if self.axis is None:
            if self.block is not None:
                raise VerifyException("block needs an axis")
            return ()
        if not static(shape):
            raise VerifyException("scales along an axis need a tensor of known sizes")
        axis = axis_of(self.axis.value.data, len(shape))
        if self.block is None:
            return (shape[axis],)
        if self.block.value.data < 1:
            raise VerifyException(f"block must be positive, not {self.block.value.data}")
        return blocks_of(shape, axis, self.block.value.data)


@operation
class ShiftAccumulatorOp(PointOp):
    """`clip(floor(round_half_even(x / scale) / 2^shift), -2^15, 2^15 - 1) * 2^shift * scale` (AMCT's shift-N).

    A layer's result after its 32-bit sums were shifted right and kept in 16 bits. input of any float shape, result
    as input; computed in float32. `qparams` are those of the sums, i32 without zero points; `shifts` is one number from 0 to 16,
    or one for each scale, not all 0.
    """

    KEYWORDS: ClassVar[Mapping[str, str]] = {"qparams": "of", "shifts": "by"}

    input: Operand = operand_def(ANY_TENSOR)
    qparams: QParamsAttr = prop_def(QParamsAttr)
    shifts: Ints = prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    @property
    def shift_list(self) -> tuple[int, ...]:
        return ints(self.shifts)

    def infer(self) -> Sequence[Tensor]:
        if not is_float(element_of(self.input)):
            raise VerifyException("input must be of a float type")
        params = self.qparams.data
        if params.storage != i32 or any(params.zero_point):
            raise VerifyException("sums are i32, without zero points")
        if params.block is not None:
            raise VerifyException("sums have no blocks")
        if outside := [n for n in self.shift_list if not 0 <= n <= 16]:
            raise VerifyException(f"shifts must lie in [0, 16], not {outside[0]}")
        if self.shift_list and not any(self.shift_list):
            raise VerifyException("all shifts are 0")
        if not isinstance(params.scale, Weight) and len(self.shift_list) not in (1, len(params.scale)):
            raise VerifyException(f"{len(self.shift_list)} shifts for {len(params.scale)} scales")
        self.check_axis(self.qparams)
        return [tensor_of(self.input)]


def dequantize_of(value: SSAValue | None) -> DequantizeOp | None:
    """The dequantization that gives a value, None if another operation does."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp) else None


def before_points(value: SSAValue) -> SSAValue:
    """The value that the chain of quantization points at `value`, or of stored forms of a weight, starts from."""
    while isinstance(value, OpResult) and isinstance(value.op, PointOp):
        value = value.op.operands[0]
    return value


__all__ = [
    "DequantizeFloatOp",
    "DequantizeOp",
    "ObserveOp",
    "PointOp",
    "QuantizeFloatOp",
    "QuantizeOp",
    "ShiftAccumulatorOp",
    "before_points",
    "dequantize_of",
]
