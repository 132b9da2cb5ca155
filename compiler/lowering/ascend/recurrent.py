"""LSTM and GRU of ONNX whose input and state are quantized: operators that quantize both themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.ascend.recurrent import STORAGE
from ...dialects.nn.shapes import shape_of
from ...transforms.quantization.decide.recurrent import INPUT, ROWS, STATE, Recurrent
from ..refusal import NotLowered, require
from .quantized import Activation, bias_of, dequantization_scale, stored, stored_as_int8, weight_of
from .rules import Builder, lowers


class _Real(NamedTuple):
    """A value that the module quantizes: the floats before that, and the parameters."""

    value: SSAValue
    scale: np.float32
    zero_point: int
    storage: IntegerType


def _before(each: Recurrent, name: str) -> _Real:
    """The floats behind a quantized input of a layer. Raises NotLowered if the operator cannot quantize them."""
    dequantize = nn.dequantize_of(each.operand(name))
    if dequantize is None:
        raise NotLowered("quantize-before", f"its {name} is not quantized")
    quantize, params = dequantize.input.owner, dequantize.qparams.data
    if not isinstance(quantize, nn.QuantizeOp):
        raise NotLowered("quantize-before", f"its {name} comes as integers, not from a quantize")
    require(quantize.qparams == dequantize.qparams, "equal-parameters", f"quantize and dequantize of its {name} differ")
    require(params.storage in STORAGE.values(), "integer-type", f"its {name} is {params.storage}, not i8 or i16")
    require(params.axis is None, "per-tensor-activation", f"the operator has one scale for its {name}")
    return _Real(quantize.input, np.float32(params.scales()), int(params.zero_points()), params.storage)


@lowers(nn.OpaqueOp, sources=[("onnx", "LSTM"), ("onnx", "GRU")])
def recurrent(build: Builder, op: nn.OpaqueOp) -> Sequence[SSAValue]:
    """The operator of the layer's type, on the floats behind which the module quantizes, and on integer weights and biases.

    The module quantizes only the first state; the operator quantizes the state of each step.
    """
    each = Recurrent(op)
    x, h = _before(each, INPUT), _before(each, STATE)
    if (broken := each.float_because) is not None and broken[0] not in ("weight-constant", "bias-constant"):
        raise NotLowered(*broken)
    weights = [weight_of(value) for value in each.weights]
    require(
        all(w.axis in (None, ROWS) for w in weights), "channel-scales", "its weights have scales that are not per row"
    )
    inputs = [Activation(one.value, one.scale, one.zero_point) for one in (x, h)]
    scales = [np.atleast_1d(dequantization_scale(a, w)) for a, w in zip(inputs, weights, strict=True)]
    size = max(one.size for one in scales)
    deq_scale = np.concatenate([np.broadcast_to(one, (size,)) for one in scales])
    rows = shape_of(each.weights[0])[ROWS]
    bias = bias_of(each.operand("bias"), np.repeat(deq_scale, 2 * rows // deq_scale.size))
    require(bias.floats is None, "int32-bias", "its bias is not quantized")
    require(x.storage == h.storage, "equal-types", "its input and state are integers of different types")
    w, r = (stored_as_int8(build, weight.value) for weight in weights)
    cell = each.operand("cell")
    states = [h.value] if cell is None else [h.value, cell]
    kind = ascend.BasicGRUInplaceFillWindowCacheOp if cell is None else ascend.BasicLSTMInplaceFillWindowCacheOp
    made = build.add(
        kind,
        *(x.value, w, r, *states),
        build.constant(stored(build, deq_scale), f"{build.hint}_deq_scale"),
        bias.integers,
        hidden_size=shape_of(each.weights[1])[2],
        quant_scale_x=np.float32(1) / x.scale,
        quant_offset_x=x.zero_point,
        quant_scale_h=np.float32(1) / h.scale,
        quant_offset_h=h.zero_point,
        quant_dtype=data_type_number(x.storage),
    )
    return made.results
