"""The part of AMCT's functions that is the same for all frameworks: write a configuration, watch calibration runs,
convert, search.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast
from weakref import finalize

from xdsl.dialects.builtin import ModuleOp

from ..api import Loaded, PathLike
from ..configuration.checks import check_observers
from ..configuration.json_config import json_text
from ..configuration.settings import IFMR, Ada, Settings
from ..data import FloatModel, Spool
from ..dialects.nn import QuantizeOp
from ..flows.auto_calibration import LEAST_IN_FLOAT, Strategy, auto_calibrate_file
from ..flows.calibration import BATCH_NUM, quantize_runs
from ..flows.conversion import convert_file
from ..flows.saving import files_of
from ..ir.functions import main_function
from ..ir.layer_names import LayerNames
from ..lowering.ascend.profiles import like_amct
from ..pipelines.passes import run_passes
from ..session import ImportOptions, Session, print_remark
from ..session.universe import new_session
from ..support.diagnostics import CompileError
from ..support.files import made, replacing, scratch
from ..targets.record import RecordTarget
from ..transforms.canonicalization import SIMPLIFY
from ..transforms.quantization.convert.layer_weights import Integers, stored_integers
from ..transforms.quantization.decide.layers import Layers, resolve
from ..transforms.quantization.decide.non_uniform_layers import with_named_levels
from ..transforms.quantization.options import AUTOMATIC, SettingsOptions
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.request import settings_of

Inputs = Mapping[str, Any]
"""Arrays by input, in the shapes and dtypes of the model's inputs."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class AmctError(CompileError, ValueError, RuntimeError):
    """An error of AMCT's functions: scripts catch the ValueError or RuntimeError that AMCT raises for the same mistake."""

    def __init__(self, error: CompileError):
        self._text = str(error)
        super().__init__(error.message, where=error.where, hint=error.hint, option=error.option)

    def __str__(self) -> str:
        return self._text


class AmctTypeError(AmctError, TypeError):
    """An argument of another type."""


def as_in_amct(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """The function, whose errors are of the classes that AMCT's scripts catch."""

    @wraps(function)
    def called(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return function(*arguments, **named)
        except AmctError:
            raise
        except CompileError as e:
            raise AmctError(e) from e

    return called


MODELS = {
    "onnx": Path("model.onnx"),
    "pytorch": Path("model.pt2"),
    "tensorflow": Path("model.pb"),
    "caffe": Path("model.prototxt"),
}
"""A model file name by framework; its ending determines which files are written."""


def create_config(
    loaded: Loaded,
    config_file: PathLike,
    skip_layers: Sequence[str] | None,
    batch_num: int,
    activation_offset: bool,
    config_defination: PathLike | None,
    framework: str,
) -> None:
    """Write the configuration of a model, the JSON of the framework's AMCT. With a simplified configuration, the three settings
    are ignored.

    Raises CompileError for bad settings and for layers that the model does not have.
    """
    module, session = loaded
    path = _json(config_file)
    if config_defination is None:
        given = SettingsOptions(
            observer=IFMR, activation_offset=activation_offset, skip_layers=tuple(skip_layers or ())
        )
        if batch_num < 1:
            raise CompileError(f"batch_num must be at least 1, not {batch_num}")
        settings = replace(settings_of(given), batch_num=batch_num)
    else:
        if skip_layers or batch_num != BATCH_NUM or not activation_offset:
            session.warn("skip_layers, batch_num and activation_offset are ignored: config_defination is given")
        settings = settings_of(SettingsOptions(config=os.fspath(config_defination)))
        settings = replace(settings, batch_num=settings.batch_num or BATCH_NUM)
    like_amct(module, session)
    run_passes(module, SIMPLIFY, session)
    check_observers(settings, session.observers)
    layers = resolve(settings, module, profile_of(session))
    _check_skipped(skip_layers or (), layers, module)
    text = json_text(with_named_levels(layers, session), [each.layer for each in layers.able], framework)
    with made(path.parent), replacing(path) as stream:
        stream.write(text.encode())


def _check_skipped(names: Sequence[str], layers: Layers, module: ModuleOp) -> None:
    """Raises CompileError for a name without a layer that can be quantized: skipping it has no effect (AMCT)."""
    known, operations = LayerNames.of(module), {each.site.compute for each in layers.candidates}
    for name in names:
        if operations.isdisjoint(known.find_inside(name)):
            hint = f"layers that can be quantized are {', '.join(each.layer.name for each in layers.able)}"
            raise CompileError(f"skip_layers names '{name}', which has no layer that can be quantized", hint=hint)


def _json(config_file: PathLike) -> Path:
    path = Path(config_file)
    if path.suffix.lower() != ".json":
        raise CompileError("config_file must end in .json", where=str(path))
    return path


class Calibration:
    """A calibration that waits for the runs of a program. It keeps their inputs, and writes the record after the last one."""

    def __init__(
        self,
        loaded: Loaded,
        framework: str,
        config_file: PathLike,
        record_file: PathLike,
        model: PathLike = "graph",
        keep: Callable[[Mapping[str, Integers]], object] | None = None,
    ):
        """Remove the record of an earlier calibration. `model` is the model's place for errors. `keep` gets the integers that
        `ada_quantize` finds, by layer, which no record has.

        Raises CompileError for a configuration that does not fit the model, and for `ada_quantize` without `keep`.
        """
        self._module, self._session = loaded
        self._framework = framework
        self._model = Path(model)
        self._config = os.fspath(_json(config_file))
        self._record = Path(record_file)
        settings = settings_of(SettingsOptions(config=self._config))
        self._rounded, self._keep = rounded_layers(settings), keep
        if self._rounded and keep is None:
            reason = f"layer '{self._rounded[0]}': ada_quantize is for PyTorch, as in AMCT: a record does not say how it rounds"
            raise CompileError(reason, where=self._config, hint="amct calibration rounds as the configuration says")
        like_amct(self._module, self._session)
        simplified = self._module.clone()
        run_passes(simplified, SIMPLIFY, self._session.silent())
        resolve(settings, simplified, profile_of(self._session))
        self._runs = settings.batch_num or BATCH_NUM
        self._spool = Spool(main_function(self._module), "calibration")
        self._close = finalize(self, self._spool.close)  # a program may never run the model
        self._record.unlink(missing_ok=True)

    def see(self, inputs: Inputs) -> None:
        """Keep the inputs of a run; after `batch_num` runs (of the configuration), calibrate and write the record.

        Later runs are ignored. Raises CompileError for inputs that do not fit, and if the model cannot be quantized.
        """
        if not self._close.alive:
            return
        self._spool.add(inputs)
        if self._spool.count < self._runs:
            return
        samples = self._spool.samples()
        self._close()
        files = files_of(MODELS[self._framework], "./")
        quantized = quantize_runs(
            self._module,
            lambda module, runs: samples,
            self._session,
            self._config,
            self._runs,
            AUTOMATIC,
            files,
            self._model,
        )
        module = quantized.module
        with made(self._record.parent):
            RecordTarget(flavour=self._framework).write(module, self._record, self._session)
        if self._rounded and self._keep is not None:
            self._keep(stored_integers(module, self._rounded, profile_of(self._session)))


def rounded_layers(settings: Settings) -> list[str]:
    """The layers that a JSON configuration gives `ada_quantize`."""
    return [name for name in settings.enabled or () if isinstance(settings.by_layer[name].weight, Ada)]


_LEVELS_OF = {"note": 1, "warning": 2}
"""The largest index in `LEVELS` at which sessions print remarks of each kind."""

_WATCHED: dict[str, Callable[[Inputs], object]] = {}
"""The functions that watch the inputs of models under calibration, by file."""


def watch(model: PathLike, see: Callable[[Inputs], object]) -> None:
    """Makes sessions and nets of this process that run the model pass their inputs to `see` from now on."""
    _WATCHED[os.path.realpath(model)] = see


def watcher(model: PathLike) -> Callable[[Inputs], object] | None:
    """The watcher of a model's inputs, None if it does not calibrate."""
    return _WATCHED.get(os.path.realpath(model))


LEVELS = ("debug", "info", "warning", "error")
"""AMCT's levels of messages, the least important first."""
_level = "info"


def set_logging_level(print_level: str = "info", save_level: str = "info") -> None:
    """Print messages of this level and of more important ones from now on: `debug` adds remarks about layers in float, `info` has
    notes and warnings, `warning` warnings only, `error` nothing, because errors are raised.

    `save_level` has no effect: nothing is logged to files. Raises CompileError for another level.
    """
    global _level
    for name, level in (("print_level", print_level), ("save_level", save_level)):
        if level.lower() not in LEVELS:
            raise CompileError(f"{name} must be one of {', '.join(LEVELS)}, not '{level}'")
    _level = print_level.lower()


_PAGE = "docs/migrating.md#python-functions"
LEFT_OUT = {
    name: reason
    for names, reason in (
        (("quantize_preprocess",), "quantize_model finds the factors if the configuration has dmq_balancer"),
        (
            ("create_quant_retrain_config", "create_quant_retrain_model", "save_quant_retrain_model"),
            "nothing is trained here",
        ),
        (
            (
                *(
                    f"{verb}_{kind}_retrain_model"
                    for verb in ("create", "restore", "save")
                    for kind in ("prune", "compressed")
                ),
                *("auto_channel_prune_search", "pruning", "prune", "prune_finetune", "prune_diagnose"),
                *("CNN_RECONSTRUCT_PRUNE_CFG", "CNN_VARIANCE_PRUNE_CFG", "DENSE_LOWVAR_PRUNE_CFG"),
                *("FULL_STRUCTURED_PRUNE_CFG", "MOE_MASSVAR_PRUNE_CFG", "MOE_OUTPUT_MERGE_PRUNE_CFG"),
                *("SENSITIVITY_ALLOC_PRUNE_CFG", "MOE_VARIANCE_MENU_CFG", "DENSE_RECOVERY_MENU_CFG"),
                "CNN_RECOVERY_MENU_CFG",
            ),
            "nothing is pruned",
        ),
        (("LSTMQAT", "GRUQAT", "MatMulQAT"), "only convolutions and Linear are trained"),
        (("QuantCalibrationOp",), "create_quant_cali_model observes layers without it"),
        (("tensor_decompose", "auto_decomposition", "decompose_network"), "layers are not decomposed"),
        (("create_distill_config", "create_distill_model", "distill", "save_distill_model"), "nothing is distilled"),
        (("perform_convert_ops", "perform_approximation"), "layers are not approximated"),
        (
            (
                *("quantize", "convert", "algorithm_register"),
                *("INT4_AWQ_WEIGHT_QUANT_CFG", "INT4_GPTQ_WEIGHT_QUANT_CFG", "INT8_SMOOTHQUANT_CFG"),
                *("INT8_MINMAX_WEIGHT_QUANT_CFG", "HIFP8_OFMR_CFG", "FP8_OFMR_CFG", "MXFP8_QUANT_CFG"),
                *("MXFP4_AWQ_WEIGHT_QUANT_CFG", "HIFP8_CAST_CFG", "HIFP8_QUANTILE_CFG", "HIFP8_SMOOTHQUANT_CFG"),
            ),
            "there are no presets for large language models",
        ),
    )
    for name in names
}
"""Names of AMCT that its modules here do not have, with the reason."""


def missing(module: str, name: str) -> ImportError | AttributeError:
    """The error for a name that a module does not have, with the reason if it is one of AMCT's.

    With a reason it is not an AttributeError: `from module import name` would replace that by an error without the reason.
    """
    if name in LEFT_OUT:
        return ImportError(f"{name} is left out: {LEFT_OUT[name]} ({_PAGE})")
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def session_for(weights: PathLike | None = None, outputs: Sequence[str] = ()) -> Session:
    """A session that reads models with these weights and outputs."""
    session = new_session()
    session.prints = tuple(kind for kind in ("note", "warning") if LEVELS.index(_level) <= _LEVELS_OF[kind])
    if _level == "debug":
        session.on_remark = print_remark
    session.imports = ImportOptions(outputs=tuple(outputs), weights=None if weights is None else Path(weights))
    return session


def convert(
    model: PathLike,
    record_file: PathLike,
    save_path: PathLike,
    session: Session,
    framework: str | None = None,
    settings: Settings | None = None,
    integers: Mapping[str, Integers] | None = None,
) -> tuple[Path, ...]:
    """Write AMCT's files for a model and a record, those of `framework` (default: the model file's), fused by `settings`.
    Weights have these `integers`, by layer, or the nearest ones.

    Returns the files. Raises CompileError for a record that does not fit.
    """
    record = os.fspath(record_file)
    return convert_file(Path(model), record, os.fspath(save_path), session, framework, settings, integers).files


def save(
    model: PathLike,
    record_file: PathLike,
    save_path: PathLike,
    session: Session,
    framework: str | None = None,
    settings: Settings | None = None,
    integers: Mapping[str, Integers] | None = None,
) -> tuple[Path, ...]:
    """Write AMCT's files for a model that was calibrated, as `convert`. Raises CompileError if its record was not written."""
    if not Path(record_file).exists():
        hint = "run the modified model as often as the configuration's batch_num says, in this process"
        raise CompileError("the record does not exist: calibration is not complete", where=str(record_file), hint=hint)
    return convert(model, record_file, save_path, session, framework, settings, integers)


def convert_trained(
    model: PathLike, save_path: PathLike, record_file: PathLike | None, session: Session
) -> tuple[Path, ...]:
    """Write AMCT's files for a model that was trained with quantization, and its record once more to `record_file`."""
    return _with_record(convert_file(Path(model), None, os.fspath(save_path), session).files, record_file)


def _with_record(files: tuple[Path, ...], record_file: PathLike | None) -> tuple[Path, ...]:
    if record_file is None:
        return files
    path = Path(record_file)
    written = next(file for file in files if file.name.endswith("record.txt"))
    with made(path.parent), replacing(path) as stream, written.open("rb") as record:
        shutil.copyfileobj(record, stream)
    return (*files, path)


class Frame(Protocol):
    """The form in which the evaluators of a framework's scripts get a model."""

    def watched(self, folder: Path, see: Callable[[Inputs], object]) -> tuple[Any, ...]:
        """The arguments of `calibration`: the float model, whose runs pass their inputs to `see`."""
        ...

    def original(self) -> tuple[Any, ...]:
        """The arguments of `evaluate` for the float model."""
        ...

    def quantized(self, module: ModuleOp, folder: Path) -> tuple[Any, ...]:
        """The arguments of `evaluate` for a quantized module."""
        ...


class Adapter:
    """Adapts an evaluator of a script to the interface that the search calls."""

    def __init__(self, evaluator: Any, frame: Frame, folder: Path):
        self._evaluator = evaluator
        self._frame = frame
        self._folder = folder

    def calibration(self, model: FloatModel) -> None:
        self._evaluator.calibration(*self._frame.watched(self._folder, model.keep))

    def evaluate(self, model: FloatModel) -> Any:
        quantized = any(isinstance(op, QuantizeOp) for op in model.module.walk())
        given = self._frame.quantized(model.module, self._folder) if quantized else self._frame.original()
        return self._evaluator.evaluate(*given)

    def metric_eval(self, original_metric: Any, new_metric: Any) -> Any:
        return self._evaluator.metric_eval(original_metric, new_metric)


def auto_calibrate(
    model: PathLike,
    evaluator: Any,
    frame: Frame,
    config_file: PathLike,
    record_file: PathLike,
    save_dir: PathLike,
    session: Session,
    strategy: Strategy = LEAST_IN_FLOAT,
    framework: str | None = None,
) -> tuple[Path, ...]:
    """Search for the fewest layers in float that `evaluator.metric_eval` accepts, and write AMCT's files.

    `strategy` replaces the way to search, `framework` that of the model's file. Raises CompileError, located in the evaluator's
    file, for a missing method and for errors that its methods raise.
    """
    for method in ("calibration", "evaluate", "metric_eval"):
        if not callable(getattr(evaluator, method, None)):
            raise CompileError(f"the evaluator has no method {method}", where=str(_file_of(evaluator)))
    with scratch() as folder:
        adapter = Adapter(evaluator, frame, folder)
        found = auto_calibrate_file(
            Path(model),
            os.fspath(save_dir),
            _file_of(evaluator),
            session,
            os.fspath(_json(config_file)),
            load=lambda _: adapter,
            strategy=strategy,
            framework=framework,
        )
    return _with_record(found.files, record_file)


def _file_of(evaluator: Any) -> Path:
    """The file that defines an evaluator, if there is one."""
    given = evaluator.given if isinstance(evaluator, NuqEvaluator) else evaluator
    kind = cast("type[object]", type(given))
    try:
        return Path(inspect.getfile(kind))
    except (OSError, TypeError):
        return Path(kind.__name__)


class AutoCalibrationEvaluatorBase:
    """The base class of evaluators in AMCT's scripts. Subclasses define `calibration`, `evaluate` and `metric_eval`."""

    def calibration(self, *model: Any, **_: Any) -> Any:
        """Run the model, given in the form of the script's framework, at least `batch_num` times."""
        raise NotImplementedError

    def evaluate(self, *model: Any, **_: Any) -> Any:
        """The metric of a model, float or quantized."""
        raise NotImplementedError

    def metric_eval(self, original_metric: Any, new_metric: Any, /) -> tuple[bool, Any]:
        """Whether the quantized model's metric is good enough, and the loss."""
        raise NotImplementedError


class AutoNuqEvaluatorBase:
    """The base class of evaluators of `auto_nuq` in AMCT's scripts. Subclasses define `eval_model` and `is_satisfied`.

    The attribute `evaluate_batch_num` is the number of batches to measure with; by default as many as calibrate.
    """

    def __init__(self, *_: Any):
        """AMCT's scripts pass the object itself a second time."""

    def eval_model(self, model_file: str, weights_file: str, batch_num: int) -> Any:
        """Run a model on `batch_num` batches. Returns its metric."""
        raise NotImplementedError

    def is_satisfied(self, original_metric: Any, new_metric: Any) -> bool:
        """Whether the quantized model's metric is good enough."""
        raise NotImplementedError


class NuqEvaluator(AutoCalibrationEvaluatorBase):
    """Adapts an evaluator of `auto_nuq` to the interface of `accuracy_based_auto_calibration`."""

    def __init__(self, given: Any, batch_num: int):
        """Raises CompileError, located in the evaluator's file, for a missing method."""
        self.given = given
        self._batch_num = batch_num
        for method in ("eval_model", "is_satisfied"):
            if not callable(getattr(given, method, None)):
                raise CompileError(f"the evaluator has no method {method}", where=str(_file_of(given)))

    def calibration(self, *model: Any) -> Any:
        self.given.eval_model(*model, self._batch_num)

    def evaluate(self, *model: Any) -> Any:
        return self.given.eval_model(*model, getattr(self.given, "evaluate_batch_num", self._batch_num))

    def metric_eval(self, original_metric: Any, new_metric: Any, /) -> tuple[bool, Any]:
        return self.given.is_satisfied(original_metric, new_metric), None
