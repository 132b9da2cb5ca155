"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from ....diagnostics import Remark
from ....dialects.nn import DequantizeFloatOp, DequantizeOp, ObserveOp, QParams, SliceOp, dequantize_of, set_type
from ....ir.number_formats import ACTIVATION_FORMATS
from ....rewriting import Remarks, Roots, condition, erase_dead_constants, rewrite, strict
from ....rewriting.driver import garbage_collection_off
from ....runtime.affine import are_normal
from ....session import Session, session_of
from ..decide.sites import graph_points, note_other_functions
from ..profiles import profile_of
from .conversion import Conversion, ConversionPattern, ConvertedLayer, ConvertLayer, carry_out, number_format_at
from .layer_weights import described, feed_bias, inexact_layers
from .pairs import format_pair, quantized_pair
from .parameters import bias_fits, quantized_bias, round_scales
from .recurrent_weights import ConvertRecurrent


class ConvertWeightedLayer(ConvertLayer):
    """a layer with a quantized input, with integers for its weight and its bias"""

    name = "weighted-layer"

    @strict("give skip-layers={layer}")
    def normal_sums(self, m: ConvertedLayer) -> str | None:
        """the scales of its sums, which are the input's times the weight's, are normal float32 numbers"""
        if are_normal(m.sums):
            return None
        units = f"{float(_input(m).scales()):.6g} times {float(np.max(m.weight.scales)):.6g}"
        return f"has sums in units of {units}, which is not a normal float32 number"

    @strict("leave it out of the record, or give skip-layers={layer}")
    def bias_fits(self, m: ConvertedLayer) -> str | None:
        """its bias fits into int32 at the scales of a record; scales that are computed are raised until it does"""
        numbers = m.bias_numbers if m.weight.fixed else None
        if numbers is None or bias_fits(numbers, m.sums, m.bias_type):
            return None
        return "has a bias that does not fit into int32 at the record's scales"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is not None and m.has_weight

    def convert(self, m: ConvertedLayer) -> str:
        assert m.row.weight is not None
        if (numbers := m.bias_numbers) is not None:
            assert m.row.bias is not None
            integers = quantized_bias(numbers, m.sums, m.bias_type)
            feed_bias(m.site, m.row.bias, integers, m.sums, 0 if m.sums.ndim else None)
        self.conversion.weights.feed(m.site, m.row.weight, m.weight)
        return f"{_input_text(m)}; {described(m.weight)}"


class ConvertProduct(ConvertLayer):
    """a product of two inputs, both quantized"""

    name = "product"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is not None and m.row.two_inputs and m.site.multiplies_inputs

    def convert(self, m: ConvertedLayer) -> str:
        pairs = (dequantize_of(m.site.operand(i)) for i in m.site.inputs)
        scales = (f"{float(pair.qparams.data.scales()):.6g}" for pair in pairs if pair is not None)
        return f"int{_input(m).storage.width.data} inputs, scales {' and '.join(scales)}"


class ConvertInput(ConvertLayer):
    """a layer of which only the input is quantized: a pool, a sum, any that has no constant weight"""

    name = "input"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is not None

    def convert(self, m: ConvertedLayer) -> str:
        return _input_text(m)


class ConvertToFormat(ConvertLayer):
    """a layer of which only the weight is stored in a number format"""

    name = "weight-format"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is None and m.number_format is not None

    def convert(self, m: ConvertedLayer) -> str:
        index, plan = m.row.weight, m.plan.weights[0]
        assert index is not None
        weight = m.site.operand(index)
        assert weight is not None
        self.conversion.weights.feed_format(m.site, index, weight, plan)
        scales = "tensor" if plan.axis is None else "channel" if plan.block is None else f"group of {plan.block}"
        weight_text = f"{plan.number_format} weight per {scales}"
        return f"{weight_text}, alone" if m.input_format is None else f"{m.input_format} input; {weight_text}"


class ConvertWeight(ConvertLayer):
    """a layer of which only the weight is quantized"""

    name = "weight-only"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is None and m.has_weight

    def convert(self, m: ConvertedLayer) -> str:
        assert m.row.weight is not None
        self.conversion.weights.feed(m.site, m.row.weight, m.weight)
        return f"{described(m.weight)}, alone"


def _input(m: ConvertedLayer) -> QParams:
    assert m.params is not None, "its input is quantized"
    return m.params


def _input_text(m: ConvertedLayer) -> str:
    params = _input(m)
    scale = f"{float(params.scales()):.6g}"
    return f"int{params.storage.width.data} input, scale {scale}, zero point {params.zero_point[0]}"


class ConvertPoint(ConversionPattern[ObserveOp]):
    """`observe x` becomes `dequantize(quantize x)`; a point that nothing reads is erased"""

    name = "point"
    roots: ClassVar[Roots] = (ObserveOp,)

    @condition
    def calibrated(self, m: ObserveOp) -> str | None:
        """it has parameters"""
        return "it has no parameters: run --calibrate first" if m.qparams is None else None

    def match(self, op: Operation) -> ObserveOp | None:
        return cast(ObserveOp, op) if self.conversion.graph.is_ancestor(op) else None

    def rewrite(self, m: ObserveOp, rewriter: PatternRewriter) -> None:
        assert m.qparams is not None
        if not m.result.uses:  # it only saw values, for the other points of its group
            source = m.input.owner
            rewriter.erase(m)
            if isinstance(source, SliceOp) and not source.result.uses:
                rewriter.erase(source)
            return
        if (name := number_format_at(m)) is not None:
            assert m.range is not None, "it is calibrated"
            low, high = m.range.data
            made = format_pair(m.input, ACTIVATION_FORMATS[name], max(-low, high), m)
            Rewriter.replace_op(m, made, made[-1].results)
            return
        properties = {"source": m.source, "group": m.group, "master": m.master}
        pair = quantized_pair(m.input, m.qparams, m.location, m.input.name_hint, **properties)
        set_type(pair[1].result, m.result.type)
        Rewriter.replace_op(m, pair, pair[1].results)  # no pattern starts from the two, or from what reads them


Patterns = tuple[type[ConversionPattern[Any]], ...]


@dataclass(frozen=True)
class ConvertObserversPass(ModulePass):
    """Turn calibrated observers into quantize and dequantize, and weights and biases into integers, as the layers' plans have it.

    A layer without a plan, whose observer was placed by hand, has 8-bit weights, per channel where the profile has them so.
    """

    name = "convert-observers"

    PATTERNS: ClassVar[Patterns] = (
        ConvertWeightedLayer,
        ConvertProduct,
        ConvertInput,
        ConvertToFormat,
        ConvertWeight,
        ConvertRecurrent,
        ConvertPoint,
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_observers(op, session_of(ctx))


@garbage_collection_off()
def convert_observers(module: ModuleOp, session: Session) -> None:
    """Quantize what is observed and calibrated, and the weights that are planned to be quantized by themselves.

    Plans that are carried out are dropped; while points are not calibrated, the others stay.
    """
    remarks = Remarks(session, ConvertObserversPass.name)
    note_other_functions(module, remarks, ObserveOp)
    round_scales(module, remarks)
    conversion = Conversion(module, remarks)
    added = cast(Patterns, session.patterns_of(ConvertObserversPass.name))
    patterns = [pattern(conversion) for pattern in (*added, *ConvertObserversPass.PATTERNS)]
    rewrite(module, *patterns, erase_dead=False)
    if not graph_points(module):
        for op in module.walk():
            carry_out(op, remarks)
    erase_dead_constants(module)
    if (profile := profile_of(session)).facts.kernels:
        for each in inexact_layers(module, profile):
            remarks.note(each.op, "portable", each.reason)
    remarks.flush()
    if not any(isinstance(op, DequantizeOp | DequantizeFloatOp) for op in module.walk()):
        session.warn(f"nothing is quantized: {_reasons(session.remarks)}")


def _reasons(remarks: Sequence[Remark]) -> str:
    """The most frequent reasons why layers stay in float."""
    first: dict[str, Remark] = {}
    for remark in remarks:
        if remark.pass_name == "insert-observers" and remark.kind == "missed":
            first.setdefault(remark.layer, remark)
    reasons = Counter((r.op, r.reason) for r in first.values()).most_common(_LISTED)
    shown = [f"{count} {op}, because {reason}" for (op, reason), count in reasons]
    return "; ".join(shown) or "the model has no layer of a type that the profile quantizes"


_LISTED = 2
"""Reasons in a warning; the remarks have all of them."""
