"""The operators of TensorFlow and Caffe on integers: every element equals the exact reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amct_opt.dialects import nn

from .conftest import int8, operations

SCALE = np.float32(0.03)
BACKPROP = nn.OriginAttr.of("tensorflow", "Conv2DBackpropInput", "up")
DECONVOLUTION = nn.OriginAttr.of("caffe", "Deconvolution", "up")


@settings(max_examples=30)
@given(data=st.data())
def test_transposed_convolutions(net, exact, real_numbers, data):
    draw = data.draw
    caffe = draw(st.booleans(), label="caffe")
    layout = "nchw" if caffe else draw(st.sampled_from(["nchw", "nhwc"]))
    zero_point = draw(st.sampled_from([-128, 0, 7])) if caffe else 0
    kernel, strides = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(2))
    pads = [draw(st.integers(0, k - 1)) for k in kernel] * 2
    extra = [0, 0] if caffe else [draw(st.integers(0, s - 1)) for s in strides]
    groups = draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = int8(rng, 2, 2 * groups, *(draw(st.integers(3, 5)) for _ in range(2)))
    x = np.moveaxis(x, 1, -1).copy() if layout == "nhwc" else x
    weight = int8(rng, 2 * groups, 3, *kernel)
    n = net(*x.shape)
    per_channel = draw(st.booleans()) and groups == 1
    scales = rng.uniform(0.001, 0.1, 3).astype(np.float32) if per_channel else np.float32(0.01)
    held = n.parameter(weight, scales, 1 if per_channel else None)
    bias = rng.integers(-(2**20), 2**20, 3 * groups).astype(np.int32)
    operands = [n.quantized(n.x, SCALE, zero_point), held]
    if draw(st.booleans()):
        operands.append(n.parameter(bias, SCALE * scales, 0 if per_channel else None))
    origin = DECONVOLUTION if caffe else BACKPROP
    window = {"strides": strides, "pads": pads, "output_padding": extra, "groups": groups, "layout": layout}
    module = n.module(n.add(nn.ConvTransposeOp.make(*operands, origin=origin, **window)))
    lowered = exact.of(module, real_numbers(x, SCALE, zero_point))
    assert ("Deconvolution" if caffe else "Conv2DBackpropInput") in operations(lowered)
    assert ("BiasAdd" in operations(lowered)) == (not caffe and len(operands) == 3)


@settings(max_examples=30)
@given(data=st.data())
def test_average_pools(net, exact, real_numbers, data):
    draw = data.draw
    caffe = draw(st.booleans(), label="caffe")
    kernel, strides = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(2))
    sizes = [draw(st.integers(4, 9)) for _ in range(2)]
    zero_point = draw(st.sampled_from([-128, 0, 7]))
    layout = "nchw" if caffe else draw(st.sampled_from(["nchw", "nhwc"]))
    x = int8(np.random.default_rng(draw(st.integers(0, 99))), 2, 3, *sizes)
    x = np.moveaxis(x, 1, -1).copy() if layout == "nhwc" else x
    n = net(*x.shape)
    window: dict[str, Any]
    if caffe:
        pads = [draw(st.integers(0, k - 1)) for k in kernel] * 2
        ceil = draw(st.booleans()) and all((s - k) % st_ == 0 for s, k, st_ in zip(sizes, kernel, strides, strict=True))
        window = {"pads": pads, "count_include_pad": True, "ceil_mode": ceil and not any(pads)}
        origin = nn.OriginAttr.of("caffe", "Pooling", "p")
    else:  # SAME counts alike everywhere where nothing is padded
        same = all(s % st_ == 0 and k <= st_ for s, k, st_ in zip(sizes, kernel, strides, strict=True))
        window = {"auto_pad": "same_upper" if same else None}
        origin = nn.OriginAttr.of("tensorflow", "AvgPool", "p")
    pool = nn.AveragePoolOp.make(
        n.quantized(n.x, SCALE, zero_point), kernel=kernel, strides=strides, layout=layout, origin=origin, **window
    )
    lowered = exact.of(n.module(n.add(pool)), real_numbers(x, SCALE, zero_point))
    assert operations(lowered) == ["AscendQuant", "Pooling" if caffe else "AvgPool", "AscendDequant"]


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("stored", ["outputs first", "outputs last"])
@pytest.mark.parametrize("rank", [2, 3])
def test_inner_products(net, exact, real_numbers, rank, stored, zero_point):
    rng = np.random.default_rng(0)
    x = int8(rng, *(2, 3, 300)[-rank:])
    weight = int8(rng, 5, 300) if stored == "outputs first" else int8(rng, 300, 5)
    bias = rng.integers(-(2**20), 2**20, 5).astype(np.int32)
    n = net(*x.shape)
    origin = nn.OriginAttr.of("caffe", "InnerProduct", "fc")
    product = nn.MatMulOp.make(
        n.quantized(n.x, SCALE, zero_point),
        n.parameter(weight, 0.01),
        n.parameter(bias, SCALE * np.float32(0.01)),
        transpose_b=stored == "outputs first",
        origin=origin,
    )
    lowered = exact.of(n.module(n.add(product)), real_numbers(x, SCALE, zero_point))
    assert operations(lowered) == ["AscendQuant", "FullyConnection", "AscendDequant"]
