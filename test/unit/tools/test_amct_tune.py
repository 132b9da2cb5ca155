"""`amct tune`: it stops at its goal, leaves the fewest layers in float, and goes on where it was stopped."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import numpy_helper

import amct_opt
from amct_opt.flows import quantization
from amct_opt.flows.tune import network, search
from amct_opt.flows.tune.budget import Costs
from amct_opt.flows.tune.trials import Trials, TuneTrial
from amct_opt.runtime.metrics import Parts

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEPS", ({"observer": "minmax"},))


@pytest.mark.slow
def test_bits_are_spent_before_layers_stay_in_float(amct_tool, tmp_path: Path) -> None:
    """With 3 bits the goal is missed: some layers get weights of 4 and 8 bits and inputs of 16, as few bits as possible. The
    options that are printed write the same file.
    """
    result = amct_tool("tune", MODEL, "--data", DATA, "--weight-bits", "3", "--sqnr", "20", "-o", tmp_path)
    assert result.status == 0, result.err
    log = json.loads((tmp_path / "tune.json").read_text())
    best, widest = (f((t for t in log["trials"] if t["reached"]), key=lambda t: t["costs"]["read"]) for f in (min, max))
    assert not any(t["changes"].get("skip_layers") for t in log["trials"])
    assert {each.rpartition(":")[2] for each in widest["changes"]["layer_bits"]} == {"16"}
    assert best["costs"]["read"] < 0.9 * widest["costs"]["read"]
    missed = [t["costs"]["read"] for t in log["trials"] if not t["reached"]]
    assert best["costs"]["read"] < 1.03 * max(missed)
    assert "noise as given" in result.out
    assert " kB in the best trial, 87.6 in float" in result.out
    command = shlex.split(result.out.splitlines()[-1])
    assert command[command.index("--layer-weight-bits") + 1] == ",".join(best["changes"]["layer_weight_bits"])
    settings = yaml.safe_load((tmp_path / "tuned.yaml").read_text())
    assert settings.pop("data") == str(DATA)
    assert settings.pop("weight-bits") == 3
    assert settings.pop("effort") == 0
    assert {name.replace("-", "_"): value for name, value in settings.items()} == best["changes"]
    written = (tmp_path / "digits_qdq.onnx").read_bytes()
    for number, again in enumerate(
        (command[2:-2], [str(MODEL), "--trust-settings", "--settings", tmp_path / "tuned.yaml"])
    ):
        folder = tmp_path / f"again{number}"
        assert amct_tool("quantize", *again, "-o", folder).status == 0
        assert (folder / "digits_qdq.onnx").read_bytes() == written
    given = "--trust-settings", "--settings", tmp_path / "tuned.yaml"
    refused = amct_tool("tune", MODEL, *given, "--sqnr", "20", "-o", tmp_path)
    assert "tuned.yaml: error: would overwrite a file that was read" in refused.err


@pytest.mark.slow
def test_widths_of_single_layers_hold(amct_tool, tmp_path: Path) -> None:
    """Bits that are given to a layer are those of all trials."""
    given = "--weight-bits", "3", "--layer-weight-bits", "conv2:3", "--layer-bits", "conv2:8,fc1:8"
    result = amct_tool("tune", MODEL, "--data", DATA, *given, "--sqnr", "25", "-o", tmp_path)
    assert "widths" in result.out
    trials = json.loads((tmp_path / "tune.json").read_text())["trials"]
    chosen = {
        each for t in trials for name in ("layer_weight_bits", "layer_bits") for each in t["changes"].get(name, ())
    }
    assert {"conv1:8", "conv3:16"} <= chosen
    assert not any(each.startswith(("conv2:", "fc1:")) for each in chosen)


@pytest.mark.parametrize(
    ("count", "judging", "held"), [(20, 8, "2 samples"), (12, 11, "1 sample"), (7, 7, "0 samples")]
)
def test_two_samples_do_not_choose(amct_tool, tmp_path: Path, count: int, judging: int, held: str) -> None:
    """Others do, or each half of the samples for the other; the result is that of all samples that calibrate."""
    given = MODEL, "--data", DATA, "--num-samples", str(count)
    result = amct_tool("tune", *given, "--sqnr", "20", "-o", tmp_path)
    assert result.status == 0, result.err
    how = "each judging trials that others calibrate"
    assert f"{judging} samples, {how}: {held} held back would be too few" in result.out
    assert re.search(r"best trial +\d+\.\d\d dB: \d+\.\d to \d+\.\d dB in single runs", result.out)
    log = json.loads((tmp_path / "tune.json").read_text())
    assert sum(len(run[0]) for runs in log["errors"].values() for run in runs) == judging
    assert amct_tool("quantize", *given, "--effort", "0", "-o", tmp_path / "again").status == 0
    assert (tmp_path / "again" / "digits_qdq.onnx").read_bytes() == (tmp_path / "digits_qdq.onnx").read_bytes()


def test_what_is_better_by_chance_is_not_better(tmp_path: Path, rng: np.random.Generator) -> None:
    """Nor does an interrupted search forget by how much the best trial missed."""
    module, session = amct_opt.load(MODEL)
    outputs, noise = rng.normal(size=(8, 10)), rng.normal(size=(8, 10))
    one = noise.copy()
    one[0] *= 30  # the worst sample alone makes it look better without it

    def add(results: Trials, name: str, own: np.ndarray) -> TuneTrial:
        errors = Parts(by_sample=True)
        errors.add({"y": outputs}, {"y": outputs + own})
        trial = TuneTrial({"observer": name}, errors.worst[1], False, True, Costs(1, 0, 6, 1), 0.1)
        return results.add(trial, errors, module, session)

    results = Trials(tmp_path / "m.onnx", tmp_path / "tune.json", "key", None)
    first, second = add(results, "mse", one), add(results, "minmax", noise)
    assert second.quality > first.quality + 20
    assert (first.better, second.better) == (True, False)
    again = Trials(tmp_path / "m.onnx", tmp_path / "tune.json", "key", None)
    again.resume()
    assert again.best == first
    assert add(again, "ifmr", 0.1 * one).better
    assert again.best.changes == {"observer": "ifmr"}


def test_what_is_refused_is_not_tried(amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a rotation of a network that has nothing to rotate."""
    monkeypatch.setattr(search, "STEPS", ({"correct_bias": True}, {"rotate": True}, {"observer": "minmax"}))
    monkeypatch.setattr(search.TuneSearch, "spend", lambda *_: None)
    goal = "--data", DATA, "--num-samples", "20", "--sqnr", "90", "-o", tmp_path
    assert "no trial reaches the goal" in amct_tool("tune", MODEL, "--no-correct-bias", *goal).err
    log = json.loads((tmp_path / "tune.json").read_text())
    assert [each["changes"] for each in log["trials"]] == [{}, {"observer": "minmax"}]


def test_the_choice_of_widths_requires_scipy(amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials before are on disk."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    result = amct_tool("tune", MODEL, "--data", DATA, "--weight-bits", "3", "--sqnr", "20", "-o", tmp_path)
    assert result.status == 1
    assert "error: the choice of widths requires scipy\n  hint: pip install 'amct-opt[tune]'" in result.err
    assert len(json.loads((tmp_path / "tune.json").read_text())["trials"]) == 3


@pytest.mark.slow
def test_the_fewest_layers_stay_in_float(amct_tool, tmp_path: Path) -> None:
    """The goal is beyond all bits: layers are left in float, and one fewer would not do."""
    result = amct_tool("tune", MODEL, "--data", DATA, "--profile", "qdq", "--sqnr", "50", "-o", tmp_path)
    assert result.status == 0, result.err
    trials = json.loads((tmp_path / "tune.json").read_text())["trials"]
    best = min(
        (t for t in trials if t["reached"]), key=lambda t: (len(t["changes"]["skip_layers"]), t["costs"]["read"])
    )
    layers = best["changes"]["skip_layers"]
    assert [t["reached"] for t in trials[:2]] == [False, False]
    assert not any(t["reached"] for t in trials if len(t["changes"].get("skip_layers", ())) < len(layers))
    assert best["quality"] >= 50
    command = result.out.splitlines()[-1].split()
    assert command[:3] == ["amct", "quantize", str(MODEL)]
    assert command[command.index("--skip-layers") + 1] == ",".join(layers)
    again = tmp_path / "again"
    assert amct_tool(*command[1:-1], again).status == 0
    assert (again / "digits_qdq.onnx").read_bytes() == (tmp_path / "digits_qdq.onnx").read_bytes()


@pytest.mark.slow
def test_values_of_16_bits_in_onnxruntime(amct_tool, tmp_path: Path) -> None:
    """Profile qdq gives results of layers 16 bits before it leaves layers in float, and onnxruntime runs the file."""
    result = amct_tool("tune", MODEL, "--data", DATA, "--profile", "qdq", "--sqnr", "44", "-o", tmp_path)
    assert result.status == 0, result.err
    trials = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert not any(t["changes"].get("skip_layers") for t in trials)
    best = min((t for t in trials if t["reached"]), key=lambda t: t["costs"]["read"])
    graph = onnx.load(tmp_path / "digits_qdq.onnx").graph
    types = {each.name: each.data_type for each in graph.initializer}
    points = [types[n.input[2]] for n in graph.node if n.op_type == "QuantizeLinear"]
    assert 0 < points.count(onnx.TensorProto.UINT16) < len(points)
    assert len(best["changes"]["layer_bits"]) <= points.count(onnx.TensorProto.UINT16)
    assert "runs the file" in result.out


@pytest.mark.slow
def test_it_goes_on_where_it_was_stopped(amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed in its second trial leaves the first one's model; the next run does not repeat that trial. One that
    is killed at the last file of the result leaves the search as well. The earlier result stays until then.
    """
    attempt = network.TrialNetwork.quantized

    def killed(self, changes):
        if changes:
            raise KeyboardInterrupt
        return attempt(self, changes)

    def drawn(*_):
        raise KeyboardInterrupt

    arguments = "tune", MODEL, "--data", DATA, "--sqnr", "36", "--weight-bits", "4", "-o", tmp_path
    (tmp_path / "digits_qdq.onnx").write_bytes(b"earlier")
    for owner, name, dying in ((network.TrialNetwork, "quantized", killed), (quantization, "report_of", drawn)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dying)
            with pytest.raises(KeyboardInterrupt):
                amct_tool(*arguments)
        assert {p.name for p in tmp_path.iterdir()} == {"tune.json", "tune.onnx", "digits_qdq.onnx"}
        assert (tmp_path / "digits_qdq.onnx").read_bytes() == b"earlier"
        amct_opt.load(tmp_path / "tune.onnx")
        first, *others = json.loads((tmp_path / "tune.json").read_text())["trials"]
        assert bool(others) is (dying is drawn)
    result = amct_tool(*arguments)
    assert f"trials of an earlier run   {1 + len(others)}" in result.out
    assert json.loads((tmp_path / "tune.json").read_text())["trials"] == [first, *others]
    assert not (tmp_path / "tune.onnx").exists()


def test_labels_are_a_goal(amct_tool, tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", image=np.load(DIGITS / "heldout.npz")["image"][:100])
    np.save(tmp_path / "labels.npy", np.load(DIGITS / "heldout_labels.npy")[:100])
    result = amct_tool(
        *("tune", MODEL, "--data", DATA, "--test", tmp_path / "test.npz", "--labels", tmp_path / "labels.npy"),
        *("--drop", "1", "-o", tmp_path / "out"),
    )
    assert result.status == 0, result.err
    assert "of 100 right; 95 % interval 9" in result.out
    (trial,) = json.loads((tmp_path / "out" / "tune.json").read_text())["trials"]
    assert trial["reached"]
    assert trial["quality"] >= 98


@pytest.mark.slow
def test_labels_belong_to_their_samples(amct_tool, tmp_path: Path) -> None:
    """Ten samples in runs of four: the last run is filled up with earlier samples, which have been counted already."""
    np.savez(tmp_path / "test.npz", image=np.load(DIGITS / "heldout.npz")["image"][:10])
    np.save(tmp_path / "labels.npy", np.load(DIGITS / "heldout_labels.npy")[:10])
    result = amct_tool(
        *("tune", MODEL, "--input-shape", "image:4,1,8,8", "--data", DATA, "--test", tmp_path / "test.npz"),
        *("--labels", tmp_path / "labels.npy", "--drop", "0.5", "-o", tmp_path / "out"),
    )
    assert result.status == 0, result.err
    assert (
        "warning: one of the 10 samples that measure is 10 points of top-1: they cannot tell a drop of 0.5"
        in result.err
    )
    (trial,) = json.loads((tmp_path / "out" / "tune.json").read_text())["trials"]
    assert trial["quality"] == 100


@pytest.mark.slow
def test_observers_are_tried_beside_a_json_configuration(amct_tool, tmp_path: Path) -> None:
    """A JSON configuration has settings of its own for every layer; an observer of a trial replaces theirs."""
    config = tmp_path / "layers.json"
    assert amct_tool("create-config", MODEL, "-o", config).status == 0
    result = amct_tool("tune", MODEL, "--data", DATA, "--config", config, "--sqnr", "45", "-o", tmp_path / "out")
    assert "is not tried" not in result.err
    assert "observer" in result.out


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ((), "one goal is needed"),
        (("--sqnr", "30", "--labels", "three.npy", "--drop", "1"), "one goal is needed"),
        (("--drop", "1"), "--drop is of labels or a function"),
        (("--labels", "three.npy"), "--drop is missing"),
        (("--evaluator", "none.py:top"), "--drop is missing"),
        (("--evaluator", "none.py"), "none.py: error: there is no such file"),
        (("--sqnr", "30", "--budget", "150k"), "'150k' is not a budget"),
        (("--sqnr", "30", "--budget", "bytes=5k"), "no widths keep the budget of 5,000 bytes: the least is "),
        (("--sqnr", "30", "--budget", "int8-layers=7"), "the budget wants 7 layers in int8: only 6 can be"),
        (("--labels", "none.npy", "--drop", "1"), "none.npy: error: there is no such file"),
        (
            ("--labels", "three.npy", "--drop", "1"),
            "labels must be 128 integers, one per sample, or 12 for the samples",
        ),
    ],
)
def test_goals_that_are_not(amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal, message) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("three.npy", np.arange(3))
    result = amct_tool("tune", MODEL, "--data", DATA, *goal, "-o", "out")
    assert result.status == 1
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_a_goal_that_nothing_reaches(amct_tool, tmp_path: Path) -> None:
    result = amct_tool("tune", MODEL, "--data", DATA, "--sqnr", "500", "--only-layers", "conv2", "-o", tmp_path)
    assert result.status == 1
    assert "error: no trial reaches the goal: the best has SQNR dB " in result.err
    assert (tmp_path / "digits_qdq.onnx").exists()


def stored(model: Path) -> int:
    """Bytes of all arrays of an ONNX file."""
    initializers = onnx.load(model).graph.initializer
    return sum(len(each.raw_data) or numpy_helper.to_array(each).nbytes for each in initializers)


def test_a_budget_of_bytes(amct_tool, tmp_path: Path) -> None:
    """Half of the weights get 4 bits, and the command that is printed writes the same bytes again."""
    result = amct_tool("tune", MODEL, "--data", DATA, "--sqnr", "17", "--budget", "bytes=18k", "-o", tmp_path)
    assert result.status == 0, result.err
    trials = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert all(t["kept"] and t["costs"]["bytes"] <= 18_000 for t in trials)
    written = (tmp_path / "digits_qdq.onnx").read_bytes()
    assert stored(tmp_path / "digits_qdq.onnx") == trials[-1]["costs"]["bytes"]
    command = shlex.split(result.out.splitlines()[-1])
    assert ":4" in command[command.index("--layer-weight-bits") + 1]
    assert amct_tool(*command[1:-1], tmp_path / "again").status == 0
    assert (tmp_path / "again" / "digits_qdq.onnx").read_bytes() == written


def test_a_budget_of_time(amct_tool, tmp_path: Path) -> None:
    """Every trial is timed; what nothing can keep is an error that says what the least is."""
    pytest.importorskip("onnxruntime")
    asked = "tune", MODEL, "--data", DATA, "--profile", "qdq", "--sqnr", "30"
    result = amct_tool(*asked, "--budget", "ms=5000", "-o", tmp_path)
    assert result.status == 0, result.err
    (trial,) = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert 0 < trial["costs"]["ms"] <= 5000
    refused = amct_tool(*asked, "--budget", "ms=0.000001", "-o", tmp_path / "none")
    assert refused.status == 1
    assert "error: no widths keep the budget of 1e-06 ms: the least is about 0." in refused.err


@pytest.mark.slow
def test_a_budget_of_work_in_float(amct_tool, tmp_path: Path) -> None:
    """Layers may stay in float as long as they multiply little: not those that cost the most."""
    budget = "MACs=20k,int8-layers=4"
    result = amct_tool("tune", MODEL, "--data", DATA, "--sqnr", "46", "--budget", budget, "-o", tmp_path)
    trials = json.loads((tmp_path / "tune.json").read_text())["trials"]
    assert all(t["costs"]["macs"] <= 20_000 and t["costs"]["int8_layers"] >= 4 for t in trials)
    assert any(t["changes"].get("skip_layers") for t in trials)
    assert result.status == (0 if trials[-1]["reached"] else 1)


EVALUATOR = """
import numpy as np

LABELS = np.load({labels!r})

def top(model):
    outputs = [next(iter(model.run(batch).values())) for batch in model.batches()]
    return float(np.mean(np.concatenate(outputs).argmax(1) == LABELS))

class Evaluator:
    def calibration(self, model):
        pass

    def evaluate(self, model):
        return top(model)

    def metric_eval(self, original, metric):
        return original - metric <= 0.01, original - metric
"""


@pytest.mark.slow
@pytest.mark.parametrize(("function", "drop"), [(":top", ("--drop", "0.01")), ("", ())])
def test_a_python_function_is_a_goal(amct_tool, tmp_path: Path, function: str, drop: tuple[str, ...]) -> None:
    np.savez(tmp_path / "test.npz", image=np.load(DIGITS / "heldout.npz")["image"][:100])
    np.save(tmp_path / "labels.npy", np.load(DIGITS / "heldout_labels.npy")[:100])
    (tmp_path / "evaluator.py").write_text(EVALUATOR.format(labels=str(tmp_path / "labels.npy")))
    result = amct_tool(
        *("tune", MODEL, "--data", DATA, "--test", tmp_path / "test.npz"),
        *("--evaluator", f"{tmp_path / 'evaluator.py'}{function}", *drop, "-o", tmp_path / "out"),
    )
    assert result.status == 0, result.err
    (trial,) = json.loads((tmp_path / "out" / "tune.json").read_text())["trials"]
    assert trial["reached"]
    assert trial["quality"] >= 0.98 if function else abs(trial["quality"]) <= 0.01
