"""Cuts inputs from a file into runs of a model, and joins the outputs of these runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from ..ir.array import Array
from ..ir.dtypes import Tensor, numpy_dtype
from ..ir.functions import input_names
from ..support.diagnostics import CompileError
from . import Form, Preprocess, Samples, load_arrays, load_samples, takes_whole_inputs
from .samples import fits


@dataclass(frozen=True)
class Runs:
    """Inputs of one or several runs. Results of several runs are joined along their first axis.

    `stacked`: each run took one entry of an axis that the model's inputs do not have, so results get that axis too.
    """

    inputs: Sequence[Mapping[str, Array]]
    stacked: bool = False


def load_runs(
    path: Path,
    function: FuncOp,
    batch: int | None = None,
    preprocess: Preprocess | None = None,
    count: int | None = None,
) -> Runs:
    """The runs of a model for the arrays in a file (.npz, .npy, or a folder of .npy), or for images in a folder.

    Arrays that have the inputs' shapes are one run. Otherwise their first axis counts samples, and a run takes as many as
    the size of the model's first axis. `batch` cuts the first axis into runs of that size if the model accepts any. With
    `count`, the first axis always counts samples, and only the first `count` of them are taken.
    Raises CompileError, located in the file: unknown and missing names, other shapes and types, too few samples, NaN.
    """
    if preprocess is not None or count is not None:
        samples = load_samples(path, function, Form(image=preprocess))
        return _cut(samples if count is None else samples.head(count), batch)
    types = dict(zip(input_names(function), (cast(Tensor, a.type) for a in function.body.block.args), strict=True))
    arrays = load_arrays(path, types)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise CompileError(f"input '{name}' holds NaN", where=str(path))
    if batch is None and arrays.keys() == types.keys() and all(_fits(arrays[n], t) for n, t in types.items()):
        return Runs([{n: _converted(arrays[n], t) for n, t in types.items()}])
    return _cut(load_samples(path, function), batch)


def _fits(array: Array, type_: Tensor) -> bool:
    return fits(array.shape, type_.get_shape()) and array.dtype == numpy_dtype(type_.element_type)


def _converted(array: Array, type_: Tensor) -> Array:
    return np.require(array, requirements=("C", "A")).astype(numpy_dtype(type_.element_type), copy=False)


def _cut(samples: Samples, batch: int | None) -> Runs:
    stacked = any(takes_whole_inputs(samples.rows[n], t) for n, t in samples.types.items())
    free = not stacked and all(t.get_shape()[0] == DYNAMIC_INDEX for t in samples.types.values())
    if batch is not None and not free and batch != samples.batch_size:
        raise CompileError(f"the model takes {samples.batch_size} samples per run, not {batch}", where=samples.source)
    step = (batch or samples.count) if free else samples.batch_size
    if samples.count % step and not free:
        raise CompileError(f"{samples.count} samples do not make whole runs of {step}", where=samples.source)
    parts = [(start, min(step, samples.count - start)) for start in range(0, samples.count, step)]
    return Runs([{name: samples.take(name, *part) for name in samples.rows} for part in parts], stacked)


class Runnable(Protocol):
    """Runs a model: an `Executable`, a file in onnxruntime, a module in IREE. Threads may call `run` at the same time."""

    def run(self, inputs: Mapping[str, Array], /) -> dict[str, Array]:
        """Arrays by output name, in the order of the outputs, for arrays by input name."""
        ...


def run_all(executable: Runnable, runs: Runs) -> dict[str, Array]:
    """The results of all runs, joined. Raises RunError, located, if a run fails or results do not join."""
    return joined([executable.run(inputs) for inputs in runs.inputs], stacked=runs.stacked)


def joined(results: Iterable[Mapping[str, Array]], *, stacked: bool = False) -> dict[str, Array]:
    """Results of several runs, by output name, joined along the first axis (along a new one if `stacked`)."""
    rows = list(results)
    if len(rows) == 1 and not stacked:
        return dict(rows[0])
    outputs: dict[str, Array] = {}
    for name in rows[0]:
        parts = [row[name] for row in rows]
        together = np.stack if stacked or parts[0].ndim == 0 else np.concatenate
        try:
            outputs[name] = together(parts)
        except ValueError:
            shapes = sorted({str(list(p.shape)) for p in parts})
            raise CompileError(f"output '{name}' changes its shape from run to run: {', '.join(shapes)}") from None
    return outputs
