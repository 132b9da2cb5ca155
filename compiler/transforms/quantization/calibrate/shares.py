"""Calibration on a cluster: each worker shows shares of the samples to its own observers, whose states merge.

Results are equal to the bit to those of one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ....data import Samples
from ....engines import Runner, Wanted, Work
from ....engines.checkpoint import Checkpoint
from ....engines.sharing import Bar, Packed, halves, in_order, packed, shares_of, unpacked
from ....observers.state import State
from ....session import Session
from ....support.diagnostics import op_error
from ..decide.sites import graph_points
from .observing import Observation, observations, observe, passes
from .state import fingerprint, points_data, restore_all, states_of


class Model(NamedTuple):
    """A module with its points, and the states with which its observers begin."""

    module: Packed
    turn: int
    states: Sequence[State]
    runner: Runner


def observe_shares(
    module: ModuleOp,
    observed: Sequence[Observation],
    samples: Samples,
    digest: str,
    turn: int,
    session: Session,
    runner: Runner,
) -> None:
    """Shows all samples, with this digest, to the observers, on a cluster; a checkpoint keeps what they have seen.

    Raises CompileError like `observe`, of the first share that fails, and for observers whose merged states are not equal to
    that of one process.
    """
    assert runner.cluster is not None
    for each in observed:
        if each.observer.merging != "equal":
            name = each.points[0].observer.data
            hint = "run it without a cluster, or choose another observer: mse, minmax, percentile, kl, octav or ifmr"
            raise op_error(each.points[0], f"has the observer {name}, which depends on the order of the samples", hint)
    shares = shares_of(samples)
    states = [each.observer.state() for each in observed] if turn else []
    wanted = {value: Wanted() for each in observed for value in each.values}
    settled = runner.settled(Work(module, wanted, samples, _ignore, _ignore, session))
    here = replace(settled, cluster=None, checkpoint=None, threads=settled.threads or 1)
    key = (fingerprint(module), points_data(observed), digest, turn, settled.engine)
    checkpoint = Checkpoint.of(runner.checkpoint, lambda: key)
    merged, arrays = checkpoint.taken_up()
    if checkpoint.path is not None and merged:
        restore_all(observed, arrays, checkpoint.path)
    sizes = [share.count for share in shares]
    bar = Bar("calibrate", sizes[merged:], turn * samples.count + sum(sizes[:merged]), passes(observed) * samples.count)
    model = Model(packed(module, session, runner.cluster), turn, states, here)
    for found in in_order(runner.cluster, states_seen, model, shares[merged:], session, bar, halves):
        for seen in found:
            merge_states(observed, turn, seen)
        merged += 1
        checkpoint.keep(partial(states_of, observed), merged, last=merged == len(shares))


def _ignore(*_: object) -> None:
    """Does nothing: no work is done here, so there is nothing to see."""


def merge_states(observed: Sequence[Observation], turn: int, states: Sequence[State]) -> None:
    """Adds the states of a share."""
    for each, state in zip(observed, states, strict=True):
        if each.observer.passes > turn:
            other = each.fresh()
            other.observer.restore(state)
            with each.located():
                each.observer.merge(other.observer)


def states_seen(model: Model, share: Samples) -> list[State]:
    """The states of observers that saw a share, on a worker."""
    module, session = unpacked(model.module)
    points = [point for point in graph_points(module) if point.qparams is None]
    observed = observations(points, session)
    if model.turn:
        for each, state in zip(observed, model.states, strict=True):
            each.observer.restore(state)
    observe(module, observed, share, model.turn, session, model.runner)
    return [each.observer.state() for each in observed]
