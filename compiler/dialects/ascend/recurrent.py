"""Recurrent layers in integers: an LSTM and a GRU that quantize their input and their state themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, integer_range
from ..nn.base import ANY_TENSOR, INT, REAL, Int, Real, Result, integer
from ..nn.shapes import element_of, known, merge_dim, merge_shape, require_rank, shape_of, tensor
from .base import AscendOp, ElementTypes, F, f32, i8, i16, operation

STORAGE: Mapping[int, IntegerType] = {2: i8, 6: i16}
"""The types of quantized inputs and states, by quant_dtype."""


class WindowCacheOp(AscendOp):
    """Base of both: the gates of a step are those of ONNX's operator, in its order, on sums of integers.

    x `[steps, batch, input]`, h `[1, batch, hidden]`, w `[1, gates * hidden, input]` and r `[1, gates * hidden, hidden]` int8,
    b `[1, 2 * gates * hidden]` int32, deq_scale float32 `[n]` whose halves are for w and r: each a scale for all rows, or for
    equal parts of them. y `[steps, 1, batch, hidden]`, y_h `[1, batch, hidden]`.

    In each step x and the state become `clip(round(v * quant_scale + quant_offset))`, as AscendQuant computes it. The products
    of `q - quant_offset` with w and with r, and the halves of b, are summed exactly; each sum is rounded to float32 and
    multiplied by its deq_scale, then the gates compute in float32.
    """

    GATES: ClassVar[int]
    TYPES: ClassVar[Mapping[str, ElementTypes]] = {
        "x": F,
        "w": (i8,),
        "r": (i8,),
        "h": F,
        "b": (i32,),
        "deq_scale": (f32,),
    }
    DEVIATION: ClassVar[str] = (
        "float32 operands and any number of steps and of samples are accepted; attributes that have one legal value "
        "(activations, clip, direction, sqrt_mode), sequence_lens and clean_cache are left out"
    )

    hidden_size: Int = prop_def(INT)
    quant_scale_x: Real = prop_def(REAL)
    quant_offset_x: Real = prop_def(REAL)
    quant_scale_h: Real = prop_def(REAL)
    quant_offset_h: Real = prop_def(REAL)
    quant_dtype: Int = prop_def(INT, default_value=integer(2))

    @property
    def scales(self) -> SSAValue:
        """`deq_scale`."""
        return self.operands[4 if self.GATES == 3 else 5]

    @property
    def storage(self) -> IntegerType:
        """The type of the quantized input and state."""
        if (storage := STORAGE.get(self.quant_dtype.value.data)) is None:
            raise VerifyException(f"quant_dtype {self.quant_dtype.value.data} is neither 2 (int8) nor 6 (int16)")
        return storage

    def check_quantization(self) -> None:
        """Raises VerifyException for scales that are not positive and finite, and offsets that are not integers in range."""
        low, high = integer_range(self.storage)
        for what in "xh":
            scale = getattr(self, f"quant_scale_{what}").value.data
            offset = getattr(self, f"quant_offset_{what}").value.data
            if not 0 < scale < float("inf"):
                raise VerifyException(f"quant_scale_{what} must be positive and finite")
            if not (low <= offset <= high and offset == int(offset)):
                raise VerifyException(f"quant_offset_{what} {offset:g} is not an integer in [{low}, {high}]")

    def derive(self) -> Sequence[Tensor]:
        self.check_quantization()
        hidden = self.hidden_size.value.data
        rows = self.GATES * hidden
        x, _, _, h, *_ = self.operands
        require_rank(x, 3, "x")
        require_rank(h, 3, "h")
        steps, batch, features = shape_of(x)
        state = (1, merge_dim(batch, shape_of(h)[1], "batch of x and h"), hidden)
        shapes = {"w": (1, rows, features), "r": (1, rows, hidden), "h": state, "c": state, "b": (1, 2 * rows)}
        for name, expected in shapes.items():
            if (value := getattr(self, name, None)) is not None:
                merge_shape(shape_of(value), expected, f"{name} and the other shapes")
        require_rank(self.scales, 1, "deq_scale")
        (count,) = shape_of(self.scales)
        if not known(count) or count % 2 or count < 2 or (2 * rows) % count:
            raise VerifyException(f"deq_scale must hold an even divisor of {2 * rows} numbers, not {count}")
        element = element_of(x)
        return [tensor(element, (steps, *state)), tensor(element, state)]


@operation
class BasicLSTMInplaceFillWindowCacheOp(WindowCacheOp):
    """An LSTM of one direction with the gates i, o, f, c; c and y_c `[1, batch, hidden]` are its cell state."""

    GATES: ClassVar[int] = 4
    TYPES: ClassVar[Mapping[str, ElementTypes]] = {**WindowCacheOp.TYPES, "c": F}

    x: Operand = operand_def(ANY_TENSOR)
    w: Operand = operand_def(ANY_TENSOR)
    r: Operand = operand_def(ANY_TENSOR)
    h: Operand = operand_def(ANY_TENSOR)
    c: Operand = operand_def(ANY_TENSOR)
    deq_scale: Operand = operand_def(ANY_TENSOR)
    b: OptOperand = opt_operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)
    y_h: Result = result_def(ANY_TENSOR)
    y_c: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        y, y_h = super().derive()
        return [y, y_h, tensor(element_of(self.c), y_h.get_shape())]


@operation
class BasicGRUInplaceFillWindowCacheOp(WindowCacheOp):
    """A GRU of one direction with the gates z, r, h, whose state is multiplied before the reset gate (linear_before_reset 1)."""

    GATES: ClassVar[int] = 3

    x: Operand = operand_def(ANY_TENSOR)
    w: Operand = operand_def(ANY_TENSOR)
    r: Operand = operand_def(ANY_TENSOR)
    h: Operand = operand_def(ANY_TENSOR)
    deq_scale: Operand = operand_def(ANY_TENSOR)
    b: OptOperand = opt_operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)
    y_h: Result = result_def(ANY_TENSOR)


__all__ = ["BasicGRUInplaceFillWindowCacheOp", "BasicLSTMInplaceFillWindowCacheOp", "WindowCacheOp"]
