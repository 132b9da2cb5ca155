"""`--quantize`: the whole of quantization: observers where missing, calibration, integers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...configuration.record import Record
from ...configuration.settings import Settings
from ...session import session_of
from .calibrate import calibrate_points
from .convert_observers import convert_observers
from .data_options import DataOptions
from .insert_observers import insert_observers
from .options import SettingsOptions
from .point_options import PointOptions


@dataclass(frozen=True)
class QuantizePass(SettingsOptions, PointOptions, DataOptions, ModulePass):
    """Insert observers where missing, calibrate them, and turn activations, weights and biases into integers."""

    name = "quantize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        data = self if self.batch_num is not None else replace(self, batch_num=settings.batch_num)
        quantize(op, settings, self.records(settings), data, ctx, self)


def quantize(
    module: ModuleOp,
    settings: Settings,
    record: Record | None,
    data: DataOptions,
    ctx: Context,
    options: PointOptions,
) -> None:
    """The three steps. Raises CompileError, located in the file of settings, record or data, or at an operation."""
    insert_observers(module, settings, record, session_of(ctx), options)
    calibrate_points(module, data, session_of(ctx))
    convert_observers(module, settings, record, session_of(ctx))
