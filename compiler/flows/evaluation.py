"""Scores of models on data: how often the label's class ranks first, or the measure of a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..data import FloatModel, Samples, Spool, takes_whole_inputs
from ..data.evaluator import Run
from ..data.inputs import Runnable
from ..data.script import load_script, running
from ..engines.threads import OrderedBatches, Turn, threads_here
from ..ir.functions import main_function
from ..runtime.executor import Array
from ..session import Session
from ..support.diagnostics import CompileError
from .significance import Share

_BY_FUNCTION = "write a function that measures it: --evaluator FILE.py:FUNCTION"


@dataclass(frozen=True)
class Labels:
    """The class of each sample, and where the labels come from."""

    classes: Array
    """int [samples]"""
    source: str = "labels"
    folders: int | None = None
    """The number of class folders, if the labels are these."""
    first: int = 0
    """The number of the first label, for messages."""

    def __post_init__(self) -> None:
        """Raises CompileError, located, for anything that is not a list of integers."""
        if self.classes.ndim != 1 or not np.issubdtype(self.classes.dtype, np.integer):
            given = f"{self.classes.dtype} {list(self.classes.shape)}"
            raise CompileError(f"labels must be integers, one per sample, not {given}", where=self.source)

    def of(self, samples: Samples) -> Labels:
        """The labels of a part of the samples. Raises CompileError if there are neither as many as these nor as all samples."""
        rows, given = rows_per_sample(samples), len(self.classes)
        first, last = rows * samples.first, rows * (samples.first + samples.count)
        total = rows * next(iter(samples.rows.values())).shape[0]
        if not rows or given == last - first:
            return self
        if given not in (last, total):
            some = f", or {last - first} for the samples that measure" if last - first != total else ""
            message = f"labels must be {total} integers, one per sample{some}, not {given}"
            raise CompileError(message, where=self.source)
        return replace(self, classes=self.classes[first:last])


def rows_per_sample(samples: Samples) -> int:
    """The rows of the first output for each sample: a sample may be a whole input. 0 if their number differs."""
    name, type_ = next(iter(samples.types.items()))
    rows = samples.rows[name]
    size = rows.shape[1] if takes_whole_inputs(rows, type_) and len(rows.shape) > 1 else 1
    return max(size, 0)


@dataclass(frozen=True)
class Ranking:
    """int [labels]: the number of classes that rank before the label's, of `classes`."""

    ranks: Array
    classes: int

    @property
    def right(self) -> Array:
        """bool [labels]: whether the label ranks first."""
        return self.ranks == 0

    def top(self, count: int) -> Share:
        """The labels that are among the first `count` classes."""
        return Share.of(self.ranks < count)


def ranks(model: Runnable, samples: Samples, labels: Labels, session: Session, threads: int | None = None) -> Ranking:
    """The ranks of labels in the model's first output, by default with a thread per core.

    If values are equal, the first of them ranks first. A row with NaN ranks its label last. Raises CompileError, located, for
    an output that is not [samples, classes], and for labels that are not one of its classes.
    """
    found: list[Array] = []
    seen = width = 0

    def judge(batch: Mapping[str, Array], turn: Turn) -> None:
        nonlocal seen, width
        name, output = next(iter(model.run(batch).items()))
        with turn:
            seen += len(rows := _rows(name, output))
            width = int(rows.shape[1])
            found.append(_ranks(name, rows, labels, sum(map(len, found))))
            session.progress("measure", len(found), samples.runs)

    OrderedBatches(samples.batches()).run(judge, min(threads or threads_here(), samples.runs))
    if not 0 <= seen - len(labels.classes) < samples.batch_size:
        raise CompileError(f"{len(labels.classes)} labels for {seen} rows of the first output", where=labels.source)
    return Ranking(np.concatenate(found), width)


def _rows(name: str, output: Array) -> Array:
    """An output as [samples, classes]. Raises CompileError for an output with further sizes other than 1."""
    rows = output.reshape(output.shape[:2]) if output.ndim > 2 and output.size == np.prod(output.shape[:2]) else output
    if rows.ndim != 2:
        message = f"output '{name}' has shape {list(output.shape)}, not [samples, classes]"
        raise CompileError(message, hint=_BY_FUNCTION)
    return rows


def _ranks(name: str, rows: Array, labels: Labels, start: int) -> Array:
    """The ranks of the labels from `start` on in a run's output.

    A run may have more rows than labels: a last batch is filled up with earlier samples, which come first.
    """
    classes, width = labels.classes[start : start + len(rows)], int(rows.shape[1])
    if labels.folders not in (None, width):
        message = f"{labels.folders} class folders, but output '{name}' has {width} classes"
        hint = "list the classes in a table of path,label: --labels FILE.csv"
        raise CompileError(message, where=labels.source, hint=hint)
    if (wrong := np.flatnonzero((classes < 0) | (classes >= width))).size:
        sample = labels.first + start + wrong[0]
        message = f"sample {sample} has label {classes[wrong[0]]}, but output '{name}' has {width} classes"
        raise CompileError(message, where=labels.source, hint=f"labels are 0 to {width - 1}")
    rows = rows[len(rows) - len(classes) :]
    own: Array = np.take_along_axis(rows, classes[:, None], 1)
    earlier: Array = np.arange(width) < classes[:, None]
    before: Array = np.count_nonzero((rows > own) | ((rows == own) & earlier), axis=1)
    return np.where(np.isnan(rows).any(1), width, before)


def measured_by(function: Callable[[FloatModel], Any], module: ModuleOp, path: Path, **given: Any) -> Any:
    """Measures a module by a function of a Python file; `given` are further arguments of `FloatModel`.

    Raises CompileError, located in the file, if it raises.
    """
    with closing(Spool(main_function(module), str(path))) as spool, running(path):
        return function(FloatModel(module, spool, **given))


@dataclass(frozen=True)
class Evaluator:
    """AMCT's evaluator of a Python file: `evaluate(model)` measures, `metric_eval(original, metric)` judges."""

    path: Path
    evaluator: Any

    def __post_init__(self) -> None:
        """Raises CompileError, located in the file, if it lacks one of the two."""
        for method in ("evaluate", "metric_eval"):
            if not callable(getattr(self.evaluator, method, None)):
                raise CompileError(f"its evaluator has no method {method}", where=str(self.path))

    def measure(self, module: ModuleOp, samples: Samples | None = None, run: Run | None = None) -> Any:
        """The metric of a module, which `run` runs. Raises CompileError, located in the file, if it raises."""
        return measured_by(self.evaluator.evaluate, module, self.path, samples=samples, run=run)

    def judge(self, original: Any, metric: Any) -> tuple[bool, Any]:
        """Whether a metric is good enough compared with the original model's, and the loss. Raises CompileError, located."""
        with running(self.path):
            found: Any = self.evaluator.metric_eval(original, metric)
        match found:
            case (ok, loss):
                return bool(ok), loss
            case _:
                raise CompileError("metric_eval must return a pair of a truth value and a loss", where=str(self.path))

    def number(self, loss: Any) -> float:
        """A loss as a number. Raises CompileError, located, for anything else."""
        return _score(loss, "metric_eval", self.path)


@dataclass(frozen=True)
class Metric:
    """A function of a Python file that takes a model and returns a number; larger is better."""

    path: Path
    name: str
    function: Callable[[FloatModel], Any]

    @staticmethod
    def of(text: str) -> Metric:
        """The metric `FILE.py:FUNCTION`. The file is executed. Raises CompileError, located, without such a function."""
        file, _, name = text.rpartition(":")
        if not file.endswith(".py"):
            hint = "name a file and a function: metric.py:accuracy"
            raise CompileError(f"'{text}' is not a function", hint=hint, option="evaluator")
        if not callable(function := load_script(Path(file)).get(name)):
            raise CompileError(f"defines no function '{name}'", where=file)
        return Metric(Path(file), name, function)

    def measure(self, module: ModuleOp, samples: Samples, run: Run | None = None) -> float:
        """The number of a module, which `run` runs. Raises CompileError, located, if the function raises or returns none."""
        return self.number(measured_by(self.function, module, self.path, samples=samples, run=run))

    def number(self, found: Any) -> float:
        """The function's result as a number. Raises CompileError, located, for anything else."""
        return _score(found, self.name, self.path)


def _score(found: Any, function: str, path: Path) -> float:
    try:
        return float(found)
    except (TypeError, ValueError, OverflowError):
        kind = "an integer beyond floats" if isinstance(found, int) else type(found).__name__
        message = f"'{function}' returns {kind}, not a number"
        raise CompileError(message, where=str(path)) from None
