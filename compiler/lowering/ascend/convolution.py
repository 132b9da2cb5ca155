"""Convolutions: 2-D and 3-D as they are, 1-D through an axis of size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.convolution import full_rank
from ...dialects.nn.shapes import known, shape_of
from .constants import Array, constant_behind
from .quantized import Activation, bias_of, dequantization_scale, dequantized, lowers_quantized, stored, weight_of
from .rules import Builder, NotLowered, array_of, lowers, require

FORMATS = {1: ("NCHW", "NHWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Data formats by number of spatial axes: channels second, channels last. One axis becomes two."""


class Operands(NamedTuple):
    """What a convolution multiplies and adds: float values, or int8 ones with an int32 bias."""

    x: SSAValue
    weight: SSAValue
    bias: SSAValue | None
    zero_point: int = 0


Finish = Callable[[SSAValue], SSAValue]
"""What comes between the convolution and the removal of an added axis."""


@lowers(nn.ConvOp)
def convolution(build: Builder, op: nn.ConvOp) -> Sequence[SSAValue]:
    return [_convolve(build, op, Operands(op.input, op.weight, op.bias))]


@lowers(nn.ConvTransposeOp)
def transposed_convolution(build: Builder, op: nn.ConvTransposeOp) -> Sequence[SSAValue]:
    return [_convolve(build, op, Operands(op.input, op.weight, op.bias))]


@lowers_quantized(nn.ConvOp)
def quantized_convolution(build: Builder, op: nn.ConvOp, activation: Activation) -> Sequence[SSAValue]:
    symmetric = op.spatial_rank != 3 or activation.zero_point == 0
    require(symmetric, "symmetric-activation", "Conv3D has no offset_x, so the zero point would have to be 0")
    return [_quantized(build, op, activation, channel_axis=0)]


@lowers_quantized(nn.ConvTransposeOp)
def quantized_transposed_convolution(
    build: Builder, op: nn.ConvTransposeOp, activation: Activation
) -> Sequence[SSAValue]:
    # with groups, a scale along weight axis 1 belongs to several output channels
    shared = op.group_count == 1 or weight_of(op.weight).axis is None
    require(shared, "channel-scales", "its grouped weight has one scale for several output channels")
    return [_quantized(build, op, activation, channel_axis=1)]


def _quantized(build: Builder, op: nn.ConvolutionOp, activation: Activation, channel_axis: int) -> SSAValue:
    """The integer convolution, AscendDequant, and a float bias added after it."""
    weight = weight_of(op.weight)
    per_channel = weight.axis in (None, channel_axis)
    require(per_channel, "channel-scales", f"its weight has scales along axis {weight.axis}, not per output channel")
    scales = dequantization_scale(activation, weight)
    bias = bias_of(op.bias, scales)

    def dequantize(accumulator: SSAValue) -> SSAValue:
        shape = _channel_shape(op, len(shape_of(accumulator)), scales)
        return dequantized(build, accumulator, stored(build, scales).reshape(shape))

    operands = Operands(activation.value, weight.value, bias.integers, activation.zero_point)
    y = _convolve(build, op, operands, dequantize)
    if bias.floats is None:
        return y
    return build.add(ascend.BiasAddOp, y, bias.floats, data_format=FORMATS[2][op.channels_last]).y


def _channel_shape(op: nn.ConvolutionOp, rank: int, scales: Array) -> tuple[int, ...]:
    """`[1]`, `[C]` where the channels are axis 1, else of full rank: a vector means axis 1 to AscendDequant."""
    return (1,) * (rank - 1) + (-1,) if op.channels_last and scales.size > 1 else (-1,)


def _convolve(build: Builder, op: nn.ConvolutionOp, operands: Operands, finish: Finish | None = None) -> SSAValue:
    """The convolution of operands with the source operation's geometry."""
    rank = op.spatial_rank
    require(rank in FORMATS, "spatial-rank", f"there is no convolution with {rank} spatial axes")
    added = {True: 1, False: 2}[op.channels_last] if rank == 1 else None
    x = operands.x
    if added is not None:
        x = build.add(ascend.UnsqueezeOp, x, axes=[added], name=f"{build.hint}_x").y
    weight = _filter(build, op, operands.weight)
    make = _transposed if isinstance(op, nn.ConvTransposeOp) else _depthwise if _is_depthwise(op) else _grouped
    y = make(build, op, operands._replace(x=x, weight=weight))
    y = y if finish is None else finish(y)
    return y if added is None else build.add(ascend.SqueezeOp, y, axis=[added]).y


def _geometry(op: nn.ConvolutionOp) -> dict[str, Any]:
    """strides, pads and dilations in Ascend's terms. Raises NotLowered where padding depends on sizes not known."""
    rank = op.spatial_rank
    if (pads := op.resolved_pads(op.spatial(shape_of(op.input)))) is None:
        raise NotLowered("known-pads", "its auto_pad depends on sizes that are not known")
    front = (1,) if rank == 1 else ()
    data_format = FORMATS[rank][op.channels_last]
    pairs = [*((0, 0) for _ in front), *zip(pads[:rank], pads[rank:], strict=True)]
    return {
        "strides": full_rank(data_format, (*front, *op.stride_list)),
        "pads": [p for pair in pairs for p in pair],
        "dilations": full_rank(data_format, (*front, *op.dilation_list)),
        "data_format": data_format,
    }


def _grouped(build: Builder, op: nn.ConvolutionOp, operands: Operands) -> SSAValue:
    kind = ascend.Conv3DOp if op.spatial_rank == 3 else ascend.Conv2DOp
    x, weight, bias, zero_point = operands
    properties = {**_geometry(op), "groups": op.group_count, "offset_x": zero_point}
    return build.add(kind, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _depthwise(build: Builder, op: nn.ConvolutionOp, operands: Operands) -> SSAValue:
    x, weight, bias, zero_point = operands
    properties = {**_geometry(op), "offset_x": zero_point}
    return build.add(ascend.DepthwiseConv2DOp, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _transposed(build: Builder, op: nn.ConvolutionOp, operands: Operands) -> SSAValue:
    assert isinstance(op, nn.ConvTransposeOp)
    require(op.spatial_rank != 3, "spatial-rank", "there is no Conv3DTranspose")
    x, weight, bias, zero_point = operands
    geometry = _geometry(op)
    require(all(p >= 0 for p in geometry["pads"]), "pads", "its output_shape asks for more than the windows cover")
    front = (0,) if op.spatial_rank == 1 else ()
    data_format = FORMATS[2][op.channels_last]
    padding = full_rank(data_format, (*front, *op.output_padding_list), neutral=0)
    # 0: the size follows from the geometry, also where the batch is not known
    input_size = build.ints([0, 0, 0, 0], "input_size")
    properties = {**geometry, "groups": op.group_count, "output_padding": padding, "offset_x": zero_point}
    return build.add(ascend.Conv2DTransposeOp, input_size, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _is_depthwise(op: nn.ConvolutionOp) -> bool:
    """TensorFlow's depthwise layer is DepthwiseConv2D; every other grouped convolution is Conv2D with groups."""
    return op.origin is not None and op.origin.op_type.data == "DepthwiseConv2dNative" and op.spatial_rank == 2


def _filter(build: Builder, op: nn.ConvolutionOp, weight: SSAValue) -> SSAValue:
    """The weight in the axis order of the operation: itself where that is `nn`'s, else a constant of its own."""
    require(all(map(known, shape_of(weight))), "known-sizes", "the sizes of its weight are not known")
    if not (op.channels_last or op.spatial_rank == 1 or _is_depthwise(op)):
        return weight
    array = _filter_array(op, array_of(weight, "weight"))
    constant = constant_behind(weight)
    assert constant is not None
    return build.constant(np.ascontiguousarray(array), f"{constant.key}.filter", constant.location)


def _filter_array(op: nn.ConvolutionOp, array: Array) -> Array:
    if op.spatial_rank == 1:
        array = array[:, :, None]
    if _is_depthwise(op):  # [C*M, 1, kh, kw] to [kh, kw, C, M]
        return array.reshape(op.group_count, -1, *array.shape[2:]).transpose(2, 3, 0, 1)
    if op.channels_last:  # both kinds: the first axis becomes the last
        return array.transpose(*range(2, array.ndim), 1, 0)
    return array
