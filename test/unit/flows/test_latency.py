"""Timing in onnxruntime: what is said of it, not how long anything takes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt.flows import latency, measurement
from amct_opt.flows.latency import Latencies, Latency, benchmark, side_by_side
from amct_opt.flows.options import Timed
from amct_opt.support.diagnostics import CompileError

from ..conftest import Amct

pytest.importorskip("onnxruntime", reason="the extra `onnxruntime` is not installed")

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def images(count: int) -> dict[str, Any]:
    return {name: array[:count] for name, array in np.load(DIGITS / "calib.npz").items()}


def test_slower_is_decided_turn_by_turn() -> None:
    """Also where turns vary more than the models differ, as on a machine that does something else."""
    busy = [1.0, 9.0, 1.0, 5.0, 1.0, 1.0, 30.0, 1.0]
    fast, slow = Latency(busy), Latency([2 * each for each in busy])
    assert (slow.slower(fast), fast.slower(slow), fast.slower(fast)) == (True, False, False)
    assert Latency([1.05 * each for each in busy]).slower(fast) is False
    assert Latency([each * factor for each, factor in zip(busy, [1, 2] * 4, strict=True)]).slower(fast) is None
    assert slow.slower(fast) is True
    assert Latency([2.0] * 6).slower(Latency([1.0] * 6)) is None, "by chance in one of 64"


def test_two_models_are_timed_while_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the number of rounds: the second takes longer in every other turn."""
    turns = iter(each for pair in zip([1.0] * 100, [1.0, 2.0] * 50, strict=True) for each in pair)
    monkeypatch.setattr(latency, "_run", lambda *_: next(turns))
    monkeypatch.setattr(latency, "_opened", lambda *_: None)
    monkeypatch.setattr(latency, "SECONDS", 60)
    found = side_by_side({DIGITS / "digits.onnx": {}, DIGITS: {}}, 20)
    assert [len(each.seconds) for each in found.models.values()] == [20, 20]


def test_each_file_runs_in_turns_in_a_process_of_its_own() -> None:
    files = [DIGITS / "digits.onnx"]
    found = benchmark(files, images(4), threads=1, warm_up=1, rounds=3)
    each = found.models[files[0]]
    assert (len(each.seconds), found.threads, found.batch) == (3, 1, 4)
    assert each.peak > 10e6
    assert "4 samples in a run" in str(found)


@pytest.mark.parametrize("inputs", [{"image": np.zeros((1, 1, 9, 8), np.float32)}, {}], ids=["shape", "missing"])
def test_what_does_not_fit_is_an_error_at_the_file(inputs: Mapping[str, Any]) -> None:
    file = DIGITS / "digits.onnx"
    with pytest.raises(CompileError, match=r"digits\.onnx: error: onnxruntime does not run the file"):
        benchmark([file], inputs, warm_up=1, rounds=1)
    with pytest.raises(CompileError, match="onnxruntime does not run the file"):
        side_by_side({file: inputs})


def test_another_file_is_an_error_at_it(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07no model")
    with pytest.raises(CompileError, match=r"bad\.onnx: error: onnxruntime does not take the file"):
        benchmark([tmp_path / "bad.onnx"], images(1), warm_up=1, rounds=1)


@pytest.mark.parametrize(
    ("profile", "engine", "advice"),
    [
        ("ascend", "onnxruntime", "; profile ascend is for Huawei's Ascend NPUs, --profile qdq for onnxruntime"),
        ("qdq", "onnxruntime", "; --faster-than-float returns"),
        ("openvino", "openvino", "\n"),
    ],
)
def test_a_file_that_is_slower_than_float_is_warned_of(
    amct_tool: Amct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, engine: Timed, advice: str
) -> None:
    def timed(models: Mapping[Path, Any], _: int, used: Timed) -> Latencies:
        times = [Latency([0.001] * 7), Latency([0.002] * 7)]
        return Latencies(dict(zip(models, times, strict=True)), "1", 1, 1, used)

    monkeypatch.setattr(latency, "SECONDS", 1)
    monkeypatch.setattr(latency, "side_by_side", timed)
    command = ["quantize", DIGITS / "digits.onnx", "--data", DIGITS / "calib.npz", "-o", tmp_path / "out"]
    result = amct_tool(*command, "--profile", profile)
    assert f"speed         0.50 times as fast as float: 2 ms, float 1 ms ({engine} " in result.out
    assert (
        f"{engine} takes 2 ms for digits_qdq.onnx on this machine, and 1 ms for the float model{advice}" in result.err
    )


@pytest.mark.parametrize("reason", ["weights have more than 0 MiB", "onnxruntime does not run the file"])
def test_what_is_not_measured_is_said(
    amct_tool: Amct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """The files are written all the same."""

    def fails(*_: Any) -> Latencies:
        raise CompileError("onnxruntime does not run the file")

    monkeypatch.setattr(latency, "SECONDS", 1)
    monkeypatch.setattr(latency, "side_by_side", fails)
    if "weights" in reason:
        monkeypatch.setattr(measurement, "HUGE", 0)
    command = ["quantize", DIGITS / "digits.onnx", "--data", DIGITS / "calib.npz", "-o", tmp_path / "out"]
    result = amct_tool(*command)
    assert (result.status, f"latency is not measured: {reason}" in result.err) == (0, True)
    assert (tmp_path / "out" / "digits_qdq.onnx").is_file()


def test_inputs_that_are_made_up_are_not_the_fault_of_the_file(
    amct_tool: Amct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`z` has the length of `x` and `y` together, which their types do not say."""
    names = {"x": ["N", "S", 4], "y": ["N", "P", 4], "z": ["N", "T", 4], "out": ["N", "T", 4]}
    *inputs, out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in names.items())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Concat", ["h", "y"], ["c"], axis=1),
        helper.make_node("Add", ["c", "z"], ["out"]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [out], [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    monkeypatch.setattr(latency, "SECONDS", 1)
    result = amct_tool("quantize", model, "--weight-only", "-o", tmp_path / "out")
    said = (
        "latency is not measured on inputs that are made up without --data: onnxruntime does not run the file on these"
    )
    assert (result.status, f"{model}: {said}" in result.err) == (0, True)
    result = amct_tool("benchmark", model, "--rounds", "1")
    assert f"{model}: error: onnxruntime does not run the file on these inputs: " in result.err
    assert (result.status, "hint: these inputs are made up: give --data" in result.err) == (1, True)


def test_the_command(amct_tool: Amct) -> None:
    result = amct_tool("benchmark", DIGITS / "digits.onnx", "--batch", "3", "--rounds", "2", "--threads", "2")
    assert "2 threads, 3 samples in a run" in result.out
    result = amct_tool("benchmark", DIGITS / "digits.onnx", "--data", DIGITS / "heldout.npz", "--rounds", "1", "--json")
    assert json.loads(result.out)["models"][0]["runs"] == 1


def test_the_first_samples_are_those_of_a_run(amct_tool: Amct) -> None:
    run = ("benchmark", DIGITS / "digits.onnx", "--num-samples", "3", "--rounds", "1")
    assert "1 thread, 3 samples in a run" in amct_tool(*run, "--data", DIGITS / "heldout.npz").out
    result = amct_tool(*run)
    assert (result.status, "--num-samples: there are no samples without data" in result.err) == (2, True)
