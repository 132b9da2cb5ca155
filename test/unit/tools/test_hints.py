"""No hint names an option that the command at hand does not have."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import amct_opt
from amct_opt.session.universe import new_session
from amct_opt.tools import amct, amct_opt as opt
from amct_opt.tools.hints import fitting

OPT = opt.parser(new_session()).options()
COMMANDS = amct.parser().commands()
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@cache
def hints() -> list[str]:
    """Every text of the package that names an option and is an argument of a call, as hints are; `{...}` stands for a value."""
    found: set[str] = set()
    for path in Path(amct_opt.__file__).parent.rglob("*.py"):
        if path.parent.name == "tools":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            texts = [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []
            texts += [node.value] if isinstance(node, ast.Assign) else []
            found.update(text for t in texts if _OPTION.search(text := _text(t)) or " -t " in text)
    return sorted(found)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "21" for v in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_hints_are_found() -> None:
    assert "--outputs names them" in hints()
    assert "write a newer opset: -t 'onnx{opset=21}'" in hints()
    assert len(hints()) > 40


@pytest.mark.parametrize("name", [*COMMANDS, "amct-opt"])
def test_options_of_hints(name: str) -> None:
    options = OPT if name == "amct-opt" else COMMANDS[name].options()
    for hint in hints():
        fitted = fitting(hint, options, lambda: OPT)
        if fitted.startswith("with amct-opt: ") or re.search("amct|`", hint):
            continue
        assert {*_OPTION.findall(fitted)} <= options, f"{name}: {fitted}"
        assert " -t " not in fitted or "-t" in options, f"{name}: {fitted}"


def test_spelling() -> None:
    newer = "write a newer opset: -t 'onnx{opset=21}'"
    assert fitting(newer, OPT, lambda: OPT) == newer
    assert fitting(newer, COMMANDS["quantize"].options(), lambda: OPT) == "write a newer opset: --opset 21"
    assert fitting(newer, COMMANDS["calibration"].options(), lambda: OPT) == f"with amct-opt: {newer}"
    sizes = "--input-shape 'x:1,...' gives sizes"
    assert fitting(sizes, COMMANDS["calibration"].options(), lambda: OPT) == "--input_shape 'x:1,...' gives sizes"
    assert fitting(sizes, COMMANDS["quantize"].options(), lambda: OPT) == sizes
    assert fitting("--remarks=all shows them", COMMANDS["run"].options(), lambda: OPT).startswith("with amct-opt: ")
    assert fitting("--nothing-has-this", OPT, lambda: OPT) == ""
    assert fitting("give weight-only=true", COMMANDS["quantize"].options(), lambda: OPT) == "give --weight-only"
    assert fitting("give weight-only=true", OPT, lambda: OPT) == "give weight-only=true"
    for other in ("`pip install --no-deps tf_keras`", "`atc --mode=1 --inputs -t x` lists a model"):
        assert fitting(other, COMMANDS["run"].options(), lambda: OPT) == other
        assert fitting(f"{other}; give --nothing-has-this", OPT, lambda: OPT) == ""
        advice = f"{other}, and --input-shape gives sizes"
        assert (
            fitting(advice, COMMANDS["calibration"].options(), lambda: OPT) == f"{other}, and --input_shape gives sizes"
        )
    assert fitting("no option at all", frozenset(), lambda: OPT) == "no option at all"
