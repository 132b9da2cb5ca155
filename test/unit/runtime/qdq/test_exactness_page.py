"""The part of docs/measured/exactness.md on onnxruntime: whole models by the command line, no quantized value differs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ...scripts import ROOT, script

TEXT = (ROOT / "docs" / "measured" / "exactness.md").read_text("utf-8")


page = script("docs/generate/exactness_qdq")
MODELS = page.MODELS
CONVOLUTIONS = {
    "digits": 5,
    "transformer": 0,
    "resnet50": 53,
    "densenet121": 121,
    "tf_keras MobileNetV2": 52,
    "squeezenet": 26,
}
"""All that a model has."""
EQUAL = {"transformer": 0.99}
"""The share of equal integers, where float operations (layer normalization) round differently in the last place."""
SLOW = ("resnet50", "densenet121", "tf_keras MobileNetV2", "squeezenet")
"""One of each structure and framework; the part on Ascend is held by the others."""


@pytest.mark.parametrize("mode", page.MODES)
def test_the_page_has_every_row(mode: str) -> None:
    section = TEXT.partition(page.heading(mode))[2].partition("\n## ")[0]
    assert re.findall(r"^\| (.+?) \| \d+ \|", section, re.MULTILINE) == list(MODELS)


@pytest.mark.parametrize("name", ["digits", "transformer", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_quantized_values_are_equal(name: str, tmp_path: Path) -> None:
    found = page.measure(MODELS[name](tmp_path), tmp_path)["nn in integers"]
    assert page.exactness.row(name, found.distance) in TEXT
    assert found.distance.counts[0] >= EQUAL.get(name, 1) * found.distance.elements
    assert found.kernels["QLinearConv"] == CONVOLUTIONS[name]
    assert not {"Conv", "FusedConv", "Gemm", "MatMul"} & set(found.kernels)
