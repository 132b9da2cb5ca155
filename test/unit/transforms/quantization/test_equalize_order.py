"""The order in which `--equalize` gives up links that do not serve the network's outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.transforms.quantization.equalize.trial import Trial

from ...targets.operations import const, module_of
from .test_equalize import IMAGE, RELU, equalized, numbers, pair, spread


def quiet_and_loud(x: Any) -> Any:
    """The first pair has the larger spread, and hardly counts in the sum."""
    quiet = nn.MulOp.make(pair(RELU)(x), const(np.full((4, 1, 1), 1e-4)))
    by = np.array([1, 16, 1, 1, 0.5, 2])
    hidden = RELU(nn.ConvOp.make(x, const(spread(numbers(6, 3, 3, 3), 0, by))))
    return nn.AddOp.make(quiet, nn.ConvOp.make(hidden, const(spread(numbers(4, 6, 3, 3), 1, 1 / by))))


def test_links_that_count_at_the_outputs_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = module_of(quiet_and_loud, [IMAGE], dynamic=False)
    convolutions = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    for op, name in zip(convolutions, ("quiet", "quiet reader", "loud", "loud reader"), strict=True):
        op.result.name_hint = name.replace(" ", "_")
    np.savez(tmp_path / "data.npz", x0=IMAGE)
    reasons = iter(["both lose"])
    monkeypatch.setattr(Trial, "lost", lambda *_: next(reasons, None))
    remarks = equalized(module, tmp_path / "data.npz").remarks
    assert [r.layer for r in remarks if r.rule == "equalized"] == ["loud"]
    assert [r.layer for r in remarks if r.rule == "outputs"] == ["quiet"]
