"""The check of files for ATC: which files, kernels of a chip, the script, and its log."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper, save
from onnx.helper import make_node as node

from amct_opt.flows.atc import Checked, check, read_log, write_script
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError


def model(*nodes: Any, sizes: tuple[int | str, ...] = (1, 2, 4, 4)) -> ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("x", "y")]
    weight = helper.make_tensor("w", TensorProto.INT8, [2, 2, 1, 1], [1, 2, 3, 4])
    scale = helper.make_tensor("s", TensorProto.UINT64, [1], [0x3A83126F])
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight, scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


LAYER = (
    node("AscendQuant", ["x"], ["q"], "conv.quant", scale=1.0, offset=0.0, dst_type="INT16"),
    node("Conv", ["q", "w"], ["c"], "conv", kernel_shape=[1, 1]),
    node("AscendDequant", ["c", "s"], ["y"], "conv.dequant", dtype=0),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A deployable file, one in a folder beneath with a size that is not known, and a float model."""
    save(model(*LAYER), tmp_path / "a_deploy_model.onnx")
    (tmp_path / "in ner").mkdir()
    save(model(*LAYER, sizes=("batch", 2, "wide", 4)), tmp_path / "in ner" / "b.onnx")
    save(model(node("HardSwish", ["x"], ["y"], "act")), tmp_path / "float.onnx")
    return tmp_path


def statuses(checked: Checked) -> list[tuple[str, str]]:
    return [(each.type, each.status) for each in checked.all]


def test_files_with_operators_of_amct(folder: Path, capsys: Any) -> None:
    session = new_session()
    session.prints = ("note",)
    names = [each.name for each in check(folder, session)]
    assert names == ["a_deploy_model.onnx", "in ner/b.onnx"]
    assert (
        "note: float.onnx is not checked: it has no operator of AMCT's, unlike other files" in capsys.readouterr().err
    )
    (alone,) = check(folder / "float.onnx", session)
    assert statuses(alone) == [("HardSwish", "refused")]


def test_kernels_of_a_chip(folder: Path) -> None:
    session = new_session()
    session.chip = "910b"
    first, _ = check(folder, session)
    assert {each.status for each in first.nodes} == {"confirmed"}
    quant = first.kernels[0]
    assert (quant.node, quant.type, quant.status, quant.code) == ("conv.quant", "AscendQuant", "refused", "EZ3003")
    assert quant.reason.startswith("chip 910b has no AscendQuant of f32 -> i16")


STAND_IN = """#!/bin/bash
echo "ATC start working now, please wait for a moment."
for each in "$@"; do case $each in
  --soc_version=Ascend310P3) echo "ATC run success, welcome to the next use."; exit 0;;
  --insert_op_conf=*) echo "pictures ${each#*=}";;
  --input_shape=*) echo "shape ${each#*=}";;
esac; done
echo "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
echo "EZ3003: [PID: 7] 2026-02-25-14:07:19.774.362 No supported Ops kernel and engine are found for [conv.quant], \\
optype [AscendQuant]."
echo "        Possible Cause: The operator is not supported by the system."
exit 1
"""


def test_the_script_runs_and_its_log_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for ATC, for two versions of chips."""
    session = new_session()
    session.chip = "910b"
    checked = check(folder, session)
    write_script(checked, folder, folder / "atc.sh")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "atc").write_text(STAND_IN)
    (tools / "atc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    run = ["bash", str(folder / "atc.sh"), "Ascend310P3", "Ascend910B4"]
    assert "size_wide: set it to the size of axis 2 of x" in subprocess.run(run, capture_output=True, text=True).stderr
    monkeypatch.setenv("size_wide", "6")
    monkeypatch.setenv("ATC_OPTIONS", "--insert_op_conf=aipp.cfg")
    assert subprocess.run(run, capture_output=True, text=True).returncode == 0
    log = (folder / "atc.log").read_text()
    assert "shape x:1,2,6,4\npictures aipp.cfg" in log
    rows = read_log(log, checked)
    assert [(each.name, each.soc, each.says) for each in rows if not each.code] == [
        (name, "Ascend310P3", "compiled") for name in ("a_deploy_model.onnx", "in ner/b.onnx")
    ]
    errors = [each for each in rows if each.code]
    assert {(each.code, each.node, each.type) for each in errors} == {("EZ3003", "conv.quant", "AscendQuant")}
    assert {each.says for each in errors} == {"refused, as ATC does (chip-kernel)"}


def test_a_script_needs_a_version_and_another_file_stays(folder: Path) -> None:
    write_script(check(folder, new_session()), folder, folder / "atc.sh")
    assert subprocess.run(["bash", str(folder / "atc.sh")], capture_output=True).returncode == 2
    (folder / "mine.sh").write_text("echo mine\n")
    with pytest.raises(CompileError, match="exists, and is not a script of amct atc-check"):
        write_script(check(folder, new_session()), folder, folder / "mine.sh")


LOGS = {
    "type": ("E16002: No ONNX parser is registered for optype ai.onnx::13::AscendQuant.", "conv.quant", "registered"),
    "node and type": (
        "E19010: No parser is registered for Op [conv.quant, optype [ai.onnx::13::AscendQuant]].",
        "conv.quant",
        "registered",
    ),
    "operator of a plug-in": (
        "EZ3002: [PID: 1] 2026-01-01-00:00:00.000.001 unsupported [conv.dequant_Cast], optype [Cast].",
        "conv.dequant",
        "",
    ),
    "name": ("E13009: 2026-01-01-00:00:00.000.001 Op name conv.quant is repeated in the graph.", "conv.quant", "names"),
    "new form": (
        "[PID: 1] Not_Supported_Operator(E10501): IR for Op conv.quant is not found.",
        "conv.quant",
        "registered",
    ),
}


@pytest.mark.parametrize("form", LOGS)
def test_forms_of_errors(form: str, folder: Path) -> None:
    line, name, rule = LOGS[form]
    (own,) = read_log(f"ATC run failed\n{line}\n", check(folder / "a_deploy_model.onnx", new_session()))
    assert own.node == name
    assert own.says == (
        f"confirmed: the rule '{rule}' is wrong" if rule else "not checked (chip-kernel): --chip checks it"
    )


def test_lines_after_an_error_name_more_nodes(folder: Path) -> None:
    log = """E19010: No parser is registered for Op [conv.quant, optype [ai.onnx::13::AscendQuant]].
        TraceBack (most recent call last):
        No parser is registered for Op [conv.dequant, optype [ai.onnx::13::AscendDequant]].
        Model parse to graph failed, graph name:g.[FUNC:ModelParseToGraph][FILE:onnx_parser.cc][LINE:847]
"""
    rows = read_log(log, check(folder / "a_deploy_model.onnx", new_session()))
    assert [each.node for each in rows] == ["conv.quant", "conv.dequant"]


def test_a_log_of_other_files(folder: Path) -> None:
    with pytest.raises(CompileError, match="the log does not say which file it is about"):
        read_log("E16004: ONNX model has no graph.", check(folder, new_session()))
    with pytest.raises(CompileError, match=r"the log is about 'c\.onnx', which is not among the files"):
        read_log("amct-opt: c.onnx on Ascend310P3\n", check(folder, new_session()))


def test_command(folder: Path, amct_tool: Any) -> None:
    done = amct_tool("atc-check", folder)
    assert (done.status, "a_deploy_model.onnx   13      3           0         0" in done.out) == (0, True)
    assert (folder / "atc.sh").is_file()
    refused = amct_tool("atc-check", folder, "--chip", "910b", "--json")
    assert refused.status == 1
    assert refused.err.endswith("hint: the script runs ATC all the same; --log reads what it says\n")
    assert "error: ATC refuses 2 operations" in refused.err
    assert [*json.loads(refused.out)["checked"]] == ["a_deploy_model.onnx", "in ner/b.onnx"]
    (folder / "atc.log").write_text("ATC run success, welcome to the next use.\n")
    (folder / "atc.sh").unlink()
    logged = amct_tool("atc-check", folder / "a_deploy_model.onnx", "--log", folder / "atc.log")
    assert (logged.status, "compiled" in logged.out, (folder / "atc.sh").exists()) == (0, True, False)
    (folder / "text.onnx").write_text("no model")
    bad = amct_tool("atc-check", folder / "text.onnx")
    assert (bad.status, "is not an ONNX model" in bad.err) == (1, True)
