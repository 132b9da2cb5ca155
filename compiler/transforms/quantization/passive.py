"""Quantization is moved behind what only moves elements, to the layer that takes them."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects.nn import DequantizeOp, NNOp, QuantizeOp
from .pairs import quantized_pair
from .sites import Site


def quantize_at(site: Site) -> None:
    """Put quantize and dequantize right before a layer whose data was quantized before passive operations. Same numbers."""
    data = site.activation
    chain = _chain(data)
    if data is None or not chain:
        return
    back = chain[-1].operands[0].owner
    if not isinstance(back, DequantizeOp) or back.qparams.data.axis is not None:
        return
    if not isinstance(before := back.input.owner, QuantizeOp):
        return
    if all(op.results[0].uses.get_length() == 1 for op in chain):
        chain[-1].operands[0] = before.input
    quantize, dequantize = quantized_pair(data, back.qparams, before.location, data.name_hint, source=before.source)
    dequantize.location = back.location
    Rewriter.insert_op([quantize, dequantize], InsertPoint.before(site.owner))
    site.set_operand(0, dequantize.result)


def _chain(value: SSAValue | None) -> list[NNOp]:
    """The passive operations behind a value, the last one first; other parts of a Split may have other readers."""
    chain: list[NNOp] = []
    while isinstance(value, OpResult) and isinstance(op := value.op, NNOp) and op.is_passive and len(op.results) == 1:
        chain.append(op)
        value = op.operands[0]
    return chain
