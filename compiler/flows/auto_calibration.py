"""AMCT's accuracy-based automatic calibration: quantize as many layers as the metric of an evaluator allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp

from ..configuration.files import read_settings
from ..configuration.json_config import json_text
from ..configuration.layer_settings import uniform, with_levels
from ..configuration.settings import Nuq
from ..data import Samples, calibration_runs, load_evaluator
from ..lowering.ascend.profiles import like_amct
from ..pipelines.passes import run_passes
from ..session import Session
from ..support.diagnostics import CompileError
from ..transforms.canonicalization import SIMPLIFY
from ..transforms.quantization.data import Split
from ..transforms.quantization.decide.layers import resolve
from ..transforms.quantization.decide.non_uniform_layers import levels_by_layer, weights_by_layer, with_named_levels
from ..transforms.quantization.options import AUTOMATIC, QuantizeOptions
from ..transforms.quantization.recover.sensitivity import sensitivities
from ..transforms.quantization.request import Request, request_of, settings_of
from .calibration import BATCH_NUM, calibration_options, check_wanted
from .evaluation import Evaluator
from .network import Network, read_model
from .saving import files_of
from .summary import finite

Rank = Callable[[ModuleOp, ModuleOp, Samples, Session], dict[str, float]]
"""Gives each quantized layer of two modules, float and quantized, a number: the smaller, the more it costs; sorted by it."""


@dataclass(frozen=True)
class FallbackTrial:
    """A quantization that was tried: its layers, and the evaluator's verdict.

    The layers are those left in float or, for `auto_nuq`, those whose weights have few levels.
    """

    layers: tuple[str, ...]
    metric: Any
    ok: bool
    loss: Any


class Accepted(NamedTuple):
    """A trial that the evaluator accepted, how it was quantized, and its module."""

    trial: FallbackTrial
    request: Request
    module: ModuleOp


class Strategy(NamedTuple):
    """A way to search: the name of its files, its term for a trial's layers, and the search.

    The search takes a `FallbackSearch` whose float model is accepted, and leaves its result in `accepted`.
    """

    name: str
    layers: str
    run: Callable[[FallbackSearch], None]


@dataclass(frozen=True)
class AutoCalibrated:
    """The result of a search: the float model's metric, the layers in the order in which they are tried, all trials,
    and the chosen one.

    `ranking` has sensitivities, the worst first or, for `auto_nuq`, the sizes of weights, the heaviest first.
    """

    original: Any
    ranking: Mapping[str, float]
    trials: tuple[FallbackTrial, ...]
    chosen: FallbackTrial
    files: tuple[Path, ...]

    def data(self) -> dict[str, Any]:
        """Everything but the files as plain data for JSON."""
        found = asdict(replace(self, files=(), ranking=finite(self.ranking)))
        del found["files"]
        return cast("dict[str, Any]", json.loads(_json(found)))


def auto_calibrate_file(
    model: Path,
    save_path: str,
    evaluator: Path,
    session: Session,
    config: str | None = None,
    batch_num: int | None = None,
    load: Callable[[Path], Any] = load_evaluator,
    strategy: Strategy | None = None,
    rank: Rank = sensitivities,
    framework: str | None = None,
) -> AutoCalibrated:
    """Quantize `model`, leaving the fewest of the most sensitive layers in float that the evaluator's `metric_eval` accepts.

    Writes AMCT's files for the model, and next to them the configuration, the ranking and the record of the search; all or none.
    `strategy` replaces the way to search (`FEW_LEVELS`); `load` gives the evaluator of the file `evaluator`,
    in which errors of its methods are located; `rank` gives the order in which layers are tried; the files are those of
    `framework`, by default the one of the model's file. Raises CompileError, located,
    for anything that cannot be done, also where no layer can be quantized as wanted.
    """
    files = files_of(model, save_path, framework)
    strategy = strategy or LEAST_IN_FLOAT
    parts = ("final_config", "ranking_information", "record")
    about = {part: files.folder / f"{strategy.name}_{part}.json" for part in parts}
    module = read_model(model, session, [*files.paths(), *about.values()], [evaluator, config])
    like_amct(module, session)
    run_passes(module, SIMPLIFY, session)
    options = calibration_options(None if config is None else read_settings(Path(config)))
    runs, judge = batch_num or settings_of(options.settings).batch_num or BATCH_NUM, load(evaluator)
    samples = calibration_runs(judge, evaluator, module, runs)
    split = Split(samples, samples, False, runs)
    network = Network.of(model, module, request_of(options, session), split, AUTOMATIC, session)
    search = FallbackSearch(network, Evaluator(evaluator, judge), options, rank)
    check_wanted(network.asking(search.request(())), files)
    chosen, request, final = search.run(strategy)
    layers = resolve(request.settings, module, request.profile)
    trials = [{strategy.layers if key == "layers" else key: v for key, v in asdict(t).items()} for t in search.trials]
    texts = {
        "final_config": json_text(
            with_named_levels(layers, session), [each.layer for each in layers.able], files.framework
        ),
        "ranking_information": _json(finite(search.ranking)),
        "record": _json({"original": search.original, "trials": trials}),
    }
    written = files.write(final, session, {about[part].name: text for part, text in texts.items()})
    return AutoCalibrated(search.original, search.ranking, tuple(search.trials), chosen, written)


def _json(value: object) -> str:
    """The evaluator defines its metrics: values that JSON cannot represent become text."""
    return f"{json.dumps(value, indent=4, ensure_ascii=False, default=_plain)}\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@dataclass
class FallbackSearch:
    """A search with one simplified network and one evaluator, and what is known so far."""

    network: Network
    evaluator: Evaluator
    options: QuantizeOptions
    rank: Rank
    original: Any = None
    ranking: dict[str, float] = field(default_factory=dict[str, float])
    trials: list[FallbackTrial] = field(default_factory=list[FallbackTrial])
    accepted: Accepted | None = None
    """The last accepted trial."""

    def run(self, strategy: Strategy) -> Accepted:
        """Search, and return the chosen layers. Raises CompileError if the float model, or every quantization, is refused."""
        self.original, where = self.evaluator.measure(self.network.module), str(self.evaluator.path)
        if not self.evaluator.judge(self.original, self.original)[0]:
            raise CompileError("metric_eval refuses the original model's own metric", where=where)
        strategy.run(self)
        if self.accepted is None:
            raise CompileError("metric_eval refuses every quantization: nothing is written", where=where)
        return self.accepted

    def fused(self, request: Request) -> Network:
        """A copy of the network with its fusions, in a session of its own."""
        return replace(self.network, session=self.network.session.clone(), request=request).fused()

    def quantized(self, request: Request) -> ModuleOp:
        """A quantized copy of the module, calibrated from scratch."""
        fused = self.fused(request)
        self.network.session.skip_fusion = fused.session.skip_fusion
        return fused.quantized().module

    def request(self, disabled: tuple[str, ...]) -> Request:
        """A request to quantize everything except these layers."""
        settings = replace(self.options.settings, skip_layers=disabled)
        return request_of(replace(self.options, settings=settings), self.network.session)

    def accepts(self, layers: tuple[str, ...], request: Request, module: ModuleOp | None = None) -> bool:
        """Whether the evaluator accepts a quantization; its module may be passed if it exists already. The trial is kept."""
        module = self.quantized(request) if module is None else module
        metric = self.evaluator.measure(module)
        trial = FallbackTrial(layers, metric, *self.evaluator.judge(self.original, metric))
        self.trials.append(trial)
        if trial.ok:
            self.accepted = Accepted(trial, request, module)
        return trial.ok


def _least_in_float(search: FallbackSearch) -> None:
    """Quantize everything or, if that is refused, leave as few as possible of the most sensitive layers in float."""
    everything = search.request(())
    whole = search.quantized(everything)
    network = search.network
    search.ranking = search.rank(search.fused(everything).module, whole, network.samples.held, network.session)
    if search.accepts((), everything, whole):
        return
    worst_first = tuple(search.ranking)
    fewest(len(worst_first), lambda n: search.accepts(worst_first[:n], search.request(worst_first[:n])))


LEAST_IN_FLOAT = Strategy("accuracy_based_auto_calibration", "disabled", _least_in_float)


def fewest(count: int, accepts: Callable[[int], bool]) -> int | None:
    """The least number of `count` layers that have to stay in floats: by bisection, the last number that was accepted;
    None if there was none.

    Assumes that acceptance grows with the number. Never tries all of them: nothing would be quantized then.
    """
    low, high, found = 0, count - 1, None
    while low <= high and (middle := (low + high) // 2) < count - 1:
        if accepts(middle + 1):
            found, high = middle + 1, middle - 1
        else:
            low = middle + 1
    return found


def _most_of_few_levels(search: FallbackSearch) -> None:
    """Quantize uniformly first, then give few levels to all candidates or, if refused, to as many of the heaviest as accepted.

    Candidates are the layers whose weights the configuration gives few levels; if it names none, all that may have them.
    Raises CompileError for a model without any, and if the uniformly quantized model is refused.
    """
    asked = search.request(())
    module = search.fused(asked).module
    layers = resolve(asked.settings, module, asked.profile)
    settings = layers.settings
    wanted = levels_by_layer(layers, search.network.session)
    layers = replace(layers, settings=uniform(settings))
    sizes = weights_by_layer(layers)
    heaviest_first = tuple(name for name in sizes if name in (wanted or sizes))
    if not heaviest_first:
        raise CompileError(
            "holds no layer whose weights may have few levels", where=settings.where or str(search.evaluator.path)
        )
    search.ranking = {name: sizes[name] for name in heaviest_first}
    able = [each.layer for each in layers.able]

    def accepts(heavy: tuple[str, ...]) -> bool:
        levels: Mapping[str, Nuq] = {name: wanted.get(name, Nuq()) for name in heavy}
        return search.accepts(heavy, replace(asked, settings=with_levels(layers.settings, able, levels)))

    if not accepts(()):
        hint = "accuracy_based_auto_calibration leaves layers in float"
        raise CompileError(
            "metric_eval refuses the uniformly quantized model", where=str(search.evaluator.path), hint=hint
        )
    if not accepts(heaviest_first):
        count = len(heaviest_first)
        fewest(count, lambda lightest: accepts(heaviest_first[: count - lightest]))


FEW_LEVELS = Strategy("auto_nuq", "few_levels", _most_of_few_levels)
