"""`--fit-ranges`: ranges of activations by the outputs of the layers that read them, instead of by their own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from .....data import Samples
from .....dialects.nn import ObserveOp, ParamsSource, QParamsAttr, RangeAttr
from .....engines import Runner
from .....pipelines.options import Parts
from .....rewriting import Remarks, layer_of
from .....runtime.executor import Executable, usual
from .....runtime.program import Program
from .....session import Session, session_of
from .....support.diagnostics import Gain
from ...data import load
from ...decide.sites import graph_points
from ...numbers.parameters import activation_params
from ...options import DataOptions, EngineOptions
from ...profiles import profile_of
from ...running import runner_of
from ..outputs import WORTH, Compared, Sqnr, compared, few, lost
from ..round_weights.folds import FEW, in_turns, measured_in_turns, measured_on, split
from ..round_weights.prefixes import points_of
from ..round_weights.sums import decibels
from .readers import Errors, Reader, Readers, UnknownError, kept_of
from .search import Range, least_error

_FROM_DATA = ParamsSource.DATA, ParamsSource.SYNTHETIC


@dataclass(frozen=True, init=False)
class FitRangesPass(Parts, ModulePass):
    """A search for the range of each quantized activation by the error of the outputs of all layers that read it, with their
    weights as quantized: it is kept if that is smaller on held-back samples. Runs after `--calibrate`, before `--round-weights`.
    """

    name = "fit-ranges"

    calibration: DataOptions
    running: EngineOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        fit_ranges(op, lambda: load(self.calibration, op, session), session, runner_of(self.running))


@dataclass(frozen=True, eq=False)
class _Shared:
    """Points that share their parameters, and the operations that read them."""

    points: Sequence[ObserveOp]
    readers: Sequence[Reader]
    given: Range
    """The observer's range."""
    given_params: QParamsAttr
    """The parameters, which were computed before the range was rounded to float32."""

    @property
    def around_zero(self) -> Range:
        """The observer's range, widened to contain 0."""
        low, high = self.given
        return min(low, 0.0), max(high, 0.0)

    @property
    def symmetric(self) -> bool:
        return self.points[0].symmetric is not None

    def params(self, ends: Range) -> QParamsAttr:
        """The parameters for a range."""
        return activation_params(*ends, self.points[0].bits.value.data, self.symmetric)

    def set(self, ends: Range) -> None:
        """Give all points a range."""
        for point in self.points:
            point.range, point.qparams = RangeAttr(ends), self.params(ends)

    def reset(self) -> None:
        """Give all points the observer's range."""
        for point in self.points:
            point.range, point.qparams = RangeAttr(self.given), self.given_params


def fit_ranges(module: ModuleOp, samples: Callable[[], Samples], session: Session, runner: Runner) -> None:
    """Change the ranges of points that were calibrated; points that share parameters share the new ones. All is as before if the
    outputs of the module get worse by it.

    Raises CompileError, located at a layer or in the data.
    """
    remarks = Remarks(session, FitRangesPass.name)
    known = Readers.in_module(module, profile_of(session))
    found = [each for points in _shared(module) if (each := _readable(points, known, remarks)) is not None]
    if found:
        _fit_all(module, found, _Parts.of(samples()), session, runner, remarks)
    remarks.flush_requested("no range is changed", "no activation has a range")


@dataclass(frozen=True)
class _Parts:
    """The samples in parts: those that ranges are fitted to, and those that judge the ranges."""

    parts: Sequence[Samples]
    turns: Sequence[tuple[Sequence[int], int]]
    """The parts that ranges are fitted to, and the one that judges them, for each turn."""
    fitting: Sequence[int]
    """The parts that ranges are fitted to in the end."""
    measured: str
    """The last words of a remark with errors."""

    @staticmethod
    def of(samples: Samples) -> _Parts:
        """Makes the parts: one run in eight judges; of fewer than `FEW` runs all of them in turns; one run alone judges
        itself.
        """
        turns = in_turns(samples) if samples.runs < FEW else []
        if not turns:
            fit, held = split(samples)
            if held is None:
                return _Parts([fit], [([0], 0)], [0], measured_on(0))
            return _Parts([fit, held], [([0], 1)], [0], measured_on(held.count))
        every, parts = range(len(turns)), [turn.held for turn in turns if turn.held is not None]
        judged = [([other for other in every if other != i], i) for i in every]
        return _Parts(parts, judged, every, measured_in_turns(samples.count))


def _fit_all(
    module: ModuleOp, found: Sequence[_Shared], given: _Parts, session: Session, runner: Runner, remarks: Remarks
) -> None:
    """Fit ranges; the turns judge each of them by its readers, and all of them by the module's outputs."""
    readers = [reader for each in found for reader in each.readers]
    kept = [iter(kept_of(module, readers, part, session, runner)) for part in given.parts]
    before = _outputs(module, given, lambda turn: None)
    fitted: dict[_Shared, _Fitted] = {}
    for i, each in enumerate(found):
        errors = [Errors(each.readers, list(islice(one, len(each.readers)))) for one in kept]
        fit = _fit(each, errors, given)
        if fit.gain.after > fit.gain.before:
            fitted[each] = fit
        else:
            remarks.missed(each.points[0], "improves", f"{fit.outcome}, which stays{given.measured}", fit.gain)
        session.progress("ranges", i + 1, len(found))

    def as_in(turn: int) -> None:
        for each, fit in fitted.items():
            each.set(fit.turns[turn])

    reason = lost(before, _outputs(module, given, as_in), WORTH) if fitted else None
    for each, fit in fitted.items():
        if reason is None:
            each.set(fit.ends)
            remarks.applied(each.points[0], "fitted", f"{fit.outcome}{given.measured}", fit.gain)
        else:
            each.reset()
            remarks.missed(each.points[0], "outputs", reason)


def _outputs(module: ModuleOp, given: _Parts, before: Callable[[int], None]) -> Sqnr:
    """The SQNR of the module's outputs when its points round and its weights are as they are, on the judging parts of
    all turns. `before` is called with the number of each turn before that.
    """

    def rounding(program: Program) -> Program:
        kernels, program = points_of(module), usual(program)
        return replace(program, rows=[row._replace(kernel=kernels.get(row.op, row.kernel)) for row in program.rows])

    every: list[Compared] = []
    for i, (_, held) in enumerate(given.turns):
        before(i)
        every.append(compared(Executable(module), Executable(module, rewrite=rounding), few(given.parts[held])))
    found, *others = every
    for other in others:
        found.merge(other)
    return found.sqnr


def _shared(module: ModuleOp) -> Iterable[list[ObserveOp]]:
    """The points of a module, those of a group together."""
    groups: dict[object, list[ObserveOp]] = {}
    for point in graph_points(module):
        groups.setdefault(point if point.group is None else point.group.data, []).append(point)
    return groups.values()


def _readable(points: Sequence[ObserveOp], known: Readers, remarks: Remarks) -> _Shared | None:
    """The points with their readers; None, with a remark, if a condition fails."""
    first = points[0]
    if first.qparams is None or any(point.qparams is None for point in points):
        remarks.missed(first, "calibrated", "it has no parameters: --calibrate comes before --fit-ranges")
        return None
    if first.range is None or any(point.source is None or point.source.data not in _FROM_DATA for point in points):
        remarks.missed(first, "data", "its parameters do not come from data")
        return None
    try:
        return _Shared(points, known.of(points), first.range.data, first.qparams)
    except UnknownError as e:
        remarks.missed(first, "reader", str(e))
        return None


class _Fitted(NamedTuple):
    """The range of least error, those of the turns, and the gain of readers by the latter, where they are judged."""

    ends: Range
    turns: Sequence[Range]
    gain: Gain
    outcome: str


def _fit(each: _Shared, errors: Sequence[Errors], parts: _Parts) -> _Fitted:
    """Fit a range to errors by part."""
    given = each.around_zero

    def fitted(to: Sequence[int]) -> Range:
        return least_error(
            lambda ends: sum(errors[i](each.params(ends).data) for i in to), given, together=each.symmetric
        )

    found = fitted(parts.fitting)
    turns = [found if fit == parts.fitting else fitted(fit) for fit, _ in parts.turns]
    signal = sum(errors[held].signal for _, held in parts.turns)
    noises = [
        [errors[held](each.params(ends).data) for ends in (turn, given)]
        for turn, (_, held) in zip(turns, parts.turns, strict=True)
    ]
    after, before = (decibels(signal, sum(noise)) for noise in zip(*noises, strict=True))
    names = ", ".join(dict.fromkeys(_name(reader.op) for reader in each.readers))
    if found == given:
        outcome = f"SQNR of {names} {before:.1f} dB with {_text(given)}, less with others"
        return _Fitted(found, turns, Gain(before, before), outcome)
    outcome = f"SQNR of {names} {after:.1f} dB with {_text(found)}, {before:.1f} dB with {_text(given)}"
    return _Fitted(found, turns, Gain(before, after), outcome)


def _name(reader: Operation) -> str:
    return "the model's output" if isinstance(reader, ReturnOp) else layer_of(reader)


def _text(ends: Range) -> str:
    return f"[{ends[0]:.4g}, {ends[1]:.4g}]"
