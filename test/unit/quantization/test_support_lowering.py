"""What AMCT's table lets be quantized computes in integers on Ascend, by the table's operator or one that stands for it.

The layers are those of the text tests `test/lit/transforms/support-*.mlir`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.dialects import ascend
from compiler.rewriting import layer_of
from compiler.transforms.quantization.legality import row_of
from compiler.transforms.quantization.profiles import ASCEND
from compiler.transforms.quantization.sites import sites
from compiler.transforms.quantization.tables import UNIFORM
from compiler.universe import new_session

TEXTS = sorted((Path(__file__).parents[2] / "lit" / "transforms").glob("support-*.mlir"))
STANDS_FOR = {
    "FullyConnection": "MatMulV2",
    "Deconvolution": "Conv2DTranspose",
    "Conv2DBackpropInput": "Conv2DTranspose",
    "Pooling": "AvgPoolV2",
    "AvgPool": "AvgPoolV2",
}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_integers_on_ascend(equivalence, path):
    tried = set()
    for text in path.read_text("utf-8").split("// -----"):
        module, session = equivalence.parse(text), new_session()
        rows = {layer_of(site.compute): row_of(site.compute) for site in sites(module, ASCEND.rows)}
        lowered = equivalence.after(module, "quantize", "lower-to-ascend", session=session)
        quantized = {r.layer for r in session.remarks if r.rule == "quantized"}
        sums = {layer_of(op): op.x.owner for op in lowered.walk() if isinstance(op, ascend.AscendDequantOp)}
        assert set(sums) == quantized
        for layer, op in sums.items():
            row = rows[layer]
            assert row is not None
            assert op.name.removeprefix("ascend.") in {STANDS_FOR.get(name, name) for name in row.ascend}
            tried.add(id(row))
    (framework,) = {row.framework for row in UNIFORM if path.stem.endswith(row.framework)}
    wanted = {id(row) for row in UNIFORM if row.framework == framework and not row.tensor_only}
    assert wanted <= tried
