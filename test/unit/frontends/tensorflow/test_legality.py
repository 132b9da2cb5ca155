"""Which layers of TensorFlow may be quantized: AMCT's table of uniform quantization, each constraint kept and broken once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass
from amct_opt.support.diagnostics import Remark

from ...frameworks import later, tf
from ...values import normal

Frozen = Callable[..., Any]
raw = later("tensorflow.raw_ops")


IMAGE, CUBE, ROWS, BATCH = normal(1, 6, 6, 3), normal(1, 5, 6, 6, 3), normal(4, 4), normal(2, 4, 4)


def decided(
    frozen: Frozen, function: Callable[..., Any], *inputs: np.ndarray, variables: Any = ()
) -> tuple[bool, list[Remark]]:
    """Whether --insert-observers finds a layer to quantize, and what it remarks on others."""
    graph = frozen(function, *inputs, variables=variables)
    module, session = graph.read(), graph.session()
    make_pass("insert-observers", "").apply(session, module)
    observed = any(isinstance(op, nn.ObserveOp) for op in module.walk())
    return observed, [r for r in session.remarks if r.kind == "missed"]


def conv3d(x: Any, w: Any, dilations: list[int]) -> Any:
    return raw.Conv3D(input=x, filter=w, strides=[1] * 5, padding="SAME", dilations=dilations)


def conv3d_first(x: Any, w: Any, dilations: list[int]) -> Any:
    return raw.Conv3D(
        input=tf.transpose(x, [0, 4, 1, 2, 3]),
        filter=w,
        strides=[1] * 5,
        padding="SAME",
        dilations=dilations,
        data_format="NCDHW",
    )


def deconv(x: Any, w: Any, dilation: int = 1) -> Any:
    return raw.Conv2DBackpropInput(
        input_sizes=[1, 6, 6, 4],
        filter=w,
        out_backprop=x,
        strides=[1] * 4,
        padding="SAME",
        dilations=[1, dilation, dilation, 1],
    )


QUANTIZED = {
    "Conv2D": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), IMAGE, normal(3, 3, 3, 4)),
    "Conv2D-dilated": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2), IMAGE, normal(3, 3, 3, 4)),
    "DepthwiseConv2dNative": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"), IMAGE, normal(3, 3, 3, 2)),
    "Conv2DBackpropInput": (deconv, IMAGE, normal(3, 3, 4, 3)),
    "Conv3D": (lambda x, w: conv3d(x, w, [1, 1, 2, 2, 1]), CUBE, normal(2, 3, 3, 3, 4)),
    "Conv3D-first": (lambda x, w: conv3d_first(x, w, [1, 1, 1, 2, 2]), CUBE, normal(2, 3, 3, 3, 4)),
    "MatMul": (lambda x, w: tf.matmul(x, w), ROWS, normal(4, 5)),
    "BatchMatMulV2": (lambda x, w: raw.BatchMatMulV2(x=x, y=w), BATCH, normal(4, 5)),
    "BatchMatMulV2-adj_y": (lambda x, w: raw.BatchMatMulV2(x=x, y=w, adj_y=True), BATCH, normal(5, 4)),
    "AvgPool": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), IMAGE),
}
REFUSED = {
    "transpose_a": (lambda x, w: tf.matmul(x, w, transpose_a=True), ROWS, normal(4, 5), "transpose-false"),
    "transpose_b": (lambda x, w: tf.matmul(x, w, transpose_b=True), ROWS, normal(5, 4), "transpose-false"),
    "adj_x": (lambda x, w: raw.BatchMatMulV2(x=x, y=w, adj_x=True), BATCH, normal(4, 5), "adj-x-false"),
    "weight-of-rank-3": (lambda x, w: raw.BatchMatMulV2(x=x, y=w), BATCH, normal(2, 4, 5), "matrix-weight"),
    "dilation-d": (lambda x, w: conv3d(x, w, [1, 2, 1, 1, 1]), CUBE, normal(2, 3, 3, 3, 4), "dilation-d-1"),
    "dilation-d-first": (
        lambda x, w: conv3d_first(x, w, [1, 1, 2, 1, 1]), CUBE, normal(2, 3, 3, 3, 4), "dilation-d-1",
    ),
    "deconv-dilated": (lambda x, w: deconv(x, w, 2), IMAGE, normal(3, 3, 4, 3), "dilation-1"),
    "deconv-3d": (
        lambda x, w: tf.nn.conv3d_transpose(x, w, [1, 5, 6, 6, 4], 1), CUBE, normal(2, 3, 3, 4, 3), "not-in-table",
    ),
    "avg-pool-3d": (lambda x: tf.nn.avg_pool3d(x, 2, 2, "VALID"), CUBE, None, "not-in-table"),
    "avg-pool-same": (lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), IMAGE, None, "average-count"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized(frozen: Frozen, name: str) -> None:
    function, x, *weights = QUANTIZED[name]
    assert decided(frozen, function, x, variables=weights) == (True, [])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(frozen: Frozen, name: str) -> None:
    function, x, weight, rule = REFUSED[name]
    observed, remarks = decided(frozen, function, x, variables=[] if weight is None else [weight])
    assert not observed
    assert [r.rule for r in remarks] == [rule]


@pytest.mark.parametrize("name", ["Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "MatMul"])
def test_a_weight_that_is_an_input_is_refused(frozen: Frozen, name: str) -> None:
    function, x, weight = QUANTIZED[name]
    observed, remarks = decided(frozen, function, x, weight)
    assert not observed
    assert [r.rule for r in remarks] == ["weight-constant"]
