"""Layers as matrix products: rows of inputs (patches for a convolution) times one weight matrix per group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from ...dialects.nn import ConvolutionOp, ConvTransposeOp, MatMulOp, NNOp, OpaqueOp
from ...dialects.nn.shapes import Shape, shape_of
from ...ir.array import Array
from ...runtime.windows import Window


class Product(Protocol):
    """`result = rows @ matrices.swapaxes(1, 2)`, group by group: rows [G, R, K], matrices [G, M/G, K] for M output channels."""

    def matrices(self, weight: Array) -> Array:
        """The layer's weight as [G, M/G, K], in its own type. Columns are in the order in which kernels add them up."""
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

    def total(self, x: Array) -> Array:
        """The sum of the rows of all places: float64 [G, K]."""
        ...


def is_product(op: NNOp) -> bool:
    """Whether `product_of` knows the layer: the operation of a plugin may have a weight, too."""
    return isinstance(op, ConvolutionOp | MatMulOp | OpaqueOp)


def product_of(op: NNOp) -> Product:
    """A layer as a matrix product, if it is one."""
    match op:
        case ConvTransposeOp():
            return _TransposedConvolution(op)
        case ConvolutionOp():
            return _Convolution(op)
        case MatMulOp():
            return _MatrixProduct(op)
        case OpaqueOp():
            return _RecurrentInput()
        case _:
            raise AssertionError(f"{op.name} is not a product")


class _Axis(NamedTuple):
    """Windows over one spatial axis: element i is at `begin + step * i`. Positions without an element read zeros."""

    size: int
    """The number of elements."""
    begin: int
    step: int
    kernel: int
    dilation: int
    stride: int
    output: int
    """The number of windows."""

    def elements(self, windows: Array) -> Array:
        """The elements that windows `[R]` hold, `[R, kernel]`; -1 for zeros."""
        at = windows[:, None] * self.stride + np.arange(self.kernel) * self.dilation - self.begin
        found, between = np.divmod(at, self.step)
        return np.where((between == 0) & (found >= 0) & (found < self.size), found, -1)

    @property
    def counts(self) -> Array:
        """The number of windows that hold each element at each of their positions: float64 `[size, kernel]`."""
        found = self.elements(np.arange(self.output))[..., None] == np.arange(self.size)
        return found.sum(axis=0, dtype=np.float64).T


def _windows(x: Array, axes: Sequence[_Axis], chosen: Array, groups: int) -> Array:
    """The chosen windows over all samples of an input `[*space, N, C]`: `[G, R * N, taps * C/G]`."""
    *space, samples, channels = x.shape
    elements, zeros = np.zeros((len(chosen), 1), np.intp), np.zeros((len(chosen), 1), np.bool_)
    for axis, windows in zip(axes, np.unravel_index(chosen, [axis.output for axis in axes]), strict=True):
        each = axis.elements(windows)[:, None]
        elements = (elements[:, :, None] * axis.size + each).reshape(len(chosen), -1)
        zeros = (zeros[:, :, None] | (each < 0)).reshape(len(chosen), -1)
    elements = np.where(zeros, prod(space), elements)
    held = np.zeros(prod(space) + 1, np.bool_)
    held[elements] = True
    places, taps = np.flatnonzero(held), (np.cumsum(held) - 1)[elements]
    read = np.zeros((len(places), samples, channels), np.float32)  # the places that windows hold, each once, and zeros
    inside = places[: np.searchsorted(places, prod(space))]
    read[: len(inside)] = x[np.unravel_index(inside, space)]
    rows = read[taps].reshape(len(chosen), -1, samples, groups, channels // groups)
    return np.ascontiguousarray(rows.transpose(3, 0, 2, 1, 4)).reshape(groups, len(chosen) * samples, -1)


def _sum_of_windows(x: Array, axes: Sequence[_Axis], groups: int) -> Array:
    """The sum of all windows of all samples, `[G, taps * C/G]`: axis by axis, each element as often as windows hold it."""
    total = np.moveaxis(x.sum(axis=-2, dtype=np.float32), -1, 0)  # few samples: float32 is exact enough, and faster
    for axis in reversed(axes):  # the last axis goes first, and makes room for the one before
        total = np.moveaxis(total @ axis.counts, -1, 1)
    return np.moveaxis(total.reshape(groups, -1, prod(total.shape[1:])), 1, 2).reshape(groups, -1)


@dataclass(frozen=True)
class _Convolution:
    """Places are window positions; each has a row in every sample of a batch. Columns count positions in the window, then
    channels.
    """

    op: ConvolutionOp

    @cached_property
    def _window(self) -> Window:
        return Window.of(self.op)

    @property
    def _kernel(self) -> Shape:
        return self.op.kernel_shape

    def matrices(self, weight: Array) -> Array:
        groups = self.op.group_count
        return np.moveaxis(weight, 1, -1).reshape(groups, weight.shape[0] // groups, -1)

    def weight(self, matrices: Array) -> Array:
        filters, channels, *kernel = shape_of(self.op.weight)
        return np.moveaxis(matrices.reshape(filters, *kernel, channels), -1, 1)

    def places(self, x: Array) -> tuple[int, int]:
        return prod(self._window.output_for(_space(x, self.op), self._kernel)), x.shape[0]

    def rows(self, x: Array, chosen: Array) -> Array:
        return _windows(_channels_last(x, self.op), self._axes(x), chosen, self.op.group_count)

    def total(self, x: Array) -> Array:
        return _sum_of_windows(_channels_last(x, self.op), self._axes(x), self.op.group_count)

    def _axes(self, x: Array) -> list[_Axis]:
        space, window = _space(x, self.op), self._window
        begins = window.pads_for(space, self._kernel)[: len(space)]
        output = window.output_for(space, self._kernel)
        each = zip(space, begins, self._kernel, window.dilations, window.strides, output, strict=True)
        return [_Axis(size, begin, 1, *others) for size, begin, *others in each]


@dataclass(frozen=True)
class _TransposedConvolution:
    """A convolution with the reversed kernel over the input with zeros between its elements. Places and columns as there."""

    op: ConvTransposeOp

    def matrices(self, weight: Array) -> Array:
        groups, channels, filters = self.op.group_count, *weight.shape[:2]
        weight = np.flip(weight, tuple(range(2, weight.ndim)))
        weight = weight.reshape(groups, channels // groups, filters, *weight.shape[2:]).swapaxes(1, 2)
        return np.moveaxis(weight, 2, -1).reshape(groups, filters, -1)

    def weight(self, matrices: Array) -> Array:
        groups, (channels, filters, *kernel) = self.op.group_count, shape_of(self.op.weight)
        weight = np.moveaxis(matrices.reshape(groups, filters, *kernel, channels // groups), -1, 1)
        return np.flip(weight.reshape(channels, filters, *kernel), tuple(range(2, 2 + len(kernel))))

    def places(self, x: Array) -> tuple[int, int]:
        return prod(self.op.output_sizes(_space(x, self.op))), x.shape[0]

    def rows(self, x: Array, chosen: Array) -> Array:
        return _windows(_channels_last(x, self.op), self._axes(x), chosen, self.op.group_count)

    def total(self, x: Array) -> Array:
        return _sum_of_windows(_channels_last(x, self.op), self._axes(x), self.op.group_count)

    def _axes(self, x: Array) -> list[_Axis]:
        op, space = self.op, _space(x, self.op)
        pads = op.resolved_pads(space)
        assert pads is not None, "the sizes of an array are known"
        begins = pads[: len(space)]
        each = zip(
            space, begins, op.stride_list, op.kernel_shape, op.dilation_list, op.output_sizes(space), strict=True
        )
        return [
            _Axis(size, dilation * (kernel - 1) - begin, step, kernel, dilation, 1, output)
            for size, begin, step, kernel, dilation, output in each
        ]


def _space(x: Array, op: ConvolutionOp) -> tuple[int, ...]:
    return x.shape[1:-1] if op.channels_last else x.shape[2:]


def _channels_last(x: Array, op: ConvolutionOp) -> Array:
    """A view of an input as `[*space, N, C]`."""
    return np.moveaxis(x, 0, -2) if op.channels_last else np.moveaxis(x, (0, 1), (-2, -1))


@dataclass(frozen=True)
class _MatrixProduct:
    """Groups are the matrices of a batch. Places are the rows of the left operand that are multiplied by the same matrix."""

    op: MatMulOp

    def matrices(self, weight: Array) -> Array:
        matrices = self._turned(weight)
        return matrices.reshape(-1, *matrices.shape[-2:])

    def weight(self, matrices: Array) -> Array:
        batch = self._batch
        stored = self._turned(matrices.reshape(*batch, *matrices.shape[-2:]))
        return stored.reshape(shape_of(self.op.rhs))

    def places(self, x: Array) -> tuple[int, int]:
        turned, rows, _ = self._by_rows(x)
        return prod(turned.shape[:rows]), 1

    def rows(self, x: Array, chosen: Array) -> Array:
        turned, rows, groups = self._by_rows(x)
        found = turned[np.unravel_index(chosen, turned.shape[:rows])].astype(np.float32, copy=False)
        return np.ascontiguousarray(found.reshape(len(chosen), groups, turned.shape[-1]).swapaxes(0, 1))

    def total(self, x: Array) -> Array:
        turned, rows, groups = self._by_rows(x)
        return turned.sum(axis=tuple(range(rows)), dtype=np.float64).reshape(groups, turned.shape[-1])

    @property
    def _batch(self) -> Shape:
        return shape_of(self.op.rhs)[:-2]

    def _by_rows(self, x: Array) -> tuple[Array, int, int]:
        """A view of the left operand, `[*rows, *groups, K]`, with the number of axes of rows, and the number of groups."""
        x = x if self.op.transpose_a is None else x.swapaxes(-1, -2)
        x = x.reshape(1, -1) if x.ndim == 1 else x
        batch = self._batch
        full = np.broadcast_shapes(x.shape[:-2], batch)
        x = np.broadcast_to(x, (*full, *x.shape[-2:]))
        begin = len(full) - len(batch)
        groups = [begin + i for i, count in enumerate(batch) if count > 1]
        rows = [i for i in range(len(full) + 1) if i not in groups]
        return x.transpose(*rows, *groups, len(full) + 1), len(rows), prod(batch)

    def _turned(self, matrix: Array) -> Array:
        """Convert the stored form, `[..., K, N]` or `[..., N, K]`, to `[..., N, K]`, or back; a vector is one row."""
        matrix = matrix.reshape(-1, 1) if matrix.ndim == 1 else matrix
        return matrix if self.op.transpose_b is not None else matrix.swapaxes(-1, -2)


@dataclass(frozen=True)
class _RecurrentInput:
    """The weight W of a recurrent layer, `[directions, gates * hidden, input]`: each direction multiplies all of the input."""

    def matrices(self, weight: Array) -> Array:
        return weight

    def weight(self, matrices: Array) -> Array:
        return matrices

    def places(self, x: Array) -> tuple[int, int]:
        return prod(x.shape[:-1]), 1

    def rows(self, x: Array, chosen: Array) -> Array:
        return x.reshape(-1, x.shape[-1])[chosen].astype(np.float32)[None]

    def total(self, x: Array) -> Array:
        return x.reshape(-1, x.shape[-1]).sum(axis=0, dtype=np.float64)[None]
