"""Resizing of images, and blocks of space moved into channels or the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Operation

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.ascend.space import IMAGE_FLAGS, image_nearest
from ...dialects.nn import ints
from ...dialects.nn.attributes import Coordinates, ResizeMode
from ...dialects.nn.shapes import element_of, known, shape_of
from ...rewriting import Condition, Roots, requires
from .rules import Builder, Lowering, Values, lowers_each


class Image(Lowering[nn.ResizeOp]):
    """ResizeBilinearV2 or ResizeNearestNeighborV2: TensorFlow's bilinear and nearest resizing, by size"""

    def match(self, op: Operation) -> nn.ResizeOp | None:
        if not isinstance(op, nn.ResizeOp) or op.origin is None or op.origin.framework.data != "tensorflow":
            return None
        flags = IMAGE_FLAGS.get(op.coordinates.data)
        if flags is None or _data_format(ints(op.sizes)) is None:
            return None
        nearest = op.mode.data is ResizeMode.NEAREST and op.nearest.data is image_nearest(flags)
        return op if nearest or op.mode.data is ResizeMode.LINEAR else None

    spatial_rank: Condition[Any] = requires(
        lambda op: len(shape_of(op.input)) == 4, "the input is of rank 4", "Resize takes tensors of rank 4"
    )

    def rewrite(self, build: Builder, op: nn.ResizeOp) -> Values:
        sizes, (corners, half) = ints(op.sizes), IMAGE_FLAGS[op.coordinates.data]
        size = build.constant(np.array([s for s in sizes if s], np.int32), f"{build.hint}_size")
        flags: dict[str, Any] = {"align_corners": corners, "half_pixel_centers": half}
        flags["data_format"] = _data_format(sizes)
        if op.mode.data is ResizeMode.LINEAR:
            dtype = data_type_number(element_of(op.input))
            return [build.add(ascend.ResizeBilinearV2Op, op.input, size, dtype=dtype, **flags).y]
        return [build.add(ascend.ResizeNearestNeighborV2Op, op.input, size, **flags).y]


class Resize(Lowering[nn.ResizeOp]):
    """Resize, as in ONNX"""

    def match(self, op: Operation) -> nn.ResizeOp | None:
        return op if isinstance(op, nn.ResizeOp) and Image().match(op) is None else None

    spatial_rank: Condition[Any] = Image.spatial_rank

    cubic_steps: Condition[Any] = requires(
        lambda op: op.cubic_steps is None,
        "cubic weights are computed for every position",
        "Resize computes cubic weights for every position",
    )

    coordinates: Condition[Any] = requires(
        lambda op: op.coordinates.data is not Coordinates.HALF_PIXEL_SYMMETRIC,
        "the coordinates are not half_pixel_symmetric",
        "Resize does not know half_pixel_symmetric",
    )

    known_sizes: Condition[Any] = requires(
        lambda op: all((s or known(d) for s, d in zip(ints(op.sizes), shape_of(op.input), strict=False))),
        "all sizes are known",
        "Resize wants all sizes, and one that stays is not known",
    )

    def rewrite(self, build: Builder, op: nn.ResizeOp) -> Values:
        scales = () if op.scales is None else op.scales.data
        sizes = [s or d for s, d in zip(ints(op.sizes), shape_of(op.input), strict=False)]
        properties: dict[str, Any] = {
            "coordinate_transformation_mode": op.coordinates.data.value,
            "cubic_coeff_a": op.cubic_coeff,
            "exclude_outside": int(op.exclude_outside is not None),
            "mode": op.mode.data.value,
            "nearest_mode": op.nearest.data.value,
        }
        listed = build.constant(np.array(scales, np.float32), f"{build.hint}_scales")
        return [build.add(ascend.ResizeOp, op.input, listed, build.ints(sizes, "sizes"), **properties).y]


def _data_format(sizes: Sequence[int]) -> str | None:
    """The format in which only the spatial axes have sizes."""
    given = [axis for axis, size in enumerate(sizes) if size]
    return "NHWC" if given == [1, 2] else "NCHW" if given == [2, 3] else None


def _format(op: nn.LayoutOp) -> str:
    return "NHWC" if op.channels_last else "NCHW"


lowers_each(
    {
        nn.DepthToSpaceOp: (
            ascend.DepthToSpaceOp,
            lambda op: {"block_size": op.block, "mode": op.mode.data.value.upper(), "data_format": _format(op)},
        ),
        nn.SpaceToDepthOp: (
            ascend.SpaceToDepthOp,
            lambda op: {"block_size": op.block, "data_format": _format(op)},
        ),
    }
)


class Blocks(Lowering[nn.SpaceToBatchOp | nn.BatchToSpaceOp]):
    """SpaceToBatchND or BatchToSpaceND"""

    roots: ClassVar[Roots] = (nn.SpaceToBatchOp, nn.BatchToSpaceOp)

    channels_last: Condition[Any] = requires(
        lambda op: op.channels_last,
        "the channels are the last axis",
        "its blocks are of the axes from 1 on, which are the channels here",
    )

    def rewrite(self, build: Builder, op: nn.SpaceToBatchOp | nn.BatchToSpaceOp) -> Values:
        block = ints(op.block)
        back = isinstance(op, nn.BatchToSpaceOp)
        kind, borders = (ascend.BatchToSpaceNDOp, op.crops) if back else (ascend.SpaceToBatchNDOp, op.pads)
        pairs = np.array(ints(borders), np.int64).reshape(2, len(block)).T
        limits = build.constant(np.ascontiguousarray(pairs), f"{build.hint}_borders")
        return [build.add(kind, op.input, build.ints(block, "block"), limits).y]


PATTERNS = (Image, Resize, Blocks)
