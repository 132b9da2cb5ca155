"""Layers as matrix products: rows of inputs (patches for a convolution) times one weight matrix per group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from ....dialects.nn import ConvOp, MatMulOp, NNOp
from ....dialects.nn.shapes import shape_of
from ....runtime.windows import Window, padded, window_view

Array = np.ndarray[Any, np.dtype[Any]]


class Product(Protocol):
    """`result = rows @ matrices.swapaxes(1, 2)`, group by group: rows [G, R, K], matrices [G, M/G, K] for M output channels."""

    def matrices(self, weight: Array) -> Array:
        """The layer's weight as float64 [G, M/G, K]."""
        ...

    def weight(self, matrices: Array) -> Array:
        """Matrices converted back to the shape of the layer's weight."""
        ...

    def places(self, x: Array) -> tuple[int, int]:
        """The number of places in an input from which rows can be chosen, and the number of rows of each."""
        ...

    def rows(self, x: Array, chosen: Array) -> Array:
        """The rows of the chosen places: float32 [G, R, K]."""
        ...


def product_of(op: NNOp) -> Product | None:
    """A layer as a matrix product with a single weight; None for other operations."""
    if isinstance(op, ConvOp):
        return _Convolution(op)
    if isinstance(op, MatMulOp) and len(shape_of(op.rhs)) == 2:
        return _MatrixProduct(op)
    return None


@dataclass(frozen=True)
class _Convolution:
    """Places are window positions; each has a row in every sample of a batch."""

    op: ConvOp

    @cached_property
    def _window(self) -> Window:
        return Window.of(self.op)

    @property
    def _groups(self) -> int:
        return self.op.group_count

    def matrices(self, weight: Array) -> Array:
        return weight.astype(np.float64).reshape(self._groups, weight.shape[0] // self._groups, -1)

    def weight(self, matrices: Array) -> Array:
        return matrices.reshape(shape_of(self.op.weight))

    def places(self, x: Array) -> tuple[int, int]:
        return prod(self._output(self._space(x))), x.shape[0]

    def rows(self, x: Array, chosen: Array) -> Array:
        space, kernel = self._space(x), shape_of(self.op.weight)[2:]
        out, rank = self._output(space), len(kernel)
        x = np.moveaxis(x, -1, 1) if self.op.channels_last else x
        x = padded(x, self._window.pads_for(space, kernel), 0.0, np.dtype(np.float32))
        windows = window_view(x, kernel, out, self._window.strides, self._window.dilations)
        # [*out, N, C, *kernel]: then each chosen window is copied by itself
        windows = np.moveaxis(windows, range(-rank, 0), range(rank))
        found = windows[np.unravel_index(chosen, out)]
        rows = found.reshape(found.shape[0] * found.shape[1], self._groups, -1)
        return np.ascontiguousarray(rows.swapaxes(0, 1))

    def _space(self, x: Array) -> tuple[int, ...]:
        return x.shape[1:-1] if self.op.channels_last else x.shape[2:]

    def _output(self, space: tuple[int, ...]) -> tuple[int, ...]:
        return self._window.output_for(space, shape_of(self.op.weight)[2:])


@dataclass(frozen=True)
class _MatrixProduct:
    """Places are the rows of the left operand, in all matrices of a batch."""

    op: MatMulOp

    def matrices(self, weight: Array) -> Array:
        return self._turned(weight.astype(np.float64))[None]

    def weight(self, matrices: Array) -> Array:
        return self._turned(matrices[0])

    def places(self, x: Array) -> tuple[int, int]:
        return x.size // max(1, shape_of(self.op.rhs)[0 if self.op.transpose_b is None else 1]), 1

    def rows(self, x: Array, chosen: Array) -> Array:
        x = x if self.op.transpose_a is None else x.swapaxes(-1, -2)
        return x.reshape(-1, x.shape[-1])[chosen].astype(np.float32)[None]

    def _turned(self, matrix: Array) -> Array:
        """Convert the stored form, `[K, N]` or `[N, K]`, to `[N, K]`, or back."""
        return matrix if self.op.transpose_b is not None else matrix.T
