"""Sums over rows of a layer's inputs in the quantized and the float network, and the rows of held-back samples."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from math import inf, prod
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from .....ir.array import Array
from .....support.diagnostics import CompileError, op_error
from .integer_layers import IntegerLayer
from .rounding import WIDE

_ENOUGH = 1 << 11
"""Number of rows that are summed at once, fewer in layers with fewer columns."""
_FEW = 7
"""Fewest rows of data per column; with fewer, layers are fitted to chance."""
_TERMS = 64
"""Products over rows have a multiple of this many terms: OpenBLAS cuts others at places that depend on the number of threads."""


class Summed(Protocol):
    """Sums over the rows of a layer's inputs."""

    def read(self, inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, wanted: float, first: int) -> None:
        """Add rows of these inputs in both networks, which are those of the runs from number `first` on: about as many of each
        run as are wanted, or all. Raises CompileError, located at the layer, for NaN and Inf.
        """
        ...

    def merge(self, other: Self) -> None:
        """Add the sums of other rows."""
        ...


@dataclass
class Sums:
    """Sums over rows of inputs in the quantized network (xq) and, for `matched`, of outputs in the float one (yf). Sums over
    parts of the rows merge.
    """

    h: Array
    """Sums of `xq xqᵀ`: [G, K, K], float64, or float32 for the many columns of wide layers."""
    c: Array | None = None
    """Sums of `xq yfᵀ`: [G, K, M], float64."""
    weights: Array | None = None
    """The float layer's matrices, [G, M, K]: `yf = W xf`."""
    rows: int = 0
    """The number of rows that are summed."""

    @staticmethod
    def of_inputs(layer: IntegerLayer) -> Sums:
        """Sums of no rows, of the layer's inputs in the quantized network only."""
        groups, _, columns = layer.product.matrices(layer.float_weight).shape
        return Sums.of_none(groups, columns)

    @staticmethod
    def of_both(layer: IntegerLayer) -> Sums:
        """Sums of no rows, of the layer's inputs and of its outputs in the float network."""
        weights = layer.product.matrices(layer.float_weight)
        return Sums.of_none(weights.shape[0], weights.shape[2], weights)

    @staticmethod
    def of_none(groups: int, columns: int, weights: Array | None = None) -> Sums:
        """Sums of no rows; without `weights` those of the quantized network only."""
        h = np.zeros((groups, columns, columns), np.float32 if columns >= WIDE else np.float64)
        if weights is None:
            return Sums(h)
        return Sums(h, np.zeros((groups, columns, weights.shape[1])), weights.astype(np.float32))

    def read(self, inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, wanted: float, first: int) -> None:
        """Rows wait until they are as many as columns, or many: their product costs more than adding it to the sums."""
        waiting: list[tuple[Array, Array]] = []
        for each in rows_of(inputs, layer, wanted, first):
            waiting.append(each)
            if sum(q.shape[1] for q, _ in waiting) >= min(each[0].shape[2], _ENOUGH):
                self._add_all(waiting)
        self._add_all(waiting)

    def _add_all(self, waiting: list[tuple[Array, Array]]) -> None:
        if waiting:
            q = np.concatenate([each for each, _ in waiting], axis=1)
            same = all(f is each for each, f in waiting)
            self.add(q, q if same else np.concatenate([f for _, f in waiting], axis=1))
            waiting.clear()

    def add(self, q: Array, f: Array) -> None:
        """Add rows [G, R, K] of the quantized network, and the same rows of the float network. Products are computed in float32,
        because there are few rows at a time.
        """
        before = self.rows
        self.rows += q.shape[1]
        same, q = f is q, _filled(q)
        f = q if same else _filled(f)
        turned = q.swapaxes(1, 2)
        h = turned @ q
        if before or h.shape != self.h.shape:  # the directions of a recurrent layer have the same input
            self.h += h
        else:  # zeros take memory only when something is added to them
            self.h = h.astype(self.h.dtype, copy=False)
        if self.weights is not None:
            self.c += turned @ (f @ self.weights.swapaxes(1, 2))

    @property
    def are_few(self) -> bool:
        """Whether weights that fit these rows may not fit others."""
        return self.rows < _FEW * self.h.shape[-1]

    @contextmanager
    def damped(self, share: float) -> Generator[Sums]:
        """Adds this share of the diagonal's mean to it, as if by rows of independent inputs that both networks share.
        Until the end of the context these sums have it as well: a copy of `h` may be large.
        """
        diagonal = np.einsum("gkk->gk", self.h)
        before = diagonal.copy()
        added = share * diagonal.mean(axis=1, dtype=np.float64, keepdims=True)
        diagonal += added
        c = self.c
        if share and c is not None and self.weights is not None:
            c = c + added[..., None] * self.weights.swapaxes(1, 2)
        try:
            yield replace(self, c=c)
        finally:
            diagonal[:] = before

    def of_channels(self, some: slice) -> Sums:
        """The sums for some output channels."""
        if self.c is None or self.weights is None:
            return self
        return replace(self, c=self.c[:, :, some], weights=self.weights[:, some])

    def merge(self, other: Sums) -> None:
        """Add the sums of other rows."""
        self.rows += other.rows
        self.h += other.h
        if other.c is not None:
            self.c += other.c


@dataclass
class Means:
    """Sums of rows in both networks, whose difference quantization makes. Sums over parts of the rows merge."""

    q: Array
    """Sums of `xq`: float64 [G, K]."""
    f: Array
    """Sums of `xf`: float64 [G, K]."""
    count: int = 0

    @staticmethod
    def of_layer(layer: IntegerLayer) -> Means:
        """Sums of no rows of a layer's inputs."""
        groups, _, columns = layer.product.matrices(layer.float_weight).shape
        return Means.of_none(groups, columns)

    @staticmethod
    def of_none(groups: int, columns: int) -> Means:
        """Sums of no rows."""
        return Means(np.zeros((groups, columns)), np.zeros((groups, columns)))

    def read(self, inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, wanted: float, first: int) -> None:
        """All rows are added: their sum costs less than choosing among them."""
        for q, f in inputs:
            sums = layer.product.total(q)
            beside = sums if f is q else layer.product.total(f)
            if not (np.isfinite(sums).all() and np.isfinite(beside).all()):
                raise _not_finite(layer)
            self.merge(Means(sums, beside, prod(layer.product.places(q))))

    def merge(self, other: Means) -> None:
        """Add the sums of other rows."""
        self.q += other.q
        self.f += other.f
        self.count += other.count


@dataclass
class Energies:
    """Sums of squares of an output and of its error. Those of other rows merge."""

    signal: float = 0.0
    noise: float = 0.0

    def merge(self, other: Energies) -> None:
        """Add those of other rows."""
        self.signal += other.signal
        self.noise += other.noise

    @property
    def sqnr(self) -> float:
        """The SQNR in dB; inf without noise."""
        return decibels(self.signal, self.noise)


@dataclass
class Rows:
    """Rows of inputs in the quantized network, and of the layer's outputs in the float one, in parts."""

    q: list[Array]
    """Inputs, float32 [G, R, K]."""
    y: list[Array]
    """Outputs without the bias, float32 [G, R, M]."""

    @staticmethod
    def of(parts: Iterable[tuple[Array, Array]], weights: Array) -> Rows:
        """Makes rows of these parts of inputs in both networks, of which the float one has the weights [G, M, K]."""
        turned, rows = weights.astype(np.float32).swapaxes(1, 2), Rows([], [])
        for q, f in parts:
            rows.q.append(q)
            rows.y.append(f @ turned)
        return rows

    def of_channels(self, some: slice) -> Rows:
        """The rows for some output channels."""
        return Rows(self.q, [y[:, :, some] for y in self.y])

    def sqnr(self, weights: Array) -> float:
        """SQNR in dB of the output of these weights [G, M, K] in the quantized network against that of the float network."""
        return self.energies(weights).sqnr

    def energies(self, weights: Array, shift: Array | float = 0.0) -> Energies:
        """The energies of the float network's output, and of its difference to the output of these weights [G, M, K] plus `shift`
        [G, 1, M] in the quantized network.
        """
        turned, moved = weights.astype(np.float32).swapaxes(1, 2), np.asarray(shift, np.float32)
        signal = noise = 0.0
        for q, y in zip(self.q, self.y, strict=True):
            difference = y - q @ turned - moved
            signal += float(np.einsum("grm,grm->", y, y, dtype=np.float64))
            noise += float(np.einsum("grm,grm->", difference, difference, dtype=np.float64))
        return Energies(signal, noise)


def decibels(signal: float, noise: float) -> float:
    """The ratio of two energies in dB; inf without noise."""
    if not noise:
        return inf
    return 10 * float(np.log10(signal / noise)) if signal else -inf


class Wish(NamedTuple):
    """A request for sums over the inputs of a layer."""

    make: Callable[[IntegerLayer], Summed]
    """Sums of no rows of the layer."""
    rows: float
    """Approximate number of rows to choose of each run."""

    def sums(self, inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, first: int) -> Summed:
        """The sums of these inputs (`Summed.read`)."""
        sums = self.make(layer)
        sums.read(inputs, layer, self.rows, first)
        return sums


def rows_of(
    inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, wanted: float, first: int
) -> Iterator[tuple[Array, Array]]:
    """Yields about this many rows of each run's inputs in both networks. `first` is the number of the first run, which
    chooses the rows. If the networks send an expert different numbers of tokens, the rows are those of the quantized network.

    Raises CompileError, located at the layer, for NaN and Inf.
    """
    product = layer.product
    for i, (q, f) in enumerate(inputs, first):
        places, rows_each = product.places(q)
        chosen = some_of(places, wanted / rows_each, i)
        rows = product.rows(q, chosen)
        beside = rows if f is q or f.shape != q.shape else product.rows(f, chosen)
        if not (np.isfinite(rows).all() and np.isfinite(beside).all()):
            raise _not_finite(layer)
        yield rows, beside


def _not_finite(layer: IntegerLayer) -> CompileError:
    return op_error(layer.compute, "has NaN or Inf in its input", "look for an overflow in the model or its data")


def merged_sums(parts: Iterable[Any]) -> Any:
    """The sums of all parts, added in their order to the first."""

    def added(total: Summed, part: Summed) -> Summed:
        total.merge(part)
        return total

    return reduce(added, parts)


def _filled(rows: Array) -> Array:
    """Rows with zeros after them, up to a multiple of `_TERMS`."""
    missing = -rows.shape[1] % _TERMS
    return np.pad(rows, ((0, 0), (0, missing), (0, 0))) if missing else rows


def some_of(places: int, wanted: float, seed: int) -> Array:
    """Chooses about as many places as wanted, in any order: random, but the same ones each time."""
    count = min(places, max(1, round(wanted)))
    if count == places:
        return np.arange(places)
    return np.random.default_rng(seed).choice(places, count, replace=False)
