"""Accuracy that is won back without training: each method of docs/recovery.md, and the peers' own.

    python benchmarks/recovery.py [SAMPLES [NETWORK ...]]

Networks, data and scores are those of `zoo.py`, with ResNet-50 and MobileNetV2 of `models.py`. The weights of those two are
seeded, so only their SQNR means something. `digits, scaled` is the digits network with the channels of one convolution
multiplied by 2^-6 to 2^6, and the weights that read them by the inverse.

Ours is `amct quantize` with the options of the row. Files run in onnxruntime with its default options, on samples that did not
calibrate. Cells show the share in percent and the SQNR in dB. `cpu` is processor time of the whole process, ours with profile
`ascend`, over that of the first row of the same width. NNCF runs with its defaults, which include fast bias correction, and with
its accurate bias correction; AIMET with cross-layer equalization.
What a peer made is kept under `.bench/recovery`, and made again when it is deleted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
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

PAGE = zoo.HERE.parent / "docs" / "recovery.md"
RESULTS = environments.CACHE / "recovery.json"
FOLDER = environments.CACHE / "recovery"
BEGIN, END = "<!-- begin networks (benchmarks/recovery.py) -->\n", "<!-- end networks -->"
SAMPLES = 2000
HEADERS = ("network", "weights", "float", "method", "ascend", "qdq", "cpu")
SEEDED = {"resnet50": "ResNet-50, seeded", "mobilenet": "MobileNetV2, seeded"}
SCALED = "digits, scaled"

Options = Sequence[str]
_ROUND = {name: ("--round-weights", name) for name in ("gptq", "mismatch", "adaround")}
_BIAS: Options = ("--correct-bias",)
_EQUALIZE: Options = ("--equalize",)


class Width(NamedTuple):
    """Bits of weights, what `amct quantize` is asked for, and the networks that have the rows."""

    bits: int
    ours: Sequence[Options]
    peers: Sequence[str]
    networks: Sequence[str]


WIDTHS: Sequence[Width] = (
    Width(
        8,
        ((), _EQUALIZE, (*_EQUALIZE, *_BIAS), _ROUND["mismatch"], (*_EQUALIZE, *_ROUND["mismatch"], *_BIAS)),
        ("quantize_static", "nncf", "nncf accurate", "aimet cle"),
        (SCALED, "resnet20", "tiny-vww", "ocr-recognizer", "mobilenet", "resnet50"),
    ),
    Width(
        4,
        ((), *_ROUND.values(), (*_ROUND["mismatch"], *_BIAS), (*_EQUALIZE, *_ROUND["mismatch"], *_BIAS)),
        ("aimet cle",),
        ("digits", "resnet20", "ocr-recognizer"),
    ),
    Width(
        3,
        ((), _ROUND["gptq"], _ROUND["mismatch"], (*_ROUND["mismatch"], *_BIAS)),
        (),
        ("digits", "resnet20"),
    ),
)
NETWORKS = tuple(dict.fromkeys(name for width in WIDTHS for name in width.networks))


def task_of(network: str, samples: int) -> zoo.Task:
    """A network with its data, made in a folder of its own. Raises process.FailedError."""
    folder = FOLDER / network.replace(", ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    if network in SEEDED:
        rows = np.load(models.samples(network), mmap_mode="r")
        np.savez(folder / "calibration.npz", data=rows[: models.CALIBRATION])
        np.savez(folder / "held_out.npz", data=rows[models.CALIBRATION :])
        return zoo.Task(network, folder, models.network(network), "distance", [], {}, Path())
    python = environments.environment("zoo", environments.ZOO)
    given = Path(os.environ.get("AMCT_ZOO", ""))
    task = zoo.prepared("digits" if network == SCALED else network, python, samples, given)
    for part in ("calibration.npz", "held_out.npz"):
        (folder / part).unlink(missing_ok=True)
        (folder / part).symlink_to((task.folder / part).resolve())
    model = task.model if network != SCALED else _scaled(task.model, folder / "hard.onnx")
    return replace(task, name=network, folder=folder, model=model)


def _scaled(model: Path, out: Path) -> Path:
    """The digits network with channels of its second convolution times 2^-6 to 2^6: the same function."""
    network = onnx.load(model)
    tensors = {tensor.name: tensor for tensor in network.graph.initializer}
    factors = np.exp2(np.linspace(-6, 6, tensors["bn2.scale"].dims[0]).round()).astype(np.float32)
    for name, by in (("bn2.scale", factors), ("bn2.bias", factors), ("conv3.weight", 1 / factors[:, None, None])):
        tensors[name].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensors[name]) * by, name))
    onnx.save(network, out)
    return out


def ours(task: zoo.Task, bits: int, options: Options, profile: str) -> zoo.Variant:
    """What `amct quantize` makes of the model."""
    out = task.folder / "-".join((f"w{bits}", profile, *(o.lstrip("-") for o in options)))
    command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(task.model), f"--profile={profile}"]
    width = [] if bits == 8 else [f"--weight-bits={bits}"]
    data = ["--data", str(task.folder / "calibration.npz"), "-o", str(out)]
    try:
        cost = process.run([*command, *data, *width, *options])
    except process.FailedError as e:
        return zoo.Variant(error=zoo.last_line(e))
    return zoo.Variant(next(out.glob("*_qdq.onnx")), cpu=cost.cpu)


def theirs(task: zoo.Task, bits: int, peer: str) -> zoo.Variant:
    """What a peer makes of the model; the words behind its name are arguments of its script."""
    name, _, method = peer.partition(" ")
    out = task.folder / f"w{bits}-{peer.replace(' ', '-')}.onnx"
    cost = out.with_suffix(".cpu")
    if cost.exists():
        return zoo.Variant(out, cpu=float(cost.read_text()))
    made = _by_onnxruntime(task) if name == "quantize_static" else _by_script(task, out, name, method.split(), bits)
    if made.file is not None:
        made.file.replace(out)
        cost.write_text(str(made.cpu))
    return replace(made, file=made.file and out)


def _by_onnxruntime(task: zoo.Task) -> zoo.Variant:
    return zoo.theirs(replace(task, python=Path(sys.executable)), zoo.float_file(task), "MinMax")


def _by_script(task: zoo.Task, out: Path, name: str, method: Options, bits: int) -> zoo.Variant:
    data, width = task.folder / "calibration.npz", [] if bits == 8 else [str(bits)]
    try:
        command = [str(environments.python_of(name)), str(zoo.HERE / f"peer_{name}.py"), str(zoo.float_file(task))]
        count = len(next(iter(np.load(data).values())))
        cost = process.run([*command, str(data), str(out), str(count), *method, *width])
    except environments.NotInstalledError as e:
        return zoo.Variant(error=f"not installed: {e}")
    except process.FailedError as e:
        return zoo.Variant(error=zoo.last_line(e))
    return zoo.Variant(out, cpu=cost.cpu)


def rows(task: zoo.Task, width: Width) -> Iterator[tuple[str, ...]]:
    """The network's rows of one width."""
    own = [[ours(task, width.bits, options, profile) for profile in zoo.PROFILES] for options in width.ours]
    peers = [theirs(task, width.bits, peer) for peer in width.peers]
    reference = zoo.measure(task, zoo.float_file(task), [*(v for pair in own for v in pair), *peers])
    head = SEEDED.get(task.name, task.name), str(width.bits), _share(task, reference)
    for options, pair in zip(width.ours, own, strict=True):
        method = f"`{' '.join(options)}`" if options else "nearest rounding"
        yield *head, method, *(_cell(task, v) for v in pair), _ratio(pair[0], own[0][0])
    for peer, variant in zip(width.peers, peers, strict=True):
        yield *head, peer, "", _cell(task, variant), _ratio(variant, own[0][0])


def _share(task: zoo.Task, variant: zoo.Variant) -> str:
    return "" if task.name in SEEDED else variant.share


def _cell(task: zoo.Task, variant: zoo.Variant) -> str:
    if variant.error:
        print(f"{task.name}: {variant.error}\n", flush=True)
        return "does not run" if variant.file else "fails"
    return ", ".join(filter(None, (_share(task, variant).split(" ")[0], f"{variant.sqnr} dB")))


def _ratio(variant: zoo.Variant, first: zoo.Variant) -> str:
    return f"{variant.cpu / first.cpu:.1f}" if variant.cpu and first.cpu else ""


def main(samples: int = SAMPLES, *names: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    known: dict[str, list[Sequence[str]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or NETWORKS:
        if name.startswith(zoo.GIVEN) and not os.environ.get("AMCT_ZOO"):
            print(f"{name} is left out: AMCT_ZOO names no folder\n", flush=True)
            continue
        task = task_of(name, samples)
        for width in WIDTHS:
            if name in width.networks:
                known[f"{name} {width.bits}"] = list(rows(task, width))
                print("\n".join(" | ".join(row) for row in known[f"{name} {width.bits}"]) + "\n", flush=True)
                RESULTS.write_text(json.dumps(known))
    order = [f"{name} {width.bits}" for width in WIDTHS for name in width.networks]
    zoo.replace_between(PAGE, BEGIN, END, zoo.table(HEADERS, [row for key in order for row in known.get(key, ())]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
