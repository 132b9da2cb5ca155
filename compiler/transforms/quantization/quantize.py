"""`--quantize`: the whole of quantization, one pass after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...session import Session, session_of
from .balance_channels import balance_channels
from .calibrate import calibrate_points
from .convert_observers import convert_observers
from .correct_bias import correct_bias
from .data_options import AUTOMATIC, BackendOptions, DataOptions
from .insert_observers import insert_observers
from .request import QuantizeOptions, Request
from .round_weights import round_weights
from .shift_accumulators import shift_accumulators


@dataclass(frozen=True)
class QuantizePass(QuantizeOptions, DataOptions, BackendOptions, ModulePass):
    """Decide what is quantized, balance channels where that is planned, calibrate, and turn activations, weights and biases into
    integers: `--insert-observers`, `--balance-channels`, `--calibrate`, `--convert-observers` and `--shift-accumulators`; with
    `--round-weights` and `--correct-bias` before conversion where they are asked for.
    """

    name = "quantize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        Quantize(self.request(session_of(ctx)), self, self).apply(ctx, op)


@dataclass(frozen=True)
class Quantize(ModulePass):
    """`--quantize` with objects in place of option text."""

    name = "quantize"

    request: Request
    data: DataOptions
    running: BackendOptions = AUTOMATIC

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantize(op, self.request, self.data, self.running, session_of(ctx))


def quantize(module: ModuleOp, request: Request, data: DataOptions, running: BackendOptions, session: Session) -> None:
    """Run the steps in their order; data is read when the first of them needs it.

    Raises CompileError, located in the file of settings, record or data, or at an operation.
    """
    runner = running.runner()
    samples = cache(lambda: data.within(request.settings).load(module, session))
    with session.phase("insert-observers"):
        insert_observers(module, request, session)
    with session.phase("balance-channels"):
        balance_channels(module, samples, session, runner)
    with session.phase("calibrate"):
        calibrate_points(module, samples, session, runner)
    with session.phase("round-weights"):
        round_weights(module, request.recovery.round_weights, samples, session)
    if request.recovery.correct_bias:
        with session.phase("correct-bias"):
            correct_bias(module, samples, session)
    with session.phase("convert-observers"):
        convert_observers(module, session)
    with session.phase("shift-accumulators"):
        shift_accumulators(module, samples, session)
