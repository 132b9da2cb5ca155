"""Ranks of labels on a cluster: workers run the model over shares of the samples, and send the ranks of their labels."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..backends import cluster
from ..backends.sharing import Bar, Packed, in_order, packed, shares_of, unpacked
from ..diagnostics import CompileError
from ..runtime.data import Samples
from ..runtime.inputs import Runnable
from ..session import Session
from .engines import Engine, runnable
from .evaluation import Labels, Ranking, ranks, rows_per_sample


class _Model(NamedTuple):
    """A model, and what runs it. onnxruntime reads the file itself."""

    engine: Engine
    path: Path
    module: Packed


class _Judged(NamedTuple):
    """Samples and their labels."""

    samples: Samples
    labels: Labels


def shared_ranks(
    shared_by: str | cluster.Engine,
    engine: Engine,
    path: Path,
    module: ModuleOp,
    samples: Samples,
    labels: Labels,
    session: Session,
) -> Ranking:
    """The ranks of labels as `ranks` gives them, computed by the workers of a cluster.

    Raises CompileError like `ranks`, and if samples have different numbers of labels.
    """
    rows = rows_per_sample(samples)
    if rows * samples.count != len(labels.classes):
        message = (
            f"{len(labels.classes)} labels for {samples.count} samples: a cluster shares samples of as many labels each"
        )
        raise CompileError(message, where=labels.source, hint="leave out --cluster")
    shares = [_Judged(share, _labels_of(share, samples, rows, labels)) for share in shares_of(samples)]
    model = _Model(engine, path, packed(module, session))
    bar = Bar.of("measure", [share.samples.count for share in shares])
    found = list(in_order(shared_by, _ranked, model, shares, session, bar))
    return Ranking(np.concatenate([each.ranks for each in found]), found[-1].classes)


def _labels_of(share: Samples, samples: Samples, rows: int, labels: Labels) -> Labels:
    first = rows * (share.first - samples.first)
    return replace(labels, classes=labels.classes[first : first + rows * share.count], first=labels.first + first)


def _ranked(model: _Model, share: _Judged) -> Ranking:
    """On a worker: the ranks of a share's labels."""
    _, session = unpacked(model.module)
    return ranks(_runnable(model, get_ident()), share.samples, share.labels, session, threads=1)


@lru_cache(maxsize=16)
def _runnable(model: _Model, thread: int) -> Runnable:
    """What runs the model, made once by each thread."""
    module, session = unpacked(model.module)
    return runnable(model.engine, model.path, module, session)
