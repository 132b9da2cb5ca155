"""`--quantize`: the whole of quantization: observers where missing, calibration, integers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...configuration.record import Record
from ...configuration.settings import Settings
from ...session import session_of
from .calibrate import CalibratePass
from .convert_observers import convert_observers
from .insert_observers import insert_observers
from .options import SettingsOptions
from .point_options import PointOptions


@dataclass(frozen=True)
class QuantizePass(SettingsOptions, PointOptions, ModulePass):
    """Insert observers where missing, calibrate them, and turn activations, weights and biases into integers."""

    name = "quantize"

    data: str | None = None
    """An .npz file or a folder of .npy files, one array per input, samples on the first axis."""
    samples: int | None = None
    batch_num: int | None = None
    """How many runs of the model calibrate; the configuration's `batch_num`, or all, when not given."""
    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        batch_num = settings.batch_num if self.batch_num is None else self.batch_num
        calibrate = CalibratePass(self.data, self.samples, self.seed, batch_num)
        quantize(op, settings, self.records(settings), calibrate, ctx, self)


def quantize(
    module: ModuleOp,
    settings: Settings,
    record: Record | None,
    calibrate: CalibratePass,
    ctx: Context,
    options: PointOptions,
) -> None:
    """The three steps. Raises CompileError, located in the file of settings, record or data, or at an operation."""
    insert_observers(module, settings, record, session_of(ctx), options)
    calibrate.apply(ctx, module)
    convert_observers(module, settings, record, session_of(ctx))
