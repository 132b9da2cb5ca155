"""docs/generated/fusions.md says what the pattern classes say, and shows each of them at work."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from amct_opt.pipelines.options import leaves
from amct_opt.session.catalogue import PASSES, pass_named
from amct_opt.transforms.fusion.fuse_all import FOLDS, REGIONS, FuseAllPass
from amct_opt.transforms.fusion.fusion_pass import FusionPass

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    return runpy.run_path(str(DOCS / "generate" / "fusions.py"))["fusions"]()


def test_page_is_current(page: str) -> None:
    assert (DOCS / "generated/fusions.md").read_text("utf-8") == page, "run: python docs/generate/fusions.py"


@pytest.mark.parametrize("part", [*FOLDS, REGIONS], ids=lambda part: part.name)
def test_every_option_of_a_part_is_one_of_fuse_all(part: FusionPass) -> None:
    assert leaves(type(part)).keys() <= leaves(FuseAllPass).keys()


def test_every_pattern_has_an_example(page: str) -> None:
    entries = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    patterns: list[Any] = [
        p for name in PASSES if issubclass(cls := pass_named(name), FusionPass) for p in cls.PATTERNS
    ]
    assert set(entries) == {p.name for p in patterns}
    assert [name for name, text in entries.items() if "```mlir" not in text] == []
