"""Normalizations and softmax."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, bf16, f16, f32
from xdsl.irdl import Operand, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import (
    ANY_TENSOR,
    BOOL,
    INT,
    INTS,
    REAL,
    TEXT,
    Bool,
    Int,
    Ints,
    NNOp,
    Real,
    Result,
    Text,
    integer,
    ints,
    real,
)
from ..nn.shapes import axes_of, axis_of, known, merge_dim, merge_shape, same_element, shape_of, tensor, tensor_of
from .base import (
    FALSE,
    FB,
    FBD,
    TRUE,
    AscendOp,
    F,
    FormatOp,
    Meaning,
    check_choice,
    declare,
    int_list,
    stand_ins,
)


@declare(x=(f16, f32, bf16), scale=(f32,), offset=(f32,), mean=(f32,), variance=(f32,))
class BNInferOp(AscendOp):
    """Batch normalization of inference: `(x - mean) / sqrt(variance + epsilon) * scale + offset` per channel (axis 1).

    x `[N, C, H, W]`, the four parameters float32 `[C]`, y as x.
    """

    x: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    offset: Operand = operand_def(ANY_TENSOR)
    mean: Operand = operand_def(ANY_TENSOR)
    variance: Operand = operand_def(ANY_TENSOR)
    epsilon: Real = prop_def(REAL)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if (rank := len(shape_of(self.x))) != 4:
            raise VerifyException(f"x must be of rank 4, not {rank}")
        return super().derive()

    def meaning(self) -> Meaning:
        return self.as_nn(nn.BatchNormOp, epsilon=self.epsilon)


@declare(x=F)
class LRNOp(AscendOp):
    """Local response normalization: `x / (bias + alpha * sum of squares of the 2*depth_radius+1 nearest channels)^beta`.

    x `[N, C, H, W]`, y as x. (As TensorFlow's LRN: alpha is not divided by the number of channels.)
    """

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


@declare(x=FBD)
class SoftmaxV2Op(SoftmaxLikeOp):
    """`exp(x - max) / sum(exp(x - max))` along `axes`, a list of one axis. x of any shape, y as x."""

    x: Operand = operand_def(ANY_TENSOR)
    half_to_float: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if self.half_to_float.value.data:
            raise VerifyException("half_to_float must be false: y is of the type of x")
        return super().derive()

    def meaning(self) -> Meaning:
        return self.as_nn(nn.SoftmaxOp, axis=self.softmax_axis)


@declare(logits=FBD)
class LogSoftmaxV2Op(SoftmaxLikeOp):
    """The logarithm of softmax along `axes`, a list of one axis. logits of any shape, logsoftmax as logits."""

    logits: Operand = operand_def(ANY_TENSOR)
    logsoftmax: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        return self.as_nn(nn.LogSoftmaxOp, axis=self.softmax_axis)


class MomentsOp(AscendOp):
    """x, gamma and beta to y (of the type of x), mean and variance of x."""

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)
    mean: Result = result_def(ANY_TENSOR)
    variance: Result = result_def(ANY_TENSOR)

    def with_moments(self, shape: Sequence[int]) -> Sequence[Tensor]:
        moments = tensor(same_element(*self.operands), shape)
        return [tensor_of(self.x), moments, moments]

    def check_channels(self, channels: int) -> None:
        for name, value in (("gamma", self.gamma), ("beta", self.beta)):
            if (rank := len(shape_of(value))) != 1:
                raise VerifyException(f"{name} must be of rank 1, not {rank}")
            merge_dim(channels, shape_of(value)[0], f"channels and {name} length")

    @abstractmethod
    def normalization(self) -> NNOp:
        """The operation of `nn` that computes only y."""


@declare(x=FB, gamma=FB, beta=FB)
class LayerNormOp(MomentsOp):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the axes from `begin_norm_axis` on.

    gamma and beta have the sizes of x from `begin_params_axis` on; mean and variance have size 1 along the normalized axes.
    """

    begin_norm_axis: Int = prop_def(INT, default_value=integer(0))
    begin_params_axis: Int = prop_def(INT, default_value=integer(0))
    epsilon: Real = prop_def(REAL, default_value=real(1e-7))

    @property
    def first_axis(self) -> int:
        return axis_of(self.begin_norm_axis.value.data, len(shape_of(self.x)), "begin_norm_axis")

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        first = axis_of(self.begin_params_axis.value.data, len(x), "begin_params_axis")
        for name, value in (("gamma", self.gamma), ("beta", self.beta)):
            merge_shape(x[first:], shape_of(value), f"sizes of x from axis {first} on and of {name}")
        return self.with_moments((*x[: self.first_axis], *(1,) * (len(x) - self.first_axis)))

    def normalization(self) -> NNOp:
        return nn.LayerNormOp.make(*stand_ins(self.operand_types), axis=self.first_axis, epsilon=self.epsilon)


@declare(x=F, gamma=F, beta=F)
class InstanceNormOp(MomentsOp, FormatOp):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the spatial axes.

    x in `data_format`, gamma and beta `[C]`; mean and variance have size 1 along the spatial axes.
    """

    FORMATS: ClassVar[tuple[str, ...]] = ("NDHWC", "NCDHW", "NHWC", "NCHW")

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NDHWC"))
    epsilon: Real = prop_def(REAL, default_value=real(1e-6))

    def derive(self) -> Sequence[Tensor]:
        x = self.check_rank("x", self.x)
        self.check_channels(x[self.channel_axis])
        return self.with_moments(self.arrange(x[0], x[self.channel_axis], (1,) * len(self.space)))

    def normalization(self) -> NNOp:
        return nn.InstanceNormOp.make(*stand_ins(self.operand_types), epsilon=self.epsilon, layout=self.nn_layout)


@declare(x=F, gamma=F, beta=F)
class GroupNormOp(MomentsOp, FormatOp):
    """`(x - mean) / sqrt(variance + eps) * gamma + beta` over the spatial axes and the channels of each of `num_groups` groups.

    x in `data_format`, gamma and beta `[C]`; mean and variance `[N, num_groups]`.
    """

    DEVIATION: ClassVar[str] = "mean and variance are [N, num_groups]; the header does not define their shape"

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    num_groups: Int = prop_def(INT)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))
    eps: Real = prop_def(REAL, default_value=real(1e-4))
    is_training: Bool = prop_def(BOOL, default_value=TRUE)

    def derive(self) -> Sequence[Tensor]:
        x, groups = self.check_rank("x", self.x), self.num_groups.value.data
        channels = x[self.channel_axis]
        self.check_channels(channels)
        if groups < 1 or (known(channels) and channels % groups):
            raise VerifyException(f"{channels} channels are not divisible into {groups} groups")
        return self.with_moments((x[0], groups))

    def normalization(self) -> NNOp:
        groups, operands = self.num_groups.value.data, stand_ins(self.operand_types)
        return nn.GroupNormOp.make(*operands, num_groups=groups, epsilon=self.eps, layout=self.nn_layout)


__all__ = [
    "BNInferOp",
    "GroupNormOp",
    "InstanceNormOp",
    "LRNOp",
    "LayerNormOp",
    "LogSoftmaxV2Op",
    "MomentsOp",
    "SoftmaxV2Op",
]
