"""To integers and back: the two operations that stand for a quantized value."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from ...dialects.nn import DequantizeOp, QParamsAttr, QuantizeOp


def quantized_pair(
    value: SSAValue, qparams: QParamsAttr, location: LocationAttr, name: str | None = None, **properties: Any
) -> tuple[QuantizeOp, DequantizeOp]:
    """`quantize` of a value, with these properties, and `dequantize`, which gives the value's type again; not inserted yet.

    Results are called `name.q` and `name.dq`.
    """
    quantize = QuantizeOp.make(
        value, qparams=qparams, location=location, name=f"{name}.q" if name else None, **properties
    )
    dequantize = DequantizeOp.make(
        quantize.result,
        qparams=qparams,
        result_types=[value.type],
        location=location,
        name=f"{name}.dq" if name else None,
    )
    return quantize, dequantize
