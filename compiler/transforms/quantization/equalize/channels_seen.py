"""Collects statistics of the channels that layers read, batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....backends import Runner, Wanted, Work
from ....diagnostics import op_error
from ....dialects.nn import NNOp
from ....runtime.data import Samples
from ....session import Session
from ..balance_channels.input_channels import Weighted, activation_axis
from ..sites import Site
from .costs import Seen

Array = np.ndarray[Any, np.dtype[Any]]

ROWS = 256
"""Rows that are kept of each input, from all batches alike."""


def channels_seen(
    module: ModuleOp, layers: Sequence[Site], samples: Samples, session: Session, runner: Runner
) -> dict[NNOp, Seen]:
    """The range of each input channel of each layer, and rows of its input, while the samples run through the model.

    Raises CompileError, located at a layer, for NaN or Inf in its input.
    """
    watched: dict[SSAValue, dict[int, list[Site]]] = {}
    for site in layers:
        value = site.activation
        assert value is not None, "links are between layers that read from outside"
        watched.setdefault(value, {}).setdefault(activation_axis(cast(Weighted, site.compute)), []).append(site)
    kept = max(1, ROWS // samples.runs)
    found: dict[tuple[SSAValue, int], Seen] = {}

    def watch(value: SSAValue, array: Array) -> None:
        for axis, sites in watched[value].items():
            before = found.get((value, axis))
            seen = _seen(array, axis, kept if before is None else min(kept, max(0, ROWS - len(before.rows))))
            if not np.isfinite(seen.low + seen.high).all():
                hint = "look for an overflow in the model or its data"
                raise op_error(sites[0].compute, "has an input whose values hold NaN or Inf", hint)
            found[value, axis] = seen if before is None else before.joined(seen)

    done = count(1)

    def tell() -> None:
        session.progress("equalize", next(done), samples.runs)

    runner.run(Work(module, dict.fromkeys(watched, Wanted()), samples, watch, tell, session))
    return {
        site.compute: found[value, axis]
        for value, axes in watched.items()
        for axis, sites in axes.items()
        for site in sites
    }


def _seen(array: Array, axis: int, kept: int) -> Seen:
    """The statistics of one batch; rows are picked from a seed."""
    rows = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    picked = np.random.default_rng(0).choice(len(rows), min(kept, len(rows)), replace=False)
    low, high = rows.min(axis=0, initial=0).astype(np.float64), rows.max(axis=0, initial=0).astype(np.float64)
    return Seen(low, high, rows[picked].astype(np.float32))
