"""`amct quantize` of weights alone: a transformer, the digits, and back by the record."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.runtime.executor import Executable, run
from amct_opt.session.universe import new_session

EXAMPLES = Path(__file__).parents[3] / "examples"
TRANSFORMER, DIGITS = EXAMPLES / "models" / "transformer.onnx", EXAMPLES / "digits" / "digits.onnx"
CALIB = EXAMPLES / "digits" / "calib.npz"
ALONE = "common_config {{ weight_compress_only: true arq_quantize {{ channel_wise: {} asymmetric: {} }} }}"
PRODUCTS = 13
"""Matrix products with a constant weight: six in each of two layers, and the head; those of attention have none."""


def onnxruntime_run(path: Path, x: np.ndarray) -> np.ndarray:
    """With all optimizations: they make MatMulNBits of such products, which rounds inputs to int8 unless told not to."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.slow
@pytest.mark.parametrize("options", [("true", "true"), ("false", "false")], ids="-".join)
def test_transformer(
    options: tuple[str, str], amct_tool, files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without data the model does not run: rounding to nearest needs no values."""
    config = files.text("simple.cfg", ALONE.format(*options))
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "run", None)
        result = amct_tool(
            "quantize", TRANSFORMER, "--config", config, "--also", "nn,record", "-v", "-o", tmp_path / "out"
        )
    assert (result.status, "no calibration data" in result.err) == (0, False)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert len(summary["layers"]["quantized"]) == PRODUCTS
    assert "calibrated on     nothing: no range of activations is needed" in result.out
    assert "accuracy      not measured: the model was not run; --data measures the result on samples" in result.out
    assert not any(summary["accuracy"].values())
    assert "The errors of layers were not measured" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Nothing was measured." in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert summary["bytes"]["integer_weights"] < 0.3 * summary["bytes"]["float_weights"]

    module = frontends.read(tmp_path / "out" / "transformer_nn.mlir", new_session())
    assert sum(isinstance(op, nn.DequantizeOp) for op in module.walk()) == PRODUCTS
    x = np.random.default_rng(0).normal(size=(2, 7, 64)).astype(np.float32)
    actual = onnxruntime_run(tmp_path / "out" / "transformer_qdq.onnx", x)
    np.testing.assert_allclose(actual, run(module, {"x": x})["probabilities"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(actual, onnxruntime_run(TRANSFORMER, x), rtol=0, atol=0.02)

    record = tmp_path / "out" / "transformer_record.txt"
    assert amct_tool("quantize", TRANSFORMER, "--record", record, "--also", "nn", "-o", tmp_path / "again").status == 0
    for name in ("transformer_nn.mlir", "transformer_nn.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_rounding_by_data_that_is_synthetic(amct_tool, files, tmp_path: Path) -> None:
    """What needs values runs on synthetic ones without data, and says so."""
    options = ["--weight-only", "--round-weights", "gptq", "-o", tmp_path / "out"]
    result = amct_tool("quantize", files.module(), *options)
    assert (result.status, "no calibration data" in result.err) == (0, True)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert (summary["metadata"]["synthetic"], summary["accuracy"]["synthetic"]) == ("true", True)


def test_digits(amct_tool, files, tmp_path: Path) -> None:
    """Only the dense layer has such a mode; asked of all layers the others stay float, each with a remark."""
    config = files.text("simple.cfg", ALONE.format("true", "false"))
    assert amct_tool("quantize", DIGITS, "--config", config, "--data", CALIB, "-o", tmp_path / "out").status == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert [row["layer"] for row in summary["layers"]["quantized"]] == ["fc1"]
    left = {row["layer"]: row["rule"] for row in summary["layers"]["left_in_float"]}
    assert {left[f"conv{i}"] for i in (1, 2, 3, 4)} == {"weight-compress-only"}
    assert not summary["accuracy"]["synthetic"]


def test_mixed_digits(amct_tool, files, tmp_path: Path) -> None:
    """The dense layer's weight alone, everything else with its input."""
    text = 'override_layer_configs { layer_name: "fc1" calibration_config { weight_compress_only: true } }'
    config = files.text("simple.cfg", text)
    assert amct_tool("quantize", DIGITS, "--config", config, "--data", CALIB, "-o", tmp_path / "out").status == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    reasons = {row["layer"]: row["reason"] for row in summary["layers"]["quantized"]}
    assert reasons.pop("fc1") == "int8 weight per tensor, alone"
    assert len(reasons) == 6
    assert all("int8 input" in reason for reason in reasons.values())
    assert summary["accuracy"]["integer"]["logits"]["cosine"] > 0.99


@pytest.mark.slow
def test_a_configuration_that_is_created(amct_tool, files, tmp_path: Path) -> None:
    """The JSON lists what the simplified configuration decides, and quantizes the same."""
    config = files.text("simple.cfg", ALONE.format("true", "true"))
    created = tmp_path / "config.json"
    assert amct_tool("create-config", TRANSFORMER, "--config", config, "-o", created).status == 0
    listed = json.loads(created.read_text("utf-8"))
    alone = [name for name, values in listed.items() if isinstance(values, dict) and "weight_compress_only" in values]
    assert len(alone) == PRODUCTS
    for name, given in (("simple", config), ("json", created)):
        assert amct_tool("quantize", TRANSFORMER, "--config", given, "--also", "nn", "-o", tmp_path / name).status == 0
    simple, from_json = ((tmp_path / n / "transformer_nn.mlir").read_text("utf-8") for n in ("simple", "json"))
    assert simple == from_json
