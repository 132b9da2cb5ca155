"""Constants: small ones in the text, arrays in a separate file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType, LocationAttr, TensorType
from xdsl.ir import OpResult, OpTraits, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, as_stored, element_type, from_stored, has_numpy_dtype, numpy_dtype
from ...ir.exact_text import Dense, print_dense
from ...ir.weights import Weight, WeightError, is_finite
from ...support.diagnostics import op_error
from .arrays import External, ExternalAttr
from .base import ANY_TENSOR, Result, name_hint, operation
from .shapes import element_of, static, tensor_of

if TYPE_CHECKING:
    import numpy as np

    from ...ir.array import Array

INLINE_ELEMENTS = 16
"""Constants of up to this many elements are in the text."""

CORRECTED = ".corrected"
"""Part of the name of a bias that makes up for the mean error that quantization causes in its layer."""

_TRAITS: OpTraits = traits_def(Pure(), ConstantLike())


@operation
class ConstantOp(IRDLOperation):
    """A constant tensor: `dense<...>` for a small one, `#nn.external<...>` for an array next to the text (ONNX Constant).

    ```mlir
    %shape = nn.constant dense<[0, -1]> : tensor<2xi64>
    %weight = nn.constant #nn.external<"conv1.weight", tensor<64x3x7x7xf32>>
    ```
    """

    value: Dense | ExternalAttr = prop_def(DenseIntOrFPElementsAttr | ExternalAttr)
    result: Result = result_def(ANY_TENSOR)

    traits = _TRAITS

    def __init__(self, value: Dense | ExternalAttr):
        super().__init__(properties={"value": value}, result_types=[value.type])

    @staticmethod
    def of(array: Array, key: str, location: LocationAttr | None = None) -> ConstantOp:
        """A constant of `array`, named `key` in the side file. A large array is not copied: do not write to it."""
        op = ConstantOp.beside(array, key, location)
        op.settle()
        return op

    @staticmethod
    def beside(array: Array, key: str, location: LocationAttr | None = None) -> ConstantOp:
        """Like `of`, but a small array stays next to the text until the constant settles, which takes a quarter of the time."""
        type_ = _type_of(array.dtype, array.shape)
        value = ExternalAttr(External(Weight(key, array=array), type_))
        op = ConstantOp.create(properties={"value": value}, result_types=[type_])
        op.result.name_hint = name_hint(key)
        if location is not None:
            op.location = location
        return op

    def settle(self) -> None:
        """Moves a small array that is only in memory into the text."""
        if not isinstance(self.value, ExternalAttr):
            return
        weight, type_ = self.value.data.weight, self.value.type
        if weight.in_memory_only and 0 < prod(type_.get_shape()) <= INLINE_ELEMENTS:
            self.value = DenseIntOrFPElementsAttr(cast(Any, type_), BytesAttr(as_stored(weight.array).tobytes()))

    @property
    def key(self) -> str:
        """The name of the array in the side file; the result's name for a small constant."""
        if isinstance(self.value, ExternalAttr):
            return self.value.data.weight.key
        return self.result.name_hint or "constant"

    @property
    def array(self) -> Array:
        """The values, read-only. Raises CompileError, located here, if an array cannot be read."""
        if isinstance(self.value, ExternalAttr):
            try:
                return self.value.array
            except WeightError as e:
                raise op_error(self, str(e)) from None
        dtype = numpy_dtype(self.value.get_element_type())
        return from_stored(self.value.data.data, dtype).reshape(self.value.get_shape())

    @property
    def finite(self) -> bool:
        """Whether no value is NaN or Inf; an array outside the text is examined once. Raises as `array` does."""
        values = self.array
        return self.value.data.weight.finite if isinstance(self.value, ExternalAttr) else is_finite(values)

    def release(self) -> None:
        """Releases the memory of values that can be read from their file again."""
        if isinstance(self.value, ExternalAttr):
            self.value.data.weight.release()

    def verify_(self) -> None:
        super().verify_()
        if self.value.type != self.result.type:
            raise VerifyException(f"holds {self.value.type}, its result is {self.result.type}")
        type_ = tensor_of(self.result)
        if not static(type_.get_shape()):
            raise VerifyException("a constant has no unknown sizes")
        if not has_numpy_dtype(type_.element_type):
            raise VerifyException(f"there are no arrays of {type_.element_type}")
        if isinstance(self.value, DenseIntOrFPElementsAttr):
            given, needed = (
                len(self.value.data.data),
                prod(type_.get_shape()) * self.value.get_element_type().compile_time_size,
            )
            if given != needed:
                raise VerifyException(f"holds {given} bytes, {type_} has {needed}")

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        start = parser.pos
        value = parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr | ExternalAttr):
            parser.raise_error("dense or #nn.external expected", start, parser.pos)
        op = ConstantOp(cast("Dense | ExternalAttr", value))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if isinstance(self.value, DenseIntOrFPElementsAttr):
            print_dense(printer, self.value)
        else:
            printer.print_attribute(self.value)
        if self.attributes:
            printer.print_op_attributes(self.attributes)


@lru_cache(maxsize=1024)
def _type_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Tensor:
    return TensorType(element_type(dtype), shape)


def constant_of(value: SSAValue | None) -> ConstantOp | None:
    """The constant that produces a value."""
    if not isinstance(value, OpResult):
        return None
    op = value.op
    return op if type(op) is ConstantOp else None  # called everywhere; isinstance of another class is slow


def array_of(value: SSAValue | None) -> Array | None:
    """The numbers of a value, if it is a constant; otherwise None."""
    constant = constant_of(value)
    return None if constant is None else constant.array


def constant_ints(value: SSAValue) -> tuple[int, ...] | None:
    """The integers of a constant, flattened, without numpy; None if the value is computed at run time."""
    constant = constant_of(value)
    if constant is None or not isinstance(element_of(constant.result), IntegerType):
        return None
    if isinstance(constant.value, DenseIntOrFPElementsAttr):
        return tuple(cast("Sequence[int]", constant.value.get_values()))
    return tuple(int(v) for v in constant.array.reshape(-1))


__all__ = ["CORRECTED", "ConstantOp", "array_of", "constant_ints", "constant_of"]
