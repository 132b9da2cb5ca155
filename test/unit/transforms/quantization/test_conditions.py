"""Every condition of quantization's patterns, held to the text tests of `test/lit/transforms/quantization`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from amct_opt import CompileError
from amct_opt.catalogue import pass_named
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import CheckedPattern, Condition
from amct_opt.transforms.quantization.decide.conditions import ComputedInIntegers, DecideLayer
from amct_opt.universe import new_session

LIT = Path(__file__).parents[3] / "lit" / "transforms" / "quantization"
STEPS = (
    "insert-observers",
    "balance-channels",
    "convert-observers",
    "shift-accumulators",
    "adapt-qat",
    "quantize-cache",
    "quantize-dynamic",
)
ELSEWHERE = {"called-once", "weight-unshared", "not-a-module", "weight-only"}
"""Conditions of AMCT for PyTorch, whose profile no option selects, and one of errors: test_legality.py has both sides."""
CONDITIONS: Mapping[Condition[Any], type[CheckedPattern[Any]]] = {
    **{
        one: each
        for step in STEPS
        for each in cast(Any, pass_named(step)).PATTERNS
        for one in each.conditions
        if one.name not in ELSEWHERE and one is not DecideLayer.integer_operator
    },
    **{one: DecideLayer for one in ASCEND.rows[nn.ConvOp].rules if isinstance(one, ComputedInIntegers)},
}
"""Each, once however many patterns share it, and one of its patterns."""


class Case(NamedTuple):
    """One module of a text test, and what a RUN line does with it."""

    text: str
    profile: str
    passes: tuple[tuple[str, str], ...]

    def outcome(self) -> tuple[str, list[str]]:
        """What comes out, or the error; and the remarks."""
        session = new_session()
        session.profile = self.profile
        try:
            module = parse_module(session, self.text, "net.mlir")
            for name, options in self.passes:
                make_pass(name, options).apply(session, module)
            text = module_text(module)
        except CompileError as error:
            text = str(error)
        return text, [f"{r.kind} {r.rule} {r.layer} {r.reason}" for r in session.remarks]


def cases(folder: Path) -> Iterator[Case]:
    """The RUN lines that read the text itself, with the files that lines before them write into `folder`."""
    for path in sorted(LIT.glob("*.mlir")):
        whole = path.read_text("utf-8")
        for line in re.findall("^// RUN: (.*)", whole.replace("%t", str(folder / path.stem)), re.MULTILINE):
            if written := re.fullmatch("echo '(.*)' (>>?) (.*)", line):
                text, mode, file = written.groups()
                with Path(file).open("a" if mode == ">>" else "w", encoding="utf-8") as stream:
                    stream.write(f"{text}\n")
            elif command := re.match(r"(?:not )?amct-opt %s (--.*?)(?: [12]?>| \||$)", line):
                given = re.sub("--profile ", "--profile=", command[1])
                parts = [word.removeprefix("--").partition("=") for word in shlex.split(given)]
                words = [(name, options) for name, _, options in parts]
                passes = tuple((name, options) for name, options in words if _is_pass(name))
                for text in re.split("^// -----.*$", whole, flags=re.MULTILINE):
                    yield Case(text, dict(words).get("profile", "ascend"), passes)


def _is_pass(name: str) -> bool:
    try:
        pass_named(name)
    except (KeyError, CompileError):
        return False
    return True


class Asked(NamedTuple):
    """What was asked of a condition: whether it held for a layer, and the first case that it refuses, with the outcome."""

    held: bool
    refused: tuple[Case, tuple[str, list[str]]] | None


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Condition[Any], Asked]:
    found = dict.fromkeys(CONDITIONS, Asked(held=False, refused=None))
    answers: dict[Condition[Any], set[str | None]] = {}
    holds = Condition.holds

    def noted(self: Condition[Any], pattern: CheckedPattern[Any], match: object) -> str | None:
        reason = holds(self, pattern, match)
        answers.setdefault(self, set()).add(reason)
        return reason

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Condition, "holds", noted)
        for case in dict.fromkeys(cases(tmp_path_factory.mktemp("files"))):
            answers.clear()
            text, remarks = case.outcome()
            for one in answers.keys() & found.keys():
                held, refused = found[one]
                said = [remark for remark in remarks if remark.split()[1] == one.name]
                if not text.startswith("builtin.module"):
                    said.append(text)
                if refused is None and any(str(why) in each for why in answers[one] - {None} for each in said):
                    refused = case, (text, remarks)
                found[one] = Asked(held or None in answers[one], refused)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("one", CONDITIONS, ids=lambda one: f"{CONDITIONS[one].name}:{one.name}")
def test_without_a_condition_its_text_test_fails(
    one: Condition[Any], asked: Mapping[Condition[Any], Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer of some text is refused by it and says so, another one is not, and without it the text comes out otherwise."""
    held, refused = asked[one]
    assert refused is not None, f"no text in {LIT} is refused by it"
    assert held or one.name in ALWAYS
    case, before = refused
    monkeypatch.setattr(one, "_check", lambda *_: None)
    try:
        after = case.outcome()
    except Exception:  # what the condition keeps out is not a case for the rest of the pass
        return
    assert after != before


ALWAYS = {"tensor-only", "not-in-table", "imported-as", "integer-weight"}
"""These hold for no layer: tables have them in place of conditions."""
