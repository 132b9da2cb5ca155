"""Data that runs through a model: calibration samples from files, in batches that fit the model's inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from ..diagnostics import CompileError
from ..dialects.nn import GatherOp
from ..dtypes import Tensor, is_float, numpy_dtype
from ..functions import input_names

Array = np.ndarray[Any, np.dtype[Any]]

_HASH_CHUNK = 1 << 24


def load_arrays(path: Path) -> dict[str, Array]:
    """Arrays by name from an `.npz` file, or from a folder with one `.npy` file per name (mapped, not read).

    Raises CompileError, located in the file, for anything else; pickled objects are refused.
    """
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if not files:
            raise CompileError("holds no .npy file", where=str(path))
        with _reading(path):
            return {f.stem: np.load(f, mmap_mode="r", allow_pickle=False) for f in files}
    if not path.exists():
        raise CompileError("there is no such file", where=str(path))
    with _reading(path), path.open("rb") as stream:
        archive = np.load(stream, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            return {name: archive[name] for name in archive.files}
    raise CompileError("is no .npz archive", where=str(path), hint="save with np.savez(path, input_name=array)")


@contextmanager
def _reading(path: Path) -> Generator[None]:
    try:
        yield
    except Exception as e:  # numpy and zipfile raise half a dozen types for a damaged file
        raise CompileError(f"cannot be read: {e}", where=str(path)) from None


@dataclass(frozen=True)
class Samples:
    """Samples for every input of a model: arrays whose first axis counts samples.

    `source` is where they came from, for messages; `synthetic` says that nobody gave them.
    """

    arrays: Mapping[str, Array]
    types: Mapping[str, Tensor]
    count: int
    source: str
    synthetic: bool = False

    def batches(self) -> Iterator[dict[str, Array]]:
        """Runs of the model: as many samples at a time as its inputs ask for, one where they take any number.

        A last batch that is not full is filled up with the samples before it. Raises CompileError for NaN or Inf.
        """
        step = self.batch_size
        for start in range(0, self.count, step):
            first = max(0, min(start, self.count - step))
            yield {name: self._take(name, first, step) for name in self.arrays}

    @property
    def batch_size(self) -> int:
        """Samples per run."""
        sizes = {_batch(self.arrays[n], t) for n, t in self.types.items()} - {None}
        return cast(int, sizes.pop()) if sizes else 1

    @property
    def runs(self) -> int:
        return -(-self.count // self.batch_size)

    def _take(self, name: str, first: int, step: int) -> Array:
        array, type_ = self.arrays[name], self.types[name]
        part = np.ascontiguousarray(array[first : first + step])
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise CompileError(f"input '{name}' holds NaN or Inf in sample {first}", where=self.source)
        whole = part[0] if array.ndim == len(type_.get_shape()) + 1 else part
        return whole.astype(numpy_dtype(type_.element_type), copy=False)

    def head(self, count: int) -> Samples:
        """The first `count` samples."""
        return self._part(slice(0, count))

    def tail(self, count: int) -> Samples:
        """The last `count` samples."""
        return self._part(slice(self.count - count, None))

    def _part(self, part: slice) -> Samples:
        arrays = {name: array[part] for name, array in self.arrays.items()}
        count = len(range(*part.indices(self.count)))
        return Samples(arrays, self.types, count, self.source, self.synthetic)

    def digest(self) -> str:
        """SHA-256 over names, types, shapes and bytes, as hex."""
        state = hashlib.sha256()
        for name in sorted(self.arrays):
            array = self.arrays[name]
            state.update(f"{name} {array.dtype} {array.shape}\n".encode())
            rows = max(1, _HASH_CHUNK // max(1, array.nbytes // max(1, len(array))))
            for start in range(0, len(array), rows):
                state.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
        return state.hexdigest()


def _batch(array: Array, type_: Tensor) -> int | None:
    """Samples per run that an input asks for; None when it takes any number."""
    shape = type_.get_shape()
    if array.ndim == len(shape) + 1:
        return 1
    return None if shape[0] == DYNAMIC_INDEX else shape[0]


def load_samples(path: Path, function: FuncOp) -> Samples:
    """Samples for the inputs of a model. Raises CompileError for missing or unknown inputs, shapes and types that do not fit.

    Integers of another width are converted when they fit, float64 is rounded to the input's type; nothing else is.
    """
    arrays = load_arrays(path)
    types = _input_types(function)
    where = str(path)
    if missing := [n for n in types if n not in arrays]:
        given = ", ".join(arrays) or "nothing"
        raise CompileError(f"no data for input {', '.join(missing)}", where=where, hint=f"the file holds {given}")
    if unknown := [n for n in arrays if n not in types]:
        hint = f"the inputs are {', '.join(types)}"
        raise CompileError(f"the model has no input {', '.join(unknown)}", where=where, hint=hint)
    for name, type_ in types.items():
        _check(name, arrays[name], type_, where)
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise CompileError(f"inputs have different numbers of samples ({listed})", where=where)
    samples = Samples(arrays, types, next(iter(counts.values())), where)
    sizes = {n: b for n, t in types.items() if (b := _batch(arrays[n], t)) is not None}
    if len(set(sizes.values())) > 1:
        raise CompileError(f"inputs take different numbers of samples per run ({sizes})", where=where)
    if samples.count < samples.batch_size:
        raise CompileError(f"{samples.count} samples, the model takes {samples.batch_size} at a time", where=where)
    return samples


def _input_types(function: FuncOp) -> dict[str, Tensor]:
    types = [cast(Tensor, a.type) for a in function.body.block.args]
    if not types:
        raise CompileError("the model has no inputs")
    return dict(zip(input_names(function), types, strict=True))


def _check(name: str, array: Array, type_: Tensor, where: str) -> None:
    shape = type_.get_shape()
    sample, wanted = array.shape[1:], shape if array.ndim == len(shape) + 1 else shape[1:]
    listed = f"input '{name}' has shape {list(array.shape)}, the model takes {type_}"
    if array.ndim == 0 or array.ndim not in (len(shape), len(shape) + 1):
        raise CompileError(f"{listed} per run", where=where, hint="the first axis counts samples")
    if any(w not in (DYNAMIC_INDEX, s) for s, w in zip(sample, wanted, strict=True)):
        raise CompileError(f"{listed} per run", where=where, hint="the first axis counts samples")
    if array.size == 0:
        raise CompileError(f"input '{name}' is empty", where=where)
    dtype = numpy_dtype(type_.element_type)
    fits = array.dtype == dtype or (
        (array.dtype.kind == "f" and is_float(type_.element_type))
        or (array.dtype.kind in "iu" and dtype.kind in "iu" and _in_range(array, dtype))
    )
    if not fits:
        raise CompileError(f"input '{name}' is of {array.dtype}, the model takes {dtype}", where=where)


def _in_range(array: Array, dtype: np.dtype[Any]) -> bool:
    info = np.iinfo(dtype)
    return bool(array.min() >= info.min and array.max() <= info.max)


SYNTHETIC_SAMPLES = 8
_DYNAMIC_SIZE = 8


def synthetic_samples(function: FuncOp, seed: int = 0, count: int = SYNTHETIC_SAMPLES) -> Samples:
    """Seeded inputs for a model that came without data: standard normal floats, integers that its gathers accept.

    Unknown sizes become 8, the first axis 1 (the batch).
    """
    random = np.random.default_rng(seed)
    types = _input_types(function)
    arrays: dict[str, Array] = {}
    for i, (name, type_) in enumerate(types.items()):
        shape = _concrete(type_.get_shape())
        dtype = numpy_dtype(type_.element_type)
        if is_float(type_.element_type):
            arrays[name] = random.standard_normal((count, *shape)).astype(dtype)
        else:
            limit = _integer_limit(function, i)
            arrays[name] = random.integers(0, limit, (count, *shape)).astype(dtype)
    return Samples(arrays, types, count, "synthetic data", synthetic=True)


def _concrete(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple((1 if i == 0 else _DYNAMIC_SIZE) if d == DYNAMIC_INDEX else d for i, d in enumerate(shape))


def _integer_limit(function: FuncOp, index: int) -> int:
    """One more than the largest integer that is safe to feed: the size of the tables that the input indexes, 2 without any."""
    limits: list[int] = []
    for use in function.body.block.args[index].uses:
        if isinstance(use.operation, GatherOp) and use.index == 1:
            gather = use.operation
            limits.append(cast(Tensor, gather.input.type).get_shape()[gather.axis.value.data])
    known = [n for n in limits if n != DYNAMIC_INDEX]
    return min(known, default=2)
