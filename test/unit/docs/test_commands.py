"""docs/generated/commands.md says what the parsers of the tools say."""

from __future__ import annotations

from ..scripts import script
from .pages import PAGES


def test_the_reference_is_not_stale() -> None:
    written = script("docs/generate/commands").page()
    assert PAGES["docs/generated/commands.md"].read_text("utf-8") == written, "run: python docs/generate/commands.py"
