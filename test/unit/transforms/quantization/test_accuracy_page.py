"""docs/measured/accuracy.md: every row of the page runs again by the command line and gives what the page says.

`docs/generate/accuracy.py` writes the page. ResNet-50 takes a minute for every row: here it runs with the default observer only.
Sums of floats differ between machines, and a sum near a tie moves by a step: numbers are compared within 1.5 dB and 3 images.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ...scripts import ROOT, script

TEXT = (ROOT / "docs" / "measured" / "accuracy.md").read_text("utf-8").partition("## Algorithms")[2]
accuracy = script("docs/generate/accuracy")

COLUMNS = ("digits", "top-1", "transformer", "resnet50")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {model.name: model for model in accuracy.models(tmp_path_factory.mktemp("models"))}


def _numbers(line: str) -> list[float]:
    """The numbers of a row, after its name and what it is written as."""
    cells = line.strip("| ").split(" | ")[2:]
    return [float(n) for cell in cells for n in re.findall(r"-?\d+(?:\.\d+)?|inf", cell.partition("/")[0])]


def test_the_page_has_every_row() -> None:
    named = [line.split("|")[1].strip() for line in TEXT.splitlines() if re.match(r"\| \S.*`", line)]
    assert named == [row.name for row in accuracy.ROWS]


def _check(row: Any, models: list[Any], folder: Path) -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith(f"| {row.name} |"))
    written = dict(zip(COLUMNS, _numbers(line), strict=True))
    for model in models:
        made = accuracy.measure(model, row, folder)
        assert made.sqnr == pytest.approx(written[model.name], abs=1.5), line
        if made.right is not None:
            assert made.right == pytest.approx(written["top-1"], abs=3), line


@pytest.mark.slow
@pytest.mark.parametrize("row", accuracy.ROWS, ids=lambda row: row.name)
def test_row(row: Any, models: dict[str, Any], tmp_path: Path) -> None:
    _check(row, [models["digits"], models["transformer"]], tmp_path)


@pytest.mark.slow
def test_resnet50(models: dict[str, Any], tmp_path: Path) -> None:
    (row,) = (row for row in accuracy.ROWS if row.name == "mse")
    _check(row, [models["resnet50"]], tmp_path)
