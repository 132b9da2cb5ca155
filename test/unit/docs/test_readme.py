"""The parts of README.md that scripts write."""

from __future__ import annotations

import pytest

from ..scripts import script
from .pages import PAGES, ROOT


def test_the_table_of_speed_is_that_of_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    table = script("benchmarks/page").speed(PAGES["docs/measured/benchmarks.md"].read_text("utf-8"))
    assert table in PAGES["README.md"].read_text("utf-8"), (
        "run: python -c 'import page; page.write_speed()' in benchmarks"
    )
    header, _, *rows = table.splitlines()
    assert header.startswith("| network | amct-opt, profile qdq | onnxruntime ")
    assert [row.count(" s, ") for row in rows] == [header.count("|") - 2] * 3
