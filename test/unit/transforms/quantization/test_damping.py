"""Rounding of weights where data has few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import sqnr
from amct_opt.session.universe import new_session

from .test_round_weights import assert_same_sums, dense, rows, steps, sums_of

ROUNDING = "amct_opt.transforms.quantization.recover.round_weights"


def test_damped_sums_are_those_with_rows_of_independent_inputs() -> None:
    q, f = rows(2, 20, 7, 1), rows(2, 20, 7, 2)
    weights = np.random.default_rng(0).normal(size=(2, 3, 7))
    sums = sums_of(q, f, weights)
    more = np.sqrt(0.3 * np.einsum("gkk->gk", sums.h).mean(axis=1))[:, None, None] * np.eye(7, dtype=np.float32)
    with_rows = [np.concatenate([each, more], axis=1).astype(np.float32) for each in (q, f)]
    wanted = sums_of(with_rows[0], with_rows[1], weights)
    before = replace(sums, h=sums.h.copy())
    with sums.damped(0.3) as found:
        assert_same_sums(found, wanted)
    assert_same_sums(sums, before)
    with sums.damped(0) as found:
        assert_same_sums(found, before)
    assert sums.are_few
    assert not sums_of(rows(1, 400, 7), rows(1, 400, 7)).are_few


@pytest.mark.parametrize("wide", [False, True])
def test_weights_are_not_fitted_to_chance_where_rows_are_few(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of convolutions with 48 inputs each, fitted to 18 rows whose inputs depend on each other. In wide layers some
    output channels choose the damping for all.
    """
    if wide:
        monkeypatch.setattr(f"{ROUNDING}.WIDE", 1)
        monkeypatch.setattr(f"{ROUNDING}._CHANNELS", 8)
    rng, image = np.random.default_rng(1), "tensor<?x48x1x1xf32>"
    layers = "".join(
        f"  %w{i} = nn.constant {dense(rng.normal(size=(48, 48, 1, 1)).astype(np.float32))}\n"
        f'  %x{i + 1} = nn.conv %x{i}, %w{i} from <onnx, "Conv", "conv{i}"> : ({image}, tensor<48x48x1x1xf32>) -> {image}\n'
        for i in range(3)
    )
    head = f'func.func @main(%x0: {image} {{nn.name = "x"}}) -> ({image} {{nn.name = "y"}}) {{\n'
    text = f"{head}{layers}  func.return %x3 : {image}\n}}\n"
    mixing = rng.normal(size=(48, 48)) * 0.95 ** np.arange(48)[:, None]
    data = (rng.normal(size=(320, 48)) @ mixing).astype(np.float32)[:, :, None, None]
    reference = Executable(parse_module(new_session(), text)).run({"x": data[20:]})["y"]
    passes = "insert-observers{weight-bits=4}", "calibrate", "round-weights{method=mismatch}", "convert-observers"

    def on_other_rows() -> float:
        _, module = steps(text, "ascend", data[:20], *passes)
        return sqnr(reference, Executable(module).run({"x": data[20:]})["y"])

    damped = on_other_rows()
    monkeypatch.setattr(f"{ROUNDING}.DAMPINGS", (0.0,))
    assert damped > on_other_rows() + 1
