"""What reads a quantized value: the outputs of each reader, computed from some of the value's numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from .....dialects.nn import (
    AddOp,
    FusedOp,
    MovingOp,
    NNOp,
    ObserveOp,
    OpaqueOp,
    SubOp,
    UnaryOp,
    YieldOp,
    array_of,
    before_points,
)
from .....dialects.nn.shapes import shape_of
from .....rewriting import layer_of
from .....runtime.kernels import Kernel, kernel_for
from ...profiles import Profile
from ..matters import Matters, matters_of
from ..round_weights.integer_layers import WEIGHT, IntegerLayer, integer_layers
from .places import Elements, Places, RowsOf, Whole

Array = np.ndarray[Any, np.dtype[Any]]


class UnknownError(Exception):
    """The outputs of a reader do not follow from the value alone; the text is the reason."""


class Reader(Protocol):
    """A layer that reads a value."""

    @property
    def op(self) -> Operation: ...

    @property
    def value(self) -> SSAValue:
        """What it reads, as the float network computes it."""
        ...

    @property
    def axis(self) -> int | None:
        """The axis of rows, along which those of batches are concatenated. None if the numbers of a batch belong together."""
        ...

    @property
    def places(self) -> Places:
        """Where its rows come from."""
        ...

    def outputs(self, rows: Array) -> Array:
        """What the layer makes of rows, with its weight as quantized."""
        ...


@dataclass(frozen=True)
class _Product:
    """A layer with an integer weight. Rows are [G, R, K]: patches for a convolution."""

    layer: IntegerLayer
    value: SSAValue
    matters: Array
    """How much the error of each output channel matters: float64 [channels]."""
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
        """[G, K, M], output channels times the root of what their squares count."""
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
    """Another operation, whose other operands are constants."""

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
        """Those of a module with plans. Raises CompileError, located at a layer, for a plan that does not fit it."""
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
                        yield self._reader(inner.operation, inner.index, value, region)
                case ObserveOp() as point if point in points:
                    pass  # it rounds to the same numbers again
                case NNOp(is_passive=True) as op:
                    for result in op.results:
                        yield from self._of(result, points)
                case op:
                    yield self._reader(op, use.index, value)

    def _reader(self, op: Operation, index: int, value: SSAValue, region: FusedOp | None = None) -> Reader:
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
        constants = {i: a for i, v in enumerate(op.operands) if (a := array_of(_outside(v, region))) is not None}
        if len(constants) < len(op.operands) - 1:
            raise UnknownError(f"{layer_of(op)} reads it together with another computed value")
        return _Whole(op, read, kernel, constants)


def _outside(value: SSAValue, region: FusedOp | None) -> SSAValue:
    """The operand of a region that one inside stands for, otherwise the value itself."""
    return region.operands[value.index] if region is not None and isinstance(value, BlockArgument) else value


def _same(rows: Array) -> Array:
    return rows
