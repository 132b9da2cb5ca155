"""The places of a value from which rows are taken for a reader."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .....dialects.nn import NNOp
from .....ir.array import Array
from ...products import Product, product_of


class Places(Protocol):
    """Can be pickled, apart from references to the module."""

    def counted(self, x: Array) -> tuple[int, int]:
        """The number of places in an array, and of numbers at each of them."""
        ...

    def rows(self, x: Array, chosen: Array) -> Array:
        """The numbers of the chosen ones, in the form that the reader takes: float32."""
        ...


@dataclass(frozen=True)
class RowsOf:
    """The rows that a layer with a weight multiplies."""

    layer: NNOp
    numbers: int
    """The numbers of a row, in all groups."""

    def counted(self, x: Array) -> tuple[int, int]:
        places, rows = self._product.places(x)
        return places, rows * self.numbers

    def rows(self, x: Array, chosen: Array) -> Array:
        return self._product.rows(x, chosen)

    @cached_property
    def _product(self) -> Product:
        return product_of(self.layer)


@dataclass(frozen=True)
class Elements:
    """Single elements."""

    def counted(self, x: Array) -> tuple[int, int]:
        return x.size, 1

    def rows(self, x: Array, chosen: Array) -> Array:
        return x.reshape(-1)[chosen].astype(np.float32)


@dataclass(frozen=True)
class Whole:
    """The array as it is: one place."""

    def counted(self, x: Array) -> tuple[int, int]:
        return 1, x.size

    def rows(self, x: Array, chosen: Array) -> Array:
        return x.astype(np.float32)
