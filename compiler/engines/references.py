"""References to operations and values of a module, as bytes for a process that has the same module."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

_Part: TypeAlias = Operation | SSAValue[Any]
_KINDS: tuple[type, ...] = Operation, SSAValue


def referred(module: ModuleOp, given: object) -> bytes:
    """An object that can be pickled, except for the operations and values of the module that it refers to."""
    numbers = {id(each): number for number, each in enumerate(_parts(module))}

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> int | None:
            return numbers[id(obj)] if isinstance(obj, _KINDS) else None

    stream = io.BytesIO()
    Pickler(stream).dump(given)
    return stream.getvalue()


def resolved(module: ModuleOp, given: bytes) -> Any:
    """The object, referring to this module. The bytes must come from a member of the cluster: they can run code."""
    parts: list[_Part] = list(_parts(module))

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> _Part:
            return parts[pid]

    return Unpickler(io.BytesIO(given)).load()


def _parts(module: ModuleOp) -> Iterator[_Part]:
    """All operations and values, in the order of the text."""
    for op in module.walk():
        yield op
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args
