"""The convolutions of the matrix engine, the layers that they replace, and the axis orders of their filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import Shape, known, shape_of, static
from ...rewriting import Condition, condition, requires
from .constants import Array, constant_behind, numbers_behind
from .quantized import (
    InIntegers,
    MatrixEngine,
    SymmetricWeight,
    dequantized,
    int8_behind,
    integers_behind,
    pack_in_files,
    products,
    scale_of,
    stored,
)
from .rules import Builder, Lowering, Source, Values

Conv = TypeVar("Conv", bound=nn.ConvolutionOp)
Finish = Callable[[SSAValue], SSAValue]
"""The steps between a convolution and the removal of an added axis."""

FORMATS = {1: ("NCHW", "NHWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Data formats by number of spatial axes: channels second, channels last. One axis becomes two."""


class Operands(NamedTuple):
    """The operands of a convolution: float values, or int8 ones with an int32 bias."""

    x: SSAValue
    weight: SSAValue
    bias: SSAValue | None
    zero_point: int = 0


class Convolution(Lowering[Conv], Generic[Conv]):
    """A convolution in floats. Subclasses name the operation of Ascend IR, and what it lacks."""

    has_bias: ClassVar[bool] = True
    """Whether the operation adds a bias."""
    by_channel: ClassVar[bool] = False
    """Whether its filter has an axis per channel."""

    def make(self, build: Builder, op: Conv, operands: Operands) -> SSAValue:
        """The operation itself."""
        raise NotImplementedError

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank in FORMATS,
        "there is an operation with as many spatial axes",
        lambda op: f"there is no convolution with {op.spatial_rank} spatial axes",
    )

    known_sizes: Condition[Any] = requires(
        lambda op: all(map(known, shape_of(op.weight))),
        "the sizes of the weight are known",
        "the sizes of its weight are not known",
    )

    known_pads: Condition[Any] = requires(
        lambda op: op.resolved_pads(op.spatial(shape_of(op.input))) is not None,
        "the padding does not depend on sizes that are not known",
        "its auto_pad depends on sizes that are not known",
    )

    def rewrite(self, build: Builder, op: Conv) -> Values:
        within, after = (op.bias, None) if self.has_bias else (None, op.bias)
        return [biased(build, op, self.convolve(build, op, Operands(op.input, op.weight, within)), after)]

    def convolve(self, build: Builder, op: Conv, operands: Operands, finish: Finish | None = None) -> SSAValue:
        """The convolution of operands with the source operation's geometry; an axis of size 1 is added to a single one."""
        added = {True: 1, False: 2}[op.channels_last] if op.spatial_rank == 1 else None
        x = operands.x
        if added is not None:
            x = build.add(ascend.UnsqueezeOp, x, axes=[added], name=f"{build.hint}_x").y
        weight = arranged_filter(build, op, operands.weight, self.by_channel)
        y = self.make(build, op, operands._replace(x=x, weight=weight))
        y = y if finish is None else finish(y)
        return y if added is None else build.add(ascend.SqueezeOp, y, axis=[added]).y


def biased(build: Builder, op: nn.ConvolutionOp, y: SSAValue, bias: SSAValue | None) -> SSAValue:
    """The sum of a result and a bias that the operation does not add."""
    if bias is None:
        return y
    return build.add(ascend.BiasAddOp, y, bias, data_format=FORMATS[2][op.channels_last]).y


class Conv2D(Convolution[nn.ConvOp]):
    """Conv2D with groups, or Conv3D: every convolution except TensorFlow's depthwise layer"""

    def make(self, build: Builder, op: nn.ConvOp, operands: Operands) -> SSAValue:
        x, weight, bias, zero_point = operands
        kind = ascend.Conv3DOp if op.spatial_rank == 3 else ascend.Conv2DOp
        return build.add(kind, x, weight, bias, name=f"{build.hint}_acc", **kind.like(op), offset_x=zero_point).y


class DepthwiseConv2D(Convolution[nn.ConvOp]):
    """DepthwiseConv2D"""

    sources: ClassVar[tuple[Source, ...]] = (("tensorflow", "DepthwiseConv2dNative"),)
    by_channel = True

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank == 2, "the layer has two spatial axes", "DepthwiseConv2D has two spatial axes"
    )

    def make(self, build: Builder, op: nn.ConvOp, operands: Operands) -> SSAValue:
        x, weight, bias, zero_point = operands
        name, kind = f"{build.hint}_acc", ascend.DepthwiseConv2DOp
        return build.add(kind, x, weight, bias, name=name, **kind.like(op), offset_x=zero_point).y


class Conv2DTranspose(Convolution[nn.ConvTransposeOp]):
    """Conv2DTranspose"""

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank < 3, "the layer has one or two spatial axes", "there is no Conv3DTranspose"
    )

    pads: Condition[Any] = requires(
        lambda op: all(p >= 0 for p in op.resolved_pads(op.spatial(shape_of(op.input))) or ()),
        "no padding is negative",
        "its output_shape asks for more than the windows cover",
    )

    def make(self, build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
        x, weight, bias, zero_point = operands
        # 0: the size follows from the geometry, even if the batch is unknown
        input_size = build.ints([0, 0, 0, 0], "input_size")
        name, kind = f"{build.hint}_acc", ascend.Conv2DTransposeOp
        return build.add(kind, input_size, x, weight, bias, name=name, **kind.like(op), offset_x=zero_point).y


class Conv2DBackpropInput(Conv2DTranspose):
    """Conv2DBackpropInput, whose operand is the shape of its result, 0 for sizes that follow from the geometry"""

    sources: ClassVar[tuple[Source, ...]] = (("tensorflow", "Conv2DBackpropInput"),)
    has_bias = False

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank == 2, "the layer has two spatial axes", "Conv2DBackpropInput has two spatial axes"
    )

    @condition
    def known_sizes(self, op: nn.ConvTransposeOp) -> str | None:
        """the sizes of the weight are known, and those of the result, or they follow from those of x"""
        follows = not any(op.output_padding_list) or static(op.spatial(shape_of(op.result)))
        unknown = "the sizes of its result are not known, and do not follow from those of x"
        return Convolution.known_sizes.holds(self, op) or (None if follows else unknown)

    def make(self, build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
        sizes = op.spatial(shape_of(op.result)) if any(op.output_padding_list) else (0, 0)
        input_size = build.constant(np.array(op.arrange(0, 0, sizes), np.int32), f"{build.hint}_input_size")
        name, kind = f"{build.hint}_acc", ascend.Conv2DBackpropInputOp
        return build.add(kind, input_size, operands.weight, operands.x, name=name, **kind.like(op)).y


class Deconvolution(Conv2DTranspose):
    """Deconvolution"""

    sources: ClassVar[tuple[Source, ...]] = (("caffe", "Deconvolution"),)

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank == 2 and (not op.channels_last),
        "the layer has two spatial axes, after the channels",
        "Deconvolution has two spatial axes, after the channels",
    )

    output_padding: Condition[Any] = requires(
        lambda op: not any(op.output_padding_list),
        "nothing is added to the size of the result",
        "Deconvolution adds nothing to the size of its result",
    )

    def make(self, build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
        x, weight, bias, zero_point = operands
        name, kind = f"{build.hint}_acc", ascend.DeconvolutionOp
        return build.add(kind, x, weight, bias, name=name, **kind.like(op), offset_x=zero_point).y


def arranged_filter(build: Builder, op: nn.ConvolutionOp, weight: SSAValue, by_channel: bool) -> SSAValue:
    """The weight in the axis order of the operation: itself if that is `nn`'s, otherwise a new constant, or operations if it is
    computed at run time.
    """
    if not (op.channels_last or op.spatial_rank == 1 or by_channel):
        return weight
    constant, array = constant_behind(weight), numbers_behind(weight)
    if constant is None or array is None:
        return _arranged_at_run_time(build, op, weight, by_channel)
    array = _arranged(op, array, by_channel)
    # one number that is broadcast, the stand-in of a trial, is in every order
    ordered = np.ascontiguousarray(array) if any(array.strides) else array
    return build.constant(ordered, f"{constant.key}.filter", constant.location)


def _arranged(op: nn.ConvolutionOp, array: Array, by_channel: bool) -> Array:
    if op.spatial_rank == 1:
        array = array[:, :, None]
    if by_channel:  # [C*M, 1, kh, kw] to [kh, kw, C, M]
        return array.reshape(op.group_count, -1, *array.shape[2:]).transpose(2, 3, 0, 1)
    if op.channels_last:  # both kinds: the first axis becomes the last
        return array.transpose(*range(2, array.ndim), 1, 0)
    return array


def _arranged_at_run_time(build: Builder, op: nn.ConvolutionOp, weight: SSAValue, by_channel: bool) -> SSAValue:
    """Rearranges a value at run time, as `_arranged` does with a constant."""
    if op.spatial_rank == 1:
        weight = build.add(ascend.UnsqueezeOp, weight, axes=[2], name=f"{build.hint}_w").y
    sizes = shape_of(weight)
    if by_channel:
        split = _reshaped(build, weight, (op.group_count, sizes[0] // op.group_count, *sizes[2:]))
        return _permuted(build, split, (2, 3, 0, 1))
    if op.channels_last:
        return _permuted(build, weight, (*range(2, len(sizes)), 1, 0))
    return weight


def _reshaped(build: Builder, value: SSAValue, shape: Shape) -> SSAValue:
    """The value in another shape: if it was reshaped from that shape, the value before."""
    if isinstance(value.owner, ascend.ReshapeOp) and shape_of(value.owner.x) == shape:
        return value.owner.x
    return build.add(ascend.ReshapeOp, value, build.ints(shape, "filter_shape"), name=f"{build.hint}_filter").y


def _permuted(build: Builder, value: SSAValue, perm: Sequence[int]) -> SSAValue:
    """The value with its axes in another order: if it was transposed from that order, the value before."""
    owner = value.owner
    if isinstance(owner, ascend.TransposeOp):
        before = nn.constant_ints(owner.perm)
        if before is not None and all(before[p] == i for i, p in enumerate(perm)):
            return owner.x
    return build.add(ascend.TransposeOp, value, build.ints(perm, "filter_perm"), name=f"{build.hint}_filter").y


class IntegerConvolution(
    Convolution[Any], MatrixEngine[nn.ConvolutionOp], SymmetricWeight[nn.ConvolutionOp], InIntegers[nn.ConvolutionOp]
):
    """The integer convolution, AscendDequant, and, in float, a bias that cannot be its operand"""

    def channels(self, op: nn.ConvolutionOp) -> int | None:
        return output_axis(op)

    def scales(self, op: nn.ConvolutionOp) -> Array:
        return products(self.params(op).scales(), scale_of(op.weight))

    def bias(self, op: nn.ConvolutionOp) -> nn.DequantizeOp | None:
        return nn.dequantize_of(op.bias) if self.has_bias else None

    def rewrite(self, build: Builder, op: nn.ConvolutionOp) -> Values:
        (activation,) = self.activations(build, op)
        scales = self.scales(op)
        integers, floats = integers_behind(op.bias) if self.has_bias else (None, op.bias)

        def dequantize(accumulator: SSAValue) -> SSAValue:
            shape = _channel_shape(op, len(shape_of(accumulator)), scales)
            return dequantized(build, accumulator, stored(op, scales).reshape(shape))

        operands = Operands(activation.value, int8_behind(build, op.weight), integers, activation.zero_point)
        y = biased(build, op, self.convolve(build, op, operands, dequantize), floats)
        pack_in_files(build, op.weight)
        return [y]


def output_axis(op: nn.ConvolutionOp) -> int | None:
    """The axis of the output channels in the weight; None if there is none: with groups, a scale along axis 1 of a transposed
    weight belongs to several output channels.
    """
    if not isinstance(op, nn.ConvTransposeOp):
        return 0
    return 1 if op.group_count == 1 else None


def _channel_shape(op: nn.ConvolutionOp, rank: int, scales: Array) -> tuple[int, ...]:
    """The shape of scales: `[1]`, `[C]` if channels are axis 1, otherwise full rank: a vector means axis 1 to AscendDequant."""
    return (1,) * (rank - 1) + (-1,) if op.channels_last and scales.size > 1 else (-1,)


class IntegerConv2D(Conv2D, IntegerConvolution):
    """Conv2D or Conv3D of int8, then AscendDequant"""

    @condition
    def symmetric_activation(self, op: nn.ConvOp) -> str | None:
        """the zero point of the input of Conv3D is 0"""
        symmetric = op.spatial_rank != 3 or not self.params(op).zero_points()
        return None if symmetric else "Conv3D has no offset_x, so the zero point would have to be 0"


class IntegerDepthwiseConv2D(DepthwiseConv2D, IntegerConvolution):
    """DepthwiseConv2D of int8, then AscendDequant"""


class IntegerConv2DTranspose(Conv2DTranspose, IntegerConvolution):
    """Conv2DTranspose of int8, then AscendDequant"""


class IntegerConv2DBackpropInput(Conv2DBackpropInput, IntegerConvolution):
    """Conv2DBackpropInput of int8, then AscendDequant, and a bias in float"""

    @condition
    def symmetric_activation(self, op: nn.ConvTransposeOp) -> str | None:
        """the zero point of the input is 0"""
        symmetric = not self.params(op).zero_points()
        return None if symmetric else "Conv2DBackpropInput has no offset_x, its zero point would have to be 0"


class IntegerDeconvolution(Deconvolution, IntegerConvolution):
    """Deconvolution of int8, then AscendDequant"""


PATTERNS = (
    IntegerDepthwiseConv2D,
    IntegerConv2D,
    IntegerConv2DBackpropInput,
    IntegerDeconvolution,
    IntegerConv2DTranspose,
    DepthwiseConv2D,
    Conv2D,
    Conv2DBackpropInput,
    Deconvolution,
    Conv2DTranspose,
)
