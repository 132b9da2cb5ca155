"""`--fit-ranges`: ranges of activations by the outputs of the layers that read them, instead of by their own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from .....backends import Runner
from .....data import Samples
from .....diagnostics import Gain
from .....dialects.nn import ObserveOp, ParamsSource, QParamsAttr, RangeAttr
from .....pipelines.options import Parts
from .....rewriting import Remarks, layer_of
from .....runtime.executor import Executable, usual
from .....runtime.program import Program
from .....session import Session, session_of
from ...convert.parameters import activation_params
from ...data import load
from ...decide.sites import graph_points
from ...options import DataOptions, EngineOptions
from ...profiles import profile_of
from ...running import runner_of
from ..outputs import WORTH, Sqnr, few, lost, sqnr_of_outputs
from ..round_weights.folds import measured_on, split
from ..round_weights.sums import decibels
from ..round_weights.twins import points_of
from .readers import Errors, Reader, Readers, UnknownError, kept_of
from .search import Range, least_error

_FROM_DATA = ParamsSource.DATA, ParamsSource.SYNTHETIC


@dataclass(frozen=True, init=False)
class FitRangesPass(Parts, ModulePass):
    """Choose the range of each quantized activation by the error of the outputs of all layers that read it, with their weights as
    quantized, if that is smaller on held-back samples. Runs after `--calibrate`, before `--round-weights`.
    """

    name = "fit-ranges"

    calibration: DataOptions
    running: EngineOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        fit_ranges(op, lambda: load(self.calibration, op, session), session, runner_of(self.running))


@dataclass(frozen=True, eq=False)
class _Shared:
    """Points that share their parameters, and what reads them."""

    points: Sequence[ObserveOp]
    readers: Sequence[Reader]
    given: Range
    """The observer's range."""
    given_params: QParamsAttr
    """Its parameters, which were computed before the range was rounded to float32."""

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
        _fit_all(module, found, [part for part in split(samples()) if part is not None], session, runner, remarks)
    remarks.flush()


def _fit_all(
    module: ModuleOp,
    found: Sequence[_Shared],
    parts: Sequence[Samples],
    session: Session,
    runner: Runner,
    remarks: Remarks,
) -> None:
    """Fit ranges to the first part of the samples, and measure on the last."""
    readers = [reader for each in found for reader in each.readers]
    kept = [iter(kept_of(module, readers, part, session, runner)) for part in parts]
    measured = measured_on(parts[1].count if len(parts) > 1 else 0)
    before = _outputs(module, parts[-1])
    fitted: dict[_Shared, tuple[str, Gain]] = {}
    for i, each in enumerate(found):
        errors = [Errors(each.readers, list(islice(one, len(each.readers)))) for one in kept]
        outcome, gain = _fit(each, errors[0], errors[-1])
        if gain.after > gain.before:
            fitted[each] = f"{outcome}{measured}", gain
        else:
            remarks.missed(each.points[0], "improves", f"{outcome}, which stays{measured}", gain)
        session.progress("ranges", i + 1, len(found))
    reason = lost(before, _outputs(module, parts[-1]), WORTH) if fitted else None
    for each, (outcome, gain) in fitted.items():
        if reason is None:
            remarks.applied(each.points[0], "fitted", outcome, gain)
        else:
            each.reset()
            remarks.missed(each.points[0], "outputs", reason)


def _outputs(module: ModuleOp, samples: Samples) -> Sqnr:
    """The SQNR of the module's outputs when its points round and its weights are as they are."""
    kernels = points_of(module)

    def rounding(program: Program) -> Program:
        program = usual(program)
        return replace(program, rows=[row._replace(kernel=kernels.get(row.op, row.kernel)) for row in program.rows])

    return sqnr_of_outputs(Executable(module), Executable(module, rewrite=rounding), few(samples))


def _shared(module: ModuleOp) -> Iterable[list[ObserveOp]]:
    """The points of a module, those of a group together."""
    groups: dict[object, list[ObserveOp]] = {}
    for point in graph_points(module):
        groups.setdefault(point if point.group is None else point.group.data, []).append(point)
    return groups.values()


def _readable(points: Sequence[ObserveOp], known: Readers, remarks: Remarks) -> _Shared | None:
    """The points with their readers; None, with a remark, where a condition does not hold."""
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


def _fit(each: _Shared, fit: Errors, held: Errors) -> tuple[str, Gain]:
    """Set the range of least error, if the readers gain by it on what is held back: what they have before and after."""
    given = each.around_zero
    found = least_error(lambda ends: fit(each.params(ends).data), given, together=each.symmetric)
    after, before = (decibels(held.signal, held(each.params(ends).data)) for ends in (found, given))
    names = ", ".join(dict.fromkeys(_name(reader.op) for reader in each.readers))
    if found == given:
        return f"SQNR of {names} {before:.1f} dB with {_text(given)}, less with others", Gain(before, before)
    if after > before:
        each.set(found)
    outcome = f"SQNR of {names} {after:.1f} dB with {_text(found)}, {before:.1f} dB with {_text(given)}"
    return outcome, Gain(before, after)


def _name(reader: Operation) -> str:
    return "the model's output" if isinstance(reader, ReturnOp) else layer_of(reader)


def _text(ends: Range) -> str:
    return f"[{ends[0]:.4g}, {ends[1]:.4g}]"
