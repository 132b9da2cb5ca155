"""How close int8 comes to float on the logits, next to onnxruntime's own post-training quantization on the same data.

    python benchmarks/accuracy_light.py [NAME ...]

Names are those of `examples/models/light.py`, and `transformer`; without any, the models of the project's acceptance list. Both
tools see the same calibration samples (min-max, weights per channel) and are measured on others by SQNR, 10 log10(signal power /
noise power). `differing` counts logits of the file in onnxruntime without optimizations that are not equal to the interpreter's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from amct_opt import frontends
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import Differences
from amct_opt.session.universe import new_session
from amct_opt.support.tables import print_table
from amct_opt.targets.onnx import OnnxTarget

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "models"
NAMES = ("resnet50", "densenet121", "inception_v2", "shufflenet", "squeezenet", "vgg19", "transformer")
CALIBRATION_SAMPLES = 8
HELD_OUT_SAMPLES = 4

HEADERS = ("model", "SQNR dB", "in onnxruntime", "quantize_static", "differing", "of", "seconds", "quantize_static s")


class Measurement(NamedTuple):
    interpreted: float
    """SQNR of the interpreter on the quantized module, of its file in onnxruntime, and of onnxruntime's own quantization."""
    written: float
    static: float
    differing: int
    compared: int
    seconds: float
    static_seconds: float


def measure(path: Path, calibration: Array, held_out: Array, folder: Path) -> Measurement:
    """Quantize the model at `path`, whose one output is the logits, both ways. Arrays have one sample per row."""
    start = time.perf_counter()
    ours = folder / "ours.onnx"
    executable = quantize(path, calibration, ours)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    static = folder / "static.onnx"
    quantize_by_onnxruntime(path, calibration, static)
    static_seconds = time.perf_counter() - start

    name = executable.inputs[0]
    float_session, ours_session, static_session = session(path), session(ours, optimized=False), session(static)
    interpreted, written, by_static, between = (Differences() for _ in range(4))
    for sample in held_out:
        inputs = {name: sample[None]}
        reference, file, other = (
            np.asarray(s.run(None, inputs)[0]) for s in (float_session, ours_session, static_session)
        )
        (own,) = executable.run(inputs).values()
        interpreted.add(reference, own)
        written.add(reference, file)
        by_static.add(reference, other)
        between.add(own, file)
    numbers = interpreted.sqnr, written.sqnr, by_static.sqnr, between.differing, between.count
    return Measurement(*numbers, seconds, static_seconds)


def quantize(path: Path, calibration: Array, out: Path) -> Executable:
    """`--fuse-bn --quantize=data=... -t onnx`. Returns the quantized module, ready to run."""
    context = new_session()
    module = frontends.read(path, context)
    data = out.with_suffix(".npz")
    np.savez(data, **dict[str, Any]({onnx.load(path).graph.input[0].name: calibration}))
    run_passes(module, [make_pass("fuse-bn"), make_pass("quantize", f"data={data}")], context)
    OnnxTarget().write(module, out, context)
    return Executable(module)


class _Reader(CalibrationDataReader):
    def __init__(self, name: str, samples: Array):
        self._rest = iter([{name: sample[None]} for sample in samples])

    def get_next(self) -> Any:
        return next(self._rest, None)


def quantize_by_onnxruntime(path: Path, calibration: Array, out: Path) -> None:
    """onnxruntime's `quantize_static` as its documentation advises: pre-processed (which folds batch norms), QDQ, per channel."""
    context = new_session()
    newer, prepared = out.with_suffix(".opset17.onnx"), out.with_suffix(".prepared.onnx")
    # its quantizer wants an opset of at least 13 for weights per channel; the light models have 9
    OnnxTarget().write(frontends.read(path, context), newer, context)
    quant_pre_process(newer, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared,
        out,
        _Reader(onnx.load(path).graph.input[0].name, calibration),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
    )


def session(path: Path, *, optimized: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def example(name: str) -> Any:
    """The script `examples/models/<name>.py` as a module."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(name: str) -> tuple[str, ...]:
    light = example("light")
    small = name == "transformer"
    model = onnx.load(EXAMPLES / "transformer.onnx") if small else light.build(name)
    calibration, held_out = (
        np.random.default_rng(seed).normal(size=(count, 16, 64)).astype(np.float32)
        if small
        else light.images(count, seed)
        for count, seed in ((CALIBRATION_SAMPLES, 11), (HELD_OUT_SAMPLES, 12))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(light.without_softmax(model), path)
        m = measure(path, calibration, held_out, Path(folder))
    ratios = (f"{r:.1f}" for r in (m.interpreted, m.written, m.static))
    return (name, *ratios, str(m.differing), str(m.compared), f"{m.seconds:.1f}", f"{m.static_seconds:.1f}")


def main(names: list[str]) -> None:
    print_table("int8 against float, on the logits", HEADERS, [row(name) for name in names or NAMES])


if __name__ == "__main__":
    main(sys.argv[1:])
