"""Matrix products of which only the weights are quantized, in the files of every target that holds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.caffe import CaffeTarget
from amct_opt.targets.tensorflow import TfFakequantTarget

from .operations import Array, const, module_of, real

X = real(3, 2, 6)
UP, DOWN = real(6, 20), real(20, 5)
BATCHED = real(3, 5, 4)
OPTIONS = ["", "channel-wise=true", "weight-asymmetric=true", "channel-wise=true weight-asymmetric=true"]


def products(x: Any) -> Any:
    """A product with a bias, one with a transposed weight, one with a weight per sample."""
    up = nn.MatMulOp.make(x, const(UP), const(real(20)))
    return nn.MatMulOp.make(nn.MatMulOp.make(nn.ReluOp.make(up), const(DOWN.T), transpose_b=True), const(BATCHED))


def quantized(options: str, build: Any = products, x: Array = X) -> tuple[ModuleOp, Session]:
    session = new_session()
    module = module_of(build, [x])
    make_pass("quantize", f"weight-only=true {options}").apply(session, module)
    assert len([op for op in module.walk() if isinstance(op, nn.DequantizeOp)]) == (3 if build is products else 1)
    return module, session


def close(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("options", OPTIONS)
def test_onnx(options: str, bits: int, export: Any) -> None:
    """DequantizeLinear on integers of 4 or 8 bits and nothing else; onnxruntime computes what the interpreter does."""
    module, session = quantized(f"{options} weight-bits={bits}")
    model = export.write(module, **({"opset": 21} if bits == 4 else {}))
    counts = Counter(n.op_type for n in model.graph.node)
    assert (counts["DequantizeLinear"], counts["QuantizeLinear"], counts["MatMul"]) == (3, 0, 3)
    kind = onnx.TensorProto.INT4 if bits == 4 else onnx.TensorProto.INT8
    stored = {i.name: i for i in model.graph.initializer}
    for node in (n for n in model.graph.node if n.op_type == "DequantizeLinear"):
        assert {stored[node.input[0]].data_type, stored[node.input[2]].data_type} == {kind}
        assert len(stored[node.input[1]].dims) == ("channel-wise" in options)
    close(export.run({"x0": X})[0], run(module, {"x0": X})["y0"])
    again = frontends.read(export.path, new_session())
    np.testing.assert_array_equal(run(again, {"x0": X})["y0"], run(module, {"x0": X})["y0"])
    once = module_text(again)
    make_pass("quantize", f"weight-only=true {options}").apply(session, again)
    assert module_text(again) == once


@pytest.mark.parametrize("nodes", ["plain", "fakequant"])
@pytest.mark.parametrize("options", OPTIONS)
def test_tensorflow(options: str, nodes: str, tmp_path: Path, run_graph: Any) -> None:
    module, session = quantized(options)
    (path,) = TfFakequantTarget(nodes=nodes).write(module, tmp_path / "model.pb", session)
    close(run_graph(path, {"x0": X}, ["y0"])[0], run(module, {"x0": X})["y0"])


@pytest.mark.parametrize("options", OPTIONS)
def test_caffe(options: str, tmp_path: Path) -> None:
    """Caffe has floats: those that the integers stand for, to the bit, and a remark."""
    x = real(1, 6)
    module, session = quantized(options, lambda v: nn.MatMulOp.make(v, const(UP), const(real(20))), x)
    net, weights = CaffeTarget().write(module, tmp_path / "net.prototxt", session)
    reasons = [r.reason for r in session.remarks if r.rule == "float-weight"]
    assert reasons == ["its weight is written as the reals that its integers stand for"]
    reading = new_session()
    reading.imports = replace(reading.imports, weights=weights)
    again = frontends.read(net, reading)
    close(run(again, {"x0": x})["y0"], run(module, {"x0": x})["y0"])
    (stored,) = (np.asarray(nn.array_of(op.rhs)) for op in again.walk() if isinstance(op, nn.MatMulOp))
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    integers = np.asarray(nn.array_of(back.input), np.float32)
    scales, points = back.qparams.data.broadcastable(integers.shape)
    reals = (integers - points.astype(np.float32)) * scales
    np.testing.assert_array_equal(stored if stored.shape == reals.shape else stored.T, reals)
