"""Resizing of images, and blocks of space moved into channels or the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.nn import ints
from ...dialects.nn.attributes import Coordinates, Nearest, ResizeMode
from ...dialects.nn.shapes import element_of, known, shape_of
from ..refusal import NotLowered, require
from .rules import Builder, lowers

_FLAGS = {
    Coordinates.ASYMMETRIC: (False, False),
    Coordinates.ALIGN_CORNERS: (True, False),
    Coordinates.HALF_PIXEL: (False, True),
}
"""align_corners and half_pixel_centers by coordinate mode."""


@lowers(nn.ResizeOp)
def resize(build: Builder, op: nn.ResizeOp) -> Sequence[SSAValue]:
    """TensorFlow's operators for its bilinear and nearest resizing by size, otherwise ONNX's Resize."""
    require(len(shape_of(op.input)) == 4, "spatial-rank", "Resize takes tensors of rank 4")
    if (
        op.origin is not None
        and op.origin.framework.data == "tensorflow"
        and (image := _as_image(build, op)) is not None
    ):
        return [image]
    require(op.cubic_steps is None, "cubic-steps", "Resize computes cubic weights for every position")
    symmetric = op.coordinates.data is Coordinates.HALF_PIXEL_SYMMETRIC
    require(not symmetric, "coordinates", "Resize does not know half_pixel_symmetric")
    scales, sizes = (() if op.scales is None else op.scales.data), _sizes(op)
    properties: dict[str, Any] = {
        "coordinate_transformation_mode": op.coordinates.data.value,
        "cubic_coeff_a": op.cubic_coeff,
        "exclude_outside": int(op.exclude_outside is not None),
        "mode": op.mode.data.value,
        "nearest_mode": op.nearest.data.value,
    }
    listed = build.constant(np.array(scales, np.float32), f"{build.hint}_scales")
    return [build.add(ascend.ResizeOp, op.input, listed, build.ints(sizes, "sizes"), **properties).y]


def _sizes(op: nn.ResizeOp) -> Sequence[int]:
    """The requested sizes, including unchanged ones. Raises NotLowered for an unknown one."""
    sizes = ints(op.sizes)
    if not all(s or known(d) for s, d in zip(sizes, shape_of(op.input), strict=False)):
        raise NotLowered("known-sizes", "Resize wants all sizes, and one that stays is not known")
    return [s or d for s, d in zip(sizes, shape_of(op.input), strict=False)]


def _as_image(build: Builder, op: nn.ResizeOp) -> SSAValue | None:
    """TensorFlow's operation, if channels and batch stay, and coordinates and rounding are TensorFlow's."""
    sizes, flags = ints(op.sizes), _FLAGS.get(op.coordinates.data)
    data_format = _data_format(sizes)
    if flags is None or data_format is None:
        return None
    size = build.constant(np.array([s for s in sizes if s], np.int32), f"{build.hint}_size")
    properties: dict[str, Any] = {"align_corners": flags[0], "half_pixel_centers": flags[1], "data_format": data_format}
    if op.mode.data is ResizeMode.LINEAR:
        dtype = data_type_number(element_of(op.input))
        return build.add(ascend.ResizeBilinearV2Op, op.input, size, dtype=dtype, **properties).y
    rounding = Nearest.ROUND_PREFER_CEIL if any(flags) else Nearest.FLOOR
    if op.mode.data is ResizeMode.NEAREST and op.nearest.data is rounding:
        return build.add(ascend.ResizeNearestNeighborV2Op, op.input, size, **properties).y
    return None


def _data_format(sizes: Sequence[int]) -> str | None:
    """The format in which only the spatial axes have sizes."""
    given = [axis for axis, size in enumerate(sizes) if size]
    return "NHWC" if given == [1, 2] else "NCHW" if given == [2, 3] else None


def _format(op: nn.LayoutOp) -> str:
    return "NHWC" if op.channels_last else "NCHW"


@lowers(nn.DepthToSpaceOp)
def depth_to_space(build: Builder, op: nn.DepthToSpaceOp) -> Sequence[SSAValue]:
    properties: dict[str, Any] = {
        "block_size": op.block,
        "mode": op.mode.data.value.upper(),
        "data_format": _format(op),
    }
    return [build.add(ascend.DepthToSpaceOp, op.input, **properties).y]


@lowers(nn.SpaceToDepthOp)
def space_to_depth(build: Builder, op: nn.SpaceToDepthOp) -> Sequence[SSAValue]:
    return [build.add(ascend.SpaceToDepthOp, op.input, block_size=op.block, data_format=_format(op)).y]


@lowers(nn.SpaceToBatchOp)
def space_to_batch(build: Builder, op: nn.SpaceToBatchOp) -> Sequence[SSAValue]:
    return [_in_blocks(build, op, ascend.SpaceToBatchNDOp, ints(op.pads))]


@lowers(nn.BatchToSpaceOp)
def batch_to_space(build: Builder, op: nn.BatchToSpaceOp) -> Sequence[SSAValue]:
    return [_in_blocks(build, op, ascend.BatchToSpaceNDOp, ints(op.crops))]


def _in_blocks(
    build: Builder,
    op: nn.SpaceToBatchOp | nn.BatchToSpaceOp,
    kind: type[ascend.BatchBlockOp],
    borders: Sequence[int],
) -> SSAValue:
    require(op.channels_last, "channels-last", "its blocks are of the axes from 1 on, which are the channels here")
    block = ints(op.block)
    pairs = np.array(borders, np.int64).reshape(2, len(block)).T
    limits = build.constant(np.ascontiguousarray(pairs), f"{build.hint}_borders")
    return build.add(kind, op.input, build.ints(block, "block"), limits).y
