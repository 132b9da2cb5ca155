"""ONNX's LSTM, GRU and RNN, which `nn` carries: their weights W and R can be integers while everything else stays float.

AMCT's record has fields for both (`scale_w`, `scale_r`). Ascend IR has no operator that computes such a layer in integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from ...configuration.layer_settings import Layer
from ...dialects.nn import DequantizeOp, OpaqueOp, constant_of
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import is_float
from ...ir.functions import main_function
from ...rewriting import layer_of
from .sites import Site

TYPES = frozenset({"GRU", "LSTM", "RNN"})

ROWS = 1
"""The axis of W `[directions, gates * hidden, input]` and R `[directions, gates * hidden, hidden]` that counts gate outputs.
Both directions share its scales.
"""


class Recurrent(NamedTuple):
    """A recurrent layer, by the operation that carries it."""

    op: OpaqueOp

    @property
    def layer(self) -> Layer:
        """The layer in the form that settings use."""
        return Layer(layer_of(self.op), self.op.op_type.data, channel_wise=True, weight_only=True)

    @property
    def site(self) -> Site:
        return Site(self.op, self.op, half_precision=False)

    @property
    def weights(self) -> tuple[SSAValue, SSAValue]:
        """W and R."""
        return self.op.operands[1], self.op.operands[2]

    @property
    def is_quantized(self) -> bool:
        """Whether both weights come from integer constants."""
        return all(
            isinstance(v, OpResult) and isinstance(v.op, DequantizeOp) and constant_of(v.op.input) is not None
            for v in self.weights
        )

    @property
    def broken(self) -> tuple[str, str] | None:
        """The rule that keeps the weights float, by its name, and the reason."""
        for name, value in zip("WR", self.weights, strict=True):
            constant = constant_of(value)
            if constant is None:
                return "weight-constant", f"its weight {name} is computed at run time"
            if not is_float(element_of(value)) or not constant.finite:
                return "weight-constant", f"its weight {name} does not hold finite floats"
        return None


def recurrent_layers(module: ModuleOp) -> Iterator[Recurrent]:
    """The recurrent layers of ONNX's own domain, in program order."""
    for op in main_function(module).body.block.ops:
        if not isinstance(op, OpaqueOp) or op.framework.data != "onnx" or (op.domain is not None and op.domain.data):
            continue
        if op.op_type.data in TYPES:
            yield Recurrent(op)
