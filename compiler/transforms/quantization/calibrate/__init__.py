"""`--calibrate`: runs data through the model and sets the ranges of observers without parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....data import Samples
from ....dialects.nn import ObserveOp, ParamsSource, ParamsSourceAttr, RangeAttr
from ....engines import Runner
from ....ir.metadata import add_metadata, tool_version
from ....observers.observer import NoValues, Observer
from ....pipelines.options import Parts
from ....rewriting import Remarks
from ....session import Session, session_of
from ....support.diagnostics import CompileError, op_error
from ....support.files import refuse_overwriting
from ..data import load
from ..decide.sites import graph_points, note_other_functions
from ..numbers.parameters import activation_params
from ..options import DataOptions, EngineOptions
from ..place.alignment import group_ranges, settle
from ..profiles import profile_of
from ..running import runner_of
from .observing import Observation, observations, passes
from .passes_over_data import next_step, run_all_passes, run_pass
from .state import Part, Progress, merge_states, write_state


@dataclass(frozen=True, init=False)
class CalibratePass(Parts, ModulePass):
    """An analysis: calibration data runs through the model and gives every observer its range and parameters."""

    name = "calibrate"

    calibration: DataOptions
    running: EngineOptions
    save_state: str | None = None
    """A file to save the observers' state to. Makes one pass over the data; the observers get no parameters."""
    load_state: tuple[str, ...] = ()
    """State files of this model to load. They are merged in this order; the data, if any is given, follows them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        points, session = points_to_calibrate(op), session_of(ctx)
        remarks = Remarks(session, self.name)
        note_other_functions(op, remarks, ObserveOp)
        remarks.flush()
        if not points:
            self._refuse_states()
            return
        runner = runner_of(self.running)
        loaded, saved = [Path(p) for p in self.load_state], None if self.save_state is None else Path(self.save_state)
        if saved is not None:
            refuse_overwriting([saved], self.calibration.files())
        observed = observations(points, session)
        progress = merge_states(loaded, op, observed)
        samples = None if loaded and self.calibration.data is None else load(self.calibration, op, session)
        if saved is None:
            finish_from(op, observed, progress, samples, session, runner)
            return
        if samples is not None:
            progress = run_pass(op, observed, progress, samples, session, runner)
        write_state(saved, op, observed, progress)
        session.note(f"{saved}: {next_step(progress, passes(observed), saved)}")

    def _refuse_states(self) -> None:
        """Raises CompileError if states are given but nothing is to be calibrated."""
        if self.save_state is not None or self.load_state:
            hint = "observers come from --insert-observers; those that have parameters already are left alone"
            raise CompileError("there is no point to calibrate, and so no state", hint=hint)


def points_to_calibrate(module: ModuleOp) -> list[ObserveOp]:
    """The points without parameters, after parameters were copied within groups."""
    settle(module)
    return [point for point in graph_points(module) if point.qparams is None]


def calibrate_points(module: ModuleOp, samples: Callable[[], Samples], session: Session, runner: Runner) -> None:
    """Calibrate the points without parameters; reads no data if there are none. Raises CompileError, located."""
    if points := points_to_calibrate(module):
        calibrate(module, points, samples(), session, runner)


def calibrate(module: ModuleOp, points: list[ObserveOp], samples: Samples, session: Session, runner: Runner) -> None:
    """Set range, parameters and source of `points` from `samples`; record the data in the module's metadata.

    Raises CompileError, located at the point, for NaN or Inf in its values.
    """
    finish_from(module, observations(points, session), Progress(), samples, session, runner)


def finish_from(
    module: ModuleOp,
    observed: Sequence[Observation],
    progress: Progress,
    samples: Samples | None,
    session: Session,
    runner: Runner,
) -> None:
    """Run the remaining passes over `samples`, and set the parameters of the points.

    Raises CompileError if passes need other data than these samples.
    """
    progress = run_all_passes(module, observed, progress, samples, session, runner)
    with session.phase("ranges"):
        set_parameters(observed, progress.first)
    record_data(module, observed, progress.first, session)


def set_parameters(observed: Sequence[Observation], parts: Sequence[Part]) -> None:
    """Set range, parameters and source of all points. A point that saw only empty arrays takes the range of its group.

    Raises CompileError, located at a point for which no values were seen.
    """
    source = ParamsSourceAttr(ParamsSource.SYNTHETIC if any(p.synthetic for p in parts) else ParamsSource.DATA)
    samples = None if any(part.synthetic for part in parts) else sum(part.samples for part in parts)
    ranges: dict[ObserveOp, tuple[float, float]] = {}
    for each in observed:
        with each.located():
            ranges.update(dict.fromkeys(each.points, _range(each.observer, samples)))
    points = list(ranges)
    for point, (low, high) in zip(points, group_ranges(points, ranges.values()), strict=True):
        if low > high:
            raise op_error(point, str(NoValues()), _NO_VALUES)
        point.range = RangeAttr((low, high))
        point.qparams = activation_params(low, high, point.bits.value.data, point.symmetric is not None)
        point.source = source


_NO_VALUES = "its arrays were empty in all samples: give samples with values, or leave the layer in float"


def _range(observer: Observer, samples: int | None) -> tuple[float, float]:
    """The range of an observer, from infinity to minus infinity if it saw nothing."""
    try:
        return observer.range_of(samples)
    except NoValues:
        return float("inf"), float("-inf")


def record_data(module: ModuleOp, observed: Sequence[Observation], parts: Sequence[Part], session: Session) -> None:
    """Record the observer and the data's hash in the module's metadata. The hashes of several parts are in the order in
    which they were seen.
    """
    add_metadata(
        module,
        tool=tool_version(),
        profile=profile_of(session).name,
        observer=",".join(sorted({p.observer.data for each in observed for p in each.points})),
        samples=str(sum(part.samples for part in parts)),
        data_hash=",".join(f"sha256:{part.digest}" for part in parts),
        synthetic=str(any(part.synthetic for part in parts)).lower(),
    )
