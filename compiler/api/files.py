"""The commands of `amct` as functions of the public Python API, exported by `amct_opt` (docs/embedding.md)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..configuration.ranges import at_least
from ..configuration.settings import Settings
from ..data import FloatModel, Samples
from ..data.given import Given
from ..engines import Runner
from ..examine.reduction import SECONDS
from ..flows.network import simplify_and_fuse
from ..flows.options import AS_USUAL, ResultOptions
from ..pipelines.options import from_keywords
from ..pipelines.passes import run_passes
from ..rewriting import Remarks
from ..runtime.executor import Array
from ..session import Session
from ..session.universe import new_session
from ..support.diagnostics import CompileError
from ..support.files import filling, scratch_until_the_end
from ..support.tables import Table, Tabled, numbered
from ..transforms.quantization.options import AllOptions, DataOptions, engine_named
from ..transforms.quantization.place.insert_observers import foldable_norms
from ..transforms.quantization.quantize import QuantizePass
from ..transforms.quantization.request import request_of, wanted_of
from . import Loaded, asked_by, check_session, is_pytorch, load, report, save, with_data, workers_of_client
from .keywords import DataKeywords, FileKeywords, Keywords, Model, PathLike, with_options

if TYPE_CHECKING:
    from ..examine.checking.bisection import Bisection
    from ..flows.evaluation import Labels, Metric
    from ..flows.perplexity import Perplexities
    from ..flows.scoring import Scores
    from ..flows.sensitivity import Sensitivity
    from ..flows.summary import Summary
    from ..flows.tune import Tuned
    from ..runtime.comparison import Comparison
    from .keywords import NamedKeywords

Measure = Callable[[FloatModel], float]
"""Takes a model with `model.run(inputs)` and `model.batches()`, and returns a number; larger is better."""


class Quantized(Tabled):
    """A model that was read, fused, calibrated, quantized and measured, as `print` shows. Files are temporary until `save`."""

    def __init__(self, summary: Summary):
        self.summary = summary

    def __repr__(self) -> str:
        return f"Quantized({repr(self.summary).removeprefix('Summary(')}"

    def tables(self) -> Sequence[Table]:
        """The result as `amct quantize` prints it, without its files."""
        return [
            each._replace(rows=[r for r in each.rows if r[0] not in ("file", "files")])
            for each in self.summary.tables()
        ]

    def save(self, folder: PathLike) -> Path:
        """Write the files into a folder, all of them or none. Returns the folder. Raises CompileError if that fails."""
        target = Path(folder)
        with filling(target) as temporary:
            for file in self._folder.iterdir():
                shutil.copyfile(file, temporary / file.name)
        return target

    def report(self, folder: PathLike) -> Path:
        """Save the files, and a page about them. Returns the page's path. Raises CompileError without the extra `report`."""
        return report(self.save(folder))

    def evaluate(self, data: Any, labels: str | Array | None = None, **judged: Any) -> Scores:
        """The scores of the float model and of the ONNX file, as `evaluate` gives them, with its keywords."""
        return evaluate([self.summary.model, self.summary.files["onnx"]], data, labels, **judged)

    @property
    def _folder(self) -> Path:
        return self.summary.files["onnx"].parent


@overload
def quantize(
    module: ModuleOp,
    session: Session,
    settings: Settings | PathLike | None = None,
    data: Given | PathLike | None = None,
    *,
    client: Any = None,
    **options: Unpack[Keywords],
) -> Loaded: ...


@overload
def quantize(
    model: Any,
    loader: Iterable[Any],
    /,
    settings: Settings | PathLike | None = None,
    *,
    client: Any = None,
    profile: str | None = None,
    **options: Unpack[Keywords],
) -> Loaded: ...


@overload
def quantize(
    model: Model,
    /,
    session: Session | None = None,
    *,
    settings: Settings | PathLike | None = None,
    data: Given | PathLike | None = None,
    labels: str | Array | None = None,
    client: Any = None,
    profile: str | None = None,
    **options: Unpack[NamedKeywords],
) -> Quantized: ...


@with_options
def quantize(  # pyright: ignore[reportInconsistentOverload]  # the last overload takes misspelt keywords, to name them
    module: Any,
    session: Any = None,
    settings: Settings | PathLike | None = None,
    data: Given | PathLike | None = None,
    *,
    labels: str | Array | None = None,
    client: Any = None,
    profile: str | None = None,
    **options: Unpack[FileKeywords],
) -> Loaded | Quantized:
    """Quantize a model in one step, or a module in place, between steps of your own.

    `quantize("model.onnx", data="calib.npz")` reads any model that `load` reads (a path, an `onnx.ModelProto`, a Keras model, a
    `torch.nn.Module` with batches as `data`), fuses, calibrates, quantizes and measures it, and returns a `Quantized`: it prints
    as tables, `save` writes its files. A session tells the profile, and its `on_remark` hears all remarks. `labels` are the
    classes of the samples, int [samples] or what `--labels` takes; `matmul_nbits`, `quantize_cache`, `simulate_formats`,
    `faster_than_float`, `effort` and `recipe` are those of `quantize_file`.

    `quantize(module, session)` quantizes a module in place: observers, calibration, integers. Run fusions before: the session
    warns if there are batch norms and no fusion ran. It returns the module and its session.

    `quantize(model, loader)` does all of it for a `torch.nn.Module` or an exported program, which is not changed: the first batch
    of the loader traces it, it is simplified and fused for `profile`, and all batches calibrate. Batches are tensors, tuples
    or dictionaries, of which the arguments of `forward` are taken; labels after them are not used.

    `settings` are an object or a configuration file of AMCT (JSON in a file ending in .json, else simplified), to which `options`
    are added: `bits=16, equalize=True`. `data` calibrates: a path (what `--data` takes), arrays by input `[samples, ...]`, an
    iterable of batches or a function that returns one (one run each, in the inputs' shapes and dtypes). If data is needed and
    not given, seeded synthetic inputs are used and the session warns. `client` shares calibration among machines, with the same
    result: a `distributed.Client`, or an executor of `concurrent.futures` (docs/cluster.md).
    `session.profile` decides what can be quantized; `session.remarks` reports what was not quantized, and why. Raises
    CompileError, located.
    """
    loading = is_pytorch(module)
    results, others = _results(options)
    if _in_one_step(module, session):
        asked = asked_by(others, client, config=settings)
        return _quantized(module, asked, data, labels, _session(session, profile), results)
    usual = asdict(AS_USUAL)
    given_results = {**asdict(results), "labels": None if labels is None else "given"}
    if name := next((name for name, given in given_results.items() if given != usual[name]), None):
        raise CompileError(f"only a model in one step takes {name}", hint=f"quantize(model, data=..., {name}=...)")
    if not loading:
        check_session(session, "quantize(module, session)")
        if profile is not None:
            raise CompileError("a profile is for PyTorch modules here", hint="set session.profile before fusions")
    elif data is not None:
        raise CompileError("the loader is the data", hint="quantize(model, loader)")
    asked = asked_by(others, client, config=settings)
    if loading:
        module, session, data = _traced(module, session, profile)
    request = request_of(asked.quantization, session)
    given = with_data(asked, data, module, request.settings)
    if loading:
        simplify_and_fuse(request, module, session)
    else:
        _warn_of_missing_fusions(module, session)
    step = QuantizePass(calibration=given, quantization=asked.quantization, running=asked.running)
    run_passes(module, [step], session)
    return Loaded(module, session)


def _results(options: Mapping[str, Any]) -> tuple[ResultOptions, dict[str, Any]]:
    """The options of files among keywords, and the other ones."""
    names = FileKeywords.__annotations__.keys() - Keywords.__annotations__.keys()
    given = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    return from_keywords(ResultOptions, "quantize", given), others


def _in_one_step(model: object, session: object) -> bool:
    """Whether a model is given that is not a module in a session yet, and no loader of PyTorch."""
    return isinstance(session, Session | None) and not isinstance(model, ModuleOp)


def _quantized(
    model: Any,
    asked: AllOptions,
    data: Given | PathLike | None,
    labels: str | Array | None,
    session: Session,
    results: ResultOptions,
) -> Quantized:
    """A model in one step, in a folder that is removed at the end of the process. Raises CompileError, located."""
    from ..flows.quantization import FileOptions, quantize_file as written

    folder = scratch_until_the_end()
    wanted = wanted_of(asked.quantization)
    if isinstance(model, str | os.PathLike):
        path, arrays = Path(cast(PathLike, model)), not isinstance(data, str | os.PathLike | None)
        module = load(path, session.clone()).module if arrays else ModuleOp([])
    else:
        path = folder / f"{type(model).__name__.lower()}.mlir"
        module, data = _loaded(model, data, session)
        save(module, path, session)
    given = with_data(asked, data, module, wanted.settings)
    if labels is not None and not isinstance(labels, str):
        np.save(folder / "labels.npy", labels)
        labels = str(folder / "labels.npy")
    options = FileOptions(wanted, given, asked.running, replace(results, labels=labels), timed=True)
    return Quantized(written(path, folder / "results", options, session))


def _loaded(model: Any, data: Any, session: Session) -> tuple[ModuleOp, Any]:
    """An object as a module, and its data; a PyTorch module is traced with the first batch."""
    if not is_pytorch(model):
        return load(model, session).module, data
    from .torch import load_with

    if data is None or isinstance(data, str | os.PathLike):
        raise CompileError("a PyTorch module is traced with a batch", hint="give batches of its arguments as data")
    return load_with(model, [data] if isinstance(data, Mapping) else data, session)


def _traced(model: Any, loader: Any, profile: str | None) -> tuple[ModuleOp, Session, Any]:
    """A PyTorch model in a session of its own, and the inputs in the loader's batches."""
    from .torch import load_with

    session = new_session()
    if profile is not None:
        session.profile = session.profiles[profile].name
    module, batches = load_with(model, loader, session)
    return module, session, batches


def _warn_of_missing_fusions(module: ModuleOp, session: Session) -> None:
    """Warn of batch norms that a fusion would have folded."""
    if norms := foldable_norms(module, Remarks(session, "quantize")):
        step = 'run_pipeline(module, "fuse", session)'
        found = numbered(len(norms), "batch norm")
        session.warn(f"no fusion has run, and the module has {found}: {step} before folds them into layers")


def quantize_file(
    model: PathLike,
    folder: PathLike,
    data: PathLike | None = None,
    *,
    profile: str | None = None,
    labels: str | None = None,
    opset: int | None = None,
    check: bool | PathLike = False,
    client: Any = None,
    session: Session | None = None,
    **options: Unpack[FileKeywords],
) -> Summary:
    """Quantize a model file and write the results into a folder, all of them or none, as `amct quantize` does.

    `data` and `labels` are what `--data` and `--labels` take; `options` are those of `quantize`:
    `weight_bits=4, skip_layers=["fc"], equalize=True`. The profile is the session's by default. `also` names further files: `nn`,
    `ascend` or `record`. `quantize_cache` lets the cache of a decoder go in and out as the integers that attention reads;
    `matmul_nbits` writes products with groups as MatMulNBits of onnxruntime, `simulate_formats` weights of `weight_format` as
    float32. `check` runs every pass and file compared with what was before it, on the samples that measure or on those of a path.
    `faster_than_float` returns layers to float until onnxruntime takes less time for the ONNX file than for the float model, or
    raises. `effort` says how much is tried where outputs are poor: 0 nothing, 1 until they are better, 2 everything.
    `recipe="detection"` gives 16 bits to activations of the layers that need them, by what they cost at the outputs. `client`
    shares calibration among machines, as in `quantize`. `report(folder)` draws the page of the results. Raises CompileError,
    located.
    """
    from ..flows.quantization import FileOptions, quantize_file as quantized

    results, others = _results(options)
    asked, within = asked_by(others, client, data=data), _session(session, profile)
    checked = None if check is False else "" if check is True else os.fspath(check)
    results = replace(results, opset=opset, labels=labels, check=checked)
    wanted = wanted_of(asked.quantization)
    return quantized(Path(model), Path(folder), FileOptions(wanted, asked.calibration, asked.running, results), within)


def tune(
    model: PathLike,
    folder: PathLike,
    data: PathLike,
    *,
    sqnr: float | None = None,
    labels: str | Array | None = None,
    metric: Measure | None = None,
    drop: float | None = None,
    budget: str | None = None,
    test: PathLike | None = None,
    faster_than_float: bool = False,
    also: Sequence[str] = (),
    profile: str | None = None,
    client: Any = None,
    session: Session | None = None,
    **options: Unpack[Keywords],
) -> Tuned:
    """Search for options that reach a goal, then write the files of the best ones into a folder, as `amct tune` does.

    The goal is `sqnr` in dB, or the largest `drop` of top-1 in points (`labels`: int [samples], or what `--labels` takes), or of
    `metric`. `budget` is text such as `bytes=150k`; `faster_than_float` and `also` are those of `quantize_file`; `options` hold
    for all trials. `client` shares the trials' samples among machines, as in `quantize`. Raises CompileError, located; a goal
    that is missed is in the result (`best.reached`).
    """
    from ..flows.quantization import FileOptions, quantize_file as quantized
    from ..flows.tune import finish, tune_file
    from ..flows.tune.budget import UNLIMITED, Budget
    from ..flows.tune.goal import Goal
    from ..flows.tune.network import merged

    judges = [each for each in (sqnr, labels, metric) if each is not None]
    if len(judges) != 1 or (drop is None) != (sqnr is not None):
        raise CompileError("one goal is needed", hint="give sqnr, or drop with labels or metric")
    score = _metric(metric) if metric is not None else _labels(labels)
    goal = Goal(sqnr=sqnr, drop=drop, score=score)
    asked = asked_by(options, client, data=data)
    measuring = None if test is None else replace(asked.calibration, data=_text(test), batch_num=None)
    bounds = UNLIMITED if budget is None else Budget.of(budget)
    within = _session(session, profile)
    given, running = asked.calibration, asked.running
    asked_for = (asked.quantization, given, Path(folder), within, goal, running, measuring, bounds, "sqnr")
    found = tune_file(Path(model), *asked_for, faster_than_float)
    best = wanted_of(merged(merged(asked.quantization, {"skip_layers": found.returned}), found.best.changes))
    results = from_keywords(ResultOptions, "tune", {"faster_than_float": faster_than_float, "also": also, "effort": 0})
    quantized(Path(model), Path(folder), FileOptions(best, given, running, results), within.clone())
    finish(Path(folder))
    return found


def evaluate(
    models: PathLike | Sequence[PathLike],
    data: Any = None,
    labels: str | Array | None = None,
    *,
    metric: Measure | None = None,
    engine: str | None = None,
    client: Any = None,
    session: Session | None = None,
    **options: Unpack[DataKeywords],
) -> Scores:
    """Score models on the same samples, as `amct evaluate` does, by labels or by a function.

    `models` are model files, written files, or module text of any stage. `data` is what `--data` takes, or a loader of
    PyTorch, whose batches have labels after their inputs; `labels` are int [samples] or what `--labels` takes. `engine` is
    `onnxruntime`, which runs ONNX files (the default where it is installed, without `client`), `openvino`, `numpy` or `iree`.
    `client` shares the samples that labels judge among machines, as in `quantize`. Raises CompileError, located.
    """
    from ..flows.scoring import evaluate_files

    paths = [Path(each) for each in ([models] if isinstance(models, str | os.PathLike) else models)]
    source: Any = data
    if data is None or isinstance(data, str | os.PathLike):
        source = _text(cast("PathLike | None", data))
    elif labels is None:
        source, labels = _labelled(data, paths[0], session)
    if (labels is None) == (metric is None):
        raise CompileError("either labels or a metric must judge")
    if labels is not None and data is None:
        raise CompileError("labels need samples", hint="give data")
    given, runner = (
        from_keywords(DataOptions, "data", {**options, "data": source}),
        Runner(cluster=workers_of_client(client)),
    )
    measure = None if metric is None else _metric(metric)
    asked = engine and engine_named(engine)
    return evaluate_files(paths, given, lambda _: _session(session, None), _labels(labels), measure, asked, runner)


def perplexity(
    models: PathLike | Sequence[PathLike],
    text: PathLike,
    *,
    tokenizer: PathLike | None = None,
    window: int | None = None,
    decode: int | None = None,
    engine: str | None = None,
    session: Session | None = None,
) -> Perplexities:
    """Score language models on the same text, with or without a cache, as `amct evaluate --perplexity` does.

    `text` is a file of text, with its `tokenizer` (`tokenizer.json`), or token ids: FILE.npy, FILE.npz or FILE.npz:KEY. `window`
    is the number of tokens that a model sees at a time. With `decode` each model writes that many tokens after some prompts.
    `engine` as in `evaluate`. Raises CompileError, located.
    """
    from ..flows.options import TextOptions
    from ..flows.perplexity import perplexities

    paths = [Path(each) for each in ([models] if isinstance(models, str | os.PathLike) else models)]
    given = TextOptions(perplexity=os.fspath(text), tokenizer=_text(tokenizer), window=window, decode=decode)
    asked = engine and engine_named(engine)
    return perplexities(paths, given, lambda _: _session(session, None), asked)


def _labelled(loader: Any, model: Path, session: Session | None) -> tuple[Samples, Array]:
    """The samples of a loader for a model, and their labels."""
    from ..data.given import samples_from
    from .torch import labelled

    module = load(model, _session(session, None)).module
    inputs, labels = labelled(loader, module)
    return samples_from(inputs, module), labels


def sensitivity(
    model: PathLike,
    data: PathLike,
    *,
    measure: Literal["sqnr", "kl"] = "sqnr",
    samples: int = 32,
    profile: str | None = None,
    client: Any = None,
    session: Session | None = None,
    **options: Unpack[Keywords],
) -> Sensitivity:
    """The cost of quantizing each layer at the network's outputs, as `amct sensitivity` measures it on at most this many samples.

    `measure` is `sqnr`, in dB, or `kl`, the divergence of probabilities in nats. `options` are those of `--quantize`, as in
    `quantize_file`; `client` shares the layers among machines. Raises CompileError, located.
    """
    from ..flows.sensitivity import MEASURES, sensitivity_of

    at_least("samples", samples, 1)
    if measure not in MEASURES:
        raise CompileError(f"measure is {' or '.join(MEASURES)}, not '{measure}'")
    asked, within = asked_by(options, client, data=data), _session(session, profile)
    return sensitivity_of(Path(model), asked.quantization, asked.calibration, within, samples, asked.running, measure)


def compare(
    a: ModuleOp | PathLike,
    b: ModuleOp | PathLike,
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]],
    *,
    layers: bool = False,
    engine: str = "numpy",
    session: Session | None = None,
) -> Comparison:
    """Run two models or modules on the same inputs, of one run or of several: how much B's outputs differ from A's.

    With `layers`, every layer that both have is compared as well. `engine` runs B: `iree` as native code. Raises CompileError,
    located, for inputs that do not fit, and without a common output.
    """
    from ..runtime.comparison import compare as compared

    first, second = (m if isinstance(m, ModuleOp) else load(m, _session(session, None)).module for m in (a, b))
    runs = [inputs] if isinstance(inputs, Mapping) else inputs
    native = _session(session, None)
    engine_of = native.engines[engine_named(engine)]
    return compared(
        first, second, runs, layers=layers, engine=lambda module, watched: engine_of(module, native, watched)
    )


def bisect(
    a: ModuleOp | PathLike,
    b: ModuleOp | PathLike,
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]],
    *,
    engine: str = "numpy",
    session: Session | None = None,
) -> Bisection:
    """Find the first layer where two models or modules part, as `amct bisect` does: `result.first`, None if there is none.

    Every layer of B is computed from the values of A, on the inputs of one run or of several, and compared with what its
    operations explain (docs/checking.md). `engine` runs A: `iree` as native code. Raises CompileError, located, for inputs
    that do not fit, and for models that have nothing in common.
    """
    from ..examine.checking.bisection import bisect as bisected

    first, second = (m if isinstance(m, ModuleOp) else load(m, _session(session, None)).module for m in (a, b))
    runs = [inputs] if isinstance(inputs, Mapping) else inputs
    if engine_named(engine) == "numpy":
        return bisected(first, second, runs)
    from ..examine.checking.native import NativeGraph

    native = _session(session, None)
    return bisected(first, second, runs, lambda module: NativeGraph(module, native, native.engines[engine]))


def reduce(model: Any, still_fails: Callable[[Any], bool], *, seconds: float = SECONDS) -> Any:
    """The smallest part of a model found that still fails: few operations, small sizes, plain weights.

    An ONNX model (a ModelProto, or the path of a file) gives a ModelProto; a module, and a file of any other format, gives a
    module. `still_fails` gets candidates of the same kind and must not change them; its exceptions end the reduction.
    After `seconds` the smallest so far is returned. Raises CompileError if the model itself does not fail.
    """
    from ..examine.reduction import Reducer
    from ..examine.reduction.candidates import form_of, read

    given = read(Path(cast(PathLike, model)), new_session()) if isinstance(model, str | os.PathLike) else model
    if not still_fails(given):
        raise CompileError("the model does not fail", hint="still_fails(model) is False: there is nothing to reduce")
    return Reducer(form_of(given), still_fails, seconds).run(given)


def _session(session: Session | None, profile: str | None) -> Session:
    """A session of its own for each use, with the profile if one is given. Raises CompileError for an unknown profile."""
    made = new_session() if session is None else session.clone()
    if profile is not None:
        made.profile = made.profiles[profile].name
    return made


def _text(data: PathLike | None) -> str | None:
    return None if data is None else os.fspath(data)


def _labels(labels: str | Array | None) -> str | Labels | None:
    from ..flows.evaluation import Labels

    return labels if labels is None or isinstance(labels, str) else Labels(np.asarray(labels))


def _metric(metric: Measure) -> Metric:
    from ..flows.evaluation import Metric

    code = getattr(metric, "__code__", None)
    return Metric(Path(getattr(code, "co_filename", "metric")), getattr(metric, "__name__", "metric"), metric)
