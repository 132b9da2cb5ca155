"""Ranges by output error: the error against the converted network, the search against all ranges there are, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.engines import Runner
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import parse_pipeline, run_passes
from amct_opt.rewriting import layer_of
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.numbers.parameters import activation_params
from amct_opt.transforms.quantization.profiles import profile_of
from amct_opt.transforms.quantization.recover.fit_ranges import readers as keeping
from amct_opt.transforms.quantization.recover.fit_ranges.readers import Errors, Kept, Readers, kept_of
from amct_opt.transforms.quantization.recover.fit_ranges.search import least_error
from amct_opt.transforms.quantization.recover.importance import matters_of

from ...values import parsed

DATA = (np.random.default_rng(5).normal(size=(32, 4, 6, 6)) ** 3).astype(np.float32)


def constant(name: str, shape: tuple[int, ...], scale: float = 1.0) -> str:
    array = (np.random.default_rng(len(name)).normal(size=shape) * scale).astype(np.float32)
    text = "x".join(map(str, shape))
    return f'%{name} = nn.constant #nn.external<"{name}", tensor<{text}xf32>, "0x{array.tobytes().hex()}">'


def network() -> str:
    """A value that convolutions read: one inside a region, one with strides, and a depthwise one before a matrix."""
    t = "tensor<?x4x6x6xf32>"
    return f"""
func.func @main(%x: {t} {{nn.name = "x"}}) -> ({t}, tensor<?x4x3x3xf32>, tensor<?x3xf32>) {{
  {constant("w", (4, 4, 1, 1))}
  {constant("ww", (4, 4, 2, 2))}
  {constant("deep", (4, 1, 3, 3))}
  {constant("matrix", (4, 3))}
  %a = nn.fused "ConvReLU2d" (%0 = %x, %1 = %w) : ({t}, tensor<4x4x1x1xf32>) -> {t} {{
    %2 = nn.conv %0, %1 from <onnx, "Conv", "conv1"> : ({t}, tensor<4x4x1x1xf32>) -> {t}
    %3 = nn.relu %2 : {t}
    nn.yield %3 : {t}
  }}
  %b = nn.conv %x, %ww strides [2, 2] from <onnx, "Conv", "conv2"> : ({t}, tensor<4x4x2x2xf32>) -> tensor<?x4x3x3xf32>
  %c = nn.conv %x, %deep pads [1, 1, 1, 1] groups 4 from <onnx, "Conv", "deep"> : ({t}, tensor<4x1x3x3xf32>) -> {t}
  %d = nn.relu %c : {t}
  %e = nn.global_average_pool %d from <onnx, "GlobalAveragePool", "gap"> : ({t}) -> tensor<?x4x1x1xf32>
  %f = nn.flatten %e axis 1 : (tensor<?x4x1x1xf32>) -> tensor<?x4xf32>
  %g = nn.matmul %f, %matrix from <onnx, "Gemm", "fc"> : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  func.return %a, %b, %g : {t}, tensor<?x4x3x3xf32>, tensor<?x3xf32>
}}
"""


def steps(text: str, data: np.ndarray, *passes: str, profile: str = "ascend") -> tuple[Session, ModuleOp]:
    module, session = parsed(text, profile=profile)
    samples = samples_from(data, module)
    for each in (each for one in passes for each in parse_pipeline(one, session.passes)):
        run_passes(module, [replace(each, data=samples) if hasattr(each, "data") else each], session)
    return session, module


def first_point(module: ModuleOp) -> nn.ObserveOp:
    return next(op for op in module.walk() if isinstance(op, nn.ObserveOp))


def results(module: ModuleOp, names: set[str]) -> dict[str, np.ndarray]:
    """What layers compute for all data."""
    values: dict[SSAValue, str] = {op.result: layer_of(op) for op in module.walk() if isinstance(op, nn.ConvOp)}
    found: dict[str, np.ndarray] = {}
    Executable(module, [v for v, n in values.items() if n in names]).run(
        {"x": DATA}, lambda v, a: found.update({values[v]: a.copy()})
    )
    return found


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_error_is_that_of_the_converted_network(monkeypatch: pytest.MonkeyPatch, symmetric: bool) -> None:
    """Everything is kept; layers of a region, of strides and of groups. Weights are quantized on both sides."""
    monkeypatch.setattr(keeping, "NUMBERS", 1 << 30)
    offset = "activation-offset=false" if symmetric else "bits=4"
    session, module = steps(network(), DATA, f"insert-observers{{{offset} skip-layers=fc}}", "calibrate")
    point = first_point(module)
    known = Readers.in_module(module, profile_of(session))
    readers = known.of([point])
    assert [layer_of(reader.op) for reader in readers] == ["deep", "conv2", "conv1"]
    errors = Errors(readers, kept_of(module, readers, samples_from(DATA, module), session, Runner("numpy")))
    for ends in ((-3.0, 4.0), (-20.0, 30.0)):
        params = activation_params(*ends, point.bits.value.data, symmetric)
        point.qparams = params
        converted = module.clone()
        run_passes(converted, parse_pipeline("convert-observers", session.passes), session)
        fine = converted.clone()  # the same weights after an input that is not rounded
        for op in [op for op in fine.walk() if isinstance(op, nn.DequantizeOp)]:
            if isinstance(before := op.input.owner, nn.QuantizeOp):
                op.result.replace_all_uses_with(before.input)
        names = {"conv2", "deep"}
        wanted, found = results(fine, names), results(converted, names)
        energies = {n: np.square(found[n] - wanted[n], dtype=np.float64).sum((0, 2, 3)) for n in names}
        own = {layer_of(op): matters for op, matters in known.matters.items()}
        expected = sum(float(energies[n] @ own[n]) for n in names)
        whole = [Kept(reader.op, reader.places, runs=1) for reader in readers[:2]]
        for each in whole:
            each.show(DATA, 0)
        alone = Errors(readers[:2], whole)
        assert alone(params.data) == pytest.approx(expected, rel=1e-3)
        assert errors(params.data) > alone(params.data)


def test_the_search_finds_the_least_error_of_all_ranges() -> None:
    """Next to all ranges of steps of 19 %, on numbers with outliers on one side that the output hardly sees."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 6)) * np.array([1, 1, 1, 1, 1, 12.0])
    weights = rng.normal(size=(6, 3)) * np.array([1, 1, 1, 1, 1, 0.02])[:, None]

    def error(ends: tuple[float, float]) -> float:
        params = activation_params(*ends, 4, symmetric=False).data
        scale, zero = float(params.scales()), float(params.zero_points())
        rounded = (np.clip(np.rint(rows / scale) + zero, -8, 7) - zero) * scale
        return float(np.square((rounded - rows) @ weights).sum())

    given = float(rows.min()), float(rows.max())
    every = [(given[0] * 2 ** (-i / 4), given[1] * 2 ** (-j / 4)) for i, j in combinations(range(-2, 20), repeat=2)]
    best = min(map(error, every))
    found = error(least_error(error, given, together=False))
    assert found <= 1.1 * best
    assert found < error(given) / 4
    together = least_error(error, given, together=True)
    assert together[0] / given[0] == pytest.approx(together[1] / given[1])
    assert found <= error(together) < error(given)
    assert least_error(lambda ends: 0.0, given, together=False) == given


RELU = "%d = nn.relu %c : tensor<?x4x6x6xf32>"
SWISH = """%s = nn.sigmoid %c : tensor<?x4x6x6xf32>
  %d = nn.mul %c, %s : (tensor<?x4x6x6xf32>, tensor<?x4x6x6xf32>) -> tensor<?x4x6x6xf32>"""
SQUEEZE = """%s = nn.global_average_pool %x : (tensor<?x4x6x6xf32>) -> tensor<?x4x1x1xf32>
  %d = nn.mul %c, %s : (tensor<?x4x6x6xf32>, tensor<?x4x1x1xf32>) -> tensor<?x4x6x6xf32>"""


@pytest.mark.parametrize("between", [RELU, SWISH, SQUEEZE])
def test_channels_matter_as_much_as_the_layers_behind_amplify_them(between: str) -> None:
    """Next to the energy at the output that an error of each channel causes, if what lies between does to all the same."""
    text = network()
    assert RELU in text
    _, module = steps(text.replace(RELU, between), DATA)
    matters = {layer_of(op): found for op, found in matters_of(module).items()}
    matrix = next(op for op in module.walk() if isinstance(op, nn.MatMulOp))
    weight = nn.array_of(matrix.rhs)
    assert weight is not None
    energies = np.square(weight).sum(axis=1)
    np.testing.assert_allclose(matters["deep"], energies / energies.mean(), rtol=1e-6)
    for name in ("conv1", "conv2", "fc"):
        assert np.array_equal(matters[name], np.ones_like(matters[name]))


def test_what_is_kept_is_bounded_spread_and_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "NUMBERS", 4096)
    session, module = steps(network(), DATA, "insert-observers", "calibrate")
    known = Readers.in_module(module, profile_of(session))
    readers = known.of([first_point(module)])
    whole, *halves = (
        kept_of(module, readers, samples_from(data, module), session, Runner("numpy"))
        for data in (np.concatenate([DATA] * 16), np.concatenate([DATA] * 8), np.concatenate([DATA] * 8))
    )
    params = activation_params(-3.0, 3.0, 8, symmetric=False).data
    for reader, each, first, second in zip(readers, whole, *halves, strict=True):
        assert 4096 / 2 < each.numbers < 4096 * 1.5
        assert len(each.parts) > 1
        first.merge(second.state())
        assert first.present == each.present
        assert Errors([reader], [first])(params) == pytest.approx(Errors([reader], [each])(params), rel=0.2)


def test_outputs_on_other_data_gain() -> None:
    other = (np.random.default_rng(6).normal(size=DATA.shape) ** 3).astype(np.float32)
    found: list[float] = []
    exact = Executable(parse_module(new_session(), network())).run({"x": other})
    for passes in ((), ("fit-ranges",)):
        chain = ("insert-observers{bits=4 observer=minmax}", "calibrate", *passes, "convert-observers")
        session, module = steps(network(), DATA, *chain)
        rounded = Executable(module).run({"x": other})
        noise = sum(float(np.square(rounded[name] - exact[name]).sum()) for name in exact)
        found.append(10 * np.log10(sum(float(np.square(array).sum()) for array in exact.values()) / noise))
    assert {r.rule for r in session.remarks if r.pass_name == "fit-ranges"} <= {"fitted", "improves"}
    assert found[1] > found[0] + 0.5


@pytest.mark.parametrize(("count", "judged"), [(32, "4 samples held back"), (10, "10 samples, held back in turns")])
def test_few_runs_judge_in_turns(count: int, judged: str) -> None:
    chain = ("insert-observers{bits=4 observer=minmax}", "calibrate", "fit-ranges")
    session, _ = steps(network(), DATA[:count], *chain)
    found = [r for r in session.remarks if r.pass_name == "fit-ranges" and r.rule in ("fitted", "improves")]
    assert found
    assert all(r.reason.endswith(f" (on {judged})") for r in found)
