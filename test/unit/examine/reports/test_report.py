"""The report of a run: contents, names from outside, absent and damaged files, Model Explorer, and what is measured for it."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import IntegerType

import amct_opt
from amct_opt.data.given import samples_from
from amct_opt.dialects.nn import QParams
from amct_opt.examine.reports import network, page as pages
from amct_opt.examine.reports.measures import measure_layers
from amct_opt.examine.reports.reading import read_run
from amct_opt.flows import report
from amct_opt.ir.weights import Weight
from amct_opt.runtime.comparison import compare
from amct_opt.session.universe import new_session
from amct_opt.support.files import spooling

from .conftest import DIGITS, TEXT, UNFRIENDLY


class Page(HTMLParser):
    """The texts of a page by the tag that they are in, its scripts, and all addresses that its tags refer to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.feed(path.read_text("utf-8"))
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        (self.scripts if self.tags[-1:] == ["script"] else self.texts).append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@pytest.fixture
def copied(digits_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(digits_run, tmp_path / "run"))


def test_the_page_has_every_layer_and_needs_no_network(digits_run: Path) -> None:
    page = Page(digits_run / "report.html")
    assert all(address.startswith("#") for address in page.addresses)
    assert "default-src 'none'" in (digits_run / "report.html").read_text("utf-8")
    assert {"link", "iframe", "img"}.isdisjoint(page.tags)
    layers = [*(f"conv{i}" for i in range(1, 5)), "relu1", "pool1", "add1", "mean1", "fc1"]
    for text in (*layers, "tensor-only", "global-pooling-false", "digits_qdq.onnx", "What to try next", "held back"):
        assert text in page.text, text
    assert set(layers) <= set(page.data["curve"]["layer"])
    drawn = {layer["name"]: layer for layer in page.data["layers"]}
    assert drawn["conv1"]["weights"]["channels"] == len(drawn["conv1"]["weights"]["low"])
    assert drawn["conv2"]["points"][0]["name"] == "relu1"
    assert sum(page.data["activations"]["0"]["counts"]) > 0
    assert (digits_run / "report.html").stat().st_size < 3_000_000


def test_names_from_outside_are_text(unfriendly_run: Path) -> None:
    page = Page(unfriendly_run / "report.html")
    assert "b" not in page.tags
    assert UNFRIENDLY in page.texts
    assert page.data["curve"]["layer"] == [UNFRIENDLY]
    assert "y<i>" in page.text
    assert "synthetic" in page.text
    assert any(f"-o '{unfriendly_run}-calibrated'" in text for text in page.texts), (
        "the command of the advice is quoted"
    )


ABSENT = {
    "layers.json": "the layers, their errors and their ranges are missing",
    "remarks.yaml": "the reasons of decisions are missing",
}


def test_what_onnxruntime_computes_in_float_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer whose input is not quantized; a huge file, and one that is damaged."""
    pytest.importorskip("onnxruntime", reason="the extra `onnxruntime` is not installed")
    amct_opt.quantize_file(DIGITS / "digits.onnx", tmp_path, DIGITS / "calib.npz", profile="qdq")
    title, path = "What onnxruntime computes in float", tmp_path / "digits_qdq.onnx"
    assert title not in Page(amct_opt.report(tmp_path)).text
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    (layer,) = (node for node in model.graph.node if node.name == "conv2")
    layer.input[0] = makers[makers[layer.input[0]].input[0]].input[0]
    onnx.save(model, path)
    text = Page(amct_opt.report(tmp_path)).text
    assert title in text
    assert f"its input '{layer.input[0]}' is not quantized" in text
    monkeypatch.setattr(report, "HUGE", 0)
    assert "the report does not examine weights of more than 0 MiB" in Page(amct_opt.report(tmp_path)).text
    monkeypatch.undo()

    def full(*_: object) -> None:
        with spooling():
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(report, "rounded", full)
        with pytest.raises(amct_opt.CompileError, match="temporary files cannot be written: No space"):
            amct_opt.report(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    assert "is not an ONNX model" in Page(amct_opt.report(tmp_path)).text


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_absent_is_left_out_with_a_sentence(copied: Path, name: str) -> None:
    (copied / name).unlink()
    page = Page(amct_opt.report(copied))
    assert f"{name} is not in the folder: " in page.text
    assert ABSENT[name] in page.text


DAMAGED: dict[str, tuple[str, str, str]] = {
    "json": ("summary.json", "{", ":1:2: error: is not JSON"),
    "kind": ("summary.json", '{"model": 3}', ": error: model must be a text, not 3"),
    "time": (
        "summary.json",
        '{"model": "m", "latency": {"models": [{"median_ms": [1]}]}}',
        ": error: models[0]: median_ms must be a number",
    ),
    "number": (
        "layers.json",
        '{"layers": {"conv1": {"sqnr": "high"}}}',
        ": error: layers.conv1: sqnr must be a number",
    ),
    "histogram": ("layers.json", '{"activations": [{"range": [0, 1]}]}', ": error: activations[0]: must have range"),
    "remarks": ("remarks.yaml", "--- [a", ":2: error: is not YAML: did not find expected"),
    "remark": ("remarks.yaml", "---\nkind: [1]\n", ": document 1: error: is not a remark: kind must be a text"),
    "gain": (
        "remarks.yaml",
        "---\nkind: missed\ngain: 3 dB\n",
        ": document 1: error: is not a remark: gain must have the numbers before and after",
    ),
    "aliases": (
        "remarks.yaml",
        "a0: &a0 {x: y}\n" + "\n".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)),
        ":1: error: takes too much memory when its aliases are expanded",
    ),
    "layer": ("layers.json", '{"network": [{"op": 3}]}', ": error: network[0]: op must be a text, not 3"),
    "clip lines": (
        "layers.json",
        '{"network": [{"points": [{"clip": [1]}]}]}',
        ": error: points[0]: clip must have two numbers",
    ),
    "weights": ("layers.json", '{"network": [{"weights": 4}]}', ": error: network[0]: weights must be an object"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_located_errors(amct_tool, copied: Path, case: str) -> None:
    name, content, message = DAMAGED[case]
    (copied / name).write_text(content, "utf-8")
    before = (copied / "report.html").read_bytes()
    result = amct_tool("report", copied)
    assert result.status == 1
    assert name + message in result.err
    assert (copied / "report.html").read_bytes() == before


def test_a_folder_without_a_run(amct_tool, tmp_path: Path) -> None:
    assert "is not a folder of results: it has no summary.json" in amct_tool("report", tmp_path).err


def test_without_the_extra(amct_tool, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "plotly.offline", None)
        result = amct_tool("report", copied)
    assert "requires plotly, which is not installed" in result.err
    assert "pip install 'amct-opt[report]'" in result.err
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    (tmp_path / "small.mlir").write_text(TEXT, "utf-8")
    arguments = "quantize", tmp_path / "small.mlir", "-o", tmp_path / "out"
    result = amct_tool(*arguments)
    assert (result.status, (tmp_path / "out/report.html").exists()) == (0, False)
    assert f"pip install 'amct-opt[report]', then amct report {tmp_path / 'out'}" in result.err
    monkeypatch.undo()
    assert amct_tool(*arguments, "--no-report").status == 0
    assert "report.html" not in {path.name for path in (tmp_path / "out").iterdir()}


def test_recovery_is_drawn_from_the_numbers_of_remarks(amct_tool, tmp_path: Path) -> None:
    """Their text is for people: it may say anything."""
    (tmp_path / "small.mlir").write_text(TEXT.replace("4.0", "4.1"), "utf-8")
    arrays: dict[str, Any] = {"x<i>": np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)}
    np.savez(tmp_path / "x.npz", **arrays)
    options = ("--data", tmp_path / "x.npz", "--weight-bits", "3", "--round-weights", "gptq", "-o", tmp_path / "out")
    assert amct_tool("quantize", tmp_path / "small.mlir", *options).status == 0
    (remark,) = [r for r in read_run(tmp_path / "out").remarks if r.pass_name == "round-weights"]
    assert remark.gain is not None
    before, after = (f"{each:.1f}" for each in remark.gain)
    assert f"{after} dB by gptq, {before} dB by nearest" in remark.reason
    path = tmp_path / "out" / "remarks.yaml"
    path.write_text(path.read_text("utf-8").replace(remark.reason, "77 dB, 88 dB"), "utf-8")
    (row,) = Page(amct_opt.report(tmp_path / "out")).data["recovery"]
    assert (row["before"], row["after"]) == (float(before), float(after))


def test_model_explorer_shows_errors_on_nodes_of_the_file(amct_tool, copied: Path) -> None:
    assert amct_tool("report", copied, "--model-explorer").out == f"{copied / 'model_explorer.json'}\n"
    graph = onnx.load(copied / "digits_qdq.onnx").graph
    ((name, data),) = json.loads((copied / "model_explorer.json").read_text("utf-8")).items()
    assert name == graph.name
    assert data["results"].keys() <= {node.name for node in graph.node}
    errors = json.loads((copied / "layers.json").read_text("utf-8"))["layers"]
    assert data["results"].keys() == errors.keys()
    assert data["results"]["conv1"]["value"] == pytest.approx(errors["conv1"]["sqnr"], abs=0.01)
    (copied / "layers.json").unlink()
    assert "the errors of layers were not measured" in amct_tool("report", copied, "--model-explorer").err


def test_errors_of_layers_are_those_of_compare(copied: Path) -> None:
    """The first 12 samples that are not for calibration, as `amct compare --layers` computes it."""
    session = new_session()
    a, _ = amct_opt.load(DIGITS / "digits.onnx", session)
    b, _ = amct_opt.load(copied / "digits_qdq.onnx")
    image = np.load(DIGITS / "calib.npz")["image"][-12:]
    expected = compare(a, b, [{"image": image}], layers=True).layers
    found = read_run(copied).measured
    assert found is not None
    assert found.layers.keys() == expected.keys()
    for name, difference in expected.items():
        assert found.layers[name].sqnr == pytest.approx(difference.sqnr, abs=1e-3), name


NETWORK = """
func.func @main(%x: tensor<4x300xf32> {nn.name = "x"}) -> (tensor<4x300xf32> {nn.name = "y"}) {
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = 0> : (tensor<4x300xf32>) -> tensor<4x300xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = 0> : (tensor<4x300xi8>) -> tensor<4x300xf32>
  %y = nn.relu %d from <onnx, "Relu", "act"> : tensor<4x300xf32>
  func.return %y : tensor<4x300xf32>
}
"""


def test_histograms_count_what_is_clipped(equivalence) -> None:
    quantized = equivalence.parse(NETWORK)
    x = np.linspace(-100, 100, 1200, dtype=np.float32).reshape(4, 300)
    found = measure_layers(quantized, quantized, samples_from({"x": x}, quantized, None), new_session())
    (seen,) = found["activations"]
    assert seen["range"] == [-100, 100]
    assert sum(seen["counts"]) == 1200
    assert seen["clipped"] == pytest.approx(np.mean((x < -64.25) | (x > 63.75)), rel=1e-4)
    starts = seen["start"] + np.arange(len(seen["counts"])) * seen["width"]
    assert seen["counts"] == [int(np.count_nonzero((x >= s) & (x < s + seen["width"]))) for s in starts]
    assert found["layers"]["act"] == {"sqnr": None, "cosine": 1.0}


def test_layers_in_order_with_what_they_lose(digits_run: Path) -> None:
    layers = read_run(digits_run).layers
    by_name = {layer.name: layer for layer in layers}
    assert [layer.name for layer in layers][:3] == ["conv1", "relu1", "conv2"]
    assert {name: by_name[name].decision for name in ("conv1", "relu1", "add1")} == {
        "conv1": "quantized",
        "relu1": "inside",
        "add1": "float",
    }
    sqnr = {name: layer.error.sqnr for name, layer in by_name.items() if layer.error is not None and layer.error.sqnr}
    for name, read in {"relu1": "conv1", "conv2": "relu1", "fc1": "flatten1"}.items():
        assert by_name[name].drop == pytest.approx(sqnr[read] - sqnr[name]), name
    assert by_name["conv1"].drop is None, "the input of the model has no error"
    weights = by_name["conv1"].weights
    assert weights is not None
    assert weights.scales == "a scale per channel"
    assert all(-m <= a <= b <= m for a, b, m in zip(weights.low, weights.high, weights.limit, strict=True))


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_in_groups_are_drawn_by_channel(symmetric: bool) -> None:
    """By the definition, number by number; 40 input channels are two groups of 16 and one of 8."""
    rng = np.random.default_rng(5)
    k, n, block = 40, 6, 16
    scales = rng.uniform(0.1, 5, (3, n)).astype(np.float32)
    points = np.zeros((3, n), int) if symmetric else rng.integers(-4, 4, (3, n))
    if symmetric:
        scales[1, ::2] *= -1
    integers = rng.integers(0, 8, (k, n)).astype(np.int8)  # 0 is no group's least
    integers[integers == 0] = 1
    params = QParams(
        IntegerType(4), Weight("scale", array=scales.reshape(-1)), tuple(points.reshape(-1).tolist()), 0, block
    )
    found = network._ranges(integers.view(ml_dtypes.int4), params, 1)
    groups = np.arange(k) // block
    reals = (integers - points[groups]) * scales[groups].astype(float)
    limits = np.maximum(np.abs(-8 - points), np.abs(7 - points)) * np.abs(scales.astype(float))
    for numbers, expected in ((found.low, reals.min(0)), (found.high, reals.max(0)), (found.limit, limits.max(0))):
        np.testing.assert_allclose(numbers, expected, rtol=1e-3)


def test_pages_of_large_networks_stay_small(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are lowered: the layers with the largest errors remain, and the page says what is left out."""
    monkeypatch.setattr(pages, "_MOST_LAYERS", 3)
    monkeypatch.setattr(pages, "_MOST_DETAILS", 2)
    monkeypatch.setattr(pages, "_MOST_REMARKS", 1)
    layers = read_run(copied).layers
    page = Page(amct_opt.report(copied))
    assert f"The table and the points of the curve show the 3 worst of {len(layers)} layers" in page.text
    assert "The first 1; remarks.yaml has all of them." in page.text
    worst = sorted(layers, key=lambda x: x.error.sqnr if x.error and x.error.sqnr else np.inf)[:3]
    assert page.tags.count("tr") < 40
    assert all(each.name in page.text for each in worst)
    assert len(page.data["layers"]) == 2
    assert page.data["left_out"] == sum(bool(x.points or x.weights) for x in layers) - 2
    assert {*page.data["curve"]["layer"]} == {each.name for each in worst}
    assert page.data["curve"]["line"]["x"] == [i for i, x in enumerate(layers) if x.error], "the line has all of them"


def test_large_values_are_sampled_evenly() -> None:
    from amct_opt.examine.reports.measures import _part

    array = np.tile(np.arange(6, dtype=np.float32), (1000, 1))
    assert np.array_equal(_part(array, 10_000), array.reshape(-1))
    part = _part(array, 500)
    assert 400 <= part.size <= 500
    assert np.ptp(np.bincount(part.astype(int))) <= 1, "no channel is preferred"
