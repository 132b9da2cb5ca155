"""Goals of a search, and the judges of networks by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from xdsl.dialects.builtin import ModuleOp

from ...data import Samples
from ...engines import HERE, Runner
from ...runtime.executor import Executable
from ...runtime.metrics import Parts
from ...session import Session
from ..evaluation import Evaluator, Labels, Metric, ranks
from ..labels import load_labels
from ..runnable import as_file
from ..sensitivity import difference_by, difference_of, parts_of
from ..shared_ranks import shared_ranks

TOP1 = "top-1 %"
"""The measure of labels."""


@dataclass(frozen=True)
class Goal:
    """The goal on the measuring samples: one of a smallest SQNR in dB, a largest drop of a score, an evaluator's verdict."""

    sqnr: float | None = None
    drop: float | None = None
    """The largest loss of `score`: points of top-1, or units of the metric."""
    score: str | Labels | Metric | None = None
    """Labels may be given as text, as `load_labels` reads it."""
    evaluator: Evaluator | None = None

    def of(self, samples: Samples, session: Session) -> Goal:
        """The goal with the labels of the measuring samples. Raises CompileError, located, if they cannot be read or do not fit.

        Warns if they are too few to tell whether the goal is reached.
        """
        if self.score is None or isinstance(self.score, Metric):
            return self
        labels = load_labels(self.score, samples) if isinstance(self.score, str) else self.score.of(samples)
        if self.drop and (one := 100 / len(labels.classes)) > self.drop:
            few = f"one of the {len(labels.classes)} samples that measure is {one:.3g} points of top-1"
            session.warn(f"{few}: they cannot tell a drop of {self.drop:g} (give more with --test)")
        return replace(self, score=labels)

    def files(self) -> list[Path]:
        """The Python file that measures."""
        return [each.path for each in (self.score, self.evaluator) if isinstance(each, Metric | Evaluator)]

    def key(self) -> object:
        """Identifies what the goal depends on, besides files."""
        match self.score:
            case Labels() as labels:
                return self.drop, labels.classes.tolist()
            case Metric() as metric:
                return self.drop, metric.name
            case _:
                return self.sqnr

    def judge(self, whole: ModuleOp, folds: Sequence[Samples], session: Session, runner: Runner = HERE) -> Judge:
        """Measures the float network, if that is needed. SQNR is of all the samples, each of which judges the network that
        others calibrate; everything else is of one set. The cluster of `runner` shares the samples that labels judge. Raises
        CompileError, located, if it cannot be measured.
        """
        samples, *others = folds
        if self.sqnr is not None:
            return _BySqnr(whole, self.sqnr, folds, session, runner)
        assert not others, "labels and evaluators are for one set"
        if self.score is not None:
            assert self.drop is not None
            assert not isinstance(self.score, str), "`of` reads labels"
            if isinstance(self.score, Labels):
                measure, score = TOP1, partial(_top1, self.score, runner, session)
            else:
                measure, score = self.score.name, partial(_measured, self.score, session)
            return _ByScore(score, self.drop, samples, measure, score(whole, samples))
        assert self.evaluator is not None
        return _ByEvaluator(self.evaluator, samples, self.evaluator.measure(whole, samples), session)


def _top1(labels: Labels, runner: Runner, session: Session, module: ModuleOp, samples: Samples) -> float:
    """The share of samples whose label ranks first, in percent."""
    with as_file(module, session) as model:
        if runner.cluster is None or not isinstance(model, Executable):
            return ranks(model, samples, labels, session).top(1).percent
    return shared_ranks(runner.cluster, "numpy", Path(), module, samples, labels, session).top(1).percent


def _measured(metric: Metric, session: Session, module: ModuleOp, samples: Samples) -> float:
    """The value of the metric."""
    with as_file(module, session) as model:
        return metric.measure(module, samples, model.run)


class Verdict(NamedTuple):
    """The quality of a quantized network, the larger the better, whether it reaches the goal, and its errors for SQNR."""

    quality: float
    reached: bool
    errors: Parts | None = None


class Judge(Protocol):
    """Measures networks, as onnxruntime runs their ONNX files here."""

    @property
    def measure(self) -> str:
        """The name of the measure."""
        ...

    @property
    def original(self) -> float | None:
        """The quality of the float network, if that says anything."""
        ...

    def judge(self, modules: Sequence[ModuleOp]) -> Verdict:
        """Judges a network, quantized for each of the sets of samples. Raises CompileError, located."""
        ...


@dataclass(frozen=True)
class _BySqnr:
    reference: ModuleOp
    least: float
    folds: Sequence[Samples]
    session: Session
    runner: Runner
    measure: str = "SQNR dB"
    original: float | None = None

    def judge(self, modules: Sequence[ModuleOp]) -> Verdict:
        errors, *others = map(self._errors, modules, self.folds)
        for each in others:
            errors.merge(each)
        sqnr = errors.worst[1]
        return Verdict(sqnr, sqnr >= self.least, errors)

    def _errors(self, module: ModuleOp, samples: Samples) -> Parts:
        measure = parts_of(samples)
        with as_file(module, self.session) as model:
            if isinstance(model, Executable):
                return difference_by(self.runner, self.reference, module, samples, self.session, measure)
            return difference_of(Executable(self.reference), model, samples, self.session, measure)


@dataclass(frozen=True)
class _ByScore:
    score: Callable[[ModuleOp, Samples], float]
    drop: float
    samples: Samples
    measure: str
    original: float | None

    def judge(self, modules: Sequence[ModuleOp]) -> Verdict:
        quality = self.score(modules[0], self.samples)
        assert self.original is not None
        return Verdict(quality, self.original - quality <= self.drop)


@dataclass(frozen=True)
class _ByEvaluator:
    evaluator: Evaluator
    samples: Samples
    metric: object
    """The float network's."""
    session: Session
    measure: str = "- loss"
    original: float | None = None

    def judge(self, modules: Sequence[ModuleOp]) -> Verdict:
        (module,) = modules
        with as_file(module, self.session) as model:
            metric = self.evaluator.measure(module, self.samples, model.run)
        reached, loss = self.evaluator.judge(self.metric, metric)
        return Verdict(-self.evaluator.number(loss), reached)
