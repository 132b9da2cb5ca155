"""Kernels of recurrent layers on integers: a step is two exact products of integers, then gates in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dialects import ascend
from ...ir.dtypes import integer_range
from . import Array, Kernel

_F32 = np.float32


def _quantizer(op: ascend.WindowCacheOp, of: str) -> Callable[[Array], Array]:
    """Maps values to `clip(round(v * scale + offset)) - offset`, whole numbers in float64, so that their sums are exact."""
    scale, offset = (_F32(getattr(op, f"quant_{what}_{of}").value.data) for what in ("scale", "offset"))
    low, high = integer_range(op.storage)

    def run(values: Array) -> Array:
        steps = np.rint(values.astype(_F32, copy=False) * scale + offset)
        return np.clip(steps, low, high).astype(np.float64) - np.float64(offset)

    return run


def _sigmoid(x: Array) -> Array:
    return _F32(1) / (_F32(1) + np.exp(-x))


def _steps(op: ascend.WindowCacheOp, operands: dict[str, Array]) -> tuple[Array, Callable[[Array], Array]]:
    """The contributions of inputs to all gates, float32 `[steps, batch, gates * hidden]`, and the function that gives
    the contributions of a state `[batch, hidden]`.
    """
    w, r = (operands[name][0].T.astype(np.float64) for name in "wr")
    rows = w.shape[1]
    given = operands["deq_scale"].reshape(2, -1)
    scales = np.repeat(given, rows // given.shape[1], axis=1)
    biases = operands["b"].reshape(2, rows) if "b" in operands else np.zeros((2, rows))
    quantize_x, quantize_h = _quantizer(op, "x"), _quantizer(op, "h")

    def parts(integers: Array, weight: Array, half: int) -> Array:
        return (integers @ weight + biases[half]).astype(_F32) * scales[half]

    return parts(quantize_x(operands["x"]), w, 0), lambda state: parts(quantize_h(state), r, 1)


def _kernel(op: ascend.WindowCacheOp, step: Callable[[Array, Array, list[Array]], list[Array]], states: str) -> Kernel:
    """Runs `step` on the parts of the gates and the states, which are named by operands, one time step after the other."""
    names = ["x", "w", "r", *states, "deq_scale", "b"][: len(op.operands)]

    def run(*arrays: Array) -> list[Array]:
        operands = dict(zip(names, arrays, strict=True))
        added, of_state = _steps(op, operands)
        current = [operands[name][0].astype(_F32) for name in states]
        y = np.empty((len(added), 1, *current[0].shape), operands["x"].dtype)
        for i, part in enumerate(added):
            current = step(part, of_state(current[0]), current)
            y[i, 0] = current[0]
        types = [operands["x"].dtype, *(operands[name].dtype for name in states[1:])]
        return [y, *(state[None].astype(dtype) for state, dtype in zip(current, types, strict=True))]

    return run


def _lstm_step(x: Array, h: Array, states: list[Array]) -> list[Array]:
    i, o, f, c = np.split(x + h, 4, axis=1)
    cell = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(c)
    return [_sigmoid(o) * np.tanh(cell), cell]


def _gru_step(x: Array, h: Array, states: list[Array]) -> list[Array]:
    (xz, xr, xh), (hz, hr, hh) = np.split(x, 3, axis=1), np.split(h, 3, axis=1)
    z = _sigmoid(xz + hz)
    new = np.tanh(xh + _sigmoid(xr + hr) * hh)
    return [(_F32(1) - z) * new + z * states[0]]


RECURRENT_KERNELS: dict[type[ascend.AscendOp], Callable[[Any], Kernel]] = {
    ascend.BasicLSTMInplaceFillWindowCacheOp: lambda op: _kernel(op, _lstm_step, "hc"),
    ascend.BasicGRUInplaceFillWindowCacheOp: lambda op: _kernel(op, _gru_step, "h"),
}
