"""Operators whose inputs or attributes make no sense: one located error each, whatever TensorFlow would have said."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...frameworks import tf
from ...values import BAD, error_of, put

X = (2, 3, 4, 5)
"""The shape of a placeholder of floats."""


def attribute(value: Any) -> Any:
    """An AttrValue that holds a Python value."""
    holder = tf.compat.v1.AttrValue()
    match value:
        case tf.DType():
            holder.type = value.as_datatype_enum
        case np.ndarray():
            holder.tensor.CopyFrom(tf.make_tensor_proto(value))
        case tf.TensorShape():
            holder.shape.CopyFrom(value.as_proto())
        case bool():
            holder.b = value
        case int():
            holder.i = value
        case str():
            holder.s = value.encode()
        case _:
            holder.list.i.extend(value)
    return holder


def graph(op_type: str, *inputs: Any, **attributes: Any) -> bytes:
    """A GraphDef of one operator called `bad`; inputs are arrays, or X for the placeholder `x`."""
    model = tf.compat.v1.GraphDef()

    def add(name: str, op: str, *names: str, **values: Any) -> str:
        node = model.node.add(name=name, op=op, input=names)
        for key, value in values.items():
            node.attr[key].CopyFrom(attribute(value))
        return name

    add("x", "Placeholder", dtype=tf.float32, shape=tf.TensorShape(X))
    names = ["x" if i is X else add(f"c{k}", "Const", value=np.asarray(i)) for k, i in enumerate(inputs)]
    add("bad", op_type, *names, **attributes)
    return model.SerializeToString()


def f32(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i32(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


STEPS: dict[str, Any] = {"strides": [1] * 4, "padding": "VALID"}
EXPLICIT: dict[str, Any] = {"strides": [1] * 4, "padding": "EXPLICIT"}
CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "no input": (partial(graph, "Relu"), "has no input 0"),
    "range by 0": (partial(graph, "Range", i32(0), i32(5), i32(0)), "goes from 0 to 5 by 0"),
    "range to infinity": (
        partial(graph, "Range", *np.array([0, np.inf, 1], np.float32)),
        "goes from 0.0 to inf by 1.0",
    ),
    "range of all numbers": (partial(graph, "Range", i32(0), i32(2**31 - 1), i32(1)), "makes 2147483647 elements"),
    "many points": (partial(graph, "LinSpace", *np.array([0, 1], np.float32), i32(2**30)), "makes 1073741824 elements"),
    "two tangents": (partial(graph, "Tan", np.ones(2), np.ones(2)), "does not fit together"),
    "broadcast": (partial(graph, "BroadcastArgs", i32([2, 3]), i32([2, 4])), "does not fit together"),
    "arg max of no axis": (partial(graph, "ArgMax", np.ones((2, 2)), i32(2)), "does not fit together"),
    "no permutation": (
        partial(graph, "Transpose", X, i32([0, 1, 2])),
        r"has \[0, 1, 2\], which is not a permutation of 4 axes",
    ),
    "no permutation of a constant": (
        partial(graph, "Transpose", np.ones((2, 2)), i32([0, 0])),
        "not a permutation of 2 axes",
    ),
    "nothing to join": (partial(graph, "ConcatV2"), "has no input 0"),
    "axis of a join": (partial(graph, "ConcatV2", X, X, i32(4)), "does not fit together: axis 4 is out of range"),
    "several axes of a join": (partial(graph, "ConcatV2", X, X, i32([0, 1])), "input 2 must be one number"),
    "axis of a stack": (
        partial(graph, "Pack", i32([1]), i32([2]), axis=3),
        "does not fit together: axis 3 is out of range",
    ),
    "parts": (partial(graph, "Split", i32(1), X, num_split=2), "cannot split 3 elements into 2 equal parts"),
    "no parts": (partial(graph, "Split", i32(1), X, num_split=0), "cannot split 3 elements into 0 equal parts"),
    "many parts": (partial(graph, "Split", i32(1), X, num_split=2**40), "has 1099511627776 parts"),
    "part of no axis": (partial(graph, "Split", i32(7), X, num_split=1), "axis 7 is out of range for rank 4"),
    "sum of parts": (partial(graph, "SplitV", X, i32([1, 1]), i32(1)), "does not fit together"),
    "many slices": (partial(graph, "Unpack", X, num=2**40), "has 1099511627776 parts"),
    "slices": (partial(graph, "Unpack", X, num=3, axis=0), "does not fit together"),
    "elements": (partial(graph, "Reshape", X, i32([7, -1])), "does not fit together"),
    "two of what is left": (partial(graph, "Reshape", X, i32([-1, -1])), "leaves two sizes open"),
    "fractions of a shape": (
        partial(graph, "Reshape", X, np.array([2, 60], np.float32)),
        "input 1 must be a list of integers",
    ),
    "paddings": (partial(graph, "Pad", X, i32([[1, 1]])), r"has paddings int32\[1, 2\] for rank 4"),
    "fractions of paddings": (partial(graph, "Pad", X, np.ones((4, 2), np.float32)), r"has paddings float32\[4, 2\]"),
    "mode": (partial(graph, "MirrorPad", X, np.ones((4, 2), np.int32), mode="CIRCULAR"), "unknown mode 'CIRCULAR'"),
    "copies": (partial(graph, "Tile", X, i32([1, 1, -1, 1])), "repeats -1 times"),
    "strides of 0": (partial(graph, "StridedSlice", X, i32([0]), i32([1]), i32([0])), "steps must not be 0"),
    "lengths": (partial(graph, "StridedSlice", X, i32([0]), i32([1, 1]), i32([1])), "of different lengths"),
    "axes": (partial(graph, "StridedSlice", X, *[i32([1] * 5)] * 3), "takes more axes than the 4"),
    "index": (
        partial(graph, "StridedSlice", X, i32([9]), i32([10]), i32([1]), shrink_axis_mask=1),
        "does not fit together",
    ),
    "sizes": (partial(graph, "Slice", X, i32([0, 0]), i32([1, 1])), "has 2 begins and 2 sizes for rank 4"),
    "fewer than none": (partial(graph, "Slice", X, i32([0] * 4), i32([1, -2, 1, 1])), "takes -2 elements"),
    "axis of a lookup": (partial(graph, "GatherV2", X, i32([0]), i32(4)), "axis 4 is out of range"),
    "depth": (partial(graph, "OneHot", i32([0]), i32(-1), np.float32(1), np.float32(0)), "makes -1 places"),
    "axis of places": (partial(graph, "OneHot", i32([0]), i32(3), np.float32(1), np.float32(0), axis=-2), "of axis -2"),
    "reduced axis": (partial(graph, "Mean", X, i32([4])), "axis 4 is out of range"),
    "reduced twice": (partial(graph, "Mean", X, i32([1, -3])), "not distinct"),
    "no such axis": (partial(graph, "Squeeze", X, squeeze_dims=[1]), "axis 1 has size 3"),
    "resized to nothing": (partial(graph, "ResizeBilinear", X, i32([0, 4])), "makes an axis of size 0"),
    "resized to less": (partial(graph, "ResizeBilinear", X, i32([-1, 4])), "sizes not negative"),
    "resized to three sizes": (partial(graph, "ResizeBilinear", X, i32([1, 4, 4])), r"to sizes of shape \[3\]"),
    "corners and centres": (
        partial(graph, "ResizeBilinear", X, i32([4, 4]), align_corners=True, half_pixel_centers=True),
        "aligns both corners and pixel centres",
    ),
    "no type": (partial(graph, "Cast", X), "DT_INVALID"),
    "kind of attribute": (partial(graph, "LeakyRelu", X, alpha=1), "attribute 'alpha' must be a number"),
    "types": (partial(graph, "AddV2", X, i32(1)), "does not fit together: element types differ"),
    "shapes": (partial(graph, "AddV2", X, np.ones(7, np.float32)), "does not fit together: shapes do not broadcast"),
    "rank of a filter": (partial(graph, "Conv2D", X, f32(3, 3, 5)), "an input of rank 4, a filter of rank 3"),
    "no padding": (partial(graph, "Conv2D", X, f32(1, 1, 5, 2), strides=[1] * 4), "unknown padding ''"),
    "no strides": (partial(graph, "Conv2D", X, f32(1, 1, 5, 2), padding="SAME"), "needs 4 strides"),
    "channels": (partial(graph, "Conv2D", X, f32(1, 1, 3, 2), **STEPS), "5 channels, a filter for 3"),
    "no channels": (partial(graph, "Conv2D", X, f32(1, 1, 0, 2), **STEPS), "5 channels, a filter for 0"),
    "large window": (
        partial(graph, "Conv2D", X, f32(9, 1, 5, 2), **STEPS),
        "does not fit together: window of 9 exceeds",
    ),
    "short strides": (
        partial(graph, "MaxPool", X, ksize=[1], strides=[1], padding="SAME", data_format="NCHW"),
        "needs 4 window",
    ),
    "explicit": (
        partial(graph, "Conv2D", X, f32(1, 1, 5, 2), **EXPLICIT, explicit_paddings=[1, 1]),
        "2 numbers in explicit",
    ),
    "explicit rest": (
        partial(graph, "Conv2D", X, f32(1, 1, 5, 2), **EXPLICIT, explicit_paddings=[0] * 10),
        "pads has 6 entries",
    ),
    "explicit back": (
        partial(
            graph, "Conv2DBackpropInput", i32([2, 3, 4, 3]), f32(1, 1, 3, 5), X, **EXPLICIT, explicit_paddings=[0] * 10
        ),
        "explicit_paddings for 3 axes of space, not 2",
    ),
    "windows": (
        partial(graph, "Conv2DBackpropInput", i32([2, 9, 4, 3]), f32(1, 1, 3, 5), X, **STEPS),
        "9 windows on 9 elements",
    ),
    "rank of a result": (
        partial(graph, "Conv2DBackpropInput", i32([2, 9, 4]), f32(1, 1, 3, 5), X, **STEPS),
        "a result of rank 3",
    ),
    "depthwise in 3-D": (
        partial(graph, "DepthwiseConv2dNative", f32(1, 2, 2, 2, 3), f32(1, 1, 1, 3, 1), **STEPS),
        "needs an input of rank 4",
    ),
    "product": (partial(graph, "MatMul", f32(2, 3), f32(4, 5)), "does not fit together"),
    "scalars": (partial(graph, "MatMul", f32(), f32()), "does not fit together"),
    "bias": (partial(graph, "BiasAdd", X, f32(4)), "does not fit together"),
    "equation": (partial(graph, "Einsum", X, equation="abcd"), "has 1 inputs and the equation 'abcd'"),
    "letters": (partial(graph, "Einsum", X, equation="abc->a"), "has 'abc' in its equation for rank 4"),
    "new letter": (partial(graph, "Einsum", X, equation="abcd->e"), "whose result does not follow"),
    "blocks": (
        partial(graph, "SpaceToBatchND", X, i32([2, 2]), i32([[0, 0], [0, 0]])),
        "does not fit together: padded size 3",
    ),
    "no blocks": (
        partial(graph, "SpaceToBatchND", f32(3), i32([]), np.zeros((0, 2), np.int32)),
        "does not fit together",
    ),
    "bits": (partial(graph, "FakeQuantWithMinMaxArgs", X, num_bits=17), "has num_bits 17"),
    "ranges": (partial(graph, "FakeQuantWithMinMaxVarsPerChannel", X, f32(4), f32(4)), r"ranges of shape \[4\]"),
    "ends": (
        partial(graph, "FakeQuantWithMinMaxVarsPerChannel", X, f32(5), f32(4)),
        r"range from \[5\] to \[4\] numbers",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_operators(name: str, tmp_path: Path) -> None:
    model, message = CASES[name]
    path = tmp_path / "graph.pb"
    path.write_bytes(model())
    with pytest.raises(CompileError, match=message) as caught:
        frontends.read(path, new_session())
    assert caught.value.where == f"{path}: node 'bad'"


HUGE, LARGE = 1 << 62, (1 << 31) - 1
WINDOW: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1] * 4, "padding": "VALID"}
FILTER = {4: f32(2, 2, 5, 2), 5: f32(2, 2, 1, 1, 2)}


SIZES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "Reshape": ("Reshape", [X, [BAD, -1, 4]], {}),
    "Fill": ("Fill", [[BAD, 2], np.float32(1)], {}),
    "BroadcastTo": ("BroadcastTo", [X, [BAD, 2, 3, 4, 5]], {}),
    "Tile": ("Tile", [X, [1, 1, BAD, 1]], {}),
    "Pad": ("Pad", [X, [[0, 0], [0, 0], [BAD, 0], [0, 0]]], {}),
    "OneHot": ("OneHot", [[0], BAD, np.float32(1), np.float32(0)], {}),
    "TopKV2": ("TopKV2", [X, BAD], {}),
    "SplitV": ("SplitV", [X, [BAD, 2], 1], {"num_split": 2}),
    "Slice": ("Slice", [X, [0, 0, 0, 0], [BAD, 1, 1, 1]], {}),
    "Range": ("Range", [0, BAD, 1], {}),
    "LinSpace": ("LinSpace", [np.float32(0), np.float32(1), BAD], {}),
    "SpaceToBatchND": ("SpaceToBatchND", [X, [1, BAD], [[0, 0], [0, 0]]], {}),
    "BatchToSpaceND": ("BatchToSpaceND", [X, [1, BAD], [[0, 0], [0, 0]]], {}),
    "SpaceToBatchND paddings": ("SpaceToBatchND", [X, [1, 1], [[0, 0], [BAD, 0]]], {}),
    "BatchToSpaceND crops": ("BatchToSpaceND", [X, [1, 1], [[0, 0], [BAD, 0]]], {}),
    "ResizeBilinear": ("ResizeBilinear", [X, [BAD, 4]], {}),
    "ResizeBicubic": ("ResizeBicubic", [X, [BAD, 4]], {}),
    "ResizeArea": ("ResizeArea", [X, [BAD, 4]], {}),
    "CropAndResize": ("CropAndResize", [X, f32(1, 4), [0], [BAD, 4]], {}),
    "Conv2DBackpropInput": ("Conv2DBackpropInput", [[2, BAD, 4, 3], f32(1, 1, 3, 5), X], STEPS),
    "Conv2D strides": ("Conv2D", [X, FILTER[4]], {"strides": [1, BAD, 1, 1], "padding": "SAME"}),
    "Conv2D dilations": ("Conv2D", [X, FILTER[4]], {**STEPS, "dilations": [1, BAD, 1, 1]}),
    "Conv2D paddings": ("Conv2D", [X, FILTER[4]], {**EXPLICIT, "explicit_paddings": [0, 0, BAD, 0, 0, 0, 0, 0]}),
    "Conv2DBackpropInput strides": (
        "Conv2DBackpropInput",
        [[2, 3, 4, 3], f32(1, 1, 3, 5), X],
        {"strides": [1, BAD, 1, 1], "padding": "SAME"},
    ),
    "DepthwiseConv2dNative": (
        "DepthwiseConv2dNative",
        [X, FILTER[4]],
        {"strides": [1, BAD, BAD, 1], "padding": "SAME"},
    ),
    "Dilation2D": ("Dilation2D", [X, f32(2, 2, 5)], {"strides": [1, BAD, 1, 1], "rates": [1] * 4, "padding": "SAME"}),
    "MaxPool ksize": ("MaxPool", [X], {**WINDOW, "ksize": [1, BAD, 2, 1]}),
    "MaxPool strides": ("MaxPool", [X], {**WINDOW, "strides": [1, BAD, 1, 1]}),
    "AvgPool ksize": ("AvgPool", [X], {**WINDOW, "ksize": [1, BAD, 2, 1], "padding": "SAME"}),
    "AvgPool strides": ("AvgPool", [X], {**WINDOW, "strides": [1, BAD, 1, 1], "padding": "SAME"}),
    "MaxPoolWithArgmax": ("MaxPoolWithArgmax", [X], {**WINDOW, "ksize": [1, BAD, 2, 1]}),
    "ExtractImagePatches": (
        "ExtractImagePatches",
        [X],
        {"ksizes": [1, BAD, 2, 1], "strides": [1] * 4, "rates": [1] * 4, "padding": "VALID"},
    ),
    "DepthToSpace": ("DepthToSpace", [X], {"block_size": BAD}),
    "SpaceToDepth": ("SpaceToDepth", [X], {"block_size": BAD}),
    "Unpack": ("Unpack", [X], {"num": BAD}),
    "Split": ("Split", [1, X], {"num_split": BAD}),
}
TYPED = ("BroadcastTo", "Tile", "TopKV2", "ResizeArea", "ResizeBicubic", "CropAndResize", "Dilation2D",
         "MaxPoolWithArgmax", "ExtractImagePatches", "BatchToSpaceND", "SpaceToBatchND")  # fmt: skip
"""Operators whose type has no default."""
MEANT = ("Reshape", "Range", "Slice", "SplitV", "Conv2DBackpropInput")
"""Operators in which a negative number means something: what is left, or a direction."""


def outcome(name: str, number: int, path: Path) -> str:
    """The error, or "" if the text of the module reads back."""
    op_type, inputs, attributes = SIZES[name]
    given = [i32(put(i, number)) if isinstance(i, list | int) or i is BAD else i for i in inputs]
    more = {key: put(value, number) for key, value in attributes.items()}
    typed = {"T": tf.float32} if op_type in TYPED else {}
    path.write_bytes(graph(op_type, *given, **more, **typed))
    return error_of(path)


@pytest.mark.parametrize("name", SIZES)
def test_numbers_that_no_shape_can_have(name: str, tmp_path: Path) -> None:
    """Each is one located error, or a module whose text reads back. Inputs are int32, attributes int64."""
    _, _, attributes = SIZES[name]
    wide = any(put(value, 0) != value for value in attributes.values())
    numbers = [n for n in (-HUGE, -LARGE, -7, -1, 0, LARGE, HUGE) if wide or abs(n) < HUGE]
    accepted = [n for n in numbers if not outcome(name, n, tmp_path / "graph.pb")]
    assert name in MEANT or min(accepted, default=0) >= 0
