"""Accuracy that is won back without training: each method of docs/measured/recovery.md, and the peers' own.

    python benchmarks/recovery.py [SAMPLES [NETWORK ...]]

NETWORK is a name, a name with a width, or a table with a row for each network: `digits`, `'digits 4'`, `'weights per group'`.
Networks, data and scores are those of `zoo.py`, with ResNet-50 and MobileNetV2 of `models.py` and encoders by torch
(`torch_encoder.py`). The weights of these are seeded, so only their SQNR means something. `scaled` networks compute the same
function, with channels of convolutions multiplied by powers of two (digits: 2^-6 to 2^6; MobileNetV2: 2^-6 to 1, below each
Relu6 in front of a depthwise convolution), and the weights that read them by the inverse. In the encoders two channels of each
norm are 40 and 70 times as large, and the weights that read them are divided by this number or by its root. A second and a
third draw are calibrated with other samples. Networks that are not ONNX files are converted first (`amct-opt --fuse-all -t
onnx`).

Ours is `amct quantize --no-report` with the options of the row. Files run in onnxruntime with its default options, on samples
that did not calibrate: `samples` counts both kinds. Cells show the share in percent and the SQNR in dB. `cpu` is processor time
of the whole process, ours with profile `ascend`, over that of the first row of the same width. NNCF runs with its defaults, which
include fast bias correction, and with its accurate bias correction; AIMET with cross-layer equalization (aimet-onnx has no bias
correction). Quantized files are kept under `.bench/recovery`, and made again when they are deleted, so that a run goes on where
one was stopped.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import environments
import models
import numpy as np
import onnx
import process
import zoo
from onnx import numpy_helper
from tables import Row, Table, update

PAGE = zoo.HERE.parent / "docs" / "measured" / "recovery.md"
FOLDER = environments.CACHE / "recovery"
SAMPLES = 2000
CALIBRATION = 200
METHODS = Table(
    PAGE,
    "networks",
    "recovery",
    ("network", "weights", "samples", "float", "method", "ascend", "qdq", "cpu"),
    keys=2,
)
EQUALIZED = Table(
    PAGE,
    "equalized networks",
    "recovery",
    ("network", "samples", "float", "ascend", "qdq", "ascend, equalized", "qdq, equalized"),
)
RANGES = Table(
    PAGE,
    "ranges by output error",
    "recovery",
    ("network", "samples", "8 bits, mse", "8 bits, minmax", "4 bits, mse", "4 bits, minmax"),
)
GROUPS = Table(
    PAGE,
    "weights per group",
    "recovery",
    ("network", "samples", "per channel", "groups of 128", "groups of 32", "128, gptq", "32, gptq"),
)
SEEDED = {
    "mobilenet": "MobileNetV2, seeded",
    "resnet50": "ResNet-50, seeded",
    "mobilenet, scaled": "MobileNetV2, seeded, scaled",
    "norms-first": "encoder, norms in front",
    "norms-first-root": "encoder, norms in front, root",
    "norms-last": "encoder, norms after the additions",
}
ENCODERS = {"norms-first": ("1", "1"), "norms-first-root": ("1", "0.5"), "norms-last": ("0", "1")}
"""Arguments of `torch_encoder.py`."""
SCALED: Mapping[str, tuple[Callable[[str], str | None], int]] = {
    "digits, scaled": ({"bn2": "conv3"}.get, 6),
    "mobilenet, scaled": (lambda norm: _depthwise(norm), 0),
}
"""The reader of a norm whose channels are scaled, by name, and the largest exponent."""
FIRST = {"ocr-recognizer, second draw": 16, "ocr-recognizer, third draw": 32}
"""Where the samples that calibrate begin; elsewhere these are the first ones."""
COUNTS = {
    "tiny-vww": (64, 500),
    **dict.fromkeys(("ocr-recognizer", *FIRST), (16, 300)),
    **dict.fromkeys(SEEDED, (8, 10)),
    **dict.fromkeys(ENCODERS, (64, 64)),
}
"""How many samples calibrate and measure at most, where CALIBRATION and SAMPLES would take hours."""

Options = Sequence[str]
_ROUND = {name: ("--round-weights", name) for name in ("gptq", "mismatch", "adaround")}
_NEAREST: Options = ("--no-equalize", "--round-weights", "nearest", "--no-correct-bias")
"""Without what runs by default."""
_BIAS: Options = ("--correct-bias",)
_EQUALIZE: Options = ("--equalize",)
_RANGES: Options = ("--fit-ranges",)


class Width(NamedTuple):
    """Bits of weights, what `amct quantize` and the peers are asked for, and the networks that have the rows."""

    bits: int
    ours: Sequence[Options]
    peers: Sequence[str]
    networks: Sequence[str]


_ALL: Options = (*_EQUALIZE, *_ROUND["mismatch"], *_BIAS)
_RECOGNIZER: Sequence[Options] = (
    _ROUND["mismatch"],
    (*_ROUND["mismatch"], *_BIAS),
    (*_ROUND["mismatch"], *_RANGES),
    (*_EQUALIZE, *_ROUND["mismatch"]),
)
"""Methods of the recognizer with weights of 4 bits."""
_PEERS = ("quantize_static", "nncf", "nncf accurate", "aimet cle")
WIDTHS: Sequence[Width] = (
    Width(
        8,
        (_NEAREST, _EQUALIZE, (*_EQUALIZE, *_BIAS), _ROUND["mismatch"], _ALL),
        _PEERS,
        ("digits, scaled", "resnet20", "tiny-vww"),
    ),
    Width(8, (_NEAREST, _EQUALIZE, _ALL), _PEERS, ("mobilenet", "mobilenet, scaled")),
    Width(8, (_NEAREST, _EQUALIZE, _BIAS, _ROUND["mismatch"]), _PEERS, ("ocr-recognizer", "resnet50")),
    Width(
        4,
        (_NEAREST, *_ROUND.values(), (*_ROUND["mismatch"], *_BIAS), _ALL),
        ("aimet cle",),
        ("digits", "resnet20"),
    ),
    Width(8, (_NEAREST, _ROUND["mismatch"]), (), tuple(FIRST)),
    Width(4, (_NEAREST, *_RECOGNIZER), ("aimet cle",), ("ocr-recognizer",)),
    Width(4, _RECOGNIZER, (), tuple(FIRST)),
    Width(3, (_NEAREST, _ROUND["gptq"], _ROUND["mismatch"], (*_ROUND["mismatch"], *_BIAS)), (), ("digits", "resnet20")),
)
ALONE = Width(
    8,
    (_NEAREST, _EQUALIZE),
    (),
    ("digits", "tiny-kws", "tiny-anomaly", "tiny-resnet8", *ENCODERS),
)
"""Networks of the table of equalization alone."""


class Cells(NamedTuple):
    """A table with a row for each network; a cell has the SQNR for each of its options."""

    table: Table
    bits: int
    """The width of weights."""
    profile: str
    cells: Sequence[Sequence[Options]]
    networks: Sequence[str]


_WITHIN: Sequence[Options] = [(f"--bits={n}", f"--observer={how}") for n in (8, 4) for how in ("mse", "minmax")]
_GROUP: Options = ("--weight-only", "--group-size")
CELLS: Sequence[Cells] = (
    Cells(
        RANGES,
        8,
        "ascend",
        [(each, (*each, *_RANGES)) for each in _WITHIN],
        ("resnet20", "tiny-vww", "tiny-kws", "tiny-resnet8", "digits"),
    ),
    Cells(
        GROUPS,
        4,
        "qdq",
        [
            (_GROUP[:1],),
            *(((*_GROUP, size, *more),) for more in ((), _ROUND["gptq"]) for size in ("128", "32")),
        ],
        ("ocr-recognizer", "magika"),
    ),
)


def task_of(network: str, samples: int) -> zoo.Task:
    """A network with its data, made in a folder of its own. Raises process.FailedError."""
    folder = FOLDER / network.replace(",", "").replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    source, first = network.partition(", ")[0], FIRST.get(network, 0)
    calibration, measured = COUNTS.get(network, (CALIBRATION, samples))
    task = _seeded(source, folder) if network in SEEDED else _trained(source, min(samples, measured))
    for part, start, count in (("calibration", first, calibration), ("held_out", 0, measured)):
        arrays = np.load(task.folder / f"{part}.npz")
        kept = {name: rows[start : start + count] for name, rows in arrays.items()}
        np.savez(folder / f"{part}.npz", allow_pickle=False, **kept)
    task = replace(task, name=network, folder=folder)
    model = folder / "float.onnx"
    if network in SCALED:
        _scaled(network, task.model, model)
    elif task.model.suffix == ".onnx":
        model = task.model
    elif not model.exists():
        zoo.exported(task)
    return replace(task, model=model)


def _trained(network: str, samples: int) -> zoo.Task:
    python = environments.environment("zoo", environments.ZOO)
    return zoo.prepared(network, python, samples, Path(os.environ.get("AMCT_ZOO", "")))


def _seeded(network: str, folder: Path) -> zoo.Task:
    """Its arrays are in `folder`/all."""
    whole = folder / "all"
    whole.mkdir(exist_ok=True)
    if network in ENCODERS:
        model = folder / "encoder.onnx"
        if not model.exists():
            script = str(zoo.HERE / "torch_encoder.py")
            process.run([str(environments.python_of("aimet")), script, str(model), *ENCODERS[network]])
        rows, size, name = np.random.default_rng(0).standard_normal((128, 32, 128), np.float32), 64, "x"
    else:
        model, rows, size, name = models.network(network), np.load(models.samples(network)), models.CALIBRATION, "data"
    np.savez(whole / "calibration.npz", allow_pickle=False, **{name: rows[:size]})
    np.savez(whole / "held_out.npz", allow_pickle=False, **{name: rows[size:]})
    return zoo.Task(network, whole, model, "distance", [], {})


def _scaled(network: str, model: Path, out: Path) -> None:
    """The same function with channels of norms times powers of two, and the convolutions that read them by the inverse."""
    loaded = onnx.load(model)
    tensors = {tensor.name: tensor for tensor in loaded.graph.initializer}
    reader_of, most = SCALED[network]
    for norm in [name.removesuffix(".scale") for name in tensors if name.endswith(".scale")]:
        reader = reader_of(norm)
        if reader is None:
            continue
        factors = np.exp2(np.linspace(-6, most, tensors[f"{norm}.scale"].dims[0]).round()).astype(np.float32)
        weight = tensors[f"{reader}.weight"]
        inverse = (1 / factors).reshape(-1, 1, 1, *[1] * (weight.dims[1] == 1))  # depthwise: outputs, which are inputs
        for name, by in ((f"{norm}.scale", factors), (f"{norm}.bias", factors), (weight.name, inverse)):
            tensors[name].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensors[name]) * by, name))
    onnx.save(loaded, out)


def _depthwise(norm: str) -> str | None:
    """The depthwise convolution of MobileNetV2 that reads a norm."""
    block, _, part = norm.removesuffix(".bn").partition(".")
    return "block0.depthwise" if block == "stem" else f"{block}.depthwise" if part == "expand" else None


def ours(task: zoo.Task, bits: int, options: Options, profile: str) -> zoo.Variant:
    """What `amct quantize` makes of the model."""
    out = task.folder / "-".join((f"w{bits}", profile, *(o.lstrip("-") for o in options)))
    cost = out / "cpu"
    if not cost.exists():
        command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(task.model), f"--profile={profile}"]
        width = [] if bits == 8 else [f"--weight-bits={bits}"]
        data = ["--data", str(task.folder / "calibration.npz"), "-o", str(out), "--no-report"]
        try:
            cpu = process.run([*command, *data, *width, *options]).cpu
        except process.FailedError as e:
            return zoo.Variant(error=zoo.last_line(e))
        cost.write_text(str(cpu))
    return zoo.Variant(next(out.glob("*_qdq.onnx")), cpu=float(cost.read_text()))


def theirs(task: zoo.Task, bits: int, peer: str) -> zoo.Variant:
    """What a peer makes of the model; the words after its name are arguments of its script."""
    out = task.folder / f"w{bits}-{peer.replace(' ', '-')}.onnx"
    cost = out.with_suffix(".cpu")
    if cost.exists():
        return zoo.Variant(out, cpu=float(cost.read_text()))
    made = zoo.theirs(task, zoo.float_file(task), peer, out, *([] if bits == 8 else [str(bits)]))
    if not made.error:
        cost.write_text(str(made.cpu))
    return made


def rows(task: zoo.Task, width: Width) -> Iterator[tuple[str, ...]]:
    """The network's rows of one width."""
    own = [[ours(task, width.bits, options, profile) for profile in zoo.PROFILES] for options in width.ours]
    peers = [theirs(task, width.bits, peer) for peer in width.peers]
    reference = zoo.measure(task, zoo.float_file(task), [*(v for pair in own for v in pair), *peers])
    head = _shown(task.name), str(width.bits), _counts(task), _share(task, reference)
    for options, pair in zip(width.ours, own, strict=True):
        method = "nearest rounding" if options == _NEAREST else f"`{' '.join(options)}`"
        yield *head, method, *(_cell(task, v) for v in pair), _ratio(pair[0], own[0][0])
    for peer, variant in zip(width.peers, peers, strict=True):
        yield *head, peer, "", _cell(task, variant), _ratio(variant, own[0][0])


def row(task: zoo.Task, asked: Cells) -> tuple[str, ...]:
    """The network's row of such a table."""
    own = [[ours(task, asked.bits, options, asked.profile) for options in cell] for cell in asked.cells]
    zoo.measure(task, zoo.float_file(task), [variant for cell in own for variant in cell])
    return _shown(task.name), _counts(task), *(" / ".join(variant.sqnr for variant in cell) for cell in own)


def _counts(task: zoo.Task) -> str:
    return " / ".join(str(sum(1 for _ in task.rows(part))) for part in ("calibration", "held_out"))


def _share(task: zoo.Task, variant: zoo.Variant) -> str:
    return "" if task.name in SEEDED else variant.share


def _cell(task: zoo.Task, variant: zoo.Variant) -> str:
    if variant.error:
        print(f"{task.name}: {variant.error}\n", flush=True)
        short = re.split(r"\] |Error: |error: ", variant.error)[-1]
        return f"{'does not run' if variant.file else 'fails'}: {short[:90]}"
    return ", ".join(filter(None, (_share(task, variant).split(" ")[0], f"{variant.sqnr} dB")))


def _ratio(variant: zoo.Variant, first: zoo.Variant) -> str:
    return f"{variant.cpu / first.cpu:.1f}" if variant.cpu and first.cpu else ""


def main(samples: str = str(SAMPLES), *names: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for width in (*WIDTHS, ALONE):
        for name in width.networks:
            if names and not {name, f"{name} {width.bits}"} & set(names):
                continue
            if _is_missing(name):
                continue
            made = list(rows(task_of(name, int(samples)), width))
            print("\n".join(" | ".join(row) for row in made) + "\n", flush=True)
            update(METHODS, made, [(_shown(each), str(width.bits)) for width in WIDTHS for each in width.networks])
            order = [(_shown(each),) for width in (ALONE, *WIDTHS) for each in width.networks]
            update(EQUALIZED, _equalized(made), order)
    for asked in CELLS:
        for name in asked.networks:
            if (names and not {name, asked.table.name} & set(names)) or _is_missing(name):
                continue
            made = [row(task_of(name, int(samples)), asked)]
            print(" | ".join(made[0]) + "\n", flush=True)
            update(asked.table, made, [(_shown(each),) for each in asked.networks])


def _is_missing(network: str) -> bool:
    """Whether the network comes from a folder that is not given; says so."""
    if not network.startswith(zoo.GIVEN) or os.environ.get("AMCT_ZOO"):
        return False
    print(f"{network} is left out: AMCT_ZOO names no folder\n", flush=True)
    return True


def _shown(network: str) -> str:
    """What the network is called on the page."""
    return SEEDED.get(network, network)


def _equalized(rows: Sequence[Row]) -> Iterator[Row]:
    """A network with weights of 8 bits as it is and equalized, side by side."""
    by_method = {row[4]: row for row in rows if row[1] == "8"}
    plain, equalized = by_method.get("nearest rounding"), by_method.get(f"`{' '.join(_EQUALIZE)}`")
    if plain and equalized:
        network, _, samples, reference, _, *cells, _ = plain
        yield network, samples, reference, *cells, *equalized[-3:-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
