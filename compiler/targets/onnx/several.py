"""Writes one operation as several small ones; narrow floats compute in float32 and round once, as in the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper
from xdsl.ir import SSAValue

from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from .layer import OnnxLayer, Operand


@dataclass(frozen=True)
class Steps:
    """The nodes of a layer whose values have the element type of `like`."""

    layer: OnnxLayer
    like: SSAValue

    @property
    def narrow(self) -> bool:
        """float16 and bfloat16."""
        return numpy_dtype(element_of(self.like)).itemsize < 4

    def take(self, value: Operand) -> Operand:
        """An operand in the type of the steps."""
        return self.layer.helper("Cast", value, to=TensorProto.FLOAT) if self.narrow else value

    def number(self, number: float, role: str) -> str:
        """A number as a scalar tensor."""
        if not self.narrow:
            return self.layer.scalar(number, self.like, role)
        return self.layer.constant(np.array(number, np.float32), role)

    def rounded(self, result: str) -> str:
        """The result of the last step, in the element type of the operation."""
        if not self.narrow:
            return result
        return self.layer.helper("Cast", result, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(element_of(self.like))))
