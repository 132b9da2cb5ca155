"""LSTM and GRU of ONNX whose input and state are quantized: operators that quantize both themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.ascend.recurrent import STORAGE
from ...dialects.nn.shapes import shape_of
from ...rewriting import Condition, condition
from ...transforms.quantization.decide.recurrent import INPUT, ROWS, STATE, DecideRecurrent, Recurrent
from .constants import Array
from .quantized import (
    Inputs,
    MatrixEngine,
    QuantizedInputs,
    SymmetricWeight,
    int8_behind,
    pack_in_files,
    products,
    scale_of,
    stored,
)
from .rules import Builder, Source, Values


def _of_layer(asked: Condition[Recurrent]) -> Condition[nn.OpaqueOp]:
    """A condition under which AMCT and the quantization of this project take a recurrent layer."""
    return Condition(lambda pattern, op: asked.holds(pattern, Recurrent(op)), asked.statement)


class WindowCache(MatrixEngine[nn.OpaqueOp], SymmetricWeight[nn.OpaqueOp], QuantizedInputs[nn.OpaqueOp]):
    """BasicLSTMInplaceFillWindowCache or BasicGRUInplaceFillWindowCache, on the floats after which the module quantizes, and on
    integer weights and biases.

    The module quantizes only the first state; the operator quantizes the state of each step.
    """

    sources: ClassVar[tuple[Source, ...]] = (("onnx", "LSTM"), ("onnx", "GRU"))
    PER: ClassVar[str] = "row"

    one_direction: Condition[Any] = _of_layer(DecideRecurrent.one_direction)
    initial_state: Condition[Any] = _of_layer(DecideRecurrent.initial_state)
    no_lengths: Condition[Any] = _of_layer(DecideRecurrent.no_lengths)
    default_activations: Condition[Any] = _of_layer(DecideRecurrent.default_activations)
    linear_before_reset: Condition[Any] = _of_layer(DecideRecurrent.linear_before_reset)
    all_outputs: Condition[Any] = _of_layer(DecideRecurrent.all_outputs)

    @condition
    def integer_type(self, op: nn.OpaqueOp) -> str | None:
        """the input and the state are int8 or int16"""
        for name, each in self._quantized(op):
            if each.qparams.data.storage not in STORAGE.values():
                return f"its {name} is {each.qparams.data.storage}, not i8 or i16"
        return None

    @condition
    def equal_types(self, op: nn.OpaqueOp) -> str | None:
        """the input and the state are integers of one type"""
        types = {each.qparams.data.storage for _, each in self._quantized(op)}
        return None if len(types) == 1 else "its input and state are integers of different types"

    @condition
    def per_tensor_activation(self, op: nn.OpaqueOp) -> str | None:
        """the input and the state have one scale each"""
        for name, each in self._quantized(op):
            if each.qparams.data.axis is not None:
                return f"the operator has one scale for its {name}"
        return None

    @condition
    def int32_bias(self, op: nn.OpaqueOp) -> str | None:
        """a bias is quantized, to int32"""
        quantized = Recurrent(op).operand("bias") is None or self.bias(op) is not None
        return MatrixEngine[nn.OpaqueOp].int32_bias.holds(self, op) if quantized else "its bias is not quantized"

    def inputs(self, op: nn.OpaqueOp) -> Inputs:
        return [(name, nn.dequantize_of(Recurrent(op).operand(name))) for name in (INPUT, STATE)]

    def _quantized(self, op: nn.OpaqueOp) -> list[tuple[str, nn.DequantizeOp]]:
        return [(name, each) for name, each in self.inputs(op) if each is not None]

    def weights(self, op: nn.OpaqueOp) -> Sequence[SSAValue]:
        return Recurrent(op).weights

    def channels(self, op: nn.OpaqueOp) -> int | None:
        return ROWS

    def scales(self, op: nn.OpaqueOp) -> Array:
        pairs = zip(self._quantized(op), Recurrent(op).weights, strict=True)
        scales = [np.atleast_1d(products(each.qparams.data.scales(), scale_of(w))) for (_, each), w in pairs]
        size = max(one.size for one in scales)
        return np.concatenate([np.broadcast_to(one, (size,)) for one in scales])

    def bias(self, op: nn.OpaqueOp) -> nn.DequantizeOp | None:
        return nn.dequantize_of(Recurrent(op).operand("bias"))

    def bias_scales(self, op: nn.OpaqueOp) -> Array:
        scales, rows = self.scales(op), shape_of(Recurrent(op).weights[0])[ROWS]
        return np.repeat(scales, 2 * rows // scales.size)

    def rewrite(self, build: Builder, op: nn.OpaqueOp) -> Values:
        each = Recurrent(op)
        (_, x), (_, h) = self._quantized(op)
        values = [cast(nn.QuantizeOp, one.input.owner).input for one in (x, h)]
        w, r = (int8_behind(build, value) for value in each.weights)
        cell, bias = each.operand("cell"), self.bias(op)
        kind = ascend.BasicGRUInplaceFillWindowCacheOp if cell is None else ascend.BasicLSTMInplaceFillWindowCacheOp
        made = build.add(
            kind,
            *(values[0], w, r, values[1]),
            *(() if cell is None else (cell,)),
            build.constant(stored(op, self.scales(op)), f"{build.hint}_deq_scale"),
            None if bias is None else bias.input,
            hidden_size=shape_of(each.weights[1])[2],
            quant_scale_x=np.float32(1) / np.float32(x.qparams.data.scales()),
            quant_offset_x=int(x.qparams.data.zero_points()),
            quant_scale_h=np.float32(1) / np.float32(h.qparams.data.scales()),
            quant_offset_h=int(h.qparams.data.zero_points()),
            quant_dtype=data_type_number(x.qparams.data.storage),
        )
        pack_in_files(build, *each.weights)
        return made.results


PATTERNS = (WindowCache,)
