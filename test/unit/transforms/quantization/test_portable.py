"""Weights whose sums of products are exact on every processor, against sums in 16 bits as kernels make them and onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, strategies as st
from xdsl.dialects.builtin import ModuleOp

from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import parse_pipeline, run_passes
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.transforms.quantization.convert.layer_weights import inexact_layers
from amct_opt.transforms.quantization.options import DataOptions
from amct_opt.transforms.quantization.portable import (
    adds_singly,
    channels_apart,
    inexact,
    least_scales,
    products_of_neighbours,
    ranges_around,
)
from amct_opt.transforms.quantization.products import product_of
from amct_opt.transforms.quantization.profiles import profile_of
from amct_opt.transforms.quantization.recover import correct_bias, round_weights

from ...targets.operations import const, module_of

Array = np.ndarray[Any, np.dtype[Any]]
Case = tuple[type[nn.NNOp], tuple[int, ...], tuple[int, ...], dict[str, Any]]

LAYERS: dict[str, Case] = {
    "3x3": (nn.ConvOp, (2, 8, 6, 6), (16, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "three channels": (nn.ConvOp, (2, 3, 7, 7), (7, 3, 3, 3), {}),
    "1x1": (nn.ConvOp, (2, 32, 4, 4), (16, 32, 1, 1), {}),
    "groups": (nn.ConvOp, (2, 12, 6, 6), (8, 3, 3, 3), {"groups": 4}),
    "multiplier": (nn.ConvOp, (2, 4, 6, 6), (8, 1, 3, 3), {"groups": 4}),
    "one dimension": (nn.ConvOp, (2, 6, 9), (5, 6, 4), {}),
    "three dimensions": (nn.ConvOp, (1, 4, 4, 4, 4), (6, 4, 2, 2, 2), {}),
    "strides and dilations": (nn.ConvOp, (1, 5, 11, 11), (6, 5, 3, 3), {"strides": [2, 2], "dilations": [2, 2]}),
    "depthwise": (nn.ConvOp, (2, 6, 7, 7), (6, 1, 3, 3), {"groups": 6}),
    "product": (nn.MatMulOp, (5, 40), (40, 12), {}),
    "one row": (nn.MatMulOp, (1, 37), (37, 12), {}),
    "transposed": (nn.MatMulOp, (5, 24), (12, 24), {"transpose_b": True}),
    "rank 3": (nn.MatMulOp, (2, 5, 24), (24, 12), {}),
}


def layer(name: str, seed: int = 0) -> tuple[ModuleOp, nn.NNOp, Array, Array]:
    """A module of one layer whose neighbouring weights are large, and of one sign, its weight, and inputs at both ends."""
    kind, shape, weight_shape, properties = LAYERS[name]
    rng = np.random.default_rng(seed)
    weight = (rng.choice([-1, 1], weight_shape, p=[0.2, 0.8]) * rng.uniform(0.7, 1, weight_shape)).astype(np.float32)
    bias = const(np.zeros(weight_shape[0 if kind is nn.ConvOp else -1 - bool(properties)], np.float32))
    module = module_of(lambda x: kind.make(x, const(weight), bias, **properties), [np.zeros(shape, np.float32)])
    (op,) = (op for op in module.walk() if isinstance(op, nn.ConvOp | nn.MatMulOp))
    return module, op, weight, rng.choice([0, 0.5, 1], (4 * shape[0], *shape[1:]), p=[0.2, 0.2, 0.6]).astype(np.float32)


def quantized(module: ModuleOp, data: Array, options: str = "", profile: str = "qdq") -> Session:
    """Quantize a module in place."""
    session = new_session()
    session.profile = profile
    (each,) = parse_pipeline(f"quantize{{{options}}}", session.passes)
    run_passes(module, [replace(each, calibration=DataOptions(samples_from(data, module)))], session)
    return session


def in_16_bits(rows: Array, matrices: Array) -> Array:
    """Sums as `vpmaddubsw` and `vpmaddwd` make them: two neighbouring products saturate at 16 bits. [G, R, M]"""
    odd = [(0, 0)] * (rows.ndim - 1) + [(0, rows.shape[-1] % 2)]
    products = np.pad(rows.astype(np.int64), odd)[:, :, None] * np.pad(matrices.astype(np.int64), odd)[:, None]
    return np.clip(products[..., 0::2] + products[..., 1::2], -(2**15), 2**15 - 1).sum(-1)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("axis", ["channels", "tensor"])
def test_scales_make_sums_exact(name: str, axis: str) -> None:
    """By nearest rounding, also with larger scales. Plain scales do not, but for depthwise layers without two weights of -128."""
    _, op, weight, _ = layer(name)
    product, channel = product_of(op), op.weight_axis if isinstance(op, nn.WeightedOp) else None
    along = channel if axis == "channels" else None
    scales = least_scales(weight, along, op)
    for factor in (1, 1.013, 1.7):
        integers = np.rint(weight / nn.spread(scales * np.float32(factor), weight.shape, along)).astype(np.int64)
        assert np.abs(integers).max() <= 127
        matrices = product.matrices(integers.astype(np.int8))
        assert not inexact(matrices, op).any()
        rows = np.random.default_rng(1).choice([0, 128, 255], (len(matrices), 50, matrices.shape[2]))
        rows -= 128 if adds_singly(op) else 0
        exact = rows @ matrices.swapaxes(1, 2).astype(np.int64)
        assert np.array_equal(in_16_bits(rows, matrices), exact)
        assert np.array_equal(in_16_bits(channels_apart(rows, op), channels_apart(matrices, op)), exact)
    plain = product.matrices(np.rint(weight / np.abs(weight).max() * 127).astype(np.int8))
    assert inexact(plain, op).any() == (name != "depthwise")


def test_ranges_are_exact_for_both_orders_of_neighbours(rng: np.random.Generator) -> None:
    """With three channels OpenVINO adds other pairs than onnxruntime."""
    _, op, weight, _ = layer("three channels")
    scales = least_scales(weight, 0, op)
    matrices = product_of(op).matrices(np.rint(weight / scales.reshape(-1, 1, 1, 1)).astype(np.int8))
    low, high = ranges_around(matrices, op)
    assert np.all((low <= matrices) & (matrices <= high))
    for chosen in (low, high, rng.integers(low, high, endpoint=True)):
        assert not inexact(chosen.astype(np.int8), op).any()
        assert not inexact(channels_apart(chosen, op).astype(np.int8), op).any()


def test_two_weights_of_minus_128_are_inexact_in_depthwise_layers() -> None:
    _, op, _, _ = layer("depthwise")
    matrices = np.full((6, 1, 9), 127, np.int8)
    for column in (1, 3):
        assert not inexact(matrices, op).any()
        matrices[4, 0, column] = -128
    assert np.argwhere(inexact(matrices, op)).tolist() == [[4, 0]]
    assert [set(ends.reshape(-1)) for ends in ranges_around(matrices, op)] == [{-127}, {127}]


@pytest.mark.parametrize("options", ["portable=off", ""])
def test_plain_weights_of_a_depthwise_layer_have_a_remark(options: str) -> None:
    weight = np.full((6, 1, 3, 3), 0.5, np.float32)
    weight[4, 0, :2, 1] = -1
    data = np.random.default_rng(0).uniform(size=(16, 6, 7, 7)).astype(np.float32)
    module = module_of(lambda x: nn.ConvOp.make(x, const(weight), const(np.zeros(6)), groups=6), [data[:2]])
    session = quantized(module, data, f"{options} correct-bias=false round-weights=nearest".strip())
    said = [remark.reason for remark in session.remarks if remark.rule == "portable"]
    passed = "sums of products of 1 of 6 output channels may pass 16 bits, which onnxruntime gets wrong on Arm"
    assert said == ([passed] if options else [])
    assert len(inexact_layers(module, profile_of(session))) == len(said)


_, PRODUCT, _, _ = layer("product")


integers = st.lists(st.lists(st.integers(-128, 127), min_size=9, max_size=9), min_size=1, max_size=4)


@given(integers, st.integers(0, 2**32))
def test_inexact_is_what_can_saturate_and_sums_of_two_are_found(weights: list[list[int]], seed: int) -> None:
    matrices = np.array([weights], np.int8)
    worst = np.stack([np.where(matrices[0] > 0, 255, 0), np.where(matrices[0] < 0, 255, 0)], 1).astype(np.int64)
    exact = np.einsum("mrk,mk->mr", worst, matrices[0].astype(np.int64))
    wrong = np.array(
        [in_16_bits(worst[m][None], matrices[:, m : m + 1])[0, :, 0] != exact[m] for m in range(len(exact))]
    )
    wraps = (matrices[0, :, 0] == -128) & (matrices[0, :, 8] == -128)
    assert np.array_equal(inexact(matrices, PRODUCT)[0], wrong.any(1) | wraps)
    rows = np.random.default_rng(seed).integers(0, 256, (1, 20, 9))
    sums = list(products_of_neighbours(rows, matrices))
    counted = sum(int(((each > 32767) | (each < -32768)).sum()) for each in sums)
    pairs = rows[0][:, None, :8].reshape(20, 1, 4, 2) * matrices[0, :, :8].astype(np.int64).reshape(1, -1, 4, 2)
    assert counted == ((pairs.sum(-1) > 32767) | (pairs.sum(-1) < -32768)).sum()


@given(integers, st.integers(0, 2**32))
def test_all_integers_in_their_ranges_are_exact(weights: list[list[int]], seed: int) -> None:
    """The ranges contain the integers around which they are, where these are exact."""
    matrices = np.array([weights], np.int8)
    low, high = ranges_around(matrices, PRODUCT)
    exact = ~inexact(matrices, PRODUCT)[..., None] & (matrices != -128)
    assert np.all((low <= matrices) & (matrices <= high), where=exact)
    rng = np.random.default_rng(seed)
    for chosen in (low, high, rng.integers(low, high, endpoint=True), np.where(rng.random(low.shape) < 0.5, low, high)):
        assert not inexact(chosen.astype(np.int8), PRODUCT).any()
        assert np.abs(chosen).max() <= 127


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("profile", ["qdq", "ppq"])
def test_files_as_written_are_equal_on_this_processor(name: str, profile: str, tmp_path: Path) -> None:
    """Integer kernels of onnxruntime, and the interpreter's; inputs reach both ends of their range."""
    module, _, _, data = layer(name)
    _, shape, *_ = LAYERS[name]
    session = quantized(module, data, profile=profile)
    assert not inexact_layers(module, profile_of(session))
    OnnxTarget().write(module, tmp_path / "layer.onnx", session)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, str(tmp_path / "optimized.onnx")
    peer = onnxruntime.InferenceSession(tmp_path / "layer.onnx", options, providers=["CPUExecutionProvider"])
    executable = Executable(module, rewrite=in_integers)
    for start in range(0, len(data), shape[0]):
        batch = data[start : start + shape[0]]
        (own,) = executable.run({executable.inputs[0]: batch}).values()
        np.testing.assert_array_equal(peer.run(None, {executable.inputs[0]: batch})[0], own)
    kernels = (tmp_path / "optimized.onnx").read_bytes()
    assert any(kernel in kernels for kernel in (b"QLinearConv", b"QLinearMatMul", b"QGemm", b"MatMulIntegerToFloat"))


@pytest.mark.parametrize(
    "options",
    ["round-weights=gptq", "round-weights=mismatch", "round-weights=adaround", "weight-search=true", "fit-ranges=true"],
)
@pytest.mark.parametrize("name", ["3x3", "groups", "product", "transposed"])
def test_what_chooses_integers_keeps_sums_exact(name: str, options: str) -> None:
    module, _, _, data = layer(name)
    exact = Executable(module.clone()).run({"x0": data[: LAYERS[name][1][0]]})
    session = quantized(module, data, options)
    assert not inexact_layers(module, profile_of(session))
    found = Executable(module).run({"x0": data[: LAYERS[name][1][0]]})
    assert sqnr(*(next(iter(each.values())) for each in (exact, found))) > 30


def test_off_and_other_profiles_keep_plain_weights() -> None:
    """A remark names the layers whose sums may be wrong; profiles for other targets have none."""
    scales: dict[str, Array] = {}
    for options, profile in (("portable=off", "qdq"), ("", "ascend"), ("portable=strict", "qdq")):
        module, op, weight, data = layer("3x3")
        session = quantized(
            module, data, " ".join([options, "correct-bias=false round-weights=nearest"]).strip(), profile
        )
        back = nn.dequantize_of(op.operands[1])
        assert back is not None
        scales[options] = back.qparams.data.scales()
        said = [remark.reason for remark in session.remarks if remark.rule == "portable"]
        assert len(said) == (options == "portable=off")
        assert all(each.startswith("sums of products of 16 of 16 output channels may pass 16 bits") for each in said)
    plain = np.maximum(weight.max((1, 2, 3)) / 127, -weight.min((1, 2, 3)) / 128)
    np.testing.assert_allclose(scales["portable=off"], plain, rtol=1e-6)
    assert np.array_equal(scales["portable=off"], scales[""])
    assert np.all(scales["portable=strict"] > scales["portable=off"])


def wide(inputs: float) -> tuple[ModuleOp, Array]:
    """Two products, the first with so many input channels that its weights are not rounded by default. They are all that it loses
    by, since its inputs are whole steps. Its first two inputs, whose weights are large, are these.
    """
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(1200, 64)), rng.normal(size=(64, 1100))
    first[:2], second[1::2] = 8, 0  # plain weights of the second are exact
    second = np.abs(second)
    data = rng.integers(0, 255, (64, 1, 1200)) * (rng.random((64, 1, 1200)) < 0.05)
    data[:, :, :2] = inputs
    data[:, 0, 2] = 255

    def made(x: Any) -> Any:
        return nn.MatMulOp.make(
            nn.MatMulOp.make(x, const(first), const(np.zeros(64))), const(second), const(np.zeros(1100))
        )

    return module_of(made, [np.zeros((1, 1, 1200), np.float32)]), (data / 255).astype(np.float32)


@pytest.mark.parametrize(("inputs", "rule"), [(0, "accuracy"), (255, "at-risk")])
def test_layers_at_risk_alone_keep_portable_weights_that_cost_accuracy(inputs: float, rule: str) -> None:
    """Both remarks have the loss or the largest sum on data; strict keeps them all."""
    module, data = wide(inputs)
    session = quantized(module, data)
    said = {r.layer: r for r in session.remarks if r.pass_name == "portable-weights"}
    assert said["nn.matmul"].rule == rule
    assert "% of 16 bits (8 samples)" in said["nn.matmul"].reason
    names = {layer_of(each.op) for each in inexact_layers(module, profile_of(session))}
    assert ("nn.matmul" in names) == (rule == "accuracy")
    if rule == "accuracy":
        assert "its weights are plain, otherwise output y0 would lose" in said["nn.matmul"].reason
    strict, data = wide(inputs)
    session = quantized(strict, data, "portable=strict")
    assert not [r for r in session.remarks if r.pass_name == "portable-weights"]
    assert not inexact_layers(strict, profile_of(session))


def test_a_loss_that_may_be_chance_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correct_bias, "_CERTAIN", 1e9)
    module, data = wide(0)
    session = quantized(module, data)
    assert not inexact_layers(module, profile_of(session))


def test_large_weights_are_not_rounded_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are portable all the same, and a remark says so."""
    monkeypatch.setattr(round_weights, "_AT_A_TIME", 1000)
    module, data = convolutions()
    session = quantized(module, data[:64])
    found = {r.layer: r for r in session.remarks if r.pass_name == "round-weights"}
    left = [r.reason for r in found.values() if r.rule == "wide"]
    assert left
    assert all(
        "more than 0 M numbers, and rounding takes long; the option round-weights rounds it" in each for each in left
    )
    assert not inexact_layers(module, profile_of(session))


def test_weights_that_lose_by_larger_scales_are_rounded_by_outputs() -> None:
    """By default, unless rounding is to be nearest; the outputs come closer than with plain weights."""
    found: dict[str, float] = {}
    for options in ("", "round-weights=nearest", "portable=off"):
        module, data = convolutions()
        exact = Executable(module.clone()).run({"x0": data})["y0"]
        session = quantized(module, data[:64], options)
        rounded = [r for r in session.remarks if r.pass_name == "round-weights" and r.rule == "rounded"]
        assert bool(rounded) == (not options)
        found[options] = sqnr(exact, Executable(module).run({"x0": data})["y0"])
    assert found[""] > found["round-weights=nearest"] + 0.3
    assert found[""] > found["portable=off"] - 0.3


def convolutions() -> tuple[ModuleOp, Array]:
    """Two convolutions with a Relu between them, and smooth images."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(16, 6, 3, 3)), rng.normal(size=(8, 16, 3, 3))

    def made(x: Any) -> Any:
        hidden = nn.ReluOp.make(nn.ConvOp.make(x, const(first), const(rng.normal(size=16))))
        return nn.ConvOp.make(hidden, const(second), const(rng.normal(size=8)))

    images = np.cumsum(np.cumsum(rng.normal(size=(96, 6, 9, 9)), 2), 3).astype(np.float32)
    return module_of(made, [images[:1]], dynamic=True), images
