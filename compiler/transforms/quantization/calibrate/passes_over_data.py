"""Which pass over the data comes next, and which data it needs, when several processes share the passes of calibration.

Data that the current pass has not seen is added to it. Data that it has seen begins the next pass, which must see exactly
the data of the first pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner
from ....diagnostics import CompileError
from ....runtime.data import Samples
from ....session import Session
from .observations import Observation, begin_pass, passes
from .observing import in_batches, observe
from .state import Part, Progress, sources
from .weights_first import weights_first

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
