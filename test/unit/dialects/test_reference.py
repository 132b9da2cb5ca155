"""docs/generated/nn.md says what the operations say."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_reference_is_not_stale() -> None:
    written = runpy.run_path(str(DOCS / "generate" / "reference.py"))["reference"]()
    assert (DOCS / "generated/nn.md").read_text("utf-8") == written, "run: python docs/generate/reference.py"
