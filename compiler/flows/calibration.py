"""AMCT's `calibration`: a model and its data in, AMCT's set of files for the model's framework out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .. import frontends
from ..configuration.settings import Settings
from ..data import Samples, input_types
from ..diagnostics import CompileError, op_error
from ..dialects.nn import ObserveOp, plan_of
from ..dialects.nn.shapes import known, shape_of
from ..ir.functions import main_function
from ..lowering.ascend.profiles import like_amct
from ..pipelines.passes import run_passes
from ..session import Session
from ..transforms.quantization.decide.planning import SKIPPED
from ..transforms.quantization.decide.recurrent import recurrent_layers
from ..transforms.quantization.options import AUTOMATIC, DataOptions, EngineOptions, QuantizeOptions, SettingsOptions
from ..transforms.quantization.place.insert_observers import insert_observers
from ..transforms.quantization.quantize import Quantize
from ..transforms.quantization.request import Request, request_of
from .model_file import read_model, simplify_and_fuse
from .saving import Files, files_of, framework_of
from .summary import Layers, describe_layers

BATCH_NUM = 1
"""The number of calibration runs if neither an option nor the configuration specifies it."""


@dataclass(frozen=True)
class Calibrated:
    """The result for a model: the files, and what became of its layers."""

    files: tuple[Path, ...]
    layers: Layers
    runs: int
    """The number of calibration runs."""


Shapes = Mapping[str, tuple[int, ...]]
Data = Callable[[ModuleOp, int], Samples]
"""The samples for a module and a number of runs."""


def calibrate_file(
    model: Path,
    save_path: str,
    data: Data,
    session: Session,
    config: str | None = None,
    batch_num: int | None = None,
    reads: frozenset[Path] = frozenset(),
    shapes: Shapes | None = None,
    running: EngineOptions = AUTOMATIC,
) -> Calibrated:
    """Import, fuse, calibrate and quantize `model`, by AMCT's defaults unless `config` says otherwise.

    `save_path` is a folder, made when missing, and the prefix of the files' names; without a prefix they begin with no
    underscore. All or none are written. They may replace files of an earlier run, but no file that was read (or is in `reads`).
    `shapes` are those of the data, adopted if the model's framework lets a run choose them. `running` selects the engine.
    Raises CompileError, located, for anything that cannot be done.
    """
    files = files_of(model, save_path)
    module = read_model(
        model, session, files.paths(), (*reads, config), lambda path, session: read_for(path, shapes or {}, session)
    )
    runs = quantize_runs(module, data, session, config, batch_num, running, files, model)
    written = files.write(module, session)
    return Calibrated(written, describe_layers(module, session.remarks), runs)


def read_for(model: Path, shapes: Shapes, session: Session) -> ModuleOp:
    """Read a model; with any batch size if it needs shapes, or is a Caffe net declared with another batch size."""
    try:
        module = frontends.read(model, session)
        if framework_of(model) != "caffe" or not other_batch(module, shapes):
            return module
    except CompileError:
        if not shapes:
            raise
    session.remarks.clear()
    free = {name: (-1, *shape[1:]) for name, shape in shapes.items()}
    session.imports = replace(session.imports, shapes=free)
    return frontends.read(model, session)


def other_batch(module: ModuleOp, shapes: Shapes) -> bool:
    """Whether data differs from the inputs in the batch size only."""
    declared = {name: tuple(t.get_shape()) for name, t in input_types(main_function(module)).items()}
    given = {name: shape for name, shape in shapes.items() if declared.get(name) != shape}
    return bool(given) and all(declared.get(name, ())[1:] == shape[1:] for name, shape in given.items())


def quantize_runs(
    module: ModuleOp,
    data: Data,
    session: Session,
    config: str | None,
    batch_num: int | None,
    running: EngineOptions,
    files: Files,
    model: Path,
) -> int:
    """Check that `files` can represent the module, then quantize it in place. Returns the number of calibration runs."""
    like_amct(module, session)
    request = request_of(calibration_options(config), session)
    runs = batch_num or request.settings.batch_num or BATCH_NUM
    samples = data(module, runs)
    simplify_and_fuse(request, module, session)
    check_wanted(request, module, session, files, model)
    run_passes(module, [Quantize(request, DataOptions(samples, batch_num=runs), running)], session)
    return runs


def calibration_options(config: str | Settings | None) -> QuantizeOptions:
    """The options of AMCT's calibration: the configuration's or, without one, AMCT's defaults."""
    return QuantizeOptions(settings=SettingsOptions(config=Settings(as_amct=True) if config is None else config))


def check_wanted(request: Request, module: ModuleOp, session: Session, files: Files, model: Path) -> None:
    """Raise CompileError, located, if nothing in a fused module would be quantized or the files could not hold the result.

    Called before data runs through the module: only a copy of it is planned.
    """
    files.check(module, session)
    planned, silent = module.clone(), session.silent()
    insert_observers(planned, request, silent)
    if model.suffix.lower() == ".onnx" and files.framework == "onnx":
        _check_steps(planned)
    for point in (op for op in planned.walk() if isinstance(op, ObserveOp)):
        files.check_bits(point.point.data.removesuffix(":0"), point.bits.value.data, request.where)
    if any(_is_quantized(op) for op in planned.walk()):
        return
    skipped = next((r for r in silent.remarks if r.kind == "missed" and r.rule in SKIPPED), None)
    if skipped is None:
        raise CompileError("contains no layer that can be quantized", where=str(model), hint="amct support says why")
    raise CompileError(f"leaves every layer in float, '{skipped.layer}' because {skipped.reason}", where=request.where)


def _check_steps(planned: ModuleOp) -> None:
    """Raise CompileError, located at the layer, if a recurrent layer in integers takes several steps at a time:
    AMCT for ONNX calibrates sequences of one step.
    """
    for each in recurrent_layers(planned):
        steps, plan = shape_of(each.op.operands[0])[0], plan_of(each.op)
        if plan is not None and plan.input and known(steps) and steps != 1:
            reason = f"cannot be calibrated: its sequences have {steps} steps, and AMCT calibrates one step for ONNX"
            hint = "list it in skip_layers, or calibrate with amct quantize, which observes all steps"
            raise op_error(each.op, reason, hint)


def _is_quantized(op: Operation) -> bool:
    """Whether a planned module has something to quantize here."""
    return isinstance(op, ObserveOp) or ((plan := plan_of(op)) is not None and plan.rule is None)
