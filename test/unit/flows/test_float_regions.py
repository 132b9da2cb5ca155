"""`--faster-than-float`, by a clock that gives each node a price: which layers go back to float, and what is said of it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from amct_opt.flows import latency
from amct_opt.flows.float_regions import Returned, chosen, regions
from amct_opt.flows.latency import Latencies, Latency
from amct_opt.flows.options import Timed

from ..conftest import Amct, Result

pytest.importorskip("onnxruntime", reason="the extra `onnxruntime` is not installed")

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
FREE = "BatchNormalization", "Relu", "QuantizeLinear", "DequantizeLinear"
LAYERS = "conv1", "conv2", "conv3", "add1", "pool1", "depthwise1", "conv4", "mean1", "flatten1", "fc1"


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """By the name of a node, what it takes in int8; every node takes 1 in float, and FREE ones nothing."""
    integer: dict[str, float] = {}

    def seconds(path: Path) -> list[float]:
        nodes = onnx.load(str(path)).graph.node
        quantized = {node.output[0] for node in nodes if node.op_type == "DequantizeLinear"}
        kinds = iter(LAYERS)
        found = list[float]()
        for node in nodes:
            name = "" if node.op_type in FREE else next(kinds)
            found.append(0 if not name else integer[name] if node.input[0] in quantized else 1)
        return found

    def side_by_side(models: Mapping[Path, Any], rounds: int = 1, engine: Timed = "onnxruntime") -> Latencies:
        return Latencies({path: Latency([sum(seconds(path))] * 3) for path in models}, "1", 1, 1, engine)

    monkeypatch.setattr(latency, "side_by_side", side_by_side)
    monkeypatch.setattr(latency, "by_node", lambda path, _: dict(enumerate(seconds(path))))  # pyright: ignore
    return integer


@pytest.fixture
def faster(amct_tool: Amct, tmp_path: Path) -> Callable[..., Result]:
    def run(command: str, *options: str) -> Result:
        given = [DIGITS / "digits.onnx", "--data", DIGITS / "calib.npz", "--profile", "qdq", "-o", tmp_path / "out"]
        return amct_tool(command, *given, "--faster-than-float", *options)

    return run


def test_a_profile_of_another_engine_is_refused(faster: Callable[..., Result]) -> None:
    result = faster("quantize", "--profile", "openvino")
    assert result.status == 1
    assert "error: layers are timed in onnxruntime, and profile openvino is for OpenVINO\n" in result.err
    assert "hint: leave it out, or give profile qdq" in result.err


def test_the_layer_that_loses_time_goes_back_to_float(
    prices: dict[str, float], faster: Callable[..., Result], tmp_path: Path
) -> None:
    prices.update(dict.fromkeys(LAYERS, 0.5), conv1=10)
    result = faster("quantize")
    assert result.status == 0, result.err
    assert "note: faster-than-float: 1 layer goes back to float: conv1\n" in result.err
    assert "onnxruntime takes 1e+04 ms quantized, 1e+03 ms in float" in result.out
    nodes = {node.name: node for node in onnx.load(str(tmp_path / "out" / "digits_qdq.onnx")).graph.node}
    assert nodes["conv1"].input[0] == "image"
    assert nodes["conv2"].input[0] != "relu1"


def test_a_network_that_is_slower_in_any_form_is_an_error(
    prices: dict[str, float], faster: Callable[..., Result], tmp_path: Path
) -> None:
    prices.update(dict.fromkeys(LAYERS, 2))
    result = faster("quantize")
    assert result.status == 1
    assert "1e+04 ms in float, 2e+04 ms with 10 layers quantized" in result.err
    assert "hint: without --faster-than-float the files are written" in result.err
    assert not (tmp_path / "out").exists()


def test_with_inputs_quantized_in_each_run_it_is_an_error(faster: Callable[..., Result]) -> None:
    result = faster("quantize", "--dynamic")
    assert result.status == 1
    assert "--faster-than-float does not return layers that --dynamic quantizes to float" in result.err
    assert "hint: leave out --faster-than-float" in result.err


def test_a_search_keeps_these_layers_in_float(prices: dict[str, float], faster: Callable[..., Result]) -> None:
    prices.update(dict.fromkeys(LAYERS, 0.5), conv1=10)
    result = faster("tune", "--sqnr", "20")
    assert result.status == 0, result.err
    assert "in float for speed   conv1" in result.out
    assert "--skip-layers conv1" in result.out.rpartition("to write these files again:")[2]


def test_without_onnxruntime_nothing_can_be_promised(
    faster: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = faster("quantize", "--engine", "numpy")
    assert (result.status, "digits.onnx: error: timing needs onnxruntime" in result.err) == (1, True)


def test_layers_that_lose_most_go_first_and_half_where_none_loses() -> None:
    layers = [Returned(name, integer, 1) for name, integer in (("a", 1.5), ("b", 4), ("c", 2), ("d", 0.5))]
    assert [each.layer for each in chosen(layers, 2)] == ["b"]
    assert [each.layer for each in chosen(layers, 3)] == ["b", "c"]
    assert [each.layer for each in chosen(layers, 9)] == ["b", "c", "a"]
    assert [each.layer for each in chosen(layers[3:], 9)] == ["d"]


def test_regions_are_found_again_after_the_fusions_of_onnxruntime(amct_tool: Amct, tmp_path: Path) -> None:
    """Every convolution and product of the float network and of the quantized one has a time."""
    amct_tool("quantize", DIGITS / "digits.onnx", "--profile", "qdq", "--no-report", "-o", tmp_path)
    float_copy = tmp_path / "digits.onnx"
    float_copy.write_bytes((DIGITS / "digits.onnx").read_bytes())
    inputs = {name: array[:1] for name, array in np.load(DIGITS / "calib.npz").items()}
    for file in (float_copy, tmp_path / "digits_qdq.onnx"):
        found = regions(file, LAYERS, inputs)
        assert all(found[layer] > 0 for layer in ("conv1", "conv2", "depthwise1", "conv4", "fc1")), (file, found)


def test_faster_is_decided_turn_by_turn() -> None:
    busy = Latency([2, 4, 8, 16])
    assert Latency([1, 3, 7, 15]).faster(busy)
    assert Latency([1, 3, 7, 17]).faster(busy)
    assert not Latency([1, 3, 9, 17]).faster(busy)
