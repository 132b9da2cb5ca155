"""Whether a layer may be quantized: AMCT's tables for its source, the profile's rules for its operation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from ....dialects.nn import NNOp, OriginAttr
from ....ir.number_formats import NUMBER_FORMATS
from ....rewriting import layer_of
from ..profiles import Row
from ..tables import NON_UNIFORM, PYTORCH, UNIFORM, WEIGHTS, LayerRow, Mark
from .conditions import Broken, DecideLayer, DecideProduct, DecideWeighted, Rule, first_of, type_of
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
    """The first rule that does not hold: of the source layer's table, of what fusion made of the layer, of the profile."""
    row = row_of(site.compute, table)
    missing = DecideLayer.not_a_module if table is PYTORCH else DecideLayer.not_in_table
    layer = (() if not table else (missing,)) if row is None else row.rules_of(site)
    return first_of(site, (DecideLayer.input_float, *layer, DecideLayer.input_computed, *rules))


def non_uniform_broken(site: Site, rules: Sequence[Rule]) -> Broken | None:
    """The first rule that keeps a layer's weight from a few levels: those of uniform quantization, then AMCT's table."""
    if (broken := first_broken(site, rules)) is not None:
        return broken
    if (row := row_of(site.compute, NON_UNIFORM)) is None:
        return DecideLayer.not_in_table, f"AMCT does not restrict the weights of {type_of(site)} layers to a few values"
    return first_of(site, row.rules)


def has_weight_only_mode(op: NNOp, row: Row) -> bool:
    """Whether the weights of a layer's type can be quantized by itself, per channel and asymmetric too (AMCT's table 3)."""
    return _weight_only_rules(op, row) is not None


def weight_only_broken(site: Site, row: Row, number_format: str | None = None) -> Broken | None:
    """The first rule that keeps a layer's weight from being quantized by itself, to integers or to a number format."""
    rules = _weight_only_rules(site.compute, row)
    if number_format is not None and row.channel_formats:
        rules = (DecideWeighted.weight_constant,)
    if rules is None:
        return first_of(site, (DecideLayer.weight_only,))
    return first_of(site, (DecideLayer.input_float, *rules, *_format_rules(row, number_format)))


def _format_rules(row: Row, number_format: str | None) -> Sequence[Rule]:
    if number_format is None:
        return ()
    if row.weight_only == "table":
        return (DecideWeighted.integer_weight,)
    return () if NUMBER_FORMATS[number_format].block is None else (DecideProduct.matrix_weight,)


def _weight_only_rules(op: NNOp, row: Row) -> Sequence[Rule] | None:
    """The rules for quantizing the weight alone; None if there is no such mode."""
    if row.weight_only != "table":
        return (DecideWeighted.weight_constant,) if row.weight_only == "always" else None
    source = row_of(op)
    weights = None if source is None else WEIGHTS.get(source.ascend[0])
    return None if weights is None or Mark.NONE in weights.weight_only else weights.rules


def other_layers(module: ModuleOp, kinds: Iterable[type[NNOp]]) -> Iterator[tuple[Site, Broken]]:
    """Layers that AMCT's table of uniform quantization lists, but that are not one of these operations; with the
    reason.
    """
    kinds = tuple(kinds)
    seen = {layer_of(site.compute) for site in sites(module, kinds)}
    for site in sites(module, (NNOp,)):
        op = site.compute
        if op.origin is None or layer_of(op) in seen or not rows_of(op):
            continue
        seen.add(layer_of(op))
        row = row_of(op)
        broken = first_of(site, (*(() if row is None else row.rules_of(site)), DecideLayer.imported_as))
        assert broken is not None, "the last rule never holds"
        yield site, broken
