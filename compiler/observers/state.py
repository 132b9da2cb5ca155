"""An observer's state as named arrays: exact, to be stored and continued later.

State is the fields of a dataclass that are not in its constructor: numbers, arrays, long integers, and dataclasses of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from ..ir.array import Array

State = Mapping[str, Array]

LONG_BYTES = 288
"""The size of a long integer, two's complement: room for 2^64 sums of float64 numbers in units of the smallest one."""


def state_of(holder: object) -> dict[str, Array]:
    """Arrays by name, `histogram.counts`: numbers as float64 or int64 `[]`, long integers as uint8 `[n, LONG_BYTES]`."""
    return dict(_arrays(holder, ""))


def _arrays(holder: object, prefix: str) -> Iterator[tuple[str, Array]]:
    for name, value in _values(holder):
        if is_dataclass(value):
            yield from _arrays(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield f"{prefix}{name}", _digits(cast("list[int]", value))
        elif isinstance(value, np.ndarray):
            yield f"{prefix}{name}", cast(Array, value)
        else:
            yield f"{prefix}{name}", np.array(value, np.int64 if isinstance(value, int) else np.float64)


def restore(holder: object, state: State) -> None:
    """Sets the fields of `holder` to those of `state`. Raises ValueError if `state` has another form."""
    expected = state_of(holder)
    if expected.keys() != state.keys():
        raise ValueError(f"holds {', '.join(sorted(state)) or 'nothing'}, not {', '.join(sorted(expected))}")
    for name, array in expected.items():
        found = state[name]
        if (found.dtype, found.ndim) != (array.dtype, array.ndim):
            raise ValueError(f"{name} is of {found.dtype} with {found.ndim} dimensions")
    _restore(holder, state, "")


def _restore(holder: object, state: State, prefix: str) -> None:
    for name, value in _values(holder):
        if is_dataclass(value):
            _restore(value, state, f"{prefix}{name}.")
            continue
        found = state[f"{prefix}{name}"]
        if isinstance(value, list):
            setattr(holder, name, _integers(found))
        else:
            setattr(holder, name, np.array(found) if isinstance(value, np.ndarray) else found.item())


def _values(holder: object) -> list[tuple[str, Any]]:
    """The observed value; `bits` and `symmetric` are part of the specification."""
    named = [f.name for f in fields(cast(Any, holder)) if not f.init and f.name not in ("bits", "symmetric")]
    return [(name, getattr(holder, name)) for name in named]


def _digits(integers: list[int]) -> Array:
    data = b"".join(i.to_bytes(LONG_BYTES, "little", signed=True) for i in integers)
    return np.frombuffer(data, np.uint8).reshape(len(integers), LONG_BYTES)


def _integers(digits: Array) -> list[int]:
    if digits.shape[1] != LONG_BYTES:
        raise ValueError(f"long integers of {digits.shape[1]} bytes")
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in digits]
