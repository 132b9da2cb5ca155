"""Rounding of weights whose scales belong to groups of columns: the formulas against literal forms, and the pass on a network."""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.dialects.nn import weights_of
from amct_opt.ir import weights as ir_weights
from amct_opt.ir.text import module_text, parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.affine import symmetric_scales
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.options import Method
from amct_opt.transforms.quantization.recover import round_weights as rounding_pass
from amct_opt.transforms.quantization.recover.round_weights import RoundWeightsPass, round_weights
from amct_opt.transforms.quantization.recover.round_weights.adaround import adaround
from amct_opt.transforms.quantization.recover.round_weights.rounding import (
    SHRUNK,
    Grid,
    damped,
    factored,
    gptq,
    output_error,
    rounded,
    with_least_error,
)

from ...values import dense, normal, parsed

Array = np.ndarray


def inputs(rng: np.random.Generator, count: int, columns: int) -> Array:
    """Correlated rows with two channels that are larger than the others."""
    few = max(2, columns // 3)
    rows = rng.normal(size=(count, few)) @ rng.normal(size=(few, columns)) + 0.3 * rng.normal(size=(count, columns))
    rows[:, :2] *= 10
    return rows.astype(np.float32)


def sums(rows: Array) -> Array:
    return (rows.T.astype(np.float64) @ rows)[None]


def grid(weights: Array, block: int, bits: int = 4) -> Grid:
    """The scales of groups by their largest numbers, [1, M, K]."""
    blocks = symmetric_scales(weights[0], bits, 1, block).reshape(weights.shape[1], -1).astype(np.float64)
    blocks[:, 1] *= -1
    scale = np.repeat(blocks, block, axis=1)[None, :, : weights.shape[2]]
    half = np.full_like(scale, 2 ** (bits - 1))
    return Grid(scale, -half, half - 1, block=block)


def test_gptq_is_its_definition(rng: np.random.Generator) -> None:
    """After each column the least squares of all that are left, solved anew."""
    weights, h = rng.normal(size=(1, 3, 20)), sums(inputs(rng, 100, 20))
    on, free = grid(weights, 8), list(np.argsort(-np.diag(damped(h)[0]), kind="stable"))
    left, integers = weights[0].copy(), np.zeros_like(weights[0])
    while free:
        j = free.pop(0)
        integers[:, j] = np.clip(np.rint(left[:, j] / on.scale[0, :, j]), -8, 7)
        if free:
            error = left[:, j] - integers[:, j] * on.scale[0, :, j]
            left[:, free] += np.outer(error, np.linalg.solve(damped(h)[0][np.ix_(free, free)], damped(h)[0][free, j]))
    np.testing.assert_array_equal(gptq(weights, factored(h), on)[0], integers)


def test_each_group_has_the_scale_of_its_least_error(rng: np.random.Generator) -> None:
    weights, h = rng.normal(size=(1, 4, 20)), sums(inputs(rng, 100, 20))
    on = grid(weights, 8)
    found = with_least_error(weights, h, on, ())
    for m, begin in combinations(range(4), range(0, 20, 8)):
        part = slice(begin, begin + 8)
        w, scale, errors = weights[0, m, part], on.scale[0, m, begin], []
        tried = [float(np.float32(scale * factor)) for factor in SHRUNK]
        for each in tried:
            change = np.clip(np.rint(w / each), -8, 7) * each - w
            errors.append(change @ h[0, part, part] @ change)
        np.testing.assert_array_equal(found.scale[0, m, part], tried[int(np.argmin(errors))])


def test_adaround_is_between_the_best_of_all_ups_and_downs_and_nearest(rng: np.random.Generator) -> None:
    weights, h = rng.normal(size=(1, 1, 8)), sums(inputs(rng, 60, 8))
    on = grid(weights, 4)
    ups = np.array(list(combinations((0, 1), repeat=8)))[None]
    every = np.clip(np.floor(weights / on.scale) + ups, on.low, on.high) * on.scale
    found = output_error(adaround(weights, h, on) * on.scale - weights, h).item()
    assert output_error(every - weights, h).min() <= found * (1 + 1e-9)
    assert found <= output_error(on.nearest(weights) - weights, h).item()


def net(first: Array, second: Array) -> str:
    return f"""
func.func @main(%x: tensor<?x72xf32> {{nn.name = "x"}}) -> (tensor<?x16xf32> {{nn.name = "y"}}) {{
  %v = nn.constant {dense(first)}
  %w = nn.constant {dense(second.T)}
  %0 = nn.matmul %x, %v from <onnx, "MatMul", "a"> : (tensor<?x72xf32>, tensor<72x40xf32>) -> tensor<?x40xf32>
  %1 = nn.relu %0 : tensor<?x40xf32>
  %y = nn.matmul %1, %w transpose_b from <onnx, "Gemm", "b"> : (tensor<?x40xf32>, tensor<16x40xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}}
"""


TEXT = net(normal(72, 40), normal(40, 16))
X, TEST = np.split(inputs(np.random.default_rng(5), 320, 72), [256])


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("method", ["gptq", "mismatch", "adaround"])
def test_the_pass_beats_nearest_rounding(method: Method, asymmetric: bool) -> None:
    """On rows that it has not seen, with the last group of both weights shorter; scales and integers pass through text."""
    module, session = parsed(TEXT, profile="qdq")
    expected = run(module, {"x": TEST})["y"]
    options = f"weight-only=true weight-bits=4 group-size=32 weight-asymmetric={str(asymmetric).lower()}"
    make_pass("insert-observers", options).apply(session, module)
    nearest = module.clone()
    make_pass("convert-observers", "").apply(session, nearest)
    round_weights(module, method, lambda: samples_from({"x": X}, module), session)
    text = module_text(module)
    assert "block = 32" in text
    module = parse_module(new_session(), text, "again.mlir")
    assert module_text(module) == text
    rounded = run(module, {"x": TEST})["y"]
    make_pass("convert-observers", "").apply(session, module)
    found = run(module, {"x": TEST})["y"]
    np.testing.assert_array_equal(found, rounded)
    assert sqnr(expected, found) > sqnr(expected, run(nearest, {"x": TEST})["y"]) + 3
    said = {r.layer: r.rule for r in session.remarks if r.pass_name == RoundWeightsPass.name}
    assert said == {"a": "rounded", "b": "rounded"}
    assert all(op.qparams.data.block == 32 for op in module.walk() if isinstance(op, nn.DequantizeOp))


def rounded_module(method: Method) -> ModuleOp:
    module, session = parsed(TEXT, profile="qdq")
    make_pass("insert-observers", "weight-only=true weight-bits=4 group-size=32").apply(session, module)
    round_weights(module, method, lambda: samples_from({"x": X}, module), session)
    return module


@pytest.mark.parametrize("method", ["gptq", "mismatch"])
def test_some_output_channels_at_a_time_are_rounded_as_all_are(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 of the 40 and 16 channels; to the last bits of sums, which depend on the size of matrices."""
    together = rounded_module(method)
    calls: list[int] = []

    def counted(weights: Array, *rest: Any, **options: Any) -> Any:
        calls.append(weights.shape[1])
        return rounded(weights, *rest, **options)

    monkeypatch.setattr(rounding_pass, "_AT_A_TIME", 7 * 40)
    monkeypatch.setattr(rounding_pass, "rounded", counted)
    apart = rounded_module(method)
    assert max(calls) <= 7
    for one, other in zip(constants(together), constants(apart), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def constants(module: ModuleOp) -> list[Array]:
    return [op.array for op in module.walk() if isinstance(op, nn.ConstantOp)]


def test_rounded_weights_wait_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many layers there are, no more than one has its new weights in memory."""
    monkeypatch.setattr(ir_weights, "_WORTH_RELEASING", 1)
    module = rounded_module("gptq")
    weights = [each for each in weights_of(module) if each.array.size >= 40 * 16]
    assert len(weights) == 2
    assert all(each.file is not None for each in weights)


def test_blocks_along_output_channels_are_not_rounded() -> None:
    session = new_session()
    plan = '"a"> {nn.plan = #nn.plan<weight i4 axis 1 block 32>}'
    module = parse_module(session, TEXT.replace('"a">', plan), "net.mlir")
    round_weights(module, "gptq", lambda: samples_from({"x": X}, module), session)
    (said,) = (r for r in session.remarks if r.layer == "a")
    assert (said.kind, said.rule) == ("missed", "channel-axis")
