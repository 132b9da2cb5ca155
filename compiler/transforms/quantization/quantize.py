"""`--quantize`: the whole of quantization, one pass after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...backends import Runner
from ...configuration.record import Record
from ...configuration.settings import Settings
from ...session import session_of
from .backend_options import BackendOptions
from .balance_channels import balance_channels
from .calibrate import calibrate_points
from .convert_observers import convert_observers
from .data_options import DataOptions
from .insert_observers import insert_observers
from .options import SettingsOptions
from .point_options import PointOptions
from .shift_accumulators import shift_accumulators


@dataclass(frozen=True)
class QuantizePass(SettingsOptions, PointOptions, DataOptions, BackendOptions, ModulePass):
    """Decide what is quantized, balance channels where that is planned, calibrate, and turn activations, weights and biases into
    integers: `--insert-observers`, `--balance-channels`, `--calibrate`, `--convert-observers` and `--shift-accumulators`.
    """

    name = "quantize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        quantize(op, settings, self.records(settings), self.within(settings), ctx, self, self.runner())


def quantize(
    module: ModuleOp,
    settings: Settings,
    record: Record | None,
    data: DataOptions,
    ctx: Context,
    options: PointOptions,
    runner: Runner,
) -> None:
    """The steps in their order; data is read when the first of them needs it.

    Raises CompileError, located in the file of settings, record or data, or at an operation.
    """
    session = session_of(ctx)
    samples = cache(lambda: data.load(module, session))
    with session.phase("insert-observers"):
        insert_observers(module, settings, record, session, options)
    with session.phase("balance-channels"):
        balance_channels(module, samples, session, runner)
    with session.phase("calibrate"):
        calibrate_points(module, samples, session, runner)
    with session.phase("convert-observers"):
        convert_observers(module, session)
    with session.phase("shift-accumulators"):
        shift_accumulators(module, samples, session)
