"""What `--json` prints: one object and nothing else on stdout, with the keys that docs/generated/commands.md lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from amct_opt.tools import amct

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"
KEYS = {
    command: re.findall("`(\\w+)`", keys)
    for command, keys in re.findall(
        r"^\| `amct ([a-z-]+)` \| (`.*`) \|$", (ROOT / "docs/generated/commands.md").read_text(), re.M
    )
}
EVALUATOR = """
import numpy as np


class Evaluator:
    def calibration(self, model):
        model.run({"x": np.ones((2, 2), np.float32)})

    def evaluate(self, model):
        return np.float32(1.5)

    def metric_eval(self, original, metric):
        return True, np.float32(0.0)
"""
COMMANDS = {
    "support": "m.mlir",
    "quantize": "m.mlir --data x.npz --labels y.npy -o out --no-report --also record,ascend",
    "report": "out",
    "calibration": "--model m.mlir --input_shape x:2,2 --data_dir bins --data_types float32 --save_path results/m",
    "auto-calibration": "--model m.mlir --evaluator judge.py --save_path results/m",
    "convert": "--model m.mlir --record_file out/m_record.txt --save_path results/m",
    "atc-check": "results/m_deploy_model.onnx",
    "create-config": "m.mlir -o config.json",
    "sensitivity": "m.mlir --data x.npz",
    "tune": "m.mlir --data x.npz --sqnr 3 --profile qdq -o tuned",
    "run": "m.mlir --data x.npz -o outputs.npz",
    "compare": "m.mlir out/m_ascend.mlir --data x.npz",
    "bisect": "m.mlir m.mlir --data x.npz",
    "benchmark": "out/m_qdq.onnx --rounds 1",
    "check": "tuned/m_qdq.onnx --for onnxruntime",
    "evaluate": "m.mlir out/m_qdq.onnx --data x.npz --labels y.npy",
}


@pytest.fixture
def folder(files, monkeypatch: pytest.MonkeyPatch) -> Path:
    files.module()
    values = np.random.default_rng(0).standard_normal((12, 2)).astype(np.float32)
    files.npz(x=values)
    np.save(files.folder / "y.npy", np.arange(12) % 2)
    files.text("judge.py", EVALUATOR)
    (files.folder / "bins").mkdir()
    values[:2].tofile(files.folder / "bins" / "0.bin")
    monkeypatch.chdir(files.folder)
    return files.folder


def test_json_of_every_command(folder: Path, amct_tool) -> None:
    """In this order: some read what others wrote."""
    assert {*COMMANDS, "reduce"} == amct.parser().commands().keys() == KEYS.keys(), "tests of reduction run reduce"
    for command, words in COMMANDS.items():
        result = amct_tool(command, *words.split(), "--json")
        assert result.status == 0, (command, result.err)
        printed = json.loads(result.out)
        assert list(printed) == ["command", "version", *KEYS[command]], command
        assert printed["command"] == command
        if "files" in printed:
            assert printed["files"]
            assert all(Path(file).is_file() for file in printed["files"].values())


def test_summary_is_printed(folder: Path, amct_tool) -> None:
    """The data of summary.json, with the paths of files in place of their names."""
    result = amct_tool("quantize", "m.mlir", "--data", "x.npz", "-o", "out", "--no-report", "--json", "-q")
    printed, written = json.loads(result.out), json.loads(Path("out/summary.json").read_text("utf-8"))
    files = {role: f"out/{name}" for role, name in written["files"].items()}
    assert printed == {"command": "quantize", "version": printed["version"], **written, "files": files}


def test_a_goal_that_is_missed_is_data_and_an_error(folder: Path, amct_tool) -> None:
    result = amct_tool("tune", "m.mlir", "--data", "x.npz", "--sqnr", "200", "-o", "tuned", "--json")
    assert result.status == 1
    assert json.loads(result.out)["search"]["reached"] is False
    assert "error: no trial reaches the goal" in result.err
