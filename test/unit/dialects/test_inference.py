"""Inferred shapes against ONNX's own shape inference, on random geometries, and with sizes hidden.

Where a size is hidden, what is inferred may be unknown but never wrong: compatible with the shape for known sizes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings, strategies as st
from onnx import TensorProto, helper, shape_inference
from xdsl.dialects.builtin import DYNAMIC_INDEX as ANY, TensorType, f32, i64
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import compatible, tensor_of

Shape = tuple[int, ...]
sweep = settings(max_examples=60)


def values(*shapes: Shape) -> list[SSAValue]:
    return list(Block(arg_types=[TensorType(f32, shape) for shape in shapes]).args)


def onnx_shapes(
    op: str, shapes: Sequence[Shape], constants: Sequence[Any] = (), outputs: int = 1, opset: int = 21, **attrs: Any
) -> list[Shape] | None:
    """What ONNX infers for one node: inputs of these shapes, then integer constants (None: absent). None when it refuses."""
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    initializers = []
    for i, constant in enumerate(constants):
        names.append("" if constant is None else f"c{i}")
        if constant is not None:
            array = np.asarray(constant)
            initializers.append(onnx.numpy_helper.from_array(array, f"c{i}"))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **{k: v for k, v in attrs.items() if v is not None})
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return None
    found = [tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in inferred.graph.output]
    return None if any(d < 0 for shape in found for d in shape) else found


def agree(
    make: Callable[[Sequence[SSAValue]], Any],
    shapes: Sequence[Shape],
    expected: list[Shape] | None,
    hidden: set[tuple[int, int]],
) -> None:
    """`make` infers what ONNX infers, or refuses where that refuses; and nothing else with some sizes hidden."""
    if expected is None:
        return
    known = [tensor_of(r) for r in make(values(*shapes)).results]
    assert [t.get_shape() for t in known] == expected
    partly = [tuple(ANY if (i, j) in hidden else d for j, d in enumerate(s)) for i, s in enumerate(shapes)]
    for full, part in zip(known, make(values(*partly)).results, strict=True):
        assert compatible(full, tensor_of(part)), f"{tensor_of(part)} for {full}"


def hide(data: st.DataObject, shapes: Sequence[Shape]) -> set[tuple[int, int]]:
    dims = [(i, j) for i, shape in enumerate(shapes) for j in range(len(shape))]
    return set(data.draw(st.lists(st.sampled_from(dims)))) if dims else set()


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@sweep
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    rank, groups = data.draw(small(1, 3)), data.draw(small(1, 3))
    draw = lambda low, high: tuple(data.draw(st.lists(small(low, high), min_size=rank, max_size=rank)))  # noqa: E731
    kernel, strides, dilations = draw(1, 4), draw(1, 3), draw(1, 3)
    auto = data.draw(st.sampled_from([None, "SAME_UPPER", "SAME_LOWER"]))
    pads = None if auto else draw(0, 3) + draw(0, 3)
    x = (data.draw(small(0, 2)), groups * data.draw(small(1, 2)), *draw(1, 9))
    w = (groups * data.draw(small(1, 2)), x[1] // groups, *kernel)
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    room = [
        s + sum((pads or (0,) * 2 * rank)[i::rank]) - d * (k - 1) - 1
        for i, (s, k, d) in enumerate(zip(x[2:], kernel, dilations, strict=True))
    ]
    assume(auto is not None or min(room) >= 0)
    expected = onnx_shapes("Conv", [x, w], group=groups, auto_pad=auto, **attrs)
    same = None if auto is None else auto.lower()
    agree(lambda v: nn.ConvOp.make(*v, groups=groups, auto_pad=same, **attrs), [x, w], expected, hide(data, [x, w]))
    last = [(x[0], *x[2:], x[1]), w]
    channels_last = None if expected is None else [(s[0], *s[2:], s[1]) for s in expected]
    agree(
        lambda v: nn.ConvOp.make(*v, groups=groups, auto_pad=same, layout="nhwc", **attrs),
        last,
        channels_last,
        hide(data, last),
    )


@sweep
@given(st.data())
def test_transposed_convolution(data: st.DataObject) -> None:
    rank, groups = data.draw(small(1, 3)), data.draw(small(1, 2))
    draw = lambda low, high: tuple(data.draw(st.lists(small(low, high), min_size=rank, max_size=rank)))  # noqa: E731
    kernel, strides, dilations, padding = draw(1, 4), draw(1, 3), draw(1, 2), draw(0, 1)
    auto = data.draw(st.sampled_from([None, "SAME_UPPER", "SAME_LOWER"]))
    shape = draw(1, 20) if auto is None and data.draw(st.booleans()) else None
    pads = draw(0, 1) + draw(0, 1) if auto is None and shape is None else None
    x = (2, groups * 2, *draw(1, 6))
    w = (groups * 2, data.draw(small(1, 3)), *kernel)
    attrs: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "output_padding": padding,
        "output_shape": shape,
    }
    expected = onnx_shapes("ConvTranspose", [x, w], group=groups, auto_pad=auto, **attrs)
    if shape is not None:
        expected = [(2, w[1] * groups, *shape)]  # ONNX's inference gives up where it is smaller than the input
    if auto is not None:  # input * stride, but no more than windows cover; ONNX's inference takes it for unpadded
        rows = zip(x[2:], strides, kernel, dilations, padding, strict=True)
        sizes = (min(s * t, (s - 1) * t + (k - 1) * d + 1 + extra) for s, t, k, d, extra in rows)
        expected = [(2, w[1] * groups, *sizes)]
    if expected is not None and min(expected[0]) < 1:
        return
    same = None if auto is None else auto.lower()
    agree(
        lambda v: nn.ConvTransposeOp.make(*v, groups=groups, auto_pad=same, **attrs),
        [x, w],
        expected,
        hide(data, [x, w]),
    )


@sweep
@given(st.data())
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pooling(op: str, data: st.DataObject) -> None:
    rank = data.draw(small(1, 3))
    draw = lambda low, high: tuple(data.draw(st.lists(small(low, high), min_size=rank, max_size=rank)))  # noqa: E731
    kernel, strides, dilations, ceil = draw(1, 4), draw(1, 4), draw(1, 2), data.draw(st.booleans())
    pads = tuple(min(p, k - 1) for p, k in zip(draw(0, 3) + draw(0, 3), kernel * 2, strict=True))
    x = (2, 3, *draw(1, 9))
    room = [
        s + sum(pads[i::rank]) - d * (k - 1) - 1
        for i, (s, k, d) in enumerate(zip(x[2:], kernel, dilations, strict=True))
    ]
    assume(min(room) >= 0)
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    expected = onnx_shapes(op, [x], kernel_shape=kernel, ceil_mode=int(ceil), opset=22, **attrs)
    cls = {"MaxPool": nn.MaxPoolOp, "AveragePool": nn.AveragePoolOp}[op]
    agree(lambda v: cls.make(*v, kernel=kernel, ceil_mode=ceil, **attrs), [x], expected, hide(data, [x]))


def shapes_for_broadcast(data: st.DataObject, count: int) -> list[Shape]:
    target = data.draw(st.lists(small(1, 4), max_size=4))
    cut = [data.draw(small(0, len(target))) for _ in range(count)]
    return [tuple(1 if data.draw(st.booleans()) else d for d in target[c:]) for c in cut]


@sweep
@given(st.data())
def test_matmul(data: st.DataObject) -> None:
    batch = shapes_for_broadcast(data, 2)
    m, k, n = (data.draw(small(1, 4)) for _ in range(3))
    left, right = (*batch[0], m, k), (*batch[1], k, n)
    vectors = data.draw(st.sampled_from(["", "left", "right"]))
    shapes = [(k,) if vectors == "left" else left, (k,) if vectors == "right" else right]
    agree(lambda v: nn.MatMulOp.make(*v), shapes, onnx_shapes("MatMul", shapes), hide(data, shapes))

    turned = [(*shapes[0][:-2], *shapes[0][:-3:-1]), (*shapes[1][:-2], *shapes[1][:-3:-1])]
    if not vectors:
        make = partial(nn.MatMulOp.make, transpose_a=True, transpose_b=True)
        agree(lambda v: make(*v), turned, onnx_shapes("MatMul", shapes), hide(data, turned))


@sweep
@given(st.data())
def test_broadcasting(data: st.DataObject) -> None:
    shapes = shapes_for_broadcast(data, 2)
    agree(lambda v: nn.AddOp.make(*v), shapes, onnx_shapes("Add", shapes), hide(data, shapes))
    target = shapes[1]
    expected = [np.broadcast_shapes(*shapes)]
    agree(lambda v: nn.ExpandOp.make(*v, to=target), shapes[:1], expected, hide(data, shapes[:1]))


@sweep
@given(st.data())
def test_slice(data: st.DataObject) -> None:
    x = tuple(data.draw(st.lists(small(0, 6), min_size=1, max_size=4)))
    axes = data.draw(st.lists(st.sampled_from(range(len(x))), unique=True, min_size=1))
    bound = st.one_of(small(-8, 8), st.sampled_from([-(2**63), 2**63 - 1, -(2**31), 2**31 - 1]))
    starts, ends = ([data.draw(bound) for _ in axes] for _ in range(2))
    steps = [data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in axes]
    signed = [a - len(x) if data.draw(st.booleans()) else a for a in axes]
    full = [slice(None)] * len(x)
    expected = onnx_shapes("Slice", [x], [np.array(v, np.int64) for v in (starts, ends, signed, steps)])
    # where numpy takes nothing from before the first element backwards, ONNX's inference takes the first
    assume(not any(s < 0 and start < -x[a] for a, start, s in zip(axes, starts, steps, strict=True)))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        full[axis] = slice(start, end, step)
    assert expected == [np.zeros(x)[tuple(full)].shape]
    agree(
        lambda v: nn.SliceOp.make(*v, starts=starts, ends=ends, axes=signed, steps=steps),
        [x],
        expected,
        hide(data, [x]),
    )


@sweep
@given(st.data())
def test_reshape(data: st.DataObject) -> None:
    x = tuple(data.draw(st.lists(small(1, 6), max_size=4)))
    size = int(np.prod(x))
    target = list(x) if data.draw(st.booleans()) else [size]
    target = list(data.draw(st.permutations(target)))
    if target and data.draw(st.booleans()):
        target[data.draw(small(0, len(target) - 1))] = -1
    copies = [i for i, d in enumerate(target) if i < len(x) and d == x[i]]
    target = [0 if i in copies and data.draw(st.booleans()) else d for i, d in enumerate(target)]
    expected = onnx_shapes("Reshape", [x], [np.array(target, np.int64)])
    agree(lambda v: nn.ReshapeOp.make(*v, to=target), [x], expected, hide(data, [x]))


def test_reshape_keeps_what_an_unknown_batch_does_not_hide() -> None:
    def infer(shape: Shape, to: Sequence[int]) -> Shape:
        return tensor_of(nn.ReshapeOp.make(*values(shape), to=to).result).get_shape()

    assert infer((ANY, 4, 6), (0, -1)) == (ANY, 24)
    assert infer((ANY, 4, 6), (-1, 24)) == (ANY, 24)
    assert infer((ANY, ANY, 6), (0, 0, 2, -1)) == (ANY, ANY, 2, 3)


@sweep
@given(st.data())
def test_axes(data: st.DataObject) -> None:
    """Transpose, flatten, squeeze, unsqueeze, reductions, softmax."""
    x = tuple(data.draw(st.lists(small(1, 4), min_size=1, max_size=4)))
    rank = len(x)
    perm = data.draw(st.permutations(range(rank)))
    agree(lambda v: nn.TransposeOp.make(*v, perm=perm), [x], onnx_shapes("Transpose", [x], perm=perm), hide(data, [x]))

    axis = data.draw(small(-rank, rank))
    agree(lambda v: nn.FlattenOp.make(*v, axis=axis), [x], onnx_shapes("Flatten", [x], axis=axis), hide(data, [x]))

    axes = data.draw(st.lists(st.sampled_from(range(rank)), unique=True, min_size=1))
    signed = [a - rank if data.draw(st.booleans()) else a for a in axes]
    keep = data.draw(st.booleans())
    expected = onnx_shapes("ReduceSum", [x], [np.array(signed, np.int64)], keepdims=int(keep))
    agree(lambda v: nn.ReduceSumOp.make(*v, axes=signed, keepdims=keep), [x], expected, hide(data, [x]))
    expected = onnx_shapes("ReduceSum", [x], keepdims=int(keep))
    agree(lambda v: nn.ReduceSumOp.make(*v, keepdims=keep), [x], expected, hide(data, [x]))

    wide = tuple(1 if i in axes else d for i, d in enumerate(x))
    expected = onnx_shapes("Squeeze", [wide], [np.array(signed, np.int64)])
    agree(lambda v: nn.SqueezeOp.make(*v, axes=signed), [wide], expected, hide(data, [wide]))
    agree(lambda v: nn.SqueezeOp.make(*v), [wide], onnx_shapes("Squeeze", [wide]), set())

    new = data.draw(st.lists(small(0, rank + 1), unique=True, min_size=2, max_size=2))
    signed = [a - rank - 2 if data.draw(st.booleans()) else a for a in new]
    expected = onnx_shapes("Unsqueeze", [x], [np.array(signed, np.int64)])
    agree(lambda v: nn.UnsqueezeOp.make(*v, axes=signed), [x], expected, hide(data, [x]))


@sweep
@given(st.data())
def test_concat_split_gather(data: st.DataObject) -> None:
    x = tuple(data.draw(st.lists(small(1, 4), min_size=1, max_size=4)))
    axis = data.draw(small(-len(x), len(x) - 1))
    plain = axis % len(x)
    shapes = [tuple(data.draw(small(0, 3)) if i == plain else d for i, d in enumerate(x)) for _ in range(3)]
    agree(
        lambda v: nn.ConcatOp.make(v, axis=axis), shapes, onnx_shapes("Concat", shapes, axis=axis), hide(data, shapes)
    )

    sizes = [data.draw(small(0, 3)) for _ in range(3)]
    whole = tuple(sum(sizes) if i == plain else d for i, d in enumerate(x))
    expected = onnx_shapes("Split", [whole], [np.array(sizes, np.int64)], outputs=3, axis=axis)
    agree(lambda v: nn.SplitOp.make(*v, sizes=sizes, axis=axis), [whole], expected, hide(data, [whole]))

    indices = tuple(data.draw(st.lists(small(0, 3), max_size=2)))
    (at,) = Block(arg_types=[TensorType(i64, indices)]).args
    expected = onnx_shapes("Gather", [x], [np.zeros(indices, np.int64)], axis=axis)
    agree(lambda v: nn.GatherOp.make(*v, at, axis=axis), [x], expected, hide(data, [x]))


@sweep
@given(st.data())
def test_pad(data: st.DataObject) -> None:
    x = tuple(data.draw(st.lists(small(0, 5), min_size=1, max_size=4)))
    pads = [data.draw(small(-2, 3)) for _ in range(2 * len(x))]
    expected = [tuple(d + b + e for d, b, e in zip(x, pads[: len(x)], pads[len(x) :], strict=True))]
    if min(expected[0]) < 0:
        with pytest.raises(VerifyException):
            nn.PadOp.make(*values(x), pads=pads)
        return
    assert onnx_shapes("Pad", [x], [np.array(pads, np.int64)]) in (expected, None)
    agree(lambda v: nn.PadOp.make(*v, pads=pads), [x], expected, hide(data, [x]))


@settings(max_examples=200)
@given(st.integers(1, 300), st.floats(0.25, 4, width=32))
def test_resize_multiplies_in_float32(size: int, scale: float) -> None:
    """10 * 0.7 is 7 in float32 and below 7 in float64: ONNX's inference and runtimes take the former."""
    assume(int(np.float32(size) * np.float32(scale)) > 0)
    expected = onnx_shapes("Resize", [(1, 1, size)], [None, np.array([1, 1, scale], np.float32)])
    agree(lambda v: nn.ResizeOp.make(*v, scales=[1, 1, scale]), [(1, 1, size)], expected, set())


def test_resize_of_ten_by_seven_tenths() -> None:
    (x,) = values((10,))
    assert tensor_of(nn.ResizeOp.make(x, scales=[0.7]).result).get_shape() == (7,)
    (unknown,) = values((ANY,))
    assert tensor_of(nn.ResizeOp.make(unknown, scales=[0.7]).result).get_shape() == (ANY,)


@sweep
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    n, c, h, w, b = (data.draw(small(1, 3)) for _ in range(5))
    deep, wide = (n, c * b * b, h, w), (n, c, h * b, w * b)
    agree(
        lambda v: nn.DepthToSpaceOp.make(*v, block=b),
        [deep],
        onnx_shapes("DepthToSpace", [deep], blocksize=b),
        hide(data, [deep]),
    )
    agree(
        lambda v: nn.SpaceToDepthOp.make(*v, block=b),
        [wide],
        onnx_shapes("SpaceToDepth", [wide], blocksize=b),
        hide(data, [wide]),
    )
    agree(
        lambda v: nn.SpaceToBatchOp.make(*v, block=(b, b), pads=(0,) * 4),
        [wide],
        [(n * b * b, c, h, w)],
        hide(data, [wide]),
    )
    many = (n * b * b, c, h, w)
    agree(lambda v: nn.BatchToSpaceOp.make(*v, block=(b, b), crops=(0,) * 4), [many], [wide], hide(data, [many]))


@pytest.mark.parametrize(
    ("start", "end", "count"), [(0, None, 4), (1, None, 3), (-2, None, 2), (0, -1, 3), (-9, 9, 4), (3, 1, 0)]
)
def test_shape(start: int, end: int | None, count: int) -> None:
    assert onnx_shapes("Shape", [(2, 3, 4, 5)], start=start, end=end) in ([(count,)], None)
    agree(lambda v: nn.ShapeOp.make(*v, start=start, end=end), [(2, 3, 4, 5)], [(count,)], {(0, 1)})


def test_shapes_computed_at_run_time() -> None:
    x, shape, length = Block(
        arg_types=[TensorType(f32, (1, ANY, 1)), TensorType(i64, (2,)), TensorType(i64, (ANY,))]
    ).args
    assert tensor_of(nn.ReshapeOp.make(x, shape).result).get_shape() == (ANY, ANY)
    assert tensor_of(nn.ExpandOp.make(x, shape).result).get_shape() == (1, ANY, ANY)
    with pytest.raises(VerifyException, match="the rank of the result is not known"):
        nn.ReshapeOp.make(x, length)
    declared = nn.ReshapeOp.make(x, shape, result_types=[TensorType(f32, (3, ANY))])
    assert declared.infer()[0].get_shape() == (3, ANY)
