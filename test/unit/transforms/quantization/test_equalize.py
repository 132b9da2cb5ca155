"""Equalization by numbers: float results to the last bit, what quantization costs before and after, costs by brute force."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import amct_opt
from amct_opt import frontends
from amct_opt.data import Form, load_samples
from amct_opt.dialects import nn
from amct_opt.engines import Runner
from amct_opt.ir.functions import main_function
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import Remarks, erase_dead_constants
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct
from amct_opt.transforms.quantization.decide.sites import sites
from amct_opt.transforms.quantization.options import QuantizeOptions, RecoveryOptions
from amct_opt.transforms.quantization.quantize import QuantizePass
from amct_opt.transforms.quantization.recover.equalize.grids import as_rounded, grids_of
from amct_opt.transforms.quantization.recover.equalize.judging import EqualizationTrial
from amct_opt.transforms.quantization.recover.equalize.links import links_of, products_of
from amct_opt.transforms.quantization.recover.equalize.scaling import scaled, undo
from amct_opt.transforms.quantization.recover.equalize.search import FLOAT, Grids, Seen, Weight
from amct_opt.transforms.quantization.recover.outputs import halves
from amct_opt.transforms.quantization.request import request_of

from ...targets.operations import const, module_of
from .random_networks import random_network

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[..., Any]

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits"
SPREAD = 2.0 ** np.array([-6, 5, 0, 3, -2, 1])
"""How far apart the six channels between layers are."""


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def spread(weight: Array, axis: int, by: Array = SPREAD) -> Array:
    """The weight with channels of an axis, each repeated if there are more entries, multiplied."""
    factors = np.repeat(by, weight.shape[axis] // by.size)
    return weight * factors.reshape([-1 if i == axis else 1 for i in range(weight.ndim)]).astype(np.float32)


def conv(x: Any, shape: tuple[int, ...], rows: bool = False, columns: bool = False, **options: Any) -> Any:
    """A convolution with a bias; its output channels are spread, or its input channels by the inverse."""
    weight = numbers(*shape)
    weight = spread(weight, 0) if rows else weight
    weight = spread(weight, 1, 1 / SPREAD) if columns else weight
    bias = const(numbers(shape[0]) * (SPREAD if rows else 1))
    return nn.ConvOp.make(x, const(weight), bias, **options)


def pair(between: Callable[[Any], Any], **options: Any) -> Build:
    return lambda x: conv(between(conv(x, (6, 3, 3, 3), rows=True, **options)), (4, 6, 3, 3), columns=True, **options)


def bounded(bound: Callable[[Any], Any]) -> Build:
    """The largest channel reaches the bound and keeps its scale, the others come closer to it."""
    by = np.array([30, 0.25, 0.03, 0.002, 0.06, 0.01])

    def build(x: Any) -> Any:
        weight = const(spread(numbers(6, 3, 3, 3), 0, by))
        y = bound(nn.ConvOp.make(x, weight, const(numbers(6) * by)))
        return nn.ConvOp.make(y, const(spread(numbers(4, 6, 3, 3), 1, 1 / by)))

    return build


def triple(x: Any) -> Any:
    """The depthwise convolution takes the spread on: neither pair alone removes it."""
    expanded = nn.ReluOp.make(conv(x, (6, 3, 1, 1), rows=True))
    depthwise = nn.ReluOp.make(nn.ConvOp.make(expanded, const(numbers(6, 1, 3, 3)), const(numbers(6)), groups=6))
    return conv(depthwise, (4, 6, 1, 1), columns=True)


def grouped_transposed(x: Any) -> Any:
    weight = spread(numbers(4, 3, 2, 2).reshape(2, 2, 3, 2, 2).transpose(0, 2, 1, 3, 4).reshape(6, 2, 2, 2), 0)
    weight = weight.reshape(2, 3, 2, 2, 2).transpose(0, 2, 1, 3, 4).reshape(4, 3, 2, 2)
    up = nn.ConvTransposeOp.make(x, const(weight), const(numbers(6) * SPREAD), groups=2)
    return nn.ConvTransposeOp.make(nn.ReluOp.make(up), const(spread(numbers(6, 4, 2, 2), 0, 1 / SPREAD)))


def flattened(x: Any, layout: str = "nchw") -> Any:
    pooled = nn.MaxPoolOp.make(
        conv(x, (6, 3, 3, 3), rows=True, layout=layout), kernel=(2, 2), strides=(2, 2), layout=layout
    )
    flat = nn.FlattenOp.make(nn.LeakyReluOp.make(pooled))
    weight = numbers(24, 5).reshape((6, 4, 5) if layout == "nchw" else (4, 6, 5))
    weight = spread(weight, 0 if layout == "nchw" else 1, 1 / SPREAD).reshape(24, 5)
    return nn.MatMulOp.make(flat, const(weight))


def products(x: Any) -> Any:
    hidden = nn.MatMulOp.make(x, const(spread(numbers(6, 6), 0)), const(numbers(6) * SPREAD), transpose_b=True)
    active = nn.PReluOp.make(hidden, const(np.full(6, -0.5)))
    return nn.MatMulOp.make(active, const(spread(numbers(6, 5), 0, 1 / SPREAD)))


def two_readers(x: Any) -> Any:
    shared = nn.ReluOp.make(conv(x, (6, 3, 1, 1), rows=True))
    return conv(shared, (4, 6, 1, 1), columns=True), conv(
        nn.AveragePoolOp.make(shared, kernel=(2, 2)), (4, 6, 3, 3), columns=True
    )


def normalized(norm: Build) -> Build:
    """SmoothQuant: the norm's channels have outliers, which weights of three readers do not make up for."""

    def build(x: Any) -> Any:
        y = norm(x)
        return tuple(nn.MatMulOp.make(y, const(numbers(6, 4, seed=i))) for i in range(3))

    return build


def layer_norm(x: Any) -> Any:
    return nn.LayerNormOp.make(x, const(np.array([1, 1, 60, 1, 1, 1])), const(numbers(6)))


def rms_norm(x: Any) -> Any:
    mean = nn.ReduceMeanOp.make(nn.MulOp.make(x, x), axes=(-1,), keepdims=True)
    scaled = nn.MulOp.make(x, nn.RsqrtOp.make(mean))
    return nn.MulOp.make(const(np.array([1, 1, 60, 1, 1, 1])), scaled)


def gated(x: Any, gate: Callable[[Any], Any] = nn.SigmoidOp.make) -> Any:
    """Of a gated layer, the product scales with the operand that no activation reads: SwiGLU's up and down projections."""
    other = gate(nn.MatMulOp.make(x, const(numbers(6, 6, seed=1))))
    up = nn.MatMulOp.make(x, const(spread(numbers(6, 6), 1)))
    return nn.MatMulOp.make(nn.MulOp.make(other, up), const(spread(numbers(6, 4), 0, 1 / SPREAD)))


RELU = nn.ReluOp.make


def post_norm(x: Any) -> Any:
    """A residual addition reads the norm as well: a product divides what the layers read."""
    y = layer_norm(x)
    return nn.AddOp.make(y, RELU(nn.MatMulOp.make(y, const(numbers(6, 6) / np.array([1, 1, 60, 1, 1, 1])[:, None]))))


IMAGE, ROWS = numbers(16, 3, 6, 6), numbers(64, 5, 6)
CASES: Mapping[str, tuple[Build, Array]] = {
    "nothing between": (pair(lambda y: y), IMAGE),
    "relu": (pair(RELU), IMAGE),
    "clip without an upper bound": (pair(lambda y: nn.ClipOp.make(y, min=0.0)), IMAGE),
    "a bound that small channels do not reach": (bounded(nn.Relu6Op.make), IMAGE),
    "two bounds": (bounded(lambda y: nn.ClipOp.make(y, min=-60.0, max=60.0)), IMAGE),
    "channels last": (pair(RELU, layout="nhwc"), numbers(16, 6, 6, 3)),
    "pad and resize": (
        pair(lambda y: nn.PadOp.make(nn.ResizeOp.make(y, sizes=(0, 0, 8, 8)), pads=(0, 0, 1, 1) * 2)),
        IMAGE,
    ),
    "transposes": (
        pair(lambda y: nn.TransposeOp.make(nn.TransposeOp.make(y, perm=(0, 2, 3, 1)), perm=(0, 3, 2, 1))),
        IMAGE,
    ),
    "a line": (lambda x: conv(RELU(conv(x, (6, 3, 3), rows=True)), (4, 6, 3), columns=True), numbers(16, 3, 9)),
    "depthwise triple": (triple, IMAGE),
    "grouped reader": (
        lambda x: nn.ConvOp.make(
            conv(x, (6, 3, 1, 1), rows=True),
            const(spread(numbers(4, 6, 1, 1), 1, 1 / SPREAD).reshape(4, 2, 3, 1, 1)[[0, 1, 2, 3], [0, 0, 1, 1]]),
            groups=2,
        ),
        IMAGE,
    ),
    "transposed, grouped": (grouped_transposed, numbers(16, 4, 4, 4)),
    "flatten": (flattened, IMAGE),
    "flatten, channels last": (lambda x: flattened(x, "nhwc"), numbers(16, 6, 6, 3)),
    "global pool and squeeze": (
        lambda x: nn.MatMulOp.make(
            nn.ReshapeOp.make(nn.GlobalAveragePoolOp.make(RELU(conv(x, (6, 3, 1, 1), rows=True))), to=(0, -1)),
            const(spread(numbers(6, 5), 0, 1 / SPREAD)),
        ),
        IMAGE,
    ),
    "products": (products, ROWS),
    "two readers": (two_readers, IMAGE),
    "gated": (gated, ROWS),
    "layer norm": (normalized(layer_norm), ROWS),
    "post norm": (
        lambda x: nn.MatMulOp.make(post_norm(x), const(numbers(6, 4) / np.array([[1], [1], [60], [1], [1], [1]]))),
        ROWS,
    ),
    "rms norm": (normalized(rms_norm), ROWS),
    "gather and slice": (
        lambda x: nn.MatMulOp.make(
            nn.GatherOp.make(
                nn.SliceOp.make(layer_norm(x), starts=[1], ends=[5], axes=[1]), const([0, 2], np.int64), axis=1
            ),
            const(numbers(6, 4)),
        ),
        ROWS,
    ),
    "slice of channels": (
        lambda x: nn.MatMulOp.make(
            nn.SliceOp.make(layer_norm(x), starts=[2], ends=[6], axes=[2]),
            const(numbers(4, 4) / np.array([[60], [1], [1], [1]])),
        ),
        ROWS,
    ),
    "batch norm": (
        lambda x: conv(
            RELU(nn.BatchNormOp.make(x, *(const(v) for v in (SPREAD, numbers(6) * SPREAD, numbers(6), np.ones(6))))),
            (4, 6, 1, 1),
            columns=True,
        ),
        numbers(16, 6, 5, 5),
    ),
}


def equalized(module: ModuleOp, data: Path, profile: str = "ascend") -> Session:
    session = new_session()
    session.profile = profile
    make_pass("equalize", f"data={data}").apply(session, module)
    verify(module)
    return session


def quantized(module: ModuleOp, data: Path, profile: str) -> ModuleOp:
    session = new_session()
    session.profile = profile
    copy = module.clone()
    make_pass("quantize", f"data={data} observer=minmax equalize=false").apply(session, copy)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize("name", CASES)
def test_float_results_are_the_same_bits_and_quantized_ones_better(name: str, profile: str, tmp_path: Path) -> None:
    build, data = CASES[name]
    before = module_of(build, [data], dynamic=False)
    np.savez(tmp_path / "data.npz", x0=data)
    after = before.clone()
    session = equalized(after, tmp_path / "data.npz", profile)
    applied = [r.rule for r in session.remarks if r.kind == "applied"]
    if name == "transposed, grouped" and profile == "qdq":
        assert not applied  # it has no integer kernel, and stays in float
        return
    assert applied, session.remarks
    exact, found = run(before, {"x0": data}), run(after, {"x0": data})
    for output, array in exact.items():
        np.testing.assert_array_equal(found[output], array)
    with_it, without = (run(quantized(m, tmp_path / "data.npz", profile), {"x0": data}) for m in (after, before))
    gains = [sqnr(exact[y], with_it[y]) - sqnr(exact[y], without[y]) for y in exact]
    assert sum(gains) / len(gains) >= 5, gains


def residual(x: Any) -> Any:
    """Two layers, a sum and a relu; the first layer's weight is shared with one that is not equalized."""
    shared = const(spread(numbers(6, 6, 1, 1), 0))
    first = RELU(nn.ConvOp.make(x, shared))
    second = conv(first, (6, 6, 3, 3), columns=True, pads=(1, 1, 1, 1))
    return RELU(nn.AddOp.make(second, nn.ConvOp.make(x, shared)))


@pytest.mark.parametrize("again", [0, 1])
def test_a_refusal_does_not_depend_on_the_order_of_uses(again: int) -> None:
    """Of a result that a softmax reads, and that is an output of the model."""
    module = module_of(lambda x: nn.MatMulOp.make(x, const(numbers(6, 6))), [ROWS], dynamic=False)
    output = cast(Operation, main_function(module).body.block.last_op)
    result = output.operands[0]
    softmax = nn.SoftmaxOp.make(result, axis=1)
    main_function(module).body.block.insert_op_before(softmax, output)
    used = (softmax, output)[again]
    used.operands = [result]  # the use is made last
    remarks = Remarks(new_session(), "equalize")
    assert not links_of(module, remarks)
    remarks.flush()
    assert [remark.rule for remark in remarks.session.remarks] == ["graph-output"]


def test_a_product_is_divided_once() -> None:
    """By one of two layers, and by none that is both of its operands."""

    def links(build: Build) -> tuple[int, list[tuple[str, str]]]:
        remarks = Remarks(new_session(), "equalize")
        found = links_of(module_of(build, [ROWS], dynamic=False), remarks)
        remarks.flush()
        return len(found), [(remark.rule, remark.reason) for remark in remarks.session.remarks]

    count, refused = links(lambda x: gated(x, RELU))
    assert count == 1
    assert sorted(rule for rule, _ in refused) == ["graph-output", "product"]

    def squared(x: Any) -> Any:
        y = nn.MatMulOp.make(x, const(numbers(6, 6)))
        return nn.MatMulOp.make(nn.MulOp.make(y, RELU(y)), const(numbers(6, 4)))

    count, refused = links(squared)
    assert count == 0
    assert any(reason.endswith("multiplies its result by itself") for _, reason in refused)


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_regions_and_shared_weights(profile: str, tmp_path: Path) -> None:
    data = numbers(16, 6, 5, 5)
    np.savez(tmp_path / "data.npz", x0=data)
    module = module_of(residual, [data])
    session = new_session()
    session.profile = profile
    make_pass("fuse-all").apply(session, module)
    assert any(isinstance(op, nn.FusedOp) for op in module.walk())
    before = run(module, {"x0": data})["y0"]
    remarks = {(r.kind, r.rule) for r in equalized(module, tmp_path / "data.npz", profile).remarks}
    assert {("applied", "equalized"), ("missed", "homogeneous")} <= remarks
    np.testing.assert_array_equal(run(module, {"x0": data})["y0"], before)


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_compute_the_same_bits(seed: int, tmp_path: Path) -> None:
    """Whatever is scaled: channels are spread between layers that other operations and layers read as well."""
    graph, outputs = random_network(seed)
    factors = 2.0 ** np.random.default_rng(seed).integers(-6, 7, 4)
    for i, tensor in enumerate(graph.constants):
        array = numpy_helper.to_array(tensor)
        if array.ndim == 4:
            scaled = array * factors.reshape(-1, 1, 1, 1).astype(np.float32)
            graph.constants[i].CopyFrom(numpy_helper.from_array(scaled, tensor.name))
    session = new_session()
    module = frontends.read(graph.save(tmp_path / "net.onnx", *outputs), session)
    make_pass("canonicalize").apply(session, module)
    x = numbers(8, 4, 8, 8)
    np.savez(tmp_path / "data.npz", x=x)
    before = run(module, {"x": x})
    equalized(module, tmp_path / "data.npz")
    for name, array in run(module, {"x": x}).items():
        np.testing.assert_array_equal(array, before[name])


def integers(array: Array, scale: float, zero: float, low: float, high: float) -> Array:
    return (np.clip(np.rint(array / scale) + zero, low, high) - zero) * scale


def test_costs_against_brute_force() -> None:
    """The error of a grouped convolution of one tap, with scaled channels, number by number."""
    op = nn.ConvOp.make(const(numbers(1, 6, 1, 1)), const(numbers(4, 3, 1, 1)), groups=2)
    rows, up, down = numbers(50, 6), np.array([0, 2, -1, 3, 0, 1]), np.array([1, 0, -2, 0])
    seen = Seen(np.minimum(rows.min(0), 0), np.maximum(rows.max(0), 0), rows.min(0), rows)
    weight = numbers(4, 3, 1, 1)
    scaled_rows = rows / 2.0**up
    tried = []
    for share in np.arange(10, 2, -1) / 10:
        scale = (scaled_rows.max() - scaled_rows.min()) * share / 255
        found = integers(scaled_rows, scale, -np.rint(scaled_rows.min() * share / scale), 0, 255)
        tried.append((np.square(found - scaled_rows).sum(), found * 2.0**up))
    inputs = min(tried, key=lambda pair: pair[0])[1]
    wanted = np.zeros(4)
    for out in range(4):
        group = slice(0, 3) if out < 2 else slice(3, 6)
        scaled = weight[out, :, 0, 0] * 2.0 ** (up[group] - down[out])
        used = integers(scaled, float(np.abs(scaled).max() / 127), 0, -127, 127) / 2.0 ** (up[group] - down[out])
        wanted[out] = np.square(inputs[:, group] @ used - rows[:, group] @ weight[out, :, 0, 0]).mean()
    errors = Weight.of(op, weight, Grids(8, 8, per_channel=True, symmetric=False)).error(seen, up, down)
    np.testing.assert_allclose(errors, wanted, rtol=1e-3)


def hard_digits(folder: Path) -> Path:
    """The digits network with the channels after its second layer scaled by 2^-6 to 2^6, and the weights that read them by the
    inverse: it computes the same.
    """
    model = onnx.load(DIGITS / "digits.onnx")
    factors = 2.0 ** np.random.default_rng(0).permutation(np.rint(np.linspace(-6, 6, 32)))
    by = {"bn2.scale": factors, "bn2.bias": factors, "conv3.weight": 1 / factors[:, None, None]}
    for tensor in model.graph.initializer:
        scaled = numpy_helper.to_array(tensor) * by.get(tensor.name, 1)
        tensor.CopyFrom(numpy_helper.from_array(scaled.astype(np.float32), tensor.name))
    onnx.save(model, folder / "hard.onnx")
    return folder / "hard.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_a_badly_scaled_network_is_quantized_as_the_well_scaled_one(profile: str, tmp_path: Path) -> None:
    def decibels(model: Path, *options: str) -> float:
        output = tmp_path / "out"
        data = ("--data", str(DIGITS / "calib.npz"), "--observer", "minmax", "--profile", profile)
        amct.run(["quantize", str(model), *data, "-o", str(output), "--effort", "0", *options])
        summary = json.loads((output / "summary.json").read_text("utf-8"))
        return summary["accuracy"]["fake_quantized"]["logits"]["sqnr"]

    hard = hard_digits(tmp_path)
    assert decibels(hard, "--no-correct-bias", "--round-weights", "nearest") < 0
    assert decibels(hard, "--equalize") > decibels(DIGITS / "digits.onnx") - 1


GRIDS: Mapping[tuple[str, str], tuple[Grids, ...]] = {
    ("ascend", ""): (Grids(8, 8, per_channel=True, symmetric=False),) * 2,
    ("ascend", "bits=16 weight-bits=4 channel-wise=false"): (Grids(16, 4, per_channel=False, symmetric=False),) * 2,
    ("ascend", "activation-offset=false"): (Grids(8, 8, per_channel=True, symmetric=True),) * 2,
    ("ascend", "weight-bits=4"): (Grids(8, 4, per_channel=True, symmetric=False),) * 2,
    ("ascend", "weight-bits=4 round-weights=gptq"): (Grids(8, 6, per_channel=True, symmetric=False),) * 2,
    ("qdq", "layer-weight-bits=first:3 round-weights=gptq"): (Grids(8, 6, True, False), Grids(8, 8, True, False)),
    ("qdq", "skip-layers=second"): (Grids(8, 8, per_channel=True, symmetric=False), FLOAT),
    ("qdq", "weight-only=true"): (FLOAT, FLOAT),  # only weights are those of matrix products
}


@pytest.mark.parametrize(("profile", "options"), GRIDS)
def test_grids_are_those_of_the_request(profile: str, options: str) -> None:
    session = new_session()
    session.profile = profile
    text = """func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
      %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
      %y = nn.conv %x, %w from <onnx, "Conv", "first"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
      %z = nn.conv %y, %w from <onnx, "Conv", "second"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
      func.return %z : tensor<1x2x4x4xf32>
    }"""
    module, _ = amct_opt.parse(text, session)
    request = request_of(cast(QuantizePass, make_pass("quantize", options)).quantization, session)
    layers = as_rounded(request).within(module, session).layers
    assert grids_of(sites(module, [nn.ConvOp]), layers) == list(GRIDS[profile, options])


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "weight-bits=4 observer=minmax"])
def test_quantize_with_it_is_the_pass_before(options: str, tmp_path: Path) -> None:
    module, session = amct_opt.load(hard_digits(tmp_path))
    amct_opt.run_pipeline(module, "fuse", session)
    one_by_one, given = module.clone(), f"data={DIGITS / 'calib.npz'} {options}"
    for name in ("equalize", "quantize"):
        make_pass(name, given).apply(session.silent(), one_by_one)
    make_pass("quantize", f"{given} equalize=true").apply(session, module)
    assert amct_opt.to_text(module) == amct_opt.to_text(one_by_one)
    assert ("equalize", "equalized") in {(r.pass_name, r.rule) for r in session.remarks}


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@pytest.mark.parametrize(
    ("options", "applied"),
    [("", True), ("round-weights=gptq", True), ("equalize=false", False), ("weight-only=true", False)],
)
def test_norms_with_outliers_are_equalized_by_default(norm: Build, options: str, applied: bool, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x0=ROWS)
    module, session = module_of(normalized(norm), [ROWS], dynamic=False), new_session()
    session.profile = "qdq"
    make_pass("quantize", f"data={tmp_path / 'data.npz'} {options}").apply(session, module)
    rules = {r.rule for r in session.remarks if r.pass_name == "equalize" and r.kind == "applied"}
    assert rules == ({"equalized"} if applied else set()), session.remarks


def test_norms_without_outliers_or_data_are_not_equalized_by_default(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x0=ROWS)
    for factor, options in ((7, f"data={tmp_path / 'data.npz'}"), (60, "")):
        factors = np.array([1, 1, factor, 1, 1, 1])
        norm = normalized(lambda x, factors=factors: nn.LayerNormOp.make(x, const(factors), const(numbers(6))))
        module, session = module_of(norm, [ROWS], dynamic=False), new_session()
        session.profile = "qdq"
        make_pass("quantize", options).apply(session, module)
        assert not [r for r in session.remarks if r.pass_name == "equalize"]


@pytest.mark.parametrize(
    ("between", "profile", "notes"),
    [
        (RELU, "qdq", ["option equalize"]),
        (nn.SigmoidOp.make, "ascend", ["option equalize"]),
        (nn.SigmoidOp.make, "qdq", ["option recipe"]),
    ],
)
def test_what_a_depthwise_convolution_reads_is_evened_out_by_default(
    between: Build, profile: str, notes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A product divides what comes from a sigmoid, if it is float, as in profile ascend; where it cannot, a note says so."""
    by = 2.0 ** np.array([-6, -5, -6, 3, -6, -5])
    rows, bias = (by, by) if between is RELU else (np.ones(6), np.log(by / 9))

    def build(x: Any) -> Any:
        hidden = between(nn.ConvOp.make(x, const(spread(numbers(6, 3, 1, 1), 0, rows)), const(bias)))
        weight = const(spread(numbers(6, 1, 3, 3), 0, 1 / by))
        return nn.ConvOp.make(hidden, weight, const(numbers(6)), groups=6)

    np.savez(tmp_path / "data.npz", x0=IMAGE)
    module, session = module_of(build, [IMAGE], dynamic=False), new_session()
    session.profile = profile
    make_pass("quantize", f"data={tmp_path / 'data.npz'}").apply(session, module)
    applied = [r.rule for r in session.remarks if r.pass_name == "equalize" and r.kind == "applied"]
    assert bool(applied) == (notes == ["option equalize"]), session.remarks
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note")]
    assert len(printed) == len(notes), printed
    assert all(note in line for note, line in zip(notes, printed, strict=True)), printed


def test_a_record_is_for_channels_as_they_are(tmp_path: Path) -> None:
    record = tmp_path / "record.txt"
    record.write_text("")
    equalize, rotate = "cannot be used with equalization", "cannot be used with rotation"
    for name, options, message in (
        ("equalize", "", equalize),
        ("quantize", "equalize=true", equalize),
        ("rotate", "", rotate),
        ("quantize", "rotate=true", rotate),
    ):
        with pytest.raises(CompileError, match=message):
            make_pass(name, f"record={record} {options}").apply(new_session(), ModuleOp([]))


def test_undone_changes_leave_nothing() -> None:
    module = module_of(post_norm, [ROWS], dynamic=False)
    text, session = amct_opt.to_text(module), new_session()
    request = request_of(QuantizeOptions(recovery=RecoveryOptions(equalize=True)), session)
    (link,) = products_of(module, [], request, Remarks(session, "equalize"))
    changes = scaled(link, np.array([0, 0, 5, 0, -1, 0]))
    assert changes is not None
    assert "equalized" in amct_opt.to_text(module)
    undo(changes)
    erase_dead_constants(module)
    assert amct_opt.to_text(module) == text


OFFSETS = np.array([0, 200, 0, 50, 90, 0])
"""What channels never fall below, nearly."""


def offset_products(x: Any) -> Any:
    hidden = RELU(nn.MatMulOp.make(x, const(numbers(6, 6)), const(numbers(6) + OFFSETS), transpose_b=True))
    return nn.MatMulOp.make(hidden, const(numbers(6, 5)), const(numbers(5)))


def without_bias(x: Any) -> Any:
    hidden = RELU(nn.MatMulOp.make(x, const(numbers(6, 6)), const(numbers(6) + OFFSETS)))
    return nn.MatMulOp.make(hidden, const(numbers(6, 5)))


def offset_convolutions(x: Any, **options: Any) -> Any:
    hidden = nn.LeakyReluOp.make(nn.ConvOp.make(x, const(numbers(6, 3, 3, 3)), const(numbers(6) + OFFSETS)))
    return nn.ConvOp.make(hidden, const(numbers(4, 3, 2, 2)), const(numbers(4)), groups=2, **options)


def transposed_products(x: Any) -> Any:
    hidden = RELU(nn.ConvOp.make(x, const(numbers(6, 3, 3, 3)), const(numbers(6) + OFFSETS)))
    return nn.ConvTransposeOp.make(hidden, const(numbers(6, 2, 1, 1)), const(numbers(4)), groups=2)


ABSORBED: Mapping[str, tuple[Build, Array, bool]] = {
    "products": (offset_products, ROWS[:, 0], True),
    "grouped convolutions": (offset_convolutions, IMAGE, True),
    "padding": (lambda x: offset_convolutions(x, pads=(1, 1, 1, 1)), IMAGE, False),
    "transposed, one element": (transposed_products, IMAGE, True),
    "no bias": (without_bias, ROWS[:, 0], False),
}


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize("name", ABSORBED)
def test_what_channels_never_fall_below_moves_into_the_next_bias(name: str, profile: str, tmp_path: Path) -> None:
    build, data, applies = ABSORBED[name]
    before = module_of(build, [data], dynamic=False)
    np.savez(tmp_path / "data.npz", x0=data)
    after = before.clone()
    applied = {r.rule for r in equalized(after, tmp_path / "data.npz", profile).remarks if r.kind == "applied"}
    assert ("absorbed" in applied) is applies
    exact, found = run(before, {"x0": data})["y0"], run(after, {"x0": data})["y0"]
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)
    if applies:
        with_it, without = (
            run(quantized(m, tmp_path / "data.npz", profile), {"x0": data})["y0"] for m in (after, before)
        )
        assert sqnr(exact, with_it) - sqnr(exact, without) >= 5


@pytest.mark.slow
def test_what_lowers_the_quality_of_outputs_is_noticed() -> None:
    """The channels of one layer are scaled badly, and well again."""
    session = new_session()
    module = frontends.read(DIGITS / "digits.onnx", session)
    make_pass("fuse-all").apply(session, module)
    samples = load_samples(str(DIGITS / "calib.npz"), main_function(module), Form((), {}, None), 32)
    trial = EqualizationTrial(module, request_of(QuantizeOptions(), session), halves(samples), session, Runner("numpy"))
    trial.begin()
    link = next(link for link in links_of(module, Remarks(session, "equalize")) if link.size == 32)
    changes = scaled(link, np.rint(np.linspace(-6, 6, 32)).astype(np.int32))
    assert changes is not None
    reason = trial.lost(0.5)
    assert reason is not None
    assert reason.startswith("with it output logits of the quantized model has ")
    trial = EqualizationTrial(module, request_of(QuantizeOptions(), session), halves(samples), session, Runner("numpy"))
    trial.begin()
    undo(changes)
    assert trial.lost(0.5) is None
    assert trial.lost(0.5) is not None  # the same once more wins nothing


def test_where_all_links_lose_those_that_gain_most_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = module_of(triple, [IMAGE], dynamic=False)
    np.savez(tmp_path / "data.npz", x0=IMAGE)
    reasons = iter(["both lose"])
    monkeypatch.setattr(EqualizationTrial, "lost", lambda *_: next(reasons, None))
    session = equalized(after := before.clone(), tmp_path / "data.npz")
    rules = [(r.rule, r.reason) for r in session.remarks if r.rule in ("equalized", "outputs")]
    assert sorted(rule for rule, _ in rules) == ["equalized", "outputs"]
    assert dict(rules)["outputs"] == "both lose"
    exact, found = run(before, {"x0": IMAGE}), run(after, {"x0": IMAGE})
    assert all(np.array_equal(found[y], array) for y, array in exact.items())


def test_nan_in_what_a_layer_reads(tmp_path: Path) -> None:
    module = module_of(pair(lambda y: y), [IMAGE])
    np.savez(tmp_path / "data.npz", x0=np.full_like(IMAGE, 3e38))
    with pytest.raises(CompileError, match="has an input whose values hold NaN or Inf"):
        equalized(module, tmp_path / "data.npz")


def test_numbers_have_no_channels() -> None:
    """A product of a number with a constant one."""
    module = module_of(lambda x: nn.MulOp.make(x, const(3.0)), [np.array(2, np.float32)], dynamic=False)
    assert links_of(module, Remarks(new_session(), "equalize")) == []


def test_values_without_elements() -> None:
    """A slice of nothing, in another shape, has no channels to follow."""

    def build(x: Any) -> Any:
        y = nn.MatMulOp.make(x, const(numbers(6, 6)))
        nothing = nn.SliceOp.make(y.result, starts=(0,), ends=(0,), axes=(0,))
        return nn.MatMulOp.make(nn.UnsqueezeOp.make(nothing.result, axes=(0,)).result, const(numbers(6, 5)))

    module = module_of(build, [numbers(2, 6)])
    assert links_of(module, Remarks(new_session(), "equalize")) == []
