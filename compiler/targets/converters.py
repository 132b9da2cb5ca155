"""Tables of how operations are written: filled by decorated functions, one for each family of operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from xdsl.ir import Operation

_Op = TypeVar("_Op", bound=Operation)
_Layer = TypeVar("_Layer")
_Written = TypeVar("_Written")

Converters = dict[type[Operation], Callable[[Any, _Layer], _Written]]
"""By the class of operation: what writes one into a layer, and says what was written."""


@dataclass(frozen=True)
class Register(Generic[_Layer, _Written]):
    """A decorator: puts a converter into the table for these operation classes."""

    table: Converters[_Layer, _Written]

    def __call__(
        self, *ops: type[_Op]
    ) -> Callable[[Callable[[_Op, _Layer], _Written]], Callable[[_Op, _Layer], _Written]]:
        def keep(convert: Callable[[_Op, _Layer], _Written]) -> Callable[[_Op, _Layer], _Written]:
            self.table.update(dict.fromkeys(ops, cast("Callable[[Any, _Layer], _Written]", convert)))
            return convert

        return keep
