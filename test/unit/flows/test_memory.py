"""How much memory `amct quantize` takes next to the weights, which are mapped from their file."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from amct_opt.examine.reports.reading import read_run
from amct_opt.flows import measurement, network as networks, quantization
from amct_opt.runtime import integer
from amct_opt.runtime.kernels import quantization as kernels
from amct_opt.tools import amct
from amct_opt.transforms.quantization.numbers import least_error

SIZE, LAYERS = 768, 8
WEIGHTS = SIZE * SIZE * LAYERS * 4


def network(folder: Path, layers: int = LAYERS) -> Path:
    """Matrix products whose weights, seeded noise, are in a file next to the model."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, SIZE**-0.5, (SIZE, SIZE)).astype(np.float32) for _ in range(layers)]
    (folder / "weights.bin").write_bytes(b"".join(array.tobytes() for array in arrays))
    nodes, tensors = list[onnx.NodeProto](), list[TensorProto]()
    for i in range(layers):
        tensor = TensorProto(name=f"w{i}", dims=[SIZE, SIZE], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", "weights.bin"),
            ("offset", i * WEIGHTS // LAYERS),
            ("length", WEIGHTS // LAYERS),
        ):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"layer{i}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", SIZE]) for name in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", x0=rng.normal(size=(24, SIZE)).astype(np.float32))
    return folder / "net.onnx"


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the command imports is not counted."""
    model = network(tmp_path_factory.mktemp("imported"), 1)
    for profile in ("ascend", "qdq"):
        command = model, "--data", model.parent / "x.npz", "--profile", profile, "-o", model.parent / "out"
        assert amct.run(["quantize", *map(str, command), "-q"]) == 0


NEAREST = [
    ["--profile", "ascend", "--effort", "0"],
    ["--profile", "qdq", "--round-weights", "nearest", "--effort", "0"],
]


@pytest.mark.slow
@pytest.mark.parametrize("options", NEAREST)
def test_large_weights_are_in_memory_once(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As integers, and as float32 for the module that is measured: not for two modules at once, nor for each thread."""
    assert peak_of(network(tmp_path), options, monkeypatch) < 1.8 * WEIGHTS


@pytest.mark.slow
@pytest.mark.parametrize("options", NEAREST)
def test_larger_weights_become_floats_layer_by_layer(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (integer, kernels):
        monkeypatch.setattr(module, "KEPT_WEIGHT", WEIGHTS // LAYERS)
    assert peak_of(network(tmp_path, 2 * LAYERS), options, monkeypatch) < 0.8 * 2 * WEIGHTS


@pytest.mark.slow
def test_weights_are_rounded_layer_by_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What rounding by default takes depends on the largest layer, not on how many there are."""
    for module in (integer, kernels):
        monkeypatch.setattr(module, "KEPT_WEIGHT", WEIGHTS // LAYERS)
    few, many = (
        peak_of(network(tmp_path / str(layers), layers), ["--profile", "qdq", "--effort", "0"], monkeypatch)
        for layers in (LAYERS, 2 * LAYERS)
    )
    assert many - few < 0.5 * WEIGHTS


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_weights_alone_are_in_memory_as_integers_once(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte for each, and a 32nd of them as scales. Arrays stay in a file of their own."""
    monkeypatch.setattr(quantization, "HUGE", 0)
    monkeypatch.setattr(least_error, "_PIECE", 1 << 14)  # the network is not huge
    command = [network(tmp_path), "--weight-only", "--weight-bits", "4", "--group-size", "32", "--profile", profile]
    amct.run(["quantize", *map(str, command), "-o", str(tmp_path / "before"), "-q"])
    out = tmp_path / "out"
    assert traced([*command, "-o", out, "--no-report"]) < 0.5 * WEIGHTS
    files = json.loads((out / "summary.json").read_text())["files"]
    assert ("deploy" in files) == (profile == "ascend")
    assert (out / "net_qdq.onnx.data").exists()
    drawn = read_run(tmp_path / "before").layers
    assert [each.weights and each.weights.bits for each in drawn] == [4] * LAYERS
    assert drawn[-1].name in (tmp_path / "before" / "report.html").read_text()


def peak_of(model: Path, options: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The largest number of bytes that are allocated at once while activations are quantized, too."""
    monkeypatch.setattr(networks, "_LARGE", 0)
    monkeypatch.setattr(measurement, "threads_here", lambda: 2)
    data = ["--data", model.parent / "x.npz", "--engine", "numpy", "--no-report"]
    return traced([model, *data, "-o", model.parent / "out", *options])


def traced(argv: Sequence[object]) -> int:
    """The largest number of bytes that `amct quantize` has allocated at once."""
    tracemalloc.start()
    try:
        assert amct.run(["quantize", *map(str, argv)]) == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
