"""`--device cuda`: what is said without a GPU, that none is ever silently left out, and numbers where there is one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.dialects import nn
from amct_opt.engines.onnx_runtime import check_started
from amct_opt.support.diagnostics import CompileError

from ..conftest import Amct, Result

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnxruntime` is not installed")

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, CALIB = DIGITS / "digits.onnx", DIGITS / "calib.npz"


@pytest.fixture
def on_cuda(amct_tool: Amct, tmp_path: Path) -> Callable[..., Result]:
    def run(*options: object) -> Result:
        return amct_tool(
            "quantize",
            MODEL,
            "--data",
            CALIB,
            "--no-report",
            "-o",
            tmp_path,
            "--device",
            "cuda",
            "--profile",
            "qdq",
            *options,
        )

    return run


def test_without_a_gpu(on_cuda: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU])
    result = on_cuda()
    assert (result.status, result.err.splitlines()) == (
        1,
        [
            f"error: device cuda: this onnxruntime has no {CUDA}, only {CPU}",
            "  hint: pip install onnxruntime-gpu in its place; --device cpu computes without a GPU",
        ],
    )


def test_what_computes_on_no_gpu(on_cuda: Callable[..., Result], amct_tool: Amct) -> None:
    assert "error: engine numpy does not compute on cuda" in on_cuda("--engine", "numpy").err
    assert "error: workers of a cluster do not compute on cuda" in on_cuda("--cluster", "local:1").err


class _Pretending:
    """A session of onnxruntime on the processor that says that it is on `started`."""

    asked: list[Any] = []

    def __init__(self, path: str, options: Any, providers: list[Any]):
        self.asked.append(providers)
        self._session, self.started = _SESSION(path, options, providers=[CPU]), CUDA

    def get_providers(self) -> list[str]:
        return [self.started, CPU]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


_SESSION = onnxruntime.InferenceSession


def test_every_batch_is_asked_of_the_gpu(on_cuda: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """With all bits of float32. A driver that does not start is an error, though onnxruntime would go on without it."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "InferenceSession", _Pretending)
    _Pretending.asked.clear()
    assert on_cuda().status == 0
    assert [(CUDA, {"use_tf32": 0}), CPU] in _Pretending.asked
    fallen = _Pretending(str(MODEL), onnxruntime.SessionOptions(), [])
    fallen.started = CPU
    with pytest.raises(CompileError, match="onnxruntime could not start on cuda, and took the processor"):
        check_started(fallen, "cuda")


@pytest.mark.skipif(CUDA not in onnxruntime.get_available_providers(), reason=f"no GPU: onnxruntime has no {CUDA}")
def test_ranges_are_those_of_the_processor() -> None:
    """Sums in another order: some float32 roundings of the largest value."""
    ranges: list[list[tuple[float, float]]] = []
    for device in ("cpu", "cuda"):
        module, session = amct_opt.load(MODEL)
        amct_opt.run_pipeline(module, "fuse", session)
        options: Any = {"device": device, "engine": "onnxruntime", "observer": "minmax"}
        amct_opt.calibrate(module, session, data=CALIB, **options)
        found = [op.range for op in module.walk() if isinstance(op, nn.ObserveOp)]
        assert None not in found
        ranges.append([each.data for each in found if each is not None])
    np.testing.assert_allclose(*map(np.array, ranges), rtol=1e-5, atol=1e-5)
