"""Convolutions against TensorFlow, in both layouts, of known and of unknown sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn

from ...frameworks import later, tf
from ...values import normal
from .conftest import kinds

Agrees = Callable[..., ModuleOp]
raw = later("tensorflow.raw_ops")
SUMS = {"rtol": 1e-5, "atol": 1e-5}
"""Sums of at most some hundred products of numbers around 1, rounded in another order."""


def only(module: ModuleOp, kind: type[nn.ConvolutionOp]) -> Any:
    """The only operation next to constants."""
    assert kinds(module) == [kind.name.removeprefix("nn.")]
    return next(op for op in module.walk() if isinstance(op, kind))


def first(values: Sequence[Any]) -> list[Any]:
    """A list over axes with the channels last, with the channels second."""
    return [values[0], values[-1], *values[1:-1]]


@dataclass(frozen=True)
class Geometry:
    """How a filter moves, by spatial axis."""

    strides: Sequence[int]
    padding: Any = "SAME"
    dilations: Sequence[int] | None = None


LAYOUTS = {"last": {4: "NHWC", 5: "NDHWC"}, "first": {4: "NCHW", 5: "NCDHW"}}


def attributes(how: Geometry, layout: str, rank: int) -> dict[str, Any]:
    """The attributes of a raw operator."""
    arranged = first if layout == "first" else list
    explicit = isinstance(how.padding, list)
    pairs = arranged([[0, 0], *how.padding, [0, 0]]) if explicit else []
    given: dict[str, Any] = {
        "strides": arranged([1, *how.strides, 1]),
        "padding": "EXPLICIT" if explicit else how.padding,
        "dilations": arranged([1, *(how.dilations or [1] * (rank - 2)), 1]),
        "data_format": LAYOUTS[layout][rank],
    }
    if rank == 4:
        given["explicit_paddings"] = [p for pair in pairs for p in pair]
    return given


def arranged(x: np.ndarray, layout: str) -> np.ndarray:
    """An array with the channels last in a layout."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if layout == "first" else x


def unknown(x: np.ndarray, layout: str, batch: bool = True, space: bool = True) -> list[Any]:
    channel = 1 if layout == "first" else x.ndim - 1
    sizes = [None if i != channel and (batch if i == 0 else space) else d for i, d in enumerate(x.shape)]
    return [tf.TensorSpec(sizes, x.dtype)]


GEOMETRIES = {
    "same": Geometry([1, 1]),
    "same-2": Geometry([2, 2]),
    "same-3x2": Geometry([3, 2]),
    "valid": Geometry([1, 1], "VALID"),
    "valid-2": Geometry([2, 1], "VALID"),
    "explicit": Geometry([2, 1], [[1, 2], [0, 3]]),
    "dilated": Geometry([1, 1], "SAME", [2, 3]),
    "dilated-valid": Geometry([1, 1], "VALID", [2, 1]),
    "dilated-explicit": Geometry([1, 1], [[2, 1], [0, 2]], [2, 2]),
}
WEIGHTS = {"plain": normal(3, 2, 4, 6), "groups": normal(3, 2, 2, 6), "1x1": normal(1, 1, 4, 6)}


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_conv2d(agrees: Agrees, geometry: str, weight: str, layout: str, sizes: str) -> None:
    how, x = GEOMETRIES[geometry], arranged(normal(2, 9, 8, 4), layout)

    def convolved(x: Any, w: Any) -> Any:
        return raw.Conv2D(input=x, filter=w, **attributes(how, layout, 4))

    signature = unknown(x, layout) if sizes == "unknown" else None
    op = only(agrees(convolved, x, variables=[WEIGHTS[weight]], signature=signature, **SUMS), nn.ConvOp)
    assert op.group_count == (2 if weight == "groups" else 1)
    assert (op.auto_pad is not None) == (sizes == "unknown" and how.padding == "SAME")


CUBES = {
    "same": Geometry([1, 1, 1]),
    "same-2": Geometry([2, 1, 2]),
    "valid": Geometry([1, 2, 1], "VALID"),
    "dilated": Geometry([1, 1, 1], "SAME", [1, 2, 2]),
    "dilated-depth": Geometry([1, 1, 1], "VALID", [2, 1, 1]),
}


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("geometry", CUBES)
def test_conv3d(agrees: Agrees, geometry: str, layout: str, sizes: str) -> None:
    how, x, w = CUBES[geometry], arranged(normal(2, 5, 6, 7, 3), layout), normal(2, 3, 2, 3, 4)

    def convolved(x: Any, w: Any) -> Any:
        return raw.Conv3D(input=x, filter=w, **attributes(how, layout, 5))

    signature = unknown(x, layout) if sizes == "unknown" else None
    only(agrees(convolved, x, variables=[w], signature=signature, **SUMS), nn.ConvOp)


DEPTHWISE = {
    "same": Geometry([1, 1]),
    "same-2": Geometry([2, 2]),
    "valid": Geometry([1, 1], "VALID"),
    "valid-2": Geometry([2, 2], "VALID"),
    "explicit": Geometry([1, 1], [[1, 2], [0, 3]]),
}


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("geometry", DEPTHWISE)
def test_depthwise(agrees: Agrees, geometry: str, multiplier: int, layout: str, sizes: str) -> None:
    how, x, w = DEPTHWISE[geometry], arranged(normal(2, 9, 8, 4), layout), normal(3, 2, 4, multiplier)

    def convolved(x: Any, w: Any) -> Any:
        return raw.DepthwiseConv2dNative(input=x, filter=w, **attributes(how, layout, 4))

    signature = unknown(x, layout) if sizes == "unknown" else None
    op = only(agrees(convolved, x, variables=[w], signature=signature, **SUMS), nn.ConvOp)
    assert op.group_count == 4


def test_depthwise_of_one_channel(agrees: Agrees) -> None:
    agrees(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"), normal(1, 5, 5, 1), variables=[normal(3, 3, 1, 4)]
    )


def test_weights_of_run_time(agrees: Agrees) -> None:
    """Conv2D, its transposed form and a depthwise one with filters that are inputs."""

    def convolved(x: Any, w: Any) -> Any:
        y = tf.nn.conv2d(x, w, 1, "SAME")
        z = tf.nn.depthwise_conv2d(y, w, [1] * 4, "VALID")
        return tf.nn.conv2d_transpose(z[..., :4], w, [2, 6, 6, 4], 2, "SAME")

    x, w = normal(2, 5, 5, 4), normal(3, 3, 4, 4)
    agrees(convolved, x, w, atol=1e-4)
    agrees(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"),
        x,
        w,
        signature=[tf.TensorSpec([None, None, None, 4]), tf.TensorSpec([None, None, 4, None])],
        **SUMS,
    )


def test_a_shared_filter_is_one_constant(agrees: Agrees) -> None:
    def convolved(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(tf.nn.conv2d(x, w, 1, "SAME"), w, 2, "SAME")

    module = agrees(convolved, normal(1, 6, 6, 4), variables=[normal(3, 3, 4, 4)], atol=1e-4)
    assert sum(isinstance(op, nn.ConstantOp) for op in module.walk()) == 1


# Transposed convolutions


BACKWARD = {
    "same": (Geometry([1, 1]), [5, 6]),
    "same-2": (Geometry([2, 2]), [10, 12]),
    "same-2-odd": (Geometry([2, 2]), [9, 11]),
    "same-3-odd": (Geometry([3, 3]), [13, 17]),
    "same-4": (Geometry([4, 4]), [20, 22]),
    "valid": (Geometry([1, 1], "VALID"), [7, 7]),
    "valid-2": (Geometry([2, 2], "VALID"), [11, 12]),
    "valid-2-odd": (Geometry([2, 2], "VALID"), [12, 13]),
    "valid-4": (Geometry([4, 4], "VALID"), [20, 24]),
    "explicit": (Geometry([2, 1], [[1, 1], [0, 2]]), [9, 5]),
    "explicit-odd": (Geometry([2, 2], [[2, 0], [0, 1]]), [10, 12]),
}
"""With a filter of 3 by 2 on 5 by 6 windows."""


# TensorFlow's own kernel takes explicit padding with the channels last only
BACKWARD_LAYOUTS = [(g, "last") for g in BACKWARD] + [(g, "first") for g in BACKWARD if "explicit" not in g]


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize(("geometry", "layout"), BACKWARD_LAYOUTS)
def test_conv2d_transpose(agrees: Agrees, geometry: str, layout: str, sizes: str) -> None:
    """With an unknown batch the size of the result is computed around it."""
    how, space = BACKWARD[geometry]
    x, w = arranged(normal(2, 5, 6, 4), layout), normal(3, 2, 3, 4)

    def convolved(x: Any, w: Any) -> Any:
        batch = tf.shape(x)[0] if sizes == "unknown" else 2
        size = [batch, 3, *space] if layout == "first" else [batch, *space, 3]
        return raw.Conv2DBackpropInput(
            input_sizes=tf.stack(size), filter=w, out_backprop=x, **attributes(how, layout, 4)
        )

    signature = unknown(x, layout, space=False) if sizes == "unknown" else None
    op = only(agrees(convolved, x, variables=[w], signature=signature, **SUMS), nn.ConvTransposeOp)
    assert op.auto_pad is None
    assert op.output_shape is None


@pytest.mark.parametrize(
    ("padding", "stride", "more"), [("SAME", 2, 0), ("SAME", 3, -1), ("VALID", 2, 1), ("VALID", 4, 0)]
)
def test_sizes_computed_from_unknown_ones(agrees: Agrees, padding: str, stride: int, more: int) -> None:
    """As decoders do: height and width are the stride times the input's, and some more."""
    x, w = normal(2, 5, 6, 4), normal(3, 3, 3, 4)

    def convolved(x: Any, w: Any) -> Any:
        batch, height, width, _ = tf.unstack(tf.shape(x))
        return tf.nn.conv2d_transpose(
            x, w, tf.stack([batch, height * stride + more, stride * width + more, 3]), stride, padding
        )

    only(agrees(convolved, x, variables=[w], signature=unknown(x, "last"), **SUMS), nn.ConvTransposeOp)


def test_sizes_of_what_came_before(agrees: Agrees) -> None:
    """Unknown ones that a norm, an activation and an axis more leave as they are."""
    x, w = normal(2, 5, 4), normal(1, 3, 3, 4)

    def convolved(x: Any, w: Any) -> Any:
        sizes = tf.shape(x)
        y = tf.expand_dims(tf.nn.relu(tf.nn.bias_add(x, np.ones(4, np.float32))), 1)
        return tf.nn.conv2d_transpose(y, w, tf.stack([sizes[0], 1, sizes[1] * 2, 3]), [1, 2], "SAME")

    module = agrees(convolved, x, variables=[w], signature=unknown(x, "last"), **SUMS)
    assert "conv_transpose" in kinds(module)


def test_conv2d_transpose_in_groups(agrees: Agrees) -> None:
    def convolved(x: Any, w: Any) -> Any:
        return raw.Conv2DBackpropInput(
            input_sizes=[2, 9, 12, 6], filter=w, out_backprop=x, strides=[1, 2, 2, 1], padding="SAME"
        )

    op = only(agrees(convolved, normal(2, 5, 6, 4), variables=[normal(3, 3, 3, 4)], **SUMS), nn.ConvTransposeOp)
    assert op.group_count == 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv3d_transpose(agrees: Agrees, padding: str, layout: str) -> None:
    x, w = arranged(normal(2, 3, 4, 5, 4), layout), normal(2, 3, 2, 3, 4)
    size = [2, 5, 8, 10] if padding == "SAME" else [2, 6, 9, 10]

    def convolved(x: Any, w: Any) -> Any:
        shape = [size[0], 3, *size[1:]] if layout == "first" else [*size, 3]
        return raw.Conv3DBackpropInputV2(
            input_sizes=shape, filter=w, out_backprop=x, **attributes(Geometry([2] * 3, padding), layout, 5)
        )

    only(agrees(convolved, x, variables=[w], **SUMS), nn.ConvTransposeOp)


# Dilation by blocks


def in_blocks(x: Any, w: Any, padding: str, **_: Any) -> Any:
    """How releases without dilations wrote them."""
    convolved = lambda x, *_: tf.nn.conv2d(x, w, 1, "VALID")  # noqa: E731
    return tf.nn.with_space_to_batch(x, [2, 2], padding, convolved, filter_shape=w.shape)


def depthwise(x: Any, w: Any, padding: str, data_format: str = "NHWC") -> Any:
    return tf.nn.depthwise_conv2d(x, w, [1] * 4, padding, data_format, dilations=[3, 2])


def atrous(x: Any, w: Any, padding: str, data_format: str = "NHWC") -> Any:
    return tf.nn.atrous_conv2d(x, w, 2, padding)


DILATED = [(depthwise, "last"), (depthwise, "first"), (atrous, "last"), (in_blocks, "last")]
SIZES = {"known": None, "batch": {"space": False}, "all": {}}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("convolve", "layout"), DILATED)
def test_dilated_is_one_convolution(
    agrees: Agrees, equivalence: Any, convolve: Callable[..., Any], layout: str, padding: str, sizes: str
) -> None:
    """After --canonicalize, whatever sizes are known; 10 and 9 elements fill no whole number of blocks."""
    x, w = arranged(normal(2, 10, 9, 4), layout), normal(3, 2, 4, 2)
    signature = None if SIZES[sizes] is None else unknown(x, layout, **SIZES[sizes])

    def built(x: Any, w: Any) -> Any:
        return convolve(x, w, padding, data_format=LAYOUTS[layout][4])

    module = agrees(built, x, variables=[w], signature=signature, **SUMS)
    after = equivalence.after(module, "canonicalize")
    assert set(only(after, nn.ConvOp).dilation_list) <= {2, 3}
    equivalence.assert_equivalent(module, after, {"x0": x}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_dilated_over_one_axis(agrees: Agrees, padding: str, sizes: str) -> None:
    """As it is imported: between the blocks there is an axis more."""
    x, w = normal(2, 10, 4), normal(3, 4, 5)
    signature = None if SIZES[sizes] is None else unknown(x, "last", **SIZES[sizes])

    def convolved(x: Any, w: Any) -> Any:
        return tf.nn.with_space_to_batch(
            x, [3], padding, lambda x, *_: tf.nn.conv1d(x, w, 1, "VALID"), filter_shape=w.shape
        )

    module = agrees(convolved, x, variables=[w], signature=signature, **SUMS)
    assert [k for k in kinds(module) if k != "reshape"] == ["unsqueeze", "conv", "squeeze"]


def test_padding_of_run_time_without_a_convolution_is_carried(frozen: Callable[..., Any]) -> None:
    """Blocks of an axis that is padded as its size asks for."""

    def spread(x: Any) -> Any:
        missing = -tf.shape(x)[1] % 2
        return tf.space_to_batch(x, [2], [[0, missing]])

    x = normal(2, 5, 4)
    graph = frozen(spread, x, signature=unknown(x, "last"))
    assert "opaque" in kinds(graph.read())


def test_blocks_of_all_axes(agrees: Agrees) -> None:
    """Blocks of the last axis, too, leave none for channels."""

    def there_and_back(x: Any) -> Any:
        y = tf.space_to_batch(x, [2, 3, 2], [[1, 0], [0, 2], [0, 1]])
        return [
            y,
            tf.raw_ops.BatchToSpaceND(input=tf.nn.relu(y), block_shape=[2, 3, 2], crops=[[0, 1], [2, 0], [1, 0]]),
        ]

    module = agrees(there_and_back, normal(2, 5, 7, 3))
    assert [k for k in kinds(module) if "squeeze" not in k] == ["space_to_batch", "relu", "batch_to_space"]


def test_old_blocks(agrees: Agrees) -> None:
    def there_and_back(x: Any) -> Any:
        y = raw.SpaceToBatch(input=x, paddings=[[1, 0], [0, 1]], block_size=2)
        return [y, raw.BatchToSpace(input=tf.nn.relu(y), crops=[[0, 1], [1, 0]], block_size=2)]

    module = agrees(there_and_back, normal(2, 5, 7, 3))
    assert kinds(module) == ["space_to_batch", "relu", "batch_to_space"]
