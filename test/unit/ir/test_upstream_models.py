"""Whole models through a real MLIR and back, equal to the last attribute and location; quantization as its `quant` dialect."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt import CompileError
from amct_opt.dialects.quant import DequantizeCastOp, QuantizeCastOp
from amct_opt.ir.text import write_module

from .upstream import MLIR, generic, meaning, needs_upstream, parse, upstream

DIGITS = Path(__file__).parents[3] / "examples" / "digits"

QUANTIZED = """
func.func @main(%x: tensor<?x20xf32>) -> tensor<?x20xf32> {
  %0 = nn.quantize %x by <i8, scale = 0.023529412, zero_point = -128> given data group "g0" from <onnx, "层", "é/\\"x">
    : (tensor<?x20xf32>) -> tensor<?x20xi8>
  %1 = nn.dequantize %0 by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x20xi8>) -> tensor<?x20xf32>
  %2 = nn.quantize %1 by <ui8, scale = 1.0e-30, zero_point = 7> : (tensor<?x20xf32>) -> tensor<?x20xui8>
  %3 = nn.dequantize %2 by <ui8, scale = 1.17549435e-38, zero_point = 7> : (tensor<?x20xui8>) -> tensor<?x20xf32>
  %4 = nn.quantize %3 by <i4, scale = 3.4e38> : (tensor<?x20xf32>) -> tensor<?x20xi4>
  %5 = nn.dequantize %4 by <i4, scale = 3.4e38> : (tensor<?x20xi4>) -> tensor<?x20xf32>
  func.return %5 : tensor<?x20xf32>
}
"""


@pytest.fixture(scope="module")
def stages() -> dict[str, ModuleOp]:
    """The digits network as imported, fused, quantized by either profile, and lowered."""
    found: dict[str, ModuleOp] = {}
    for profile in ("ascend", "qdq"):
        module, session = amct_opt.load(DIGITS / "digits.onnx")
        session.profile = profile
        found["imported"] = module.clone()
        amct_opt.run_pipeline(module, "fuse", session)
        found[f"fused, {profile}"] = module.clone()
        amct_opt.quantize(module, session, data=DIGITS / "calib.npz")
        found[f"quantized, {profile}"] = module.clone()
        if profile == "ascend":
            amct_opt.run_pipeline(module, "deploy", session)
            found["ascend"] = module
    return found


STAGES = ["imported", "fused, ascend", "fused, qdq", "quantized, ascend", "quantized, qdq", "ascend"]


@pytest.mark.slow
@needs_upstream
@pytest.mark.parametrize("stage", STAGES)
def test_a_model_comes_back_equal(stage: str, stages: dict[str, ModuleOp]) -> None:
    assert meaning(parse(upstream(generic(stages[stage])))) == meaning(stages[stage])


@needs_upstream
@pytest.mark.parametrize("stage", ["quantized, ascend", "quantized, qdq"])
def test_a_model_in_the_quant_dialect_comes_back_equal(stage: str, stages: dict[str, ModuleOp]) -> None:
    """Upstream verifies the casts and their types; per-axis scales, also those of more than 16 channels, among them."""
    module, session = stages[stage].clone(), amct_opt.new_session()
    amct_opt.run_pipeline(module, "nn-to-quant", session)
    assert not [op for op in module.walk() if op.name in ("nn.quantize", "nn.dequantize")]
    seen = upstream(generic(module))
    assert re.search(r"!quant.uniform<i8:f32:0, \{([^,]+,){16,}[^,]+\}>", seen)
    again = parse(seen)
    amct_opt.run_pipeline(again, "quant-to-nn", session)
    assert meaning(again) == meaning(stages[stage])


@pytest.mark.parametrize("stage", ["quantized, ascend", "quantized, qdq"])
def test_there_and_back(stage: str, stages: dict[str, ModuleOp]) -> None:
    module, session = stages[stage].clone(), amct_opt.new_session()
    amct_opt.run_pipeline(module, ["nn-to-quant", "quant-to-nn"], session)
    assert meaning(module) == meaning(stages[stage])


@needs_upstream
def test_every_scale_and_every_word() -> None:
    """Scales at the ends of float32, integers of all kinds, two scales on one value, names of any characters."""
    module, session = amct_opt.parse(QUANTIZED)
    before = meaning(module)
    amct_opt.run_pipeline(module, "nn-to-quant", session)
    assert sum(isinstance(op, QuantizeCastOp | DequantizeCastOp) for op in module.walk()) == 6
    again = parse(upstream(generic(module)))
    amct_opt.run_pipeline(again, "quant-to-nn", session)
    assert meaning(again) == before


@needs_upstream
def test_what_upstream_writes() -> None:
    """A module of upstream's own making: what it says of 1000 random scales are the float32 numbers that we said."""
    scales = np.exp(np.random.default_rng(0).uniform(-80, 80, 1000)).astype(np.float32)
    listed = ", ".join(map(repr, scales.astype(float).tolist()))
    values = "tensor<1000xf32>", f"tensor<1000x!quant.uniform<i8:f32:0, {{{listed}}}>>"
    ops = f"%0 = quant.qcast %x : {values[0]} to {values[1]}\n %1 = quant.dcast %0 : {values[1]} to {values[0]}"
    seen = upstream(f"func.func @main(%x: {values[0]}) -> {values[0]} {{\n {ops}\n func.return %1 : {values[0]} }}")
    module, session = amct_opt.parse(seen)
    amct_opt.run_pipeline(module, "quant-to-nn", session)
    (op,) = [op for op in module.walk() if op.name == "nn.quantize"]
    np.testing.assert_array_equal(op.properties["qparams"].data.scales(), scales)  # pyright: ignore


@needs_upstream
def test_upstream_optimizes_around_our_operations(stages: dict[str, ModuleOp]) -> None:
    """Its canonicalizer and CSE leave operations of unknown dialects alone: the numbers stay."""
    module = stages["quantized, ascend"]
    again = parse(upstream(generic(module), "--canonicalize", "--cse"))
    images = {"image": np.load(DIGITS / "calib.npz")["image"][:1]}
    np.testing.assert_array_equal(amct_opt.execute(again, images)["logits"], amct_opt.execute(module, images)["logits"])


@needs_upstream
def test_upstream_forgets_rounding_where_it_canonicalizes(stages: dict[str, ModuleOp]) -> None:
    """What docs/embedding.md warns of: dcast(qcast(x)) is x there."""
    module = stages["quantized, ascend"].clone()
    amct_opt.run_pipeline(module, "nn-to-quant", amct_opt.new_session())
    assert "quant.qcast" in upstream(generic(module), "--cse")
    assert "quant.qcast" not in upstream(generic(module), "--canonicalize")


@needs_upstream
def test_bytecode(stages: dict[str, ModuleOp], tmp_path: Path) -> None:
    """Upstream's bytecode is the module that it was made from, with its arrays next to it; anything else is an error."""
    module, (text, bytecode) = stages["quantized, ascend"], (tmp_path / "net.mlir", tmp_path / "net.mlirbc")
    write_module(module, text, generic=True, locations=True)
    options = ("--allow-unregistered-dialect", "--emit-bytecode", "-o", str(bytecode))
    subprocess.run([str(MLIR), str(text), *options], check=True)
    read, _ = amct_opt.load(bytecode)
    assert [op.name for op in read.walk()] == [op.name for op in module.walk()]
    with np.load(DIGITS / "calib.npz") as data:
        inputs = {name: data[name][:4] for name in data.files}
    (found,), (expected,) = (amct_opt.execute(each, inputs).values() for each in (read, module))
    np.testing.assert_array_equal(found, expected)
    bytecode.write_bytes(bytecode.read_bytes()[:100])
    with pytest.raises(CompileError, match="cannot read it: "):
        amct_opt.load(bytecode)
    shutil.copy(text, bytecode)
    with pytest.raises(CompileError, match="is not MLIR bytecode"):
        amct_opt.load(bytecode)


def test_bytecode_without_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "net.mlirbc").write_bytes(b"ML\xefR")
    with pytest.raises(CompileError, match="which is not installed") as refused:
        amct_opt.load(tmp_path / "net.mlirbc")
    assert "pip install 'amct-opt[mlir]'" in str(refused.value)
