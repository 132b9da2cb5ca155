"""The text tests hold every row of AMCT's tables once as it is allowed, and once for each of its rules.

The passes run on the modules of those files; what is counted are the remarks that they leave on layers of each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass
from amct_opt.transforms.quantization.decide.conditions import DecideLayer
from amct_opt.transforms.quantization.tables import NON_UNIFORM, UNIFORM, WEIGHTS, LayerRow

from ...values import parsed

FOLDER = Path(__file__).parents[3] / "lit" / "transforms" / "quantization"

Told = set[tuple[str, str, str]]
"""Framework and type of a layer, and what was said of it: the rule of a remark, `applied` before that of an applied one."""


@cache
def told(files: tuple[str, ...], options: str) -> Told:
    found: Told = set()
    for text in (part for name in files for part in (FOLDER / name).read_text("utf-8").split("// -----")):
        module, session = parsed(text)
        layers = dict(_layers(module.walk()))
        make_pass("quantize", options).apply(session, module)
        for remark in session.remarks:
            if remark.layer in layers:
                said = f"applied {remark.rule} {remark.reason}" if remark.kind == "applied" else remark.rule
                found.add((*layers[remark.layer], said))
    return found


def _layers(operations: Iterable[object]) -> Iterator[tuple[str, tuple[str, str]]]:
    for op in operations:
        if isinstance(op, nn.NNOp) and isinstance(origin := op.origin, nn.OriginAttr):
            yield origin.layer.data, (origin.framework.data, origin.op_type.data)


def said_of(row: LayerRow, said: Told) -> set[str]:
    types = {row.op_type, *row.variants}
    return {what for framework, kind, what in said if framework == row.framework and kind in types}


def _id(row: LayerRow) -> str:
    return f"{row.framework}-{row.op_type}-{row.operations[0].name}"


@pytest.mark.parametrize("row", UNIFORM, ids=_id)
def test_uniform(row: LayerRow) -> None:
    said = said_of(row, told(("support-caffe.mlir", "support-onnx.mlir", "support-tensorflow.mlir"), ""))
    assert [rule.name for rule in row.rules if rule.name not in said] == []
    if not row.tensor_only:
        assert any(what.startswith("applied quantized") for what in said)
    assert (DecideLayer.tensor_only.name in said) == row.tensor_only or row.op_type == "Pooling"


@pytest.fixture
def few_levels(tmp_path: Path) -> str:
    path = tmp_path / "simple.cfg"
    path.write_text("common_config { nuq_quantize { num_steps: 16 } }")
    return f"config={path}"


BEFORE = {("tensorflow", "MatMul", "transpose-a-false"): "transpose-false"}
"""Rules that another one of table 1, which is asked first, holds in it."""


@pytest.mark.parametrize("row", NON_UNIFORM, ids=_id)
def test_non_uniform(row: LayerRow, few_levels: str) -> None:
    said = said_of(row, told(("non-uniform.mlir",), few_levels))
    names = {BEFORE.get((row.framework, row.op_type, rule.name), rule.name) for rule in row.rules}
    assert names <= said
    assert any(what.startswith("applied quantized") and what.endswith("of 16 levels") for what in said)


def test_weights() -> None:
    """Both √ of an operator, or the remark that it has no such mode; × are errors, which the file has by name."""
    said = told(("weight-options.mlir",), "weight-only=true channel-wise=true weight-asymmetric=true")
    text = (FOLDER / "weight-options.mlir").read_text("utf-8")
    for name, weights in WEIGHTS.items():
        marks = [mark.value for mark in (*weights.weight_only, *weights.with_input)]
        rows = [row for row in UNIFORM if name in row.ascend and not row.tensor_only]
        for row in rows:
            found = said_of(row, said)
            alone = any("per channel, asymmetric, alone" in what for what in found)
            assert (alone, "weight-compress-only" in found) == ((True, False) if marks[0] == "√" else (False, True))
        assert f"// {name}-CHANNELS: .cfg: error:" in text
        assert f"// {name}-OFFSET: .cfg: error:" in text
        assert (f"// {name}-ALONE: .cfg: error:" in text) == (marks[0] != "√")
        assert marks[2:] == ["×", "×"]
