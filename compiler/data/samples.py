"""Samples for all inputs of a model, cut into batches that fit them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from ..dialects.nn.shapes import text
from ..ir.dtypes import Tensor, is_float, numpy_dtype
from ..ir.functions import input_names
from ..support.diagnostics import CompileError
from ..support.tables import listed
from .stored import Array, Rows, WholeRows

_HASH_CHUNK = 1 << 24
"""The number of bytes to read at a time for the hash."""
BLOCK = 64
"""Number of samples that are hashed together, so that workers can hash different ones."""


@dataclass(frozen=True)
class Samples:
    """Samples for every input of a model, read while they run.

    `source` is their origin, for messages; `synthetic` marks generated data; `first` and `count` are the part of
    the rows to use; `at_a_time` samples make a run if the inputs accept any number.
    """

    rows: Mapping[str, Rows]
    types: Mapping[str, Tensor]
    count: int
    source: str
    synthetic: bool = False
    first: int = 0
    at_a_time: int = 1
    skipped: tuple[CompileError, ...] = ()
    """The errors of files of the data that were left out."""
    hashes: list[bytes] = field(init=False, default_factory=list[bytes], compare=False, repr=False)
    """The hashes of all blocks, once they are known."""

    def batches(self) -> Iterator[dict[str, Array]]:
        """Runs of the model: as many samples at a time as its inputs require.

        If the inputs require a number, an incomplete last batch is filled up with the samples before it. Raises
        CompileError, located, for NaN or Inf and for integers beyond the input's type.
        """
        step, asked = self.batch_size, self._asked_for
        for start in range(0, self.count, step):
            size = min(step, self.count - start) if asked is None else asked
            first = max(0, min(start, self.count - size))
            batch = {name: self.take(name, first, size) for name in self.rows}
            for name, array in batch.items():
                self._check_finite(name, first, array)
            yield batch

    @property
    def batch_size(self) -> int:
        """Samples per run."""
        asked = self._asked_for
        return self.at_a_time if asked is None else asked

    @cached_property
    def _asked_for(self) -> int | None:
        """The number of samples that the inputs require, None if they take any number."""
        sizes = {samples_per_run(self.rows[n], t) for n, t in self.types.items()} - {None}
        return cast(int, sizes.pop()) if sizes else None

    @property
    def runs(self) -> int:
        return -(-self.count // self.batch_size)

    @property
    def total(self) -> int:
        """The number of samples; where one is a whole input, as many as its first axis has, which may count samples."""
        whole = [rows for name, rows in self.rows.items() if takes_whole_inputs(rows, self.types[name])]
        sizes = [rows.read(self.first, self.first + 1).shape[1] for rows in whole if len(rows.shape) > 1]
        return self.count * min(sizes, default=1)

    def take(self, name: str, start: int, count: int) -> Array:
        """Samples of an input, in its type. Raises CompileError, located, for integers beyond its type."""
        rows, type_ = self.rows[name], self.types[name]
        first = self.first + start
        part = np.require(rows.read(first, first + count), requirements=("C", "A"))
        whole = part[0, ...] if takes_whole_inputs(rows, type_) else part
        return converted(whole, type_, f"input '{name}' of sample {first}", rows.place(first))

    def _check_finite(self, name: str, start: int, array: Array) -> None:
        if not is_float(self.types[name].element_type) or (finite := np.isfinite(array)).all():
            return
        index = [int(i) for i in np.argwhere(~finite)[0]]
        sample = self.first + start
        if not takes_whole_inputs(self.rows[name], self.types[name]):
            sample, index = sample + index[0], index[1:]
        where = self.rows[name].place(sample)
        wanted = numpy_dtype(self.types[name].element_type)
        what = "NaN or Inf" if self.rows[name].dtype == wanted else f"NaN, Inf or more than {wanted} does"
        raise CompileError(f"input '{name}' holds {what} in sample {sample}, at {index}", where=where)

    def head(self, count: int) -> Samples:
        """The first `count` samples. Raises CompileError if there are fewer."""
        if count > self.count:
            raise CompileError(f"holds {self.count} samples, not {count}", where=self.source)
        return replace(self, count=count)

    def tail(self, count: int) -> Samples:
        """The last `count` samples."""
        return replace(self, first=self.first + self.count - count, count=count)

    def arrays(self) -> dict[str, Array]:
        """Gets all samples into memory, if those of an input have one shape."""
        return {name: rows.read(self.first, self.first + self.count) for name, rows in self.rows.items()}

    def digest(self) -> str:
        """SHA-256 over the given names, types, shapes and bytes, as hex. Bytes are read once, unless others filled `hashes`."""
        if not self.hashes:
            self.hashes.extend(self.block_hashes())
        state = hashlib.sha256()
        for name, rows in sorted(self.rows.items()):
            state.update(f"{name} {rows.dtype} {(self.count, *rows.shape[1:])}\n".encode())
        return hashlib.sha256(state.digest() + b"".join(self.hashes)).hexdigest()

    def block_hashes(self) -> Iterator[bytes]:
        """SHA-256 over the bytes of each `BLOCK` samples, one input after the other."""
        for first in range(self.first, self.first + self.count, BLOCK):
            state = hashlib.sha256()
            for _, rows in sorted(self.rows.items()):
                for part in _read(rows, first, min(first + BLOCK, self.first + self.count)):
                    if -1 in rows.shape:
                        state.update(f"{part.shape}\n".encode())
                    state.update(np.ascontiguousarray(part).tobytes())
            yield state.digest()


def _read(rows: Rows, start: int, stop: int) -> Iterator[Array]:
    """Yields rows of `_HASH_CHUNK` bytes at a time; one by one if their sizes differ."""
    step = 1 if -1 in rows.shape else max(1, _HASH_CHUNK // max(1, math.prod(rows.shape[1:]) * rows.dtype.itemsize))
    for i in range(start, stop, step):
        yield rows.read(i, min(i + step, stop))


def input_types(function: FuncOp) -> dict[str, Tensor]:
    """The types of a model's inputs, by name. Raises CompileError for a model without inputs."""
    types = [cast(Tensor, a.type) for a in function.body.block.args]
    if not types:
        raise CompileError("the model has no inputs")
    return dict(zip(input_names(function), types, strict=True))


_BY_FUNCTION = "for whole inputs, write a Python function that yields a dict of them for each run: FILE.py:FUNCTION"
"""A hint: the form of data that fits every model."""


def samples_of(rows: Mapping[str, Rows], types: Mapping[str, Tensor], source: str) -> Samples:
    """Raises CompileError for missing or unknown inputs, and for shapes, types and numbers that do not fit.

    Arrays with different first axes and the inputs' shapes are the data of one run, if the model knows the first size of
    one of them, or that it has no axes. Integers of another width are converted when they fit, float64 is rounded to the input's
    type; nothing else is.
    """
    if missing := [n for n in types if n not in rows]:
        given = listed(rows) or "nothing"
        raise CompileError(f"no data for input {listed(missing)}", where=source, hint=f"the data is for {given}")
    if unknown := [n for n in rows if n not in types]:
        hint = f"the inputs are {listed(types)}"
        raise CompileError(f"the model has no input {listed(unknown)}", where=source, hint=hint)
    if len({each.shape[:1] for each in rows.values()}) > 1 and _are_inputs(rows, types):
        rows = {name: WholeRows(each) for name, each in rows.items()}
    for name, type_ in types.items():
        _check(name, rows[name], type_, source)
    counts = {name: each.shape[0] for name, each in rows.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise CompileError(f"inputs have different numbers of samples ({shown})", where=source, hint=_BY_FUNCTION)
    samples = Samples(rows, types, next(iter(counts.values())), source)
    sizes = {n: b for n, t in types.items() if (b := samples_per_run(rows[n], t)) is not None}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{n}: {b}" for n, b in sizes.items())
        raise CompileError(
            f"inputs take different numbers of samples per run ({shown})", where=source, hint=_BY_FUNCTION
        )
    if samples.count < samples.batch_size:
        raise CompileError(f"{samples.count} samples, but the model takes {samples.batch_size} at a time", where=source)
    return samples


def _are_inputs(rows: Mapping[str, Rows], types: Mapping[str, Tensor]) -> bool:
    """Whether arrays are whole inputs, and not samples of them."""
    shapes = {name: tuple(type_.get_shape()) for name, type_ in types.items()}
    fit = all(
        len(rows[n].shape) == len(shape)
        and all(d in (DYNAMIC_INDEX, size) for d, size in zip(shape, rows[n].shape, strict=True))
        for n, shape in shapes.items()
    )
    return fit and any(shape[:1] != (DYNAMIC_INDEX,) for shape in shapes.values())


def takes_whole_inputs(rows: Rows, type_: Tensor) -> bool:
    """Whether a sample is a whole input, so that one makes a run."""
    return len(rows.shape) == len(type_.get_shape()) + 1


def samples_per_run(rows: Rows, type_: Tensor) -> int | None:
    """The samples per run that an input requires; None if it accepts any number."""
    if takes_whole_inputs(rows, type_):
        return 1
    first = type_.get_shape()[0]
    return None if first == DYNAMIC_INDEX else first


def _check(name: str, rows: Rows, type_: Tensor, where: str) -> None:
    shape, given = type_.get_shape(), rows.shape
    shown = f"input '{name}' has shape {list(given)}, but the model takes {text(shape)} per run"
    counts = f"the first axis counts samples; {_BY_FUNCTION}"
    if given and shape[:1] in ((DYNAMIC_INDEX,), (1,)) and fits(given, shape[1:]):
        hint = f"this is one sample, without an axis that counts samples: np.savez(path, {name}=array[None])"
        raise CompileError(shown, where=where, hint=hint)
    if not given or len(given) not in (len(shape), len(shape) + 1):
        raise CompileError(shown, where=where, hint=counts)
    wanted = shape if takes_whole_inputs(rows, type_) else shape[1:]
    if not fits(given[1:], wanted):
        moved = sorted(given[1:]) == sorted(wanted)
        hint = "the axes come in another order: transpose the data" if moved else counts
        raise CompileError(shown, where=where, hint=hint)
    if not given[0]:
        raise CompileError(f"input '{name}' is empty", where=where)
    check_type(name, rows.dtype, type_, where)


def fits(given: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether sizes are those of a type, which may leave some open."""
    return len(given) == len(wanted) and all(w in (DYNAMIC_INDEX, s) for s, w in zip(given, wanted, strict=True))


def check_type(name: str, given: np.dtype[Any], type_: Tensor, where: str) -> None:
    """Raises CompileError, located, for elements of a kind that the input does not accept."""
    dtype = numpy_dtype(type_.element_type)
    both_float = given.kind == "f" and is_float(type_.element_type)
    both_integer = given.kind in "iu" and dtype.kind in "iu"
    if not (given == dtype or both_float or both_integer):
        pixels = "scale pixels as in training, such as (array.astype(np.float32) / 255 - mean) / std, or give a folder of photos"
        hint = pixels if given == np.uint8 else ""
        raise CompileError(f"input '{name}' is of {given}, but the model takes {dtype}", where=where, hint=hint)


def converted(array: Array, type_: Tensor, what: str, where: str) -> Array:
    """An array with an input's element type. Raises CompileError, located, for integers beyond that type."""
    dtype = numpy_dtype(type_.element_type)
    if dtype.kind in "iu" and not np.can_cast(array.dtype, dtype) and array.size:
        low, high, info = array.min(), array.max(), np.iinfo(dtype)
        if low < info.min or high > info.max:
            raise CompileError(f"{what} is of {array.dtype}, {low} to {high}; but the model takes {dtype}", where=where)
    with np.errstate(over="ignore"):  # values beyond the range become Inf
        return array.astype(dtype, copy=False)
