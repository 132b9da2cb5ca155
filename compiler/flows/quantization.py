"""The one-command path: a model file and calibration data in, checked int8 files and a summary out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..backends.threads import OrderedBatches, Turn, threads_here
from ..configuration.files import read_settings
from ..configuration.record import Record
from ..configuration.tensor_names import tensor_parts
from ..diagnostics import CompileError, remarks_yaml
from ..dialects.nn import NNOp
from ..files import filling, refuse_overwriting
from ..ir.functions import main_function
from ..ir.metadata import metadata
from ..ir.verification import verify
from ..ir.weights import side_file_of
from ..lowering.ascend import LowerToAscendPass
from ..lowering.ascend.fuse_requant import without_relu6
from ..pipelines.passes import run_on_verified, run_passes
from ..rewriting import layer_of
from ..runtime.data import Samples, synthetic_samples
from ..runtime.executor import Array, Executable
from ..runtime.integer_plan import in_integers
from ..runtime.metrics import Difference, Differences
from ..session import Session
from ..targets import Target
from ..targets.mlir import MlirTarget
from ..targets.onnx import OnnxTarget
from ..targets.record import RecordTarget
from ..transforms.fusion.fuse_all import FuseAllPass
from ..transforms.quantization.backend_options import AUTOMATIC, BackendOptions
from ..transforms.quantization.data_options import DataOptions, runs_of, warn_of_unused
from ..transforms.quantization.layers import checked
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.quantize import QuantizePass
from ..transforms.simplification import SIMPLIFY
from .peer import Simulation, peer_of
from .summary import Accuracy, Sizes, Summary, describe_layers, source_files, summary_data, weight_bytes

SMALLEST_SPLIT = 8
"""From this many samples on, every tenth (at least one) is held back from calibration to measure with, where no number of runs
is asked for."""

_NEWER_BITS, _INTEGERS_SINCE = {4, 16}, 21
"""Integers that QuantizeLinear has from an opset on."""

_MEASURING_SEED = 1
"""The seed of the synthetic inputs to measure with; calibration uses 0."""


@dataclass(frozen=True)
class Settings:
    """The settings of the path, beside its files."""

    config: str | None = None
    """AMCT's configuration, JSON or simplified."""
    record: str | None = None
    """AMCT's record of parameters."""
    observer: str | None = None
    """The configuration's, or mse, when not given."""
    skip_layers: tuple[str, ...] = ()
    opset: int | None = None
    """The opset of the ONNX file. None for the source's, or the first after it that can hold the quantized model."""
    only_layers: tuple[str, ...] = ()
    """The only layers that are quantized; all that can be when empty."""
    running: BackendOptions = AUTOMATIC
    """How calibration runs the model."""


def quantize_file(model: Path, data: DataOptions, folder: Path, session: Session, settings: Settings) -> Summary:
    """Import, canonicalize, fuse, quantize and lower `model`; write the results into `folder`, all or none of them.

    Without data, seeded synthetic inputs are used and every result is marked so. `session.on_progress` is called with
    the phases `calibrate` and `measure`. Raises CompileError, located, for anything that cannot be done.
    """
    if folder.exists() and not folder.is_dir():
        raise CompileError("cannot be written: not a folder", where=str(folder))
    files = _outputs(model, folder)
    onnx = OnnxTarget(opset=settings.opset)
    module = frontends.read(model, session)
    verify(module)
    sources = {*(f.resolve() for f in frontends.files_of(model, session.imports)), *source_files(module)}
    written = [*files.values(), *map(side_file_of, files.values())]
    given = {Path(f) for f in (settings.config, settings.record) if f is not None} | set(data.files())
    refuse_overwriting(written, sources | given)
    original = module.clone()
    config = None if settings.config is None else read_settings(Path(settings.config))
    batch_num = data.batch_num or (None if config is None else config.batch_num)
    calibration, held, held_back = _split(data, batch_num, module, session)
    quantize = QuantizePass(
        data=calibration,
        config=config,
        record=settings.record,
        observer=settings.observer,
        skip_layers=settings.skip_layers,
        only_layers=settings.only_layers,
        batch_num=batch_num,
        backend=settings.running.backend,
        threads=settings.running.threads,
    )
    quantize = replace(quantize, record=quantize.records(quantize.settings()))
    run_on_verified(module, SIMPLIFY, session)
    fuse(quantize, module, session)
    onnx.check(module, session)
    _check_bits(settings.opset, quantize)
    run_on_verified(module, [quantize], session)
    quantized = module
    module = without_relu6(module, session)
    run_passes(module, [LowerToAscendPass()], session)
    kernels = _integer_kernels(quantized, session)
    stages = [Executable(quantized), Executable(module), *kernels]
    fake, integer, *by_kernels = measure(Executable(original), stages, held, session)
    summary = Summary(
        model=model,
        metadata=metadata(module),
        layers=describe_layers(quantized, session.remarks),
        accuracy=Accuracy(held.count, held_back, held.synthetic, fake, integer, *by_kernels),
        sizes=Sizes(sum(f.stat().st_size for f in sources), weight_bytes(original), weight_bytes(quantized), {}),
        files=files,
    )
    formats: dict[str, tuple[Target, ModuleOp]] = {
        "onnx": (onnx, quantized),
        "nn": (MlirTarget(), quantized),
        "ascend": (MlirTarget(), module),
        "record": (RecordTarget(), quantized),
    }
    simulation = Simulation(quantized, *((kernels[0], in_integers) if kernels else (stages[0], None)))
    return _write(summary, formats, simulation, held, session)


def fuse(quantize: QuantizePass, module: ModuleOp, session: Session) -> None:
    """Fuse a verified module in place, as the configuration and the record have it.

    Afterwards `session.skip_fusion` names all layers that were to be left alone, which records say of them.
    """
    wanted = quantize.settings()
    resolved = checked(wanted, module, profile_of(session))
    record = quantize.records(wanted)
    layers = Record().layers if record is None else record.layers
    skipped = {name for name, layer in layers.items() if layer.skip_fusion}
    # the inputs of these stay values of their own
    tensors = {layer for layer, index in map(tensor_parts, layers) if index >= 0}
    session.skip_fusion = session.skip_fusion.union(skipped, tensors)
    alone = set(resolved.skip_fusion_layers)
    if not wanted.do_fusion:
        alone.update(layer_of(op) for op in module.walk() if isinstance(op, NNOp))
    run_on_verified(module, [FuseAllPass(config=quantize.config)], session)
    session.skip_fusion = session.skip_fusion.union(alone)


def _check_bits(opset: int | None, quantize: QuantizePass) -> None:
    """Raises CompileError if integers are asked for that the opset does not have."""
    if opset is None or opset >= _INTEGERS_SINCE:
        return
    wanted = quantize.settings()
    record = quantize.records(wanted)
    held = [c for c in (wanted.common, *wanted.by_type.values(), *wanted.by_layer.values()) if c is not None]
    inputs = {c.activation.bits for c in held} | {t.activation.bits for t in wanted.tensor_quantize}
    weights = {c.weight.bits for c in held}
    if record is not None:
        inputs.update(layer.bits for layer in record.layers.values())
        weights.update(layer.weight_bits for layer in record.layers.values())
    newer = [f"dst_type INT{n}" for n in sorted(inputs & _NEWER_BITS)]
    newer += [f"quant_bits {n}" for n in sorted(weights & _NEWER_BITS)]
    if newer:
        message = f"opset {opset} has no quantization with {' and '.join(newer)}"
        where = wanted.where if record is None else record.where
        raise CompileError(message, where=where, hint=f"write a newer opset: -t 'onnx{{opset={_INTEGERS_SINCE}}}'")


def _outputs(model: Path, folder: Path) -> dict[str, Path]:
    stem = frontends.stem(model)
    return {
        "onnx": folder / f"{stem}_qdq.onnx",
        "nn": folder / f"{stem}_nn.mlir",
        "ascend": folder / f"{stem}_ascend.mlir",
        "record": folder / f"{stem}_record.txt",
        "remarks": folder / "remarks.yaml",
        "summary": folder / "summary.json",
    }


def _split(
    data: DataOptions, batch_num: int | None, module: ModuleOp, session: Session
) -> tuple[Samples | None, Samples, bool]:
    """The samples that calibrate (None for synthetic ones), those to measure with, and whether the two are apart.

    `batch_num` runs calibrate where that is given, and a tenth as many behind them measure.
    """
    if data.data is None:
        return None, synthetic_samples(main_function(module), _MEASURING_SEED), True
    if batch_num is not None:
        beside = max(1, batch_num // 10)
        samples = data.available(module, session, batch_num + beside)
        calibration, used = runs_of(samples, batch_num), runs_of(samples, min(batch_num + beside, samples.runs))
        warn_of_unused(batch_num, samples.runs - used.runs, session)
        held = used.count - calibration.count
        return (calibration, used.tail(held), True) if held else (calibration, calibration, False)
    samples = data.available(module, session)
    batch = samples.batch_size
    held = -(-max(1, samples.count // 10) // batch) * batch
    if samples.count < SMALLEST_SPLIT or samples.count - held < batch:
        return samples, samples, False
    return samples.head(samples.count - held), samples.tail(held), True


def _integer_kernels(quantized: ModuleOp, session: Session) -> list[Executable]:
    """The module as integer kernels compute it, where the profile is made for them and there is something for them."""
    if profile_of(session).points != "values":
        return []
    try:
        return [Executable(quantized, rewrite=in_integers)]
    except CompileError:  # no operation both takes and gives integers
        return []


def measure(
    expected: Executable, others: Sequence[Executable], samples: Samples, session: Session
) -> list[dict[str, Difference]]:
    """Run modules on the same samples, a thread per core; for each, how far every output is from the expected one."""
    totals = [{name: Differences() for name in expected.outputs} for _ in others]
    done = count(1)

    def compare(inputs: Mapping[str, Array], turn: Turn) -> None:
        outputs, found = expected.run(inputs), [other.run(inputs) for other in others]
        with turn:
            for arrays, total in zip(found, totals, strict=True):
                for name, array in arrays.items():
                    total[name].add(outputs[name], array)
            session.progress("measure", next(done), samples.runs)

    OrderedBatches(samples.batches()).run(compare, min(threads_here(), samples.runs))
    return [{name: d.result() for name, d in total.items()} for total in totals]


def _write(
    summary: Summary,
    formats: Mapping[str, tuple[Target, ModuleOp]],
    simulation: Simulation,
    samples: Samples,
    session: Session,
) -> Summary:
    """Write everything to a folder inside the output folder, then move the files into place; the summary, complete.

    The simulation is what onnxruntime is compared with.
    """
    with filling(summary.files["summary"].parent) as temporary:
        pending = {role: temporary / path.name for role, path in summary.files.items()}
        written: dict[str, int] = {}
        for role, (target, module) in formats.items():
            written[role] = sum(f.stat().st_size for f in target.write(module, pending[role], session))
        with session.phase("onnxruntime"):
            peer = peer_of(pending["onnx"], simulation, samples)
        complete = replace(summary, sizes=replace(summary.sizes, written=written), peer=peer)
        pending["remarks"].write_text(remarks_yaml(session.remarks), "utf-8")
        text = json.dumps(summary_data(complete), indent=2, ensure_ascii=False)
        pending["summary"].write_text(f"{text}\n", "utf-8")
    return complete
