"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import f64
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .base import ANY_TENSOR, INT, REAL, Int, NNOp, Real, Result, integer, operation, real
from .constant import constant_of
from .permutations import Moved, Perm, along_axis
from .shapes import axis_of, broadcast, element_of, known, merge_dim, merge_shape, same_element, shape_of, tensor_of
from .window import LayoutOp

if TYPE_CHECKING:
    from ...ir.array import Array


class NormalizationOp(NNOp):
    """Base of normalizations: operand 0 is standardized, then multiplied by operand 1, the scale, and shifted by operand 2."""

    KEEPS_SHAPE: ClassVar[bool] = True

    @property
    def scaled_axis(self) -> int | None:
        """The axis of operand 0 along which scale and shift vary; None if there are several."""
        return self.channel_axis(len(shape_of(self.operands[0]))) if isinstance(self, LayoutOp) else None


class MomentsOp(NormalizationOp):
    """Base of normalizations by the mean and the variance of operand 0 itself."""


@operation
class BatchNormOp(NormalizationOp, LayoutOp):
    """Batch normalization of inference (ONNX BatchNormalization, TensorFlow FusedBatchNormV3 with is_training=false).

    `(x - mean) / sqrt(variance + epsilon) * scale + offset` per channel. input `[N, C, ...]` (`layout nhwc`: channels last),
    the four parameters `[C]` (float32 parameters with a float16 input are allowed), result as input.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    offset: Operand = operand_def(ANY_TENSOR)
    mean: Operand = operand_def(ANY_TENSOR)
    variance: Operand = operand_def(ANY_TENSOR)
    epsilon: Real = prop_def(REAL, default_value=real(1e-5))
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        if len(x) < 2:
            raise VerifyException(f"input must be of rank 2 or more, not {len(x)}")
        channels = x[self.channel_axis(len(x))]
        for name in ("scale", "offset", "mean", "variance"):
            shape = shape_of(getattr(self, name))
            if len(shape) != 1:
                raise VerifyException(f"{name} must be of rank 1, not {len(shape)}")
            merge_dim(channels, shape[0], f"channels and {name} length")
        return [tensor_of(self.input)]

    def factor_and_summand(self, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """`k = scale / sqrt(variance + epsilon)` and `offset - mean * k` of parameters `[C]`.

        They are computed in float64 for a float64 input, else in float32, as in onnxruntime: results are equal to the bit.
        """
        import numpy as np

        dtype = np.dtype(np.float64 if element_of(self.input) == f64 else np.float32)
        scale, offset, mean, variance = (each.astype(dtype, copy=False) for each in (scale, offset, mean, variance))
        factor = scale * (1 / np.sqrt(variance + dtype.type(self.epsilon.value.data)))
        return factor, offset - mean * factor


@operation
class InstanceNormOp(MomentsOp, LayoutOp):
    """Normalizes each channel of each sample by its own mean and variance (ONNX InstanceNormalization).

    input `[N, C, *spatial]`, scale and bias `[C]`, result as input.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    bias: Operand = operand_def(ANY_TENSOR)
    epsilon: Real = prop_def(REAL, default_value=real(1e-5))
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        _check_channels(self, {"scale": self.scale, "bias": self.bias})
        same_element(self.input, self.scale, self.bias)
        return [tensor_of(self.input)]


@operation
class GroupNormOp(MomentsOp, LayoutOp):
    """Normalizes groups of channels of each sample (ONNX GroupNormalization, opset 21: scale and bias per channel).

    input `[N, C, *spatial]`, scale and bias `[C]`, `num_groups` divides C, result as input.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    bias: Operand = operand_def(ANY_TENSOR)
    num_groups: Int = prop_def(INT)
    epsilon: Real = prop_def(REAL, default_value=real(1e-5))
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        channels = _check_channels(self, {"scale": self.scale, "bias": self.bias})
        groups = self.num_groups.value.data
        if groups < 1 or (known(channels) and channels % groups):
            raise VerifyException(f"{channels} channels are not divisible into {groups} groups")
        same_element(self.input, self.scale, self.bias)
        return [tensor_of(self.input)]


def _check_channels(op: LayoutOp, parameters: dict[str, object]) -> int:
    x = shape_of(op.operands[0])
    if len(x) < 2:
        raise VerifyException(f"input must be of rank 2 or more, not {len(x)}")
    channels = x[op.channel_axis(len(x))]
    for name, value in zip(parameters, op.operands[1:], strict=True):
        shape = shape_of(value)
        if len(shape) != 1:
            raise VerifyException(f"{name} must be of rank 1, not {len(shape)}")
        channels = merge_dim(channels, shape[0], f"channels and {name} length")
    return channels


@operation
class LayerNormOp(MomentsOp):
    """Normalizes over the axes from `axis` on (ONNX LayerNormalization).

    input `[d0, ..., dn]`, scale and bias broadcast to the input, result as input. Mean and variance are taken in float32
    or wider.
    """

    input: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(-1))
    epsilon: Real = prop_def(REAL, default_value=real(1e-5))
    result: Result = result_def(ANY_TENSOR)

    @property
    def first_axis(self) -> int:
        """The first normalized axis, not negative."""
        return axis_of(self.axis.value.data, len(shape_of(self.input)))

    @property
    def scaled_axis(self) -> int | None:
        return self.first_axis if self.first_axis == len(shape_of(self.input)) - 1 else None

    @property
    def acts_by_sample(self) -> bool:
        return self.first_axis != 0 and None not in (constant_of(v) for v in self.operands[1:])

    def commuted(self, perm: Perm) -> Moved | None:
        """The operation on permuted axes; None unless the normalized axes, and with them scale and bias, stay in place."""
        axis = self.first_axis
        fixed = all(perm[i] == i for i in range(axis, len(perm)))
        if not fixed or any(len(shape_of(v)) > len(perm) - axis for v in self.operands[1:]):
            return None
        return Moved((perm, *(None for _ in self.operands[1:])), {"axis": axis}, (perm,))

    def infer(self) -> Sequence[Tensor]:
        x, _ = shape_of(self.input), self.first_axis
        for name, value in (("scale", self.scale), ("bias", self.bias)):
            if value is not None:
                merge_shape(x, broadcast(x, shape_of(value)), f"input and broadcast {name}")
        same_element(self.input, self.scale, self.bias)
        return [tensor_of(self.input)]


@operation
class LRNOp(LayoutOp):
    """Local response normalization across channels (ONNX LRN; TensorFlow LRN with `alpha*size`).

    `x / (bias + alpha/size * sum of squares of the size nearest channels)^beta`. input `[N, C, *spatial]`, result as input.
    """

    KEEPS_SHAPE: ClassVar[bool] = True

    input: Operand = operand_def(ANY_TENSOR)
    size: Int = prop_def(INT)
    alpha: Real = prop_def(REAL, default_value=real(1e-4))
    beta: Real = prop_def(REAL, default_value=real(0.75))
    bias: Real = prop_def(REAL, default_value=real(1.0))
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        if len(shape_of(self.input)) < 2:
            raise VerifyException("input must be of rank 2 or more")
        if self.size.value.data < 1:
            raise VerifyException(f"size must be at least 1, not {self.size.value.data}")
        return [tensor_of(self.input)]


class SoftmaxLikeOp(NNOp):
    """Base of softmax and its logarithm: along one axis, result as input."""

    KEEPS_SHAPE: ClassVar[bool] = True

    input: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(-1))
    result: Result = result_def(ANY_TENSOR)

    def axis_behind(self, axis: int) -> int | None:
        return None if axis == axis_of(self.axis.value.data, len(shape_of(self.input))) else axis

    def commuted(self, perm: Perm) -> Moved | None:
        return along_axis(self, axis_of(self.axis.value.data, len(perm)), perm)

    def infer(self) -> Sequence[Tensor]:
        axis_of(self.axis.value.data, len(shape_of(self.input)))
        return [tensor_of(self.input)]


@operation
class SoftmaxOp(SoftmaxLikeOp):
    """`exp(x - max) / sum(exp(x - max))` along one axis (ONNX Softmax, opset 13). input of any shape, result as input."""


@operation
class LogSoftmaxOp(SoftmaxLikeOp):
    """The logarithm of softmax, along one axis (ONNX LogSoftmax, opset 13). input of any shape, result as input."""


__all__ = [
    "BatchNormOp",
    "GroupNormOp",
    "InstanceNormOp",
    "LRNOp",
    "LayerNormOp",
    "LogSoftmaxOp",
    "MomentsOp",
    "NormalizationOp",
    "SoftmaxOp",
]
