"""Tables of converters, filled by decorators in the modules of the families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from xdsl.ir import Operation

_Op = TypeVar("_Op", bound=Operation)
_Layer = TypeVar("_Layer")
_Written = TypeVar("_Written")

Converters = dict[type[Operation], Callable[[Any, _Layer], _Written]]
"""Converters by the class of operation: a function that writes one into a layer, and returns the results."""


class Expand(Exception):
    """A converter does not apply to an operation, which is written by its expansion instead."""


@dataclass(frozen=True)
class Register(Generic[_Layer, _Written]):
    """A decorator that registers a converter in the table for these operation classes."""

    table: Converters[_Layer, _Written]

    def __call__(
        self, *ops: type[_Op]
    ) -> Callable[[Callable[[_Op, _Layer], _Written]], Callable[[_Op, _Layer], _Written]]:
        def keep(convert: Callable[[_Op, _Layer], _Written]) -> Callable[[_Op, _Layer], _Written]:
            self.table.update(dict.fromkeys(ops, cast("Callable[[Any, _Layer], _Written]", convert)))
            return convert

        return keep
