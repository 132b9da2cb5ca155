"""`--calibrate`: runs data through the model and fills in the ranges of observers that have no parameters yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ...diagnostics import op_error
from ...dialects.nn import ObserveOp, ParamsSource, ParamsSourceAttr, RangeAttr
from ...metadata import add_metadata, tool_version
from ...rewriting import Array
from ...runtime.data import Samples
from ...runtime.executor import Executable
from ...runtime.observers import Observer, make_observer
from ...session import Session, session_of
from .alignment import group_ranges
from .data_options import DataOptions
from .parameters import activation_params


@dataclass(frozen=True)
class CalibratePass(DataOptions, ModulePass):
    """Run calibration data through the model and give every observer its range and parameters."""

    name = "calibrate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calibrate_points(op, lambda: self.load(op, session_of(ctx)), session_of(ctx))


def calibrate_points(module: ModuleOp, samples: Callable[[], Samples], session: Session) -> None:
    """Calibrate the points that have no parameters yet; without any, no data is read. Raises CompileError, located."""
    points = [o for o in module.walk() if isinstance(o, ObserveOp) and o.qparams is None]
    if points:
        calibrate(module, points, samples(), session)


def calibrate(module: ModuleOp, points: list[ObserveOp], samples: Samples, session: Session) -> None:
    """Fill in range, parameters and source of `points` from `samples`; record the data in the module's metadata.

    Raises CompileError, located at the point, for NaN or Inf among its values.
    """
    observers: _Observers = {}
    for point in points:
        spec = _spec(point)
        observers.setdefault(point.input, {}).setdefault(spec, make_observer(*spec[:2], symmetric=spec[2]))
    passes = max(o.passes for each in observers.values() for o in each.values())
    for done in range(passes):
        again = {v: [o for o in each.values() if o.passes > done] for v, each in observers.items()}
        _observe(module, {v: each for v, each in again.items() if each}, samples, session, (done, passes))
    source = ParamsSource.SYNTHETIC if samples.synthetic else ParamsSource.DATA
    own = [observers[point.input][_spec(point)].finish() for point in points]
    for point, (low, high) in zip(points, group_ranges(points, own), strict=True):
        point.range = RangeAttr((low, high))
        point.qparams = activation_params(low, high, point.bits.value.data, point.symmetric is not None)
        point.source = ParamsSourceAttr(source)
    add_metadata(
        module,
        tool=tool_version(),
        profile=session.profile,
        observer=",".join(sorted({p.observer.data for p in points})),
        samples=str(samples.count),
        data_hash=f"sha256:{samples.digest()}",
        synthetic=str(samples.synthetic).lower(),
    )


_Spec = tuple[str, int, bool]
"""Algorithm, bits and symmetry: points on one value that agree in these share an observer."""
_Observers = dict[SSAValue, dict[_Spec, Observer]]


def _spec(point: ObserveOp) -> _Spec:
    return point.observer.data, point.bits.value.data, point.symmetric is not None


def _observe(
    module: ModuleOp,
    observers: Mapping[SSAValue, Sequence[Observer]],
    samples: Samples,
    session: Session,
    turn: tuple[int, int],
) -> None:
    """Show all samples to observers; `turn` is how often they were shown before, and how often they will be in all."""
    done, passes = turn

    def watch(value: SSAValue, array: Array) -> None:
        try:
            for observer in observers[value]:
                observer.update(array)
        except ValueError as e:
            point = next(use.operation for use in value.uses if isinstance(use.operation, ObserveOp))
            raise op_error(point, str(e), "look for an overflow in the model or its data") from None

    if done:
        for observer in (o for each in observers.values() for o in each):
            observer.next_pass()
    executable = Executable(module, list(observers))
    for i, batch in enumerate(samples.batches()):
        executable.run(batch, watch)
        session.progress("calibrate", done * samples.runs + i + 1, passes * samples.runs)
