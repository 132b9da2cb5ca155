"""`amct tune`: searches for options of `amct quantize` that reach a goal; the best model so far is always on disk."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..diagnostics import CompileError
from ..files import made, replacing
from ..ir.metadata import tool_version
from ..lowering.ascend.fused import inline_fused
from ..pipelines.passes import run_on_verified
from ..runtime.data import Samples
from ..runtime.executor import Executable
from ..runtime.metrics import Differences
from ..session import Session
from ..targets.onnx import OnnxTarget
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data_options import AUTOMATIC, BackendOptions, DataOptions
from ..transforms.quantization.equalize import equalize
from ..transforms.quantization.output_sensitivity import exchanged
from ..transforms.quantization.quantize import Quantize
from ..transforms.quantization.request import QuantizeOptions, Request
from ..transforms.quantization.sensitivity import quantized_layers
from .auto_calibration import fewest
from .evaluation import Labels
from .model_file import files_read, read_model, simplify_and_fuse
from .quantization import outputs_of, split
from .summary import weight_bytes

Changes = Mapping[str, Any]
"""Fields of `QuantizeOptions`."""

STEPS: Sequence[Changes] = (
    {},
    {"round_weights": "mismatch"},
    {"equalize": True},
    {"correct_bias": True},
    {"observer": "octav"},
    {"observer": "ifmr"},
    {"observer": "percentile{percentile=0.99999}"},
    {"observer": "minmax"},
)
"""Steps tried before layers are left in float, the most promising first; each is added to the best options so far."""

RANKED = 32
"""The largest number of samples used to rank the layers."""


@dataclass(frozen=True)
class Goal:
    """The goal on the measuring samples: a smallest SQNR in dB or, with labels, a largest drop of top-1 in points."""

    sqnr: float | None = None
    drop: float | None = None
    labels: Labels | None = None
    """For all samples of the data or for the measuring ones. Without labels, the SQNR is measured."""


@dataclass(frozen=True)
class Trial:
    """One quantization that was measured."""

    changes: dict[str, Any]
    quality: float
    """SQNR in dB or, with labels, top-1 in percent."""
    reached: bool
    weight_bytes: int
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """All trials in order, the best of them, and how they were measured."""

    trials: Sequence[Trial]
    best: Trial
    measure: str
    original: float
    """The quality of the float network: infinite for an SQNR."""
    samples: int
    held_back: bool
    resumed: int
    """The number of trials taken from an earlier run."""


@dataclass
class _Search:
    """A fused network, and the results so far."""

    whole: ModuleOp
    options: QuantizeOptions
    calibration: DataOptions
    measuring: Samples
    goal: Goal
    session: Session
    running: BackendOptions
    onnx: Path
    log: Path
    key: str
    original: float = float("inf")
    trials: list[Trial] = field(default_factory=list[Trial])
    modules: dict[str, ModuleOp] = field(default_factory=dict[str, ModuleOp])
    """The module of the best trial, by its changes; no other module is kept."""

    @property
    def best(self) -> Trial:
        """The best trial; the first of equal ones, which changes less."""
        return max(
            self.trials, key=lambda each: (each.reached, -len(_floats(each)) if each.reached else 0, each.quality)
        )

    def attempt(self, changes: Changes) -> Trial:
        """Quantize and measure, or take the trial from an earlier run. If it is the best so far, its model is written."""
        name = _name(changes)
        if (known := next((t for t in self.trials if _name(t.changes) == name), None)) is not None:
            return known
        start = time.monotonic()
        module = self.quantized(changes)
        quality = self.quality(module)
        trial = Trial(
            dict(changes), quality, self.is_reached(quality), weight_bytes(module), round(time.monotonic() - start, 2)
        )
        self.trials.append(trial)
        if self.best is trial:
            self.modules = {name: module}
            OnnxTarget().write(module, self.onnx, self.session)
        with replacing(self.log) as stream:
            data = {"key": self.key, "original": _plain(self.original), "trials": [asdict(t) for t in self.trials]}
            stream.write(f"{json.dumps(data, indent=2)}\n".encode())
        return trial

    def request(self, changes: Changes) -> Request:
        """The request of a trial."""
        skipped = (*self.options.skip_layers, *changes.get("skip_layers", ()))
        return replace(self.options, **{**changes, "skip_layers": skipped}).request(self.session)

    def quantized(self, changes: Changes) -> ModuleOp:
        """A quantized copy of the network."""
        name, session = _name(changes), self.session.silent()
        if name in self.modules:
            return self.modules[name]
        module = self.whole.clone()
        request = self.request(changes)
        run_on_verified(module, [Quantize(request, self.calibration, self.running)], session)
        return module

    def quality(self, module: ModuleOp) -> float:
        """SQNR in dB against the float network, or top-1 in percent."""
        if self.goal.labels is not None:
            return self.goal.labels(module, self.measuring, self.session)
        executable, reference, total = Executable(module), Executable(self.whole), Differences()
        for i, batch in enumerate(self.measuring.batches()):
            outputs = executable.run(batch)
            for name, array in reference.run(batch).items():
                total.add(array, outputs[name])
            self.session.progress("measure", i + 1, self.measuring.runs)
        return -float("inf") if np.isnan(total.sqnr) else total.sqnr

    def is_reached(self, quality: float) -> bool:
        if self.goal.labels is not None:
            return self.goal.drop is not None and self.original - quality <= self.goal.drop
        return self.goal.sqnr is not None and quality >= self.goal.sqnr

    def costly_layers(self, changes: Changes) -> list[str]:
        """The quantized layers, sorted by how much their quantization alone costs at the outputs, the most costly first."""
        whole, quantized, request = self.whole.clone(), self.quantized(changes).clone(), self.request(changes)
        samples = partial(self.calibration.load, whole, self.session)
        equalize(whole, request, samples, self.session.silent(), self.running.runner())
        for module in (whole, quantized):
            inline_fused(module)
        layers = quantized_layers(quantized, self.session)
        samples = in_batches(whole, [], self.measuring.head(min(RANKED, self.measuring.count)))
        alone = exchanged(whole, quantized, layers, whole, samples, self.session, "rank layers")
        return sorted(alone, key=lambda name: alone[name].sqnr)


def tune_file(
    model: Path,
    options: QuantizeOptions,
    data: DataOptions,
    folder: Path,
    session: Session,
    goal: Goal,
    running: BackendOptions = AUTOMATIC,
    test: DataOptions | None = None,
) -> Tuned:
    """Search for the smallest change of options that reaches the goal, then for the fewest float layers that reach it.

    `options` apply to all trials. `test` is for measuring; by default the samples of `data` that `amct quantize` holds back.
    `tune.json` in `folder` lists all trials, and an interrupted run resumes from it; the model of the best one is
    `<stem>_qdq.onnx`. Raises CompileError, located, for anything that cannot be done.
    """
    onnx, log = outputs_of(model, folder)["onnx"], folder / "tune.json"
    whole = read_model(model, session, [onnx, log], [*options.files(), *data.files(), *(test.files() if test else ())])
    read = files_read(model, whole, session)
    request = options.request(session)
    batch_num = data.batch_num or request.settings.batch_num
    calibration, held, held_back = split(data, batch_num, whole, session)
    if test is not None:
        held, held_back = test.available(whole, session), True
    if goal.labels is not None:
        goal = replace(goal, labels=goal.labels.of(held))
    simplify_and_fuse(request, whole, session)
    key = _digest(read, [data, *filter(None, [test])], options, goal, session)
    calibrating = DataOptions(calibration, batch_num=batch_num)
    measuring = in_batches(whole, [], held)
    search = _Search(whole, options, calibrating, measuring, goal, session, running, onnx, log, key)
    with made(folder):
        search.trials = _earlier(log, key)
        resumed = len(search.trials)
        if goal.labels is not None:
            search.original = search.quality(whole)
        _run(search)
    measure = "SQNR dB" if goal.labels is None else "top-1 %"
    return Tuned(tuple(search.trials), search.best, measure, search.original, held.count, held_back, resumed)


def _run(search: _Search) -> None:
    """Try the steps until the goal is reached, then leave layers in float."""
    won: Changes = {}
    for step in STEPS:
        if any(getattr(search.options, name, None) for name in step):
            continue  # it is given for all trials
        try:
            trial = search.attempt({**won, **step})
        except CompileError as e:
            if not step:
                raise
            search.session.warn(f"{', '.join(step)} is not tried: {e.message}")
            continue
        if trial.reached:
            return
        if trial.quality >= search.attempt(won).quality:
            won = trial.changes
    costly = search.costly_layers(won)

    def reaches(count: int) -> bool:
        return search.attempt({**won, "skip_layers": tuple(costly[:count])}).reached

    fewest(len(costly), reaches)


def _floats(trial: Trial) -> Sequence[str]:
    return trial.changes.get("skip_layers", ())


def _name(changes: Changes) -> str:
    return json.dumps({key: changes[key] for key in sorted(changes)}, default=list)


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _digest(
    read: set[Path], data: Sequence[DataOptions], options: QuantizeOptions, goal: Goal, session: Session
) -> str:
    """A hash of everything that a search depends on; files count by path, size and modification time."""
    files = [
        (str(f), f.stat().st_size, f.stat().st_mtime_ns)
        for f in sorted((*read, *options.files(), *(f for each in data for f in each.files())))
        if f.exists()
    ]
    labels = None if goal.labels is None else goal.labels.classes.tolist()
    session_has = session.profile, sorted(session.skip_fusion), repr(session.imports), tool_version()
    known = (files, repr(data), repr(options), goal.sqnr, goal.drop, labels, session_has)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _earlier(log: Path, key: str) -> list[Trial]:
    """The trials of an earlier run of the same search."""
    try:
        found = json.loads(log.read_text("utf-8"))
        return [Trial(**each) for each in found["trials"]] if found["key"] == key else []
    except (OSError, ValueError, KeyError, TypeError):
        return []  # no earlier run, or a file of something else
