"""Recurrent layers: W and R as integers, each with its own scales; with input, state and biases where the layer computes in
integers, alone otherwise.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, cast

import numpy as np
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.nn import (
    OpaqueOp,
    Plan,
    QParams,
    array_of,
    plan_of,
)
from ....dialects.nn.shapes import shape_of
from ....ir.array import Array
from ....rewriting import Roots, strict
from ....runtime.affine import are_normal
from ..decide.recurrent import ROWS, Recurrent
from .conversion import ConversionPattern, carry_out
from .layer_weights import Weight, described, feed_bias, weight_as
from .parameters import bias_fits, quantized_bias, sum_scales, widened


class PlannedRecurrent:
    """A recurrent layer with the plan of its weights."""

    def __init__(self, layer: Recurrent, plan: Plan):
        self.layer: Recurrent = layer
        self.plan: Plan = plan
        activations = layer.activations if plan.input else None
        self.inputs: list[QParams] = [] if activations is None else [one.qparams.data for one in activations]
        """The parameters of its input and its state; none if they stay float."""

    @cached_property
    def biases(self) -> list[Array | None]:
        """The biases of the input and of the state."""
        numbers = array_of(self.layer.operand("bias"))
        return [None, None] if numbers is None else [*np.split(numbers.reshape(-1), 2)]

    @cached_property
    def weights(self) -> list[Weight]:
        """W and R, with scales in which the biases fit into int32. Raises CompileError like `weight_as`."""
        pairs = zip(self.layer.weights, self.plan.weights, strict=True)
        found = [weight_as(value, how, self.layer.op) for value, how in pairs]
        for i, (weight, half, params) in enumerate(zip(found, self.biases, self.inputs, strict=False)):
            if not weight.fixed:
                found[i] = weight._replace(scales=widened(weight.scales, half, float(params.scales())))
        return found

    @cached_property
    def sums(self) -> list[Array]:
        """The scales of the sums that the biases are added to: float32, [] or [gates * hidden]; none if its inputs stay float."""
        return [sum_scales(w.scales, p.scales()) for w, p in zip(self.weights, self.inputs, strict=False)]


class ConvertRecurrent(ConversionPattern[PlannedRecurrent]):
    """a recurrent layer, with integers for W and R, and for its biases if its input and its state are quantized"""

    name = "recurrent"
    roots: ClassVar[Roots] = (OpaqueOp,)

    @strict()
    def both_weights(self, m: PlannedRecurrent) -> str | None:
        """its plan has W and R"""
        whole = len(m.plan.weights) == len(m.layer.weights)
        return None if whole else "has a plan for one weight, where W and R are quantized together"

    @strict("give skip-layers={layer}")
    def normal_sums(self, m: PlannedRecurrent) -> str | None:
        """the scales of its sums are normal float32 numbers"""
        return None if all(map(are_normal, m.sums)) else "has sums in units that are not normal float32 numbers"

    @strict("give skip-layers={layer}")
    def biases_fit(self, m: PlannedRecurrent) -> str | None:
        """its biases fit into int32 at the scales of a record; scales that are computed are raised until they do"""
        halves = zip(m.biases, m.sums, strict=False)
        fit = all(half is None or bias_fits(half, sums) for half, sums in halves)
        return None if fit else "has a bias that does not fit into int32 at these scales"

    def match(self, op: Operation) -> PlannedRecurrent | None:
        """The layer; none whose points are not calibrated: their remarks say so."""
        each, plan = self.conversion.recurrent.get(cast(OpaqueOp, op)), plan_of(op)
        if each is None or plan is None or not plan.weights or each.is_quantized:
            return None
        return PlannedRecurrent(each, plan) if not plan.input or each.activations is not None else None

    def rewrite(self, m: PlannedRecurrent, rewriter: PatternRewriter) -> None:
        each, how = m.layer, ""
        if m.inputs:
            x, h = (f"{float(p.scales()):.6g}, zero point {p.zero_point[0]}" for p in m.inputs)
            how = f"input, scale {x}; state, scale {h}; "
            if (numbers := array_of(each.operand("bias"))) is not None:
                rows = shape_of(each.weights[0])[ROWS : ROWS + 1]
                units = np.concatenate([np.broadcast_to(sums, rows) for sums in m.sums])
                place = each.place("bias")
                assert place is not None, "its bias has numbers"
                feed_bias(each.site, place, quantized_bias(numbers, units), units, 1)
        for index, weight in enumerate(m.weights, 1):
            self.conversion.weights.feed(each.site, index, weight)
        w, r = map(described, m.weights)
        self.remarks.applied(each.op, "quantized", f"{how}W {w}, R {r}{'' if m.inputs else ', alone'}")
        carry_out(each.op, self.remarks)
