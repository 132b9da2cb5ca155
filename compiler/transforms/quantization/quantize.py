"""`--quantize`: the whole of quantization, one pass after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...backends import Runner, torch_installed
from ...ir.metadata import add_metadata
from ...session import Session, session_of
from .data_options import AUTOMATIC, BackendOptions, DataOptions
from .profiles import Profile
from .recover.equalize import equalize
from .request import QuantizeOptions, Request
from .steps import quantize_channels


@dataclass(frozen=True)
class QuantizePass(QuantizeOptions, DataOptions, BackendOptions, ModulePass):
    """Decide what is quantized, balance channels where that is planned, calibrate, and turn activations, weights and biases into
    integers: `--insert-observers`, `--balance-channels`, `--calibrate`, `--convert-observers` and `--shift-accumulators`; where
    they are asked for, with `--equalize` first, and `--fit-ranges`, `--round-weights` and `--correct-bias` before conversion.
    """

    name = "quantize"

    RUNS: ClassVar[tuple[str, ...]] = (
        "insert-observers",
        "balance-channels",
        "convert-observers",
        "shift-accumulators",
    )
    """The passes made of patterns that it runs."""

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


def runner_of(running: BackendOptions, profile: Profile) -> Runner:
    """The runner of these options: torch where `auto` may choose and numbers are to be those of AMCT for PyTorch."""
    runner = running.runner()
    if profile.amct != "pytorch" or runner.backend != "auto" or runner.cluster is not None or not torch_installed():
        return runner
    return replace(runner, backend="torch", threads=None)


def quantize(module: ModuleOp, request: Request, data: DataOptions, running: BackendOptions, session: Session) -> None:
    """Run the steps in their order; data is read when the first of them needs it, and marks the module if it is synthetic.

    Raises CompileError, located in the file of settings, record or data, or at an operation.
    """
    runner = runner_of(running, request.profile)
    samples = cache(lambda: data.within(request.settings).load(module, session))
    with session.phase("equalize"):
        equalize(module, request, samples, session, runner)
    if runner.backend == "onnxruntime" and (request.recovery.round_weights or request.recovery.correct_bias):
        session.note("onnxruntime runs calibration; weights are rounded and biases corrected in numpy, layer by layer")
    quantize_channels(module, request, samples, session, runner)
    if samples.cache_info().currsize and samples().synthetic:
        add_metadata(module, synthetic="true")
