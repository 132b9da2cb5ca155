"""Layers that were trained with fake quantization, and the conditions (AMCT's `convert_qat_model`) under which they compute in
integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8, i16
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ConstantOp,
    DequantizeOp,
    MatMulOp,
    NNOp,
    QParams,
    QuantizeOp,
    array_of,
    constant_of,
    dequantize_of,
)
from .....dialects.nn.shapes import shape_of
from .....rewriting import M, Refusal, Remarks, Roots, condition
from .....runtime.kernels import kernel_for
from ...decide.layers import channel_axis
from ...decide.sites import Site, sites
from ...numbers.parameters import BIAS_LIMIT, quantized_bias, sum_scales
from ...profiles import Row, profile_of
from ..layer_weights import feed_bias
from ..pairs import MovablePair, movable_pair, quantize_at
from .integers import AdaptPattern


class WeightedPattern(AdaptPattern[M]):
    """A pattern of layers with a weight."""

    roots: ClassVar[Roots] = (NNOp,)

    def __init__(self, remarks: Remarks, module: ModuleOp):
        super().__init__(remarks, module)
        rows = profile_of(remarks.session).rows
        found = ((site, rows[type(site.compute)]) for site in sites(module, rows))
        self.layers: dict[Operation, tuple[Site, Row]] = {s.compute: (s, r) for s, r in found if r.weight is not None}
        """The layers that are left to visit."""


class QuantizeAtLayer(WeightedPattern[MovablePair]):
    """quantize and dequantize move from before passive operations and ReLUs to right before the layer"""

    name = "quantize-at-layer"

    def match(self, op: Operation) -> MovablePair | None:
        return movable_pair(self.layers[op][0]) if op in self.layers else None

    def rewrite(self, m: MovablePair, rewriter: PatternRewriter) -> None:
        quantize_at(m.site)


@dataclass(frozen=True)
class Trained:
    """A layer with quantized data or a quantized weight."""

    site: Site
    row: Row
    data: DequantizeOp | None
    weight: DequantizeOp | None


class AdaptLayer(WeightedPattern[Trained]):
    """a layer as it was trained, with an int32 bias; with a rounded float weight if a condition does not hold"""

    name = "trained-layer"

    @condition
    def quantized_data(self, m: Trained) -> str | None:
        """its data is quantized"""
        quantized = m.data is not None and isinstance(m.data.input.owner, QuantizeOp)
        return None if quantized else "its weight is quantized, its data is not"

    @condition
    def quantized_weight(self, m: Trained) -> str | None:
        """its weight is quantized"""
        return None if m.weight is not None else "its data is quantized, its weight is not"

    @condition
    def integer_data(self, m: Trained) -> str | None:
        """its data is of 8 or 16 bits"""
        storage = _params(m.data).storage
        return None if storage in (i8, i16) else f"its data is {storage}, not of 8 or 16 bits"

    @condition
    def per_tensor_data(self, m: Trained) -> str | None:
        """its data has one scale"""
        return None if _params(m.data).axis is None else "its data has more than one scale"

    @condition
    def constant_weight(self, m: Trained) -> str | None:
        """its weight is constant"""
        constant = m.weight is not None and constant_of(m.weight.input) is not None
        return None if constant else "its weight is computed at run time"

    @condition
    def int8_weight(self, m: Trained) -> str | None:
        """its weight is int8 or uint8"""
        storage = _params(m.weight).storage
        return None if storage == i8 else f"its weight is {storage}, not i8 or ui8"

    @condition
    def symmetric_weight(self, m: Trained) -> str | None:
        """its weight has no zero points"""
        return "its weight has zero points that are not 0" if _params(m.weight).zero_points().any() else None

    @condition
    def matrix_weight(self, m: Trained) -> str | None:
        """the weight of a matrix product is a matrix"""
        rank = len(shape_of(m.site.compute.operands[1]))
        return f"its weight is of rank {rank}, not 2" if isinstance(m.site.compute, MatMulOp) and rank != 2 else None

    @condition
    def per_tensor_weight(self, m: Trained) -> str | None:
        """the weight of a matrix product has one scale, unless the profile has them per channel"""
        if not isinstance(m.site.compute, MatMulOp) or m.row.per_channel or _params(m.weight).axis is None:
            return None
        return "its weight has a scale per channel, as only convolutions may"

    @condition
    def channel_scales(self, m: Trained) -> str | None:
        """the scales of its weight are one, or one for each output channel"""
        params = _params(m.weight)
        if params.block is not None:
            return "its weight has scales per group, not per output channel"
        if params.axis not in (None, channel_axis(m.site.compute)):
            return f"its weight has scales along axis {params.axis}, not per output channel"
        return None

    @condition
    def integer_operator(self, m: Trained) -> str | None:
        """an operator computes it in integers with these parameters, if the profile requires that"""
        if m.row.judge is None or m.data is None or m.weight is None:
            return None
        refusal = m.row.judge.integer_refusal(m.site.compute, m.data.qparams, m.weight.qparams)
        return None if refusal is None else refusal.reason

    def match(self, op: Operation) -> Trained | None:
        if (found := self.layers.get(op)) is None:
            return None
        site, row = found
        data, weight = (None if i is None else dequantize_of(site.operand(i)) for i in (0, row.weight))
        return None if data is None and weight is None else Trained(site, row, data, weight)

    def refused(self, m: Trained, refusal: Refusal) -> None:
        del self.layers[m.site.compute]
        if m.weight is not None and constant_of(m.weight.input) is not None:
            assert m.row.weight is not None
            m.site.set_operand(m.row.weight, _rounded(m.weight))

    def rewrite(self, m: Trained, rewriter: PatternRewriter) -> None:
        op = m.site.compute
        del self.layers[op]
        kept = _quantize_bias(m.site, m.row, _params(m.data), _params(m.weight))
        self.remarks.applied(op, "quantized", "as it was trained")
        if kept is not None:
            self.remarks.note(op, "int32-bias", kept)


def _params(pair: DequantizeOp | None) -> QParams:
    assert pair is not None, "the first two conditions have asked for it"
    return pair.qparams.data


def _quantize_bias(site: Site, row: Row, data: QParams, weight: QParams) -> str | None:
    """Make a constant float bias an integer one, or return the reason why it stays float."""
    bias = None if row.bias is None else site.operand(row.bias)
    if bias is None or row.bias is None or isinstance(bias.owner, DequantizeOp):
        return None
    values, constant = array_of(bias), constant_of(bias)
    if values is None or constant is None:
        return "its bias is computed at run time and stays float"
    scales = sum_scales(weight.scales(), data.scales())
    if (np.abs(values.astype(np.float64)) > scales.astype(np.float64) * BIAS_LIMIT).any():
        return "its bias does not fit into int32 at the accumulators' scales and stays float"
    axis = 0 if scales.ndim else None
    feed_bias(site, row.bias, quantized_bias(values, scales), scales, axis, constant.key)
    return None


def _rounded(weight: DequantizeOp) -> SSAValue:
    """A dequantized weight as a float constant."""
    array, constant, kernel = array_of(weight.input), constant_of(weight.input), kernel_for(weight)
    assert array is not None
    assert constant is not None
    assert kernel is not None
    made = ConstantOp.of(np.asarray(kernel(array)), constant.key, constant.location)
    Rewriter.insert_op(made, InsertPoint.after(constant))
    return made.result
