"""A detector as ultralytics exports it, for a chip without kernels for 16 bits: int8, and float where that costs most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import amct_opt
from amct_opt.flows.atc import check
from amct_opt.flows.recipes import RULE
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import Remark

from ..yolo import detector, pictures


@pytest.mark.slow
def test_a_deployable_file(tmp_path: Path) -> None:
    onnx.save(detector(), tmp_path / "yolo.onnx")
    images = pictures(12).transpose(0, 3, 1, 2).astype(np.float32) / 255
    np.savez(tmp_path / "images.npz", images=images)
    session, said = new_session(), list[Remark]()
    session.chip, session.on_remark = "910b", said.append
    model, data = tmp_path / "yolo.onnx", tmp_path / "images.npz"
    found = amct_opt.quantize_file(model, tmp_path / "out", data, recipe="detection", effort=0, session=session)
    in_float = {each.layer for each in said if each.rule == RULE and each.kind == "applied"}
    graph = onnx.load(found.files["deploy"]).graph
    weights = {each.name: each.data_type for each in graph.initializer}
    convs = {node.name: weights[node.input[1]] for node in graph.node if node.op_type == "Conv"}
    assert {name for name, kind in convs.items() if kind == onnx.TensorProto.FLOAT} == in_float
    assert 0 < len(in_float) < len(convs) / 2, "most of it is int8"
    kinds = {
        a.s for node in graph.node if node.op_type == "AscendQuant" for a in node.attribute if a.name == "dst_type"
    }
    assert kinds == {b"INT8"}
    accuracy = found.accuracy
    assert min(accuracy.parts.values()) > 40, "scores and boxes apart"
    checker = new_session()
    checker.chip = "910b"
    (checked,) = check(tmp_path / "out", checker)
    assert {each.status for each in checked.nodes} == {"confirmed"}
    assert {each.status for each in checked.kernels} == {"confirmed", "unknown"}
