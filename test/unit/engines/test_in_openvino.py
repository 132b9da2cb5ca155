"""The engine `openvino`: modules and files, by command."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt.engines.in_openvino import compiled
from amct_opt.support.diagnostics import CompileError

from ..conftest import Amct

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "heldout.npz"
SKIPPED = "the extra `openvino` is not installed"


def test_values_are_those_of_the_interpreter(amct_tool: Amct, tmp_path: Path) -> None:
    """Also those of each layer, and of a batch at a time."""
    pytest.importorskip("openvino", reason=SKIPPED)
    for engine in ("numpy", "openvino"):
        command = ["run", MODEL, "--inputs", DATA, "--batch", 50, "--engine", engine, "-o", tmp_path / f"{engine}.npz"]
        assert amct_tool(*command).status == 0
    expected, found = (np.load(tmp_path / f"{engine}.npz")["logits"] for engine in ("numpy", "openvino"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    result = amct_tool("bisect", MODEL, MODEL, "--inputs", DATA, "--batch", 8, "--engine", "openvino", "--json")
    layers = json.loads(result.out)["layers"]
    assert result.status == 0
    assert len(layers) > 8


@pytest.mark.slow
def test_quantized_files_are_judged_and_timed(amct_tool: Amct, tmp_path: Path) -> None:
    """The files themselves, as OpenVINO computes them in integers."""
    pytest.importorskip("openvino", reason=SKIPPED)
    quantize = ["quantize", MODEL, "--data", DIGITS / "calib.npz", "--profile", "qdq", "-o", tmp_path]
    assert amct_tool(*quantize, "--no-report", "--effort", 0, "--quiet").status == 0
    file = tmp_path / "digits_qdq.onnx"
    labels = ("--labels", DIGITS / "heldout_labels.npy")
    result = amct_tool("evaluate", MODEL, file, "--data", DATA, *labels, "--engine", "openvino", "--json")
    scored = json.loads(result.out)["models"]
    assert [each["engine"] for each in scored] == ["openvino", "openvino"]
    assert all(each["top1"]["percent"] > 90 for each in scored)

    result = amct_tool("benchmark", MODEL, file, "--engine", "openvino", "--rounds", 3, "--json")
    timed = json.loads(result.out)
    assert timed["openvino"][:2] == "20"
    assert [each["runs"] for each in timed["models"]] == [3, 3]


@pytest.mark.slow
def test_a_residual_is_added_before_rounding(amct_tool: Amct, tmp_path: Path, rng: np.random.Generator) -> None:
    """OpenVINO computes what the simulation of its profile does, but for ties; of profile qdq it skips a rounding."""
    pytest.importorskip("openvino", reason=SKIPPED)
    weights = [numpy_helper.from_array(rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32), f"w{i}") for i in range(3)]
    conv = partial(helper.make_node, "Conv", pads=[1] * 4)
    nodes = [
        *(conv(["x", "w0"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), conv(["b", "w1"], ["c"])),
        *(helper.make_node("Add", ["c", "b"], ["d"]), conv(["d", "w2"], ["e"])),
        *(helper.make_node("Sigmoid", ["e"], ["f"]), helper.make_node("Mul", ["e", "f"], ["y"])),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 16, 16]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [x], [y], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(32, 8, 16, 16)).astype(np.float32))
    apart: dict[str, int] = {}
    for profile in ("qdq", "openvino"):
        out = tmp_path / profile
        data = ("--data", tmp_path / "x.npz")
        quantize = ["quantize", tmp_path / "m.onnx", *data, "--profile", profile, "-o", out, "--also", "nn"]
        assert amct_tool(*quantize, "--no-report", "--effort", 0, "--quiet").status == 0
        pair = (out / "m_nn.mlir", out / "m_qdq.onnx")
        compared = json.loads(amct_tool("compare", *pair, *data, "--engine", "openvino", "--json").out)
        apart[profile] = compared["outputs"]["y"]["differing"]
    assert 20 * apart["openvino"] < apart["qdq"]
    points = [
        node.input[0]
        for node in onnx.load(tmp_path / "openvino" / "m_qdq.onnx").graph.node
        if node.op_type == "QuantizeLinear"
    ]
    assert points == ["x", "b", "d", "y_1"]


@pytest.mark.parametrize("command", ["run", "evaluate", "benchmark"])
def test_without_openvino_there_is_one_line(
    command: str, amct_tool: Amct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    own = {"run": ["-o", tmp_path / "y.npz"], "evaluate": ["--labels", DIGITS / "heldout_labels.npy"], "benchmark": []}
    result = amct_tool(command, MODEL, "--data", DATA, *own[command], "--engine", "openvino")
    assert result.status == 1
    assert result.err.endswith("error: OpenVINO is not installed\n  hint: pip install 'amct-opt[openvino]'\n")


def test_a_file_that_it_does_not_take_is_located(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason=SKIPPED)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Own", ["x"], ["y"], domain="own")], "graph", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("own", 1)], ir_version=8), tmp_path / "m.onnx"
    )
    message = r"m\.onnx: error: OpenVINO does not take the file: No conversion rule found for operations: own\.Own"
    with pytest.raises(CompileError, match=message):
        compiled(tmp_path / "m.onnx")
