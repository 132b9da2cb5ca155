"""Calibration on a cluster that goes away goes on where it was stopped, and ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.backends import Runner, checkpoint
from amct_opt.backends.sharing import shares_of
from amct_opt.dialects.nn import ObserveOp
from amct_opt.flows.evaluation import Labels
from amct_opt.flows.shared_ranks import shared_ranks
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.data.given import samples_from
from amct_opt.transforms.quantization.calibrate import calibrate, points_to_calibrate
from amct_opt.transforms.quantization.data_options import BackendOptions

NET = """
func.func @main(%x: tensor<1x8xf32> {nn.name = "x"}) -> tensor<1x8xf32> {
  %w = nn.constant dense<0.3> : tensor<8x8xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  func.return %y : tensor<1x8xf32>
}
"""
X = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)


class Stopping:
    """Computes so many shares, and then is gone; it counts them."""

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
        found = shared_ranks(engine, "interpreter", Path(), module, samples, labels, session, tmp_path)
        return found.ranks.tolist(), engine.computed

    with pytest.raises(amct_opt.CompileError, match="gone"):
        judged(2, labels)
    found, computed = judged(1000, labels)
    assert computed == len(shares_of(samples)) - 2
    assert found == shared_ranks(Stopping(1000), "interpreter", Path(), module, samples, labels, session).ranks.tolist()
    assert judged(0, labels) == (found, 0)
    _, computed = judged(1000, Labels(np.arange(100) % 7))
    assert computed == len(shares_of(samples))


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
        BackendOptions(checkpoint="state").runner()
