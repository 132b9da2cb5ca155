"""`--quantize`: the whole of quantization, one pass after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...ir.metadata import add_metadata
from ...pipelines.options import Parts
from ...session import Session, session_of
from .data import load, within
from .idle import warn_of_idle
from .options import DataOptions, EngineOptions, QuantizeOptions
from .quantize_channels import quantize_channels
from .recover.even_out import even_out
from .request import Request, request_of
from .running import runner_of


@dataclass(frozen=True, init=False)
class QuantizePass(Parts, ModulePass):
    """Decide what is quantized, balance channels where that is planned, calibrate, and turn activations, weights and biases into
    integers: `--insert-observers`, `--balance-channels`, `--calibrate`, `--convert-observers` and `--shift-accumulators`; where
    they are asked for, with `--rotate` and `--equalize` first, `--fit-ranges` and `--round-weights` before conversion, and
    `--quantize-dynamic` at the end. `--correct-bias` runs before conversion by default, on a few samples.
    """

    name = "quantize"

    RUNS: ClassVar[str] = (
        "rotate,equalize,insert-observers,balance-channels,calibrate,fit-ranges,round-weights,correct-bias,"
        "convert-observers,shift-accumulators,quantize-dynamic"
    )
    """The passes that it runs in this order, those that options ask for among them, as pipeline text."""

    calibration: DataOptions
    quantization: QuantizeOptions
    running: EngineOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        request = request_of(self.quantization, session_of(ctx))
        warn_of_idle(self.quantization, op, session_of(ctx))
        quantize(op, request, self.calibration, self.running, session_of(ctx))


def quantize(module: ModuleOp, request: Request, data: DataOptions, running: EngineOptions, session: Session) -> None:
    """Run the steps in their order; data is read when the first of them needs it, and marks the module if it is synthetic.

    Raises CompileError, located in the file of settings, record or data, or at an operation.
    """
    runner = runner_of(running, request.profile)
    samples = cache(lambda: load(within(data, request.settings), module, session))
    even_out(module, request, samples, session, runner, session.phase)
    if runner.engine == "onnxruntime" and (request.recovery.rounds_weights or request.recovery.correct_bias):
        session.note("onnxruntime runs calibration; weights are rounded and biases corrected in numpy, layer by layer")
    quantize_channels(module, request, samples, session, runner)
    if samples.cache_info().currsize and samples().synthetic:
        add_metadata(module, synthetic="true")
