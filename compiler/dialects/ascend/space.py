"""Resizing of images, and blocks of space moved into channels or the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, f32, i32
from xdsl.irdl import Operand, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.attributes import Coordinates, Nearest
from ..nn.base import ANY_TENSOR, BOOL, INT, REAL, TEXT, Bool, Int, Real, Result, Text, integer, real
from ..nn.constant import array_of, constant_ints
from ..nn.shapes import element_of, shape_of
from .base import (
    ALL,
    DATA_TYPES,
    FALSE,
    FBD,
    INDEX,
    REAL_NUMBER,
    AscendOp,
    ElementTypes,
    FormatOp,
    Meaning,
    check_choice,
    declare,
    operation,
)

FORMAT_DEVIATION = "has data_format, as tensors have no format here"


class ImageOp(FormatOp):
    """x `[N, H, W, C]` (`data_format "NCHW"`: channels second)."""

    x: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))


IMAGE_FLAGS: Mapping[Coordinates, tuple[bool, bool]] = {
    Coordinates.ASYMMETRIC: (False, False),
    Coordinates.ALIGN_CORNERS: (True, False),
    Coordinates.HALF_PIXEL: (False, True),
}
"""align_corners and half_pixel_centers by coordinate mode."""


def image_nearest(flags: tuple[bool, bool]) -> Nearest:
    """The rounding of positions: down, or with either flag to the nearest."""
    return Nearest.ROUND_PREFER_CEIL if any(flags) else Nearest.FLOOR


class ResizeImageOp(ImageOp):
    """Resizes the spatial axes to `size`, `[h, w]` (TensorFlow)."""

    DEVIATION: ClassVar[str] = FORMAT_DEVIATION
    MODE: ClassVar[str]

    x: Operand = operand_def(ANY_TENSOR)
    size: Operand = operand_def(ANY_TENSOR)
    align_corners: Bool = prop_def(BOOL, default_value=FALSE)
    half_pixel_centers: Bool = prop_def(BOOL, default_value=FALSE)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all axes, 0 for unchanged ones."""
        numbers = constant_ints(self.size)
        if numbers is None:
            raise VerifyException("size must be a constant")
        if len(numbers) != 2 or min(numbers) < 1:
            raise VerifyException(f"size {list(numbers)} must hold two positive numbers")
        return self.arrange(0, 0, numbers)

    def derive(self) -> Sequence[Tensor]:
        self.check_rank("x", self.x)
        if self.align_corners.value.data and self.half_pixel_centers.value.data:
            raise VerifyException("align_corners and half_pixel_centers exclude each other")
        return super().derive()

    def meaning(self) -> Meaning:
        flags = bool(self.align_corners.value.data), bool(self.half_pixel_centers.value.data)
        positions = {
            "coordinates": next(mode.value for mode, each in IMAGE_FLAGS.items() if each == flags),
            "nearest": image_nearest(flags).value,
        }
        return self.as_nn(nn.ResizeOp, 1, sizes=self.sizes, mode=self.MODE, **positions)


@declare(x=FBD, size=(i32,))
class ResizeBilinearV2Op(ResizeImageOp):
    """Bilinear resizing; y has the element type with number `dtype`, or that of x."""

    MODE: ClassVar[str] = "linear"

    dtype: Int = prop_def(INT, default_value=integer(0))

    def derive(self) -> Sequence[Tensor]:
        if DATA_TYPES.get(self.dtype.value.data) != element_of(self.x):
            raise VerifyException(
                f"dtype {self.dtype.value.data} must be the number of {element_of(self.x)}, the type of x"
            )
        return super().derive()


@declare(x=REAL_NUMBER, size=(i32,))
class ResizeNearestNeighborV2Op(ResizeImageOp):
    """Resizing by the nearest element; y has the type of x."""

    MODE: ClassVar[str] = "nearest"


@declare(x=REAL_NUMBER, scales=(f32,), sizes=INDEX)
class ResizeOp(AscendOp):
    """ONNX Resize of x of rank 4, by `scales` (float32, one per axis) or to `sizes`; the other one is empty.

    y of the type of x. `extrapolation_value` must be 0: nothing is cut out.
    """

    DEVIATION: ClassVar[str] = "roi is left out; scales and sizes are both there, one of them empty"

    x: Operand = operand_def(ANY_TENSOR)
    scales: Operand = operand_def(ANY_TENSOR)
    sizes: Operand = operand_def(ANY_TENSOR)
    coordinate_transformation_mode: Text = prop_def(TEXT, default_value=StringAttr("half_pixel"))
    cubic_coeff_a: Real = prop_def(REAL, default_value=real(-0.75))
    exclude_outside: Int = prop_def(INT, default_value=integer(0))
    extrapolation_value: Real = prop_def(REAL, default_value=real(0.0))
    mode: Text = prop_def(TEXT, default_value=StringAttr("nearest"))
    nearest_mode: Text = prop_def(TEXT, default_value=StringAttr("round_prefer_floor"))
    y: Result = result_def(ANY_TENSOR)

    COORDINATES: ClassVar[tuple[str, ...]] = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    NEAREST: ClassVar[tuple[str, ...]] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

    @property
    def entries(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Scales and sizes, one of them empty."""
        scales, sizes = array_of(self.scales), constant_ints(self.sizes)
        if scales is None or sizes is None:
            raise VerifyException("scales and sizes must be constants")
        if sorted((scales.size, len(sizes))) != [0, 4]:
            raise VerifyException(
                f"{scales.size} scales and {len(sizes)} sizes, expected 4 of one and none of the other"
            )
        return tuple(map(float, scales.reshape(-1))), sizes

    def derive(self) -> Sequence[Tensor]:
        x, (scales, sizes) = shape_of(self.x), self.entries
        if len(x) != 4:
            raise VerifyException(f"x must be of rank 4, not {len(x)}")
        check_choice("coordinate_transformation_mode", self.coordinate_transformation_mode, self.COORDINATES)
        check_choice("mode", self.mode, ("nearest", "linear", "cubic"))
        check_choice("nearest_mode", self.nearest_mode, self.NEAREST)
        if self.exclude_outside.value.data not in (0, 1):
            raise VerifyException("exclude_outside must be 0 or 1")
        if self.extrapolation_value.value.data:
            raise VerifyException("extrapolation_value must be 0")
        if any(not 0 < e < inf for e in (scales or sizes)):
            raise VerifyException("scales and sizes must be positive and finite")
        return super().derive()

    def meaning(self) -> Meaning:
        scales, sizes = self.entries
        return self.as_nn(
            nn.ResizeOp,
            1,
            scales=scales or None,
            sizes=sizes or None,
            mode=self.mode.data,
            coordinates=self.coordinate_transformation_mode.data,
            nearest=self.nearest_mode.data,
            cubic_coeff=self.cubic_coeff_a,
            exclude_outside=bool(self.exclude_outside.value.data),
        )


class BlockSizeOp(ImageOp):
    """Blocks of `block_size` times `block_size`."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL}

    block_size: Int = prop_def(INT)

    def derive(self) -> Sequence[Tensor]:
        if (block := self.block_size.value.data) < 2:
            raise VerifyException(f"block_size must be at least 2, not {block}")
        return super().derive()


@operation
class DepthToSpaceOp(BlockSizeOp):
    """Moves channels into space; `mode` is `DCR` (blocks are the outer part of the channels) or `CRD` (the inner one)."""

    mode: Text = prop_def(TEXT, default_value=StringAttr("DCR"))

    def derive(self) -> Sequence[Tensor]:
        check_choice("mode", self.mode, ("DCR", "CRD"))
        return super().derive()

    def meaning(self) -> Meaning:
        mode = self.mode.data.lower()
        return self.as_nn(nn.DepthToSpaceOp, block=self.block_size, mode=mode, layout=self.nn_layout)


@operation
class SpaceToDepthOp(BlockSizeOp):
    """Moves space into channels; the positions in a block become the outer part of the channels."""

    def meaning(self) -> Meaning:
        return self.as_nn(nn.SpaceToDepthOp, block=self.block_size, layout=self.nn_layout)


class BatchBlockOp(AscendOp):
    """Moves blocks of the axes from 1 on. block_shape: one number per axis, crops or paddings `[axes, 2]`; constants."""

    x: Operand = operand_def(ANY_TENSOR)
    block_shape: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def blocks(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """The block's size, and (begin, end), of each axis."""
        name, _ = self.get_irdl_definition().operands[2]
        block, borders = constant_ints(self.block_shape), constant_ints(self.operands[2])
        if block is None or borders is None:
            raise VerifyException(f"block_shape and {name} must be constants")
        if not 1 <= len(block) < len(shape_of(self.x)):
            raise VerifyException(f"block_shape has {len(block)} entries for x of rank {len(shape_of(self.x))}")
        if len(borders) != 2 * len(block) or min(block) < 1 or min(borders) < 0:
            raise VerifyException(
                f"block_shape must be positive, {name} not negative, a begin and an end per block axis"
            )
        return block, tuple(zip(borders[::2], borders[1::2], strict=True))

    def block_lists(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The blocks, and the borders in the order of `nn`: all begins, then all ends."""
        block, pairs = self.blocks()
        return block, (*(b for b, _ in pairs), *(e for _, e in pairs))


@declare(x=REAL_NUMBER, block_shape=INDEX, paddings=INDEX)
class SpaceToBatchNDOp(BatchBlockOp):
    """Pads x `[N, *space, ...]` with zeros, then moves each position within a block into the batch (TensorFlow)."""

    x: Operand = operand_def(ANY_TENSOR)
    block_shape: Operand = operand_def(ANY_TENSOR)
    paddings: Operand = operand_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        block, pads = self.block_lists()
        return self.as_nn(nn.SpaceToBatchOp, 1, block=block, layout="nhwc", pads=pads)


@declare(x=REAL_NUMBER, block_shape=INDEX, crops=INDEX)
class BatchToSpaceNDOp(BatchBlockOp):
    """Moves parts of the batch back into space, then crops it (TensorFlow)."""

    x: Operand = operand_def(ANY_TENSOR)
    block_shape: Operand = operand_def(ANY_TENSOR)
    crops: Operand = operand_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        block, crops = self.block_lists()
        return self.as_nn(nn.BatchToSpaceOp, 1, block=block, layout="nhwc", crops=crops)


__all__ = [
    "BatchBlockOp",
    "BatchToSpaceNDOp",
    "DepthToSpaceOp",
    "ResizeBilinearV2Op",
    "ResizeImageOp",
    "ResizeNearestNeighborV2Op",
    "ResizeOp",
    "SpaceToBatchNDOp",
    "SpaceToDepthOp",
]
