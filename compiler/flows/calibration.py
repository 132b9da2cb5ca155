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
from ..dialects.nn import ObserveOp, plan_of
from ..dialects.nn.shapes import known, shape_of
from ..ir.functions import main_function
from ..lowering.ascend.profiles import like_amct
from ..session import Session
from ..support.diagnostics import CompileError, op_error
from ..transforms.quantization.data import Split
from ..transforms.quantization.decide.deciding import SETTINGS
from ..transforms.quantization.decide.recurrent import recurrent_layers
from ..transforms.quantization.options import AUTOMATIC, EngineOptions, QuantizeOptions, SettingsOptions
from ..transforms.quantization.place.insert_observers import insert_observers
from ..transforms.quantization.request import request_of
from .network import Network, read_model
from .saving import Files, files_of, framework_of
from .summary import Layers, describe_layers

BATCH_NUM = 1
"""The number of calibration runs if neither an option nor the configuration specifies it."""
_SKIPPED = frozenset(each.name for each in SETTINGS)
"""The settings that keep layers float."""


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
    network = quantize_runs(module, data, session, config, batch_num, running, files, model)
    written = files.write(network.module, session)
    return Calibrated(written, describe_layers(network.module, session.remarks), network.samples.batch_num or 0)


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
) -> Network:
    """Check that `files` can represent the module, then quantize it. `batch_num` of its samples is the number of runs."""
    like_amct(module, session)
    request = request_of(calibration_options(config), session)
    runs = batch_num or request.settings.batch_num or BATCH_NUM
    samples = data(module, runs)
    network = Network.of(model, module, request, Split(samples, samples, False, runs), running, session).fused()
    check_wanted(network, files)
    return network.quantized()


def calibration_options(config: str | Settings | None) -> QuantizeOptions:
    """The options of AMCT's calibration: the configuration's or, without one, AMCT's defaults."""
    return QuantizeOptions(settings=SettingsOptions(config=Settings(as_amct=True) if config is None else config))


def check_wanted(network: Network, files: Files) -> None:
    """Raise CompileError, located, if nothing in a fused network would be quantized or the files could not hold the result.

    Called before data runs through the module: only a copy of it is planned.
    """
    request, model, quiet = network.request, network.model, network.quiet.session
    files.check(network.module, network.session)
    planned = network.module.clone()
    reported = insert_observers(planned, request, quiet)
    if model.suffix.lower() == ".onnx" and files.framework == "onnx":
        _check_steps(planned)
    for point in (op for op in planned.walk() if isinstance(op, ObserveOp)):
        files.check_bits(point.point.data.removesuffix(":0"), point.bits.value.data, request.where)
    if any(_is_quantized(op) for op in planned.walk()):
        return
    skipped = next((r for r in reported if r.kind == "missed" and r.rule in _SKIPPED), None)
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
