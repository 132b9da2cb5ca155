"""The integer path of the interpreter equals the exact reference in every element, for every geometry."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amct_opt.dialects import nn
from amct_opt.dialects.nn import OriginAttr
from amct_opt.support.diagnostics import CompileError

from .conftest import int8, operations

DEPTHWISE = OriginAttr.of("tensorflow", "DepthwiseConv2dNative", "dw")
MATMUL = OriginAttr.of("onnx", "MatMul", "mm")
SCALE = 0.03


def in_layout(array, layout):
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if layout == "nhwc" else array


def layer(net, shape, weight, kind: Any = nn.ConvOp, zero_point=0, bias=None, scales: Any = 0.01, axis=0, **properties):
    """A module of one quantized layer; scales per tensor, or one per index of the weight's axis."""
    n = net(*shape)
    scales = np.asarray(scales, np.float32)
    operands = [n.quantized(n.x, SCALE, zero_point), n.parameter(weight, scales, axis if scales.ndim else None)]
    if bias is not None:
        operands.append(n.parameter(bias, np.float32(SCALE) * scales, 0 if scales.ndim else None))
    return n.module(n.add(kind.make(*operands, **properties)))


@settings(max_examples=60)
@given(data=st.data())
def test_convolution_geometry(net, exact, real_numbers, data):
    draw = data.draw
    rank = draw(st.integers(1, 3), label="rank")
    groups = draw(st.sampled_from([1, 1, 2, 3]), label="groups")
    per_group, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(3))
    if rank == 3:
        dilations[0] = 1  # a rule of Conv3D with int8 operands
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    sizes = [d * (k - 1) + 1 + draw(st.integers(0, 4)) for k, d in zip(kernel, dilations, strict=True)]
    layout = draw(st.sampled_from(["nchw", "nhwc"]), label="layout")
    zero_point = 0 if rank == 3 else draw(st.sampled_from([-128, -5, 0, 127]), label="zero point")
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weight = int8(rng, groups * outputs, per_group, *kernel)
    bias = rng.integers(-(2**20), 2**20, groups * outputs).astype(np.int32) if draw(st.booleans()) else None
    scales = rng.uniform(0.001, 0.1, groups * outputs) if draw(st.booleans()) else 0.01
    x = in_layout(int8(rng, 2, groups * per_group, *sizes), layout)
    geometry = {"strides": strides, "dilations": dilations, "pads": pads, "groups": groups, "layout": layout}
    module = layer(net, x.shape, weight, zero_point=zero_point, bias=bias, scales=scales, **geometry)
    lowered = exact.of(module, real_numbers(x, SCALE, zero_point))
    assert ("Conv3D" if rank == 3 else "Conv2D") in operations(lowered)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("zero_point", [-128, 127])
def test_depthwise_of_tensorflow(net, exact, real_numbers, layout, zero_point):
    rng = np.random.default_rng(1)
    weight, bias = int8(rng, 6, 1, 3, 3), rng.integers(-999, 999, 6).astype(np.int32)
    x = in_layout(int8(rng, 2, 3, 7, 6), layout)
    geometry = {"groups": 3, "strides": (2, 1), "pads": (0, 1, 1, 1), "layout": layout, "origin": DEPTHWISE}
    scales = rng.uniform(0.001, 0.1, 6)
    module = layer(net, x.shape, weight, zero_point=zero_point, bias=bias, scales=scales, **geometry)
    assert "DepthwiseConv2D" in operations(exact.of(module, real_numbers(x, SCALE, zero_point)))


@settings(max_examples=40)
@given(data=st.data())
def test_transposed_convolution_geometry(net, exact, real_numbers, data):
    draw = data.draw
    rank = draw(st.integers(1, 2), label="rank")
    groups = draw(st.sampled_from([1, 1, 2]), label="groups")
    per_group, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kernel, strides = ([draw(st.integers(1, 4)) for _ in range(rank)] for _ in range(2))
    # more padding than `kernel - 1` cuts elements of the input off
    pads = [draw(st.integers(0, 4)) for _ in range(2 * rank)]
    padding = [draw(st.integers(0, s - 1)) for s in strides]
    sizes = [max(5, -(-(pads[i] + pads[i + rank]) // strides[i]) + 1) for i in range(rank)]
    layout = draw(st.sampled_from(["nchw", "nhwc"]), label="layout")
    zero_point = draw(st.sampled_from([-128, -5, 0, 127]), label="zero point")
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weight = int8(rng, groups * per_group, outputs, *kernel)
    bias = rng.integers(-(2**20), 2**20, groups * outputs).astype(np.int32) if draw(st.booleans()) else None
    scales = rng.uniform(0.001, 0.1, outputs) if groups == 1 else 0.01
    x = in_layout(int8(rng, 1, groups * per_group, *sizes), layout)
    geometry = {"strides": strides, "pads": pads, "output_padding": padding, "groups": groups, "layout": layout}
    module = layer(net, x.shape, weight, nn.ConvTransposeOp, zero_point, bias, scales, axis=1, **geometry)
    assert "Conv2DTranspose" in operations(exact.of(module, real_numbers(x, SCALE, zero_point)))


@pytest.mark.parametrize("zero_point", [-128, 3, 127])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("shape", "origin", "name"),
    [((4, 37), None, "MatMulV2"), ((4, 37), MATMUL, "BatchMatMulV2"), ((2, 3, 4, 37), MATMUL, "BatchMatMulV2")],
)
def test_matrix_product(net, exact, real_numbers, shape, origin, name, transpose_b, zero_point):
    rng = np.random.default_rng(2)
    weight = int8(rng, *((5, 37) if transpose_b else (37, 5)))
    bias = rng.integers(-(2**20), 2**20, 5).astype(np.int32)
    x = int8(rng, *shape)
    flags = {"transpose_b": transpose_b, "origin": origin}
    for scales in (0.01, rng.uniform(0.001, 0.1, 5)):
        axis = 0 if transpose_b else 1
        module = layer(net, shape, weight, nn.MatMulOp, zero_point, bias, scales, axis=axis, **flags)
        assert name in operations(exact.of(module, real_numbers(x, SCALE, zero_point)))


@settings(max_examples=60)
@given(data=st.data())
def test_average_pool_geometry(net, exact, real_numbers, data):
    """Where every window counts the same number of elements the pool sums integers, elsewhere it stays in float."""
    draw = data.draw
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    include, ceil = draw(st.booleans(), label="count_include_pad"), draw(st.booleans(), label="ceil_mode")
    pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    sizes = [k + draw(st.integers(0, 5)) for k in kernel]
    layout = draw(st.sampled_from(["nchw", "nhwc"]), label="layout")
    zero_point = draw(st.sampled_from([-128, -5, 0, 127]), label="zero point")
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = in_layout(int8(rng, 2, 3, *sizes), layout)
    n = net(*x.shape)
    window = {"kernel": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil, "count_include_pad": include}
    pool = nn.AveragePoolOp.make(n.quantized(n.x, SCALE, zero_point), layout=layout, **window)
    module = n.module(n.add(pool))
    # the sums of a pool that counts are its counts: mean * count = sum of ones
    ones = np.pad(np.ones(sizes), [(pads[0], pads[2]), (pads[1], pads[3])], constant_values=float(include))
    out = pool.result.type.get_shape()[1:3] if layout == "nhwc" else pool.result.type.get_shape()[2:]
    counts = {
        ones[i * strides[0] : i * strides[0] + kernel[0], j * strides[1] : j * strides[1] + kernel[1]].sum()
        for i in range(out[0])
        for j in range(out[1])
    }
    lowered = exact.lowered(module)
    assert ("AscendDequant" in operations(lowered)) == (len(counts) == 1)
    if len(counts) == 1:
        exact.assert_equal(lowered, real_numbers(x, SCALE, zero_point))


@pytest.mark.parametrize(("x", "zero_point"), [(-128, 127), (127, -128), (-128, -128), (127, 127)])
def test_worst_case_values_with_many_products(net, exact, real_numbers, x, zero_point):
    """K = 4608 products of the largest size: 255 * 128 * 4608 is above 2^27, which no float32 sum holds exactly."""
    weight = np.full((2, 512, 3, 3), -128, np.int8)
    weight[1, ::2] = 127
    values = np.full((1, 512, 4, 4), x, np.int8)
    module = layer(net, values.shape, weight, zero_point=zero_point, pads=(1, 1, 1, 1))
    exact.of(module, real_numbers(values, SCALE, zero_point))
    columns = np.full((4608, 3), -128, np.int8)
    columns[::3, 1] = 127
    rows = np.full((2, 4608), x, np.int8)
    module = layer(net, rows.shape, columns, nn.MatMulOp, zero_point)
    exact.of(module, real_numbers(rows, SCALE, zero_point))


def test_an_accumulator_beyond_int32_is_an_error(net, exact, real_numbers):
    """-128 * -128 * 8 + bias: the bias alone fits, the sum does not."""
    weight = np.full((1, 8, 1, 1), -128, np.int8)
    bias = np.array([2**31 - 1], np.int32)
    x = np.full((1, 8, 1, 1), -128, np.int8)
    lowered = exact.lowered(layer(net, x.shape, weight, bias=bias))
    with pytest.raises(CompileError, match="not fit into int32"):
        exact.run(lowered, real_numbers(x, SCALE, 0))


def test_a_network_with_a_residual_sum(net, exact):
    """conv, conv, add, relu, pools, flatten, matrix product: two consumers of one quantized value share AscendQuant."""
    rng = np.random.default_rng(3)
    n = net(2, 3, 12, 12)

    def conv(value, outputs, inputs, scale, **properties):
        scales = rng.uniform(0.002, 0.01, outputs).astype(np.float32)
        weight = n.parameter(int8(rng, outputs, inputs, 3, 3), scales, 0)
        bias = n.parameter(rng.integers(-500, 500, outputs).astype(np.int32), np.float32(scale) * scales, 0)
        return n.add(nn.ConvOp.make(value, weight, bias, pads=(1, 1, 1, 1), **properties))

    first = n.add(nn.ReluOp.make(conv(n.quantized(n.x, 0.03, 5), 4, 3, 0.03)))
    left = conv(n.quantized(first, 0.4, -128), 4, 4, 0.4)
    right = conv(n.quantized(first, 0.4, -128), 4, 4, 0.4)
    total = n.add(nn.ReluOp.make(n.add(nn.AddOp.make(left, right))))
    pooled = n.add(nn.MaxPoolOp.make(total, kernel=(2, 2), strides=(2, 2)))
    mean = n.add(nn.AveragePoolOp.make(n.quantized(pooled, 3.0, -128), kernel=(3, 3), strides=(3, 3)))
    flat = n.add(nn.FlattenOp.make(mean))
    weight = n.parameter(int8(rng, 16, 10), 0.01)
    bias = n.parameter(rng.integers(-500, 500, 10).astype(np.int32), np.float32(3.0) * np.float32(0.01))
    logits = n.add(nn.MatMulOp.make(n.quantized(flat, 3.0, -100), weight, bias))
    module = n.module(logits)
    lowered = exact.of(module, rng.normal(size=(2, 3, 12, 12)).astype(np.float32))
    assert operations(lowered).count("AscendQuant") == 4
    assert operations(lowered).count("AscendDequant") == 5
