"""docs/support.md holds AMCT's tables as they are asked; its tables are written from the data:

AMCT_UPDATE=1 python -m pytest test/unit/transforms/quantization/test_support_document.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.rewriting import CheckedPattern
from amct_opt.transforms.quantization.decide.conditions import PATTERNS, DecideLayer, Rule
from amct_opt.transforms.quantization.decide.embeddings import DecideEmbedding
from amct_opt.transforms.quantization.decide.recurrent import DecideRecurrent
from amct_opt.transforms.quantization.tables import NON_UNIFORM, TWO_INPUTS, UNIFORM, WEIGHTS, LayerRow

FRAMEWORKS = {"caffe": "Caffe", "tensorflow": "TensorFlow", "onnx": "ONNX"}


def table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headers = tuple(headers)
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names(each: Iterable[Rule]) -> str:
    return ", ".join(f"`{rule.name}`" for rule in each) or "-"


def layer(row: LayerRow) -> tuple[str, str, str]:
    kinds = ", ".join(op.name for op in row.operations)
    variants = f" ({', '.join(row.variants)})" if row.variants else ""
    return FRAMEWORKS[row.framework], row.op_type + variants, kinds


def own_rules(row: LayerRow) -> list[Rule]:
    """What the target asks for beyond the table."""
    asked = [rule for op in row.operations if op in ASCEND.rows for rule in ASCEND.rows[op].rules]
    return list(dict.fromkeys(asked))


def uniform() -> str:
    rows = [
        (
            *layer(row),
            "tensor only" if row.tensor_only else "fully",
            names(row.rules),
            names(own_rules(row)),
            ", ".join(row.ascend),
        )
        for row in UNIFORM
    ]
    return table(("framework", "type", "`nn`", "quantized", "AMCT's rules", "the target's", "Ascend IR"), rows)


def products() -> str:
    rows = [
        (*layer(row), names(dict.fromkeys((*row.rules, *(row.of_inputs or ())))), ", ".join(row.ascend))
        for row in TWO_INPUTS
    ]
    return table(("framework", "type", "`nn`", "AMCT's rules", "Ascend IR"), rows)


def non_uniform() -> str:
    rows = [(*layer(row), names(row.rules), ", ".join(row.ascend)) for row in NON_UNIFORM]
    return table(("framework", "type", "`nn`", "rules", "Ascend IR"), rows)


def weights() -> str:
    rows = [
        (name, *(mark.value for mark in (*row.weight_only, *row.with_input)), names(row.rules))
        for name, row in WEIGHTS.items()
    ]
    options = ("channel_wise", "asymmetric")
    headers = [f"{kind}: {option}" for kind in ("weight only", "with input") for option in options]
    return table(("Ascend IR", *headers, "rules"), rows)


def patterns() -> str:
    """Every pattern with its own conditions; those that it shares with all others stand once, at the end."""
    kinds: tuple[type[CheckedPattern[Any]], ...] = (*PATTERNS, DecideRecurrent, DecideEmbedding)
    parts: list[str] = []
    for kind in kinds:
        own = [each for each in kind.conditions if kind is DecideLayer or each not in DecideLayer.conditions]
        parts += [f"### {kind.name}", kind.__doc__ or ""]
        parts.append(table(("rule", "holds when"), ((f"`{each.name}`", each.statement) for each in own)))
    return "\n\n".join(parts)


def test_document_is_current(generated):
    parts = {"uniform": uniform(), "products": products(), "non-uniform": non_uniform(), "weights": weights()}
    generated("support.md", **parts, rules=patterns())
