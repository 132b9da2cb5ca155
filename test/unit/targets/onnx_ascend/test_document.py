"""The table of docs/deploy.md speaks of every operation of `ascend`, once."""

from __future__ import annotations

from pathlib import Path

from amct_opt.dialects.ascend import EXPANDED, OPERATIONS
from amct_opt.targets.onnx_ascend import CONVERTERS

PAGE = Path(__file__).parents[4] / "docs" / "deploy.md"


def rows() -> list[tuple[str, str]]:
    """(operation, what it is written as) of the table at the end."""
    table = PAGE.read_text().partition("## Operations")[2].strip().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in table if line.startswith("|")][2:]
    return [(name, form) for names, form in cells for name in names.split(", ")]


def test_every_operation_once() -> None:
    assert sorted(name for name, _ in rows()) == sorted(op.name.removeprefix("ascend.") for op in OPERATIONS)


def test_those_without_a_form() -> None:
    assert {f"ascend.{name}" for name, form in rows() if form == "\N{EM DASH}"} == {
        op.name for op in OPERATIONS if op not in {*CONVERTERS, *EXPANDED}
    }
