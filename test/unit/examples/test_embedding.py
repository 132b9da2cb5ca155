"""The embeddings in examples/embedding, run as their reader runs them."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ..scripts import ROOT, installed

FOLDER = ROOT / "examples" / "embedding"
DIGITS = FOLDER.parent / "digits"
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def run(*argv: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": TOOLS, **variables}
    done = subprocess.run([str(a) for a in argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_plain_xdsl_opt(tmp_path: Path) -> None:
    """Our passes rewrite nn, xDSL's own arith, in one pipeline."""
    done = run("sh", FOLDER / "xdsl_opt.sh", cwd=tmp_path)
    first, second = done.stdout.split("builtin.module")[1:]
    assert 'nn.fused "LinearReLU"' in first
    assert "nn.mul" not in first
    assert first.count("arith.muli") == 1
    # the folded weight is that times [2, 0.5]; its largest is 3
    folded = next(line for line in first.splitlines() if "nn.constant" in line)
    values = [float(t) for t in re.findall(r"-?\d\.\d+e[+-]\d+", folded)]
    assert values == [2, -1, 1, 1.5, -3, 0.125, 0, 0.5]
    assert second.count("arith.muli") == 2
    assert "quant.scast %w.i8 : tensor<4x2xi8> to tensor<4x2x!quant.uniform<i8:f32, 0.0234375>>" in second  # 3 / 128
    assert "warning: no calibration data" in done.stderr


def test_the_larger_compiler(tmp_path: Path) -> None:
    """Nothing of ours is touched; the file that is written computes in onnxruntime what was measured."""
    done = run(sys.executable, FOLDER / "compile.py", tmp_path, cwd=tmp_path)
    match = re.search(r"top-1: ([\d.]+)% in float, ([\d.]+)% quantized", done.stdout)
    assert match is not None
    floating, quantized = float(match[1]), float(match[2])
    assert floating > 96
    assert abs(quantized - floating) <= 0.5
    for said in ("applied matmul-gain", "applied lower", "observed by spread{deviations=5}", "-- toy-fold-gain"):
        assert said in done.stdout
    session = onnxruntime.InferenceSession(tmp_path / "digits.onnx", providers=["CPUExecutionProvider"])
    with np.load(DIGITS / "heldout.npz") as arrays:
        (logits,) = map(np.asarray, session.run(None, dict(arrays)))
    labels = np.load(DIGITS / "heldout_labels.npy")
    assert (logits.argmax(1) == labels).mean() == pytest.approx(quantized / 100, abs=0.003)
    header = (tmp_path / "digits.h").read_text()
    numbers = re.search(r"fc1_weight_i8\[2048\] = \{(.*)\};", header)
    assert numbers is not None
    weights = np.array(numbers[1].split(","), int).reshape(64, 32)
    float_weights = np.load(FOLDER / "digits.npz")["fc1.weight"]
    scales = np.maximum(float_weights.max(0) / 127, -float_weights.min(0) / 128)
    assert (np.abs(weights * scales - float_weights) <= 0.501 * scales).all()


@pytest.mark.slow
def test_as_an_installed_plugin(tmp_path: Path) -> None:
    """Installed by pip, the command line has the format, the passes and the target."""
    path = str(installed(FOLDER, tmp_path))
    code = "from amct_opt.tools.entry import amct_opt; amct_opt()"
    options = [
        "--toy-fold-gain",
        "--toy-lower",
        "--profile=toy",
        f"--quantize=data={DIGITS / 'calib.npz'} observer=spread",
    ]
    target = ["-t", "toy-header{prefix=net_}", "-o", "digits.h"]
    run(sys.executable, "-c", code, FOLDER / "digits.toy", *options, *target, cwd=tmp_path, PYTHONPATH=path)
    assert "int8_t net_fc1_weight_i8[2048]" in (tmp_path / "digits.h").read_text()
    printed = run(sys.executable, "-c", code, FOLDER / "digits.toy", cwd=tmp_path, PYTHONPATH=path).stdout
    assert '%gain1 = toy.gain %fc1 factor 0.125 from <toy, "gain", "gain1"> : tensor<?x32xf32>' in printed


def test_the_fusion_is_short() -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        from toy.fold_gain import FoldGain  # pyright: ignore
    finally:
        sys.path.remove(str(FOLDER))
    lines = [line for line in inspect.getsource(FoldGain).splitlines() if line.strip()]
    assert len(lines) < 30


@pytest.mark.slow
@pytest.mark.skipif(
    not any(shutil.which(tool, path=TOOLS) for tool in ("mlir-opt", "iree-opt")),
    reason="no mlir-opt or iree-opt on PATH",
)
def test_upstream(tmp_path: Path) -> None:
    """Every quantization is a cast upstream, and the numbers are equal: no difference in any output."""
    done = run("sh", FOLDER / "upstream.sh", tmp_path, cwd=tmp_path)
    casts, _, table = done.stdout.partition("\n")
    sent, back = ((tmp_path / name).read_text() for name in ("sent.mlir", "back.mlir"))
    assert int(casts) == sent.count("nn.quantize") == back.count("nn.quantize") > 0
    assert "quant." not in back.replace("nn.quant", "")
    row = next(line for line in table.splitlines() if "logits" in line)
    assert "inf" in row


@pytest.mark.slow
def test_native(tmp_path: Path) -> None:
    """The native code that the small compiler writes computes the interpreter's outputs."""
    pytest.importorskip("iree.runtime")
    pytest.importorskip("iree.compiler")
    arguments = (DIGITS / "digits.onnx", DIGITS / "calib.npz", tmp_path / "out")
    done = run(sys.executable, FOLDER / "native.py", *arguments, cwd=tmp_path)
    assert done.stdout == f"{tmp_path / 'out' / 'model.vmfb'}: 0 of 10 outputs differ\n"
    assert len((FOLDER / "native.py").read_text().splitlines()) < 60
