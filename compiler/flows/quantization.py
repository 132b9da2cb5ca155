"""The one-command path: a model file and calibration data in, checked int8 files and a summary out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..backends.threads import OrderedBatches, Turn, threads_here
from ..configuration.settings import Arq
from ..data import Samples
from ..diagnostics import CompileError, remarks_yaml
from ..dialects.nn import DequantizeOp, QuantizeOp, constant_of, weights_of
from ..files import filling, refuse_overwriting, scratch
from ..formats.onnx.file import external_file
from ..frontends.folders import model_in
from ..ir.metadata import metadata
from ..ir.weights import reclaim, side_file_of
from ..lowering.ascend import LowerToAscendPass
from ..lowering.ascend.fuse_requant import without_relu6
from ..lowering.ascend.profiles import like_amct
from ..pipelines.passes import run_on_verified, run_passes
from ..reports.measures import MEASURING, measure_layers
from ..reports.reading import LAYERS
from ..rewriting import layer_of
from ..runtime.boundary import Boundary, InReals, Watched, boundary_of
from ..runtime.executor import Array, Executable
from ..runtime.integer_plan import in_integers
from ..runtime.metrics import Difference, Differences
from ..runtime.plan import RunError
from ..session import Session
from ..targets import Target
from ..targets.mlir import MlirTarget
from ..targets.onnx import OnnxTarget
from ..targets.record import RecordTarget
from ..transforms.fusion.computing import COMPUTING, trained_weight
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.convert.layer_weights import inexact_layers
from ..transforms.quantization.convert.quantize_cache import QuantizeCachePass
from ..transforms.quantization.data import Split, available, split
from ..transforms.quantization.options import (
    AUTOMATIC,
    BY_DEFAULT,
    NO_DATA,
    NO_RECOVERY,
    DataOptions,
    EngineOptions,
    RecoveryOptions,
)
from ..transforms.quantization.profiles import QDQ, profile_of
from ..transforms.quantization.quantize import Quantize
from ..transforms.quantization.recover.equalize import Equalize
from ..transforms.quantization.recover.rotate import Rotate
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request, Wanted
from . import latency
from .evaluation import Labels, ranks
from .float_regions import (
    TURNS,
    Networks,
    Returned,
    check_faster,
    float_file,
    in_float_too,
    layers_to_return,
    with_reasons,
)
from .labels import load_labels
from .latency import Latencies
from .model_file import companions, files_read, read_model, simplify_and_fuse
from .options import AS_USUAL, ResultOptions
from .peer import CLOSE, LEAST, Expected, Peer, Simulation, peer_of
from .plausibility import doubts_of_data, doubts_of_result, doubts_of_split, doubts_of_use
from .recipes import note_widenings, widened, widenings
from .significance import Pair, Share
from .summary import Accuracy, Answers, Sizes, Summary, describe_layers, remedy_of, summary_data, weight_bytes

STAGES: Mapping[str, str] = {
    "fake_quantized": "fake-quantized (nn)",
    "integer": "integer (ascend)",
    "kernels": "integer kernels (nn)",
}
"""What is measured: the fields of `Accuracy`, and their names in messages."""

Stage = Callable[[], Watched]
"""Makes a program of a module."""

_ESCAPED = "backslashreplace"
"""How names of files that are not UTF-8 are written."""

_LARGE = 1 << 26
"""Bytes of weights from which on the stages are measured one after the other."""

_HUGE = 1 << 28
"""Bytes of weights from which on a model is not timed, as onnxruntime would have it twice in memory; its ONNX file keeps arrays
apart if the model's does. If it does not run, no form is made only to be written that the profile is not for, or that its ONNX
file contains.
"""

_ADDS: Mapping[str, str] = {
    "saturates": "onnxruntime adds two products in 16 bits, which saturate,",
    "wraps": "onnxruntime adds two products in 16 bits, which wrap around,",
}
"""What is wrong with sums, by how a processor adds products."""

_NEWER_BITS, _INTEGERS_SINCE = {3, 4, 16}, 21
"""Bit widths that QuantizeLinear supports only from this opset on."""


@dataclass(frozen=True)
class FileOptions:
    """What is asked of `quantize_file`, next to the model and the folder."""

    wanted: Wanted
    data: DataOptions = NO_DATA
    running: EngineOptions = AUTOMATIC
    results: ResultOptions = AS_USUAL
    report: bool = True
    """Whether what the report shows is measured (`report_of`)."""
    timed: bool = False
    """Whether the ONNX file and the float model are timed in onnxruntime."""


class _Forms(NamedTuple):
    """One network, in the forms that are measured and written."""

    original: ModuleOp
    """The module as it was read."""
    reference: ModuleOp
    """The float module whose layers read what the quantized one's read: after equalization it is not the original."""
    quantized: ModuleOp
    ascend: ModuleOp | None
    """None for a network in `brief`, in a profile for other targets."""
    stages: Mapping[str, Stage]
    """The programs of the quantized forms, by `STAGES`."""
    boundary: Boundary
    """What the quantized forms take and give in place of the original's floats."""
    large: bool
    """Whether the stages have no room next to each other."""
    brief: bool
    """Whether the network is huge and does not run, so that fewer forms are written."""


def quantize_file(model: Path, folder: Path, options: FileOptions, session: Session) -> Summary:
    """Import, canonicalize, fuse, quantize and lower `model`; write the results into `folder`, all or none of them.

    Without data, seeded synthetic inputs are used and every result is marked synthetic; if quantization needs no data (weights
    alone, rounded to nearest), the model does not run and nothing is measured. `session.on_progress` is called with
    the phases `calibrate` and `measure`. Raises CompileError, located, for anything that cannot be done.
    """
    if folder.exists() and not folder.is_dir():
        raise CompileError("cannot be written: not a folder", where=str(folder))
    wanted = options.wanted
    results = options.results
    given, model = model, model_in(model)
    files = outputs_of(given, folder)
    written = [*files.values(), folder / LAYERS, *map(side_file_of, files.values()), external_file(files["onnx"])]
    module = read_model(model, session, written, [*wanted.files, *options.data.files()])
    sources, original = files_read(model, module, session), module.clone()
    external = weight_bytes(original) > _HUGE and len(sources) > 1
    onnx = OnnxTarget(
        opset=results.opset,
        external=external,
        matmul_nbits=results.matmul_nbits,
        simulate_formats=results.simulate_formats,
    )
    beside = [f for f in companions(given, sources, session) if folder / f.name not in written]
    refuse_overwriting([folder / f.name for f in beside], beside)
    if wanted.settings.where:
        like_amct(module, session)
    request = wanted.request(profile_of(session))
    samples = split(options.data, request.settings, module, session)
    labels = None if results.labels is None else load_labels(results.labels, samples.held)
    if results.check is not None:
        _start_checking(model, module, results.check, samples, session)
    simplify_and_fuse(request, module, session)
    _warn_of_training(module, model, session)
    _warn_of_integers(original, model, session)
    onnx.check(module, session)
    if results.recipe is not None:
        found = widenings(model, module, request, samples, options.running, session)
        request = widened(request, [each.layer for each in found if each.wide])
        note_widenings(module, found, session)
    if not results.matmul_nbits:
        _check_bits(results.opset, request)
    returned: list[Returned] = []
    if results.faster_than_float:
        networks = Networks(model, original, module, onnx, samples.calibrating, samples.held, options.running)
        returned = layers_to_return(networks, request, session)
        request = in_float_too(request, returned)
    forms = _quantized(original, module, request, samples, options, session)
    session.remarks[:] = with_reasons(session.remarks, returned)
    runs = _runs(forms.quantized, samples)
    if forms.brief:
        _leave_out(files, forms, results, session)
    measurement = _Measurement(forms, samples, Expected(_compared(samples)), session)
    differences = measurement.differences() if runs else {}
    measurement.warn_of_doubts(differences, request.recovery)
    answers = {} if labels is None else measurement.answers(labels)
    summary = Summary(
        model=model,
        metadata={"profile": profile_of(session).name, **metadata(forms.quantized)},
        layers=describe_layers(forms.quantized, session.remarks),
        module=None if "nn" in files else forms.quantized,
        accuracy=Accuracy(
            samples.held.count if runs else 0,
            samples.apart and runs,
            samples.held.synthetic and runs,
            **{stage: differences.get(stage, {}) for stage in STAGES},
            answers=answers,
        ),
        target=profile_of(session).target,
        inexact=tuple(layer_of(each.op) for each in inexact_layers(forms.quantized, profile_of(session))),
        sizes=Sizes(sum(f.stat().st_size for f in sources), weight_bytes(original), weight_bytes(forms.quantized), {}),
        files=files,
        warnings=tuple(session.warnings),
    )
    formats: dict[str, tuple[Target, ModuleOp]] = {
        "onnx": (onnx, forms.quantized),
        "record": (RecordTarget(flavour=profile_of(session).amct), forms.quantized),
    }
    if "nn" in files:
        formats["nn"] = MlirTarget(), forms.quantized
    if forms.ascend is not None:
        formats["ascend"] = MlirTarget(), forms.ascend
    layers: dict[str, Any] | None = None
    if options.report and runs:
        layers = measurement.layers()
        summary = replace(summary, files={**files, "layers": folder / LAYERS})
    open_file = measurement.simulated if runs else peer_of
    if results.faster_than_float:
        open_file = partial(measurement.faster, model, open_file)
    timed = measurement.latencies if options.timed and latency.SECONDS else None
    return _write(summary, formats, layers, open_file, timed, beside, session)


def _start_checking(model: Path, module: ModuleOp, check: str, samples: Split, session: Session) -> None:
    """Check every pass and file from here on, on samples of their own if `check` names some."""
    from ..checking.checker import Checker

    session.checker = Checker(available(DataOptions(check), module, session) if check else samples.held)
    session.checker.reading(model, module)


def _quantized(
    original: ModuleOp, module: ModuleOp, request: Request, samples: Split, options: FileOptions, session: Session
) -> _Forms:
    """Quantize a fused module in place, and lower a copy of it."""
    large, calibrating, reference = weight_bytes(original) > _LARGE, samples.calibrating, original
    running = options.running
    recovery = [Rotate(request, calibrating, running), Equalize(request, calibrating, running)]
    run_on_verified(module, recovery, session)
    if any(each.kind == "applied" and each.pass_name in (Rotate.name, Equalize.name) for each in session.remarks):
        reference = module.clone()
    _settle(large)
    run_on_verified(module, [Quantize(request.equalized, calibrating, running)], session)
    if options.results.quantize_cache:
        run_on_verified(module, [QuantizeCachePass()], session)
    _settle(large)
    boundary = boundary_of(module, original)
    brief = weight_bytes(original) > _HUGE and not _runs(module, samples)
    if brief and profile_of(session).facts.kernels:
        return _Forms(original, reference, module, None, {}, boundary, large, brief)
    ascend = without_relu6(module, session)
    run_passes(ascend, [LowerToAscendPass()], session)
    programs = [partial(Executable, module), partial(Executable, ascend), *_integer_kernels(module, session)]
    stages = {name: _in_reals(each, boundary) for name, each in zip(STAGES, programs, strict=False)}
    return _Forms(original, reference, module, ascend, stages, boundary, large, brief)


def _leave_out(files: dict[str, Path], forms: _Forms, results: ResultOptions, session: Session) -> None:
    """Take the files of a huge network that follow from its ONNX file out of `files`, with a note about each."""
    huge = f"is not written: weights have more than {_HUGE >> 20} MiB"
    if not results.simulate_formats:  # their ONNX file has reals only
        nn = files.pop("nn")
        session.note(f"{nn} {huge}; amct-opt {files['onnx']} -o {nn} makes it")
    if forms.ascend is None:
        ascend, target = files.pop("ascend"), profile_of(session).target
        source = files.get("nn", files["onnx"])
        session.note(f"{ascend} {huge}, for {target}; amct-opt {source} --lower-to-ascend -o {ascend} makes it")


def _in_reals(program: Callable[[], Executable], boundary: Boundary) -> Stage:
    return lambda: InReals(program(), boundary)


def _runs(quantized: ModuleOp, samples: Split) -> bool:
    """Whether the model runs: on the data that is given, or on synthetic data that its quantization needed."""
    return samples.calibration is not None or metadata(quantized).get("synthetic") == "true"


def _settle(large: bool) -> None:
    """Give memory back that a large network leaves behind."""
    if large:
        reclaim()


@dataclass(frozen=True)
class _Measurement:
    """What is measured of a network in its forms."""

    forms: _Forms
    samples: Split
    expected: Expected
    """What the outputs of the ONNX file should be."""
    session: Session

    def differences(self) -> dict[str, dict[str, Difference]]:
        """Each stage's difference from the original's outputs."""
        forms, stages = self.forms, self.forms.stages
        found: list[dict[str, Difference]] = []
        # each keeps its smaller weights as float32
        for together in [[stage] for stage in stages] if forms.large else [[*stages]]:
            _settle(forms.large)
            simulated = together.index(self.simulated_stage) if self.simulated_stage in together else None
            # no name keeps the programs of one turn while those of the next are made
            found += measure(
                Executable(forms.original),
                [stages[stage]() for stage in together],
                self.samples.held,
                self.session,
                self.expected,
                simulated,
            )
            for weight in weights_of(forms.original):
                weight.release()
        _settle(forms.large)
        return dict(zip(forms.stages, found, strict=True))

    def warn_of_doubts(self, differences: Mapping[str, Mapping[str, Difference]], recovery: RecoveryOptions) -> None:
        """Warn where data and results are not plausible."""
        forms, samples, commands = self.forms, self.samples, self.session.commands
        if samples.calibration is None:
            return
        by_stage = {STAGES[stage]: each for stage, each in differences.items()}
        used = "samples" in metadata(forms.quantized) or recovery not in (BY_DEFAULT, NO_RECOVERY)
        for doubt in (
            *doubts_of_use(samples.calibration, used),
            *doubts_of_data(forms.original, samples.calibration, commands),
            *doubts_of_result(forms.original, by_stage, commands),
            *(doubts_of_split(samples.calibration, samples.held) if samples.apart else ()),
        ):
            self.session.warn(doubt)

    def answers(self, labels: Labels) -> dict[str, Answers]:
        """The right answers of the float model and of each stage, by the names in the summary."""
        silent = self.session.silent()
        programs = {"float": partial(Executable, self.forms.original), **self.forms.stages}
        right = {name: ranks(program(), self.samples.held, labels, silent).right for name, program in programs.items()}
        return {name: Answers(Share.of(each), Pair.of(right["float"], each)) for name, each in right.items()}

    def layers(self) -> dict[str, Any]:
        """What the report says about each layer."""
        forms, held = self.forms, self.samples.held
        with self.session.phase("measure layers"):
            few = in_batches(forms.reference, [], held.head(_whole(min(MEASURING.samples, held.count), held)))
            measured = measure_layers(forms.reference, forms.quantized, few, self.session)
        _settle(forms.large)
        return {"commands": self.session.commands, **measured}

    @property
    def simulated_stage(self) -> str:
        """The stage that computes what the ONNX file does."""
        return "kernels" if "kernels" in self.forms.stages else "fake_quantized"

    def simulated(self, file: Path) -> Peer | None:
        """What onnxruntime makes of a file, compared with the module."""
        rewrite = in_integers if "kernels" in self.forms.stages else None
        forms = self.forms
        _settle(forms.large)
        simulation = Simulation(forms.quantized, rewrite, profile_of(self.session), forms.boundary)
        return peer_of(file, simulation, self.expected)

    def timed(self, model: Path, int8: Path) -> Latencies:
        """Time the float model and an ONNX file on one run. Raises CompileError if onnxruntime does not run both."""
        with self.session.phase("time"), scratch() as folder:
            before = float_file(model, self.forms.original, folder, self.session)
            inputs = next(iter(self.samples.held.batches()))
            return latency.side_by_side({before: inputs, int8: self.forms.boundary.integers(inputs)}, TURNS)

    def faster(self, model: Path, open_file: Callable[[Path], Peer | None], file: Path) -> Peer | None:
        """What `open_file` makes of a file. Raises CompileError if it is not faster than the float model, in two measurements."""
        peer = open_file(file)
        before, after = self.timed(model, file).models.values()
        if not after.faster(before):  # something else may have run meanwhile
            check_faster(self.timed(model, file), model)
        return peer

    def latencies(self, summary: Summary, int8: Path) -> Latencies | None:
        """Time the float model and the ONNX file, which is `int8` now, on one run; warn if the file is the slower one.

        None, with a note that says why, if the weights are too large or the float model does not run in onnxruntime.
        """
        session = self.session
        if summary.sizes.float_weights > _HUGE:
            session.note(f"{summary.model}: latency is not measured: weights have more than {_HUGE >> 20} MiB")
            return None
        try:
            found = self.timed(summary.model, int8)
        except CompileError as e:  # the files are written already
            made_up = isinstance(e, RunError) and self.samples.held.synthetic
            on = " on inputs that are made up without --data" if made_up else ""
            session.note(f"{summary.model}: latency is not measured{on}: {e.message}")
            return None
        before, after = found.models.values()
        if after.slower(before):
            profile = profile_of(session)
            other = f"profile {profile.name} is for {profile.target}, --profile {QDQ.name} for {QDQ.target}"
            advice = "--faster-than-float returns layers to float until it is faster" if profile is QDQ else other
            session.warn(
                f"onnxruntime takes {after} for {int8.name} on this machine, and {before} for the float model; {advice}"
            )
        return replace(found, models={summary.model: before, summary.files["onnx"]: after})


def _whole(count: int, samples: Samples) -> int:
    """A number of samples in whole batches, at least one."""
    return max(1, count // samples.batch_size) * samples.batch_size


def _warn_of_training(module: ModuleOp, model: Path, session: Session) -> None:
    """Warns of the first layer whose weight is quantized in the graph: calibration leaves such layers as they are."""
    for op in module.walk():
        weight = trained_weight(op) if isinstance(op, COMPUTING) else None
        if weight is not None and constant_of(weight.input) is None:
            advice = f"amct convert --model {model} --save_path P keeps its scales"
            session.warn(f"{model}: {layer_of(op)} was trained with quantization and is not calibrated; {advice}")
            return


def _warn_of_integers(module: ModuleOp, model: Path, session: Session) -> None:
    """Warns of a model whose layers are quantized already; `amct convert` takes those of integers."""
    if quantized_layers(module, session):
        has_integers = any(isinstance(op, QuantizeOp | DequantizeOp) for op in module.walk())
        advice = f": amct convert --model {model} --save_path P keeps its scales" if has_integers else ""
        session.warn(f"{model} is quantized already, and these layers stay as they are{advice}")


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


def outputs_of(model: Path, folder: Path) -> dict[str, Path]:
    """The files of a result, by role. The ONNX file of a folder keeps its name, by which the folder's configuration finds it."""
    file = model_in(model)
    stem = frontends.stem(file)
    return {
        "onnx": folder / (f"{stem}_qdq.onnx" if file == model else file.name),
        "nn": folder / f"{stem}_nn.mlir",
        "ascend": folder / f"{stem}_ascend.mlir",
        "record": folder / f"{stem}_record.txt",
        "remarks": folder / "remarks.yaml",
        "summary": folder / "summary.json",
    }


def _integer_kernels(quantized: ModuleOp, session: Session) -> list[Callable[[], Executable]]:
    """The module as integer kernels compute it; empty unless the profile targets them and the module has work for them."""
    if not profile_of(session).facts.kernels:
        return []
    stage = partial(Executable, quantized, rewrite=in_integers)
    try:
        stage()
    except CompileError:  # no operation has both integer inputs and integer results
        return []
    return [stage]


def _compared(samples: Split) -> list[Samples]:
    """The samples on which onnxruntime runs the file: those held back, and others if these are few."""
    held, given = samples.held, samples.calibration
    missing = LEAST - held.count
    if not samples.apart or given is None or missing <= 0:
        return [held]
    return [held, given.head(min(given.count, -(-missing // given.batch_size) * given.batch_size))]


def measure(
    exact: Executable,
    others: Sequence[Watched],
    samples: Samples,
    session: Session,
    expected: Expected,
    simulated: int | None,
) -> list[dict[str, Difference]]:
    """Run modules on the same samples, one thread per core. Returns each module's difference from the exact outputs. Those of the
    module with number `simulated` are expected of the file, on some further samples as well.
    """
    totals = [{name: Differences() for name in exact.outputs} for _ in others]
    done = count(1)

    def compare(inputs: Mapping[str, Array], turn: Turn) -> None:
        outputs, found = exact.run(inputs), [other.run(inputs) for other in others]
        with turn:
            for arrays, total in zip(found, totals, strict=True):
                for name, array in arrays.items():
                    total[name].add(outputs[name], array)
            if simulated is not None:
                expected.add(outputs, found[simulated])
            session.progress("measure", next(done), samples.runs)

    with session.phase("measure"):
        OrderedBatches(samples.batches()).run(compare, min(threads_here(), samples.runs))
        if simulated is not None:
            for inputs in chain.from_iterable(more.batches() for more in expected.samples[1:]):
                expected.add(exact.run(inputs), others[simulated].run(inputs))
    return [{name: d.result() for name, d in total.items()} for total in totals]


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
    formats: Mapping[str, tuple[Target, ModuleOp]],
    layers: Mapping[str, Any] | None,
    open_file: Callable[[Path], Peer | None],
    timed: Callable[[Summary, Path], Latencies | None] | None,
    beside: Iterable[Path],
    session: Session,
) -> Summary:
    """Write everything to a folder inside the output folder, with copies of the files `beside` the model, then move the files
    into place. Returns the complete summary, with what onnxruntime makes of the file.
    """
    with filling(summary.files["summary"].parent) as temporary:
        for each in beside:
            shutil.copyfile(each, temporary / each.name)
        pending = {role: temporary / path.name for role, path in summary.files.items()}
        written: dict[str, int] = {}
        for role, (target, module) in formats.items():
            written[role] = sum(f.stat().st_size for f in target.write(module, pending[role], session))
            if session.checker is not None:
                session.checker.writing(pending[role], module, target, session)
        if session.checker is not None:
            session.note(session.checker.summary())
        with session.phase("onnxruntime"):
            peer = open_file(pending["onnx"])
        if peer is not None:
            peer = replace(peer, failure=peer.failure.replace(f"{temporary}/", f"{summary.files['summary'].parent}/"))
            _warn_of_other_numbers(summary, peer, session)
        sizes = replace(summary.sizes, written=written)
        complete = replace(summary, sizes=sizes, peer=peer)
        if timed is not None and peer is not None and not peer.failure:
            complete = replace(complete, latencies=timed(complete, pending["onnx"]))
        complete = replace(complete, warnings=tuple(session.warnings))
        pending["remarks"].write_text(remarks_yaml(session.remarks), "utf-8", _ESCAPED)
        if layers is not None:
            pending["layers"].write_text(json.dumps(layers, ensure_ascii=False), "utf-8", _ESCAPED)
        text = json.dumps(summary_data(complete), indent=2, ensure_ascii=False)
        pending["summary"].write_text(f"{text}\n", "utf-8", _ESCAPED)
    return complete
