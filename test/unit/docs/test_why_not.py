"""docs/why-not.md has a remedy for every rule by which a layer stays in float."""

from __future__ import annotations

import re

from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.transforms.quantization.place.insert_observers import InsertObserversPass
from amct_opt.transforms.quantization.profiles import QDQ

from .pages import PAGES

BEYOND = {"between", "folded", "graph"}
"""Reasons that no pattern has that decides layers."""
UNMATCHED = {"no-producer", "constant-first"}
"""Reasons for operations that no pattern matches, which the catalogue of patterns does not list."""


def section(title: str) -> str:
    return PAGES["docs/why-not.md"].read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_rule_has_a_remedy() -> None:
    patterns = [each for profile in (ASCEND, QDQ) for each in InsertObserversPass.patterns_for(profile)]
    rules = {each.name for pattern in patterns for each in pattern.conditions}
    rows = [row.split("|")[1] for row in section("Not quantized").splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == rules | BEYOND


def test_rules_of_fusions_exist() -> None:
    catalogue = PAGES["docs/generated/fusions.md"].read_text("utf-8")
    rows = [row.split("|")[1] for row in section("Not fused").splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert {name for name in named if f"| {name} |" not in catalogue} == UNMATCHED
