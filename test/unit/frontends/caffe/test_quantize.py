"""Fusions of imported nets, AMCT's rules for Caffe's layers, and the way to a quantized ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.runtime.executor import run
from amct_opt.tools import amct_opt

Array = np.ndarray[Any, np.dtype[Any]]


def f(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def norm(rng: np.random.Generator, net: Any, blob: str, channels: int, to: str = "") -> str:
    """BatchNorm and Scale, in place or not."""
    blobs = [f(rng, channels), np.abs(f(rng, channels)) + 0.5, np.array([3.0])]
    net.add(f"{blob}_bn", "BatchNorm", blob, to or blob, blobs=blobs)
    return net.add(
        f"{blob}_scale",
        "Scale",
        to or blob,
        to or blob,
        blobs=[f(rng, channels), f(rng, channels)],
        scale_param={"bias_term": True},
    )


def conv(net: Any, name: str, bottom: str, weight: Array, kind: str = "Convolution", **params: Any) -> str:
    outputs = weight.shape[1 if kind == "Deconvolution" else 0] * params.get("group", 1) ** (kind == "Deconvolution")
    params = {"num_output": outputs, "kernel_size": [weight.shape[2]], "bias_term": False, **params}
    return net.add(name, kind, bottom, blobs=[weight], convolution_param=params)


def inner(rng: np.random.Generator, net: Any, name: str, bottom: str, inputs: int, **params: Any) -> str:
    shape = (inputs, 5) if params.get("transpose") else (5, inputs)
    return net.add(
        name, "InnerProduct", bottom, blobs=[f(rng, *shape), f(rng, 5)], inner_product_param={"num_output": 5, **params}
    )


def after_convolution(rng: np.random.Generator, net: Any) -> None:
    norm(rng, net, conv(net, "c", "data", f(rng, 6, 4, 3, 3), pad=[1]), 6)


def after_groups(rng: np.random.Generator, net: Any) -> None:
    norm(rng, net, conv(net, "c", "data", f(rng, 6, 2, 3, 3), group=2, stride=[2]), 6)


def after_deconvolution(rng: np.random.Generator, net: Any) -> None:
    norm(rng, net, conv(net, "c", "data", f(rng, 4, 3, 3, 3), "Deconvolution", group=2, stride=[2]), 6)


def after_inner_product(rng: np.random.Generator, net: Any) -> None:
    norm(rng, net, inner(rng, net, "c", "data", 144), 5)


def before_convolution(rng: np.random.Generator, net: Any) -> None:
    conv(net, "c", norm(rng, net, "data", 4, "n"), f(rng, 6, 4, 3, 3))


FUSED = (after_convolution, after_groups, after_deconvolution, after_inner_product, before_convolution)


@pytest.mark.parametrize("build", FUSED, ids=lambda b: b.__name__)
def test_fusions(caffe: Any, new_net: Any, equivalence: Any, build: Any, rng: np.random.Generator) -> None:
    """AMCT's list for Caffe: Conv, Deconv or FC + BN + Scale, and BN + Scale + Conv: one operation is left."""
    net = new_net((2, 4, 6, 6))
    build(rng, net)
    module = caffe.load(net)
    fused = equivalence.after(module, "fuse-all")
    kinds = {op.name for op in main_function(fused).body.block.ops if isinstance(op, nn.NNOp)}
    assert kinds - {"nn.flatten"} <= {"nn.conv", "nn.conv_transpose", "nn.matmul"}
    assert len(kinds - {"nn.flatten"}) == 1
    equivalence.assert_equivalent(module, fused, rtol=1e-4, atol=1e-4)


def test_before_convolution_with_padding(caffe: Any, new_net: Any, equivalence: Any, rng: np.random.Generator) -> None:
    """The shift would have to move the zeros of the padding."""
    net = new_net((1, 4, 6, 6))
    conv(net, "c", norm(rng, net, "data", 4, "n"), f(rng, 6, 4, 3, 3), pad=[1])
    fused = equivalence.after(caffe.load(net), "fuse-all", session=caffe.session)
    kinds = [op.name for op in main_function(fused).body.block.ops if isinstance(op, nn.NNOp)]
    assert kinds == ["nn.batch_norm", "nn.conv"]
    assert caffe.remarks("shift-meets-no-border")


def pool(net: Any, name: str, bottom: str, **params: Any) -> str:
    return net.add(name, "Pooling", bottom, pooling_param=params)


def every_rule(rng: np.random.Generator, net: Any) -> None:
    """Layers that AMCT's table has, some in the form that it excludes; named after the rule that keeps them in float."""
    conv(net, "quantized-conv", "data", f(rng, 4, 4, 3, 3), pad=[1])
    conv(net, "quantized-dilated", "quantized-conv", f(rng, 4, 4, 3, 3), pad=[2], dilation=[2])
    conv(net, "quantized-deconv", "quantized-dilated", f(rng, 4, 4, 2, 2), "Deconvolution")
    conv(net, "dilation-1", "quantized-dilated", f(rng, 4, 4, 2, 2), "Deconvolution", dilation=[2])
    pool(net, "quantized-average", "quantized-deconv", pool="AVE", kernel_size=2, stride=1)
    pool(net, "tensor-only", "quantized-average", kernel_size=2, stride=1)
    pool(net, "global-pooling-false", "tensor-only", pool="AVE", global_pooling=True)
    inner(rng, net, "quantized-fc", "global-pooling-false", 4)
    inner(rng, net, "transpose-false", "global-pooling-false", 4, transpose=True)
    inner(rng, net, "axis-1", "quantized-fc", 10, axis=0)
    net.add("tensor-only-sum", "Eltwise", ["quantized-fc", "transpose-false"])
    net.add("operation-sum", "Eltwise", ["quantized-fc", "tensor-only-sum"], eltwise_param={"operation": "PROD"})
    net.add("not-in-table", "Bias", "operation-sum", blobs=[f(rng, 5)])
    volume = net.add("volume", "Reshape", "data", reshape_param={"shape": {"dim": [0, 0, 6, 6, 1]}})
    net.add(
        "filter-rank-4",
        "Convolution",
        volume,
        blobs=[f(rng, 2, 4, 3, 3, 1)],
        convolution_param={"num_output": 2, "bias_term": False, "kernel_size": [3, 3, 1]},
    )


def test_rules(caffe: Any, new_net: Any, equivalence: Any, rng: np.random.Generator) -> None:
    net = new_net((2, 4, 6, 6))
    every_rule(rng, net)
    equivalence.after(caffe.load(net), "insert-observers", session=caffe.session)
    remarks = [r for r in caffe.session.remarks if r.pass_name == "insert-observers"]
    assert {r.layer for r in remarks if r.kind == "applied"} == {
        layer.name for layer in net.proto.layer if layer.name.startswith("quantized")
    }
    missed = {r.layer: r.rule for r in remarks if r.kind == "missed"}
    kept = (
        "dilation-1 tensor-only global-pooling-false transpose-false axis-1 tensor-only-sum operation-sum not-in-table"
        " filter-rank-4"
    )
    assert missed == {name: name.replace("only-sum", "only") for name in kept.split()}


def residual(rng: np.random.Generator, net: Any) -> None:
    """A small network of the usual layers."""
    norm(rng, net, conv(net, "c1", "data", f(rng, 8, 3, 3, 3) / 4, pad=[1], stride=[2]), 8)
    net.add("r1", "ReLU", "c1", "c1")
    pool(net, "p1", "c1", kernel_size=3, stride=2)
    norm(rng, net, conv(net, "c2", "p1", f(rng, 8, 1, 3, 3) / 2, pad=[1], group=8), 8)
    net.add("r2", "ReLU", "c2", "c2")
    net.add("sum", "Eltwise", ["c2", "p1"])
    conv(net, "up", "sum", f(rng, 8, 4, 2, 2) / 3, "Deconvolution", stride=[2])
    pool(net, "p2", "up", pool="AVE", kernel_size=3, stride=2, pad=1)
    net.add("d", "Dropout", "p2", "p2")
    inner(rng, net, "fc", "p2", 4 * 5 * 5)
    net.add("prob", "Softmax", "fc")


def test_quantized_onnx_runs(caffe: Any, new_net: Any, assert_close: Any, rng: np.random.Generator) -> None:
    """From the command line to onnxruntime, which computes what the net in int8 should: close to the net in float."""
    ort = pytest.importorskip("onnxruntime")
    net = new_net((1, 3, 16, 16))
    residual(rng, net)
    text, weights = caffe.save(net.text, net.binary)
    calibration, out = caffe.folder / "calib.npz", caffe.folder / "q.onnx"
    data = f(rng, 16, 3, 16, 16)
    np.savez(calibration, data=data)
    arguments = [
        text,
        "--weights",
        weights,
        "--input-shape",
        "data:?,3,16,16",
        "--fuse-all",
        f"--quantize=data={calibration}",
    ]
    assert amct_opt.run([str(a) for a in [*arguments, "-t", "onnx", "-o", out]]) == 0
    session = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    assert "QuantizeLinear" in str(out.read_bytes())
    expected = run(caffe.load(net, shapes={"data": (-1, 3, 16, 16)}), {"data": data})["prob"]
    assert_close(expected, np.concatenate([caffe.opencv(net, {"data": x[None]})[0] for x in data]), 1e-5)
    (actual,) = session.run(["prob"], {"data": data})
    assert np.abs(actual - expected).max() < 0.1
    assert (actual.argmax(1) == expected.argmax(1)).mean() > 0.8


def test_float_onnx_is_the_same(caffe: Any, new_net: Any, assert_close: Any, rng: np.random.Generator) -> None:
    ort = pytest.importorskip("onnxruntime")
    net = new_net((1, 3, 16, 16))
    residual(rng, net)
    text, weights = caffe.save(net.text, net.binary)
    out = caffe.folder / "net.onnx"
    assert amct_opt.run([str(text), "--weights", str(weights), "-t", "onnx", "-o", str(out)]) == 0
    x = f(rng, 1, 3, 16, 16)
    session = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    assert_close(session.run(["prob"], {"data": x})[0], caffe.opencv(net, {"data": x})[0], 1e-5)
