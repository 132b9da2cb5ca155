"""Building blocks of converters: cutting, padding, run-time sizes, weights in TensorFlow's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import Shape, known, shape_of
from ..graph import source
from .graph import quantized_weight
from .layer import TensorFlowLayer
from .quantization import write_weight


def cut(layer: TensorFlowLayer, x: str, slices: Sequence[slice], name: str | None = None) -> str:
    """The slices of a tensor, one per axis; a missing begin or end is that of the axis, for either sign of the step."""
    masks = [sum(1 << i for i, s in enumerate(slices) if getattr(s, end) is None) for end in ("start", "stop")]
    return layer.emit(
        "StridedSlice",
        [
            x,
            layer.ints([s.start or 0 for s in slices], "begin"),
            layer.ints([s.stop or 0 for s in slices], "end"),
            layer.ints([1 if s.step is None else s.step for s in slices], "strides"),
        ],
        {"begin_mask": masks[0] or None, "end_mask": masks[1] or None},
        name or f"{layer.label}/StridedSlice",
    )[0]


def pad_all(
    layer: TensorFlowLayer, x: str, begins: Sequence[int], ends: Sequence[int], fill: float, name: str | None = None
) -> str:
    """A tensor with elements of one value added before and after each axis; negative numbers cut off."""
    if any(p < 0 for p in (*begins, *ends)):
        x = cut(layer, x, [slice(max(-b, 0) or None, min(e, 0) or None) for b, e in zip(begins, ends, strict=True)])
    pairs = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    if not any(map(any, pairs)):
        return x
    inputs = [x, layer.pairs(pairs, "paddings"), layer.scalar(fill, x, "value")]
    return layer.emit("PadV2", inputs, {}, name or f"{layer.label}/PadV2")[0]


class Axis(NamedTuple):
    """The size that an axis of a tensor has at run time."""

    number: int


Size = int | Axis
"""A number, -1 for an inferred size, or the size of an axis."""


def sizes_vector(layer: TensorFlowLayer, x: str, shape: Shape, sizes: Sequence[Size]) -> str:
    """Sizes as a vector; unknown sizes of axes are taken from `x`, of this shape."""
    fixed = [shape[s.number] if isinstance(s, Axis) and known(shape[s.number]) else s for s in sizes]
    numbers = [s for s in fixed if not isinstance(s, Axis)]
    if len(numbers) == len(fixed):
        return layer.ints(numbers, "shape")
    if not numbers:
        both = layer.sizes(x)
    else:
        both = layer.helper("ConcatV2", layer.sizes(x), layer.ints(numbers, "numbers"), layer.int(0, "axis"))
    places = iter(range(len(shape), len(shape) + len(numbers)))
    order = [s.number if isinstance(s, Axis) else next(places) for s in fixed]
    return layer.helper("GatherV2", both, layer.ints(order, "order"), layer.int(0, "axis"))


def reshaped(layer: TensorFlowLayer, x: str, shape: Shape, sizes: Sequence[Size], name: str | None = None) -> str:
    """A tensor in another shape; one unknown size may be inferred."""
    open_ = [i for i, s in enumerate(sizes) if isinstance(s, Axis) and not known(shape[s.number])]
    if len(open_) == 1 and not {-1, 0} & {shape[s.number] if isinstance(s, Axis) else s for s in sizes}:
        sizes = [-1 if i == open_[0] else s for i, s in enumerate(sizes)]
    return layer.emit("Reshape", [x, sizes_vector(layer, x, shape, sizes)], {}, name or f"{layer.label}/Reshape")[0]


def weight(layer: TensorFlowLayer, value: SSAValue, perm: tuple[int, ...], to: Shape | None = None) -> str:
    """A weight, transposed and then in the shape `to`. Constants, also integers, are written in this form.

    Raises CompileError if a needed size is unknown.
    """
    if (constant := nn.constant_of(source(value))) is not None:
        return layer.graph.stored(constant, perm, to)
    if (quantized := quantized_weight(value)) is not None:
        x = write_weight(quantized, layer.graph, perm)
    else:
        x = layer.helper("Transpose", value, layer.ints(perm, "perm"))
    if to is None or to == tuple(shape_of(value)[p] for p in perm):
        return x
    if not all(map(known, to)):
        raise layer.error("needs a weight of known shape", "--infer-shapes sets the sizes of inputs")
    return layer.helper("Reshape", x, layer.ints(to, "shape"))
