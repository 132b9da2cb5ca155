"""Chooses the next pass over the data, the data that it needs when several processes share calibration, and the network
that sees them.

Data that the current pass has not seen is added to it. Data that it has seen begins the next pass, which must see exactly
the data of the first pass.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....data import Samples
from ....dialects.nn import ConstantOp, DivOp, MulOp, array_of, constant_of, plan_of
from ....dialects.nn.shapes import shape_of
from ....engines import Runner
from ....rewriting import erase_constant
from ....session import Session
from ....support.diagnostics import CompileError
from ..decide.sites import FACTORS, Site, balancer_of, sites
from ..numbers.weights import Weight
from ..profiles import profile_of
from .observing import Observation, begin_pass, in_batches, observe, passes
from .state import Part, Progress, sources


@contextmanager
def weights_first(module: ModuleOp, session: Session) -> Generator[None]:
    """Feed layers the numbers that the planned integers of their weights represent (`How.first`), and divide balanced
    inputs by their factors if AMCT does (`Row.as_amct`); undone on exit.

    Raises CompileError, located at a layer, for a plan that does not fit its weight.
    """
    rows = profile_of(session).rows
    fed: list[tuple[Site, int, SSAValue, ConstantOp]] = []
    divided: list[tuple[MulOp, DivOp]] = []
    try:
        for site in sites(module, rows):
            if rows[type(site.compute)].as_amct and (product := balancer_of(site)) is not None:
                divided.append((product, _divided(product)))
            index, plan = rows[type(site.compute)].weight, plan_of(site.compute)
            if index is None or plan is None or not plan.weights or not plan.weights[0].first:
                continue
            value = site.operand(index)
            if value is None or array_of(value) is None:
                continue
            old = constant_of(value)
            assert old is not None, "it has an array"
            numbers = Weight.of(value, plan.weights[0], site.compute).reals
            new = ConstantOp.of(numbers, f"{old.key}.first", old.location)
            Rewriter.insert_op(new, InsertPoint.after(old))
            site.set_operand(index, new.result)
            fed.append((site, index, value, new))
        yield
    finally:
        for site, index, value, new in fed:
            site.set_operand(index, value)
            erase_constant(new)
        for product, division in divided:
            division.result.replace_all_uses_with(product.result)
            factors = constant_of(division.operands[1])
            assert factors is not None, "made here"
            Rewriter.erase_op(division)
            erase_constant(factors)


def _divided(product: MulOp) -> DivOp:
    """The division by factors in the place of a product with their reciprocals."""
    factors = ConstantOp(cast(Any, product.attributes[FACTORS]))
    constant = ConstantOp.of(
        factors.array.reshape(shape_of(product.operands[1])), f"{factors.key}.first", product.location
    )
    division = DivOp.make(
        product.operands[0], constant.result, result_types=[product.result.type], location=product.location
    )
    Rewriter.insert_op([constant, division], InsertPoint.after(product))
    product.result.replace_all_uses_with(division.result)
    return division


_SHARING = "show it part by part with save-state=, and load the states of one pass together to begin the next"


def run_pass(
    module: ModuleOp,
    observed: Sequence[Observation],
    progress: Progress,
    samples: Samples,
    session: Session,
    runner: Runner,
) -> Progress:
    """Show data to the observers once. Returns the progress. Raises CompileError as `advanced` does."""
    part = Part.of(samples, session, runner.cluster)
    after = advanced(progress, part, passes(observed))
    if after.turn > progress.turn:
        begin_pass(observed, after.turn)
    samples = in_batches(module, observed, samples)
    with (
        session.phase(f"pass {after.turn + 1} of {passes(observed)}, {samples.runs} runs"),
        weights_first(module, session),
    ):
        if runner.cluster is None:
            observe(module, observed, samples, after.turn, session, runner)
        else:
            from .shares import observe_shares

            observe_shares(module, observed, samples, part.digest, after.turn, session, runner)
    return after


def run_all_passes(
    module: ModuleOp,
    observed: Sequence[Observation],
    progress: Progress,
    samples: Samples | None,
    session: Session,
    runner: Runner,
) -> Progress:
    """Run all remaining passes over `samples`. Raises CompileError, before the first one, if they need other data too."""
    total = passes(observed)
    after = progress if samples is None else advanced(progress, Part.of(samples, session, runner.cluster), total)
    if missing := after.missing():
        raise CompileError(f"pass {after.turn + 1} of {total} has not seen {sources(missing)}", hint=_SHARING)
    left = total - 1 - after.turn
    if left and (samples is None or len(after.first) > 1):
        message = f"pass {after.turn + 2} of {total} must see all data again: {sources(after.first)}"
        raise CompileError(message, hint=_SHARING)
    if samples is None:
        return after
    for _ in range(left + 1):
        progress = run_pass(module, observed, progress, samples, session, runner)
    return progress


def advanced(progress: Progress, part: Part, total: int) -> Progress:
    """The progress after `part` is shown next. Raises CompileError, located in it, if no pass can take it."""
    if part.among(progress.present):
        _check_complete(progress, part, total)
        return Progress(progress.turn + 1, progress.first, (part,))
    if progress.turn and not part.among(progress.first):
        raise CompileError(
            f"pass {progress.turn + 1} cannot use it: the first pass did not",
            where=part.source,
            hint=f"that saw {sources(progress.first)}",
        )
    return progress.with_part(part)


def _check_complete(progress: Progress, part: Part, total: int) -> None:
    """Raises CompileError unless the current pass has seen all data and is not the last one."""
    if progress.turn + 1 == total:
        raise CompileError("is already included in the loaded states", where=part.source)
    if missing := progress.missing():
        raise CompileError(
            f"pass {progress.turn + 1} has not seen {sources(missing)} yet",
            where=part.source,
            hint="load the states that have",
        )


def next_step(progress: Progress, total: int, path: Path) -> str:
    """A note on what the state saved to `path` contains, and how to continue from it."""
    turn = progress.turn + 1
    count = sum(part.samples for part in progress.present)
    seen = f"pass {turn} of {total} has seen {count} samples of {sources(progress.present)}"
    if missing := progress.missing():
        return f"{seen}, not {sources(missing)} yet: load it together with the states that have"
    if turn == total:
        return f"{seen}; finish with --calibrate=load-state={path}"
    return (
        f"{seen}; begin pass {turn + 1} with --calibrate='load-state={path} data=... save-state=...' on the same data"
    )
