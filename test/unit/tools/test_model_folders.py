"""Folders as optimum and onnxruntime-genai write them: which file is quantized, and what becomes of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

Amct = Callable[..., Any]
WEIGHT_ONLY = ("--profile", "qdq", "--weight-only", "--weight-bits", "4", "--group-size", "32", "--no-report")


def decoder(path: Path) -> None:
    """A product `x @ w`, and `past` with the result after it; the weight is in external data."""
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], "proj"),
        helper.make_node("Concat", ["past", "y"], ["present"], "cache", axis=1),
    ]
    x, past, y, present = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", length, 64])
        for name, length in {"x": "s", "past": "p", "y": "s", "present": "t"}.items()
    )
    graph = helper.make_graph(nodes, "g", [x, past], [y, present], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)


def make(folder: Path, *models: str, **texts: str) -> Path:
    folder.mkdir()
    for name in models:
        decoder(folder / name)
    for name, text in texts.items():
        (folder / f"{name}.json").write_text(text)
    return folder


def genai(name: object) -> str:
    return json.dumps({"model": {"decoder": {"filename": name}}, "search": {}})


def test_a_folder_becomes_a_folder_of_the_same_kind(amct_tool: Amct, tmp_path: Path) -> None:
    source = make(tmp_path / "in", "a.onnx", "vision.onnx", genai_config=genai("a.onnx"), tokenizer="{}")
    (source / "model.safetensors").write_bytes(b"float weights")
    out = tmp_path / "out"
    assert amct_tool("quantize", source, *WEIGHT_ONLY, "-o", out).status == 0
    copied = ("genai_config.json", "tokenizer.json", "vision.onnx", "vision.onnx.data")
    assert [(out / name).read_bytes() for name in copied] == [(source / name).read_bytes() for name in copied]
    assert not {"a.onnx.data", "model.safetensors"} & {each.name for each in out.iterdir()}
    kinds = [n.op_type for n in onnx.load(out / "a.onnx").graph.node]
    assert "DequantizeLinear" in kinds
    x, past = np.ones((1, 2, 64), np.float32), np.empty((1, 0, 64), np.float32)
    sessions = [onnxruntime.InferenceSession(folder / "a.onnx") for folder in (source, out)]
    (a, _), (b, present) = (map(np.asarray, each.run(None, {"x": x, "past": past})) for each in sessions)
    assert present.shape == (1, 2, 64)
    np.testing.assert_allclose(a, b, atol=64 * 4 / 15)  # a step of 4 bits for each of 64 weights up to 4


def test_optimum_has_a_decoder_in_several_forms(amct_tool: Amct, tmp_path: Path) -> None:
    source = make(tmp_path / "in", "decoder_model.onnx", "decoder_with_past_model.onnx", config="{}")
    out = tmp_path / "out"
    assert amct_tool("quantize", source, *WEIGHT_ONLY, "-o", out).status == 0
    assert {"decoder_with_past_model.onnx", "config.json"} < {each.name for each in out.iterdir()}
    assert not list(out.glob("decoder_model.onnx*"))


def test_links_are_copied_within_a_folder_and_from_hugging_faces_cache(amct_tool: Amct, tmp_path: Path) -> None:
    for name in ("blobs", "snapshots", "elsewhere"):
        (tmp_path / name).mkdir()
    source = make(tmp_path / "snapshots" / "1", "model.onnx", tokenizer="{}")
    for link, target in {
        "within": "snapshots/1/tokenizer.json",
        "config": "blobs/f0",
        "secret": "elsewhere/key",
    }.items():
        (tmp_path / target).write_text(target)
        (source / f"{link}.json").symlink_to(tmp_path / target)
    out = tmp_path / "out"
    done = amct_tool("quantize", source, *WEIGHT_ONLY, "-o", out)
    assert done.status == 0
    assert (out / "within.json").read_text() == "snapshots/1/tokenizer.json"
    assert (out / "config.json").read_text() == "blobs/f0"
    assert not (out / "secret.json").exists()
    assert (
        f"{source / 'secret.json'}: is not copied: it is a link to another folder, {tmp_path / 'elsewhere'}" in done.err
    )


def merged(path: Path) -> None:
    """A decoder with and without a cache in one file, as optimum writes it: both branches read the same weight."""
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    value = helper.make_tensor_value_info
    tail = [helper.make_node("MatMul", ["x", "w"], ["NAME"])]
    branches = {
        "then_branch": [*tail, helper.make_node("Concat", ["past", "NAME"], ["NAME_c"], axis=1)],
        "else_branch": [*tail, helper.make_node("Identity", ["NAME"], ["NAME_c"])],
    }
    made: dict[str, Any] = {}
    for name, nodes in branches.items():
        parsed = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        for node in parsed:
            for names in (node.input, node.output):
                names[:] = [each.replace("NAME", name) for each in names]
        outputs = [value(each, TensorProto.FLOAT, ["n", "s", 64]) for each in (name, f"{name}_c")]
        made[name] = helper.make_graph(parsed, name, [], outputs)
    node = helper.make_node("If", ["use_cache_branch"], ["y", "present"], "if", **made)
    inputs = [value(n, TensorProto.FLOAT, ["n", d, 64]) for n, d in (("x", "s"), ("past", "p"))]
    inputs.append(value("use_cache_branch", TensorProto.BOOL, [1]))
    outputs = [value(n, TensorProto.FLOAT, ["n", d, 64]) for n, d in (("y", "s"), ("present", "t"))]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def test_the_branch_of_a_merged_decoder(amct_tool: Amct, tmp_path: Path) -> None:
    source = make(tmp_path / "in", config="{}")
    merged(source / "decoder_model_merged.onnx")
    whole = amct_tool("quantize", source, *WEIGHT_ONLY, "-o", tmp_path / "whole")
    assert "nn.opaque" in whole.err, whole.err
    remarks = " ".join((tmp_path / "whole" / "remarks.yaml").read_text().split())
    assert "of 5 nodes inside, 2 MatMul stay float; --input-value use_cache_branch=true takes one branch" in remarks
    out = tmp_path / "out"
    done = amct_tool("quantize", source, *WEIGHT_ONLY, "--input-value", "use_cache_branch=true", "-o", out)
    assert done.status == 0, done.err
    written = onnx.load(out / "decoder_model_merged.onnx")
    assert [i.name for i in written.graph.input] == ["x", "past"]
    assert {"DequantizeLinear", "MatMul"} < {n.op_type for n in written.graph.node}
    session = onnxruntime.InferenceSession(written.SerializeToString())
    past = np.empty((1, 0, 64), np.float32)
    for length in (1, 2):
        _, past = map(np.asarray, session.run(None, {"x": np.ones((1, 1, 64), np.float32), "past": past}))
        assert past.shape == (1, length, 64)


@pytest.mark.parametrize("text", ["use_cache", "=1", "x=yes", "x=1;x=2", "x=nan"])
def test_malformed_values(amct_tool: Amct, tmp_path: Path, text: str) -> None:
    source = make(tmp_path / "in", "model.onnx")
    done = amct_tool("support", source, "--input-value", text)
    assert (done.status, "--input-value: '" in done.err) == (1, True), done.err


BAD: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "several": (("decoder.onnx", "encoder.onnx"), {}, "in: error: has more than one model: decoder.onnx, encoder.onnx"),
    "none": ((), {"config": "{}"}, "in: error: has no ONNX file"),
    "missing": (("b.onnx",), {"genai_config": genai("a.onnx")}, "names 'a.onnx' as the decoder, and there is no such"),
    "outside": ((), {"genai_config": genai("../a.onnx")}, "which is not a file of its folder"),
    "a number": ((), {"genai_config": genai(1)}, "names 1 as the decoder, which is not a file of its folder"),
    "nested": ((), {"genai_config": "[" * 99999}, "genai_config.json: error: is nested too deeply"),
    "no decoder": ((), {"genai_config": "{}"}, "genai_config.json: error: names no file of a decoder"),
    "no JSON": ((), {"genai_config": "{"}, "genai_config.json:1:2: error: is not JSON"),
    "neither": ((), {}, "in: error: is a folder, but not a SavedModel"),
}


@pytest.mark.parametrize("case", BAD)
def test_folders_without_one_model(amct_tool: Amct, tmp_path: Path, case: str) -> None:
    models, texts, message = BAD[case]
    done = amct_tool("quantize", make(tmp_path / "in", *models, **texts), *WEIGHT_ONLY, "-o", tmp_path / "out")
    assert (done.status, message in done.err) == (1, True), done.err
    assert not (tmp_path / "out").exists()


def test_models_in_a_folder_inside(amct_tool: Amct, tmp_path: Path) -> None:
    source = make(tmp_path / "in", config="{}")
    make(source / "onnx", "model.onnx")
    done = amct_tool("support", source)
    assert (done.status, f"name it: {source / 'onnx'}" in done.err) == (1, True), done.err


def test_the_folder_that_was_read_is_not_written(amct_tool: Amct, tmp_path: Path) -> None:
    source = make(tmp_path / "in", "model.onnx", config="{}")
    done = amct_tool("quantize", source, *WEIGHT_ONLY, "-o", source)
    assert (done.status, "would overwrite a file that was read" in done.err) == (1, True), done.err
