"""A few seeds of the fuzzer, which `make test-all` runs many of, and how it reports one that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzz import campaign, checks
from fuzz.campaign import check_seed


@pytest.mark.filterwarnings("ignore")  # of oracles
@pytest.mark.parametrize("seed", range(18))
def test_a_random_file(seed: int, tmp_path: Path) -> None:
    result = check_seed(seed, tmp_path)
    assert result.failure is None, result.failure
    assert "run" in result.passed


def test_a_wrong_number_fails_with_the_command_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, *_: Any) -> dict[str, Any]:
        return {name: array + 1 for name, array in self.case.expected.items()}

    monkeypatch.setattr(checks._Check, "run", wrong)
    monkeypatch.setattr(checks._Check, "_spread", lambda *_: {})
    failure = check_seed(5, tmp_path).failure
    assert failure is not None
    assert (failure.stage, failure.command) == ("run", "python test/fuzz --seed 5 --graphs 1 --format caffe --out out")
    assert " is off by " in failure.text


def test_counts(tmp_path: Path) -> None:
    counts = campaign.Counts()
    for seed in (0, 1):
        campaign._count(counts, check_seed(seed, tmp_path))
    assert (counts.graphs, counts.formats["onnx"], counts.passed["import"]) == (2, 2, 2)
    assert counts.line().startswith("2 graphs (2 onnx), ")
