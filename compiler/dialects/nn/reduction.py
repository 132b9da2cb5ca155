"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def

from ...dtypes import Tensor
from .base import ANY_TENSOR, FLAG, INTS, NNOp, ints
from .shapes import axes_of, element_of, shape_of, tensor


class ReduceOp(NNOp):
    """Reduces some axes (`axes` absent: all), which `keepdims` keeps as size 1."""

    input = operand_def(ANY_TENSOR)
    axes = opt_prop_def(INTS)
    keepdims = opt_prop_def(FLAG)
    result = result_def(ANY_TENSOR)

    def axis_list(self) -> tuple[int, ...]:
        rank = len(shape_of(self.input))
        return axes_of(ints(self.axes, range(rank)), rank)

    def infer(self) -> Sequence[Tensor]:
        x, axes = shape_of(self.input), self.axis_list()
        if self.keepdims is not None:
            return [tensor(element_of(self.input), [1 if i in axes else d for i, d in enumerate(x)])]
        return [tensor(element_of(self.input), [d for i, d in enumerate(x) if i not in axes])]


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """The mean over axes (ONNX ReduceMean). input of any shape; result without the axes, or with size 1."""

    name = "nn.reduce_mean"


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """The sum over axes (ONNX ReduceSum). Shapes as reduce_mean."""

    name = "nn.reduce_sum"


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The largest element over axes (ONNX ReduceMax). Shapes as reduce_mean."""

    name = "nn.reduce_max"


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """The smallest element over axes (ONNX ReduceMin). Shapes as reduce_mean."""

    name = "nn.reduce_min"


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """The product over axes (ONNX ReduceProd). Shapes as reduce_mean."""

    name = "nn.reduce_prod"
