"""The steps of quantization on channels as they are: after `--equalize`, and for its trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from ...data import Samples
from ...engines import HERE, Runner
from ...rewriting import Reported
from ...session import Session
from ...support.diagnostics import Remark
from .calibrate import calibrate_points
from .convert.convert_observers import convert_observers
from .convert.quantize_dynamic import quantize_dynamic
from .convert.shift_accumulators import shift_accumulators
from .place.insert_observers import insert_observers
from .recover.balance_channels import balance_channels
from .recover.correct_bias import all_of, correct_bias, few_of
from .recover.fit_ranges import fit_ranges
from .recover.portable_weights import plain_forms, take_back
from .recover.round_weights import round_weights
from .recover.round_weights.networks import Rivals
from .request import Request


def quantize_channels(
    module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
) -> None:
    """Run the steps in their order; data is read when the first of them needs it.

    Raises CompileError, located in the file of settings, record or data, or at an operation.
    """
    with session.phase("insert-observers"):
        reported = insert_observers(module, request, session)
    with session.phase("balance-channels"):
        balance_channels(module, samples, session, runner)
    with session.phase("calibrate"):
        calibrate_points(module, samples, session, runner)
    if request.recovery.fit_ranges:
        with session.phase("fit-ranges"):
            fit_ranges(module, samples, session, runner)
    compares = request.profile.facts.kernels and request.settings.portable == "auto"
    plain = plain_forms(module, session) if compares and request.recovery.correct_bias is not False else {}
    with session.phase("round-weights"):
        round_weights(module, request.recovery.round_weights, samples, session, runner, request.usual)
    if request.recovery.correct_bias is not False:
        with session.phase("correct-bias"):
            _correct_bias(module, plain, request, samples, session, runner)
    with session.phase("convert-observers"):
        if not convert_observers(module, session):
            session.warn(f"nothing is quantized: {_reasons(reported)}")
    with session.phase("shift-accumulators"):
        shift_accumulators(module, samples, session)
    if request.settings.dynamic:
        with session.phase("quantize-dynamic"):
            quantize_dynamic(module, session)


def _reasons(remarks: Reported) -> str:
    """The two most frequent reasons why layers stay in float."""
    first: dict[str, Remark] = {}
    for remark in remarks:
        if remark.kind == "missed":
            first.setdefault(remark.layer, remark)
    reasons = Counter((r.op, r.reason) for r in first.values()).most_common(2)
    shown = [f"{count} {op}, because {reason}" for (op, reason), count in reasons]
    return "; ".join(shown) or "the model has no layer of a type that the profile quantizes"


def _correct_bias(
    module: ModuleOp,
    plain: Rivals,
    request: Request,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner,
) -> None:
    """Correct biases, on all of the data or by default on a part. If outputs lose by portable weights, layers get others."""
    if request.recovery.correct_bias:
        correct = partial(correct_bias, module, lambda: all_of(samples()), session, runner, asked=True)
    else:
        correct = partial(correct_bias, module, lambda: few_of(module, samples(), session), session, HERE)
    if (loss := correct(plain)) is not None:
        take_back(module, plain, loss, samples(), session)
        correct({})
