"""docs/measured/exactness.md: what the page says is equal is equal, and where stages differ it is by steps.

`python docs/generate/exactness.py` writes the page; each model goes the same way here again, by the command line.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amct_opt.data.inputs import load_runs
from amct_opt.ir.functions import main_function

from ...scripts import ROOT, script

TEXT = (ROOT / "docs" / "measured" / "exactness.md").read_text("utf-8")
exactness = script("docs/generate/exactness")

NAMES = ("digits", "transformer", "mobilenet_v2", "Caffe googlenet", "keras ResNet50")
"""One of each structure and framework; the part on onnxruntime is held by the others."""


def test_the_page_has_every_row() -> None:
    sections = re.split("^## ", TEXT, flags=re.MULTILINE)[1 : 1 + len(exactness.PAIRS)]
    assert [section.partition("\n")[0] for section in sections] == [f"{a} and {b}" for a, b in exactness.PAIRS]
    for section in sections:
        assert re.findall(r"^\| (.+?) \| \d+ \|", section, re.MULTILINE) == list(exactness.MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_stages(name: str, tmp_path: Path, exact: Any) -> None:
    model = exactness.MODELS[name](tmp_path)
    modules = exactness.stages(model, tmp_path)
    found = exactness.distances(model, modules)
    assert exactness.row(name, found["ascend", "file"]) in TEXT, "the file is equal, bit for bit"
    for distance in found.values():
        assert distance.elements > 100_000
        # a step in one layer makes others in the next; what arrives is another sample of the rounding noise
        assert distance.counts[0] > 0.7 * distance.elements
        assert distance.sqnr > 10
    for stage, kind in (("ascend", "AscendDequant"), ("requant", "AscendRequant")):
        module = modules[stage]
        inputs = next(iter(load_runs(model.measured, main_function(module)).inputs))
        compared = exact.assert_integers(module, *inputs.values())
        kinds = Counter(op.name.removeprefix("ascend.") for op in module.walk())
        assert {k: n for k, n in compared.items() if k.startswith("Ascend")} == {
            k: kinds[k] for k in ("AscendQuant", "AscendDequant", "AscendRequant") if kinds[k]
        }
        assert compared[kind] > 0 or name == "transformer"
