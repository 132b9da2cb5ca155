"""Writes docs/measured/accuracy.md, what every algorithm, mode and bit width costs (some minutes).

Every row is `amct-opt MODEL --fuse-bn --quantize=...` on three models, and `--lower-to-ascend` after it where all integers are
of 8 bits. Outputs are compared with those of the float model on samples that did not calibrate. Needs onnxruntime, which fits
the parameters of the seeded models.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from exactness import example

from amct_opt.data.inputs import load_runs, run_all
from amct_opt.ir.functions import main_function
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import sqnr
from amct_opt.tools import amct_opt
from amct_opt.tools.shared import load_module

Array = np.ndarray[Any, np.dtype[Any]]

TARGET = Path(__file__).parents[1] / "measured/accuracy.md"
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Model:
    """A model file with logits as its only output, data to calibrate and to measure with, and the labels of the latter."""

    name: str
    path: Path
    calibration: Path
    held_out: Path
    add: str
    """A residual addition."""
    labels: Array | None = None


class Row(NamedTuple):
    """A way to quantize: options of `--quantize`, or the text of a configuration; `{add}` is a residual addition."""

    group: str
    name: str
    options: str = ""
    config: str = ""
    profile: str = "ascend"
    lowered: bool = True
    """It is measured on the ascend dialect as well."""


def _common(text: str) -> str:
    return f"common_config {{ {text} }}"


OBSERVERS = ("minmax", "moving-average", "percentile", "kl", "mse", "isotone", "ifmr", "ifmr{exact=true}", "hfmg")

ROWS: Sequence[Row] = (
    *(Row("activations, int8", name, f"observer={name}") for name in OBSERVERS),
    Row("activations, int8", "minmax, symmetric", "activation-offset=false observer=minmax"),
    Row("activations, other widths", "minmax, int4", "bits=4 observer=minmax", lowered=False),
    Row("activations, other widths", "mse, int4", "bits=4 observer=mse", lowered=False),
    Row("activations, other widths", "minmax, int16", "bits=16 observer=minmax", lowered=False),
    Row("weights", "ARQ, one scale", "channel-wise=false observer=minmax"),
    Row("weights", "ARQ, int7", "weight-bits=7 observer=minmax"),
    Row("weights", "ARQ, int6", "weight-bits=6 observer=minmax"),
    Row("weights", "ARQ, int4", "weight-bits=4 round-weights=nearest observer=minmax", lowered=False),
    Row("weights", "NUQ, 32 levels", config=_common("nuq_quantize { num_steps: 32 }")),
    Row("weights", "NUQ, 16 levels", config=_common("nuq_quantize { num_steps: 16 }")),
    Row("weights", "NUQ of the heaviest layers", config="enable_auto_nuq: true"),
    Row("weights only", "one scale", "weight-only=true channel-wise=false"),
    Row("weights only", "channel-wise", "weight-only=true channel-wise=true"),
    Row(
        "weights only",
        "channel-wise, asymmetric",
        "weight-only=true channel-wise=true weight-asymmetric=true",
    ),
    Row("modes", "DMQ", "dmq=0.5 observer=minmax"),
    Row("modes", "tensor quantization of an addition", "tensor-quantize={add}:0,{add}:1 observer=minmax"),
    Row("modes", "joint quantization", "joint-quant=true shift=false observer=minmax"),
    Row("modes", "joint quantization, shift N", "joint-quant=true observer=minmax"),
    Row("modes", "FORCE_FP16_QUANT", "fakequant-precision-mode=FORCE_FP16_QUANT observer=minmax"),
    Row("profile ppq", "ppq, minmax", "observer=minmax", profile="ppq", lowered=False),
    Row("profile ppq", "ppq, kl", "observer=kl", profile="ppq", lowered=False),
    Row("profile ppq", "ppq, mse", "observer=mse", profile="ppq", lowered=False),
    Row(
        "profile ppq",
        "ppq, additions not aligned",
        "align-elementwise=none observer=minmax",
        profile="ppq",
        lowered=False,
    ),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seeded = page(list(models(Path(folder))), ROWS)
        text = TARGET.read_text("utf-8")
        TARGET.write_text(text[: text.index(SEEDED)] + seeded, "utf-8")


def models(folder: Path) -> Iterator[Model]:
    """The digits network, a seeded transformer encoder, and a seeded ResNet-50."""
    digits = EXAMPLES / "digits"
    labels = np.load(digits / "heldout_labels.npy")
    yield Model("digits", digits / "digits.onnx", digits / "calib.npz", digits / "heldout.npz", "add1", labels)
    light = example("models/light")
    encoder = light.without_softmax(onnx.load(EXAMPLES / "models" / "transformer.onnx"))
    tokens = [np.random.default_rng(seed).normal(size=(count, 16, 64)).astype(np.float32) for count, seed in _SPLIT]
    yield _written(folder, "transformer", encoder, tokens, "Add_26")
    residual = _with_adds(light.without_softmax(light.build("resnet50")))
    pictures = [light.images(count // 4, seed) for count, seed in _SPLIT]
    yield _written(folder, "resnet50", residual, pictures, "n14")


_SPLIT = ((16, 11), (16, 12))
"""Samples and seed of the data to calibrate and to measure with; ResNet-50 gets a quarter of it."""


def _with_adds(model: onnx.ModelProto) -> onnx.ModelProto:
    """Its residual additions as exporters write them today; the file has Sum, which AMCT's tables do not list."""
    for node in model.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
    return model


def _written(folder: Path, name: str, model: onnx.ModelProto, data: Sequence[Array], add: str) -> Model:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    calibration, held_out = (folder / f"{name}_{part}.npz" for part in ("calibration", "held_out"))
    for file, samples in zip((calibration, held_out), data, strict=True):
        np.savez(file, **dict[str, Any]({model.graph.input[0].name: samples}))
    return Model(name, path, calibration, held_out, add)


class Measured(NamedTuple):
    """SQNR in dB and images right, of the `nn` module and of the lowered one; None where there is none."""

    sqnr: float
    right: int | None
    lowered_sqnr: float | None = None
    lowered_right: int | None = None


def measure(model: Model, row: Row, folder: Path) -> Measured:
    """Quantize a model as a row has it, and run it on the held-out samples. Raises RuntimeError with what the command said."""
    options = [f"data={model.calibration}", *row.options.replace("{add}", model.add).split()]
    if row.config:
        config = folder / "config.cfg"
        config.write_text(row.config.replace("{add}", model.add), "utf-8")
        options.append(f"config={config}")
    command = [
        str(model.path),
        f"--profile={row.profile}",
        "--fuse-bn",
        f"--quantize=correct-bias=false {' '.join(options)}",
    ]
    expected = _outputs(model, model.path)
    measured = Measured(*_compare(model, expected, _made(command, folder)))
    if not row.lowered:
        return measured
    lowered = _compare(model, expected, _made([*command, "--lower-to-ascend"], folder))
    return Measured(*measured[:2], *lowered)


def _made(command: Sequence[str], folder: Path) -> Path:
    out, said = folder / "out.mlir", StringIO()
    with redirect_stderr(said):
        status = amct_opt.run([*command, "-o", str(out)])
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: {said.getvalue()}")
    return out


def _outputs(model: Model, path: Path) -> Array:
    module, _ = load_module(path)
    (logits,) = run_all(Executable(module), load_runs(model.held_out, main_function(module))).values()
    return logits


def _compare(model: Model, expected: Array, path: Path) -> tuple[float, int | None]:
    logits = _outputs(model, path)
    right = None if model.labels is None else int((logits.argmax(-1) == model.labels).sum())
    return sqnr(expected, logits), right


def page(of: Sequence[Model], rows: Sequence[Row]) -> str:
    """The whole page, every row measured on every model."""
    lines = [_PREFACE.format(float_right=_float_right(of))]
    for group, members in groupby(rows, lambda row: row.group):
        lines += ["", f"### {group[0].upper()}{group[1:]}", "", *_head(of)]
        for row in members:
            with tempfile.TemporaryDirectory() as folder:
                cells = [cell for model in of for cell in _cells(model, measure(model, row, Path(folder)))]
            lines.append(f"| {row.name} | {_told(row)} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr)
    return "\n".join([*lines, ""])


def _float_right(of: Sequence[Model]) -> str:
    rights = [_compare(m, _outputs(m, m.path), m.path)[1] for m in of if m.labels is not None]
    return ", ".join(map(str, rights))


def _head(of: Sequence[Model]) -> list[str]:
    names = [name for m in of for name in (m.name, *(("top-1",) if m.labels is not None else ()))]
    return [f"| {' | '.join(['', 'as', *names])} |", f"|{' --- |' * 2}{' ---: |' * len(names)}"]


def _told(row: Row) -> str:
    said = row.options or row.config
    profile = "" if row.profile == "ascend" else f"--profile={row.profile} "
    return f"`{profile}{said}`".replace(" `", "`")


def _cells(model: Model, m: Measured) -> Iterator[str]:
    yield _pair(f"{m.sqnr:.1f}", None if m.lowered_sqnr is None else f"{m.lowered_sqnr:.1f}")
    if m.right is not None:
        yield _pair(str(m.right), None if m.lowered_right is None else str(m.lowered_right))


def _pair(simulated: str, lowered: str | None) -> str:
    return simulated if lowered in (None, simulated) else f"{simulated} / {lowered}"


SEEDED = "## Algorithms, modes, widths: digits and seeded networks"
"""Where the generated part of the page begins; above it stands what `benchmarks/zoo.py` writes."""

_PREFACE = """\
## Algorithms, modes, widths: digits and seeded networks

Generated by `python docs/generate/accuracy.py`: every algorithm, mode and bit width by the command line,
`amct-opt MODEL --fuse-bn --quantize='correct-bias=false ...'` (biases as they are, so that only the choice differs), on three
models, two of which have **seeded weights** and are trained for nothing:

* **digits**: the trained network of `examples/digits`, calibrated with its file; SQNR of the logits, and how many of the 397
  held-out images are right (float: {float_right});
* **transformer**: the seeded encoder of `examples/models`, 16 samples to calibrate, 16 others to measure;
* **resnet50**: the seeded ResNet-50 of `examples/models`, 4 images of 224x224 to calibrate, 4 others to measure.

SQNR is `10 log10(sum of squares of the float logits / sum of squares of the error)` in dB; larger is better. If a cell
has two numbers, the second is for the module lowered to the `ascend` dialect, in integers; where one does, they agree
or the mode has no lowering. Numbers of one column compare, those of different columns do not: the seeded networks are
deep, not trained, and their activations have no outliers, so that whatever cuts tails (percentile, moving-average)
loses on them. Isotone is made for the output of a classifier, and shown at every layer for completeness. DMQ gives each
channel the range that calibration has seen of it: on 16 sequences that is too little, and what others have beyond
it is cut off."""


if __name__ == "__main__":
    main()
