"""Writes docs/measured/exactness.md, how far the stages of a quantized model are apart (some minutes).

Every model is compiled by `amct-opt MODEL --fuse-all --quantize --lower-to-ascend --fuse-requant`; `-t onnx-ascend` writes the
deployable file. Each stage, and the file read back, runs on the same samples; the int8 tensors between layers are compared.
Requires onnxruntime, OpenCV and TensorFlow, which make the models.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from amct_opt.data.inputs import load_runs
from amct_opt.dialects.ascend import AscendQuantOp, AscendRequantOp
from amct_opt.dialects.nn import QuantizeOp
from amct_opt.ir.functions import main_function
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import Differences
from amct_opt.tools import amct_opt
from amct_opt.tools.shared import load_module

Array = np.ndarray[Any, np.dtype[Any]]

TARGET = Path(__file__).parents[1] / "measured/exactness.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGES = 2
"""Number of samples to measure on; digits uses all held-out samples."""


@dataclass(frozen=True)
class Model:
    name: str
    path: Path
    calibration: Path
    measured: Path
    options: tuple[str, ...] = ()
    """How it is read."""
    channels_last: bool = False


class Distance(NamedTuple):
    """How many int8 elements differ by 0, 1, 2, 3 and more steps, the most steps, and the SQNR of the outputs in dB."""

    counts: tuple[int, int, int, int]
    most: int
    sqnr: float

    @property
    def elements(self) -> int:
        return sum(self.counts)


STAGES = {
    "nn": "nn.mlir",
    "ascend": "ascend.mlir",
    "requant": "requant.mlir",
    "file": "deploy.onnx",
}
"""The stages: nn module with quantize and dequantize, lowered module, module with AscendRequant, deployable file."""

PAIRS = (("nn", "ascend"), ("ascend", "requant"), ("nn", "requant"), ("ascend", "file"))


def _digits(_: Path) -> Model:
    digits = EXAMPLES / "digits"
    return Model("digits", digits / "digits.onnx", digits / "calib.npz", digits / "heldout.npz")


def _transformer(folder: Path) -> Model:
    encoder = example("models/light").without_softmax(onnx.load(EXAMPLES / "models" / "transformer.onnx"))
    tokens = [np.random.default_rng(seed).normal(size=(16, 16, 64)).astype(np.float32) for seed in (11, 12)]
    return _onnx(folder, "transformer", encoder, tokens)


def light_model(folder: Path, name: str) -> Model:
    light = example("models/light")
    return _onnx(folder, name, light.without_softmax(light.build(name)), _pictures(light))


def _mobilenet(folder: Path) -> Model:
    return _onnx(folder, "mobilenet_v2", example("models/mobilenet").build(), _pictures(example("models/light")))


def _pictures(light: Any) -> list[Array]:
    return [light.images(count, seed) for count, seed in ((4, 11), (IMAGES, 12))]


def _onnx(folder: Path, name: str, model: onnx.ModelProto, data: Sequence[Array]) -> Model:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return Model(name, path, *_saved(folder, name, model.graph.input[0].name, data))


def _saved(folder: Path, name: str, input_name: str, data: Sequence[Array]) -> tuple[Path, Path]:
    calibration, measured = (folder / f"{name}_{part}.npz" for part in ("calibration", "measured"))
    for file, samples in zip((calibration, measured), data, strict=True):
        np.savez(file, **dict[str, Any]({input_name: samples}))
    return calibration, measured


def _caffe(folder: Path) -> Model:
    nets, size = example("caffe/nets"), 64
    prototxt, caffemodel = nets.generate("googlenet", folder, size=size)
    data = [nets.images(count, size, seed) for count, seed in ((4, 11), (IMAGES, 12))]
    files = _saved(folder, "googlenet", "data", data)
    return Model("Caffe googlenet", prototxt, *files, options=(f"--weights={caffemodel}",))


def _tensorflow(folder: Path, package: str, name: str) -> Model:
    applications = example("tensorflow/applications")
    seeded = applications.build(package, name, 64)
    path = applications.write_frozen(seeded.function, folder / f"{package}_{name}")
    data = seeded.images[:-IMAGES], seeded.images[-IMAGES:]
    return Model(f"{package} {name}", path, *_saved(folder, path.stem, applications.INPUT, data), channels_last=True)


def example(name: str) -> Any:
    """A script of examples as a module."""
    path = EXAMPLES / f"{name}.py"
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MODELS: Mapping[str, Callable[[Path], Model]] = {
    "digits": _digits,
    "transformer": _transformer,
    "resnet50": partial(light_model, name="resnet50"),
    "mobilenet_v2": _mobilenet,
    "densenet121": partial(light_model, name="densenet121"),
    "Caffe googlenet": _caffe,
    "tf_keras MobileNetV2": partial(_tensorflow, package="tf_keras", name="MobileNetV2"),
    "keras ResNet50": partial(_tensorflow, package="keras", name="ResNet50"),
}
"""The models by name; each function writes its files into a folder."""


def stages(model: Model, folder: Path) -> dict[str, ModuleOp]:
    """Every stage of a model, made by the command line from the one before, and read again."""
    inputs = [model.path, *(folder / name for name in STAGES.values())]
    passes = (
        [*model.options, "--fuse-all", f"--quantize=observer=minmax data={model.calibration}"],
        ["--lower-to-ascend"],
        ["--fuse-requant"],
    )
    for (source, out), options in zip(pairwise(inputs), passes, strict=False):
        _run(str(source), *options, "-o", str(out))
    _run(str(folder / STAGES["nn"]), "-t", "onnx-ascend", "-o", str(folder / STAGES["file"]))
    return {stage: load_module(folder / name)[0] for stage, name in STAGES.items()}


def _run(*arguments: str) -> None:
    if amct_opt.run(arguments) != 0:
        raise RuntimeError(" ".join(arguments))


def distances(model: Model, modules: Mapping[str, ModuleOp]) -> dict[tuple[str, str], Distance]:
    """The distance of each of PAIRS."""
    tensors = {stage: int8_tensors(module) for stage, module in modules.items()}
    # a file has other names of values, in the order of the module that it was written from
    tensors["file"] = dict(zip(tensors["ascend"], tensors["file"].values(), strict=True))
    executables = {stage: Executable(m, list(tensors[stage].values())) for stage, m in modules.items()}
    steps = {pair: np.zeros(256, np.int64) for pair in PAIRS}
    outputs = {pair: Differences() for pair in PAIRS}
    for inputs in load_runs(model.measured, main_function(modules["nn"])).inputs:
        seen, made = {}, {}
        for stage, executable in executables.items():
            seen[stage], made[stage] = ran(executable, tensors[stage], inputs)
        for one, other in PAIRS:
            for name in seen[one].keys() & seen[other].keys():
                turned = model.channels_last and other == "file"
                apart = np.abs(seen[one][name].astype(np.int16) - arranged(seen[other][name], turned))
                steps[one, other] += np.bincount(apart.reshape(-1), minlength=256)
            for a, b in zip(made[one].values(), made[other].values(), strict=True):
                outputs[one, other].add(a, b)
    return {pair: distance(steps[pair], outputs[pair]) for pair in PAIRS}


def int8_tensors(module: ModuleOp) -> dict[str, SSAValue]:
    """The int8 values between layers, by name and a count among values of the same name."""
    values = [op.results[0] for op in module.walk() if isinstance(op, QuantizeOp | AscendQuantOp | AscendRequantOp)]
    seen = Counter[str | None]()
    named: dict[str, SSAValue] = {}
    for value in values:
        seen[value.name_hint] += 1
        named[f"{value.name_hint} {seen[value.name_hint]}"] = value
    return named


def ran(
    executable: Executable, tensors: Mapping[str, SSAValue], inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The int8 tensors of one run by name, and its outputs."""
    names, arrays = {value: name for name, value in tensors.items()}, dict[str, Array]()

    def keep(value: SSAValue, array: Array) -> None:
        arrays[names[value]] = array.copy()

    return arrays, executable.run(_as_taken(executable, inputs), keep)


def _as_taken(executable: Executable, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Inputs by the names of this stage, which are in the same order."""
    return dict(zip(executable.inputs, inputs.values(), strict=True))


def arranged(array: Array, turned: bool) -> Array:
    """An array of a file, as int16; with `turned`, channels move from second to last, as in the module."""
    return (np.moveaxis(array, 1, -1) if turned else array).astype(np.int16)


def distance(steps: Array, outputs: Differences) -> Distance:
    counts = int(steps[0]), int(steps[1]), int(steps[2]), int(steps[3:].sum())
    return Distance(counts, int(np.flatnonzero(steps).max(initial=0)), outputs.sqnr)


def measure(model: Model) -> dict[tuple[str, str], Distance]:
    with tempfile.TemporaryDirectory() as folder:
        return distances(model, stages(model, Path(folder)))


def page(folder: Path) -> str:
    """The whole page, every model measured; models are written into `folder`."""
    tables: dict[tuple[str, str], list[str]] = {pair: [] for pair in PAIRS}
    for name, build in MODELS.items():
        for pair, distance in measure(build(folder)).items():
            tables[pair].append(row(name, distance))
            print(pair, tables[pair][-1], file=sys.stderr)
    lines = [_PREFACE]
    for (one, other), rows in tables.items():
        lines += ["", f"## {one} and {other}", "", _WHY[one, other], "", *HEAD, *rows]
    return "\n".join([*lines, ""])


def row(name: str, distance: Distance) -> str:
    shares = [f"{count / distance.elements:.3%}" if count else "0" for count in distance.counts[1:]]
    outputs = "equal" if distance.sqnr == float("inf") else f"{distance.sqnr:.1f} dB"
    differing = sum(distance.counts[1:])
    return f"| {name} | {distance.elements} | {differing} | {' | '.join(shares)} | {distance.most} | {outputs} |"


HEAD = (
    "| model | int8 elements | differing | by 1 | by 2 | by 3 and more | at most | outputs |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
)

_PREFACE = """\
# How far the stages are apart

This page is generated by `python docs/generate/exactness.py`.
Each model is compiled in four stages, which run on the same samples:

* nn: `amct-opt MODEL --fuse-all --quantize=observer=minmax`
* ascend: the same module after `--lower-to-ascend`
* requant: then after `--fuse-requant`
* file: the nn module written with `-t onnx-ascend`

The tables compare all int8 tensors between layers, in steps of their integers, and the outputs by SQNR (signal to quantization
noise ratio). One step at one layer changes the input of the next layers: these differences are end to end and grow with depth.
A single operation on the same input differs by at most one step (`test/unit/lowering/ascend/test_stages.py`)."""

_WHY = {
    ("nn", "ascend"): """\
`nn` divides by the scale, rounds and adds the zero point. AscendQuant multiplies by the reciprocal, rounded to float32, and adds
the offset before it rounds, so that ties round the other way if the offset is odd. `nn` convolves dequantized reals in float32;
`ascend` convolves integers exactly and multiplies once afterwards.""",
    ("ascend", "requant"): """\
AscendRequant multiplies the accumulator once, by `deq_scale * scale` rounded to float32, and rounds before it adds the offset.
AscendDequant and AscendQuant multiply and round twice.""",
    ("nn", "requant"): "The sum of the two differences above.",
    ("ascend", "file"): "The deployable ONNX file, read back, has the same integers bit for bit.",
}


def main() -> None:
    """Writes the page; keeps the part that `exactness_qdq.py` wrote."""
    _, heading, rest = TARGET.read_text("utf-8").partition("\n## nn in integers")
    with tempfile.TemporaryDirectory() as folder:
        TARGET.write_text(page(Path(folder)) + heading + rest, "utf-8")


if __name__ == "__main__":
    main()
