"""Files of profile qdq in onnxruntime on emulated processors: their integers are those of the interpreter here.

    python test/processors [NETWORKS [FOLDER ...]]

Emulated by qemu-user, which is installed with apt-get if possible: x86-64 with AVX2 and with SSE2 only, 64-bit Arm without and
with dot products (Python for Arm is put together in out/arm). What cannot be emulated is skipped by name. NETWORKS is a number of
networks; a further one with `--portable off` must differ with AVX2 and on Arm, or nothing is tested. FOLDERs of `amct quantize
--profile qdq`, with a few samples in `samples.npz`, take the place of these networks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from amct_opt.flows.peer import Simulation, shown_integers, simulated_integers
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.tools import amct
from amct_opt.tools.shared import load_module
from amct_opt.transforms.quantization.profiles import QDQ

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARM = ROOT / "out" / "arm"
SAMPLES = 4
"""Samples of each network that run on each processor."""
CONTROL, EXACT = "plain weights", "x86-64, SSE2"
"""A network that all processors but this one must get wrong."""
PROCESSORS: Mapping[str, tuple[str, ...]] = {
    "x86-64, AVX2": ("qemu-x86_64", "-cpu", "Haswell", sys.executable),
    EXACT: ("qemu-x86_64", "-cpu", "Nehalem", sys.executable),
    "Arm v8.0": (str(ARM / "python"), "cortex-a57"),
    "Arm, dot products": (str(ARM / "python"), "max"),
}
"""What begins a command that runs a Python file."""


def networks(folder: Path, count: int) -> Iterator[Path]:
    """Folders of quantized networks: the trained digits, then random ones."""
    digits = ROOT / "examples" / "digits"
    yield quantized(digits / "digits.onnx", digits / "calib.npz", folder / "digits")
    for seed in range(count - 1):
        yield quantized(*written(seed, folder), folder / f"random{seed}")


def written(seed: int, folder: Path) -> tuple[Path, Path]:
    """A network of convolutions, in groups and depthwise as well, and of dense layers, and its data. Most weights are positive;
    those of the depthwise layer are at both ends, where plain ones would be -128.
    """
    rng, path = np.random.default_rng(seed), folder / f"random{seed}.onnx"
    data = path.with_suffix(".npz")
    np.savez(data, x=rng.uniform(size=(40, 3, 12, 12)).astype(np.float32))
    nodes, constants, last = list[onnx.NodeProto](), list[onnx.TensorProto](), "x"

    def add(kind: str, *shapes: tuple[int, ...], **attributes: Any) -> None:
        nonlocal last
        names = [f"{kind}{len(nodes)}.{i}" for i in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            values = rng.uniform(-0.1, 0.4, shape) if len(shape) > 1 else rng.normal(size=shape)
            if shape[1:2] == (1,):
                values = rng.choice([-0.4, 0.1, 0.398], shape)
            constants.append(numpy_helper.from_array(values.astype(np.float32), name))
        nodes.append(helper.make_node(kind, [last, *names], [f"{kind}{len(nodes)}"], **attributes))
        last = nodes[-1].output[0]

    for shape, groups in (((16, 3, 3, 3), 1), ((24, 4, 3, 3), 4), ((24, 1, 3, 3), 24), ((15, 24, 1, 1), 1)):
        add("Conv", shape, shape[:1], group=groups, pads=[1] * 4 if shape[2] == 3 else [0] * 4)
        add("Relu")
    add("MaxPool", kernel_shape=[3, 3], strides=[3, 3])
    add("Flatten")
    add("Gemm", (240, 20), (20,))
    add("Relu")
    add("Gemm", (10, 20), (10,), transB=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 12, 12])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path, data


def quantized(model: Path, data: Path, out: Path, *options: str) -> Path:
    """The folder of a network that `amct quantize` makes, with a few of its samples."""
    options = (*options, *["--profile", "qdq", "--also", "nn", "--no-report", "--quiet"])
    command = ["quantize", str(model), "--data", str(data), "-o", str(out), *options]
    if amct.run(command) != 0:
        raise SystemExit(f"failed: amct {' '.join(command)}")
    np.savez(out / "samples.npz", **{name: array[-SAMPLES:] for name, array in np.load(data).items()})
    return out


def prepared(network: Path, folder: Path) -> None:
    """Put the file, the inputs and the integers that are expected into a folder."""
    folder.mkdir()
    (module,) = network.glob("*_nn.mlir")
    simulation = Simulation(load_module(module)[0], in_integers, QDQ)
    shown = shown_integers(next(network.glob("*_qdq.onnx")))
    shutil.move(shown.path, folder / "model.onnx")
    samples: dict[str, Any] = dict(np.load(network / "samples.npz"))
    np.savez(folder / "inputs.npz", **samples)
    np.savez(folder / "integers.npz", **dict[str, Any](simulated_integers(simulation, shown, samples)))


def found_on(command: tuple[str, ...], folder: Path) -> dict[str, list[int]] | str:
    """By network, the number of integers that differ and of all; or the reason why the processor cannot be emulated."""
    program = shutil.which(command[0])
    if program is None:
        return f"{command[0]} is not installed"
    arguments = [program, *command[1:], str(HERE / "run_files.py"), str(folder)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "QEMU_LOG_FILENAME": os.devnull}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    if done.returncode:
        return f"it ends with status {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return json.loads(done.stdout)


def installed() -> None:
    """Install qemu-user and Python for Arm, if that is possible."""
    if shutil.which("qemu-x86_64") is None and shutil.which("apt-get") is not None:
        subprocess.run(["apt-get", "install", "--yes", "--no-install-recommends", "qemu-user"], capture_output=True)
    if shutil.which("qemu-aarch64") is not None and not (ARM / "python").exists():
        done = subprocess.run([str(HERE / "arm.sh"), str(ARM)], capture_output=True, text=True)
        if done.returncode:
            print(f"Python for Arm: {(done.stderr.strip().splitlines() or ['no message'])[-1]}", flush=True)


def main(count: str = "10", *given: str) -> int:
    installed()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder, made = Path(scratch) / "networks", Path(scratch) / "made"
        folder.mkdir()
        made.mkdir()
        for network in map(Path, given) if given else networks(made, int(count)):
            prepared(network, folder / network.name)
        prepared(quantized(*written(0, made), made / CONTROL, "--portable", "off"), folder / CONTROL)
        for name, command in PROCESSORS.items():
            found = found_on(command, folder)
            if isinstance(found, str):
                print(f"skipped: {name}: {found}", flush=True)
                continue
            for network, (differing, integers) in found.items():
                wrong += (differing > 0) != (network == CONTROL and name != EXACT)
                print(f"{name}: {network}: {differing} of {integers} integers differ", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
