"""Calibration on a cluster that goes away goes on where it was stopped, and ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.data.given import samples_from
from amct_opt.dialects.nn import MatMulOp, ObserveOp
from amct_opt.engines import Runner, checkpoint
from amct_opt.engines.sharing import shares_of
from amct_opt.flows.evaluation import Labels
from amct_opt.flows.shared_ranks import shared_ranks
from amct_opt.pipelines.passes import make_pass, parse_pipeline
from amct_opt.runtime.metrics import Divergences, Measure, Parts
from amct_opt.transforms.quantization.calibrate import calibrate, points_to_calibrate
from amct_opt.transforms.quantization.options import ClusterOptions
from amct_opt.transforms.quantization.recover.equalize.channels_seen import ChannelsOf, channels_seen
from amct_opt.transforms.quantization.recover.layer_effects import exchanged
from amct_opt.transforms.quantization.running import sharing_runner

NET = """
func.func @main(%x: tensor<1x8xf32> {nn.name = "x"}) -> tensor<1x8xf32> {
  %w = nn.constant dense<0.3> : tensor<8x8xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  func.return %y : tensor<1x8xf32>
}
"""
X = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)


class Stopping:
    """Computes this many shares, and then is gone; it counts them."""

    def __init__(self, most: int):
        self.most = most
        self.computed = 0

    def shared_out(self, work: Callable[..., Any], common: Any, shares: Sequence[Any], /) -> Iterator[tuple[int, Any]]:
        for number, share in enumerate(shares):
            if self.computed == self.most:
                raise amct_opt.CompileError("the scheduler of the cluster is gone")
            self.computed += 1
            yield number, work(common, share)


def found(runner: Runner, data: np.ndarray = X, observer: str = "mse") -> list[tuple[Any, Any]]:
    """Ranges and parameters of all points."""
    module, session = amct_opt.parse(NET)
    amct_opt.run_pipeline(module, [make_pass("insert-observers", f"observer='{observer}'")], session)
    calibrate(module, points_to_calibrate(module), samples_from(data, module), session, runner)
    return [(op.range, op.qparams) for op in module.walk() if isinstance(op, ObserveOp)]


@pytest.mark.parametrize(("observer", "passes"), [("minmax", 1), ("ifmr{exact=true}", 3)])
def test_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observer: str, passes: int) -> None:
    """In the first pass, and in the second of three."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0)
    module = amct_opt.parse(NET).module
    shares, computed = len(shares_of(samples_from(X, module))), 0
    for most in [2, shares - 1][:passes]:
        engine = Stopping(most)
        with pytest.raises(amct_opt.CompileError, match="gone"):
            found(Runner("numpy", cluster=engine, checkpoint=tmp_path), observer=observer)
        computed += engine.computed
    engine = Stopping(1000)
    here = Runner("numpy")
    assert found(Runner("numpy", cluster=engine, checkpoint=tmp_path), observer=observer) == found(
        here, observer=observer
    )
    assert computed + engine.computed == passes * shares
    assert len(list(tmp_path.iterdir())) == passes


def test_other_data_begins_anew(tmp_path: Path) -> None:
    engine = Stopping(1000)
    for data in (X, X + 1):
        found(Runner("numpy", cluster=engine, checkpoint=tmp_path), data, "minmax")
    assert len(list(tmp_path.iterdir())) == 2
    before = engine.computed
    assert found(Runner("numpy", cluster=engine, checkpoint=tmp_path), X, "minmax") == found(
        Runner("numpy"), X, "minmax"
    )
    assert engine.computed == before


def test_evaluation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_SECONDS", 0)
    module, session = amct_opt.parse(NET)
    samples, labels = samples_from(X, module), Labels(np.arange(100) % 8)

    def judged(most: int, labels: Labels) -> tuple[list[int], int]:
        """The ranks, and how many shares were computed for them."""
        engine = Stopping(most)
        found = shared_ranks(engine, "numpy", Path(), module, samples, labels, session, tmp_path)
        return found.ranks.tolist(), engine.computed

    with pytest.raises(amct_opt.CompileError, match="gone"):
        judged(2, labels)
    found, computed = judged(1000, labels)
    assert computed == len(shares_of(samples)) - 2
    assert found == shared_ranks(Stopping(1000), "numpy", Path(), module, samples, labels, session).ranks.tolist()
    assert judged(0, labels) == (found, 0)
    _, computed = judged(1000, Labels(np.arange(100) % 7))
    assert computed == len(shares_of(samples))


def deep(layers: int) -> str:
    """A network of matrix products."""
    weights = np.random.default_rng(1).normal(size=(layers, 8, 8)).astype(np.float32)
    lines = [
        f"""
  %w{i} = nn.constant dense<{weight.tolist()}> : tensor<8x8xf32>
  %b{i} = nn.constant dense<0.1> : tensor<8xf32>
  %x{i + 1} = nn.matmul %x{i}, %w{i}, %b{i} from <onnx, "Gemm", "fc{i}">
    : (tensor<1x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>"""
        for i, weight in enumerate(weights)
    ]
    return f"""
func.func @main(%x0: tensor<1x8xf32> {{nn.name = "x"}}) -> tensor<1x8xf32> {{{"".join(lines)}
  func.return %x{layers} : tensor<1x8xf32>
}}"""


@pytest.mark.parametrize("solving", ["round-weights", "correct-bias"])
def test_layers_that_are_solved_are_kept(tmp_path: Path, solving: str) -> None:
    """The second of three layers is not solved when the cluster goes away."""

    def text(client: Stopping | None) -> str:
        module, session = amct_opt.parse(deep(3))
        samples = samples_from(X[:60], module)
        calibrating = parse_pipeline("insert-observers{weight-bits=4},calibrate", session.passes)
        amct_opt.run_pipeline(
            module, [replace(p, data=samples) if hasattr(p, "data") else p for p in calibrating], session
        )
        given = {} if client is None else {"cluster": client, "checkpoint": str(tmp_path)}
        amct_opt.run_pipeline(module, [replace(make_pass(solving, ""), data=samples, **given)], session)
        return amct_opt.to_text(module)

    with pytest.raises(amct_opt.CompileError, match="gone"):
        text(Stopping(8 + 3))
    assert len(list(tmp_path.iterdir())) == 1
    engine = Stopping(1000)
    assert text(engine) == text(None)
    assert engine.computed == 2 * 8
    again = Stopping(0)
    assert text(again) == text(None)


@pytest.mark.parametrize("measure", [Parts, Divergences])
def test_layers_that_are_measured_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: type[Measure]
) -> None:
    """Four of six."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0)
    whole, session = amct_opt.parse(deep(6))
    quantized = whole.clone()
    amct_opt.quantize(quantized, session, data=X)
    samples, layers = samples_from(X[:4], whole), [f"fc{i}" for i in range(6)]

    def found(runner: Runner) -> object:
        costs = exchanged(whole, quantized, layers, whole, samples, session, "", measure, runner)
        return {layer: each.data() for layer, each in costs.items()}

    with pytest.raises(amct_opt.CompileError, match="gone"):
        found(Runner(cluster=Stopping(1), checkpoint=tmp_path))
    engine = Stopping(1)
    assert found(Runner(cluster=engine, checkpoint=tmp_path)) == found(Runner())
    assert engine.computed == 1
    assert found(Runner(cluster=Stopping(0), checkpoint=tmp_path)) == found(Runner())


def test_findings_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What equalization finds of channels."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0)
    module, session = amct_opt.parse(deep(1))
    samples = samples_from(X, module)
    (product,) = (op for op in module.walk() if isinstance(op, MatMulOp))

    def found(runner: Runner) -> list[object]:
        seen = channels_seen(module, [ChannelsOf(product.lhs, 1)], samples, session, runner)
        return [vars(each) for each in seen.values()]

    with pytest.raises(amct_opt.CompileError, match="gone"):
        found(Runner("numpy", cluster=Stopping(2), checkpoint=tmp_path))
    engine = Stopping(1000)
    np.testing.assert_equal(found(Runner("numpy", cluster=engine, checkpoint=tmp_path)), found(Runner("numpy")))
    assert engine.computed == len(shares_of(samples)) - 2


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    runner = Runner("numpy", cluster=Stopping(1000), checkpoint=tmp_path)
    found(runner)
    (file,) = tmp_path.glob("*")
    file.write_bytes(b"damaged")
    with pytest.raises(amct_opt.CompileError, match="is not a checkpoint") as e:
        found(runner)
    assert (e.value.where, e.value.hint) == (str(file), "remove it")


def test_it_needs_a_cluster() -> None:
    with pytest.raises(amct_opt.CompileError, match="a checkpoint is for work on a cluster"):
        sharing_runner(ClusterOptions(checkpoint="state"))
