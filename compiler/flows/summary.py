"""The result for each layer of a model, collected from the remarks of the passes and from the modules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..dialects.nn import ConstantOp, DequantizeOp, FusedOp, OpaqueOp, is_layer
from ..dialects.nn.fused import outside
from ..formats.onnx.tensors import stored_size
from ..ir.functions import main_function
from ..rewriting import layer_of
from ..runtime.metrics import EXPLAINED as EXPLAINED_ERROR, Difference
from ..support.diagnostics import Remark
from ..support.tables import Table, Tabled, numbered, some
from .latency import Latencies
from .options import ALSO
from .peer import Peer, described
from .significance import EXPLAINED, Pair, Share

_QUANTIZING = ("insert-observers", "convert-observers", "adapt-qat")
_LOWERING = "lower-to-ascend"
_LISTED = 20
"""Largest number of rows of a list of layers; summary.json has all of them."""
_NAMES = {
    "float": "float",
    "fake_quantized": "fake-quantized (nn)",
    "kernels": "integer kernels (nn)",
    "integer": "integer (ascend)",
}
_ROWS = 2
"""Outputs in a summary, one line each."""
_REASONS = 4
"""Reasons of layers in float in a summary, one line each."""


@dataclass(frozen=True, repr=False)
class Layers(Tabled):
    """The layers of a quantized module. The remarks of each list carry layer, operation, rule and reason."""

    fused: tuple[Remark, ...]
    not_fused: tuple[Remark, ...]
    quantized: tuple[Remark, ...]
    left_in_float: tuple[Remark, ...]
    otherwise: tuple[Remark, ...]
    """Settings that were requested for quantized layers but cannot be applied to them."""
    not_lowered: tuple[Remark, ...]
    imported: str
    """The importer's summary of the source: how many nodes were mapped, carried, folded."""
    quantized_before: Mapping[str, int]
    """Operations, by kind, whose input was quantized in the source already."""
    inside: Mapping[str, int]
    """Operations, by kind, that are part of a quantized layer: the activation in the region of a convolution."""
    others: Mapping[str, int]
    """Operations, by kind, that no rule quantizes."""

    @property
    def float_layers(self) -> list[Remark]:
        """The first remark of each layer that was left in float."""
        return list({r.layer: r for r in reversed(self.left_in_float)}.values())[::-1]

    def __repr__(self) -> str:
        return (
            f"Layers({len(self.fused)} fused, {len(self.quantized)} quantized, {len(self.float_layers)} left in float)"
        )

    def tables(self) -> Sequence[Table]:
        """Tables of the steps that were not done to layers, with the reasons."""
        lists = (
            ("not fused", self.not_fused),
            ("left in float", self.left_in_float),
            ("quantized differently than requested", self.otherwise),
            ("not lowered", self.not_lowered),
        )
        headers = ("layers", "operation", "rule", "reason")
        return [Table(title, headers, _grouped(remarks)) for title, remarks in lists if remarks]


def _grouped(remarks: Iterable[Remark]) -> list[tuple[str, ...]]:
    """One row for all layers with the same rule and reason."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for remark in remarks:
        groups.setdefault((remark.op, remark.rule, remark.reason), []).append(remark.layer)
    rows = [(some(layers), *said) for said, layers in groups.items()]
    if len(rows) <= _LISTED:
        return rows
    return [*rows[:_LISTED], (f"and {len(rows) - _LISTED} more groups", "", "", "see summary.json")]


@dataclass(frozen=True)
class Answers:
    """The right answers of a stage, and which ones only the float model or only the stage gets right."""

    top1: Share
    pair: Pair


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of each output against the float model: of the quantized module in `nn`, of the `ascend` module, and
    of the former in integer kernels (profiles that quantize values).
    """

    samples: int
    held_back: bool
    """The samples were not used in calibration."""
    synthetic: bool
    """The samples are synthetic, so the figures mean little."""
    fake_quantized: Mapping[str, Difference]
    integer: Mapping[str, Difference]
    kernels: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """The SQNR in dB of each output that the target computes, or of the scores and the other numbers that it holds."""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """The least and the largest SQNR in dB of a single run, by the same names."""
    answers: Mapping[str, Answers] = field(default_factory=dict[str, Answers])
    """Answers by stage (`float` and the names above), if there are labels."""


@dataclass(frozen=True)
class Attempt:
    """What was tried, the option that asks for it, and the SQNR in dB of the worst output without it and with it."""

    called: str
    option: str
    before: float
    after: float
    kept: bool
    layers: tuple[str, ...] = ()
    """The layers that go back to float."""

    @property
    def gain(self) -> float:
        """What the worst output gains, in dB."""
        return self.after - self.before


@dataclass(frozen=True)
class Mended:
    """What was tried where a result was poor, and what that cost."""

    attempts: Sequence[Attempt] = ()
    cause: str = ""
    """The likely reason why outputs are still poor, or why nothing was tried."""
    before: tuple[str, float] = "", math.inf
    """The worst output of the first result on all samples held back, and its SQNR in dB; `after` is that of the result."""
    after: tuple[str, float] = "", math.inf
    seconds: float = 0.0
    """The time that it took, and the time until the first result was measured."""
    first_seconds: float = 0.0

    @property
    def kept(self) -> list[Attempt]:
        """The attempts that the result has."""
        return [each for each in self.attempts if each.kept]

    @property
    def undone(self) -> Mended:
        """The same with the first result, because what was kept gains nothing with all of the data."""
        return replace(self, attempts=[replace(each, kept=False) for each in self.attempts], after=self.before)

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons of layers that are float in the result, by layer."""
        return {
            layer: f"its activations cost most: in a trial the worst output gained {each.gain:.1f} dB with {each.called}"
            for each in self.kept
            for layer in each.layers
        }


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes: the model with the files of its arrays, its weights before and after, and each written format."""

    model: int
    float_weights: int
    integer_weights: int
    written: Mapping[str, int]


@dataclass(frozen=True, repr=False)
class Summary(Tabled):
    """The result of quantizing one model file. `files` by role: onnx, remarks, summary; deploy in profiles for Ascend; nn, ascend
    and record where they were asked for; report where a page was drawn.
    """

    model: Path
    metadata: Mapping[str, str]
    layers: Layers
    accuracy: Accuracy
    sizes: Sizes
    files: Mapping[str, Path]
    peer: Peer | None = None
    """The result of running the ONNX file in onnxruntime; None if it is not installed."""
    latencies: Latencies | None = None
    """The model in float and the ONNX file, timed in the profile's engine; None if that was not asked for, or not possible."""
    target: str = ""
    """The purpose of the profile."""
    mended: Mended | None = None
    """What was tried for accuracy; None where the options leave nothing open."""
    inexact: tuple[str, ...] = ()
    """The layers whose sums of products onnxruntime may get wrong on some processors."""
    warnings: tuple[str, ...] = ()
    """The warnings that were given: among them are reasons to doubt the data or the result."""

    @property
    def profile(self) -> str:
        """The name of the profile."""
        return self.metadata.get("profile", "")

    @property
    def stage(self) -> str:
        """The measured form that the target computes: a field of `Accuracy`."""
        return next((each for each in ("kernels", "integer") if getattr(self.accuracy, each)), "fake_quantized")

    def __repr__(self) -> str:
        outputs = (f"{name} {d.sqnr:.2f} dB" for name, d in self.accuracy.fake_quantized.items())
        layers = self.layers
        counts = f"{len(layers.quantized)} layers quantized, {len(layers.float_layers)} left in float"
        return f"Summary({self.model.name}: {', '.join([counts, *outputs])})"

    def tables(self) -> Sequence[Table]:
        """The result on one page: files, accuracy, speed, size, and the layers that stayed in float."""
        return [Table("summary", (), list(_brief(self)))]

    def details(self) -> Sequence[Table]:
        """The other tables: the steps that were not done to layers, the errors of outputs, right answers, and how the
        result was made.
        """
        found = [*self.layers.tables()]
        if self.accuracy.samples:
            headers = ("output", "of", "SQNR dB", "cosine", "largest difference")
            rows = [
                (name, _NAMES[stage], f"{d.sqnr:.2f}", f"{d.cosine:.6f}", f"{d.largest:.6g}")
                for stage in ("fake_quantized", "kernels", "integer")
                for name, d in getattr(self.accuracy, stage).items()
            ]
            found.append(Table("error relative to the original model", headers, rows, EXPLAINED_ERROR))
        if self.accuracy.answers:
            headers = ("model", "top-1 %", "95 % interval", "right", "only float", "only this", "p")
            found.append(Table("right answers", headers, _answers(self.accuracy), EXPLAINED.format(first="float")))
        return [*found, Table("details", (), list(_overview(self)))]


def _brief(summary: Summary) -> Iterator[tuple[str, str]]:
    layers, sizes, files = summary.layers, summary.sizes, summary.files
    if "deploy" in files:
        yield "file", f"{files['deploy']}: what ATC compiles for {summary.target} (profile {summary.profile})"
        yield "file", f"{files['onnx']}: the same model for any ONNX runtime, to measure its accuracy"
    else:
        yield "file", f"{files['onnx']}: for {summary.target} (profile {summary.profile})"
    if also := [files[role] for role in ALSO if role in files]:
        yield "files", ", ".join(map(str, also))
    yield from _brief_accuracy(summary)
    yield from _brief_mending(summary.mended)
    yield "onnxruntime", described(summary.peer)
    if summary.peer is not None and summary.peer.wrong:
        yield "processors", _processors(summary)
    if summary.latencies is not None:
        yield "speed", _speed(summary.latencies)
    weights = f"weights {_size(sizes.float_weights)} -> {_size(sizes.integer_weights)}"
    written = next((sizes.written[role] for role in ("deploy", "onnx") if role in sizes.written), 0)
    yield "size", f"{_size(sizes.model)} -> {_size(written)}; {weights}"
    yield "quantized", counted(Counter(r.op for r in layers.quantized))
    yield from _brief_reasons(layers)
    if "report" in files:
        yield "report", str(files["report"])


def _brief_accuracy(summary: Summary) -> Iterator[tuple[str, str]]:
    """The accuracy of the form that the target computes."""
    accuracy, stage = summary.accuracy, summary.stage
    if not accuracy.samples:
        yield "accuracy", "not measured: the model was not run; --data measures the result on samples"
        return
    on = f"on {measured_on(accuracy.samples, accuracy.held_back)}"
    if accuracy.synthetic:
        on = "on SYNTHETIC inputs, which says nothing about data"
    outputs: Mapping[str, Difference] = getattr(accuracy, stage)
    if accuracy.answers:
        before, after = accuracy.answers["float"], accuracy.answers[stage]
        shares = (f"{cells[0]} % ({cells[1]})" for cells in (after.top1.cells, before.top1.cells))
        yield "accuracy", f"{next(shares)} right, the float model {next(shares)}, {on}"
    whole = {name: each.sqnr for name, each in outputs.items()}
    found = {
        **{name: sqnr for name, sqnr in whole.items() if f"{name} (scores)" not in accuracy.parts},
        **accuracy.parts,
    }
    for name, sqnr in sorted(found.items(), key=lambda item: item[1])[:_ROWS]:
        low, high = accuracy.spread.get(name, (sqnr, sqnr))
        single = f": {between((low, high))} in single runs" if low < high < math.inf else ""
        same = math.isinf(sqnr) and sqnr > 0
        text = f"output '{name}' {'equals that of' if same else f'has {sqnr:.1f} dB SQNR against'} the float model"
        yield "accuracy", f"{text}{single}" if accuracy.answers else f"{text}, {on}{single}"
    if len(found) > _ROWS:
        yield "accuracy", f"a higher SQNR for {numbered(len(found) - _ROWS, 'more output')}"


def _brief_mending(mended: Mended | None) -> Iterator[tuple[str, str]]:
    """What was tried for accuracy, what it gained and how long it took."""
    if mended is None:
        return
    kept, others = mended.kept, [each for each in mended.attempts if not each.kept]
    (name, before), (name_now, now) = mended.before, mended.after
    times = mended.seconds / max(mended.first_seconds, 1e-9)
    took = f"this took {mended.seconds:.1f} s, {times:.1f} times as long as the first result"
    if kept:
        done = ", then ".join(f"{each.called} ({each.gain:+.1f} dB in a trial)" for each in kept)
        where = f"'{name}'" if name == name_now else f"'{name}', now '{name_now}',"
        yield "mended", f"the worst output {where} went from {before:.1f} to {now:.1f} dB: {done}; {took}"
    if others:
        tried = ", ".join(f"{each.called} ({each.gain:+.1f} dB)" for each in others)
        yield "not kept", tried if kept else f"{tried}; {took}"
    if mended.cause:
        yield "poor", f"output '{name_now}' has {now:.1f} dB: {mended.cause}"


def _brief_reasons(layers: Layers) -> Iterator[tuple[str, str]]:
    """Yields the reasons why layers stayed in float, the most frequent first."""
    kinds: dict[str, Counter[str]] = {}
    for remark in layers.float_layers:
        kinds.setdefault(remark.reason, Counter())[remark.op] += 1
    if layers.others:
        kinds["no rule quantizes this operation"] = Counter(layers.others)
    rows = sorted(kinds.items(), key=lambda item: -item[1].total())
    for reason, each in rows[:_REASONS]:
        yield "in float", f"{each.total()} {some([kind for kind, _ in each.most_common()])}: {reason}"
    if rest := rows[_REASONS:]:
        yield (
            "in float",
            f"{sum(each.total() for _, each in rest)} for {numbered(len(rest), 'more reason')} (--verbose)",
        )
    if not rows:
        yield "in float", "0"


def _speed(latencies: Latencies) -> str:
    before, after = latencies.models.values()
    slower = after.slower(before)
    found = f"{before.median / after.median:.2f} times as fast as float"
    if slower is None:
        found = "turns do not decide whether it is slower than float"
    return f"{found}: {after}, float {before} ({latencies.setting})"


def _answers(accuracy: Accuracy) -> list[tuple[str, ...]]:
    return [
        (
            _NAMES[stage],
            *each.top1.cells,
            f"{each.top1.right} of {each.top1.count}",
            *(("", "", "") if stage == "float" else each.pair.cells),
        )
        for stage, each in accuracy.answers.items()
    ]


def _overview(summary: Summary) -> Iterator[tuple[str, str]]:
    layers, sizes, meta = summary.layers, summary.sizes, summary.metadata
    if layers.imported:
        yield "imported", layers.imported
    yield "fused", counted(Counter(r.rule for r in layers.fused))
    yield "not fused", counted(Counter(r.rule for r in layers.not_fused))
    if layers.quantized_before:
        yield "quantized before", counted(layers.quantized_before)
    if layers.inside:
        yield "part of a quantized layer", counted(layers.inside)
    yield "not quantizable", counted(layers.others)
    synthetic = meta.get("synthetic") == "true"
    data = "SYNTHETIC samples: the accuracy says nothing" if synthetic else "samples"
    if "samples" in meta or synthetic:
        yield "calibrated on", f"{meta.get('samples', 'no')} {data}; observer {meta.get('observer', 'none')}"
    else:
        yield "calibrated on", "nothing: no range of activations is needed"
    yield "processors", _processors(summary)
    yield "model", f"{summary.model} ({_size(sizes.model)} with its arrays)"
    for role, path in summary.files.items():
        size = f" ({_size(sizes.written[role])} with its arrays)" if role in sizes.written else ""
        yield role, f"{path}{size}"


def _processors(summary: Summary) -> str:
    """The processors on which onnxruntime computes what was measured, in words."""
    if not summary.inexact:
        return "onnxruntime adds the products of all layers exactly on every processor"
    peer = summary.peer
    layers = numbered(len(summary.inexact), "layer")
    if peer is not None and peer.wrong:
        return f"sums of products are wrong on this one, {peer.processor}: {peer.wrong}; {remedy_of(summary)}"
    others = "on this one and others" if peer is not None and peer.arithmetic != "exact" else "on others"
    where = f"{others} (Arm, or x86 without VNNI)"
    return f"sums of products in {layers} may be wrong {where}; {remedy_of(summary)}"


def remedy_of(summary: Summary) -> str:
    """The option that makes onnxruntime compute all sums of products exactly."""
    if summary.profile not in ("qdq", "openvino", "ppq"):
        return "--profile qdq makes a file for all processors"
    return "--portable strict makes them exact, or --weight-bits 7 where scales are given"


def between(ends: tuple[float, float]) -> str:
    """`12.3 to 14.5 dB`"""
    return "{:.1f} to {:.1f} dB".format(*ends)


def measured_on(samples: int, held_back: bool) -> str:
    """The samples that measured, and how they relate to those that calibrated."""
    apart = "held back from calibration" if held_back else "the calibration samples: too few to hold some back"
    return f"{numbered(samples, 'sample')}, {apart}"


def counted(kinds: Mapping[str, int]) -> str:
    """`7: nn.conv 5, nn.matmul 2`"""
    listed = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    return f"{sum(kinds.values())}: {listed}" if kinds else "0"


def _size(count: int) -> str:
    return f"{count / 1000:,.1f} kB"


def describe_layers(quantized: ModuleOp, remarks: Iterable[Remark]) -> Layers:
    """Sort the remarks of fusion and quantization by outcome, and count the operations without any remark."""
    rows = list(remarks)
    fusion = [r for r in rows if r.pass_name.startswith("fuse-")]
    quantization = [r for r in rows if r.pass_name in _QUANTIZING]
    done = tuple(r for r in quantization if r.kind == "applied" and r.rule == "quantized")
    names = {r.layer for r in done}
    missed = tuple(r for r in quantization if r.kind == "missed" and r.layer not in names)
    otherwise = tuple(r for r in quantization if r.layer in names and (r.kind == "missed" or r.rule == "configuration"))
    spoken_of = {r.layer for r in (*done, *missed)}
    operations = [op for op in main_function(quantized).body.walk() if is_layer(op)]
    rest = [op for op in operations if layer_of(op) not in spoken_of]
    before = Counter(
        _kind(op) for op in rest if op.operands and isinstance(outside(op.operands[0]).owner, DequantizeOp)
    )
    inside = Counter(_kind(op) for op in rest if _is_inside(op, names)) - before
    others = Counter(_kind(op) for op in rest) - before - inside
    return Layers(
        fused=tuple(r for r in fusion if r.kind == "applied"),
        not_fused=tuple(r for r in fusion if r.kind == "missed"),
        quantized=done,
        left_in_float=missed,
        otherwise=otherwise,
        not_lowered=tuple(r for r in rows if r.pass_name == _LOWERING and r.kind == "missed"),
        imported="; ".join(r.reason for r in rows if (r.pass_name, r.rule) == ("import", "summary")),
        quantized_before=dict(before.most_common()),
        inside=dict(inside.most_common()),
        others=dict(others.most_common()),
    )


def _is_inside(op: Operation, layers: Collection[str]) -> bool:
    """Whether an operation is in a region with a layer that is quantized."""
    region = op.parent_op()
    return isinstance(region, FusedOp) and any(layer_of(each) in layers for each in region.body.block.ops)


def _kind(op: Any) -> str:
    return f"{op.name} {op.op_type.data}" if isinstance(op, OpaqueOp) else str(op.name)


def weight_bytes(module: ModuleOp) -> int:
    """Bytes of all constants of a module and of scales per group, as files store them: numbers of 4 and 2 bits share a byte."""
    constants = sum(stored_size(op.array) for op in module.walk() if isinstance(op, ConstantOp))
    parameters = (op.qparams.data for op in module.walk() if isinstance(op, DequantizeOp))
    return constants + sum(p.scales().nbytes for p in parameters if p.block is not None)


def summary_data(summary: Summary) -> dict[str, Any]:
    """The summary as plain data for JSON; numbers that are not finite (the SQNR of equal outputs) are None."""
    layers = summary.layers
    return {
        "model": summary.model.name,
        "metadata": dict(summary.metadata),
        "warnings": list(summary.warnings),
        "imported": layers.imported,
        "layers": layers_data(layers),
        "accuracy": {
            "samples": summary.accuracy.samples,
            "held_back": summary.accuracy.held_back,
            "synthetic": summary.accuracy.synthetic,
            "fake_quantized": {name: difference_data(d) for name, d in summary.accuracy.fake_quantized.items()},
            "integer": {name: difference_data(d) for name, d in summary.accuracy.integer.items()},
            "kernels": {name: difference_data(d) for name, d in summary.accuracy.kernels.items()},
            "parts": finite(summary.accuracy.parts),
            "spread": finite(summary.accuracy.spread),
            "top1": {
                name: {**each.top1.data(), **asdict(each.pair), "p": each.pair.p}
                for name, each in summary.accuracy.answers.items()
            },
        },
        "mended": None if summary.mended is None else mended_data(summary.mended),
        "onnxruntime": None if summary.peer is None else peer_data(summary.peer),
        "latency": None if summary.latencies is None else summary.latencies.data(),
        "inexact": list(summary.inexact),
        "bytes": asdict(summary.sizes),
        "files": {role: path.name for role, path in summary.files.items()},
    }


def mended_data(mended: Mended) -> dict[str, Any]:
    """What was tried for accuracy, as plain data."""
    return {
        "attempts": [finite(asdict(each)) for each in mended.attempts],
        "cause": mended.cause,
        **finite({"before": mended.before[1], "after": mended.after[1]}),
    }


def layers_data(layers: Layers) -> dict[str, Any]:
    """The layers by outcome as plain data, each with its rule and reason; those without a remark as numbers by operation."""
    return {
        "fused": [_row(r) for r in layers.fused],
        "not_fused": [_row(r) for r in layers.not_fused],
        "quantized": [_row(r) for r in layers.quantized],
        "left_in_float": [_row(r) for r in layers.left_in_float],
        "otherwise": [_row(r) for r in layers.otherwise],
        "not_lowered": [_row(r) for r in layers.not_lowered],
        "quantized_before": dict(layers.quantized_before),
        "inside": dict(layers.inside),
        "others": dict(layers.others),
    }


def peer_data(peer: Peer) -> dict[str, Any]:
    """The results of a file in onnxruntime, as plain data."""
    outputs = {name: difference_data(d) for name, d in peer.outputs.items()}
    return {
        "version": peer.version,
        "failure": peer.failure or None,
        "runs": peer.runs,
        "outputs": outputs,
        "accuracy": {name: difference_data(d) for name, d in peer.accuracy.items()},
        "processor": peer.processor,
        "arithmetic": peer.arithmetic,
        "overflows": dict(peer.overflows),
        "first_apart": None if peer.first_apart is None else asdict(peer.first_apart),
    }


def _row(remark: Remark) -> dict[str, str]:
    return {
        "layer": remark.layer,
        "module": remark.module,
        "op": remark.op,
        "pass": remark.pass_name,
        "rule": remark.rule,
        "reason": remark.reason,
    }


def difference_data(difference: Difference) -> dict[str, float | int | None]:
    """A difference as plain data; numbers that are not finite are None."""
    return finite(asdict(difference))


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with None in place of floats that are not finite, also in tuples: JSON cannot represent them."""
    return {key: _finite(value) for key, value in values.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(each) for each in cast("tuple[object, ...]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
