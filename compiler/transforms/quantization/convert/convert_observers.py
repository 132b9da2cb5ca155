"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from ....dialects.nn import (
    DequantizeFloatOp,
    DequantizeOp,
    ObserveOp,
    QParams,
    SliceOp,
    array_of,
    dequantize_of,
    set_type,
)
from ....dialects.nn.shapes import shape_of
from ....ir.number_formats import ACTIVATION_FORMATS
from ....rewriting import Remarks, Roots, condition, erase_dead_constants, rewrite, strict
from ....rewriting.driver import garbage_collection_off
from ....runtime.affine import are_normal
from ....session import Session, session_of
from ..decide.recurrent import ROWS
from ..decide.sites import graph_points, note_other_functions
from ..numbers.parameters import bias_fits, quantized_bias, round_scales
from ..profiles import profile_of
from .conversion import (
    Conversion,
    ConversionPattern,
    ConvertedLayer,
    ConvertedRecurrent,
    ConvertLayer,
    carry_out,
    number_format_at,
)
from .layer_weights import feed_bias, inexact_layers
from .pairs import format_pair, quantized_pair


class ConvertWeightedLayer(ConvertLayer):
    """a layer with a quantized input, with integers for its weight and its bias"""

    name = "weighted-layer"

    @strict("give skip-layers={layer}")
    def normal_sums(self, m: ConvertedLayer) -> str | None:
        """the scales of its sums, which are the input's times the weight's, are normal float32 numbers"""
        for each in m.weights if m.params is not None else ():
            if not are_normal(each.sums):
                assert each.params is not None, "its input is quantized"
                units = f"{float(each.params.scales()):.6g} times {float(np.max(each.weight.scales)):.6g}"
                return f"has sums in units of {units}, which is not a normal float32 number"
        return None

    @strict("leave it out of the record, or give skip-layers={layer}")
    def bias_fits(self, m: ConvertedLayer) -> str | None:
        """its bias fits into int32 at the scales of a record; scales that are computed are raised until it does"""
        recorded = (each for each in m.weights if each.weight.fixed and each.bias is not None and m.params is not None)
        if all(bias_fits(each.bias, each.sums, each.bias_type) for each in recorded if each.bias is not None):
            return None
        return "has a bias that does not fit into int32 at the record's scales"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is not None and m.has_weight

    def convert(self, m: ConvertedLayer) -> str:
        assert m.row.weight is not None
        (each,) = m.weights
        if each.bias is not None:
            assert m.row.bias is not None
            integers = quantized_bias(each.bias, each.sums, each.bias_type)
            feed_bias(m.site, m.row.bias, integers, each.sums, 0 if each.sums.ndim else None)
        self.conversion.weights.feed(m.site, m.row.weight, m.weight)
        return f"{_input_text(m)}; {m.weight.text}"


class ConvertRecurrent(ConvertWeightedLayer):
    """a recurrent layer, with integers for W and R, and for its biases if its input and its state are quantized"""

    name = "recurrent"

    @strict()
    def both_weights(self, m: ConvertedLayer) -> str | None:
        """its plan has W and R"""
        return None if len(m.weights) == 2 else "has a plan for one weight, where W and R are quantized together"

    def takes(self, m: ConvertedLayer) -> bool:
        return isinstance(m, ConvertedRecurrent)

    def convert(self, m: ConvertedLayer) -> str:
        assert isinstance(m, ConvertedRecurrent), "it takes no other"
        how, layer = "", m.layer
        if m.params is not None:
            x, h = (f"{float(p.scales()):.6g}, zero point {p.zero_point[0]}" for p in m.inputs)
            how = f"input, scale {x}; state, scale {h}; "
            if (numbers := array_of(layer.operand("bias"))) is not None:
                rows, place = shape_of(layer.weights[0])[ROWS : ROWS + 1], layer.place("bias")
                assert place is not None, "its bias has numbers"
                units = np.concatenate([np.broadcast_to(each.sums, rows) for each in m.weights])
                feed_bias(m.site, place, quantized_bias(numbers, units), units, 1)
        for index, each in enumerate(m.weights, 1):
            self.conversion.weights.feed(m.site, index, each.weight)
        w, r = (each.weight.text for each in m.weights)
        return f"{how}W {w}, R {r}{'' if m.params is not None else ', alone'}"


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


class ConvertWeight(ConvertLayer):
    """a layer of which only the weight is quantized, or stored in a number format"""

    name = "weight-only"

    def takes(self, m: ConvertedLayer) -> bool:
        return m.params is None and m.has_weight

    def convert(self, m: ConvertedLayer) -> str:
        assert m.row.weight is not None
        self.conversion.weights.feed(m.site, m.row.weight, m.weight)
        return f"{m.weight.text}, alone" if m.input_format is None else f"{m.input_format} input; {m.weight.text}"


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


@dataclass(frozen=True)
class ConvertObserversPass(ModulePass):
    """Turn calibrated observers into quantize and dequantize, and weights and biases into integers, as the layers' plans have it.

    A layer without a plan, whose observer was placed by hand, has 8-bit weights, per channel where the profile has them so.
    """

    name = "convert-observers"

    PATTERNS: ClassVar[tuple[type[ConversionPattern[Any]], ...]] = (
        ConvertRecurrent,
        ConvertWeightedLayer,
        ConvertProduct,
        ConvertInput,
        ConvertWeight,
        ConvertPoint,
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_observers(op, session_of(ctx))


@garbage_collection_off()
def convert_observers(module: ModuleOp, session: Session) -> bool:
    """Quantize what is observed and calibrated, and the weights that are planned to be quantized by themselves. Returns whether
    the module has anything that is quantized.

    Plans that are carried out are dropped; while points are not calibrated, the others stay.
    """
    remarks = Remarks(session, ConvertObserversPass.name)
    note_other_functions(module, remarks, ObserveOp)
    round_scales(module, remarks)
    conversion = Conversion(module, remarks)
    kinds = (*session.patterns_of(ConvertObserversPass.name), *ConvertObserversPass.PATTERNS)
    patterns = [kind(conversion) for kind in kinds]
    rewrite(module, *patterns, erase_dead=False)
    if not graph_points(module):
        for op in module.walk():
            carry_out(op, remarks)
    erase_dead_constants(module)
    if (profile := profile_of(session)).facts.kernels:
        for each in inexact_layers(module, profile):
            remarks.note(each.op, "portable", each.reason)
    remarks.flush()
    return any(isinstance(op, DequantizeOp | DequantizeFloatOp) for op in module.walk())


"""Reasons in a warning; the remarks have all of them."""
