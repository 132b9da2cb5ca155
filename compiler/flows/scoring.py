"""`amct evaluate`: scores of models side by side, on the same samples in the same order."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..data import ImageRows, Samples, input_types
from ..data.samples import samples_of
from ..engines import HERE, Runner
from ..frontends.folders import model_in
from ..ir.functions import main_function
from ..ir.verification import verify
from ..runtime.boundary import boundary_of
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.tables import Table, Tabled
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data import load
from ..transforms.quantization.options import DataOptions
from .evaluation import Labels, Metric, Ranking, measured_by, ranks
from .labels import load_labels
from .plausibility import warn_of_data
from .runnable import InReals, default_engine, named_engine, runnable
from .shared_ranks import shared_ranks
from .significance import EXPLAINED, Pair, Share

TOP = 5
"""The number of classes in the second score, besides top-1."""


@dataclass(frozen=True)
class Scored:
    """A model's scores: `ranking` by labels, or `metric` by a function."""

    model: Path
    engine: str
    seconds: float
    ranking: Ranking | None = None
    metric: float | None = None

    @property
    def top1(self) -> Share | None:
        return None if self.ranking is None else self.ranking.top(1)

    @property
    def top5(self) -> Share | None:
        """The share of samples whose label is among the first five; None for so few classes that it says nothing."""
        return None if self.ranking is None or self.ranking.classes <= TOP else self.ranking.top(TOP)


@dataclass(frozen=True, repr=False)
class Scores(Tabled):
    """The scores of all models in order, and McNemar's test between each two of them if there are labels."""

    models: Sequence[Scored]
    samples: int
    source: str
    """The labels or the function that judged."""

    def pairs(self) -> dict[tuple[int, int], Pair]:
        """The pairs of models, by the positions of the two."""
        right = [each.ranking.right for each in self.models if each.ranking is not None]
        return {(i, j): Pair.of(right[i], right[j]) for i, j in combinations(range(len(right)), 2)}

    def __repr__(self) -> str:
        scores = (f"{x.model.name} {f'{x.metric:.6g}' if x.top1 is None else x.top1}" for x in self.models)
        return f"Scores({', '.join(scores)}, on {self.samples} samples)"

    def tables(self) -> Sequence[Table]:
        """One table with a row for each model."""
        if self.models[0].ranking is None:
            rows = [(str(x.model), x.engine, f"{x.metric:.6g}", f"{x.seconds:.1f}") for x in self.models]
            return [Table(f"by {self.source}", ("model", "engine", "result", "seconds"), rows)]
        shares = (*(("top-1 %", "95 % interval")), *(("top-5 %", "95 % interval") if self.models[0].top5 else ()))
        pairs, rows = self.pairs(), list[tuple[str, ...]]()
        for i, each in enumerate(self.models):
            counted = [cell for share in (each.top1, each.top5) if share is not None for cell in share.cells]
            rows.append((str(each.model), each.engine, *counted, *(pairs[0, i].cells if i else ("", "", ""))))
        headers = ("model", "engine", *shares, "only first", "only this", "p")
        note = EXPLAINED.format(first="first") if len(rows) > 1 else ""
        return [Table(f"{self.samples} samples, labels from {self.source}", headers, rows, note)]


def evaluate_files(
    models: Sequence[Path],
    data: DataOptions,
    new_session: Callable[[int], Session],
    labels: str | Labels | None = None,
    metric: Metric | None = None,
    engine: str | None = None,
    runner: Runner = HERE,
) -> Scores:
    """Score every model on all samples, by labels (text as `load_labels` reads it) or by a function.

    `new_session` gives the session in which each model is read. onnxruntime, the default where it is installed, runs ONNX files,
    and the interpreter all others then; the engines of the session run every model. The cluster of `runner` shares the samples.
    Data is read once, and images once for each model, in the form of its input; inputs of integers with a scale, where the first
    model has floats, take the same data. Raises CompileError, located in the model.
    """
    if metric is not None and runner.cluster is not None:
        message = f"'{metric.name}' measures all samples at once, so that a cluster cannot share them"
        raise CompileError(message, where=str(metric.path), hint="leave out --cluster, or judge by --labels")
    engine = engine or default_engine(shared=runner.cluster is not None)
    scored: list[Scored] = []
    first: Samples | None = None
    floats: ModuleOp | None = None
    judged: Labels | None = None
    for i, path in enumerate(map(model_in, models)):
        session = new_session(i)
        module = frontends.read(path, session)
        verify(module)
        floats = floats or module
        with _about(path):
            boundary = boundary_of(module, floats)
            given = floats if boundary.to_integers else module
            samples = None if data.data is None else in_batches(given, [], _samples(data, first, given, session))
            if first is None and samples is not None:
                first = samples
                warn_of_data(module, samples, session)
            if labels is not None and samples is not None:
                judged = judged or (load_labels(labels, samples) if isinstance(labels, str) else labels.of(samples))
            start = time.monotonic()
            ranking = value = None
            if judged is not None and samples is not None:
                if runner.cluster is None:
                    model = InReals(runnable(engine, path, module, session, runner.device), boundary)
                    ranking = ranks(model, samples, judged, session)
                else:
                    ranking = shared_ranks(
                        runner.cluster, engine, path, module, samples, judged, session, runner.checkpoint
                    )
            if metric is not None:
                run = InReals(runnable(engine, path, module, session, runner.device), boundary).run
                value = metric.number(measured_by(metric.function, given, metric.path, samples=samples, run=run))
            name = named_engine(engine, path)
            scored.append(Scored(path, name, time.monotonic() - start, ranking, value))
    count = len(judged.classes) if judged is not None else 0 if first is None else first.count
    by = labels.source if isinstance(labels, Labels) else labels
    source = by or (f"{metric.path}:{metric.name}" if metric is not None else "")
    return Scores(scored, count, source)


def _samples(data: DataOptions, first: Samples | None, module: ModuleOp, session: Session) -> Samples:
    """The samples that the first model has, in the form of this one's inputs."""
    if first is None or any(isinstance(rows, ImageRows) for rows in first.rows.values()):
        return load(data, module, session)
    return replace(samples_of(first.rows, input_types(main_function(module)), first.source), count=first.count)


@contextmanager
def _about(path: Path) -> Generator[None]:
    """Locates errors in a model, before the place that they have."""
    try:
        yield
    except CompileError as e:
        where = e.where if e.where.startswith(str(path)) else ": ".join(filter(None, (str(path), e.where)))
        raise CompileError(e.message, where=where, hint=e.hint) from None
