"""What `--equalize` gives up where the network's outputs are not served, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.recover.equalize.judging import EqualizationTrial, lost_by_most

from ...targets.operations import const, module_of
from .test_equalize import IMAGE, RELU, equalized, numbers, pair, spread, triple


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
    monkeypatch.setattr(EqualizationTrial, "lost", lambda *_: next(reasons, None))
    remarks = equalized(module, tmp_path / "data.npz").remarks
    assert [r.layer for r in remarks if r.rule == "equalized"] == ["loud"]
    assert [r.layer for r in remarks if r.rule == "outputs"] == ["quiet"]


@pytest.mark.parametrize("others", ["correct-bias=true", "fit-ranges=true", "round-weights=gptq"])
def test_recovery_that_does_as_well_undoes_all(others: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = module_of(triple, [IMAGE], dynamic=False)
    np.savez(tmp_path / "data.npz", x0=IMAGE)

    def recovered(options: str) -> tuple[ModuleOp, list[tuple[str, str]]]:
        session, copy = new_session(), module.clone()
        make_pass("quantize", f"data={tmp_path / 'data.npz'} {options}").apply(session, copy)
        return copy, [(r.rule, r.reason) for r in session.remarks if r.pass_name == "equalize"]

    reasons = iter([None, "no better"])
    monkeypatch.setattr(EqualizationTrial, "lost", lambda *_: next(reasons))
    found, remarks = recovered(f"equalize=true {others}")
    assert next(reasons, "none left") == "none left"
    assert ("outputs", "after recovery no better") in remarks
    assert "equalized" not in dict(remarks)
    assert str(found) == str(recovered(f"equalize=false {others}")[0])
    reasons = iter([None, "not asked: nothing else recovers accuracy"])
    _, remarks = recovered("equalize=true")
    assert "equalized" in dict(remarks)
    assert next(reasons, None) is not None


def test_one_run_does_not_decide() -> None:
    assert lost_by_most([100, 1, 1, 1], [1, 2, 2, 2]) == (
        "with it the outputs of 1 of 4 runs are closer to the float network's, those of 3 further"
    )
    assert lost_by_most([1, 1, 1, 1], [2, 0.5, 0.5, 0.5]) is None
    assert lost_by_most([0, 0], [0, 0]) is None
