"""`--quantize`: the whole of quantization: balanced channels, observers where missing, calibration, integers."""

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
from .profiles import Profile, profile_of
from .shift_accumulators import shift_accumulators


@dataclass(frozen=True)
class QuantizePass(SettingsOptions, PointOptions, DataOptions, BackendOptions, ModulePass):
    """Balance channels where asked, insert observers where missing, calibrate them, and turn activations, weights and biases into
    integers.
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
    with session.phase("balance-channels"):
        balance_channels(module, settings, record, samples, session, runner)
    with session.phase("insert-observers"):
        insert_observers(module, settings, record, session, options)
    with session.phase("calibrate"):
        calibrate_points(module, samples, session, runner)
    with session.phase("convert-observers"):
        convert_observers(module, settings, record, session)
    if _shifts(settings, record, profile_of(session)):
        with session.phase("shift-accumulators"):
            shift_accumulators(module, settings, record, samples, session)


def _shifts(settings: Settings, record: Record | None, profile: Profile) -> bool:
    """Whether sums are shifted: as settings say, else if the record shifts one or, without a record, with joint_quant (AMCT)."""
    if settings.shift is not None:
        return settings.shift
    if record is not None:
        return any(any(layer.shift_bit) for layer in record.layers.values())
    return settings.joint_quant and profile.points == "layers"
