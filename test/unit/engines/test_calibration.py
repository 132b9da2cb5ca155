"""Calibration by onnxruntime is calibration by the interpreter: the same parameters, the same errors, whatever the threads."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import engines, frontends
from amct_opt.dialects import nn
from amct_opt.engines import onnx_runtime
from amct_opt.engines.cluster import workers_of
from amct_opt.engines.threads import OrderedBatches
from amct_opt.ir import weights
from amct_opt.ir.text import parse_module
from amct_opt.observers import OBSERVERS
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct
from amct_opt.transforms.quantization.calibrate import observing
from amct_opt.transforms.quantization.options import Device

from ..values import normal

pytest.importorskip("onnxruntime")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EXACT = "ifmr{exact=true}"
IMAGES = normal(6, 3, 6, 6)
KERNEL = normal(4, 3, 3, 3)
SECOND = normal(4, 4, 1, 1)

INNER = "tensor<?x4x4x4xf32>"
NET = f"""
func.func @main(%x: tensor<?x3x6x6xf32> {{nn.name = "x"}}) -> (tensor<?x4x4x4xf32> {{nn.name = "y"}}) {{
  %w = nn.constant dense<"0x{KERNEL.tobytes().hex()}"> : tensor<4x3x3x3xf32>
  %v = nn.constant dense<"0x{SECOND.tobytes().hex()}"> : tensor<4x4x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "first"> :
    (tensor<?x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x4xf32>
  %m = nn.MIDDLE %c : tensor<?x4x4x4xf32>
  %d = nn.conv %m, %v from <onnx, "Conv", "second"> :
    (tensor<?x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x4x4xf32>
  func.return %d : tensor<?x4x4x4xf32>
}}
"""


@pytest.fixture(autouse=True)
def _one_sample_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little data makes several runs."""
    monkeypatch.setattr(observing, "MOST", 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one, with images for the net."""
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=IMAGES)
    return tmp_path


def net(middle: str = "relu") -> Callable[[Session], ModuleOp]:
    return lambda session: parse_module(session, NET.replace("MIDDLE", middle))


def example(name: str) -> Callable[[Session], ModuleOp]:
    return lambda session: frontends.read(EXAMPLES / name, session)


def channels_last(session: Session) -> ModuleOp:
    """The net as TensorFlow has it."""
    module = net()(session)
    run_passes(module, [make_pass("convert-layout", "to=NHWC")], session)
    assert any(isinstance(op, nn.LayoutOp) and op.channels_last for op in module.walk())
    return module


def calibrated(
    model: Callable[[Session], ModuleOp], options: str, observer: str = "minmax", profile: str = "ascend"
) -> list[tuple[float, ...]]:
    """Range, scale and zero point of every point."""
    session = new_session()
    session.profile = profile
    module = model(session)
    passes = [make_pass("fuse-all"), make_pass("insert-observers", f"observer={observer}")]
    run_passes(module, [*passes, make_pass("calibrate", options)], session)
    found: list[tuple[float, ...]] = []
    for op in module.walk():
        if isinstance(op, nn.ObserveOp):
            assert op.range is not None
            assert op.qparams is not None
            params = op.qparams.data
            found.append((*op.range.data, float(params.scales()), *params.zero_point))
    assert found
    return found


def agree(model: Callable[[Session], ModuleOp], data: str, observer: str, profile: str = "ascend") -> None:
    ours = calibrated(model, f"{data} engine=numpy", observer, profile)
    theirs = calibrated(model, f"{data} engine=onnxruntime threads=2", observer, profile)
    np.testing.assert_allclose(np.array(theirs), np.array(ours), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("observer", [*OBSERVERS, EXACT])
def test_digits(observer: str) -> None:
    agree(example("digits/digits.onnx"), f"data={EXAMPLES}/digits/calib.npz samples=24", observer)


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize("observer", ["minmax", "mse"])
def test_transformer(observer: str, profile: str) -> None:
    agree(example("models/transformer.onnx"), "seed=1", observer, profile)


@pytest.mark.parametrize("observer", ["minmax", "percentile", "isotone"])
@pytest.mark.parametrize("model", [net(), channels_last])
def test_layouts(model: Callable[[Session], ModuleOp], observer: str, folder: Path) -> None:
    agree(model, "data=x.npz", observer)


@pytest.mark.slow
@pytest.mark.parametrize("observer", [*OBSERVERS, EXACT])
def test_threads_change_nothing(observer: str) -> None:
    data = f"data={EXAMPLES}/digits/calib.npz samples=12 engine=onnxruntime"
    one, two, many = (
        calibrated(example("digits/digits.onnx"), f"{data} threads={n}", observer, "qdq") for n in (1, 2, 5)
    )
    assert one == two == many


def test_states_of_parts(folder: Path) -> None:
    np.savez("a.npz", x=IMAGES[:4])
    np.savez("b.npz", x=IMAGES[4:])

    def parts(session: Session) -> ModuleOp:
        module = net()(session)
        run_passes(module, [make_pass("fuse-all"), make_pass("insert-observers", "observer=mse")], session)
        for name in "ab":
            save = make_pass("calibrate", f"data={name}.npz save-state={name} engine=onnxruntime")
            run_passes(module, [save], session)
        return module

    merged = calibrated(parts, "load-state=a,b", "mse")
    assert merged == calibrated(net(), "data=x.npz engine=onnxruntime", "mse")


@pytest.mark.parametrize("observer", ["minmax", "percentile"])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_not_finite_is_located_alike(observer: str, threads: int, folder: Path) -> None:
    images = IMAGES.copy()
    images[4] = -60  # exp of large sums leaves float32
    np.savez("x.npz", x=images)
    message = r"conv.*NaN or Inf|NaN or Inf"
    with pytest.raises(CompileError, match=message) as ours:
        calibrated(net("exp"), "data=x.npz engine=numpy", observer)
    with pytest.raises(CompileError) as theirs:
        calibrated(net("exp"), f"data=x.npz engine=onnxruntime threads={threads}", observer)
    assert str(theirs.value) == str(ours.value)


def test_nan_that_a_reduction_overlooks(folder: Path) -> None:
    images = IMAGES.copy()
    images[3, 0, 3, 3] = -1e-3
    np.savez("x.npz", x=images)
    for backend in ("numpy", "onnxruntime"):
        with pytest.raises(CompileError, match="NaN or Inf among the values"):
            calibrated(net("sqrt"), f"data=x.npz engine={backend}")


def test_sums_that_overflow_are_no_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scaled = NET.replace("MIDDLE", "relu").replace(KERNEL.tobytes().hex(), np.full_like(KERNEL, 1e37).tobytes().hex())
    np.savez("x.npz", x=np.ones_like(IMAGES))

    def model(session: Session) -> ModuleOp:
        return parse_module(session, scaled)

    agree(model, "data=x.npz", "minmax")
    assert "6 of 6 batches were run in numpy again: not all values are finite" in capsys.readouterr().err


def test_bad_data_is_located(folder: Path) -> None:
    images = IMAGES.copy()
    images[2, 1, 0, 0] = np.nan
    np.savez("x.npz", x=images)
    with pytest.raises(CompileError, match="holds NaN or Inf in sample 2"):
        calibrated(net(), "data=x.npz engine=onnxruntime threads=2")


def carried(session: Session) -> ModuleOp:
    """The net with an operation that no opset that is written has."""
    opaque = '%m = nn.opaque %c framework "onnx" op_type "Hardmax" version 11 : (TYPE) -> TYPE'
    text = NET.replace("%m = nn.MIDDLE %c : TYPE".replace("TYPE", INNER), opaque.replace("TYPE", INNER))
    return parse_module(session, text)


def test_operations_without_a_form_in_onnx(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = r"holds Hardmax of opset 11, which opset 17 defines otherwise\n  hint: engine=numpy runs every module"
    with pytest.raises(CompileError, match=message):
        calibrated(carried, "data=x.npz engine=onnxruntime")
    large(monkeypatch)
    assert calibrated(carried, "data=x.npz") == calibrated(carried, "data=x.npz engine=numpy")
    assert "note: running in numpy, as onnxruntime cannot: <stdin>:7:3: 'nn.opaque' op" in capsys.readouterr().err


def test_a_cluster_knows_what_onnxruntime_cannot_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before shares are sent: all of them take the same backend."""
    large(monkeypatch)
    session = new_session()
    module = carried(session)
    with ThreadPoolExecutor(1) as client:
        calibrate = replace(make_pass("calibrate", "data=x.npz"), cluster=workers_of(client))
        run_passes(module, [make_pass("insert-observers", ""), calibrate], session)
    points = [op for op in module.walk() if isinstance(op, nn.ObserveOp)]
    assert points
    assert all(op.qparams is not None for op in points)


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights cannot be set aside: an error where onnxruntime is asked for, else numpy, and a word about it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    expected = calibrated(net(), "data=x.npz engine=numpy")
    monkeypatch.setattr(engines, "set_aside", full)
    with pytest.raises(CompileError, match="No space left on device\n  hint: engine=numpy runs every module"):
        calibrated(net(), "data=x.npz engine=onnxruntime")
    large(monkeypatch)
    assert calibrated(net(), "data=x.npz") == expected
    note = capsys.readouterr().err
    assert "note: running in numpy, as onnxruntime cannot" in note
    assert "No space left on device" in note


def test_weights_that_are_set_aside_are_not_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_of, places = onnx_runtime._session, Counter[str]()

    def watched(path: Path, device: Device) -> object:
        initializers = onnx.load(path, load_external_data=False).graph.initializer
        places.update(entry.value for each in initializers for entry in each.external_data if entry.key == "location")
        assert bool((path.parent / "model.onnx.data").stat().st_size) == bool(places["model.onnx.data"])
        return session_of(path, device)

    monkeypatch.setattr(onnx_runtime, "_session", watched)
    model = example("digits/digits.onnx")
    data = f"data={EXAMPLES / 'digits' / 'calib.npz'} samples=2 engine=onnxruntime"
    expected = calibrated(model, data)
    in_memory = places.pop("model.onnx.data")
    assert not places
    monkeypatch.setattr(weights, "_WORTH_RELEASING", 1 << 13)
    assert calibrated(model, data) == expected
    assert 0 < places["weights.safetensors"] == in_memory - places["model.onnx.data"]


def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every model large enough for onnxruntime."""
    monkeypatch.setattr(engines, "worthwhile", lambda work: True)


def test_auto_takes_numpy_for_little_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = calibrated(net(), "data=x.npz engine=numpy")
    with monkeypatch.context() as patch:
        patch.setattr(engines.Runner, "_in_onnxruntime", None)
        assert calibrated(net(), "data=x.npz") == expected
        large(patch)
        with pytest.raises(TypeError):
            calibrated(net(), "data=x.npz")
    large(monkeypatch)
    assert calibrated(net(), "data=x.npz") == calibrated(net(), "data=x.npz engine=onnxruntime")


def test_without_onnxruntime(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    large(monkeypatch)
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"to be installed\n  hint: pip install 'amct-opt\[onnxruntime\]'"):
        calibrated(net(), "data=x.npz engine=onnxruntime")
    assert calibrated(net(), "data=x.npz") == calibrated(net(), "data=x.npz engine=numpy")
    assert "pip install 'amct-opt[onnxruntime]' makes this several times faster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("engine=numpy threads=2", "engine numpy runs one batch at a time"),
        ("threads=0", "threads must be positive, not 0"),
        ("engine=cuda", "engine"),
    ],
)
def test_bad_options(options: str, message: str, folder: Path) -> None:
    with pytest.raises(CompileError, match=message):
        calibrated(net(), f"data=x.npz {options}")


def test_channels_are_balanced_alike(folder: Path) -> None:
    def products(backend: str) -> list[np.ndarray]:
        session = new_session()
        module = net()(session)
        names = ("fuse-all", ""), ("insert-observers", "dmq=0.5"), ("balance-channels", f"data=x.npz engine={backend}")
        run_passes(module, [make_pass(name, options) for name, options in names], session)
        return [op.array for op in module.walk() if isinstance(op, nn.ConstantOp)]

    pairs = list(zip(products("numpy"), products("onnxruntime"), strict=True))
    assert len(pairs) == 4
    for ours, theirs in pairs:
        np.testing.assert_allclose(theirs, ours, rtol=1e-5)


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "quantize",
        f"{EXAMPLES}/digits/digits.onnx",
        "--data",
        f"{EXAMPLES}/digits/calib.npz",
        "--also",
        "record",
    ]
    assert amct.run([*arguments, "--engine", "onnxruntime", "--threads", "2", "-o", "a"]) == 0
    assert amct.run([*arguments, "--engine", "numpy", "-o", "b"]) == 0
    assert amct.run([*arguments, "--engine", "numpy", "--threads", "2", "-o", "c"]) == 1
    assert "engine numpy runs one batch at a time" in capsys.readouterr().err
    a, b = (Path(f"{name}/digits_record.txt").read_text().splitlines() for name in "ab")
    scales = [
        [float(line.rpartition(":")[2]) for line in lines if line.strip().startswith("scale_d:")] for lines in (a, b)
    ]
    assert scales[0]
    np.testing.assert_allclose(*scales, rtol=2e-5)


def test_batches_keep_turns() -> None:
    seen: list[int] = []

    def work(batch: int, turn: object) -> None:
        time.sleep(0.002 * (batch % 3 == 0))
        with turn:  # pyright: ignore
            seen.append(batch)

    OrderedBatches(range(20)).run(work, 4)
    assert seen == list(range(20))


def test_the_first_failure_of_batches_is_raised() -> None:
    begun: list[int] = []

    def batches() -> Iterator[int]:
        yield from range(6)
        raise ValueError("unreadable")

    def work(batch: int, turn: object) -> None:
        begun.append(batch)
        if batch == 2:
            time.sleep(0.01)
            raise ValueError("2")
        if batch == 3:
            raise ValueError("3")
        with turn:  # pyright: ignore
            pass

    with pytest.raises(ValueError, match="2"):
        OrderedBatches(batches()).run(work, 3)
    assert len(begun) < 6

    def idle(batch: int, turn: Any) -> None:
        with turn:
            pass

    with pytest.raises(ValueError, match="unreadable"):
        OrderedBatches(batches()).run(idle, 1)
