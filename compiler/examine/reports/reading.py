"""Reads the folder that `amct quantize` wrote, with located errors for damaged files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from ...configuration.json_object import Json, JsonObject, read_object
from ...support.diagnostics import CompileError, Gain, Remark
from ...support.files import read_text, reading
from ...support.limits import check_aliases
from ...support.parsing import parsing

_TEXTS = ("name", "op", "shape", "decision", "rule", "reason")
SUMMARY, REMARKS, LAYERS = "summary.json", "remarks.yaml", "layers.json"

STAGES: Mapping[str, str] = {
    "float": "float model",
    "fake_quantized": "quantized model, simulated in float (nn)",
    "kernels": "quantized model in integer kernels (nn)",
    "integer": "Ascend module in integers (ascend)",
    "file": "ONNX file in onnxruntime",
}
"""The measured forms of a run, by their key in the summary."""


@dataclass(frozen=True)
class OutputError:
    """The error of one output at one stage; None where it is not finite."""

    output: str
    stage: str
    sqnr: float | None
    cosine: float | None
    largest: float | None


@dataclass(frozen=True)
class Answers:
    """Right answers of a stage in percent, with their interval of 95 %; `p` that they differ as much from float by chance."""

    stage: str
    percent: float
    low: float
    high: float
    right: int
    count: int
    p: float


@dataclass(frozen=True)
class LayerError:
    """SQNR in dB (None: equal, or not a number) and cosine of a layer's result."""

    sqnr: float | None
    cosine: float | None


@dataclass(frozen=True)
class Activation:
    """The distribution of a quantized value: `counts` of bins from `start` on, and the part of it that is clipped."""

    low: float
    high: float
    clipped: float
    start: float
    width: float
    counts: Sequence[int]


@dataclass(frozen=True)
class Point:
    """A quantized value that a layer reads: the name of the operation that computes it, and its clip lines."""

    name: str
    index: int
    """The index in `Measured.activations`."""
    bits: int
    clip: tuple[float, float]


@dataclass(frozen=True)
class Weights:
    """The smallest and the largest weight of each channel (or group of channels), and of the numbers that the integers
    can represent there.
    """

    bits: int
    scales: str
    """The number of scales, in words, for example `a scale per channel`."""
    channels: int
    low: Sequence[float]
    high: Sequence[float]
    limit: Sequence[float]
    """The largest magnitude that the integers represent."""
    outliers: float
    """The largest magnitude divided by the median of the channels' largest ones."""


@dataclass(frozen=True)
class DrawnLayer:
    """A layer of the drawing. `decision` is `quantized`, `float`, or `inside` if it is part of a quantized layer."""

    name: str
    op: str
    shape: str
    decision: str
    rule: str
    reason: str
    error: LayerError | None
    drop: float | None
    """Difference in dB between the worst of the layers that it reads and its own result: positive if accuracy is lost."""
    points: Sequence[Point]
    weights: Weights | None


@dataclass(frozen=True)
class Measured:
    """The measurements of values and results in `layers.json`. `activations` are in the order of `quantize_ops`."""

    samples: int
    commands: Mapping[str, str]
    layers: Mapping[str, LayerError]
    activations: Sequence[Activation | None]


@dataclass(frozen=True)
class Run:
    """The files of a folder. Absent files are None or empty, and `absent` says what the report lacks without them."""

    folder: Path
    model: str
    metadata: Mapping[str, str]
    imported: str
    samples: int
    held_back: bool
    synthetic: bool
    outputs: Sequence[OutputError]
    answers: Sequence[Answers]
    """The right answers by stage, the float model's first; empty without labels."""
    onnxruntime: Mapping[str, Any] | None
    sizes: Mapping[str, Any]
    files: Mapping[str, str]
    remarks: Sequence[Remark] = ()
    layers: Sequence[DrawnLayer] = ()
    """The layers in the order of the network."""
    measured: Measured | None = None
    latency: Sequence[float] = ()
    """Milliseconds of the float model and of the ONNX file in the profile's engine; empty if they were not timed."""
    warnings: Sequence[str] = ()
    absent: Sequence[str] = field(default_factory=list[str])

    def of(self, stage: str) -> list[OutputError]:
        return [each for each in self.outputs if each.stage == stage]

    @property
    def worst(self) -> OutputError | None:
        """The output with the lowest SQNR; None if all equal the float model's. If the profile is for onnxruntime, which is
        installed, the outputs are those of the file there, else the simulated ones.
        """
        in_file = self.of("file") if self.of("kernels") else []
        known = [each for each in in_file or self.of("fake_quantized") if each.sqnr is not None]
        return min(known, key=lambda each: cast(float, each.sqnr), default=None)


def read_run(folder: Path) -> Run:
    """Read a folder. Raises CompileError, located, if it has no summary and for files that are damaged."""
    with reading(folder):
        return _read_run(folder)


def _read_run(folder: Path) -> Run:
    if not (folder / SUMMARY).is_file():
        hint = "amct quantize MODEL --data DATA -o OUT writes such a folder"
        raise CompileError(f"is not a folder of results: it has no {SUMMARY}", where=str(folder), hint=hint)
    summary = read_object(folder / SUMMARY)
    files = {role: _text(summary, name) for role, name in summary.take_object("files", "files").values.items()}
    absent: list[str] = []

    def here(name: str, lacking: str) -> Path | None:
        path = folder / Path(name).name
        if path.is_file():
            return path
        absent.append(f"{path.name} is not in the folder: {lacking}.")
        return None

    remarks = here(files.get("remarks", REMARKS), "the reasons of decisions are missing")
    drawn: Sequence[DrawnLayer] = ()
    measured = None
    lacking = "the layers, their errors and their ranges are missing"
    if "layers" not in files:  # a file of that name is another run's
        absent.append(f"{LAYERS} was not written: {lacking}. amct quantize writes it, unless --no-report is given.")
    elif (path := here(files["layers"], lacking)) is not None:
        file = read_object(path)
        measured = _measured(file)
        drawn = [_layer(each, measured) for each in file.take_objects("network")]
        if not measured.samples:
            absent.append("The errors of layers were not measured: the model did not run.")
            measured = None
    accuracy = summary.take_object("accuracy", "accuracy")
    peer = _optional(summary, "onnxruntime")
    in_file = JsonObject({} if peer is None else dict(peer), summary.where, "onnxruntime")
    timed = JsonObject(dict(_optional(summary, "latency") or {}), summary.where, "latency")
    stages = {**{name: (accuracy, f"accuracy.{name}", name) for name in list(STAGES)[:-1]}}
    stages["file"] = in_file, "onnxruntime.accuracy", "accuracy"
    return Run(
        folder=folder,
        model=summary.take("model", str, "model"),
        metadata={
            key: _text(summary, value) for key, value in summary.take_object("metadata", "metadata").values.items()
        },
        imported=summary.take("imported", str, ""),
        samples=accuracy.take("samples", int, 0),
        held_back=accuracy.take("held_back", bool, False),
        synthetic=accuracy.take("synthetic", bool, False),
        outputs=[
            error
            for stage, (owner, path, key) in stages.items()
            for error in _outputs(owner.take_object(key, path), stage)
        ],
        answers=[_answers(each, stage) for stage, each in _parts(accuracy.take_object("top1", "top1"), "top1")],
        onnxruntime=peer,
        latency=[each.take("median_ms", float, 0.0) for each in timed.take_objects("models")],
        warnings=tuple(summary.take_list("warnings", str)),
        sizes=summary.take_object("bytes", "bytes").values,
        files=files,
        remarks=() if remarks is None else read_remarks(remarks),
        layers=drawn,
        measured=measured,
        absent=absent,
    )


def read_remarks(path: Path) -> list[Remark]:
    """The remarks of a file. Raises CompileError, located, for other content."""
    import yaml

    text, rows = read_text(path), list[Any]()
    with parsing(str(path)):
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        while loader.check_node():
            node = loader.get_node()
            check_aliases(node, len(text), f"{path}:{node.start_mark.line + 1}")
            rows.append(loader.construct_document(node))
    return [_remark(row, f"{path}: document {i + 1}") for i, row in enumerate(rows)]


def _remark(row: Any, where: str) -> Remark:
    names = {f.name: "pass" if f.name == "pass_name" else f.name for f in fields(Remark) if f.name != "gain"}
    values = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    if wrong := [key for key in names.values() if not isinstance(values.get(key, ""), str) or not values]:
        raise CompileError(f"is not a remark: {wrong[0]} must be a text", where=where)
    return Remark(**{name: values.get(key, "") for name, key in names.items()}, gain=_gain(values.get("gain"), where))


def _gain(value: Any, where: str) -> Gain | None:
    if value is None:
        return None
    numbers = [cast("dict[str, Any]", value).get(key) for key in Gain._fields] if isinstance(value, dict) else []
    if not numbers or not all(isinstance(each, int | float) for each in numbers):
        raise CompileError("is not a remark: gain must have the numbers before and after", where=where)
    return Gain(*map(float, cast("list[float]", numbers)))


def _text(owner: JsonObject, value: Any) -> str:
    if not isinstance(value, str):
        raise owner.error("names of files and metadata must be texts")
    return value


def _optional(owner: JsonObject, key: str) -> Mapping[str, Any] | None:
    return None if owner.values.get(key) is None else owner.take_object(key, key).values


def _number_at(owner: JsonObject, key: str) -> float | None:
    """A number, or None for null."""
    return None if owner.values.get(key) is None else float(owner.take(key, float))


def _parts(owner: JsonObject, path: str) -> list[tuple[str, JsonObject]]:
    return [(key, owner.take_object(key, f"{path}.{key}")) for key in list(owner.values)]


def _outputs(stage: JsonObject, name: str) -> list[OutputError]:
    return [
        OutputError(output, name, *(_number_at(each, key) for key in ("sqnr", "cosine", "largest")))
        for output, each in _parts(stage, f"accuracy.{name}")
    ]


def _answers(each: JsonObject, stage: str) -> Answers:
    percent, low, high, p = (each.take(key, float, 0.0) for key in ("percent", "low", "high", "p"))
    return Answers(stage, percent, low, high, each.take("right", int, 0), each.take("count", int, 0), p)


def _measured(file: JsonObject) -> Measured:
    commands = file.take_object("commands", "commands").values
    layers = _parts(file.take_object("layers", "layers"), "layers")
    return Measured(
        samples=file.take("samples", int, 0),
        commands={name: _text(file, line) for name, line in commands.items()},
        layers={name: LayerError(_number_at(each, "sqnr"), _number_at(each, "cosine")) for name, each in layers},
        activations=[_activation(each, file, i) for i, each in enumerate(_list(file, "activations"))],
    )


def _layer(each: JsonObject, measured: Measured) -> DrawnLayer:
    name, op, shape, decision, rule, reason = (each.take(key, str, "") for key in _TEXTS)
    points = [
        Point(p.take("name", str, ""), p.take("index", int, 0), p.take("bits", int, 8), _pair(p, "clip"))
        for p in each.take_objects("points")
    ]
    drop, weights = _number_at(each, "drop"), _optional(each, "weights")
    return DrawnLayer(
        *(name, op, shape, decision, rule, reason, measured.layers.get(name), drop, points),
        None if weights is None else _weights(JsonObject(dict(weights), each.where, f"{each.path}.weights")),
    )


def _weights(each: JsonObject) -> Weights:
    low, high, limit = (each.take_list(key, float) for key in ("low", "high", "limit"))
    bits, channels = each.take("bits", int, 8), each.take("channels", int, len(low))
    return Weights(bits, each.take("scales", str, ""), channels, low, high, limit, each.take("outliers", float, 1.0))


def _pair(owner: JsonObject, key: str) -> tuple[float, float]:
    values = owner.take_list(key, float)
    if len(values) != 2:
        raise owner.error(f"{key} must have two numbers")
    return values[0], values[1]


def _list(file: JsonObject, key: str) -> list[Any]:
    values = file.values.get(key, [])
    if not isinstance(values, list):
        raise file.error(f"{key} must be a list")
    return cast("list[Any]", values)


def _activation(value: Any, file: JsonObject, index: int) -> Activation | None:
    if value is None:
        return None
    each = JsonObject(cast(Json, value) if isinstance(value, dict) else {}, file.where, f"activations[{index}]")
    start, width, clipped = (_number_at(each, key) for key in ("start", "width", "clipped"))
    span: list[float] = each.take_list("range", float)
    counts: list[int] = each.take_list("counts", int)
    if start is None or width is None or clipped is None or len(span) != 2 or not counts:
        raise each.error("must have range, start, width, clipped and counts")
    return Activation(span[0], span[1], clipped, start, width, counts)
