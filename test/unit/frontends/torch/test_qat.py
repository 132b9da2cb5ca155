"""Modules that torch.ao prepared for training with quantization: their scales are those of what is loaded."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.dialects.nn import ConvOp, DequantizeOp

torch: Any = pytest.importorskip("torch", reason="the extra torch is not installed")
pytest.importorskip("onnxscript", reason="the extra torch is not installed")


def prepared() -> Any:
    """A trained module: observers have seen data, and are still on, as after training."""
    import torch.ao.quantization as quantization

    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3)]
    model = nn.Sequential(quantization.QuantStub(), *layers).train()
    model.qconfig = quantization.get_default_qat_qconfig("qnnpack")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization.prepare_qat(model, inplace=True)
        for _ in range(3):
            model(torch.randn(4, 3, 6, 6))
    return model.eval().apply(quantization.disable_observer)


def test_scales_of_training_are_kept() -> None:
    model, x = prepared(), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = model(x).numpy()
    module, session = amct_opt.load(model, (x,))
    step = float(model[2].activation_post_process.scale)
    for passes in ("", "canonicalize,adapt-qat"):
        if passes:
            amct_opt.run_pipeline(module, passes, session)
        found = amct_opt.execute(module, {"input": x.numpy()})["output"]
        np.testing.assert_allclose(found, expected, atol=1.01 * step)
    layers = [op for op in module.walk() if isinstance(op, ConvOp)]
    assert len(layers) == 2
    assert all(isinstance(value.owner, DequantizeOp) for op in layers for value in op.operands[:2])
    with torch.no_grad():
        np.testing.assert_array_equal(model(x).numpy(), expected)
