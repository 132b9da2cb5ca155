"""Batches that a program yields, kept in an unnamed file so that they can be run more than once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from ..dialects.nn.shapes import text
from ..ir.dtypes import Tensor, numpy_dtype
from ..support.diagnostics import CompileError
from ..support.files import spooling
from .samples import Samples, check_type, converted, input_types, samples_of
from .script import load_script, running
from .stored import Array, forget

Batch = Mapping[str, Any] | Array
"""Arrays by input, or an array for the only input; shapes are those of the inputs."""


def from_batches(
    batches: Iterable[Batch], function: FuncOp, source: str = "batches", runs: int | None = None
) -> Samples:
    """Samples of a model from batches, one run each; only the first `runs` if given.

    Each is read once and written to a temporary file, so that a generator suffices for any observer. Raises CompileError
    for batches that do not fit the inputs, and for none at all.
    """
    with closing(Spool(function, source)) as spool:
        for batch in islice(batches, runs):
            spool.add(batch)
        return spool.samples()


def from_script(path: Path, name: str, function: FuncOp, runs: int | None = None) -> Samples:
    """Samples from what the function `name` of a Python file returns or yields. The file is executed.

    Raises CompileError, located in the file, if it raises, or for batches that do not fit.
    """
    found = load_script(path).get(name)
    if not callable(found):
        raise CompileError(f"defines no function '{name}'", where=str(path))
    with running(path):
        batches: Any = found()
        if not _are_batches(batches):
            hint = "return a list of batches, or yield them"
            raise CompileError(f"'{name}' gives {type(batches).__name__}, not batches", where=str(path), hint=hint)
        return from_batches(cast("Iterable[Batch]", batches), function, f"{path}:{name}", runs)


def _are_batches(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, Mapping | np.ndarray)


class Spool:
    """Collects batches on disk."""

    def __init__(self, function: FuncOp, source: str):
        self.types: dict[str, Tensor] = input_types(function)
        self.source = source
        self.count: int = 0
        with spooling():
            self._files = {name: tempfile.TemporaryFile() for name in self.types}  # noqa: SIM115
        self._shapes: dict[str, list[tuple[int, ...]]] = {name: [] for name in self.types}

    def fitting(self, batch: Batch) -> dict[str, Array]:
        """A batch in the model's types. Raises CompileError if it does not fit."""
        where = f"{self.source}, batch {self.count}"
        given = self._by_name(batch, where)
        if given.keys() != self.types.keys():
            listed, wanted = ", ".join(map(str, given)), ", ".join(self.types)
            raise CompileError(f"has arrays for {listed or 'nothing'}; the inputs are {wanted}", where=where)
        return {name: _fitting(name, np.asarray(given[name]), type_, where) for name, type_ in self.types.items()}

    def _by_name(self, batch: Batch, where: str) -> Mapping[str, Any]:
        if isinstance(batch, Mapping):
            return batch
        if len(self.types) > 1:
            raise CompileError(f"is {type(batch).__name__}, not arrays by name", where=where)
        return dict.fromkeys(self.types, batch)

    def add(self, batch: Batch) -> None:
        """Keeps a batch. Raises CompileError if it does not fit."""
        for name, array in self.fitting(batch).items():
            with spooling():
                self._files[name].write(array.tobytes())
            self._shapes[name].append(array.shape)
        self.count += 1

    def samples(self) -> Samples:
        """The added batches, which outlive the spool. Raises CompileError if there are none."""
        if not self.count:
            raise CompileError("gave no batch", where=self.source)
        return samples_of({name: self._rows(name) for name in self.types}, self.types, self.source)

    def _rows(self, name: str) -> SpooledRows:
        file, shapes, dtype = self._files[name], self._shapes[name], numpy_dtype(self.types[name].element_type)
        with spooling():
            file.flush()
        offsets = np.cumsum([0, *(int(np.prod(s)) for s in shapes)]) * dtype.itemsize
        return SpooledRows(np.memmap(file, np.uint8, "r"), shapes, offsets, dtype, self.source)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


@dataclass(frozen=True)
class SpooledRows:
    """Whole inputs, one after the other in mapped memory."""

    memory: Array
    shapes: list[tuple[int, ...]]
    offsets: Array
    """Offsets of each input's first byte, and of the end."""
    dtype: np.dtype[Any]
    source: str

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = (set(each) for each in zip(*self.shapes, strict=True))
        return (len(self.shapes), *(each.pop() if len(each) == 1 else -1 for each in sizes))

    def read(self, start: int, stop: int) -> Array:
        forget(self.memory)
        return np.stack([self._input(i) for i in range(start, stop)])

    def part(self, start: int, stop: int) -> SpooledRows:
        """Copies some of the inputs to memory of their own."""
        forget(self.memory)
        offsets = self.offsets[start : stop + 1]
        memory = np.array(self.memory[offsets[0] : offsets[-1]])
        return SpooledRows(memory, self.shapes[start:stop], offsets - offsets[0], self.dtype, self.source)

    def _input(self, index: int) -> Array:
        part = self.memory[self.offsets[index] : self.offsets[index + 1]]
        return part.view(self.dtype).reshape(self.shapes[index])

    def place(self, index: int) -> str:
        return f"{self.source}, batch {index}"


def _fitting(name: str, array: Array, type_: Tensor, where: str) -> Array:
    shape = type_.get_shape()
    fits = array.ndim == len(shape) and all(w in (DYNAMIC_INDEX, n) for n, w in zip(array.shape, shape, strict=True))
    if not fits:
        raise CompileError(
            f"input '{name}' has shape {list(array.shape)}, but the model takes {text(shape)}", where=where
        )
    if 0 in array.shape[:1]:
        raise CompileError(f"input '{name}' is empty", where=where)
    check_type(name, array.dtype, type_, where)
    return converted(array, type_, f"input '{name}'", where)
