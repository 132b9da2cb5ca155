"""docs/accuracy.md: every row of the page runs again by the command line, on all three models, and gives what the page says.

`python docs/accuracy.py` writes the page. Sums of floats differ between machines, and a sum near a tie moves by a step: numbers
are compared within 1.5 dB and 3 images.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ..scripts import ROOT, script

TEXT = (ROOT / "docs" / "accuracy.md").read_text("utf-8")
accuracy = script("docs/accuracy")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return list(accuracy.models(tmp_path_factory.mktemp("models")))


def _numbers(line: str) -> list[float]:
    """The numbers of a row, behind its name and what it is written as."""
    cells = line.strip("| ").split(" | ")[2:]
    return [float(n) for cell in cells for n in re.findall(r"-?\d+(?:\.\d+)?|inf", cell.partition("/")[0])]


def test_the_page_has_every_row() -> None:
    named = [line.split("|")[1].strip() for line in TEXT.splitlines() if re.match(r"\| \S.*`", line)]
    assert named == [row.name for row in accuracy.ROWS]


@pytest.mark.slow
@pytest.mark.parametrize("row", accuracy.ROWS, ids=lambda row: row.name)
def test_row(row: Any, models: list[Any], tmp_path: Path) -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith(f"| {row.name} |"))
    made = [accuracy.measure(model, row, tmp_path) for model in models]
    numbers = [n for m in made for n in (m.sqnr, m.right) if n is not None]
    for told, found, tolerance in zip(_numbers(line), numbers, (1.5, 3, 1.5, 1.5), strict=True):
        assert found == pytest.approx(told, abs=tolerance), line
