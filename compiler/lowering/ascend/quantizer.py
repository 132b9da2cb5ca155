"""Makes the integers of activations, once for all the layers that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import ascend, nn
from ...ir.precision import precision_mode


@dataclass(frozen=True)
class Activation:
    """A value of int8 or int16, `real = (value - zero_point) * scale`."""

    value: SSAValue
    scale: np.float32
    zero_point: int


@dataclass
class Quantizer:
    """Makes one AscendQuant per value and parameters, at the first of the quantizations that it replaces."""

    _first: dict[nn.QuantizeOp, nn.QuantizeOp] = field(default_factory=dict[nn.QuantizeOp, nn.QuantizeOp])
    _made: dict[nn.QuantizeOp, SSAValue] = field(default_factory=dict[nn.QuantizeOp, SSAValue])

    @staticmethod
    def of(operations: Iterable[nn.QuantizeOp]) -> Quantizer:
        """Groups equal quantizations, given in program order."""
        quantizer, seen = Quantizer(), dict[tuple[SSAValue, nn.QParamsAttr], nn.QuantizeOp]()
        for op in operations:
            quantizer._first[op] = seen.setdefault((op.input, op.qparams), op)
        return quantizer

    def quantized(self, op: nn.QuantizeOp) -> SSAValue:
        """The integers of AscendQuant for a per-tensor quantization. Raises VerifyException like its verifier."""
        first = self._first[op]
        if first not in self._made:
            params = first.qparams.data
            with np.errstate(over="ignore"):  # an infinite reciprocal is refused by the verifier
                reciprocal = np.float32(1) / np.float32(params.scales())
            quant = ascend.AscendQuantOp.make(
                first.input,
                scale=reciprocal,
                offset=int(params.zero_points()),
                dst_type=ascend.AscendQuantOp.type_number(params.storage),
                fakequant_precision_mode=precision_mode(first),
                origin=first.origin,
                location=first.location,
                name=first.result.name_hint,
            )
            Rewriter.insert_op(quant, InsertPoint.before(first))
            self._made[first] = quant.y
        return self._made[first]

    def activation(self, dequantize: nn.DequantizeOp) -> Activation:
        """The integers of a dequantized activation, by AscendQuant."""
        params = dequantize.qparams.data
        value = self.quantized(cast(nn.QuantizeOp, dequantize.input.owner))
        return Activation(value, np.float32(params.scales()), int(params.zero_points()))
