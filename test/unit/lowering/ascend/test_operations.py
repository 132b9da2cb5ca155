"""Operations that the lowering does not make (yet), each next to plain numpy, exact integers in int64, or ONNX's reference."""

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from xdsl.dialects.builtin import IntegerType, TensorType, f16, f32, i1, i32, i64
from xdsl.ir import Block

from amct_opt.dialects import ascend, nn

from ...frameworks import ReferenceEvaluator
from ...values import kernel_of

TYPES = {"int8": IntegerType(8), "int32": i32, "int64": i64, "float16": f16, "float32": f32, "bool": i1}


def normal(rng: np.random.Generator, *shape):
    return rng.normal(size=shape).astype(np.float32)


def int8(rng: np.random.Generator, *shape):
    return rng.integers(-128, 128, shape, dtype=np.int8)


class Constant(np.ndarray):
    """An operand that the operation wants to know when compiling."""


def fixed(values, dtype):
    return np.array(values, dtype).view(Constant)


def run(kind, *arrays, **properties) -> Any:
    """What the kernel gives; results have the inferred type."""
    block = Block(arg_types=[TensorType(TYPES[a.dtype.name], a.shape) for a in arrays])
    values = [
        nn.ConstantOp.of(np.asarray(a), "c").result if isinstance(a, Constant) else v
        for a, v in zip(arrays, block.args, strict=True)
    ]
    many = kind in (ascend.AddNOp, ascend.EltwiseOp, ascend.PackOp)
    op = kind.make(values, **properties) if many else kind.make(*values, **properties)
    result = kernel_of(op)(*map(np.asarray, arrays))
    each = result if isinstance(result, list | tuple) else [result]
    for value, array in zip(op.results, each, strict=True):
        assert value.type == TensorType(TYPES[array.dtype.name], array.shape)
    return result


# -- pooling ----------------------------------------------------------------------------------------------------------


def caffe_pooled(x, mean, window, stride, pad, up, zero_point=0):
    """Caffe's pooling layer element by element: (sums or means or largest elements, counts)."""
    rounded = math.ceil if up else math.floor
    (top, bottom, left, right), (height, width) = pad, x.shape[2:]
    out = []
    for size, k, s, begin, end in (
        (height, window[0], stride[0], top, bottom),
        (width, window[1], stride[1], left, right),
    ):
        n = rounded((size + begin + end - k) / s) + 1
        out.append(n - 1 if (n - 1) * s >= size + begin else n)
    y, counts = np.zeros((*x.shape[:2], *out), np.float64), np.zeros(out, int)
    for i, j in np.ndindex(*out):
        r, c = i * stride[0] - top, j * stride[1] - left
        r_end, c_end = min(r + window[0], height + bottom), min(c + window[1], width + right)
        counts[i, j] = (r_end - r) * (c_end - c)
        part = x[:, :, max(r, 0) : min(r_end, height), max(c, 0) : min(c_end, width)].astype(np.float64) - zero_point
        y[:, :, i, j] = part.sum(axis=(2, 3)) if mean else part.max(axis=(2, 3))
    return y, counts


GEOMETRIES = [
    {"window": (3, 3), "stride": (2, 2), "pad": (0, 0, 0, 0)},
    {"window": (3, 2), "stride": (2, 3), "pad": (1, 1, 1, 1)},
    {"window": (2, 2), "stride": (2, 2), "pad": (1, 0, 0, 1)},
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("up", [False, True])
def test_pooling_of_caffe(geometry, up, rng: np.random.Generator):
    x, rounding = normal(rng, 2, 3, 8, 7), {"ceil_mode": 0 if up else 1}
    largest, _ = caffe_pooled(x, False, up=up, **geometry)
    np.testing.assert_array_equal(run(ascend.PoolingOp, x, **geometry, **rounding), largest)
    sums, counts = caffe_pooled(x, True, up=up, **geometry)
    np.testing.assert_allclose(
        run(ascend.PoolingOp, x, mode=1, **geometry, **rounding), sums / counts, rtol=1e-5, atol=1e-6
    )
    q = int8(rng, 2, 3, 8, 7)
    sums, _ = caffe_pooled(q, True, up=up, zero_point=-77, **geometry)
    y = run(ascend.PoolingOp, q, mode=1, offset_x=-77, **geometry, **rounding)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, sums)


def test_pooling_of_caffe_over_all_of_space():
    q = np.full((1, 2, 5, 6), 127, np.int8)
    assert run(ascend.PoolingOp, q, mode=1, global_pooling=True, offset_x=-128).ravel().tolist() == [255 * 30] * 2


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pooling_of_tensorflow(padding, rng: np.random.Generator):
    """SAME pads 1 more at the end; padding is not counted."""
    window = {"ksize": (1, 3, 2, 1), "strides": (1, 2, 2, 1), "padding": padding}
    x, q = normal(rng, 2, 8, 7, 3), int8(rng, 2, 8, 7, 3)
    pad = (0, 1, 0, 1) if padding == "SAME" else (0, 0, 0, 0)
    geometry = {"window": (3, 2), "stride": (2, 2), "pad": pad, "up": False}
    first = x.transpose(0, 3, 1, 2)
    largest, _ = caffe_pooled(first, False, **geometry)
    np.testing.assert_array_equal(run(ascend.MaxPoolOp, x, **window).transpose(0, 3, 1, 2), largest)
    sums, _ = caffe_pooled(first, True, **geometry)
    counts, _ = caffe_pooled(np.ones_like(first), True, **geometry)
    y = run(ascend.AvgPoolOp, x, **window).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(y, sums / counts, rtol=1e-5, atol=1e-6)
    sums, _ = caffe_pooled(q.transpose(0, 3, 1, 2), True, zero_point=5, **geometry)
    np.testing.assert_array_equal(run(ascend.AvgPoolOp, q, offset_x=5, **window).transpose(0, 3, 1, 2), sums)


# -- the matrix engine ------------------------------------------------------------------------------------------------


def scattered(x, w, groups, strides, pads, dilations, more, zero_point=0):
    """Every element of x times the filter, added at its place; x channels first, w `[C, M/groups, kh, kw]`."""
    exact = np.int64 if x.dtype == np.int8 else np.float64
    (n, channels, height, width), (_, m, kh, kw) = x.shape, w.shape
    top, bottom, left, right = pads
    oh = strides[0] * (height - 1) + dilations[0] * (kh - 1) + 1 - top - bottom + more[0]
    ow = strides[1] * (width - 1) + dilations[1] * (kw - 1) + 1 - left - right + more[1]
    y = np.zeros((n, groups * m, oh, ow), exact)
    for c, i, j, a, b in np.ndindex(channels, height, width, kh, kw):
        r, s = i * strides[0] + a * dilations[0] - top, j * strides[1] + b * dilations[1] - left
        if 0 <= r < oh and 0 <= s < ow:
            group = c // (channels // groups)
            product = (x[:, c, i, j, None].astype(exact) - zero_point) * w[c, :, a, b].astype(exact)
            y[:, group * m : (group + 1) * m, r, s] += product
    return y


@pytest.mark.parametrize("make", [int8, normal])
@pytest.mark.parametrize("size", [(9, 11), (10, 12)])
def test_transposed_convolution_of_tensorflow(make, size, rng: np.random.Generator):
    """Both sizes that stride 2 allows; filter `[kh, kw, cout, C]`."""
    x, w = make(rng, 2, 4, 5, 3), make(rng, 3, 3, 2, 3)
    geometry = {"strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    more = (size[0] - 9, size[1] - 11)
    y = run(ascend.Conv2DBackpropInputOp, fixed([2, *size, 2], np.int32), w, x, strides=(1, 2, 2, 1), pads=(0, 0, 0, 0))
    expected = scattered(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), 1, more=more, **geometry).transpose(
        0, 2, 3, 1
    )
    assert y.dtype == (np.int32 if make is int8 else np.float32)
    np.testing.assert_allclose(y, expected, rtol=0, atol=0 if make is int8 else 1e-4)


@pytest.mark.parametrize("make", [int8, normal])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_deconvolution_of_caffe(make, dilations, groups, rng: np.random.Generator):
    x, w = make(rng, 2, 4, 3, 4), make(rng, 4, 3, 2, 3)
    bias = rng.integers(-999, 999, 3 * groups, dtype=np.int32) if make is int8 else normal(rng, 3 * groups)
    zero_point = 9 if make is int8 else 0
    geometry = {"strides": (2, 1), "pads": (1, 0, 0, 1)}
    expected = scattered(x, w, groups, dilations=dilations, more=(0, 0), zero_point=zero_point, **geometry)
    expected = expected + bias.reshape(-1, 1, 1)
    full = {"dilations": (1, 1, *dilations), "groups": groups, "offset_x": zero_point}
    y = run(ascend.DeconvolutionOp, x, w, bias, **geometry, **full)
    np.testing.assert_allclose(y, expected, rtol=0, atol=0 if make is int8 else 1e-4)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("transpose", [False, True])
def test_inner_product_of_caffe(axis, transpose, rng: np.random.Generator):
    depth = 30 if axis == 1 else 10
    for make, zero_point in ((int8, -128), (normal, 0)):
        x, w = make(rng, 4, 3, 5, 2), make(rng, 7, depth)
        exact = np.int64 if make is int8 else np.float64
        expected = (x.astype(exact) - zero_point).reshape(*x.shape[:axis], depth) @ w.astype(exact).T
        properties = {"num_output": 7, "transpose": transpose, "axis": axis, "offset_x": zero_point}
        y = run(ascend.FullyConnectionOp, x, w.T.copy() if transpose else w, **properties)
        np.testing.assert_allclose(y, expected, rtol=0, atol=0 if make is int8 else 1e-4)
        bias = np.arange(7, dtype=np.int32 if make is int8 else np.float32)
        y = run(ascend.FullyConnectionOp, x, w.T.copy() if transpose else w, bias, **properties)
        np.testing.assert_allclose(y, expected + bias, rtol=0, atol=0 if make is int8 else 1e-4)


def test_the_largest_accumulators():
    x, w = np.full((1, 4096), -128, np.int8), np.full((2, 4096), -128, np.int8)
    y = run(ascend.FullyConnectionOp, x, w, num_output=2, offset_x=127)
    assert y.tolist() == [[4096 * 255 * 128] * 2]
    with pytest.raises(ValueError, match="do not fit into int32"):
        run(ascend.FullyConnectionOp, x.repeat(17, 1), w.repeat(17, 1), num_output=2, offset_x=127)


# -- arithmetic -------------------------------------------------------------------------------------------------------


def test_activations(rng: np.random.Generator):
    x = np.concatenate([normal(rng, 50) * 5, np.array([0, -200, 200], np.float32)])
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        sigmoid = {scale: 1 / (1 + np.exp(-np.float32(scale).astype(float) * wide)) for scale in (1, 0.5, 1.702)}
    for y, expected in (
        (run(ascend.SwishOp, x), wide * sigmoid[1]),
        (run(ascend.SwishOp, x, scale=0.5), wide * sigmoid[0.5]),
        (run(ascend.FastGeluOp, x), wide * sigmoid[1.702]),
        (run(ascend.SeluOp, x), 1.0507009873554805 * np.where(wide > 0, wide, 1.6732632423543772 * np.expm1(wide))),
        (run(ascend.SquareOp, x), wide * wide),
        (run(ascend.AddsOp, x, value=0.25), wide + 0.25),
        (run(ascend.MulsOp, x, value=-3.0), wide * -3),
        (run(ascend.IdentityOp, x), wide),
    ):
        np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-30)


def test_many_operands(rng: np.random.Generator):
    a, b, c = normal(rng, 2, 3), normal(rng, 2, 3), normal(rng, 2, 3)
    np.testing.assert_array_equal(run(ascend.AddNOp, a, b, c, N=3), a + b + c)
    np.testing.assert_array_equal(run(ascend.EltwiseOp, a, b, c, N=3), a + b + c)
    np.testing.assert_array_equal(run(ascend.EltwiseOp, a, b, c, N=3, mode=0), a * b * c)
    np.testing.assert_array_equal(run(ascend.EltwiseOp, a, b, c, N=3, mode=2), np.maximum(np.maximum(a, b), c))
    weighted = run(ascend.EltwiseOp, a, b, N=2, coeff=nn.RealsAttr((0.5, -1.0)))
    np.testing.assert_array_equal(weighted, a * np.float32(0.5) - b)


def test_choices_and_bounds(rng: np.random.Generator):
    a, b, c = normal(rng, 2, 3), normal(rng, 2, 3), np.array([[True], [False]])
    np.testing.assert_array_equal(run(ascend.SelectOp, c, a, b), np.where(c, a, b))
    clipped = run(ascend.ClipByValueV2Op, a, np.array([-0.5], np.float32), np.array(0.25, np.float32))
    np.testing.assert_array_equal(clipped, np.clip(a, np.float32(-0.5), np.float32(0.25)))


def test_scale_and_bias_of_caffe(rng: np.random.Generator):
    x, channels, two, last = normal(rng, 2, 3, 4, 5), normal(rng, 3), normal(rng, 3, 4), normal(rng, 5)
    full = channels[:, None, None]
    np.testing.assert_array_equal(run(ascend.ScaleOp, x, channels, channels), x * full + full)
    np.testing.assert_array_equal(run(ascend.ScaleOp, x, two, num_axes=2), x * two[:, :, None])
    np.testing.assert_array_equal(run(ascend.ScaleOp, x, two[0, :1], num_axes=0), x * two[0, 0])
    np.testing.assert_array_equal(run(ascend.BiasOp, x, last, axis=-1, num_axes=-1), x + last)


def test_batch_norm_of_caffe(rng: np.random.Generator):
    x, mu, variance = normal(rng, 2, 3, 4, 5), normal(rng, 3), np.abs(normal(rng, 3))
    for momentum in (0.0, 2.5):
        factor = 1 / momentum if momentum else 0.0
        expected = (x - factor * mu[:, None, None]) / np.sqrt(factor * variance[:, None, None] + 0.001)
        y = run(ascend.BNInferenceOp, x, mu, variance, np.array([momentum], np.float32), epsilon=0.001)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


# -- normalizations ---------------------------------------------------------------------------------------------------


def assert_normalized(results, x, gamma, beta, epsilon, axes, moments_shape):
    y, mu, variance = results
    wide = x.astype(np.float64)
    expected_mu, expected_variance = wide.mean(axis=axes, keepdims=True), wide.var(axis=axes, keepdims=True)
    expected = (wide - expected_mu) / np.sqrt(expected_variance + epsilon) * gamma + beta
    np.testing.assert_allclose(y, expected.reshape(y.shape), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mu, expected_mu.reshape(moments_shape), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, expected_variance.reshape(moments_shape), rtol=1e-4, atol=1e-6)


def test_layer_norm(rng: np.random.Generator):
    x, gamma, beta = normal(rng, 2, 3, 4) + 2, normal(rng, 4), normal(rng, 4)
    results = run(ascend.LayerNormOp, x, gamma, beta, begin_norm_axis=-1, begin_params_axis=2, epsilon=0.01)
    assert_normalized(results, x, gamma, beta, 0.01, (2,), (2, 3, 1))
    results = run(ascend.LayerNormOp, x, gamma, beta, begin_norm_axis=1, begin_params_axis=2, epsilon=0.01)
    assert_normalized(results, x, gamma, beta, 0.01, (1, 2), (2, 1, 1))


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC", "NCDHW", "NDHWC"])
def test_instance_norm(data_format, rng: np.random.Generator):
    shape = tuple({"N": 2, "C": 3, "D": 2}.get(a, 4) for a in data_format)
    x, gamma, beta = normal(rng, *shape), normal(rng, 3), normal(rng, 3)
    axes = tuple(i for i, a in enumerate(data_format) if a not in "NC")
    by_channel = tuple(3 if a == "C" else 1 for a in data_format)
    results = run(ascend.InstanceNormOp, x, gamma, beta, data_format=data_format)
    moments = tuple(shape[i] if i not in axes else 1 for i in range(len(shape)))
    assert_normalized(results, x, gamma.reshape(by_channel), beta.reshape(by_channel), 1e-6, axes, moments)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_group_norm(data_format, rng: np.random.Generator):
    x, gamma, beta = normal(rng, 2, 6, 4, 5), normal(rng, 6), normal(rng, 6)
    given = x if data_format == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    y, *moments = run(ascend.GroupNormOp, given, gamma, beta, num_groups=3, data_format=data_format)
    y = y if data_format == "NCHW" else np.moveaxis(y, -1, 1)
    factor, offset = (a.reshape(3, 2, 1, 1) for a in (gamma, beta))
    assert_normalized((y, *moments), x.reshape(2, 3, 2, 4, 5), factor, offset, 1e-4, (2, 3, 4), (2, 3))


# -- space and indexing -----------------------------------------------------------------------------------------------


def in_onnx(op_type, inputs, opset=18, **attributes) -> Any:
    """ONNX's reference implementation."""
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(inputs)]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
        if n
    ]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    (first, *_) = ReferenceEvaluator(model).run(None, {n: a for n, a in zip(names, inputs, strict=True) if n})
    return first


EMPTY = {"scales": fixed([], np.float32), "sizes": fixed([], np.int64)}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_resize_of_onnx(mode, coordinates, rng: np.random.Generator):
    x, words = normal(rng, 1, 2, 4, 5), {"mode": mode, "coordinate_transformation_mode": coordinates}
    scales, sizes = fixed([1, 1, 2, 1.5], np.float32), fixed([1, 2, 7, 3], np.int64)
    y = run(ascend.ResizeOp, x, scales, EMPTY["sizes"], **words)
    np.testing.assert_allclose(y, in_onnx("Resize", [x, None, np.asarray(scales)], **words), rtol=1e-4, atol=1e-5)
    y = run(ascend.ResizeOp, x, EMPTY["scales"], sizes, **words)
    np.testing.assert_allclose(y, in_onnx("Resize", [x, None, None, np.asarray(sizes)], **words), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        ({}, lambda i, s, o: i * s / o),
        ({"align_corners": True}, lambda i, s, o: i * (s - 1) / (o - 1)),
        ({"half_pixel_centers": True}, lambda i, s, o: (i + 0.5) * s / o - 0.5),
    ],
)
def test_resizing_of_tensorflow(flags, place, rng: np.random.Generator):
    x, (height, width) = normal(rng, 1, 4, 6, 2), (9, 8)
    bilinear = run(ascend.ResizeBilinearV2Op, x, fixed([height, width], np.int32), **flags)
    nearest = run(ascend.ResizeNearestNeighborV2Op, x, fixed([height, width], np.int32), **flags)

    def at(i, j):
        return x[:, min(max(i, 0), 3), min(max(j, 0), 5)]

    for i, j in np.ndindex(height, width):
        r, c = place(i, 4, height), place(j, 6, width)
        r0, c0 = math.floor(r), math.floor(c)
        u, v = r - r0, c - c0
        top, bottom = at(r0, c0) * (1 - v) + at(r0, c0 + 1) * v, at(r0 + 1, c0) * (1 - v) + at(r0 + 1, c0 + 1) * v
        np.testing.assert_allclose(bilinear[:, i, j], top * (1 - u) + bottom * u, rtol=1e-4, atol=1e-5)
        rounded = (math.floor(r + 0.5), math.floor(c + 0.5)) if flags else (r0, c0)
        np.testing.assert_array_equal(nearest[:, i, j], at(*rounded))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode, rng: np.random.Generator):
    x, q = normal(rng, 2, 8, 3, 4), int8(rng, 2, 4, 6, 3)
    y = run(ascend.DepthToSpaceOp, x, block_size=2, mode=mode, data_format="NCHW")
    np.testing.assert_array_equal(y, in_onnx("DepthToSpace", [x], blocksize=2, mode=mode))
    last = run(ascend.SpaceToDepthOp, q, block_size=2)
    expected = q.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 12)
    np.testing.assert_array_equal(last, expected)


def test_blocks_in_the_batch(rng: np.random.Generator):
    x, block, pads = normal(rng, 2, 4, 5, 3), fixed([2, 3], np.int64), fixed([[1, 1], [0, 1]], np.int64)
    y = run(ascend.SpaceToBatchNDOp, x, block, pads)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 1), (0, 0)))
    expected = padded.reshape(2, 3, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 3)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(run(ascend.BatchToSpaceNDOp, y, block, pads), x)


def test_gathering(rng: np.random.Generator):
    x, indices = normal(rng, 4, 5, 2), np.array([[3, 0], [1, 4]])
    np.testing.assert_array_equal(run(ascend.GatherOp, x, indices % 4), x[indices % 4])
    np.testing.assert_array_equal(run(ascend.GatherNdOp, x, indices), in_onnx("GatherND", [x, indices]))
    with pytest.raises(ValueError, match="index -1 is negative"):
        run(ascend.GatherOp, x, np.array([-1]))
    with pytest.raises(ValueError, match="index -2 is negative"):
        run(ascend.GatherNdOp, x, np.array([[-2, 0]]))


def test_parts_and_repetitions(rng: np.random.Generator):
    x = normal(rng, 2, 3, 4)
    np.testing.assert_array_equal(run(ascend.TileOp, x, fixed([2, 1, 3], np.int64)), np.tile(x, (2, 1, 3)))
    np.testing.assert_array_equal(run(ascend.PackOp, x, -x, axis=-1, N=2), np.stack([x, -x], axis=-1))
    for part, expected in zip(run(ascend.UnpackOp, x, num=3, axis=-2), np.moveaxis(x, 1, 0), strict=True):
        np.testing.assert_array_equal(part, expected)
    for part, expected in zip(run(ascend.SplitOp, fixed(2, np.int32), x, num_split=2), np.split(x, 2, 2), strict=True):
        np.testing.assert_array_equal(part, expected)
    y = run(ascend.SliceOp, x, fixed([0, 1, 1], np.int32), fixed([-1, 2, -1], np.int32))
    np.testing.assert_array_equal(y, x[:, 1:3, 1:])


def test_shapes_values_and_places():
    x = np.array([[3, 1, 3], [0, 7, 7]], np.float32)
    assert run(ascend.ShapeOp, x).tolist() == [2, 3]
    assert run(ascend.FillOp, fixed([2, 2], np.int32), np.array(5, np.int8)).tolist() == [[5, 5], [5, 5]]
    assert run(ascend.ArgMaxV2Op, x, fixed(-1, np.int32)).tolist() == [0, 1]
    assert run(ascend.ArgMaxV2Op, x, fixed(0, np.int64), dtype=3).tolist() == [0, 1, 1]
