"""The lowering patterns: listed, registered, and each condition held to the text tests of `test/lit/lowering/ascend`."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from amct_opt.ir.text import module_text, parse_module
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.rewriting import Condition
from amct_opt.universe import new_session

LIT = Path(__file__).parents[3] / "lit" / "lowering" / "ascend"
CHUNKS = [
    (path.name, number, text)
    for path in sorted(LIT.glob("*.mlir"))
    if "--lower-to-ascend" in (whole := path.read_text("utf-8"))
    for number, text in enumerate(re.split(r"^// -----.*$", whole, flags=re.MULTILINE))
]
CONDITIONS = {one: each for each in LowerToAscendPass.PATTERNS for one in each.conditions}
"""Every condition, stated once however many patterns share it, and one of its patterns."""


def lowered(text: str) -> tuple[str, list[str]]:
    session = new_session()
    module = parse_module(session, text)
    LowerToAscendPass().apply(session, module)
    return module_text(module), [f"{r.kind} {r.rule} {r.layer} {r.reason}" for r in session.remarks]


@pytest.fixture(scope="module")
def asked() -> dict[Condition, dict[bool, list[str]]]:
    """By condition, the texts in which it refuses an operation (True) or holds for one (False)."""
    found = defaultdict(lambda: {True: [], False: []})
    holds = Condition.holds

    def noted(self, pattern, match):
        reason = holds(self, pattern, match)
        found[self][reason is not None].append(current)
        return reason

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Condition, "holds", noted)
        for _, _, current in CHUNKS:
            lowered(current)
    return found


@pytest.mark.parametrize("one", CONDITIONS, ids=lambda one: f"{CONDITIONS[one].name}:{one.name}")
def test_a_text_test_has_both_sides_of_a_condition(one, asked):
    assert one.statement
    refused = [text for text in asked[one][True] if f"[lower-to-ascend missed {one.name}]" in text]
    assert refused, f"no text in {LIT} is refused by it and says so"
    assert asked[one][False] or one.name == "no-ascend-op"


@pytest.mark.parametrize("one", CONDITIONS, ids=lambda one: f"{CONDITIONS[one].name}:{one.name}")
def test_without_a_condition_its_text_test_fails(one, asked, monkeypatch):
    (text, *_) = [text for text in asked[one][True] if f"[lower-to-ascend missed {one.name}]" in text]
    before = lowered(text)
    monkeypatch.setattr(one, "_check", lambda *_: None)
    try:
        after = lowered(text)
    except Exception:  # what the condition keeps out is no case for the rewrite
        return
    assert after[1] != before[1]
