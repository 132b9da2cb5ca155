"""`--recipe detection`: which layers get activations of 16 bits, what is said of it, and that onnxruntime computes the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.flows.peer import CLOSE
from amct_opt.flows.recipes import RULE
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError, Remark

Array = np.ndarray[Any, Any]
SAMPLES = 64


def saved(folder: Path, weights: Mapping[str, Array], nodes: Sequence[onnx.NodeProto]) -> Path:
    """A network with these convolutions' weights, `NAME.w`, and data for it; outputs are `boxes` and `classes`."""
    values = {"x": 3, **{name: len(weights[name]) for name in ("boxes", "classes")}}
    x, *outputs = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", c, 6, 6]) for n, c in values.items())
    constants = [numpy_helper.from_array(array.astype(np.float32), f"{name}.w") for name, array in weights.items()]
    graph = helper.make_graph(nodes, "detector", [x], outputs, constants)
    file = folder / "detector.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    np.savez(folder / "data.npz", x=np.random.default_rng(1).normal(size=(SAMPLES, 3, 6, 6)).astype(np.float32))
    return file


def conv(source: str, name: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, f"{name}.w"], [name], name, **attributes)


def uneven(rng: np.random.Generator, suffix: str = "") -> dict[str, Array]:
    """Weights of a convolution that gives channels of very different sizes, and of a depthwise one that evens them out."""
    sizes = 2.0 ** np.arange(0, -8, -1)[:, None, None, None]
    mix, depth = rng.normal(size=(8, 3, 1, 1)) * sizes, rng.normal(size=(8, 1, 3, 3)) / sizes
    return {f"mix{suffix}": mix, f"depth{suffix}": depth}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Channels of very different sizes between two convolutions; two heads of different sizes read the second one's result."""
    rng = np.random.default_rng(0)
    heads = {"boxes": 30 * rng.normal(size=(4, 8, 1, 1)), "classes": 0.1 * rng.normal(size=(2, 8, 1, 1))}
    nodes = [conv("x", "mix"), conv("mix", "depth", group=8, pads=[1, 1, 1, 1])]
    return saved(tmp_path, {**uneven(rng), **heads}, [*nodes, *(conv("depth", name) for name in heads)])


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
    plain = amct_opt.quantize_file(model, model.parent / "plain", data, profile=profile, equalize=False, effort=0)
    found = amct_opt.quantize_file(model, folder, data, recipe="detection", equalize=False, session=session)
    remarks = {each.layer: each for each in said if each.rule == RULE}
    assert {name for name, each in remarks.items() if each.kind == "applied"} == {wide}
    assert {each.kind for name, each in remarks.items() if name != wide} == {"missed"}
    assert remarks.keys() == {"mix", "depth", "boxes", "classes"}
    shares = {}
    for name, each in remarks.items():
        bits, share = re.fullmatch(
            r"(.*): (\d+\.\d) % of the noise of output '\w+' that 16 bits everywhere take away is its own", each.reason
        ).groups()  # pyright: ignore[reportOptionalMemberAccess]
        assert bits == ("16 bits" if name == wide else "no more bits")
        shares[name] = float(share)
    assert shares[wide] > 90
    assert sum(shares.values()) == pytest.approx(100, abs=0.2)
    assert f"note: recipe: 1 of 4 layers have activations of 16 bits: {wide}\n" in capsys.readouterr().err
    graph = onnx.load(found.files["onnx"]).graph
    types = {each.name: each.data_type for each in graph.initializer}
    points = [types[node.input[2]] for node in graph.node if node.op_type == "QuantizeLinear"]
    assert points.count(point) == count
    assert sqnr(found) > sqnr(plain) + 6
    assert found.peer is not None
    assert min(each.sqnr for each in found.peer.outputs.values()) >= CLOSE


def test_they_are_float_on_a_chip_without_16_bits(model: Path, capsys) -> None:
    """The same layer as on any chip, and no AscendQuant to INT16 in the file for ATC."""
    session, said = new_session(), list[Remark]()
    session.chip, session.prints, session.on_remark = "910b", ("note",), said.append
    data = model.parent / "data.npz"
    found = amct_opt.quantize_file(
        model, model.parent / "out", data, recipe="detection", equalize=False, effort=0, session=session
    )
    (applied,) = [each for each in said if each.rule == RULE and each.kind == "applied"]
    assert applied.layer == "depth"
    assert applied.reason.startswith("float, as chip 910b has no kernel for 16 bits: ")
    note = "note: recipe: 1 of 4 layers are float, as chip 910b has no kernel for 16 bits: depth\n"
    assert note in capsys.readouterr().err
    nodes = onnx.load(found.files["deploy"]).graph.node
    quants = [a.s for node in nodes if node.op_type == "AscendQuant" for a in node.attribute if a.name == "dst_type"]
    assert quants == [b"INT8"] * 2
    assert "depth.dequant" not in {node.name for node in nodes}


def test_classes_count_as_much_as_boxes(tmp_path: Path) -> None:
    """A branch for each: the numbers of boxes are 300 times as large, and so is their noise, but both branches get 16 bits."""
    rng = np.random.default_rng(0)
    weights, nodes = dict[str, Array](), list[onnx.NodeProto]()
    for head, size, count in (("boxes", 30, 4), ("classes", 0.1, 2)):
        mix, depth = uneven(rng, f"_{head}").items()
        weights |= {**dict((mix, depth)), head: size * rng.normal(size=(count, 8, 1, 1))}
        nodes += [conv("x", mix[0]), conv(mix[0], depth[0], group=8, pads=[1, 1, 1, 1]), conv(depth[0], head)]
    session, said = new_session(), list[Remark]()
    session.on_remark = said.append
    file = saved(tmp_path, weights, nodes)
    amct_opt.quantize_file(
        file, tmp_path / "out", tmp_path / "data.npz", recipe="detection", equalize=False, session=session
    )
    chosen = {each.layer for each in said if each.rule == RULE and each.kind == "applied"}
    assert chosen == {"depth_boxes", "depth_classes"}


def test_many_good_numbers_do_not_hide_a_poor_output(tmp_path: Path) -> None:
    """A branch for each: the 80 channels of boxes are fine, and most of the noise that 16 bits take away is theirs."""
    rng = np.random.default_rng(0)
    plain = {"mix_boxes": rng.normal(size=(8, 3, 1, 1)), "depth_boxes": rng.normal(size=(8, 1, 3, 3))}
    heads = {"boxes": 30 * rng.normal(size=(80, 8, 1, 1)), "classes": 0.1 * rng.normal(size=(2, 8, 1, 1))}
    nodes = [
        each
        for head in heads
        for each in (
            conv("x", f"mix_{head}"),
            conv(f"mix_{head}", f"depth_{head}", group=8, pads=[1, 1, 1, 1]),
            conv(f"depth_{head}", head),
        )
    ]
    session, said = new_session(), list[Remark]()
    session.on_remark = said.append
    file, data = saved(tmp_path, {**plain, **uneven(rng, "_classes"), **heads}, nodes), tmp_path / "data.npz"
    amct_opt.quantize_file(file, tmp_path / "out", data, recipe="detection", equalize=False, session=session)
    found = {each.layer: each for each in said if each.rule == RULE}
    assert {name for name, each in found.items() if each.kind == "applied"} == {"depth_classes"}
    assert "% of the noise of output 'classes' that" in found["depth_classes"].reason


def test_options_that_write_the_same_file(amct_tool, model: Path) -> None:
    """`--layer-bits` of the layers in the remarks is what the recipe chose."""
    given, folder = (model, "--data", model.parent / "data.npz", "--no-report", "--no-equalize"), model.parent / "given"
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
        amct_opt.quantize(module, session, recipe="detection")  # pyright: ignore
