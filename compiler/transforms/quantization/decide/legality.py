"""Whether a layer may be quantized: AMCT's tables for its source, the profile's rules for its operation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.nn import (
    DequantizeFloatOp,
    DequantizeOp,
    How,
    NNOp,
    OriginAttr,
    WeightedOp,
    constant_of,
    plan_of,
)
from ....ir.number_formats import NUMBER_FORMATS
from ....rewriting import Condition, Refusal, Remarks, Roots, condition, layer_of
from ..profiles import Row
from ..tables import NON_UNIFORM, PYTORCH, UNIFORM, WEIGHTS, LayerRow, Mark, listed_in
from .conditions import DecideLayer, DecideProduct, DecideWeighted, first_of, legality_of, type_of
from .deciding import Decide, Requested
from .rows import Broken, Layer, Rule
from .sites import Site, sites

FRAMEWORKS = frozenset(row.framework for row in UNIFORM)

_WITHOUT_SOURCE = ("onnx", frozenset({"Conv", "ConvTranspose", "MatMul", "AveragePool", "MaxPool", "Add"}))
"""Operations without a known source framework follow the rules of the corresponding ONNX layers."""


def rows_of(op: NNOp, table: Iterable[LayerRow] = UNIFORM) -> list[LayerRow]:
    """The rows of a table for the source layer of an operation, or for the PyTorch module that it is a call of."""
    framework, types = _WITHOUT_SOURCE
    origin = op.origin
    if isinstance(origin, OriginAttr) and origin.framework.data in FRAMEWORKS:
        framework, types = origin.framework.data, {origin.op_type.data}
    sources = {(framework, each) for each in types}
    if isinstance(origin, OriginAttr):
        sources.add(("pytorch", origin.module_class))
    return [row for row in table if sources & {(row.framework, each) for each in (row.op_type, *row.variants)}]


def row_of(op: NNOp, table: Iterable[LayerRow] = UNIFORM) -> LayerRow | None:
    """The row that judges an operation."""
    return next((row for row in rows_of(op, table) if isinstance(op, row.operations)), None)


def types_of(frameworks: Collection[str]) -> set[str]:
    """The types of layers in AMCT's table of uniform quantization for these frameworks, by their names and Ascend IR's."""
    rows = [row for row in (*UNIFORM, *PYTORCH) if row.framework in frameworks]
    return {name for row in rows for name in (row.op_type, *row.variants, *row.ascend)}


def first_broken(site: Site, rules: Sequence[Rule], table: Sequence[LayerRow] = UNIFORM) -> Broken | None:
    """The first rule that is not met: of the source layer's table, of the form that fusion gave the layer, of the profile."""
    m = Layer.at(site, Row(rules=tuple(rules)), row_of(site.compute, table))
    return first_of(m, legality_of(m, listed_in(table)))


def non_uniform_broken(site: Site, rules: Sequence[Rule]) -> Broken | None:
    """The first rule that keeps a layer's weight from a few levels: those of uniform quantization, then AMCT's table."""
    if (broken := first_broken(site, rules)) is not None:
        return broken
    if (row := row_of(site.compute, NON_UNIFORM)) is None:
        return DecideLayer.not_in_table, f"AMCT does not restrict the weights of {type_of(site)} layers to a few values"
    return first_of(site, row.rules)


def rules_of_weight(op: NNOp, row: Row, number_format: str | None = None) -> Sequence[Rule] | None:
    """The rules for quantizing a layer's weight by itself, to integers (AMCT's table 3) or to a number format; None if its type
    has no such mode.
    """
    if row.weight_only == "always" or (number_format is not None and row.channel_formats):
        return (DecideWeighted.weight_constant,)
    source = row_of(op) if row.weight_only == "table" else None
    weights = None if source is None else WEIGHTS.get(source.ascend[0])
    return None if weights is None or Mark.NONE in weights.weight_only else weights.rules


def weight_only_broken(site: Site, row: Row, number_format: str | None = None) -> Broken | None:
    """The first rule that keeps a layer's weight from being quantized by itself, to integers or to a number format."""
    m = Layer.at(site, row, number_format=number_format)
    return first_of(m, DecideWeights.legality(m))


class DecideWeights(DecideLayer):
    """A layer with a weight, where only weights are quantized: its weight, by itself."""

    name = "quantize-weights"

    def match(self, op: Operation) -> Layer | None:
        m = super().match(op)
        if m is None or has_quantized_weight(m) or not self.deciding.takes_weight(m):
            return None
        return m

    def asked(self, m: Layer) -> Iterable[Condition[Any]]:
        """Settings do not exclude it: a layer that they exclude is not taken for its weight."""
        return self.legality(m)

    @classmethod
    def legality(cls, m: Layer) -> Iterator[Rule]:
        """The conditions of a layer apart from settings, in their order."""
        yield cls.weight_only
        yield DecideLayer.input_float
        yield from rules_of_weight(m.compute, m.row, m.number_format) or ()
        yield cls.integer_weight
        if m.row.weight_only != "table" and m.number_format is not None and NUMBER_FORMATS[m.number_format].block:
            yield DecideProduct.matrix_weight

    @classmethod
    def listed(cls, profile: Any) -> Iterator[tuple[Condition[Any], str]]:
        rows = {kind.name: row for kind, row in profile.rows.items() if row.weight_only or row.channel_formats}
        tables = [name for name, row in rows.items() if row.weight_only == "table"]
        always = [name for name, row in rows.items() if row.weight_only == "always"]
        yield from ((each, "") for each in (cls.weight_only, DecideLayer.input_float))
        yield DecideWeighted.weight_constant, ""
        if tables:
            yield cls.integer_weight, ", ".join(tables)
        if always:
            yield DecideProduct.matrix_weight, f"{', '.join(always)} in a number format with blocks"

    def rewrite(self, m: Layer, rewriter: PatternRewriter) -> None:
        self.deciding.quantize_weight(m, self.how)

    def how(self, m: Layer, given: How) -> How:
        """The quantization of the weight, if settings or the record give `given`."""
        return given

    @condition
    def weight_only(self, m: Layer) -> str | None:
        """the layer's weight can be quantized while its input stays float (AMCT's table of weights)"""
        if rules_of_weight(m.compute, m.row, m.number_format) is not None:
            return None
        return f"AMCT does not quantize the weights of {type_of(m)} layers alone"

    @condition
    def integer_weight(self, m: Layer) -> str | None:
        """a weight that is quantized by itself becomes integers of 3 bits or more (AMCT): number formats are not described"""
        if m.row.weight_only != "table":
            return None
        if m.number_format is not None:
            return (
                "this target takes weights of integers, not of floats of 8 or 4 bits: use profile qdq, or weight-bits"
            )
        narrow = m.settings is not None and m.settings.weight is not None and m.settings.weight.bits == 2
        return "this target takes weights of 3 bits or more: use profile qdq, or weight-bits" if narrow else None


class KeepIntegers(DecideLayer):
    """A layer that is quantized already: it stays so."""

    name = "keep-integers"

    def match(self, op: Operation) -> Layer | None:
        m = super().match(op)
        return m if m is not None and self.deciding.has_integers(m) else None

    def rewrite(self, m: Layer, rewriter: PatternRewriter) -> None:
        self.deciding.keep(m)

    def refused(self, m: Layer, refusal: Refusal) -> None:
        """Does nothing: without a plan, nothing about the layer changes."""
        self.deciding.decided(m)

    @condition
    def weight_quantized(self, m: Layer) -> str | None:
        """the layer's weight, where it has one, is quantized as well as its input"""
        if m.row.weight is None:
            return None
        weight = m.operand(m.row.weight)
        if isinstance(weight, OpResult) and isinstance(weight.op, DequantizeOp | DequantizeFloatOp):
            return None
        return "its input is quantized in the model, its weight is not: both stay so"

    asks: ClassVar[tuple[Condition[Any], ...] | None] = (weight_quantized,)


def has_quantized_weight(site: Site) -> bool:
    """The layer's weight is quantized already."""
    if not isinstance(site.compute, WeightedOp):
        return False
    weight = site.operand(1)
    return (
        isinstance(weight, OpResult)
        and isinstance(weight.op, DequantizeOp | DequantizeFloatOp)
        and constant_of(weight.op.input) is not None
    )


class DecideOther(Decide[Site]):
    """A layer of a type that AMCT's table of uniform quantization has, by any of its operations."""

    name = "quantize-other"
    roots: ClassVar[Roots] = (NNOp,)

    def __init__(self, request: Requested, remarks: Remarks, module: ModuleOp):
        super().__init__(request, remarks)
        self._known = {layer_of(site.compute) for site in sites(module, request.profile.rows)}
        first: dict[str, Site] = {}
        for site in sites(module, (NNOp,)):
            if site.compute.origin is not None and rows_of(site.compute):
                first.setdefault(layer_of(site.compute), site)
        self._undecided: dict[Operation, Site] = {site.compute: site for site in first.values()}

    def match(self, op: Operation) -> Site | None:
        return self._undecided.pop(op, None) if plan_of(op) is None else None

    def asked(self, m: Site) -> Iterable[Condition[Any]]:
        row = None if layer_of(m.compute) in self._known else row_of(m.compute)
        return (*(() if row is None else row.rules_of(m)), DecideOther.imported_as)

    def rewrite(self, m: Site, rewriter: PatternRewriter) -> None:
        """Does nothing: the operation is decided as one of the profile."""

    @condition
    def imported_as(self, m: Site) -> str | None:
        """the layer is imported as an operation that the profile quantizes"""
        return None if layer_of(m.compute) in self._known else f"it is imported as {m.compute.name}"

    asks: ClassVar[tuple[Condition[Any], ...] | None] = (imported_as,)
