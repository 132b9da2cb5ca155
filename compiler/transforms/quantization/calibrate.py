"""`--calibrate`: runs data through the model and fills in the ranges of observers that have no parameters yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ...diagnostics import op_error
from ...dialects.nn import ObserveOp, ParamsSource, ParamsSourceAttr, RangeAttr
from ...functions import main_function
from ...metadata import add_metadata, tool_version
from ...rewriting import Array
from ...runtime.data import Samples, load_samples, synthetic_samples
from ...runtime.executor import Executable
from ...runtime.observers import OBSERVERS, Observer
from ...session import Session, session_of
from .parameters import activation_params


@dataclass(frozen=True)
class CalibratePass(ModulePass):
    """Run calibration data through the model and give every observer its range and parameters."""

    name = "calibrate"

    data: str | None = None
    """An .npz file or a folder of .npy files, one array per input, samples on the first axis."""
    samples: int | None = None
    """How many samples to use; all when not given."""
    seed: int = 0
    """For the synthetic inputs that stand in where there is no data."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        points = [o for o in op.walk() if isinstance(o, ObserveOp) and o.qparams is None]
        if not points:
            return
        calibrate(op, points, self._samples(op, session_of(ctx)), session_of(ctx))

    def _samples(self, module: ModuleOp, session: Session) -> Samples:
        function = main_function(module)
        if self.data is None:
            session.warn(
                "no calibration data: ranges come from synthetic inputs, accuracy will suffer (give data=FILE.npz)"
            )
            return synthetic_samples(function, self.seed)
        samples = load_samples(Path(self.data), function)
        return samples if self.samples is None else samples.head(min(self.samples, samples.count))


def calibrate(module: ModuleOp, points: list[ObserveOp], samples: Samples, session: Session) -> None:
    """Fill in range, parameters and source of `points` from `samples`; record the data in the module's metadata.

    Raises CompileError, located at the point, for NaN or Inf among its values.
    """
    observers: dict[SSAValue, dict[str, Observer]] = {}
    for point in points:
        observers.setdefault(point.input, {}).setdefault(point.observer.data, OBSERVERS[point.observer.data]())

    def watch(value: SSAValue, array: Array) -> None:
        for observer in observers[value].values():
            try:
                observer.update(array)
            except ValueError as e:
                raise op_error(
                    _point_of(value, points), str(e), "look for an overflow in the model or its data"
                ) from None

    executable = Executable(module, list(observers))
    for i, batch in enumerate(samples.batches()):
        executable.run(batch, watch)
        session.progress("calibrate", i + 1, samples.runs)
    source = ParamsSource.SYNTHETIC if samples.synthetic else ParamsSource.DATA
    for point in points:
        low, high = observers[point.input][point.observer.data].finish()
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


def _point_of(value: SSAValue, points: list[ObserveOp]) -> ObserveOp:
    return next(p for p in points if p.input is value)
