"""docs/linalg.md: its table has every operation, as the rules are."""

from __future__ import annotations

from ..scripts import ROOT, script

TEXT = (ROOT / "docs" / "linalg.md").read_text("utf-8")


def test_the_table_is_not_stale() -> None:
    assert script("docs/generate/linalg").operations() in TEXT, "run: python docs/generate/linalg.py"
