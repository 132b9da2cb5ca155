"""Calibration shared by processes: states written, merged and finished are one run over all data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr

from amct_opt.dialects import nn
from amct_opt.ir.metadata import metadata
from amct_opt.ir.text import module_text, parse_module, write_side_file
from amct_opt.ir.weights import open_side_file
from amct_opt.observers import OBSERVERS
from amct_opt.pipelines.options import composed
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct_opt
from amct_opt.transforms.quantization.calibrate import CalibratePass, set_parameters
from amct_opt.transforms.quantization.calibrate.observing import begin_pass, observations
from amct_opt.transforms.quantization.place.insert_observers import InsertObserversPass

from ...values import parsed

EXACT, ONE_PASS = "ifmr", [*(name for name in OBSERVERS if name != "ifmr"), "ifmr{exact=false}"]
SAMPLES = (
    np.random.default_rng(31).standard_t(4, size=(12, 3, 6, 6)) * np.linspace(0.5, 4, 12).reshape(-1, 1, 1, 1)
).astype(np.float32)
PARTS = {"a": SAMPLES[:5], "b": SAMPLES[5:9], "c": SAMPLES[9:]}


def net(scale: float = 1.0, kernel: int = 3) -> str:
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(4, 3, kernel, kernel)) * scale).astype(np.float32)
    columns = rng.normal(size=(4 * (7 - kernel) ** 2, 5)).astype(np.float32)
    size, flat = 7 - kernel, 4 * (7 - kernel) ** 2
    return f"""
func.func @main(%x: tensor<?x3x6x6xf32> {{nn.name = "x"}}) -> (tensor<?x5xf32> {{nn.name = "y"}}) {{
  %w = nn.constant dense<"0x{weight.tobytes().hex()}"> : tensor<4x3x{kernel}x{kernel}xf32>
  %f = nn.constant dense<"0x{columns.tobytes().hex()}"> : tensor<{flat}x5xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> :
    (tensor<?x3x6x6xf32>, tensor<4x3x{kernel}x{kernel}xf32>) -> tensor<?x4x{size}x{size}xf32>
  %r = nn.relu %c : tensor<?x4x{size}x{size}xf32>
  %l = nn.flatten %r : (tensor<?x4x{size}x{size}xf32>) -> tensor<?x{flat}xf32>
  %y = nn.matmul %l, %f from <onnx, "Gemm", "fc"> : (tensor<?x{flat}xf32>, tensor<{flat}x5xf32>) -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one, with the data in whole and in parts."""
    monkeypatch.chdir(tmp_path)
    np.savez("all.npz", x=SAMPLES)
    for name, part in PARTS.items():
        np.savez(f"{name}.npz", x=part)
    return tmp_path


def calibrate(
    observer: str,
    data: str | None,
    load: Sequence[str] = (),
    save: str | None = None,
    text: str | None = None,
    **points: object,
) -> ModuleOp:
    """A process of its own, but for the process."""
    session: Session = new_session()
    module = parse_module(session, text or net(), "net.mlir")
    composed(InsertObserversPass, {"observer": observer, **points}).apply(session, module)
    CalibratePass(data, load_state=tuple(load), save_state=save).apply(session, module)
    return module


def ranges(module: ModuleOp) -> list[tuple[float, float]]:
    return [op.range.data for op in module.walk() if isinstance(op, nn.ObserveOp) and op.range is not None]


def without_metadata(module: ModuleOp) -> str:
    module.attributes.clear()
    return module_text(module)


def shared(observer: str, parts: Sequence[str], passes: int) -> ModuleOp:
    """Each pass by a worker for each part."""
    states: list[str] = []
    for turn in range(passes):
        begun = states
        states = [f"{part}{turn}.state" for part in parts]
        for part, state in zip(parts, states, strict=True):
            calibrate(observer, f"{part}.npz", begun, state)
    return calibrate(observer, None, states)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("observer", [*ONE_PASS, EXACT])
def test_parts_are_the_whole(observer: str) -> None:
    """The module is the same to the last bit. Of hfmg nothing is promised but the resolution."""
    whole = calibrate(observer, "all.npz")
    merged = shared(observer, "abc", 3 if observer == EXACT else 1)
    assert metadata(merged)["samples"] == "12"
    assert metadata(merged)["data_hash"].count("sha256:") == 3
    assert {**metadata(merged), "data_hash": ""} == {**metadata(whole), "data_hash": ""}
    if observer == "hfmg":
        np.testing.assert_allclose(ranges(merged), ranges(whole), atol=0.02)
    elif observer == "moving-average":
        np.testing.assert_allclose(ranges(merged), ranges(whole), rtol=1e-14)
    else:
        assert without_metadata(merged) == without_metadata(whole)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("observer", ONE_PASS)
def test_taken_up_with_more_data(observer: str) -> None:
    """One after the other, from state to state: the same to the last bit for every observer."""
    whole = calibrate(observer, "all.npz")
    calibrate(observer, "a.npz", save="1.state")
    calibrate(observer, "b.npz", ["1.state"], "2.state")
    assert without_metadata(calibrate(observer, "c.npz", ["2.state"])) == without_metadata(whole)


@pytest.mark.usefixtures("folder")
def test_later_passes_in_one_process() -> None:
    """Where the first pass saw the data that is given and nothing else, the other passes follow at once."""
    whole = without_metadata(calibrate(EXACT, "all.npz"))
    calibrate(EXACT, "all.npz", save="1.state")
    assert without_metadata(calibrate(EXACT, "all.npz", ["1.state"])) == whole
    calibrate(EXACT, "all.npz", ["1.state"], "2.state")
    assert without_metadata(calibrate(EXACT, "all.npz", ["2.state"])) == whole


@pytest.mark.usefixtures("folder")
def test_states_that_are_merged_without_data() -> None:
    calibrate("kl", "a.npz", save="a.state")
    calibrate("kl", "b.npz", save="b.state")
    calibrate("kl", None, ["a.state", "b.state"], "ab.state")
    merged = without_metadata(calibrate("kl", "c.npz", ["ab.state"]))
    assert merged == without_metadata(calibrate("kl", "all.npz"))


@pytest.mark.usefixtures("folder")
def test_observers_of_one_pass_beside_those_of_three() -> None:
    """What is complete after the first pass is carried along, and not counted again."""
    text = net()
    session = new_session()

    def run(data: str | None, load: Sequence[str] = (), save: str | None = None) -> ModuleOp:
        module = parse_module(session, text, "net.mlir")
        InsertObserversPass(observer="kl").apply(session, module)
        points = [op for op in module.walk() if isinstance(op, nn.ObserveOp)]
        points[1].observer = nn.ObserveOp.make(points[1].input, point="", observer=EXACT).observer
        CalibratePass(data, load_state=tuple(load), save_state=save).apply(session, module)
        return module

    whole = without_metadata(run("all.npz"))
    states: list[str] = []
    for turn in range(3):
        begun, states = states, [f"{part}{turn}.state" for part in "abc"]
        for part, state in zip("abc", states, strict=True):
            run(f"{part}.npz", begun, state)
    assert without_metadata(run(None, states)) == whole


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("observer", ["minmax", "percentile", "mse"])
def test_points_that_are_observed_together(observer: str) -> None:
    def run(data: str | None, load: Sequence[str] = (), save: str | None = None) -> ModuleOp:
        module, session = parsed(net())
        InsertObserversPass(observer=observer).apply(session, module)
        for point in (op for op in module.walk() if isinstance(op, nn.ObserveOp)):
            point.group, point.joint = StringAttr("g"), UnitAttr()
        CalibratePass(data, load_state=tuple(load), save_state=save).apply(session, module)
        return module

    for part in "abc":
        run(f"{part}.npz", save=f"{part}.state")
    merged, whole = run(None, ["c.state", "a.state", "b.state"]), run("all.npz")
    assert without_metadata(merged) == without_metadata(whole)
    assert ranges(merged)[0] == ranges(merged)[1]


# What is said


@pytest.mark.usefixtures("folder")
def test_a_saved_state_says_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    module = calibrate("kl", "a.npz", save="a.state")
    assert all(op.qparams is None for op in module.walk() if isinstance(op, nn.ObserveOp))
    assert metadata(module) == {}
    assert capsys.readouterr().err == (
        "note: a.state: pass 1 of 1 has seen 5 samples of a.npz; finish with --calibrate=load-state=a.state\n"
    )
    calibrate(EXACT, "a.npz", save="a.state")
    assert "pass 1 of 3" in (said := capsys.readouterr().err)
    assert "begin pass 2 with --calibrate='load-state=a.state data=... save-state=...' on the same data" in said
    calibrate(EXACT, "b.npz", save="b.state")
    capsys.readouterr()
    calibrate(EXACT, "a.npz", ["a.state", "b.state"], "a2.state")
    assert "pass 2 of 3 has seen 5 samples of a.npz, not b.npz yet" in capsys.readouterr().err


def refused(message: str, *arguments: object, **options: object) -> None:
    """With one line that begins with `message`, and no state file is left."""
    before = set(Path.cwd().iterdir())
    with pytest.raises(CompileError) as caught:
        calibrate(*arguments, **options)  # pyright: ignore[reportArgumentType]
    assert str(caught.value).startswith(message)
    assert set(Path.cwd().iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_passes_that_lack_data() -> None:
    calibrate(EXACT, "a.npz", save="a1.state")
    calibrate(EXACT, "b.npz", save="b1.state")
    both = ["a1.state", "b1.state"]
    refused("error: pass 2 of 3 must see all data again: a.npz, b.npz", EXACT, None, both)
    refused("error: pass 2 of 3 must see all data again: a.npz, b.npz", EXACT, "b.npz", ["a1.state"])
    refused("c.npz: error: pass 2 cannot use it: ", EXACT, "c.npz", calibrated_twice(both), "c2.state")
    refused("error: pass 2 of 3 has not seen b.npz", EXACT, None, ["a2.state"])
    refused("a.npz: error: pass 2 has not seen b.npz yet", EXACT, "a.npz", ["a2.state"], "a3.state")


def calibrated_twice(states: Sequence[str]) -> list[str]:
    calibrate(EXACT, "a.npz", states, "a2.state")
    return ["a2.state"]


@pytest.mark.usefixtures("folder")
def test_data_that_was_seen() -> None:
    calibrate("kl", "a.npz", save="a.state")
    calibrate("kl", "a.npz", save="again.state")
    refused("a.npz: error: is already included in the loaded states", "kl", "a.npz", ["a.state"])
    refused(
        "again.state: error: has seen a.npz, which another state has seen too", "kl", None, ["a.state", "again.state"]
    )


@pytest.mark.usefixtures("folder")
def test_states_of_different_passes() -> None:
    calibrate(EXACT, "a.npz", save="a1.state")
    calibrate(EXACT, "a.npz", ["a1.state"], "a2.state")
    refused("a2.state: error: is a state of pass 2, a1.state of pass 1", EXACT, None, ["a1.state", "a2.state"])
    calibrate(EXACT, "b.npz", save="b1.state")
    calibrate(EXACT, "b.npz", ["b1.state"], "b2.state")
    refused("b2.state: error: began from another first pass than a2.state", EXACT, None, ["a2.state", "b2.state"])


@pytest.mark.usefixtures("folder")
def test_states_of_something_else() -> None:
    calibrate("kl", "a.npz", save="a.state")
    other = "a.state: error: is a state of other points: "
    refused(f"{other}{{", "mse", None, ["a.state"])
    refused(f"{other}{{", "kl{num-of-bins=4096}", None, ["a.state"])
    refused(f"{other}{{", "kl", None, ["a.state"], activation_offset=False)
    refused(f"{other}{{", "kl", None, ["a.state"], skip_layers=("conv",))
    refused(f"{other}2 of them, here 1", "kl", None, ["a.state"], skip_layers=("fc",))
    refused("a.state: error: is a state of another model", "kl", None, ["a.state"], text=net(1.5))
    refused("a.state: error: is a state of another model", "kl", None, ["a.state"], text=net(1, 5))


@pytest.mark.usefixtures("folder")
def test_a_model_is_known_whatever_its_names_and_places() -> None:
    calibrate("kl", "a.npz", save="a.state")
    module = calibrate("kl", None, ["a.state"], text="\n\n" + net().replace("%r", "%renamed"))
    assert ranges(module) == ranges(calibrate("kl", "a.npz"))


@pytest.mark.usefixtures("folder")
def test_damaged_files() -> None:
    calibrate("kl", "a.npz", save="a.state")
    content = Path("a.state").read_bytes()
    for position in (len(content) // 3, len(content) // 2, len(content) - 5):
        damaged = bytearray(content)
        damaged[position] ^= 1
        Path("damaged.state").write_bytes(damaged)
        refused("damaged.state: error: is corrupted", "kl", None, ["damaged.state"])
    for length in (0, 4, 100, len(content) - 1):
        Path("cut.state").write_bytes(content[:length])
        refused("cut.state: error: ", "kl", None, ["cut.state"])
    refused("missing.state: error: no such file", "kl", None, ["missing.state"])
    refused("a.npz: error: ", "kl", None, ["a.npz"])
    write_side_file(Path("weights.safetensors"), {"w": np.zeros(3)})
    refused("weights.safetensors: error: is not a calibration state", "kl", None, ["weights.safetensors"])


@pytest.mark.usefixtures("folder")
def test_a_forged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a checksum that fits: numbers that no data leads to are still refused."""
    from amct_opt.transforms.quantization.calibrate import state

    calibrate("kl", "a.npz", save="a.state")
    file = open_side_file(Path("a.state"))
    arrays = {key: np.array(file.array(key)) for key in file.keys() if key != "checksum"}  # noqa: SIM118

    def forged(changes: dict[str, np.ndarray]) -> str:
        changed = {**arrays, **changes}
        checksum = np.frombuffer(state._checksum(changed), np.uint8)
        write_side_file(Path("forged.state"), {**changed, "checksum": checksum})
        return "forged.state"

    file_name = forged({"0/histogram.first": np.array(2**40)})
    refused("forged.state: error: the state of point 'conv:0' cannot be taken up: ", "kl", None, [file_name])
    file_name = forged({"header": np.frombuffer(b'{"format": 1}', np.uint8)})
    refused("forged.state: error: is not a calibration state: unrecognized header", "kl", None, [file_name])
    file_name = forged({"header": np.frombuffer(b"[" * 100000, np.uint8)})
    refused("forged.state: error: is not a calibration state: unrecognized header", "kl", None, [file_name])


def test_values_that_an_observer_refuses() -> None:
    """At the point: none at all, too many to keep, and (from an overflow in the model) none that are finite."""
    module, session = parsed(net())
    InsertObserversPass(observer="ifmr{max-percentile=0.6}").apply(session, module)
    observed = observations([op for op in module.walk() if isinstance(op, nn.ObserveOp)], new_session())
    with pytest.raises(CompileError, match=r"net.mlir:5:3: error: 'nn.observe' op no values were seen"):
        set_parameters(observed, [])
    observed[0].observer.update(np.zeros(2**22, np.float32))
    with pytest.raises(
        CompileError, match=r"net.mlir:5:3: error: 'nn.observe' op has 4194304 values: .*give exact=false"
    ):
        begin_pass(observed[:1], 1)


@pytest.mark.usefixtures("folder")
def test_an_overflow_in_the_model() -> None:
    Path("large").mkdir()
    np.save("large/x.npy", np.full((2, 3, 6, 6), 3e38, np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        refused(
            "net.mlir:9:3: error: 'nn.observe' op NaN or Inf among the values\n  hint: ",
            "minmax",
            "large",
            [],
            "a.state",
        )


@pytest.mark.usefixtures("folder")
def test_nothing_to_calibrate() -> None:
    calibrate("kl", "a.npz", save="a.state")
    every = ("conv", "fc")
    refused("error: there is no point to calibrate", "kl", "a.npz", [], "b.state", skip_layers=every)
    refused("error: there is no point to calibrate", "kl", None, ["a.state"], skip_layers=every)


@pytest.mark.usefixtures("folder")
def test_data_is_not_overwritten() -> None:
    refused("a.npz: error: would overwrite a file that was read", "kl", "a.npz", [], "a.npz")


@pytest.mark.usefixtures("folder")
def test_a_state_that_cannot_be_written() -> None:
    refused("nowhere/a.state: error: cannot be written", "kl", "a.npz", [], "nowhere/a.state")


@pytest.mark.slow
def test_processes(folder: Path) -> None:
    """On the command line: two workers at a time, and this process finishes."""
    (folder / "net.mlir").write_text(net())
    program = Path(sys.executable).with_name("amct-opt")

    def command(calibration: str, out: str = "/dev/null") -> list[str]:
        return ["net.mlir", "--insert-observers=observer=kl", f"--calibrate={calibration}", "-o", out]

    np.savez("rest.npz", x=SAMPLES[5:])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen([program, *command(f"data={part}.npz save-state={part}.state")], cwd=folder, env=environment)
        for part in ("a", "rest")
    ]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert amct_opt.run(command("load-state=a.state,rest.state", "merged.mlir")) == 0
    assert amct_opt.run(command("data=all.npz", "whole.mlir")) == 0
    merged, whole = (
        without_metadata(parse_module(new_session(), (folder / f"{name}.mlir").read_text()))
        for name in ("merged", "whole")
    )
    assert merged == whole
