"""Quantization points in PyTorch: in the arithmetic of the interpreter, or as operators of torch's `quantized_decomposed`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...ir.dtypes import integer_range
from ...support.diagnostics import op_error
from .functions import Maker, Tensor, Unary, dtype_of, torch

_Point = nn.QuantizeOp | nn.DequantizeOp


def _broadcastable(op: _Point) -> tuple[Any, Any]:
    """Scale and zero point: numbers, or tensors that broadcast to the operand."""
    scale, zero = op.qparams.data.broadcastable(shape_of(op.input))
    return _number_or_tensor(scale), _number_or_tensor(zero)


def _number_or_tensor(values: Any) -> Any:
    return torch.from_numpy(np.array(values)) if values.ndim else values.item()


def _on(value: Any, x: Tensor) -> Any:
    return value.to(x.device) if isinstance(value, torch.Tensor) else value


def _quantize(op: nn.QuantizeOp) -> Unary:
    """ONNX's QuantizeLinear: divides, and rounds half to even. `fake_quantize` of torch multiplies by the reciprocal."""
    scale, zero = _broadcastable(op)
    storage = op.qparams.data.storage
    low, high = integer_range(storage)
    dtype = dtype_of(storage)
    sums = torch.float32 if storage.width.data <= 16 else torch.float64  # float32 lacks the ends of int32

    def run(x: Tensor) -> Tensor:
        y = torch.round(x.to(torch.float32) / _on(scale, x)).to(sums) + _on(zero, x)
        return y.clamp(low, high).nan_to_num(nan=low).to(dtype)

    return run


def _dequantize(op: nn.DequantizeOp) -> Unary:
    scale, zero = _broadcastable(op)
    dtype = dtype_of(op.result.type.element_type)
    return lambda q: ((q.to(torch.float32) - _on(zero, q)) * _on(scale, q)).to(dtype)


FAKE: Mapping[type[Operation], Maker] = {nn.QuantizeOp: _quantize, nn.DequantizeOp: _dequantize}
"""The interpreter's."""


def _decomposed(op: _Point) -> tuple[str, tuple[Any, ...]]:
    """The ending of the operators' names, and the arguments between the tensor and the type of the result.

    Raises CompileError, located at the operation, for scales of blocks.
    """
    import_module("torch.ao.quantization.fx._decomposed")  # defines the operators
    params = op.qparams.data
    if params.block is not None:
        raise op_error(op, "quantized_decomposed has no operators on blocks", "quantize without groups")
    bounds, dtype = integer_range(params.storage), dtype_of(params.storage)
    if params.axis is None:
        return "per_tensor", (float(params.scales()), int(params.zero_points()), *bounds, dtype)
    scales = torch.from_numpy(params.scales().copy())
    zeros = torch.from_numpy(np.array(params.zero_points(), np.int64)).expand(scales.shape).clone()
    return "per_channel", (scales, zeros, params.axis % len(shape_of(op.input)), *bounds, dtype)


def _quantize_decomposed(op: nn.QuantizeOp) -> Unary:
    kind, arguments = _decomposed(op)
    operator = getattr(torch.ops.quantized_decomposed, f"quantize_{kind}").default
    return lambda x: operator(x, *arguments)


def _dequantize_decomposed(op: nn.DequantizeOp) -> Unary:
    kind, arguments = _decomposed(op)
    operator = getattr(torch.ops.quantized_decomposed, f"dequantize_{kind}").default
    return lambda q: operator(q, *arguments)


DECOMPOSED: Mapping[type[Operation], Maker] = {
    nn.QuantizeOp: _quantize_decomposed,
    nn.DequantizeOp: _dequantize_decomposed,
}
"""The functions of PyTorch 2 export quantization (PT2E)."""
