"""Conditions of patterns: each has a text test, and without it exactly the files of `test/lit` fail that name it.

A file names a condition where it checks a remark or an error that does. Errors of strict conditions do not name them:
a function does. Errors about single inputs (`tensor_quantize names`) have the names of conditions of layers,
but do not ask these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from amct_opt.pipelines.described import statement
from amct_opt.rewriting import CheckedPattern, Condition
from amct_opt.session.catalogue import PASSES, pass_named
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.decide.conditions import DecideLayer, DecideWeighted

from ..scripts import script

texts = script("test/texts")
FILES: Mapping[Path, str] = {file: file.read_text("utf-8") for file in texts.files()}
PROFILES: list[Any] = [new_session().profiles[name] for name in new_session().profiles]
UNTOLD = {DecideLayer.called_once, DecideLayer.not_a_module, DecideWeighted.weight_unshared}
"""Conditions of AMCT for PyTorch, whose profile no option selects: test_legality.py has both sides."""
NEVER = {"no-ascend-op"}
"""The condition of what no other pattern matches; it holds for nothing."""


def patterns(pass_name: str) -> Iterator[type[CheckedPattern[Any]]]:
    """The patterns of a pass, for any profile and with any option."""
    kind: Any = pass_named(pass_name)
    for_profile = getattr(kind, "patterns_for", lambda _: getattr(kind, "PATTERNS", ()))
    by_option = getattr(kind, "BY_OPTION", {}).values()
    yield from dict.fromkeys(each for some in (*map(for_profile, PROFILES), *by_option) for each in some)


def conditions() -> Mapping[str, Mapping[Condition[Any], set[str]]]:
    """By name the conditions of patterns, and of rows of profiles, each with the passes that ask it."""
    asked = [(one, name) for name in PASSES for pattern in patterns(name) for one in pattern.conditions]
    rows = [row for profile in PROFILES for row in profile.rows.values()]
    asked += [(one, "insert-observers") for row in rows for one in row.rules]
    found: dict[str, dict[Condition[Any], set[str]]] = {}
    for one, name in asked:
        if one not in UNTOLD and one is not DecideLayer.integer_operator:  # rows have it with their judges
            found.setdefault(one.name, {}).setdefault(one, set()).add(name)
    return found


CONDITIONS = conditions()


def naming(name: str) -> set[Path]:
    """The files that name the conditions of a name."""
    passes = {each for asking in CONDITIONS[name].values() for each in asking}
    said = rf"^//.*\[({'|'.join(passes)}) missed {name}\]|^//(?!.*tensor_quantize names).* cannot .*\({name}\)"
    if any(one.hint is not None for one in CONDITIONS[name]):
        said += rf"|@{name.replace('-', '_')}\("
    return {file for file, text in FILES.items() if re.search(said, text, re.MULTILINE)}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_text_test_names_a_condition(name: str) -> None:
    assert naming(name)
    assert all(one.statement for one in CONDITIONS[name])


def test_patterns_have_statements() -> None:
    assert [each for name in PASSES for each in patterns(name) if not statement(each)] == []


Asked = Mapping[Condition[Any], Mapping[bool, set[Path]]]
"""By condition the files in which it holds for something (True), and in which it refuses something (False)."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """What the files ask. Those that fail as they are, as `lit` says, ask nothing."""
    found: dict[Condition[Any], dict[bool, set[Path]]] = {}
    answers: set[tuple[Condition[Any], bool]] = set()
    holds = Condition[Any].holds

    def noted(self: Condition[Any], pattern: CheckedPattern[Any], match: object) -> str | None:
        reason = holds(self, pattern, match)
        answers.add((self, reason is None))
        return reason

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Condition, "holds", noted)
        for file in FILES:
            answers.clear()
            if texts.failure(file, tmp_path_factory.getbasetemp()) is None:
                for one, held in answers:
                    found.setdefault(one, {True: set(), False: set()})[held].add(file)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONS)
def test_without_a_condition_the_files_fail_that_name_it(
    name: str, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is taken away by itself. What refuses nothing in a file cannot change it."""

    def failing(files: set[Path], away: Iterable[Condition[Any]]) -> set[Path]:
        with monkeypatch.context() as patch:
            for each in away:
                patch.setattr(each, "_check", lambda *_: None)
            return {file for file in files if texts.failure(file, tmp_path) is not None}

    failed: set[Path] = set()
    for one, passes in CONDITIONS[name].items():
        without = failing(asked[one][False], [one])
        assert without, f"no file fails without that of {passes}"
        assert asked[one][True] & without or name in NEVER, f"that of {passes} holds for nothing in {without}"
        failed |= without
    refused_twice = failing(naming(name) - failed, CONDITIONS[name])
    assert failed | refused_twice == naming(name)
