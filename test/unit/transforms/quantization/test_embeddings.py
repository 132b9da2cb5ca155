"""Tables of embeddings by themselves: numbers, files with and without onnxruntime's own operator, and what stays float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.record import RecordTarget

from ...values import normal

Array = np.ndarray[Any, np.dtype[Any]]
TABLE = normal(48, 40)
"""The rows are two groups of 16 and one of 8."""
WEIGHT = (normal(40, 40) / 6).astype(np.float32)
IDS = np.array([0, 47, 3, 5, 5, 46], np.int64)


def model(path: Path, table: Array = TABLE, axis: int = 0, head: bool = False) -> Path:
    """Tokens to logits, with the table as the head's weight; of other tables the rows alone, unless the head is asked for."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], "embed", axis=axis),
        helper.make_node("MatMul", ["x", "w"], ["h"], "fc"),
        helper.make_node("Gemm", ["h", "table"], ["y"], "head", transB=1),
    ]
    arrays = {"table": table, "w": WEIGHT[: table.shape[1], : table.shape[1]]}
    if table is not TABLE and not head:
        nodes[1:] = [helper.make_node("Identity", ["x"], ["y"], "same")]
        del arrays["w"]
    kind = helper.np_dtype_to_tensor_dtype(table.dtype)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def quantized(path: Path, options: str) -> tuple[ModuleOp, Session]:
    session = new_session()
    session.profile = "qdq"
    module = frontends.read(path, session)
    make_pass("quantize", f"weight-only=true {options}").apply(session, module)
    verify(module)
    return module, session


def said(session: Session, layer: str) -> set[tuple[str, str, str]]:
    return {(r.kind, r.rule, r.reason) for r in session.remarks if r.layer == layer}


def tables(module: ModuleOp) -> list[nn.DequantizeOp]:
    """What the operations that pick rows read, where it comes from integers."""
    gathers = [op for op in module.walk() if isinstance(op, nn.GatherOp)]
    return [op.input.owner for op in gathers if isinstance(op.input.owner, nn.DequantizeOp)]


@pytest.mark.parametrize("bits", ["3", "4"])
def test_the_checker_knows_that_searched_scales_clip(bits: str, amct_tool: Any, tmp_path: Path) -> None:
    given = "--profile", "qdq", "--weight-only", "--embeddings", "--weight-bits", bits, "--group-size", "16"
    out = tmp_path / "out"
    result = amct_tool(
        "quantize", model(tmp_path / "m.onnx"), *given, "--no-report", "--matmul-nbits", "--check", "-o", out
    )
    assert result.status == 0, result.err


@pytest.mark.parametrize("asymmetric", ["", "weight-asymmetric=true"])
def test_the_file_has_one_tensor_for_table_and_head(asymmetric: str, tmp_path: Path) -> None:
    """Where groups divide its columns, so that both operators have the same bytes."""
    table = np.random.default_rng(1).normal(size=(48, 32)).astype(np.float32)
    path = model(tmp_path / "m.onnx", table, head=True)
    module, session = quantized(path, f"embeddings=true weight-bits=4 group-size=16 {asymmetric}")
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "out.onnx", session)
    written = onnx.load(tmp_path / "out.onnx")
    assert {"GatherBlockQuantized", "MatMulNBits"} < {n.op_type for n in written.graph.node}
    large = [t for t in written.graph.initializer if t.data_type == TensorProto.UINT8 and t.dims[0] == 48]
    assert sorted(np.prod(t.dims) for t in large) == ([48, 48 * 16] if asymmetric else [48 * 16])
    reals = run(module, {"ids": IDS})["y"]
    (found,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"ids": IDS})
    np.testing.assert_allclose(np.asarray(found), reals, rtol=1e-4, atol=1e-4)
    read = frontends.read(tmp_path / "out.onnx", new_session())
    np.testing.assert_allclose(run(read, {"ids": IDS})["y"], reals, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "described"),
    [
        ("weight-bits=4 group-size=16", "int4 weight per group of 16, alone"),
        ("weight-bits=4 group-size=16 weight-asymmetric=true", "int4 weight per group of 16, asymmetric, alone"),
        ("weight-bits=8 weight-asymmetric=true", "int8 weight per channel, asymmetric, alone"),
        ("", "int8 weight per channel, alone"),
    ],
)
def test_the_table_is_the_weight_of_the_head(options: str, described: str, tmp_path: Path) -> None:
    """It stays one tensor in the module. onnxruntime and files that are read back compute as the interpreter."""
    module, session = quantized(model(tmp_path / "m.onnx"), f"embeddings=true {options}")
    assert ("applied", "quantized", described) in said(session, "embed")
    (table,) = tables(module)
    assert {type(use.operation) for use in table.result.uses} == {nn.GatherOp, nn.MatMulOp}
    reals = run(module, {"ids": IDS})["y"]
    scales, points = table.qparams.data.broadcastable(TABLE.shape)
    stored = nn.array_of(table.input)
    assert stored is not None
    numbers = (stored.astype(np.float32) - points) * scales
    assert np.abs(numbers - TABLE).max() < 0.51 * np.abs(scales).max() * (2 if "4" in options else 1)
    for nbits in (False, True):
        path = tmp_path / f"{nbits}.onnx"
        OnnxTarget(matmul_nbits=nbits).write(module, path, session)
        kinds = {n.op_type for n in onnx.load(path).graph.node}
        assert ("GatherBlockQuantized" in kinds, "Gather" in kinds) == (nbits, not nbits)
        runner = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(np.asarray(runner.run(None, {"ids": IDS})[0]), reals, rtol=1e-4, atol=1e-4)
        read = frontends.read(path, new_session())
        np.testing.assert_allclose(run(read, {"ids": IDS})["y"], reals, rtol=1e-5, atol=1e-5)
        assert not any(isinstance(op, nn.OpaqueOp) for op in read.walk())


def test_float16(tmp_path: Path) -> None:
    table = TABLE.astype(np.float16)
    module, session = quantized(model(tmp_path / "m.onnx", table), "embeddings=true weight-bits=4 group-size=16")
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "out.onnx", session)
    assert any(rule == "float16-scales" for _, rule, _ in said(session, "embed"))
    (found,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"ids": IDS})
    read = frontends.read(tmp_path / "out.onnx", new_session())
    np.testing.assert_allclose(np.asarray(found), run(read, {"ids": IDS})["y"], rtol=2.0**-10)
    wanted = run(module, {"ids": IDS})["y"].astype(np.float32)
    np.testing.assert_allclose(np.asarray(found).astype(np.float32), wanted, rtol=2.0**-9, atol=1e-6)


def test_a_number_format_and_bits_of_its_own(tmp_path: Path) -> None:
    module, session = quantized(model(tmp_path / "m.onnx"), "embeddings=true weight-format=mxfp4")
    assert ("applied", "quantized", "mxfp4 weight per group of 32, alone") in said(session, "embed")
    (gather,) = (op for op in module.walk() if isinstance(op, nn.GatherOp))
    assert isinstance(gather.input.owner, nn.DequantizeFloatOp)
    options = "embeddings=true weight-bits=4 group-size=16 layer-weight-bits=embed:8"
    _, session = quantized(tmp_path / "m.onnx", options)
    assert ("applied", "quantized", "int8 weight per group of 16, alone") in said(session, "embed")
    assert ("applied", "quantized", "int4 weight per group of 16, alone") in said(session, "head")


def test_only_on_request(tmp_path: Path) -> None:
    module, session = quantized(model(tmp_path / "m.onnx"), "weight-bits=4 group-size=16")
    assert tables(module) == []
    assert ("missed", "not-in-profile", "profile qdq does not quantize this operation") in said(session, "embed")
    with pytest.raises(CompileError, match="embeddings applies to weights that are quantized by themselves"):
        make_pass("quantize", "embeddings=true").apply(session, module)


ANGLES = np.arange(48)[:, None] / 10000 ** (np.arange(20) / 20)
WITH_PAD = TABLE / np.abs(TABLE).max()
WITH_PAD[0] = 0


@pytest.mark.parametrize(
    ("table", "axis", "options", "rule", "reason"),
    [
        (np.cos(ANGLES), 0, "", "table-learned", "its table holds cosines or sines of positions"),
        (np.sin(ANGLES), 0, "", "table-learned", "its table holds cosines or sines of positions"),
        (np.where(TABLE > 3, np.nan, TABLE), 0, "", "table-finite", "its table holds NaN or Inf"),
        (TABLE[:, :, None], 0, "", "table-rows", "its table is not a matrix of which it picks rows"),
        (TABLE.T[:, :48], 1, "", "table-rows", "its table is not a matrix of which it picks rows"),
        (WITH_PAD, 0, "skip-layers=embed", "skip-layers", "it is on the list of skip-layers"),
    ],
    ids=["cosines", "sines", "nan", "rank", "axis", "skipped"],
)
def test_tables_that_stay_float(table: Array, axis: int, options: str, rule: str, reason: str, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", table.astype(np.float32), axis)
    module, session = quantized(path, f"embeddings=true {options}")
    assert tables(module) == []
    assert ("missed", rule, reason) in said(session, "embed")


def test_a_row_of_zeros_is_no_sine_of_zero(tmp_path: Path) -> None:
    """Padding has such a row; a record has no tables, and says so."""
    module, session = quantized(model(tmp_path / "m.onnx", WITH_PAD.astype(np.float32)), "embeddings=true")
    assert len(tables(module)) == 1
    RecordTarget().write(module, tmp_path / "record.txt", session)
    assert ("missed", "recorded", "its table is quantized, and records do not describe tables of embeddings") in said(
        session, "embed"
    )


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (41, "weight-bits=4 group-size=16", "its table has rows of 41 i4"),
        (40, "channel-wise=false", "its table has no scales of rows, or of groups in them"),
    ],
)
def test_tables_of_other_forms(
    columns: int, options: str, reason: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    table = rng.normal(size=(48, columns)).astype(np.float32)
    module, session = quantized(model(tmp_path / "m.onnx", table), f"embeddings=true {options}")
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "out.onnx", session)
    assert ("missed", "matmul-nbits") not in {(k, r) for k, r, _ in said(session, "embed")}
    assert f"is not written as GatherBlockQuantized: {reason}" in {r for _, _, r in said(session, "embed")}
    (found,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"ids": IDS})
    np.testing.assert_allclose(np.asarray(found), run(module, {"ids": IDS})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    "options", ["weight-bits=4 group-size=16", "weight-bits=8", "weight-bits=8 weight-asymmetric=true"]
)
@pytest.mark.parametrize("turned", [False, True])
def test_experts_that_are_picked(options: str, turned: bool, tmp_path: Path) -> None:
    """As PyTorch's exporter writes them: GatherND of one index, and the weight on the left. onnxruntime computes the same."""
    shape = (3, 24, 32) if turned else (3, 32, 24)
    weights = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    product = helper.make_node("MatMul", ["picked", "x"] if turned else ["x", "picked"], ["y"], "product")
    nodes = [helper.make_node("GatherND", ["experts", "token"], ["picked"], "gather"), product]
    x, y = (["n", 32, 1], ["n", 24, 1]) if turned else (["n", 1, 32], ["n", 1, 24])
    inputs = [("token", TensorProto.INT64, ["n", 1]), ("x", TensorProto.FLOAT, x)]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(weights, "experts")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    module, session = quantized(tmp_path / "m.onnx", options)
    assert ("applied", "weight-only", "the weights of its 3 experts are quantized by themselves") in said(
        session, "gather"
    )
    rng = np.random.default_rng(4)
    tokens = {"token": np.array([[2], [0], [2], [1]]), "x": rng.normal(size=[4, *x[1:]]).astype(np.float32)}
    real, wanted = (run(m, tokens)["y"] for m in (frontends.read(tmp_path / "m.onnx", new_session()), module))
    assert 0 < np.abs(real - wanted).max() < 0.12 * np.abs(real).max()
    OnnxTarget().write(module, tmp_path / "out.onnx", session)
    assert (tmp_path / "out.onnx").stat().st_size < 0.6 * (tmp_path / "m.onnx").stat().st_size
    (found,) = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, tokens)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4)
