"""docs/why-not.md has a remedy for every rule by which a layer stays in float."""

from __future__ import annotations

import inspect
import re

from compiler.transforms.quantization.rules import layer_rules
from compiler.transforms.quantization.rules.layer_rules import Rule
from compiler.transforms.quantization.skipped import SKIPPED

from .pages import PAGES

BEYOND = {"record", "weight-quantized", "not-in-profile", "between"}
"""What is told without a rule or an entry of the settings."""


def section(title: str) -> str:
    return PAGES["docs/why-not.md"].read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_rule_has_a_remedy() -> None:
    rules = {rule.name for _, rule in inspect.getmembers(layer_rules) if isinstance(rule, Rule)}
    rows = [row.split("|")[1] for row in section("Not quantized").splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == rules | SKIPPED.keys() | BEYOND


def test_rules_of_fusions_exist() -> None:
    catalogue = PAGES["docs/fusions.md"].read_text("utf-8")
    rows = [row.split("|")[1] for row in section("Not fused").splitlines() if row.startswith("| `")]
    assert [
        n for row in rows for n in re.findall(r"`([\w-]+)`", row) if f"| {n} |" not in catalogue and n != "no-producer"
    ] == []
