"""Readers of a quantized value: the outputs of each, computed from some of the numbers that it reads.

These are bounded, spread over the runs, and the same ones each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from .....data import Samples
from .....dialects.nn import (
    AddOp,
    FusedOp,
    MovingOp,
    NNOp,
    ObserveOp,
    OpaqueOp,
    QParams,
    SubOp,
    UnaryOp,
    YieldOp,
    array_of,
    before_points,
)
from .....dialects.nn.fused import outside
from .....dialects.nn.shapes import shape_of
from .....engines import Runner
from .....engines.findings import Finding, State, show
from .....ir.array import Array
from .....rewriting import layer_of
from .....runtime.kernels import Kernel, kernel_for
from .....session import Session
from .....support.diagnostics import op_error
from ...calibrate.observing import in_batches
from ...profiles import Profile
from ..importance import Matters, matters_of
from ..round_weights.integer_layers import WEIGHT, IntegerLayer, integer_layers
from ..round_weights.prefixes import rounding_by
from ..round_weights.sums import some_of
from .places import Elements, Places, RowsOf, Whole


class UnknownError(Exception):
    """The outputs of a reader do not follow from the value alone; the text is the reason."""


class Reader(Protocol):
    """A layer that reads a value."""

    @property
    def op(self) -> Operation: ...

    @property
    def value(self) -> SSAValue:
        """The value that it reads, as the float network computes it."""
        ...

    @property
    def axis(self) -> int | None:
        """The axis of rows, along which those of batches are concatenated. None if the numbers of a batch belong together."""
        ...

    @property
    def places(self) -> Places:
        """The places from which its rows come."""
        ...

    def outputs(self, rows: Array) -> Array:
        """Computes the layer on rows, with its weight as quantized."""
        ...


@dataclass(frozen=True)
class _Product:
    """A layer with an integer weight. Rows are [G, R, K]: patches for a convolution."""

    layer: IntegerLayer
    value: SSAValue
    matters: Array
    """The importance of an error in each output channel: float64 [channels]."""
    axis: int | None = 1

    @property
    def op(self) -> Operation:
        return self.layer.compute

    @property
    def places(self) -> Places:
        groups, columns, _ = self._matrices.shape
        return RowsOf(self.layer.compute, groups * columns)

    def outputs(self, rows: Array) -> Array:
        return rows @ self._matrices

    @cached_property
    def _matrices(self) -> Array:
        """The weight matrices [G, K, M], output channels times the root of the weight of their squares."""
        matrices = self.layer.product.matrices(self.layer.operands()[WEIGHT]).swapaxes(1, 2)
        roots = np.sqrt(self.matters).reshape(-1, 1, matrices.shape[2])
        return np.asarray(matrices * roots, np.float32)


@dataclass(frozen=True)
class _Elements:
    """A function of single elements. Rows are elements."""

    op: Operation
    value: SSAValue
    kernel: Kernel
    axis: int | None = 0

    @property
    def places(self) -> Places:
        return Elements()

    def outputs(self, rows: Array) -> Array:
        return np.asarray(self.kernel(rows))


@dataclass(frozen=True)
class _Whole:
    """An operation of another kind, whose other operands are constants."""

    op: Operation
    value: SSAValue
    kernel: Kernel
    constants: Mapping[int, Array]
    axis: int | None = None

    @property
    def places(self) -> Places:
        return Whole()

    def outputs(self, rows: Array) -> Array:
        results = self.kernel(*(self.constants.get(i, rows) for i in range(len(self.op.operands))))
        parts = [results] if isinstance(results, np.ndarray) else results
        return np.concatenate([np.ravel(part) for part in parts])


@dataclass(frozen=True)
class Readers:
    """Finds readers in a module with these layers."""

    layers: Mapping[Operation, IntegerLayer]
    matters: Matters

    @staticmethod
    def in_module(module: ModuleOp, profile: Profile) -> Readers:
        """The readers in a module with plans. Raises CompileError, located at a layer, for a plan that does not fit it."""
        layers = {layer.compute: layer for layer in integer_layers(module, profile)}
        return Readers({**layers}, matters_of(module))

    def of(self, points: Collection[ObserveOp]) -> list[Reader]:
        """All readers of points that share their parameters. Raises UnknownError."""
        return [reader for point in points for reader in self._of(point.result, points)]

    def _of(self, value: SSAValue, points: Collection[ObserveOp]) -> Iterator[Reader]:
        for use in value.uses:
            match use.operation:
                case FusedOp() as region:
                    for inner in region.body.block.args[use.index].uses:
                        yield self._reader(inner.operation, inner.index, value)
                case ObserveOp() as point if point in points:
                    pass  # it rounds to the same numbers again
                case NNOp(is_passive=True) as op:
                    for result in op.results:
                        yield from self._of(result, points)
                case op:
                    yield self._reader(op, use.index, value)

    def _reader(self, op: Operation, index: int, value: SSAValue) -> Reader:
        read = before_points(value)
        if (layer := self.layers.get(op)) is not None and index == 0 and layer.plan.input:
            return _Product(layer, read, self.matters[layer.compute])
        moves = isinstance(op, ReturnOp | YieldOp | ObserveOp | MovingOp)
        adds = isinstance(op, AddOp | SubOp) and shape_of(value) == shape_of(op.results[0])
        if moves or adds:
            return _Elements(op, read, _same)
        if not isinstance(op, NNOp) or isinstance(op, OpaqueOp) or (kernel := kernel_for(op)) is None:
            raise UnknownError(f"{layer_of(op)} reads it, which is carried as it is")
        if isinstance(op, UnaryOp):
            return _Elements(op, read, kernel)
        constants = {i: a for i, v in enumerate(op.operands) if (a := array_of(outside(v))) is not None}
        if len(constants) < len(op.operands) - 1:
            raise UnknownError(f"{layer_of(op)} reads it together with another computed value")
        return _Whole(op, read, kernel, constants)


def _same(rows: Array) -> Array:
    return rows


NUMBERS = 1 << 18
"""Approximate number of elements that are kept for each reader."""


@dataclass
class Kept:
    """Rows that a reader reads. Those of different runs merge."""

    op: Operation
    """The reader."""
    places: Places
    runs: int
    """The number of all runs."""
    parts: list[Array] = field(default_factory=list[Array])
    picked: int = 0
    """The number of places that are kept, of all those in `present`."""
    present: int = 0

    def show(self, array: Array, run: int) -> None:
        if not np.isfinite(array).all():
            raise op_error(self.op, "has NaN or Inf in its input", "look for an overflow in the model or its data")
        count, numbers = self.places.counted(array)
        self.present += count
        if wanted := _due(NUMBERS / (self.runs * max(numbers, 1)), run):
            chosen = some_of(count, wanted, run)
            self.parts.append(self.places.rows(array, chosen))
            self.picked += chosen.size

    def state(self) -> State:
        parts = {f"{i:08}": part for i, part in enumerate(self.parts)}
        return {"counts": np.array([self.picked, self.present]), **parts}

    def merge(self, state: State) -> None:
        self.parts += [state[name] for name in sorted(state) if name != "counts"]
        self.picked += int(state["counts"][0])
        self.present += int(state["counts"][1])

    @property
    def numbers(self) -> int:
        return sum(part.size for part in self.parts)


def _due(each: float, run: int) -> int:
    """The number of places of a run that are kept, if it is `each` on average. If that is less than one, the first run has
    one.
    """
    rounded = round if each >= 1 else ceil
    return rounded((run + 1) * each) - rounded(run * each)


def kept_of(
    module: ModuleOp, readers: Sequence[Reader], samples: Samples, session: Session, runner: Runner
) -> list[Kept]:
    """The numbers that are kept for each reader, while the samples run through the module.

    Raises CompileError, located at a reader, for NaN and Inf.
    """
    samples = in_batches(module, (), samples)
    found = [Kept(reader.op, reader.places, samples.runs) for reader in readers]
    findings: dict[SSAValue, list[Finding]] = {}
    for reader, kept in zip(readers, found, strict=True):
        findings.setdefault(reader.value, []).append(kept)
    show(module, findings, samples, session, runner, "fit-ranges")
    return found


class Errors:
    """The errors of readers' outputs, on the numbers that are kept for them."""

    def __init__(self, readers: Sequence[Reader], kept: Sequence[Kept]):
        self._parts: list[tuple[Reader, Array, Array, float]] = []
        """Readers with the rows that they read, their outputs, and how many times as many there were."""
        for reader, each in zip(readers, kept, strict=True):
            parts = each.parts if reader.axis is None else [np.concatenate(each.parts, axis=reader.axis)]
            self._parts += [(reader, part, reader.outputs(part), each.present / each.picked) for part in parts]
        self.signal: float = sum(times * _energy(outputs) for _, _, outputs, times in self._parts)
        """The sum of squares of all outputs."""

    def __call__(self, params: QParams) -> float:
        """The sum of squares of all outputs' errors, if the value is rounded by these parameters."""
        on_grid = rounding_by(params)
        return sum(times * _energy(r.outputs(on_grid(rows)) - outputs) for r, rows, outputs, times in self._parts)


def _energy(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))
