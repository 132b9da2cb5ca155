"""Trained networks of packages: is each read, how much of it computes in integers, and what does that cost.

    python benchmarks/zoo.py [SAMPLES [NAME ...]]

Packages are installed into an environment of the zoo's own, which also makes the data (`zoo_data.py`, from seeds): rendered text,
files of this machine, synthesized chords and voices, patches of photographs. Where nobody knows the right answer, it is the float
network's. ResNet-20 and MLPerf Tiny's networks, which no package holds, come from the folder that the environment variable
AMCT_ZOO names, and are left out without it.

Ours is `amct quantize MODEL --data calibration.npz --profile=...` without any other option. The peers are `quantize_static`,
weights per channel, with MinMax and Percentile (99.999); NNCF with its defaults; AIMET with cross-layer equalization; PPQ with
its defaults for onnxruntime. One that fails on the model gets our float form. 200 samples calibrate, others measure, all in
onnxruntime with its default options and one thread. Shares have 95 % confidence intervals (Wilson); those of peers are as wide.
`integers` is the share of convolutions, matrix products and average pools that are quantized; `differing` how many numbers of
our integer interpreter (`amct run --integers`) differ from onnxruntime's of the same qdq file. SQNR is the least of the
outputs', of at most 200 samples, for both profiles and all peers. `cpu` is processor time of whole processes, ours over that of
`quantize_static` with MinMax; ours includes measuring its own accuracy. Where networks are small loading the tool takes longer
than anything else.

On a processor on which onnxruntime adds products in 16 bits, files that were made before are measured, for a table of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
import numpy as np
import onnxruntime
import process
import zoo_scores
from tables import Key, Row, Table, update

from amct_opt.engines.onnx_runtime import arithmetic

Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "measured" / "accuracy.md"
FOLDER = environments.CACHE / "zoo-data"
FLOAT = "float.onnx"
"""Our float form of a network, in its folder."""
PROFILES = ("ascend", "qdq")
PEERS = {
    "quantize_static": "ort min-max",
    "quantize_static Percentile": "ort percentile",
    "nncf": "NNCF",
    "aimet cle": "AIMET",
    "ppq": "PPQ",
}
"""Scripts of peers with their arguments, and what they are called on the page."""
COMPARED = 20
"""Samples on which integers are compared."""
MEASURED = 200
"""Samples whose float outputs are kept for SQNR."""
EXACT = 150
"""dB beyond which float32 shows no difference."""
COUNTED = ("nn.conv", "nn.conv_transpose", "nn.matmul", "nn.average_pool", "nn.global_average_pool")
NAMES = (
    *("ocr-recognizer", "ocr-detector", "ocr-classifier", "magika", "basic-pitch", "basic-pitch-tf"),
    *("silero-vad", "silero-16k-op15", "silero-sequence", "silero-half", "silero-op18", "silero-openvino"),
    *("dnsmos", "mtcnn-pnet", "mtcnn-rnet", "mtcnn-onet", "digits"),
    *("resnet20", "tiny-resnet8", "tiny-vww", "tiny-kws", "tiny-wake-word", "tiny-anomaly"),
)
GIVEN = ("resnet20", "tiny-")
"""What names of networks that are in no package begin with."""

TASKS = Table(
    PAGE,
    "trained networks",
    "zoo",
    ("network", "judged by", "of", "float", *PROFILES, *PEERS.values()),
)
WITHOUT_VNNI = Table(
    PAGE,
    "trained networks without VNNI",
    "zoo",
    ("network", "judged by", "of", "float", "qdq", *PEERS.values(), "SQNR dB, ours", "SQNR dB, peers"),
)
FILES = Table(
    PAGE,
    "files of trained networks",
    "zoo",
    (
        *("network", "imported", *(f"integers, {p}" for p in PROFILES)),
        *("differing", "SQNR dB, ours", "SQNR dB, peers", "cpu", "peers without a file"),
    ),
)
README = HERE.parent / "README.md"
CHOSEN = Table(
    README,
    "chosen networks",
    "zoo",
    ("network", "judged by", "of", "float", "Ascend", "qdq", "onnxruntime, min-max", "onnxruntime, percentile"),
)
CALLED = {
    "ocr-recognizer": "PP-OCRv4, text recognition",
    "ocr-detector": "PP-OCRv4, text detection",
    "magika": "magika, types of files",
    "basic-pitch": "basic-pitch, notes in music",
    "silero-sequence": "silero, voice activity",
    "resnet20": "ResNet-20, CIFAR-10",
}
"""The networks of README.md, and what they are called there."""


@dataclass
class Variant:
    """A quantized file, or why there is none."""

    file: Path | None = None
    error: str = ""
    cpu: float = 0
    right: int = 0
    count: int = 0
    signal: Array = field(default_factory=lambda: np.zeros(0))
    noise: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def share(self) -> str:
        """`73.0 (66.5-78.7)`: percent, with its interval."""
        if self.error or not self.count:
            return self.error or "-"
        low, high = zoo_scores.wilson(self.right, self.count)
        return f"{100 * self.right / self.count:.1f} ({low:.1f}-{high:.1f})"

    @property
    def sqnr(self) -> str:
        if self.error or not self.signal.size:
            return "-"
        with np.errstate(divide="ignore"):
            least = (10 * np.log10(self.signal / self.noise)).min()
        return f"{least:.1f}" if least < EXACT else f"> {EXACT}"


@dataclass(frozen=True)
class Task:
    """A network with its data."""

    name: str
    folder: Path
    model: Path
    score: str
    labels: Sequence[Any]
    facts: Mapping[str, Any]

    @property
    def runs(self) -> bool:
        """Whether a row of data is all that a run takes."""
        return bool(self.facts.get("runs"))

    def rows(self, part: str) -> Iterator[dict[str, Array]]:
        arrays = dict(np.load(self.folder / f"{part}.npz"))
        for i in range(len(next(iter(arrays.values())))):
            yield {name: np.asarray(rows[i]) if self.runs else rows[i : i + 1] for name, rows in arrays.items()}


def prepared(name: str, python: Path, samples: int, given: Path) -> Task:
    """The network's data, made. Raises process.FailedError."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    process.run([str(python), str(HERE / "zoo_data.py"), name, str(folder), str(samples), str(given)])
    task = json.loads((folder / "task.json").read_text())
    return Task(name, folder, Path(task["model"]), task["score"], task["labels"], task["facts"])


def float_file(task: Task) -> Path:
    """What onnxruntime runs in float: the model, or what `amct-opt -t onnx` makes of one that is not ONNX."""
    return task.model if task.model.suffix == ".onnx" else exported(task)


def exported(task: Task) -> Path:
    """What `amct-opt --fuse-all -t onnx` makes of the model, in float."""
    file = task.folder / FLOAT
    command = [sys.executable, "-m", "amct_opt.tools.amct_opt", str(task.model)]
    process.run([*command, "--canonicalize", "--fuse-all", "-t", "onnx", "-o", str(file)])
    return file


def ours(task: Task, profile: str) -> Variant:
    out = task.folder / profile
    data = str(task.folder / "calibration.npz")
    if task.runs:
        script = task.folder / "calibration.py"
        script.write_text(_RUNS.format(path=data))
        data = f"{script}:runs"
    command = ["-m", "amct_opt.tools.amct", "quantize", str(task.model), "--data", data, "--also", "nn", "-o", str(out)]
    try:
        cost = process.run([sys.executable, *command, f"--profile={profile}"])
    except process.FailedError as e:
        return Variant(error=last_line(e))
    return Variant(next(out.glob("*_qdq.onnx")), cpu=cost.cpu)


_RUNS = """import numpy as np


def runs():
    arrays = dict(np.load({path!r}))
    for i in range(len(next(iter(arrays.values())))):
        yield {{name: np.asarray(rows[i]) for name, rows in arrays.items()}}
"""


def theirs(task: Task, model: Path, peer: str, out: Path, *arguments: str) -> Variant:
    """A peer's file of the model. If there is none that opens, the peer gets our float form of the same network."""
    data = task.folder / "calibration.npz"
    variant = by_script(peer, model, data, out, *arguments)
    if model == task.folder / FLOAT or _session(variant) is not None:
        return variant
    print(f"{task.name}: {peer} fails: {variant.error}; it gets our float form\n", flush=True)
    return by_script(peer, exported(task), data, out, *arguments)


def by_script(peer: str, model: Path, data: Path, out: Path, *arguments: str) -> Variant:
    """The file that a peer's script makes, or its error. The words after the script's name are its arguments."""
    name, *words = peer.split()
    count = len(next(iter(np.load(data).values())))
    command = [str(HERE / f"peer_{name}.py"), *map(str, (model, data, out, count)), *words, *arguments]
    try:
        cost = process.run([str(environments.python_of(name)), *command])
    except environments.NotInstalledError as e:
        return Variant(error=f"not installed: {e}")
    except process.FailedError as e:
        return Variant(error=last_line(e))
    return Variant(out, cpu=cost.cpu)


def last_line(error: process.FailedError) -> str:
    """The line that says what is wrong: the located one, or an exception's."""
    lines = str(error).strip().splitlines()
    located = [line for line in lines if "error:" in line]
    return located[-1][-160:] if located else lines[-1][:160]


def measure(task: Task, model: Path, variants: Sequence[Variant]) -> Variant:
    """Run all files on the held-out samples; fills the variants in, and gives the float network's figures."""
    reference = Variant(model)
    sessions = [(v, _session(v)) for v in (reference, *variants)]
    names = [i.name for i in onnxruntime.InferenceSession(model).get_inputs()]
    score = zoo_scores.SCORES[task.score]
    for i, row in enumerate(task.rows("held_out")):
        inputs = dict(zip(names, row.values(), strict=True)) if task.model.suffix != ".onnx" else row
        floats: list[Array] = []
        for variant, session in sessions:
            if session is None or variant.error:
                continue
            try:
                outputs = [np.asarray(output) for output in session.run(None, inputs)]
            except Exception as e:  # onnxruntime's have no other base
                variant.error = _refused(e)
                continue
            floats = floats or outputs
            right, count = score(outputs, task.labels[i] if task.labels else None, floats, task.facts)
            variant.right, variant.count = variant.right + right, variant.count + count
            if i < MEASURED:
                pairs = [(f.astype(np.float64), o.astype(np.float64)) for f, o in zip(floats, outputs, strict=True)]
                energies = [(np.square(f).sum(), np.square(f - o).sum()) for f, o in pairs]
                signal, noise = (np.array(s) for s in zip(*energies, strict=True))
                variant.signal = signal + (variant.signal if variant.signal.size else 0)
                variant.noise = noise + (variant.noise if variant.noise.size else 0)
    return reference


def _session(variant: Variant) -> onnxruntime.InferenceSession | None:
    """The file in onnxruntime with default optimizations; one that it refuses gets the error."""
    if variant.file is None:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # the networks are small, and threads that wait for each other take longer
    try:
        return onnxruntime.InferenceSession(variant.file, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's have no other base
        variant.error = _refused(e)
        return None


def _refused(error: Exception) -> str:
    """What onnxruntime says, without its codes."""
    return f"onnxruntime: {str(error).splitlines()[0].split(' : ', 3)[-1][:160]}"


def differing(task: Task, variant: Variant) -> str:
    """Numbers of the integer interpreter that are not equal to onnxruntime's."""
    session = _session(variant)
    if session is None or variant.file is None or integers(variant).startswith("0 of"):
        return "-"
    module = variant.file.with_name(variant.file.name.replace("_qdq.onnx", "_nn.mlir"))
    inputs, out = variant.file.with_name("compared.npz"), variant.file.with_name("integers.npz")
    names, different, count = [i.name for i in session.get_inputs()], 0, 0
    for i, row in zip(range(COMPARED), task.rows("held_out"), strict=False):
        feed = dict(zip(names, row.values(), strict=True)) if task.model.suffix != ".onnx" else row
        np.savez(inputs, allow_pickle=False, **feed)
        command = [
            sys.executable,
            "-m",
            "amct_opt.tools.amct",
            "run",
            str(module),
            "--data",
            str(inputs),
            "-o",
            str(out),
        ]
        try:
            process.run([*command, "--integers"])
        except process.FailedError as e:
            return last_line(e) if not i else f"{different} of {count}"
        own = np.load(out)
        for output, value in zip(session.get_outputs(), session.run(None, feed), strict=True):
            different += int((own[output.name] != np.asarray(value)).sum())
            count += own[output.name].size
        if task.runs or i == 2:  # each run is a process
            break
    return f"{different} of {count}"


def integers(variant: Variant) -> str:
    """Quantized layers of those that could be: convolutions, matrix products, average pools."""
    if variant.file is None:
        return "-"
    layers = json.loads(variant.file.with_name("summary.json").read_text())["layers"]
    done = sum(row["op"] in COUNTED for row in layers["quantized"])
    left = sum(row["op"] in COUNTED for row in layers["left_in_float"])
    return f"{done} of {done + left}"


def rows_without_vnni(task: Task) -> tuple[str, ...]:
    """The network's line on a processor on which onnxruntime adds products in 16 bits, of the files that were made before."""
    own = Variant(next((task.folder / "qdq").glob("*_qdq.onnx")))
    files = [task.folder / f"{peer.replace(' ', '-')}.onnx" for peer in PEERS]
    peers = [Variant(file) if file.exists() else Variant(None, error="no file") for file in files]
    reference = measure(task, float_file(task), [own, *peers])
    shares = ["-" if v.error else v.share.split(" ")[0] for v in (reference, own, *peers)]
    sqnrs = own.sqnr, " / ".join(v.sqnr for v in peers)
    return task.name, zoo_scores.MEANINGS[task.score], str(reference.count), *shares, *sqnrs


def rows(task: Task) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The network's lines in both tables."""
    own = [ours(task, profile) for profile in PROFILES]
    imported = next((v.error for v in own if v.error), "yes")
    try:
        model = float_file(task)
    except process.FailedError as e:
        return _padded(TASKS, task.name, zoo_scores.MEANINGS[task.score]), _padded(FILES, task.name, last_line(e))
    peers = [theirs(task, model, peer, task.folder / f"{peer.replace(' ', '-')}.onnx") for peer in PEERS]
    reference = measure(task, model, [*own, *peers])
    shares = ["-" if v.error else v.share for v in (reference, *own, *peers)]
    shown = (*shares[: -len(peers)], *(share.split(" ")[0] for share in shares[-len(peers) :]))
    judged = task.name, zoo_scores.MEANINGS[task.score], str(reference.count), *shown
    sqnrs = (" / ".join(v.sqnr for v in group) for group in (own, peers))
    cpu = " / ".join(f"{v.cpu / peers[0].cpu:.2f}" if v.cpu and peers[0].cpu else "-" for v in own)
    failed = "; ".join(f"{name}: {v.error}" for name, v in zip(PEERS.values(), peers, strict=True) if v.error)
    return judged, (task.name, imported, *map(integers, own), differing(task, own[1]), *sqnrs, cpu, failed)


def _padded(table: Table, *cells: str) -> tuple[str, ...]:
    """The line of a network that cannot be measured."""
    return (*cells, *"-" * (len(table.headers) - len(cells)))


def main(samples: str = "2000", *names: str) -> None:
    given = os.environ.get("AMCT_ZOO", "")
    python = environments.environment("zoo", environments.ZOO)
    for name in names or NAMES:
        if name.startswith(GIVEN) and not given:
            print(f"{name} is left out: AMCT_ZOO names no folder\n", flush=True)
            continue
        order = [(each,) for each in NAMES]
        if arithmetic() != "exact":
            line = rows_without_vnni(prepared(name, python, int(samples), Path(given)))
            print(" | ".join(line), end="\n\n", flush=True)
            update(WITHOUT_VNNI, [line], order)
            continue
        try:
            judged, made = rows(prepared(name, python, int(samples), Path(given)))
        except process.FailedError as e:
            judged, made = _padded(TASKS, name), _padded(FILES, name, last_line(e))
        print(" | ".join(judged), " | ".join(made), sep="\n", end="\n\n", flush=True)
        update(FILES, [made], order)
        _choose(update(TASKS, [judged], order))


def _choose(judged: Mapping[Key, Sequence[Row]]) -> None:
    """Put the networks of README.md there, without intervals."""
    rows = {
        CALLED[row[0]]: row[1 : len(CHOSEN.headers)] for group in judged.values() for row in group if row[0] in CALLED
    }
    shown = [(name, what, of, *(share.split(" ")[0] for share in shares)) for name, (what, of, *shares) in rows.items()]
    update(CHOSEN, shown, [(name,) for name in rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
