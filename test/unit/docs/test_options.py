"""Options are declared once: the text of each is the same wherever it is shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

import amct_opt
from amct_opt.api import keywords
from amct_opt.flows.options import ResultOptions
from amct_opt.pipelines.options import Option, leaves
from amct_opt.tools import amct, amct_opt as opt
from amct_opt.transforms.quantization.options import AllOptions

from ..scripts import script
from .pages import PAGES

OPTIONS = leaves(AllOptions)


def test_the_keywords_are_those_of_the_options() -> None:
    page = script("docs/generate/keywords")
    text = page.TARGET.read_text("utf-8")
    assert text == page.module(text), "run: python docs/generate/keywords.py"
    assert {*keywords.Keywords.__annotations__, *page.OWN} == {*OPTIONS}
    files = keywords.FileKeywords.__annotations__.keys() - keywords.Keywords.__annotations__.keys()
    assert {*files, *page.OWN_OF_FILES} == {*leaves(ResultOptions)}


def plain(text: str) -> str:
    """Text without what differs between places: breaks, quotes, dashes, and the case of the first letter."""
    return "".join(c for c in text.lower() if c.isalnum())


def test_a_text_is_one_text_in_five_places(capsys: pytest.CaptureFixture[str]) -> None:
    command = amct.parser().commands()["quantize"].format_help()
    with pytest.raises(SystemExit):
        opt.run(["--help", "quantize"])
    places = {
        "amct quantize --help": command,
        "amct-opt --help quantize": capsys.readouterr().out,
        "amct_opt.quantize.__doc__": amct_opt.quantize.__doc__ or "",
        "docs/generated/passes.md": PAGES["docs/generated/passes.md"].read_text("utf-8"),
        "docs/generated/commands.md": PAGES["docs/generated/commands.md"].read_text("utf-8"),
    }
    own = script("docs/generate/keywords").OWN
    for option in OPTIONS.values():
        assert option.text, option.field
        for place, text in places.items():
            shown = option.facts.flag if place in ("amct quantize --help", "docs/generated/commands.md") else True
            shown = option.field not in own if place == "amct_opt.quantize.__doc__" else shown
            assert not shown or plain(option.text) in plain(text), f"{place}: {option.field}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shift", "needs --joint-quant, which"), ("config", "JSON in a file"), ("scale", "before --mean and --std: 255")],
)
def test_names_of_options_are_flags_of_commands(name: str, expected: str) -> None:
    action = next(a for a in amct.parser().commands()["quantize"].actions() if a.dest == name)
    assert expected in (action.help or "").replace("Needs", "needs")


def test_brief_text() -> None:
    option: Option = OPTIONS["shift"]
    assert option.brief({}).startswith("sums keep 16 bits")
    assert "Needs joint_quant, which" in option.spelled({"joint-quant": "joint_quant"})


def test_help_loads_no_compiler() -> None:
    """Options are described without what acts on them, so that `--help` takes no longer for `quantize` than for others."""
    code = (
        "import sys; from amct_opt.tools import amct; amct.parser().commands()['quantize'].format_help(); "
        "print({m for m in ('numpy', 'amct_opt.rewriting', 'amct_opt.transforms.quantization.request') if m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
