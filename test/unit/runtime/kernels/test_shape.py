"""Data movement and reductions, against numpy's own words for them or onnx.reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.runtime.kernels import Array

X = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_concat_and_split(run, axis) -> None:
    parts = run(nn.SplitOp, X, axis=axis, sizes=[1, 0, X.shape[axis] - 1])
    np.testing.assert_array_equal(np.concatenate(parts, axis), X)
    assert [p.shape[axis] for p in parts] == [1, 0, X.shape[axis] - 1]
    np.testing.assert_array_equal(run(nn.ConcatOp, *parts, axis=axis), X)
    (whole,) = run(nn.SplitOp, X, axis=axis, sizes=[X.shape[axis]])
    np.testing.assert_array_equal(whole, X)


def test_split_checks_dynamic_sizes(run) -> None:
    with pytest.raises(ValueError, match="the parts make 4 elements, the axis has 5"):
        run(nn.SplitOp, X, axis=3, sizes=[2, 2], dynamic=True)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "expected"),
    [
        ([1], [3], [2], None, X[:, :, 1:3]),
        ([-2, 0], [2**63 - 1, -1], [3, 0], [1, 1], X[:-1, :, :, -2:]),
        ([-1], [-(2**63)], [3], [-2], X[..., ::-2]),
        ([3, 1], [0, 100], [3, 1], [-1, 2], X[:, 1::2, :, 3:0:-1]),
        ([5], [9], [0], None, X[5:9]),
    ],
)
def test_slice(run, starts, ends, axes, steps, expected) -> None:
    y = run(nn.SliceOp, X, starts=starts, ends=ends, axes=axes, steps=steps, dynamic=True)
    np.testing.assert_array_equal(y, expected)


def test_gather(run, reference) -> None:
    for axis, indices in ((0, [1, -2]), (2, [[0, 3], [-1, 1]]), (-1, [4]), (1, 2)):
        i = np.array(indices, np.int64)
        np.testing.assert_array_equal(run(nn.GatherOp, X, i, axis=axis), reference("Gather", X, i, axis=axis))
    with pytest.raises(IndexError):
        run(nn.GatherOp, X, np.array([3], np.int64), axis=1)


@pytest.mark.parametrize(
    ("axis", "n", "places"), [(1, 1, (2, 5)), (2, 1, (2, 3, 2)), (2, 2, (2, 3)), (-1, 2, (2, 3, 1)), (1, 1, (2,))]
)
def test_gather_of_each_batch(run, rng, axis, n, places) -> None:
    """As that of each batch alone."""
    i = rng.integers(-X.shape[axis], X.shape[axis], places)
    y = run(nn.GatherOp, X, i, axis=axis, batch_dims=n, dynamic=True)
    for at in np.ndindex(*places[:n]):
        np.testing.assert_array_equal(y[at], np.take(X[at], i[at], axis=axis % X.ndim - n))


def test_reshape(run) -> None:
    assert run(nn.ReshapeOp, X, to=[0, -1], dynamic=True).shape == (2, 60)
    assert run(nn.ReshapeOp, X, np.array([-1, 6], np.int64)).shape == (20, 6)
    assert run(nn.ReshapeOp, X[:0], to=[0, 7], allow_zero=True).shape == (0, 7)
    np.testing.assert_array_equal(run(nn.ReshapeOp, X.transpose(3, 2, 1, 0), to=[-1]), X.T.reshape(-1))


def test_expand(run) -> None:
    x = X[:, :1]
    np.testing.assert_array_equal(run(nn.ExpandOp, x, to=[3, 1, 1]), np.broadcast_to(x, (2, 3, 4, 5)))
    assert run(nn.ExpandOp, x, np.array([7, 1, 3, 1, 1], np.int64), result_types=None).shape == (7, 2, 3, 4, 5)


def test_axes(run) -> None:
    np.testing.assert_array_equal(run(nn.TransposeOp, X, perm=[2, 0, 3, 1]), X.transpose(2, 0, 3, 1))
    assert run(nn.FlattenOp, X, axis=2).shape == (6, 20)
    assert run(nn.FlattenOp, X, axis=-1, dynamic=True).shape == (24, 5)
    assert run(nn.FlattenOp, X, axis=0).shape == (1, 120)
    assert run(nn.FlattenOp, X, axis=4).shape == (120, 1)
    one = X[:1, :, :1]
    assert run(nn.SqueezeOp, one).shape == (3, 5)
    assert run(nn.SqueezeOp, one, axes=[-2]).shape == (1, 3, 5)
    assert run(nn.UnsqueezeOp, X[0, 0], axes=[0, -1]).shape == (1, 4, 5, 1)
    assert run(nn.ShapeOp, X, dynamic=True).tolist() == [2, 3, 4, 5]
    assert run(nn.ShapeOp, X, start=-3, end=3).tolist() == [3, 4]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
def test_pad(run, mode, dtype) -> None:
    x = X[0, 0].astype(dtype)  # [4, 5]
    y = run(nn.PadOp, x, pads=[2, -1, 1, 3], mode=mode, value=7.0)
    more: dict[str, Any] = {"constant_values": 7} if mode == "constant" else {}
    np.testing.assert_array_equal(y, np.pad(x[:, 1:], [(2, 1), (0, 3)], mode=mode, **more))


def test_pad_only_takes_away(run) -> None:
    np.testing.assert_array_equal(run(nn.PadOp, X, pads=[0, -1, 0, -2, -1, 0, 0, -1]), X[:-1, 1:, :, 2:-1])


@pytest.mark.parametrize("mode", ["dcr", "crd"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_depth_and_space(run, reference, mode, layout) -> None:
    x = np.arange(2 * 12 * 2 * 3).reshape(2, 12, 2, 3).astype(np.float32)
    last = layout == "nhwc"

    def arranged(a: Array) -> Array:
        return np.moveaxis(a, 1, -1) if last else a

    y = reference("DepthToSpace", x, blocksize=2, mode=mode.upper())
    np.testing.assert_array_equal(run(nn.DepthToSpaceOp, arranged(x), block=2, mode=mode, layout=layout), arranged(y))
    z = reference("SpaceToDepth", y, blocksize=2)
    np.testing.assert_array_equal(run(nn.SpaceToDepthOp, arranged(y), block=2, layout=layout), arranged(z))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("block", "pads"), [([2, 3], [0, 1, 2, 0]), ([4], [0, 0]), ([1, 2], [0, 1, 0, 2])])
def test_space_and_batch(run, layout, block, pads) -> None:
    x = X  # [2, 3, 4, 5]
    last = layout == "nhwc"
    image = np.moveaxis(x, 1, -1) if last else x
    m = len(block)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:m], pads[m:], strict=True), *[(0, 0)] * (2 - m)])
    y = run(nn.SpaceToBatchOp, image, block=block, pads=pads, layout=layout)
    first = np.moveaxis(y, -1, 1) if last else y
    # TensorFlow SpaceToBatchND: position p of the block (row-major) is batch p * N + n
    for p, offsets in enumerate(np.ndindex(*block)):
        cells = tuple(slice(o, None, b) for o, b in zip(offsets, block, strict=True))
        np.testing.assert_array_equal(first[p * 2 : p * 2 + 2], padded[(slice(None), slice(None), *cells)])
    np.testing.assert_array_equal(run(nn.BatchToSpaceOp, y, block=block, crops=pads, layout=layout), image)


REDUCTIONS = [
    (nn.ReduceMeanOp, np.mean),
    (nn.ReduceSumOp, np.sum),
    (nn.ReduceProdOp, np.prod),
    (nn.ReduceMaxOp, np.max),
    (nn.ReduceMinOp, np.min),
]


@pytest.mark.parametrize(("op", "function"), REDUCTIONS)
@pytest.mark.parametrize("axes", [None, (), (1,), (-1, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_reductions(run, rng, op, function, axes, keepdims, dtype) -> None:
    x = rng.integers(1, 3, (2, 3, 4)).astype(dtype)  # the product is at most 2^24, exact
    expected = function(x.astype(np.float64), axis=axes, keepdims=keepdims)
    y = run(op, x, axes=axes, keepdims=keepdims)
    if np.dtype(dtype).kind in "iu":
        np.testing.assert_array_equal(y, expected.astype(np.int64).astype(dtype))
    else:
        rounded = expected.astype(dtype)
        # a mean is a sum divided in float32, then rounded: once more than the mean in float64
        np.testing.assert_allclose(y.astype(float), rounded.astype(float), rtol=float(ml_dtypes.finfo(dtype).eps))


def test_reductions_of_nothing_and_of_booleans(run) -> None:
    empty = np.zeros((2, 0), np.float32)
    assert run(nn.ReduceMaxOp, empty, axes=[1]).tolist() == [-np.inf] * 2
    assert run(nn.ReduceMinOp, empty, axes=[1]).tolist() == [np.inf] * 2
    assert run(nn.ReduceMaxOp, empty.astype(np.int8), axes=[1]).tolist() == [-128] * 2
    assert run(nn.ReduceSumOp, empty, axes=[1]).tolist() == [0, 0]
    assert np.isnan(run(nn.ReduceMeanOp, empty, axes=[1])).all()
    assert run(nn.ReduceProdOp, empty, axes=[1]).tolist() == [1, 1]
    flags = np.array([[True, False], [False, False]])
    assert run(nn.ReduceMaxOp, flags, axes=[1]).tolist() == [True, False]
    assert run(nn.ReduceMinOp, flags[:0], axes=[0]).tolist() == [True, True]


@pytest.mark.parametrize("op", [nn.ArgMaxOp, nn.ArgMinOp])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
def test_the_place_of_an_element(run, reference, rng, op, axis, keepdims, last, dtype) -> None:
    x = rng.integers(0, 3, (4, 6, 5)).astype(dtype)  # three values for at least four places: some are equal
    op_type = op.name.replace("nn.arg_m", "ArgM")
    expected = reference(op_type, x, axis=axis, keepdims=keepdims, select_last_index=last)
    y = run(op, x, dynamic=True, axis=axis, keepdims=keepdims, last=last)
    np.testing.assert_array_equal(y, expected)


def test_sums_of_float16_are_wider_inside(run) -> None:
    x = np.ones(4096, np.float16)
    assert float(run(nn.ReduceSumOp, x)) == 4096
    assert float(run(nn.ReduceMeanOp, np.full(3, 60000, np.float16))) == 60000
