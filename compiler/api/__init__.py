"""The functions of the public Python API, exported by `amct_opt` (docs/embedding.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, Unpack, cast, overload

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from .. import frontends
from ..configuration.settings import Settings
from ..data.given import Given, samples_from
from ..dialects.nn import is_layer
from ..dialects.nn.shapes import element_of, shape_of
from ..engines.cluster import Workers, workers_of
from ..frontends.mlir import parse as parse_text
from ..ir.dtypes import numpy_dtype
from ..ir.exact_text import WeightSink
from ..ir.functions import main_function
from ..ir.metadata import metadata
from ..ir.text import ReadableModule, module_text
from ..ir.verification import verify
from ..pipelines.options import from_keywords
from ..pipelines.passes import After, parse_pipeline, run_passes
from ..runtime.executor import Array, Executable
from ..session import Session
from ..session.universe import new_session
from ..support.diagnostics import CompileError
from ..support.registry import load as load_reference
from ..support.tables import numbered, some
from ..targets import Target
from ..transforms.quantization.calibrate import calibrate_points
from ..transforms.quantization.data import load as load_samples, within
from ..transforms.quantization.options import AllOptions, DataOptions
from ..transforms.quantization.place.insert_observers import insert_observers
from ..transforms.quantization.profiles import Profile
from ..transforms.quantization.request import request_of
from ..transforms.quantization.running import runner_of
from .keywords import Keywords, Model, PathLike

Pipeline: TypeAlias = "str | Iterable[str | ModulePass]"
"""`"fuse"`, `"fuse-bn,quantize{bits=8}"`, or a list of passes, each an object or such text."""


class Loaded(NamedTuple):
    """A model as a module, and the session that it was read in: `module, session = load("model.onnx")`."""

    module: ModuleOp
    session: Session

    def __repr__(self) -> str:
        function = main_function(self.module)
        inputs = [_type(arg) for arg in function.body.block.args]
        layers = sum(is_layer(op) for op in function.walk())
        name = Path(metadata(self.module).get("source", "module")).stem
        return f"Loaded({name}: {numbered(len(inputs), 'input')} {some(inputs)}, {layers} layers)"

    def __str__(self) -> str:
        return module_text(self.module, sink=WeightSink())


def _type(value: SSAValue) -> str:
    """`float32 [?,3,224,224]`"""
    sizes = ",".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape_of(value))
    return f"{numpy_dtype(element_of(value))} [{sizes}]"


_OBJECTS: Mapping[str, str] = {
    "onnx.ModelProto": ".frontends.onnx:from_model",
    "tensorflow.GraphDef": ".frontends.tensorflow:from_graph",
    "tensorflow.Graph": ".frontends.tensorflow:from_graph",
    "keras.Model": ".frontends.tensorflow:from_keras",
    "tf_keras.Model": ".frontends.tensorflow:from_keras",
}
_PYTORCH: Mapping[str, str] = {
    "torch.ExportedProgram": ".frontends.torch:from_program",
    "torch.Module": ".frontends.torch:from_module",
}
"""The readers of in-memory objects, by package and class; the package itself is not imported for the lookup."""


@overload
def load(model: Model, session: Session | None = None, *, signature: Sequence[Any] = ()) -> Loaded: ...


@overload
def load(model: Model, example_inputs: Any, /, *, dynamic_shapes: Any = None) -> Loaded: ...


@overload
def load(
    model: Model, session: Session | None = None, example_inputs: Any = None, *, dynamic_shapes: Any = None
) -> Loaded: ...


def load(
    model: Any,
    session: Any = None,
    example_inputs: Any = None,
    *,
    signature: Sequence[Any] = (),
    dynamic_shapes: Any = None,
) -> Loaded:
    """Read a model as a verified module of `nn` (or of the dialects in the text of a module).

    `model` is a path (a file of a known ending, the folder of a SavedModel), or an object: an `onnx.ModelProto`, a model of Keras
    or tf_keras, a `tf.Graph` or GraphDef, a `torch.export.ExportedProgram`; a `torch.nn.Module`, for which `example_inputs` give
    the arguments (a tensor, a tuple, or arguments by name) and `dynamic_shapes` is that of `torch.export.export`; a `tf.function`
    or other callable on tensors, for which `signature` may give the `tf.TensorSpec` of each argument. `session.imports`
    overrides the inputs, outputs and shapes found in the model; without a session, one is created: `load(module, inputs)`
    gives inputs in its place. Raises CompileError, located in the model.
    """
    if session is not None and not isinstance(session, Session):
        session, example_inputs = example_inputs, session
    session = new_session() if session is None else session
    if reference := _reference(model, _PYTORCH):
        module: ModuleOp = load_reference(reference)(model, session, example_inputs, dynamic_shapes)
    elif example_inputs is not None or dynamic_shapes is not None:
        hint = "load(model, session) reads any other model"
        raise CompileError("example inputs and dynamic shapes are for PyTorch modules", hint=hint)
    else:
        module = _read(model, session, signature)
    verify(module)
    return Loaded(ReadableModule.of(module), session)


def _read(model: Any, session: Session, signature: Sequence[Any]) -> ModuleOp:
    if isinstance(model, str | os.PathLike):
        return frontends.read(Path(cast(PathLike, model)), session)
    if reference := _reference(model, _OBJECTS):
        return load_reference(reference)(model, session)
    if callable(model):
        return load_reference(".frontends.tensorflow:from_function")(model, session, *signature)
    hint = (
        "give a path, an onnx.ModelProto, a PyTorch module, a Keras model, a TensorFlow graph or a function on tensors"
    )
    raise CompileError(f"{type(model).__name__} is not a model", hint=hint)


def _reference(model: object, readers: Mapping[str, str]) -> str | None:
    """The reader of an object: that of the first of its classes that has one."""
    names = (f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(model).__mro__)
    return next((readers[name] for name in names if name in readers), None)


def is_pytorch(model: object) -> bool:
    """Whether it is a module or an exported program of PyTorch."""
    return _reference(model, _PYTORCH) is not None


def parse(text: str, session: Session | None = None, *, name: str = "<text>") -> Loaded:
    """Read the text of a module, verified. Nothing that the text names is imported or run.

    `name` is the file name in locations and errors; if it is a path, array files are looked up next to it. Raises
    CompileError, located at line and column.
    """
    session = new_session() if session is None else session
    module = parse_text(session, text, name)
    verify(module)
    return Loaded(ReadableModule.of(module), session)


def profiles(session: Session | None = None) -> Mapping[str, str]:
    """The purpose of each target profile, by profile name; its other names follow in brackets."""
    known = (session or new_session()).profiles
    found = {name: cast(Profile, known[name]).target for name in known}
    return {
        name: f"{target} ({', '.join(also)})" if (also := known.others(name)) else target
        for name, target in found.items()
    }


def to_text(module: ModuleOp, *, generic: bool = False, locations: bool = False) -> str:
    """The complete text of a module: arrays that are not in a file appear as hex.

    `generic` selects the form that every MLIR tool reads; `locations` adds the source position or layer of each operation.
    """
    return module_text(module, generic=generic, locations=locations)


def run_pipeline(module: ModuleOp, pipeline: Pipeline, session: Session, after: After | None = None) -> None:
    """Run passes on a module, in place, verifying it before, between and after.

    `pipeline` is the name of one (`fuse`, `deploy`) or of a pass, pipeline text, or an iterable of passes, as objects or
    text. `after(pass, module, seconds)` is called after each pass. `session.remarks` lists what passes did and did not do.
    Raises CompileError, located at an operation or in a file; the module then has the changes of the passes before.
    """
    if isinstance(pipeline, str):
        pipeline = [pipeline]
    passes: list[ModulePass] = []
    for each in pipeline:
        passes += parse_pipeline(each, session.passes) if isinstance(each, str) else [each]
    run_passes(module, passes, session, after)


def calibrate(
    module: ModuleOp,
    session: Session,
    settings: Settings | PathLike | None = None,
    data: Given | PathLike | None = None,
    *,
    client: Any = None,
    **options: Unpack[Keywords],
) -> Loaded:
    """Insert observers into a module, in place, and calibrate them: the first half of `quantize`, with its arguments.

    Each `nn.observe` then has the smallest and the largest value as `op.range`, and scale and zero point as `op.qparams`.
    `quantize(module, session)` keeps them and converts to integers; it needs data only to recover accuracy. Raises
    CompileError, located.
    """
    check_session(session, "calibrate(module, session)")
    asked = asked_by(options, client, config=settings)
    request = request_of(asked.quantization, session)
    given = within(with_data(asked, data, module, request.settings), request.settings)
    verify(module)
    insert_observers(module, request, session)
    calibrate_points(module, lambda: load_samples(given, module, session), session, runner_of(asked.running))
    verify(module)
    return Loaded(module, session)


def workers_of_client(client: Any) -> Workers | None:
    """The workers of a client, which share work among its machines; None without a client. Raises CompileError for anything
    else.
    """
    return None if client is None else workers_of(client)


def check_session(session: object, call: str) -> None:
    """Raises CompileError for something else in the place of the session."""
    if not isinstance(session, Session):
        hint = f"write {call}, with the session that load returns"
        raise CompileError(f"the session is missing: {type(session).__name__} stands in its place", hint=hint)


_PARAMETERS = ("client", "data", "labels", "profile", "session", "settings")
"""Parameters of functions besides the options; a misspelt keyword may mean one of them."""


def asked_by(options: Mapping[str, Any], client: Any, **given: Any) -> AllOptions:
    """The options in a function's keywords, and those `given` as separate parameters.

    Raises CompileError for a keyword that is not an option, for settings that are given twice, and for settings of a wrong type.
    """
    others = {name: value for name, value in given.items() if value is not None}
    if options.keys() & others.keys():
        raise CompileError("settings are given twice", hint="config is another name of settings")
    settings = (asked := {**options, **others}).get("config")
    if settings is not None and not isinstance(settings, Settings | str | os.PathLike):
        hint = 'write amct_opt.Settings(observer="mse"), or the path of a configuration'
        raise CompileError(f"settings are an object or a path, not {type(settings).__name__}", hint=hint)
    return from_keywords(AllOptions, "quantization", {**asked, "cluster": workers_of_client(client)}, _PARAMETERS)


def with_data(asked: AllOptions, data: Given | PathLike | None, module: ModuleOp, settings: Settings) -> DataOptions:
    """The options of data with the data that a program gives."""
    if data is None:
        return asked.calibration
    if isinstance(data, str | os.PathLike):
        return replace(asked.calibration, data=os.fspath(cast(PathLike, data)))
    runs = settings.batch_num if asked.calibration.batch_num is None else asked.calibration.batch_num
    return replace(asked.calibration, data=samples_from(data, module, runs))


def execute(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a module once, at any stage: arrays by input name in, arrays by output name out.

    Inputs have the shapes and dtypes of the module's arguments; `?` accepts any size. To run a module often, compile it once
    with `Executable(module)`. Raises CompileError for inputs that do not fit and for operations that cannot be run.
    """
    executable = Executable(module)
    if not isinstance(cast(object, inputs), Mapping):
        hint = (
            f"write {{{executable.inputs[0]!r}: array}}" if len(executable.inputs) == 1 else "write {name: array, ...}"
        )
        raise CompileError(f"inputs are arrays by name, not {type(inputs).__name__}", hint=hint)
    return executable.run(inputs)


def save(
    module: ModuleOp, path: PathLike, session: Session, target: str | Target = "mlir", **options: Any
) -> list[Path]:
    """Write a module in the format of a target, all of its files or none. Returns the files written.

    `target` is a name (`mlir`, `onnx`, `onnx-ascend`, ... as `-t` takes it) with its `options` as keywords, or an object.
    Raises CompileError, located at the operation, if the format cannot represent it, and for unknown names and options.
    """
    check_session(session, "save(module, path, session, target)")
    if isinstance(target, str):
        made = _target(session.targets[target], target, options)
    elif options:
        raise CompileError("options are for the name of a target, not for one that is made")
    else:
        made = target
    verify(module)
    made.warn_of_functions(module, session)
    return made.write(module, Path(path), session)


def report(folder: PathLike) -> Path:
    """Write `report.html` into the folder of a finished run (`amct quantize -o`), only from its files. Returns its path.

    What the folder lacks is left out of the page, with a sentence. Raises CompileError, located, for a folder without a summary,
    for damaged files, and without the extra `report`.
    """
    from ..flows.report import report_of

    return report_of(Path(folder))


def _target(target_class: Callable[..., Target], name: str, options: Mapping[str, Any]) -> Target:
    known = [f.name for f in fields(cast(Any, target_class)) if f.init]
    if unknown := [option for option in options if option not in known]:
        hint = f"options are {', '.join(known)}" if known else "it has none"
        raise CompileError(f"target {name} has no option '{unknown[0]}'", hint=hint)
    return target_class(**options)
