"""Quantized modules back in PyTorch: fake-quantized, and as programs in the form of PT2E."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, i8

import amct_opt
from amct_opt.dialects import nn
from amct_opt.dialects.nn import QParamsAttr
from amct_opt.frontends.torch.archive import load_program
from amct_opt.support.diagnostics import CompileError

from ...frameworks import needs, torch
from ..operations import const, module_of

pytestmark = needs("torch", "onnxscript")

X = np.random.default_rng(0).normal(size=(6, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def quantized() -> ModuleOp:
    from ...frontends.torch.networks import small

    model, _ = small()
    return amct_opt.quantize(model, [torch.from_numpy(X)], profile="qdq").module


@pytest.mark.slow
def test_fake_quantized(quantized: ModuleOp) -> None:
    """The interpreter's numbers, and weights under their keys, on few levels."""
    network = amct_opt.torch.fake_quantized(quantized)
    with torch.no_grad():
        found, named = network(torch.from_numpy(X)).numpy(), network(x=torch.from_numpy(X)).numpy()
    expected = amct_opt.execute(quantized, {"x": X})["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found, named)
    weight = network.state_dict()["block.conv.weight"]
    assert weight.dtype == torch.float32
    assert all(len(channel.unique()) <= 255 for channel in weight)
    assert network.block.conv.weight.shape == (4, 4, 3, 3)
    for mistaken in ((), (found, found)):
        with pytest.raises(TypeError, match="the inputs are x"):
            network(*mistaken)


def test_fake_quantized_to_the_bit() -> None:
    """Where sums are exact, so is the result: scales are powers of two, and products of integers add up to less than 2^24."""
    rng = np.random.default_rng(2)
    half = QParamsAttr.of(i8, 0.5)

    def build(x: Any) -> Any:
        for i in range(2):
            integers = nn.QuantizeOp.make(x, qparams=half).result
            x = nn.DequantizeOp.make(integers, qparams=half, result_types=[x.type]).result
            weight = const(rng.integers(-127, 128, (8, 8)) * 0.125, key=f"w{i}")
            x = nn.MatMulOp.make(x, weight).result
        return x

    x = rng.normal(0, 40, (5, 8)).astype(np.float32)
    module = module_of(build, [x])
    (expected,) = amct_opt.execute(module, {"x0": x}).values()
    with torch.no_grad():
        np.testing.assert_array_equal(amct_opt.torch.fake_quantized(module)(torch.from_numpy(x)).numpy(), expected)


@pytest.mark.slow
def test_exported(quantized: ModuleOp, tmp_path: Any) -> None:
    """Every point is an operator of `quantized_decomposed`; a saved program is read back with the same numbers."""
    x = torch.from_numpy(X)
    program = amct_opt.torch.exported(quantized, (x,))
    named = [str(node.target) for node in program.graph.nodes if "quantized_decomposed.quantize" in str(node.target)]
    assert len(named) == sum(isinstance(op, nn.QuantizeOp) for op in quantized.walk())
    expected = amct_opt.execute(quantized, {"x": X})["output"]
    with torch.no_grad():
        found = program.module()(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert {b.dtype for _, b in program.named_buffers()} >= {torch.int8, torch.int32}
    torch.export.save(program, tmp_path / "q.pt2")
    with torch.no_grad():
        np.testing.assert_array_equal(load_program(torch, tmp_path / "q.pt2").module()(x).numpy(), found)
    with pytest.raises(CompileError, match="there are 2 example inputs"):
        amct_opt.torch.exported(quantized, (x, x))


def test_names_from_outside() -> None:
    """Keys become names of buffers: digits, paths, quotes and names of methods; each weight has one of its own."""
    keys = ["0", "a.b", "a", 'x"]; import os', "forward", "é", "forward"]

    def build(x: Any) -> Any:
        for i, key in enumerate(keys):
            x = nn.AddOp.make(x, const([i], key=key)).result
        return x

    network = amct_opt.torch.fake_quantized(module_of(build, [np.zeros(1, np.float32)]))
    assert network(torch.zeros(1)).item() == sum(range(len(keys)))
    assert len(network.state_dict()) == len(keys)
