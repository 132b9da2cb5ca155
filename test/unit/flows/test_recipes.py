"""`--recipe detection`: which layers get activations of 16 bits, what is said of it, and that onnxruntime computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.diagnostics import CompileError, Remark
from amct_opt.flows.peer import CLOSE
from amct_opt.flows.recipes import RULE
from amct_opt.universe import new_session

SAMPLES = 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Convolutions, of which the first gives channels of very different sizes and the second, a depthwise one, evens them out;
    and two heads of different sizes, which read its result.
    """
    rng = np.random.default_rng(0)
    sizes = 2.0 ** np.arange(0, -8, -1)[:, None, None, None]
    weights = {
        "mix": rng.normal(size=(8, 3, 1, 1)) * sizes,
        "depth": rng.normal(size=(8, 1, 3, 3)) / sizes,
        "boxes": 30 * rng.normal(size=(4, 8, 1, 1)),
        "classes": 0.1 * rng.normal(size=(2, 8, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "mix.w"], ["m"], "mix"),
        helper.make_node("Conv", ["m", "depth.w"], ["d"], "depth", group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["d", "boxes.w"], ["boxes"], "boxes"),
        helper.make_node("Conv", ["d", "classes.w"], ["classes"], "classes"),
    ]
    values = {"x": 3, "boxes": 4, "classes": 2}
    x, *outputs = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", c, 6, 6]) for n, c in values.items())
    constants = [numpy_helper.from_array(array.astype(np.float32), f"{name}.w") for name, array in weights.items()]
    graph = helper.make_graph(nodes, "detector", [x], outputs, constants)
    file = tmp_path / "detector.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(SAMPLES, 3, 6, 6)).astype(np.float32))
    return file


def sqnr(summary) -> float:
    return min(each.sqnr for each in summary.accuracy.fake_quantized.values())


@pytest.mark.parametrize(
    ("profile", "wide", "point", "count"),
    [("ascend", "depth", TensorProto.INT16, 1), ("qdq", "mix", TensorProto.UINT16, 2)],
)
def test_the_layers_that_need_them(model: Path, profile: str, wide: str, point: int, count: int, capsys) -> None:
    """In ascend it is the depthwise layer, by its input; in qdq the one that makes it, by its result and the input of the
    graph, which only it reads. No other value has 16 bits, and onnxruntime computes what is simulated.
    """
    folder, data, session = model.parent / "out", model.parent / "data.npz", new_session()
    said: list[Remark] = []
    session.profile, session.prints, session.on_remark = profile, ("note",), said.append
    plain = amct_opt.quantize_file(model, model.parent / "plain", data, profile=profile)
    found = amct_opt.quantize_file(model, folder, data, recipe="detection", session=session)
    remarks = {each.layer: each for each in said if each.rule == RULE}
    assert {name for name, each in remarks.items() if each.kind == "applied"} == {wide}
    assert {each.kind for name, each in remarks.items() if name != wide} == {"missed"}
    assert remarks.keys() == {"mix", "depth", "boxes", "classes"}
    assert remarks[wide].reason.startswith("16 bits: 9")
    assert " % of the noise at the outputs that 16 bits everywhere take away is its own" in remarks[wide].reason
    assert f"note: recipe: 1 of 4 layers have activations of 16 bits: {wide}\n" in capsys.readouterr().err
    graph = onnx.load(found.files["onnx"]).graph
    types = {each.name: each.data_type for each in graph.initializer}
    points = [types[node.input[2]] for node in graph.node if node.op_type == "QuantizeLinear"]
    assert points.count(point) == count
    assert sqnr(found) > sqnr(plain) + 6
    assert found.peer is not None
    assert min(each.sqnr for each in found.peer.outputs.values()) >= CLOSE


def test_options_that_write_the_same_file(amct_tool, model: Path) -> None:
    """`--layer-bits` of the layers in the remarks is what the recipe chose."""
    given, folder = (model, "--data", model.parent / "data.npz", "--no-report"), model.parent / "given"
    assert amct_tool("quantize", *given, "--recipe", "detection", "-o", model.parent / "out").status == 0
    assert amct_tool("quantize", *given, "--layer-bits", "depth:16", "-o", folder).status == 0
    assert (folder / "detector_qdq.onnx").read_bytes() == (model.parent / "out" / "detector_qdq.onnx").read_bytes()


@pytest.mark.parametrize("options", [("--profile", "ppq"), ("--bits", "16"), ("--weight-only",)])
def test_no_layer_can_have_them(amct_tool, model: Path, options: tuple[str, ...]) -> None:
    out = model.parent / "out"
    result = amct_tool(
        "quantize", model, "--data", model.parent / "data.npz", "--recipe", "detection", *options, "-o", out
    )
    assert result.status == 1
    assert "detector.onnx: error: recipe: no layer can have activations of 16 bits in profile" in result.err
    assert not out.exists()


def test_the_opset_has_no_16_bits(amct_tool, model: Path) -> None:
    given = "--recipe", "detection", "--opset", "17", "-o", model.parent / "out"
    result = amct_tool("quantize", model, "--data", model.parent / "data.npz", *given)
    assert result.status == 1
    assert "error: opset 17 has no quantization with dst_type INT16" in result.err


def test_a_module_between_steps_has_no_recipe(model: Path) -> None:
    module, session = amct_opt.load(model)
    with pytest.raises(CompileError, match="only a model in one step takes recipe"):
        amct_opt.quantize(module, session, recipe="detection")  # pyright: ignore[reportCallIssue]
