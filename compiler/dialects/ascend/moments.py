"""Normalizations by the mean and variance of their own input, which are results beside y."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import Operand, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, BOOL, INT, REAL, TEXT, Bool, Int, NNOp, Real, Result, Text, integer, real
from ..nn.shapes import axis_of, known, merge_dim, merge_shape, same_element, shape_of, tensor, tensor_of
from .base import FB, TRUE, AscendOp, ElementTypes, F, FormatOp, check_choice, stand_ins


class MomentsOp(AscendOp):
    """x, gamma and beta to y (of the type of x), mean and variance of x."""

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)
    mean: Result = result_def(ANY_TENSOR)
    variance: Result = result_def(ANY_TENSOR)

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        return 3

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


@irdl_op_definition
class LayerNormOp(MomentsOp):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the axes from `begin_norm_axis` on.

    gamma and beta have the sizes of x from `begin_params_axis` on; mean and variance have size 1 along the normalized axes.
    """

    name = "ascend.LayerNorm"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": FB, "gamma": FB, "beta": FB}

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


@irdl_op_definition
class InstanceNormOp(MomentsOp, FormatOp):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the spatial axes.

    x in `data_format`, gamma and beta `[C]`; mean and variance have size 1 along the spatial axes.
    """

    name = "ascend.InstanceNorm"

    FORMATS: ClassVar[tuple[str, ...]] = ("NDHWC", "NCDHW", "NHWC", "NCHW")
    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": F, "gamma": F, "beta": F}

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NDHWC"))
    epsilon: Real = prop_def(REAL, default_value=real(1e-6))

    @property
    def format(self) -> str:
        return check_choice("data_format", self.data_format, self.FORMATS)

    def derive(self) -> Sequence[Tensor]:
        x = self.check_rank("x", self.x)
        self.check_channels(x[self.channel_axis])
        return self.with_moments(self.arrange(x[0], x[self.channel_axis], (1,) * len(self.space)))

    def normalization(self) -> NNOp:
        return nn.InstanceNormOp.make(*stand_ins(self.operand_types), epsilon=self.epsilon, layout=self.nn_layout)


@irdl_op_definition
class GroupNormOp(MomentsOp, FormatOp):
    """`(x - mean) / sqrt(variance + eps) * gamma + beta` over the spatial axes and the channels of each of `num_groups` groups.

    x in `data_format`, gamma and beta `[C]`; mean and variance `[N, num_groups]`.
    """

    name = "ascend.GroupNorm"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": F, "gamma": F, "beta": F}
    DEVIATION: ClassVar[str] = "mean and variance are [N, num_groups]; the header does not define their shape"

    x: Operand = operand_def(ANY_TENSOR)
    gamma: Operand = operand_def(ANY_TENSOR)
    beta: Operand = operand_def(ANY_TENSOR)
    num_groups: Int = prop_def(INT)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))
    eps: Real = prop_def(REAL, default_value=real(1e-4))
    is_training: Bool = prop_def(BOOL, default_value=TRUE)

    @property
    def format(self) -> str:
        return check_choice("data_format", self.data_format, self.FORMATS)

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


__all__ = ["GroupNormOp", "InstanceNormOp", "LayerNormOp", "MomentsOp"]
