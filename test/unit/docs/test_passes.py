"""docs/generated/passes.md says what the classes of passes and targets say."""

from __future__ import annotations

import runpy

from .pages import PAGES, ROOT


def test_the_reference_is_not_stale() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "generate" / "passes.py"))["page"]()
    assert PAGES["docs/generated/passes.md"].read_text("utf-8") == written, "run: python docs/generate/passes.py"
