"""What every pass says about its patterns (`amct-opt --list-patterns`)."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from amct_opt.dialects import ascend, nn
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.described import patterns, statement
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import Remarks, rewrites
from amct_opt.session.catalogue import PASSES, PIPELINES, PROFILES, pass_named
from amct_opt.session.universe import new_session

WITHOUT_PATTERNS = {
    "infer-shapes": "An analysis: ",
    "fold-constants": "One walk ",
    "calibrate": "An analysis: ",
    "fit-ranges": "A search ",
    "round-weights": "A search ",
    "correct-bias": "A measurement: ",
    "print-quant-points": "An analysis ",
    "convert-to-linalg": "A table of rules ",
    "legalize-ascend": "An analysis ",
    "standard-to-nn": "A table ",
    "nn-to-quant": "A rule for each operation ",
    "quant-to-nn": "A rule for each cast ",
    "fuse-modules": "Fuses chains of layers by name, by patterns of fuse-bn, fuse-bias and fuse-activation",
}
"""Passes that are something else, and the words that say so."""


@pytest.mark.parametrize("name", [*PASSES, *PIPELINES])
def test_every_pass_answers(name: str) -> None:
    """By its parts, or by a sentence and its patterns."""
    session = new_session()
    lines = patterns(name, session)
    if runs := PIPELINES.get(name) or getattr(pass_named(name), "RUNS", ""):
        each_part = ((f"--{each}", *(f"  {line}" for line in patterns(each, session))) for each in runs.split(","))
        assert lines == [line for part in each_part for line in part]
        return
    sentence, *listed = lines
    assert re.fullmatch(r"[A-Z].*\.", sentence)
    assert sentence.startswith(WITHOUT_PATTERNS.get(name, ""))
    assert bool(listed) == (name not in WITHOUT_PATTERNS)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", PASSES)
def test_every_pattern_and_condition_is_stated(name: str, profile: str) -> None:
    """Every one has a docstring, and is listed."""
    session = new_session()
    session.profile = profile
    made: Any = pass_named(name)
    chosen = (
        made.patterns_for(session.profiles[profile]) if hasattr(made, "patterns_for") else getattr(made, "PATTERNS", ())
    )
    by_option = getattr(made, "BY_OPTION", {})
    kinds = [*chosen, *chain(*by_option.values())]
    assert all(kind.name and kind.roots and statement(kind) for kind in kinds)
    assert all(one.name and one.statement for kind in kinds for one in kind.conditions)
    stated = [line.strip() for line in patterns(name, session)]
    for kind in kinds:
        if not hasattr(kind, "kinds"):  # else the profile chooses
            assert [line for line in stated if line.startswith(f"{kind.name} (")]
            assert {f"{one.name}: {' '.join(one.statement.split())}" for one in kind.conditions} <= {*stated}


def test_a_profile_lists_its_own() -> None:
    listed = []
    for profile in ("ascend", "qdq"):
        session = new_session()
        session.profile = profile
        listed.append(patterns("quantize", session))
    assert listed[0] != listed[1]
    steps = [[line for line in each if line.startswith("--")] for each in listed]
    assert steps[0] == steps[1]
    options = [[line.strip() for line in each if line.startswith("  --")] for each in listed]
    assert options == [["--insert-observers=joint-quant=true"], ["--insert-observers=activation-format=fp8-e4m3"]]


class Plain(ModulePass):
    name = "plain"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


class Documented(Plain):
    """Does nothing. And more."""

    name = "documented"


def test_a_pass_of_a_plugin_answers() -> None:
    session = new_session()
    for each in (Plain, Documented):
        session.register_pass(each)
    assert patterns("plain", session) == ["plain"]
    assert patterns("documented", session) == ["Does nothing."]


@rewrites(nn.TanhOp, nn.MatMulOp, ascend.ReluOp)
def note_each(op: Any, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Notes the operation."""
    remarks.note(op, "noted", "by a plugin")


TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = nn.constant dense<1.0> : tensor<3x3xf32>
  %a = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %b = nn.tanh %a : tensor<2x3xf32>
  %r = ascend.Relu %b : tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}"""


@pytest.mark.parametrize(
    ("name", "options"),
    [("canonicalize", ""), ("convert-layout", "NCHW"), ("fuse-requant", ""), ("fuse-requant", "chip=v200")],
)
def test_a_pattern_of_a_plugin_is_tried(name: str, options: str) -> None:
    session = new_session()
    session.register_pattern(name, note_each)
    assert patterns(name, session)[1:3] == ["note-each (nn.tanh, nn.matmul, ascend.Relu)", "  Notes the operation."]
    make_pass(name, options).apply(session, parse_module(session, TEXT))
    assert [r.op for r in session.remarks if r.rule == "noted"] == ["nn.matmul", "nn.tanh", "ascend.Relu"]
