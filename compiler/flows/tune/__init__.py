"""`amct tune`: searches for options of `amct quantize` that reach a goal; the best model so far is always on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...frontends.folders import model_in
from ...ir.metadata import tool_version
from ...session import Session
from ...support.files import alone, made
from ...support.tables import Table, Tabled, numbered, some
from ...targets.onnx import OnnxTarget
from ...transforms.quantization.calibrate.observing import in_batches
from ...transforms.quantization.data import available
from ...transforms.quantization.options import AUTOMATIC, DataOptions, EngineOptions, QuantizeOptions
from ...transforms.quantization.request import wanted_of
from ...transforms.quantization.running import runner_of
from ..float_regions import layers_to_return
from ..mending import splits
from ..network import files_read, read_network
from ..saving import outputs_of
from ..sensitivity import measure_of, spread_of
from ..significance import Share
from ..summary import between, finite, measured_on
from .budget import UNLIMITED, Budget, work_of
from .goal import TOP1, Goal
from .network import TrialNetwork, merged
from .search import TuneSearch, ranked_recipe
from .trials import Trials, TuneTrial, name_of
from .widths import LayerWidth, layer_widths

MODEL, LOG = "tune.onnx", "tune.json"
"""The model of the best trial, until all files of a result are written, and the list of all trials."""
LOCK = ".amct-tune"
"""The file in the output folder that keeps a second search out of it."""


@dataclass(frozen=True, repr=False)
class Tuned(Tabled):
    """The result of tuning: all trials in order, the best of them, and how they were measured."""

    trials: Sequence[TuneTrial]
    best: TuneTrial
    measure: str
    original: float | None
    """The quality of the float network, if that says anything."""
    samples: int
    held_back: bool
    spread: tuple[float, float] | None
    """The least and the largest SQNR in dB of the best trial in single runs; None for another goal."""
    few: int | None
    """The number of samples that are held back, if these are so few that others choose."""
    resumed: int
    """The number of trials taken from an earlier run."""
    returned: tuple[str, ...] = ()
    """The layers that are in float in every trial, because the file would be slower than float otherwise."""
    float_bytes: int = 0
    """The size of the float network's arrays in an ONNX file."""
    widths: Sequence[LayerWidth] = ()
    """The widths of layers in the best trial, the most expensive layer by itself first; empty if no width was chosen."""

    def __repr__(self) -> str:
        return (
            f"Tuned({len(self.trials)} trials, the best {self.best.result} with {self.best.quality:.2f} {self.measure})"
        )

    def tables(self) -> Sequence[Table]:
        """The trials, and how they were measured."""
        titles = (
            "options",
            "in float",
            "widths",
            self.measure,
            "result",
            "kB",
            "read kB",
            "float MACs",
            "int8 layers",
            "ms",
            "seconds",
            "",
        )
        rows = [(*trial.cells, "best" if trial is self.best else "") for trial in self.trials]
        size = f"{self.best.costs.bytes / 1000:,.1f} kB in the best trial, {self.float_bytes / 1000:,.1f} in float"
        measured = measured_on(self.samples, self.held_back)
        if self.few is not None:
            few = f"{numbered(self.few, 'sample')} held back would be too few"
            measured = f"{numbered(self.samples, 'sample')}, each judging trials that others calibrate: {few}"
        overview = [("arrays of the file", size), ("measured on", measured)]
        if self.spread is not None:
            overview.append(("best trial", f"{self.best.quality:.2f} dB: {between(self.spread)} in single runs"))
        if self.original is not None:
            overview.insert(0, ("float model", f"{self.original:.2f} {self.measure}"))
        if self.measure == TOP1:
            right = Share(round(self.best.quality * self.samples / 100), self.samples)
            overview.append(("best trial", f"{right.right} of {right.count} right; 95 % interval {right.cells[1]} %"))
        if self.returned:
            overview.append(("in float for speed", some(self.returned)))
        if self.resumed:
            overview.append(("trials of an earlier run", str(self.resumed)))
        note = (
            "widths: how many layers have other bits of weights (W) and activations (A) than given; kB: arrays of the file; "
            "read kB: weights and inputs of layers, float MACs: products in float, both for one sample; int8 layers: how many "
            "layers; ms: a run in onnxruntime, for a budget of time"
        )
        tables = [Table("trials", titles, rows, note), Table("search", (), overview)]
        if not self.widths:
            return tables
        note = "noise: what the layer alone costs at the outputs, of what all cost as given"
        titles = "layer", "weight bits", "activation bits", "noise as given", "noise"
        return [*tables, Table("widths", titles, [each.cells for each in self.widths], note)]

    def data(self) -> dict[str, Any]:
        """The search as plain data for JSON; `best` is the place of the best trial."""
        return {
            "search": {
                "measure": self.measure,
                "original": self.original,
                "samples": self.samples,
                "held_back": self.held_back,
                "few": self.few,
                **finite({"spread": self.spread}),
                "resumed": self.resumed,
                "returned": list(self.returned),
                "best": self.trials.index(self.best),
                "reached": self.best.reached,
                "float_bytes": self.float_bytes,
                "widths": [finite(asdict(each)) for each in self.widths],
                "trials": [finite(asdict(trial)) for trial in self.trials],
            }
        }


def tune_file(
    model: Path,
    options: QuantizeOptions,
    data: DataOptions,
    folder: Path,
    session: Session,
    goal: Goal,
    running: EngineOptions = AUTOMATIC,
    test: DataOptions | None = None,
    budget: Budget = UNLIMITED,
    rank_by: str = "sqnr",
    faster_than_float: bool = False,
) -> Tuned:
    """Search for the smallest change of options that reaches the goal, then for the fewest bits of layers that reach it.

    `options` apply to all trials; with a `budget`, layers get the widths that cost least within it. `test` is for measuring; by
    default the samples of `data` that `amct quantize` holds back or, for a goal of SQNR, others if these are too few (`splits`).
    `rank_by` is one of `MEASURES`. With `faster_than_float`, the layers that `layers_to_return` finds are in float in all trials.
    `tune.json` in `folder` lists all trials, and an interrupted run resumes from it; the model of the best one is `tune.onnx`.
    Raises CompileError, located, for anything that cannot be done.
    """
    outputs = outputs_of(model, folder)
    model = model_in(model)
    onnx, own = OnnxTarget(), (folder / MODEL, folder / LOG)
    given = [*options.settings.files(), *data.files(), *goal.files(), *(test.files() if test else ())]
    network = read_network(model, wanted_of(options), data, running, session, [*outputs.values(), *own], given)
    read = {*files_read(model, network.original, session), *given}
    network.request.check_by_layer()
    if test is not None:
        held = available(test, network.original, session)
        network = replace(network, samples=network.samples._replace(held=held, apart=True))
    samples = network.samples
    goal = goal.of(samples.held, session)
    folds = (splits(samples) if goal.sqnr is not None and test is None else []) or [samples]
    network = network.fused()
    whole, returned = network.module, tuple[str, ...]()
    if faster_than_float:
        returned = tuple(each.layer for each in layers_to_return(network, onnx))
        options = merged(options, {"skip_layers": returned})
    reading = session.profile, session.rules, sorted(session.skip_fusion), repr(session.imports), tool_version()
    known = data, test, options, goal.key(), budget, rank_by, reading
    with made(folder), alone(folder / LOCK):
        measuring = [in_batches(whole, [], each.held) for each in folds]
        judge = goal.judge(whole, measuring, session, runner_of(running))
        work, rank = work_of(whole, measuring[0], session), measure_of(rank_by, measuring[0])
        timed = None if budget.ms is None else next(iter(samples.held.batches()))
        networks = [replace(network, samples=each) for each in folds]
        trials = TrialNetwork(networks, options, measuring[0], rank, work, timed)
        results = Trials(*own, _digest(read, repr(known)), judge.original)
        results.resume()
        resumed = len(results.trials)
        TuneSearch(trials, judge, budget, results).run()
    best, size = results.best, onnx.stored_bytes(whole, session.silent())
    first = next(iter(results.programs.values()), None)  # by it widths were chosen before other options were tried
    program = results.programs.get(name_of(ranked_recipe(best.recipe)), first)
    widths = () if program is None else layer_widths(program, best.changes)
    judged = sum(each.held.count for each in folds), folds[0].apart
    spread = None if results.errors is None else spread_of(results.errors)
    few = None if folds[0] is samples else samples.held.count if samples.apart else 0
    found = tuple(results.trials), best, judge.measure, judge.original
    return Tuned(*found, *judged, spread, few, resumed, returned, size, widths)


def finish(folder: Path) -> None:
    """Remove the model of a search: the files of its result are written."""
    for path in OnnxTarget().files(folder / MODEL):
        path.unlink(missing_ok=True)


def _digest(files: set[Path], known: str) -> str:
    """A hash of everything that a search depends on; files count by path, size and modification time."""
    states = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in sorted(files) if f.exists()]
    return hashlib.sha256(repr((states, known)).encode()).hexdigest()
