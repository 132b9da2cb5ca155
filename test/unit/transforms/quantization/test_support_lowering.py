"""What AMCT's table lets be quantized computes in integers on Ascend, by the table's operator.

The layers are those of the text tests `test/lit/transforms/quantization/support-*.mlir`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

from amct_opt.dialects.ascend.base import AscendOp
from amct_opt.dialects.nn import ConvOp
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.lowering.ascend.trial_lowering import integer_refusal
from amct_opt.rewriting import layer_of
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.decide.legality import row_of
from amct_opt.transforms.quantization.decide.sites import sites
from amct_opt.transforms.quantization.tables import UNIFORM

TEXTS = sorted((Path(__file__).parents[3] / "lit" / "transforms" / "quantization").glob("support-*.mlir"))


def takes_integers(op: Operation) -> bool:
    """From int8 to int32."""
    return isinstance(op, AscendOp) and element_of(op.results[0]) == i32 and i8 in map(element_of, op.operands)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_integers_on_ascend(equivalence, path):
    tried = set()
    for text in path.read_text("utf-8").split("// -----"):
        module, session = equivalence.parse(text), new_session()
        rows = {layer_of(site.compute): row_of(site.compute) for site in sites(module, ASCEND.rows)}
        lowered = equivalence.after(module, "quantize", "lower-to-ascend", session=session)
        quantized = {r.layer for r in session.remarks if r.rule == "quantized"}
        products = {layer_of(op).removesuffix("_acc"): op for op in lowered.walk() if takes_integers(op)}
        assert set(products) == quantized
        for layer, op in products.items():
            row = rows[layer]
            assert row is not None
            assert op.name.removeprefix("ascend.") in row.ascend
            tried.add(id(row))
    (framework,) = {row.framework for row in UNIFORM if path.stem.endswith(row.framework)}
    wanted = {id(row) for row in UNIFORM if row.framework == framework and not row.tensor_only}
    assert wanted <= tried


def test_answers_follow_the_operation() -> None:
    """The lowering is tried once for equal facts; an operation that changes is tried again."""
    types = "(tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>"
    text = f"""
    func.func @main(%x: tensor<1x2x8x8xf32>, %w: tensor<4x2x3x3xf32>, %open: tensor<4x2x?x?xf32>) -> tensor<1x4x6x6xf32> {{
      %y = nn.conv %x, %w from <onnx, "Conv", "c"> : {types}
      func.return %y : tensor<1x4x6x6xf32>
    }}"""
    (op,) = [op for op in parse_module(new_session(), text).walk() if isinstance(op, ConvOp)]
    block = op.parent_block()
    assert block is not None
    weight, unknown = op.weight, block.args[2]
    answers: list[str | None] = []
    for each in (weight, unknown, weight):
        op.operands[1] = each
        refusal = integer_refusal(op)
        answers.append(refusal and refusal.rule)
    assert answers == [None, "known-sizes", None]
