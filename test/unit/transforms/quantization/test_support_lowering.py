"""What AMCT's table lets be quantized computes in integers on Ascend, by the table's operator.

The layers are those of the text tests `test/lit/transforms/quantization/support-*.mlir`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

from amct_opt.dialects.ascend.base import AscendOp
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.rewriting import layer_of
from amct_opt.transforms.quantization.legality import row_of
from amct_opt.transforms.quantization.profiles import ASCEND
from amct_opt.transforms.quantization.sites import sites
from amct_opt.transforms.quantization.tables import UNIFORM
from amct_opt.universe import new_session

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
