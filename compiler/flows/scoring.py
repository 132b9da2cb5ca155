"""`amct evaluate`: scores of models side by side, on the same samples in the same order."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..diagnostics import CompileError, first_line
from ..ir.functions import main_function
from ..ir.verification import verify
from ..runtime.data import ImageRows, Samples, input_types
from ..runtime.data.samples import samples_of
from ..runtime.executor import Array, Executable
from ..runtime.inputs import Runnable
from ..session import Session
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data_options import DataOptions
from .evaluation import Labels, Metric, Ranking, measured_by, ranks
from .labels import load_labels
from .peer import open_session
from .plausibility import warn_of_data
from .significance import Pair, Share

Engine = Literal["interpreter", "onnxruntime", "iree"]
TOP = 5
"""The second count of classes, beside 1."""


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
        """None for so few classes that it says nothing."""
        return None if self.ranking is None or self.ranking.classes <= TOP else self.ranking.top(TOP)


@dataclass(frozen=True)
class Scores:
    """All models in order, and McNemar's test between each two of them if there are labels."""

    models: Sequence[Scored]
    samples: int
    source: str
    """The labels or the function that judged."""

    def pairs(self) -> dict[tuple[int, int], Pair]:
        """By the positions of the two models."""
        right = [each.ranking.right for each in self.models if each.ranking is not None]
        return {(i, j): Pair.of(right[i], right[j]) for i, j in combinations(range(len(right)), 2)}


def evaluate_files(
    models: Sequence[Path],
    data: DataOptions,
    new_session: Callable[[int], Session],
    labels: str | Labels | None = None,
    metric: Metric | None = None,
    engine: Engine = "interpreter",
) -> Scores:
    """Score every model on all samples, by labels (text as `load_labels` reads it) or by a function.

    `new_session` gives the session in which each model is read. onnxruntime runs ONNX files, and the interpreter
    all others then; IREE runs every model.
    Data is read once, and images once for each model, in the form of its input. Raises CompileError, located in the model.
    """
    scored: list[Scored] = []
    first: Samples | None = None
    judged: Labels | None = None
    for i, path in enumerate(models):
        session = new_session(i)
        module = frontends.read(path, session)
        verify(module)
        with _about(path):
            samples = None if data.data is None else in_batches(module, [], _samples(data, first, module, session))
            if first is None and samples is not None:
                first = samples
                warn_of_data(module, samples, session)
            if labels is not None and samples is not None:
                judged = judged or (load_labels(labels, samples) if isinstance(labels, str) else labels.of(samples))
            start = time.monotonic()
            name, run = _runnable(engine, path, module, session)
            ranking = None if judged is None or samples is None else ranks(run, samples, judged, session)
            value = None
            if metric is not None:
                found = measured_by(metric.function, module, metric.path, samples=samples, run=run.run)
                value = metric.number(found)
            scored.append(Scored(path, name, time.monotonic() - start, ranking, value))
    count = len(judged.classes) if judged is not None else 0 if first is None else first.count
    by = labels.source if isinstance(labels, Labels) else labels
    source = by or (f"{metric.path}:{metric.name}" if metric is not None else "")
    return Scores(scored, count, source)


def _runnable(engine: Engine, path: Path, module: ModuleOp, session: Session) -> tuple[Engine, Runnable]:
    """What runs a model, and its name."""
    if engine == "onnxruntime" and path.suffix.lower() == ".onnx":
        return engine, _OnnxRuntime(path)
    if engine != "iree":
        return "interpreter", Executable(module)
    from ..backends.iree import IreeModule

    return engine, IreeModule(module, session)


def _samples(data: DataOptions, first: Samples | None, module: ModuleOp, session: Session) -> Samples:
    """The samples that the first model has, in the form of this one's inputs."""
    if first is None or any(isinstance(rows, ImageRows) for rows in first.rows.values()):
        return data.load(module, session)
    return replace(samples_of(first.rows, input_types(main_function(module)), first.source), count=first.count)


@contextmanager
def _about(path: Path) -> Generator[None]:
    """Locates errors in a model, before the place that they have."""
    try:
        yield
    except CompileError as e:
        where = e.where if e.where.startswith(str(path)) else ": ".join(filter(None, (str(path), e.where)))
        raise CompileError(e.message, where=where, hint=e.hint) from None


class _OnnxRuntime:
    """An ONNX file in onnxruntime, with its default options."""

    def __init__(self, path: Path):
        """Raises CompileError if onnxruntime is not installed, or does not take the file."""
        try:
            onnxruntime: Any = import_module("onnxruntime")
        except ImportError:
            hint = "pip install 'amct-opt[onnxruntime]'"
            raise CompileError("--engine onnxruntime requires onnxruntime", hint=hint) from None
        try:
            self._session: Any = open_session(onnxruntime, path)
        except Exception as e:  # onnxruntime's have no other base
            message = f"onnxruntime does not take the file: {first_line(str(e))}"
            raise CompileError(message, hint="--engine interpreter runs it") from None
        self._outputs: list[str] = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises CompileError if onnxruntime cannot run it."""
        try:
            found: list[Array] = self._session.run(self._outputs, dict(inputs))
        except Exception as e:  # onnxruntime's have no other base
            raise CompileError(f"onnxruntime does not run the file: {first_line(str(e))}") from None
        return dict(zip(self._outputs, found, strict=True))
