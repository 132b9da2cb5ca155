"""The one-command path: a model file and calibration data in, checked int8 files and a summary out."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ..configuration.settings import Arq
from ..dialects.nn import DequantizeOp, QuantizeOp, constant_of
from ..examine.reports.network import layers_of
from ..examine.reports.reading import LAYERS, LayerError
from ..frontends.folders import model_in
from ..ir.metadata import metadata
from ..rewriting import layer_of
from ..runtime.metrics import Difference
from ..session import Session
from ..support.diagnostics import CompileError, remarks_yaml
from ..support.files import filling, refuse_overwriting
from ..support.tables import numbered
from ..targets import Target
from ..targets.mlir import MlirTarget
from ..targets.onnx import OnnxTarget
from ..targets.record import RecordTarget
from ..transforms.fusion.computing import COMPUTING, trained_weight
from ..transforms.quantization.convert.layer_weights import inexact_layers
from ..transforms.quantization.convert.quantize_cache import QuantizeCachePass
from ..transforms.quantization.data import available
from ..transforms.quantization.idle import warn_of_idle
from ..transforms.quantization.options import AUTOMATIC, NO_DATA, DataOptions, EngineOptions
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request, Wanted
from . import float_regions, latency, mending
from .float_regions import Returned, in_float_too, layers_to_return, with_reasons
from .labels import Labels, load_labels
from .measurement import HUGE, STAGES, Measurement, compared
from .network import Network, companions, files_read, read_network
from .options import AS_USUAL, ResultOptions
from .peer import CLOSE, Expected, Peer
from .recipes import as_recipe
from .report import PAGE, can_draw, report_of
from .saving import deployed, outputs_of
from .summary import Accuracy, Answers, Mended, Sizes, Summary, describe_layers, remedy_of, summary_data, weight_bytes

_ESCAPED = "backslashreplace"
"""Error handler for names of files that are not UTF-8."""

_ADDS: Mapping[str, str] = {
    "saturates": "onnxruntime adds two products in 16 bits, which saturate,",
    "wraps": "onnxruntime adds two products in 16 bits, which wrap around,",
}
"""The fault of sums, by the way in which a processor adds products."""

_NEWER_BITS, _INTEGERS_SINCE = {3, 4, 16}, 21
"""Bit widths that QuantizeLinear supports only from this opset on."""


@dataclass(frozen=True)
class FileOptions:
    """The options of `quantize_file`, next to the model and the folder."""

    wanted: Wanted
    data: DataOptions = NO_DATA
    running: EngineOptions = AUTOMATIC
    results: ResultOptions = AS_USUAL
    report: bool = True
    """Whether the measurements for the report are made (`report_of`)."""
    timed: bool = False
    """Whether the ONNX file and the float model are timed, in the profile's engine."""
    page: bool = False
    """Whether the page of the report is written as well, where the extra `report` is installed."""
    beside: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Further files of the folder, by name: all appear at once."""


@dataclass(frozen=True)
class _Outputs:
    """The files of a result."""

    given: Path
    """The model, as it was given: a file, or a folder that has one."""
    folder: Path
    files: Mapping[str, Path]
    """The paths, by role."""
    onnx: OnnxTarget
    others: Mapping[str, Target]
    """The writers of the other roles that have modules, by role."""
    copied: Sequence[Path] = ()
    """The files next to the model that are copied into the folder."""
    read: frozenset[Path] = frozenset()
    """The files that the model was read from."""

    @property
    def targets(self) -> Mapping[str, Target]:
        """The writers of modules, by role."""
        return {"onnx": self.onnx, **self.others}

    @property
    def written(self) -> list[Path]:
        """The files that may be created or replaced."""
        targets, written = self.targets, [self.folder / LAYERS]
        for role, path in self.files.items():
            written += targets[role].files(path) if role in targets else [path]
        return written

    def beside(self, network: Network) -> _Outputs:
        """Add the files that the model has next to it. Raises CompileError if that would be overwritten."""
        sources = files_read(network.model, network.original, network.session)
        external = weight_bytes(network.original) > HUGE and len(sources) > 1
        onnx = replace(self.onnx, external=external)
        copied = companions(self.given, sources, network.session)
        copied = [f for f in copied if self.folder / f.name not in self.written]
        refuse_overwriting([self.folder / f.name for f in copied], copied)
        return replace(self, onnx=onnx, copied=copied, read=frozenset(sources))

    def note_left(self, summary: Summary, session: Session) -> None:
        """Note the files of an earlier run that this one does not write."""
        for path in (*outputs_of(self.given, self.folder).values(), self.folder / LAYERS, self.folder / PAGE):
            if path.exists() and path not in summary.files.values():
                session.note(f"{path} is from an earlier run: this one does not write it")


def quantize_file(model: Path, folder: Path, options: FileOptions, session: Session) -> Summary:
    """Import, canonicalize, fuse, quantize and lower `model`; write the results into `folder`, all or none of them.

    Without data, seeded synthetic inputs are used and every result is marked synthetic; if quantization needs no data (weights
    alone, rounded to nearest), the model does not run and nothing is measured. `session.on_progress` is called with
    the phases `calibrate` and `measure`. Raises CompileError, located, for anything that cannot be done.
    """
    results, outputs = options.results, _outputs(model, folder, options, session)
    asked = options.wanted, options.data, options.running
    network = read_network(model_in(model), *asked, session, outputs.written)
    outputs = outputs.beside(network)
    labels = None if results.labels is None else load_labels(results.labels, network.samples.held)
    if results.check is not None:
        _start_checking(network, results.check)
    network = network.fused()
    warn_of_idle(options.wanted.options, network.module, session)
    _warn_of_training(network)
    _warn_of_integers(network)
    outputs.onnx.check(network.module, session)
    network, returned = _as_results_need(network, results, outputs.onnx)
    lowers = not profile_of(session).facts.kernels or bool({"ascend", "deploy"} & outputs.files.keys())
    result, mended = _mended(network, options, partial(_result, options=options, lowers=lowers, labels=labels))
    measurement, differences, answers, deployable = result
    reasons = {each.layer: each.reason for each in returned}
    session.remarks[:] = with_reasons(session.remarks, float_regions.RULE, reasons)
    if mended is not None:
        session.remarks[:] = with_reasons(session.remarks, mending.RULE, mended.reasons)
    measurement.warn_of_doubts(differences, options.wanted.recovery)
    summary = replace(_summary(measurement, differences, answers, outputs), mended=mended)
    layers = _layers(measurement) if options.report else None
    modules = dict.fromkeys(outputs.targets, measurement.network.module)
    modules |= {"ascend": measurement.ascend, "deploy": deployable}
    summary = _write(summary, outputs, modules, layers, measurement, options)
    outputs.note_left(summary, session)
    return summary


def _outputs(model: Path, folder: Path, options: FileOptions, session: Session) -> _Outputs:
    """AMCT's configuration asks for a record as well. Raises CompileError if `folder` is not one."""
    results, profile = options.results, profile_of(session)
    if folder.exists() and not folder.is_dir():
        raise CompileError("cannot be written: not a folder", where=str(folder))
    onnx = OnnxTarget(opset=results.opset, matmul_nbits=results.matmul_nbits, simulate_formats=results.simulate_formats)
    others: Mapping[str, Target] = {
        "nn": MlirTarget(),
        "record": RecordTarget(),
        "ascend": MlirTarget(),
        "deploy": deployed(model_in(model)).target,
    }
    also = {*results.also, *profile.also}
    if profile.also and options.wanted.options.settings.config is not None:
        also.add("record")
    return _Outputs(model, folder, outputs_of(model, folder, also), onnx, others)


def _start_checking(network: Network, check: str) -> None:
    """Check every pass and file from here on, on separate samples if `check` names some."""
    from ..examine.checking.checker import Checker

    module, session = network.module, network.session
    session.checker = Checker(available(DataOptions(check), module, session) if check else network.samples.held)
    session.checker.reading(network.model, module)


def _as_results_need(network: Network, results: ResultOptions, onnx: OnnxTarget) -> tuple[Network, list[Returned]]:
    """A fused network with the widths of a recipe, and with the layers in float that its ONNX file needs to be fast; and these.

    Raises CompileError for a recipe that changes nothing, for bit widths that the opset does not have, and if no file is fast.
    """
    if results.recipe is not None:
        network = as_recipe(network)
    if not results.matmul_nbits:
        _check_bits(results.opset, network.request)
    returned = layers_to_return(network, onnx) if results.faster_than_float else []
    return network.asking(in_float_too(network.request, returned)), returned


class _Result(NamedTuple):
    """A quantized network, as it is measured and deployed."""

    measurement: Measurement
    differences: Mapping[str, Mapping[str, Difference]]
    answers: Mapping[str, Answers]
    """By stage; empty without labels."""
    deployable: ModuleOp | None

    @property
    def right(self) -> int:
        """The number of right answers of the form that the target computes."""
        stage = self.answers.get(self.measurement.target_stage)
        return 0 if stage is None else stage.top1.right

    @property
    def loses_none(self) -> bool:
        """Whether there are labels, and as many right answers as the float model has."""
        return bool(self.answers) and self.right >= self.answers["float"].top1.right


def _result(network: Network, options: FileOptions, lowers: bool, labels: Labels | None) -> _Result:
    """The result of a fused network; it is lowered if a file or the target needs that."""
    network = network.evened()
    network = network.quantized()  # what it was is not kept
    if options.results.quantize_cache:
        network = network.after(QuantizeCachePass())
    deployable, ascend = network.deployed() if lowers else (None, None)
    measurement = Measurement(network, ascend, Expected(compared(network.samples)))
    differences = measurement.differences()
    return _Result(measurement, differences, {} if labels is None else measurement.answers(labels), deployable)


def _mended(fused: Network, options: FileOptions, make: Callable[[Network], _Result]) -> tuple[_Result, Mended | None]:
    """The result of a fused network, or a better one if that is poor, and what was tried; only the remarks of that which is taken
    are heard. With labels, a result that loses no right answer is not poor, and a better one must not lose any.
    """
    session, effort = fused.session, options.results.effort
    with _heard_at_the_end(session):
        kept, started = len(session.remarks), time.perf_counter()
        result = make(fused)
        if not _may_mend(fused, options):
            if effort > AS_USUAL.effort:
                session.warn(
                    "effort changes nothing: with a configuration, a record, weights alone or faster-than-float, "
                    "nothing is tried"
                )
            return result, None
        if effort <= AS_USUAL.effort and result.loses_none:
            return result, None
        began = time.perf_counter()
        with session.phase("mend"):
            request, mended = mending.mend(fused, result.measurement.parts, effort)
        if effort > AS_USUAL.effort and request == fused.request:
            session.note(f"effort 2: {mended.cause or 'nothing that was tried improves the worst output'}")
        if request != fused.request:
            remarks = session.remarks[kept:]
            del session.remarks[kept:]
            with _said_once(session):
                better = make(fused.asking(request))
            mended = replace(mended, after=better.measurement.parts.worst)
            if mended.after[1] > mended.before[1] and better.right >= result.right:
                result = better
            else:
                session.remarks[kept:] = remarks
                mended = mended.undone
        return result, replace(mended, seconds=time.perf_counter() - began, first_seconds=began - started)


@contextmanager
def _heard_at_the_end(session: Session) -> Generator[None]:
    """Call `on_remark` at the end, with the remarks that are left then."""
    hear, known = session.on_remark, len(session.remarks)
    session.on_remark = None
    try:
        yield
    finally:
        session.on_remark = hear
        if hear is not None:
            for remark in session.remarks[known:]:
                hear(remark)


@contextmanager
def _said_once(session: Session) -> Generator[None]:
    """Print nothing but warnings that were not given before."""
    prints, known = session.prints, [*session.warnings]
    session.prints = ()
    try:
        yield
    finally:
        new = dict.fromkeys(each for each in session.warnings[len(known) :] if each not in known)
        session.prints, session.warnings[:] = prints, known
        for message in new:
            session.warn(message)


def _may_mend(fused: Network, options: FileOptions) -> bool:
    """Whether the options leave open how accuracy is won back: not with AMCT's configuration or record, nor where only weights
    are quantized, or where the time of the file decides.
    """
    settings, given = fused.request.settings, options.wanted.options.settings
    alone = settings.common is not None and settings.common.weight_compress_only
    free = not alone and not options.results.faster_than_float
    return free and given.config is None and fused.request.record is None


def _warn_of_training(network: Network) -> None:
    """Warns of the first layer whose weight is quantized in the graph: calibration leaves such layers as they are."""
    for op in network.module.walk():
        weight = trained_weight(op) if isinstance(op, COMPUTING) else None
        if weight is not None and constant_of(weight.input) is None:
            advice = f"amct convert --model {network.model} --save_path P keeps its scales"
            network.session.warn(
                f"{network.model}: {layer_of(op)} was trained with quantization and is not calibrated; {advice}"
            )
            return


def _warn_of_integers(network: Network) -> None:
    """Warns of a model whose layers are quantized already; `amct convert` takes those of integers."""
    if quantized_layers(network.original, network.session):
        has_integers = any(isinstance(op, QuantizeOp | DequantizeOp) for op in network.original.walk())
        advice = f": amct convert --model {network.model} --save_path P keeps its scales" if has_integers else ""
        network.session.warn(f"{network.model} is quantized already, and these layers stay as they are{advice}")


def _summary(
    measurement: Measurement,
    differences: Mapping[str, Mapping[str, Difference]],
    answers: Mapping[str, Answers],
    outputs: _Outputs,
) -> Summary:
    network, session, runs = measurement.network, measurement.network.session, measurement.runs
    samples, profile = network.samples, profile_of(session)
    weights = weight_bytes(network.original), weight_bytes(network.module)
    return Summary(
        model=network.model,
        metadata={"profile": profile.name, **metadata(network.module)},
        layers=describe_layers(network.module, session.remarks),
        accuracy=Accuracy(
            samples.held.count if runs else 0,
            samples.apart and runs,
            samples.held.synthetic and runs,
            **{stage: differences.get(stage, {}) for stage in STAGES},
            parts=measurement.parts.sqnr,
            spread=measurement.parts.spread,
            answers=answers,
        ),
        target=profile.target,
        inexact=tuple(layer_of(each.op) for each in inexact_layers(network.module, profile)),
        sizes=Sizes(sum(f.stat().st_size for f in outputs.read), *weights, {}),
        files=outputs.files,
        warnings=tuple(session.warnings),
    )


def _layers(measurement: Measurement) -> dict[str, Any]:
    """The network and its layers, measured, for the report."""
    layers, network = measurement.layers(), measurement.network
    errors = {name: LayerError(**each) for name, each in layers.get("layers", {}).items()}
    layers["network"] = [asdict(each) for each in layers_of(network.module, network.session.remarks, errors)]
    return layers


def _check_bits(opset: int | None, request: Request) -> None:
    """Raises CompileError if the requested bit widths are not available in the opset."""
    if opset is None or opset >= _INTEGERS_SINCE:
        return
    wanted, record = request.settings, request.record
    held = [c for c in (wanted.common, *wanted.by_type.values(), *wanted.by_layer.values()) if c is not None]
    inputs = {c.activation.bits for c in held} | {t.activation.bits for t in wanted.tensor_quantize}
    inputs.update(wanted.bits.values())
    weights = {*(c.weight.bits for c in held), *wanted.weight_bits.values()}
    if record is not None:
        inputs.update(layer.bits for layer in record.layers.values())
        weights.update(layer.weight_bits for layer in record.layers.values())
    newer = [f"dst_type INT{n}" for n in sorted(inputs & _NEWER_BITS)]
    newer += [f"quant_bits {n}" for n in sorted(weights & _NEWER_BITS)]
    alone = [c.weight for c in held if c.weight_compress_only and isinstance(c.weight, Arq)]
    newer += [f"group_size {n}" for n in sorted({w.group_size for w in alone if w.group_size is not None})]
    if newer:
        message = f"opset {opset} has no quantization with {' and '.join(newer)}"
        raise CompileError(
            message, where=request.where, hint=f"write a newer opset: -t 'onnx{{opset={_INTEGERS_SINCE}}}'"
        )


def _warn_of_other_numbers(summary: Summary, peer: Peer, session: Session) -> None:
    """Warns of outputs that onnxruntime takes further from the simulation than quantization takes it from the float model, with
    the cause if it is known.
    """
    for name, simulated in summary.accuracy.fake_quantized.items():
        found = peer.outputs.get(name)
        if found is not None and found.sqnr < min(CLOSE, simulated.sqnr):
            cause = "onnxruntime computes something else"
            if peer.wrong:
                cause = f"{_ADDS[peer.arithmetic]} on this processor ({peer.processor}), and sums leave them in {peer.wrong}"
                cause += f"; {remedy_of(summary)}"
            session.warn(
                f"output '{name}' in onnxruntime has an SQNR of {found.sqnr:.1f} dB against the simulation, which has "
                f"{simulated.sqnr:.1f} dB against the float model: {cause}"
            )


def _write(
    summary: Summary,
    outputs: _Outputs,
    modules: Mapping[str, ModuleOp | None],
    layers: Mapping[str, Any] | None,
    measurement: Measurement,
    options: FileOptions,
) -> Summary:
    """Write everything to a folder inside the output folder, with copies of the files next to the model, then move the files
    into place. Returns the complete summary, with what onnxruntime makes of the file.
    """
    session, folder = measurement.network.session, outputs.folder
    if layers is not None:
        summary = replace(summary, files={**summary.files, "layers": folder / LAYERS})
    with filling(folder) as temporary:
        for each in outputs.copied:
            shutil.copyfile(each, temporary / each.name)
        pending = {role: temporary / path.name for role, path in summary.files.items()}
        written: dict[str, int] = {}
        for role, target in outputs.targets.items():
            module = modules[role]
            if role not in pending or module is None:
                continue
            try:
                written[role] = sum(f.stat().st_size for f in target.write(module, pending[role], session))
            except CompileError as e:
                if role != "deploy" or isinstance(e.__context__, OSError):  # nobody asked for it
                    raise
                reason = ": ".join(filter(None, (e.where, e.message)))
                session.warn(f"{summary.files[role]} is not written: {reason}")
                del pending[role]
                continue
            if session.checker is not None:
                session.checker.writing(pending[role], module, target, session)
        if session.checker is not None:
            session.note(session.checker.summary())
        with session.phase("onnxruntime"):
            peer = measurement.peer(pending["onnx"])
            if options.results.faster_than_float:
                measurement.check_faster(pending["onnx"])
        if peer is not None:
            peer = replace(peer, failure=peer.failure.replace(f"{temporary}/", f"{folder}/"))
            _warn_of_other_numbers(summary, peer, session)
            if summary.inexact and not peer.runs and peer.arithmetic != "exact":
                some, fault = numbered(len(summary.inexact), "layer"), _ADDS[peer.arithmetic]
                session.warn(f"{fault} on this processor ({peer.processor}): {some} may be wrong; {remedy_of(summary)}")
        sizes = replace(summary.sizes, written=written)
        files = {role: path for role, path in summary.files.items() if role in pending}
        complete = replace(summary, files=files, sizes=sizes, peer=peer)
        if options.timed and latency.SECONDS and peer is not None and not peer.failure:
            complete = replace(complete, latencies=measurement.latencies(complete, pending["onnx"]))
        complete = replace(complete, warnings=tuple(session.warnings))
        pending["remarks"].write_text(remarks_yaml(session.remarks), "utf-8", _ESCAPED)
        if layers is not None:
            pending["layers"].write_text(json.dumps(layers, ensure_ascii=False), "utf-8", _ESCAPED)
        text = json.dumps(summary_data(complete), indent=2, ensure_ascii=False)
        pending["summary"].write_text(f"{text}\n", "utf-8", _ESCAPED)
        for name, data in options.beside.items():
            (temporary / name).write_bytes(data)
        if options.page and can_draw():
            report_of(temporary, folder)
            complete = replace(complete, files={**files, "report": folder / PAGE})
    return complete
