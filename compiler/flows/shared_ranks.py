"""Ranks of labels on a cluster: workers run the model over shares of the samples, and send the ranks of their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..data import Samples
from ..data.inputs import Runnable
from ..engines import cluster
from ..engines.checkpoint import Checkpoint
from ..engines.data_hash import digest_of
from ..engines.sharing import Bar, Packed, halves, in_order, packed, shares_of, unpacked
from ..session import Session
from ..support.diagnostics import CompileError
from .evaluation import Labels, Ranking, ranks, rows_per_sample
from .runnable import runnable


class _Model(NamedTuple):
    """A model, and the engine that runs it. onnxruntime reads the file itself."""

    engine: str
    path: Path
    module: Packed


class _Judged(NamedTuple):
    """Samples and their labels."""

    samples: Samples
    labels: Labels


def shared_ranks(
    shared_by: str | cluster.Workers,
    engine: str,
    path: Path,
    module: ModuleOp,
    samples: Samples,
    labels: Labels,
    session: Session,
    folder: Path | None = None,
) -> Ranking:
    """The ranks of labels as `ranks` gives them, computed by the workers of a cluster; `folder` keeps those found so far.

    Raises CompileError like `ranks`, and if samples have different numbers of labels.
    """
    rows = rows_per_sample(samples)
    if rows * samples.count != len(labels.classes):
        message = (
            f"{len(labels.classes)} labels for {samples.count} samples: a cluster shares samples of as many labels each"
        )
        raise CompileError(message, where=labels.source, hint="leave out --cluster")
    shares = [_Judged(share, _labels_of(share, samples, rows, labels)) for share in shares_of(samples)]
    model = _Model(engine, path, packed(module, session, shared_by))
    checkpoint = Checkpoint.of(
        folder, lambda: _key(model, labels, digest_of(samples, session, shared_by), samples.batch_size)
    )
    merged, kept = checkpoint.taken_up()
    found = [Ranking(kept["ranks"], int(kept["classes"][0]))] if kept else list[Ranking]()
    sizes = [share.samples.count for share in shares]
    bar = Bar("measure", sizes[merged:], sum(sizes[:merged]), samples.count)
    for each in in_order(shared_by, _ranked, model, shares[merged:], session, bar, _halves):
        found += each
        merged += 1
        checkpoint.keep(partial(_arrays, found), merged, last=merged == len(shares))
    return _joined(found)


def _key(model: _Model, labels: Labels, data: str, batch_size: int) -> Sequence[object]:
    """The data that ranks depend on."""
    classes = hashlib.sha256(labels.classes.tobytes()).hexdigest()
    return model.engine, model.path.name, model.module.digest, classes, data, batch_size


def _joined(found: Sequence[Ranking]) -> Ranking:
    return Ranking(np.concatenate([each.ranks for each in found]), found[-1].classes)


def _arrays(found: Sequence[Ranking]) -> Mapping[str, np.ndarray[Any, Any]]:
    joined = _joined(found)
    return {"ranks": joined.ranks, "classes": np.array([joined.classes])}


def _labels_of(share: Samples, samples: Samples, rows: int, labels: Labels) -> Labels:
    first = rows * (share.first - samples.first)
    return replace(labels, classes=labels.classes[first : first + rows * share.count], first=labels.first + first)


def _halves(share: _Judged) -> Sequence[_Judged]:
    """A share in two. Raises CompileError for a single run of the model."""
    samples, labels = share
    rows = len(labels.classes) // samples.count
    return [_Judged(part, _labels_of(part, samples, rows, labels)) for part in halves(samples)]


def _ranked(model: _Model, share: _Judged) -> Ranking:
    """Ranks a share's labels on a worker."""
    _, session = unpacked(model.module)
    return ranks(_runnable(model, get_ident()), share.samples, share.labels, session, threads=1)


@lru_cache(maxsize=16)
def _runnable(model: _Model, thread: int) -> Runnable:
    """Makes a runnable of the model, once for each thread."""
    module, session = unpacked(model.module)
    return runnable(model.engine, model.path, module, session)
