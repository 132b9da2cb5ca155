"""The convolutions of the matrix engine, the layers that they replace, and the axis orders of their filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.convolution import full_rank
from ...dialects.nn.shapes import Shape, known, shape_of, static
from ..refusal import NotLowered, require
from .constants import Array, constant_behind, numbers_behind
from .rules import Builder, Key

FORMATS = {1: ("NCHW", "NHWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Data formats by number of spatial axes: channels second, channels last. One axis becomes two."""


class Operands(NamedTuple):
    """The operands of a convolution: float values, or int8 ones with an int32 bias."""

    x: SSAValue
    weight: SSAValue
    bias: SSAValue | None
    zero_point: int = 0


class Operator(NamedTuple):
    """An operation of Ascend IR: how it is built, whether it adds a bias, and whether its filter has an axis per channel."""

    make: Callable[[Builder, Any, Operands], SSAValue]
    has_bias: bool = True
    by_channel: bool = False


def geometry(op: nn.ConvolutionOp) -> dict[str, Any]:
    """strides, pads and dilations in Ascend's form. Raises NotLowered if padding depends on unknown sizes."""
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


def _grouped(build: Builder, op: nn.ConvOp, operands: Operands) -> SSAValue:
    x, weight, bias, zero_point = operands
    kind = ascend.Conv3DOp if op.spatial_rank == 3 else ascend.Conv2DOp
    symmetric = kind is not ascend.Conv3DOp or zero_point == 0
    require(symmetric, "symmetric-activation", "Conv3D has no offset_x, so the zero point would have to be 0")
    properties = {**geometry(op), "groups": op.group_count, "offset_x": zero_point}
    return build.add(kind, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _depthwise(build: Builder, op: nn.ConvOp, operands: Operands) -> SSAValue:
    x, weight, bias, zero_point = operands
    require(op.spatial_rank == 2, "spatial-rank", "DepthwiseConv2D has two spatial axes")
    properties = {**geometry(op), "offset_x": zero_point}
    return build.add(ascend.DepthwiseConv2DOp, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _transposed_geometry(op: nn.ConvTransposeOp) -> dict[str, Any]:
    require(op.spatial_rank != 3, "spatial-rank", "there is no Conv3DTranspose")
    found = geometry(op)
    require(all(p >= 0 for p in found["pads"]), "pads", "its output_shape asks for more than the windows cover")
    return {**found, "groups": op.group_count}


def _transposed(build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
    x, weight, bias, zero_point = operands
    properties = _transposed_geometry(op)
    front = (0,) if op.spatial_rank == 1 else ()
    padding = full_rank(FORMATS[2][op.channels_last], (*front, *op.output_padding_list), neutral=0)
    # 0: the size follows from the geometry, even if the batch is unknown
    input_size = build.ints([0, 0, 0, 0], "input_size")
    properties |= {"output_padding": padding, "offset_x": zero_point}
    return build.add(ascend.Conv2DTransposeOp, input_size, x, weight, bias, name=f"{build.hint}_acc", **properties).y


def _backprop(build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
    """The result's shape is an operand, 0 for sizes that follow from the geometry."""
    x, weight, _, zero_point = operands
    symmetric = zero_point == 0
    require(symmetric, "symmetric-activation", "Conv2DBackpropInput has no offset_x, its zero point would have to be 0")
    require(op.spatial_rank == 2, "spatial-rank", "Conv2DBackpropInput has two spatial axes")
    sizes = op.spatial(shape_of(op.result))
    follows = not any(op.output_padding_list)
    require(
        follows or static(sizes),
        "known-sizes",
        "the sizes of its result are not known, and do not follow from those of x",
    )
    wanted = op.arrange(0, 0, (0, 0) if follows else sizes)
    input_size = build.constant(np.array(wanted, np.int32), f"{build.hint}_input_size")
    properties = _transposed_geometry(op)
    return build.add(ascend.Conv2DBackpropInputOp, input_size, weight, x, name=f"{build.hint}_acc", **properties).y


def _deconvolution(build: Builder, op: nn.ConvTransposeOp, operands: Operands) -> SSAValue:
    x, weight, bias, zero_point = operands
    planar = op.spatial_rank == 2 and not op.channels_last
    require(planar, "spatial-rank", "Deconvolution has two spatial axes, behind the channels")
    require(not any(op.output_padding_list), "output-padding", "Deconvolution adds nothing to the size of its result")
    properties = {**_transposed_geometry(op), "strides": op.stride_list, "offset_x": zero_point}
    return build.add(ascend.DeconvolutionOp, x, weight, bias, name=f"{build.hint}_acc", **properties).y


OPERATORS: Mapping[Key, Operator] = {
    (nn.ConvOp, None): Operator(_grouped),
    (nn.ConvOp, ("tensorflow", "DepthwiseConv2dNative")): Operator(_depthwise, by_channel=True),
    (nn.ConvTransposeOp, None): Operator(_transposed),
    (nn.ConvTransposeOp, ("tensorflow", "Conv2DBackpropInput")): Operator(_backprop, has_bias=False),
    (nn.ConvTransposeOp, ("caffe", "Deconvolution")): Operator(_deconvolution),
}
"""Every grouped convolution except TensorFlow's depthwise layer is Conv2D with groups."""


def arranged_filter(build: Builder, op: nn.ConvolutionOp, weight: SSAValue, by_channel: bool) -> SSAValue:
    """The weight in the axis order of the operation: itself if that is `nn`'s, otherwise a new constant, or operations if it is
    computed at run time.
    """
    require(all(map(known, shape_of(weight))), "known-sizes", "the sizes of its weight are not known")
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
    """Does what `_arranged` does, to a value."""
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
    """The value in another shape: what was reshaped to it, if that has this shape."""
    if isinstance(value.owner, ascend.ReshapeOp) and shape_of(value.owner.x) == shape:
        return value.owner.x
    return build.add(ascend.ReshapeOp, value, build.ints(shape, "filter_shape"), name=f"{build.hint}_filter").y


def _permuted(build: Builder, value: SSAValue, perm: Sequence[int]) -> SSAValue:
    """The value with its axes in another order: what was transposed to it, if that has this order."""
    owner = value.owner
    if isinstance(owner, ascend.TransposeOp):
        before = nn.constant_ints(owner.perm)
        if before is not None and all(before[p] == i for i, p in enumerate(perm)):
            return owner.x
    return build.add(ascend.TransposeOp, value, build.ints(perm, "filter_perm"), name=f"{build.hint}_filter").y
