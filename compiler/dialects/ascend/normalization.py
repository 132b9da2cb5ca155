"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, bf16, f16, f32
from xdsl.irdl import Operand, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, BOOL, INT, INTS, REAL, TEXT, Bool, Int, Ints, Real, Result, Text, integer, ints, real
from ..nn.shapes import axes_of, merge_dim, shape_of, tensor_of
from .base import FALSE, FBD, AscendOp, ElementTypes, F, Meaning, check_choice, int_list


@irdl_op_definition
class BNInferOp(AscendOp):
    """Batch normalization of inference: `(x - mean) / sqrt(variance + epsilon) * scale + offset` per channel (axis 1).

    x `[N, C, H, W]`, the four parameters float32 `[C]`, y as x.
    """

    name = "ascend.BNInfer"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {
        "x": (f16, f32, bf16),
        "scale": (f32,),
        "offset": (f32,),
        "mean": (f32,),
        "variance": (f32,),
    }

    x: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    offset: Operand = operand_def(ANY_TENSOR)
    mean: Operand = operand_def(ANY_TENSOR)
    variance: Operand = operand_def(ANY_TENSOR)
    epsilon: Real = prop_def(REAL)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        if len(x) != 4:
            raise VerifyException(f"x must be of rank 4, not {len(x)}")
        for name in ("scale", "offset", "mean", "variance"):
            shape = shape_of(getattr(self, name))
            if len(shape) != 1:
                raise VerifyException(f"{name} must be of rank 1, not {len(shape)}")
            merge_dim(x[1], shape[0], f"channels and {name} length")
        return [tensor_of(self.x)]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.BatchNormOp, epsilon=self.epsilon)


@irdl_op_definition
class LRNOp(AscendOp):
    """Local response normalization: `x / (bias + alpha * sum of squares of the 2*depth_radius+1 nearest channels)^beta`.

    x `[N, C, H, W]`, y as x. (As TensorFlow's LRN: alpha is not divided by the number of channels.)
    """

    name = "ascend.LRN"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": F}

    x: Operand = operand_def(ANY_TENSOR)
    depth_radius: Int = prop_def(INT, default_value=integer(5))
    bias: Real = prop_def(REAL, default_value=real(1.0))
    alpha: Real = prop_def(REAL, default_value=real(1.0))
    beta: Real = prop_def(REAL, default_value=real(0.5))
    norm_region: Text = prop_def(TEXT, default_value=StringAttr("ACROSS_CHANNELS"))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if (rank := len(shape_of(self.x))) != 4:
            raise VerifyException(f"x must be of rank 4, not {rank}")
        if self.depth_radius.value.data < 0:
            raise VerifyException(f"depth_radius must not be negative, but is {self.depth_radius.value.data}")
        check_choice("norm_region", self.norm_region, ("ACROSS_CHANNELS",))
        return [tensor_of(self.x)]

    def meaning(self) -> Meaning:
        """`nn` divides alpha by the number of channels."""
        size = 2 * self.depth_radius.value.data + 1
        return self.as_nn(nn.LRNOp, size=size, alpha=self.alpha.value.data * size, beta=self.beta, bias=self.bias)


class SoftmaxLikeOp(AscendOp):
    """Computes along the one axis in `axes`; the result has the type of the operand."""

    axes: Ints = prop_def(INTS, default_value=int_list(-1))

    @property
    def softmax_axis(self) -> int:
        """The axis. Raises VerifyException if `axes` does not contain exactly one."""
        axes = axes_of(ints(self.axes), len(shape_of(self.operands[0])))
        if len(axes) != 1:
            raise VerifyException(f"axes must hold one axis, not {len(axes)}")
        return axes[0]

    def derive(self) -> Sequence[Tensor]:
        _ = self.softmax_axis
        return [tensor_of(self.operands[0])]


@irdl_op_definition
class SoftmaxV2Op(SoftmaxLikeOp):
    """`exp(x - max) / sum(exp(x - max))` along `axes`, a list of one axis. x of any shape, y as x."""

    name = "ascend.SoftmaxV2"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": FBD}

    x: Operand = operand_def(ANY_TENSOR)
    half_to_float: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if self.half_to_float.value.data:
            raise VerifyException("half_to_float must be false: y is of the type of x")
        return super().derive()

    def meaning(self) -> Meaning:
        return self.as_nn(nn.SoftmaxOp, axis=self.softmax_axis)


@irdl_op_definition
class LogSoftmaxV2Op(SoftmaxLikeOp):
    """The logarithm of softmax along `axes`, a list of one axis. logits of any shape, logsoftmax as logits."""

    name = "ascend.LogSoftmaxV2"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"logits": FBD}

    logits: Operand = operand_def(ANY_TENSOR)
    logsoftmax: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        return self.as_nn(nn.LogSoftmaxOp, axis=self.softmax_axis)


__all__ = ["BNInferOp", "LRNOp", "LogSoftmaxV2Op", "SoftmaxV2Op"]
