"""What `amct quantize` tries where outputs are poor: what is kept, by what it is judged, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.dialects.nn import QuantizeOp
from amct_opt.flows import mending
from amct_opt.flows.mending import POOR, RULE, splits
from amct_opt.flows.peer import CLOSE
from amct_opt.flows.summary import Summary, summary_data
from amct_opt.observers.observer import FEW
from amct_opt.runtime.metrics import Parts
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import Remark
from amct_opt.transforms.quantization.data import Split, split
from amct_opt.transforms.quantization.options import NO_DATA, DataOptions, SettingsOptions
from amct_opt.transforms.quantization.request import settings_of

from .test_recipes import SAMPLES, model as model  # a fixture

Array = np.ndarray[Any, Any]
DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def quantized(model: Path, name: str, data: str = "data.npz", profile: str = "qdq", **options: Any) -> Summary:
    return amct_opt.quantize_file(
        model, model.parent / name, model.parent / data, profile=profile, session=None, **options
    )


def worst(summary: Summary) -> float:
    return min(each.sqnr for each in (summary.accuracy.kernels or summary.accuracy.fake_quantized).values())


def test_layers_around_the_value_that_costs_most_are_float(model: Path) -> None:
    """The depthwise layer reads channels of very different sizes, which nothing can even out in front of it here."""
    before = quantized(model, "before", effort=0, equalize=False)
    after = quantized(model, "after", equalize=False)
    assert worst(before) < POOR - 5
    assert worst(after) > POOR
    assert after.mended is not None
    (kept,) = (each for each in after.mended.attempts if each.kept)
    assert {"mix", "depth"} <= set(kept.layers)
    found = {each.layer: each for each in after.layers.left_in_float}
    assert {found[name].rule for name in kept.layers} == {RULE}
    assert found["depth"].reason.startswith("its activations cost most: in a trial the worst output gained ")
    assert after.peer is not None
    assert min(each.sqnr for each in after.peer.outputs.values()) >= CLOSE
    ((_, text),) = (row for row in after.tables()[0].rows if row[0] == "mended")
    assert "2 layers in float (" in text
    assert summary_data(after)["mended"]["attempts"][-1]["kept"] is True
    assert quantized(model, "again", equalize=False).files["onnx"].read_bytes() == after.files["onnx"].read_bytes()


def test_what_is_given_stays(model: Path) -> None:
    """Options say how layers are quantized, a good result needs nothing, and without data nothing can be judged."""
    for found in (quantized(model, "none", effort=0), quantized(model, "alone", weight_only=True)):
        assert found.mended is None or not found.mended.attempts
    good = quantized(model, "good", profile="ascend")
    assert good.mended is not None
    assert worst(good) > POOR + 6
    assert not good.mended.attempts
    bits = quantized(model, "bits", equalize=False, weight_bits=4, observer="mse")
    assert bits.mended is not None
    assert not any(each.layers or each.option.startswith("--observer") for each in bits.mended.attempts)


def test_everything_is_tried_on_demand(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = quantized(model, "all", effort=2, profile="ascend")
    assert found.mended is not None
    options = [each.option for each in found.mended.attempts]
    assert {"--fit-ranges", "--round-weights mismatch"} <= set(options)
    assert found.mended.after[1] >= found.mended.before[1]
    quantized(model, "alone", effort=2, weight_only=True)
    assert "effort changes nothing" in capsys.readouterr().err


def test_the_cause_is_named(model: Path) -> None:
    """The samples that measure are the last ones, here 20 times as loud."""
    x = np.load(model.parent / "data.npz")["x"]
    x[-(SAMPLES // 10) :] *= 20
    np.savez(model.parent / "loud.npz", x=x)
    found = quantized(model, "loud", "loud.npz", skip_layers=["mix", "depth"])
    assert found.mended is not None
    assert worst(found) < POOR
    assert "calibrate on more kinds of samples" in found.mended.cause
    assert any(row[0] == "poor" for row in found.tables()[0].rows)


def test_remarks_are_those_of_the_result(model: Path) -> None:
    """Each is heard once, although the network was quantized twice."""
    session, heard = new_session(), list[Remark]()
    session.profile, session.on_remark = "qdq", heard.append
    found = amct_opt.quantize_file(
        model, model.parent / "out", model.parent / "data.npz", equalize=False, session=session
    )
    quantized_once = [each.layer for each in heard if each.rule == "quantized"]
    assert len(quantized_once) == len({*quantized_once}) == len(found.layers.quantized)
    assert {"mix", "depth"}.isdisjoint(quantized_once)


def test_what_loses_with_all_of_the_data_is_undone(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first result stays, and nothing says that something was kept."""

    def worse(trials: Any, best: Any, goal: float) -> Any:
        common = best.request.settings.common
        if common.activation.observer != "mse":
            return None
        activation = replace(common.activation, observer="percentile{percentile=0.6}")
        settings = replace(best.request.settings, common=replace(common, activation=activation))
        return mending._Change("worse", "--worse", replace(best.request, settings=settings))  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(mending, "_REMEDIES", [(1, worse)])
    monkeypatch.setattr(Parts, "gains", lambda *_: True)
    options: dict[str, Any] = {"equalize": False, "correct_bias": False}
    before, found = quantized(model, "before", effort=0, **options), quantized(model, "found", **options)
    assert found.mended is not None
    assert [(each.called, each.kept) for each in found.mended.attempts] == [("worse", False)]
    assert found.mended.after == found.mended.before
    assert found.files["onnx"].read_bytes() == before.files["onnx"].read_bytes()
    assert not any(row[0] == "mended" for row in found.tables()[0].rows)


def test_a_trial_that_fails_is_named(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(trials: Any, best: Any, goal: float) -> Any:
        settings = replace(best.request.settings, skip_layers=("nowhere",))
        return mending._Change("fails", "--skip-layers nowhere", replace(best.request, settings=settings))  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(mending, "_REMEDIES", [(1, fails)])
    quantized(model, "out", equalize=False)
    assert "note: --skip-layers nowhere cannot be tried: " in capsys.readouterr().err


def test_too_few_samples_are_named(model: Path) -> None:
    np.savez(model.parent / "few.npz", x=np.load(model.parent / "data.npz")["x"][:3])
    found = quantized(model, "few", "few.npz", equalize=False)
    assert found.mended is not None
    assert found.mended.cause == "nothing else is tried with fewer than 4 samples"
    ((_, text),) = (row for row in found.tables()[0].rows if row[0] == "poor")
    assert text.endswith(f" dB: {found.mended.cause}")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (200, [(180, 20)]),  # those that are held back
        (64, [(50, 8)]),  # of 58 that calibrate the last ones
        (20, [(10, 8)]),
        (12, [(5, 6), (6, 5)]),
        (7, [(3, 4), (4, 3)]),
        (3, []),
    ],
)
def test_others_judge(model: Path, count: int, expected: list[tuple[int, int]]) -> None:
    module, session = amct_opt.load(model)
    np.savez(model.parent / "n.npz", x=np.zeros((count, 3, 6, 6), np.float32))
    settings = settings_of(SettingsOptions())
    given = split(DataOptions(str(model.parent / "n.npz")), settings, module, session)
    found = splits(given)
    assert [(own(each), each.held.count) for each in found] == expected
    session.prints = ()
    assert splits(split(NO_DATA, settings, module, session)) == []


def own(found: Split) -> int:
    assert found.calibration is not None
    return found.calibration.count


def parts(outputs: Array, noise: Array) -> Parts:
    """Errors of outputs [samples, ...] that are noisy, sample by sample."""
    found = Parts(by_sample=True)
    found.add({"y": outputs}, {"y": outputs + noise})
    return found


def test_gains_by_more_than_chance(rng: np.random.Generator) -> None:
    outputs, noise = rng.normal(size=(12, 50)), 0.1 * rng.normal(size=(12, 50))
    before = parts(outputs, noise)
    assert before.worst[1] == pytest.approx(20, abs=1)
    assert before.gains(parts(outputs, 0.8 * noise))
    assert not before.gains(parts(outputs, 0.97 * noise))  # too little
    assert not before.gains(parts(outputs, 1.2 * noise))
    one = noise.copy()
    one[0] *= 30
    assert parts(outputs, one).worst[1] < 5
    assert not parts(outputs, one).gains(before)  # a single sample decides
    assert not parts(outputs[:1], noise[:1]).gains(parts(outputs[:1], 0.1 * noise[:1]))
    assert before.gains(parts(outputs, 0 * noise))
    assert parts(outputs, np.full_like(noise, np.nan)).gains(before)


def test_scores_are_an_output_of_their_own(rng: np.random.Generator) -> None:
    """Next to boxes in pixels nobody sees what is lost of them."""
    boxes, scores = rng.uniform(0, 640, (4, 4, 30)), rng.uniform(0, 1, (4, 3, 30))
    outputs, noise = np.concatenate([boxes, scores], 1), np.zeros((4, 7, 30))
    noise[:, 4:] = 0.2
    for axes in ((0, 1, 2), (0, 2, 1)):
        found = parts(outputs.transpose(axes), noise.transpose(axes))
        assert found.worst[0] == "y (scores)"
        assert found.worst[1] < 12
        assert found.sqnr["y (other numbers)"] == np.inf
    for alone in (boxes, scores):
        assert [*parts(alone, np.ones_like(alone)).sqnr] == ["y"]


def test_parts_add_up(rng: np.random.Generator) -> None:
    """Runs of one sample, and of several: the same errors; integers and outputs without numbers do not count."""
    outputs, noise = rng.normal(size=(6, 2, 5)), rng.normal(size=(6, 2, 5))
    whole, by_run, other = parts(outputs, noise), Parts(), Parts()
    for i in range(6):
        part = by_run if i < 3 else other
        part.add({"y": outputs[i : i + 1]}, {"y": (outputs + noise)[i : i + 1]})
    by_run.merge(other)
    np.testing.assert_allclose(by_run.energies["y"], whole.energies["y"])
    sizes = Parts()
    for i in (3, 2, 5):
        sizes.add({"y": outputs[:1, :, :i].repeat(2, 1)}, {"y": (outputs + noise)[:1, :, :i].repeat(2, 1)})
    assert sizes.energies["y"].shape == (2, 3)
    empty = Parts()
    empty.add({"n": np.zeros(3, np.int64), "e": np.zeros((0, 4))}, {"n": np.ones(3, np.int64), "e": np.zeros((0, 4))})
    assert empty.worst == ("", np.inf)
    integers = Parts()
    integers.add({"n": np.array([3, 4])}, {"n": np.array([3, 3])})  # there is nothing else to judge by
    assert integers.worst == ("n", pytest.approx(10 * np.log10(25)))
    masked = parts(np.array([[-np.inf, 1.0]]), np.array([[0.0, 0.5]]))
    assert masked.worst == ("y", np.inf)
    nan = parts(outputs, np.full_like(noise, np.nan))
    assert nan.worst[1] == -np.inf


@pytest.mark.parametrize("count", [FEW - 1, FEW])
def test_ranges_of_few_samples_cover_everything(model: Path, count: int) -> None:
    module, session = amct_opt.load(model)
    x = np.load(model.parent / "data.npz")["x"][:count]
    amct_opt.quantize(module, session, data={"x": x})
    (point,) = (op for op in module.walk() if isinstance(op, QuantizeOp) and op.input.name_hint == "x")
    scale, largest = float(point.qparams.data.scales()), float(np.ptp(x))
    assert (scale * 255 == pytest.approx(largest, rel=1e-3)) == (count < FEW)


def test_answers_count_more_than_noise(tmp_path: Path) -> None:
    """With labels, noise that changes no answer is not mended."""
    module, _ = amct_opt.load(DIGITS / "digits.onnx")
    (logits,) = amct_opt.execute(module, {"image": np.load(DIGITS / "calib.npz")["image"]}).values()
    np.save(tmp_path / "labels.npy", logits.argmax(1))

    def noisy(labels: Path | None) -> Summary:
        return amct_opt.quantize_file(
            *(DIGITS / "digits.onnx", tmp_path / "out", DIGITS / "calib.npz"),
            profile="qdq",
            labels=None if labels is None else str(labels),
            weight_bits=3,
            round_weights="nearest",
        )

    right, without = noisy(tmp_path / "labels.npy"), noisy(None)
    assert right.accuracy.answers["kernels"].top1.right == 12
    assert worst(right) < POOR - 5
    assert right.mended is None
    assert without.mended is not None
    assert without.mended.attempts
