"""Architectures as people bring them: every layer has a name of its module, floats are torch's, and int8 comes out."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.dialects.nn import ConstantOp, DequantizeOp, MatMulOp, NNOp, OpaqueOp, QuantizeOp
from amct_opt.ir.functions import input_names, main_function
from amct_opt.rewriting import layer_of
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.decide.recurrent import recurrent_layers

from ...frameworks import needs, torch

pytestmark = needs("torch", "onnxscript")

NAMES = (
    "resnet18", "mobilenet_v2", "mobilenet_v3", "efficientnet", "convnext", "vit", "swin", "unet", "detector",
    "bert", "gpt", "lstm",
)  # fmt: skip


CARRIED: Mapping[str, Collection[str]] = {"lstm": ("LSTM",)}
"""Layers that `nn` carries; their weights can be integers."""
TIED = {"lm_head.weight"}
"""The weight has another key as well."""


def sqnr(expected: Any, found: Any) -> float:
    """In dB; equal results have a lot."""
    return float(10 * np.log10((expected**2).sum() / (((found - expected) ** 2).sum() + 1e-30)))


def quantized(
    module: ModuleOp, session: Any, profile: str, inputs: dict[str, Any], carried: Collection[str]
) -> ModuleOp:
    alone = {kind: amct_opt.Calibration(weight_compress_only=True) for kind in carried}
    copied, session.profile = module.clone(), profile
    amct_opt.run_pipeline(copied, "fuse", session)
    amct_opt.quantize(copied, session, amct_opt.Settings(by_type=alone), data=[inputs])
    return copied


def check_recurrent(loaded: ModuleOp, profile: str, inputs: dict[str, Any]) -> None:
    """By default recurrent layers stay as they are, with the reason; the layer after them has int8 data and an int8 weight."""
    module, session = loaded.clone(), amct_opt.new_session()
    session.profile = profile
    amct_opt.run_pipeline(module, "fuse", session)
    amct_opt.quantize(module, session, data=[inputs])
    missed = {r.layer: (r.rule, r.reason) for r in session.remarks if r.pass_name == "insert-observers"}
    expected = {
        "ascend": ("one-direction", "its direction is bidirectional"),
        "qdq": ("weight-only", f"profile {profile} quantizes only its weights, on request"),
    }
    assert [missed.get(each) for each in ("lstm", "lstm_1")] == [expected[profile]] * 2
    (fc,) = (op for op in module.walk() if isinstance(op, MatMulOp))
    assert all(isinstance(value.owner, DequantizeOp) for value in fc.operands[:2])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tensor attribute:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_networks(name: str) -> None:
    from .networks import network

    model, inputs = network(name)
    with torch.no_grad():
        expected = model(*inputs).numpy()
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    module, session = amct_opt.load(program)
    ops = [op for op in module.walk() if isinstance(op, NNOp) and not isinstance(op, ConstantOp)]
    carried = CARRIED.get(name, ())
    assert {op.op_type.data for op in ops if isinstance(op, OpaqueOp)} == {*carried}
    names = {*map(layer_of, ops)}
    assert not [each for each in names if re.match(r"n(ode_|\d)|_|$", each)]
    computing = torch.nn.Conv2d | torch.nn.ConvTranspose2d | torch.nn.Linear
    paths = {path for path, each in model.named_modules() if isinstance(each, computing)}
    assert paths <= names
    keys = {op.key for op in module.walk() if isinstance(op, ConstantOp)}
    assert {f"{path}.weight" for path in paths} - keys <= TIED
    given = {k: x.numpy() for k, x in zip(input_names(main_function(module)), inputs, strict=True)}
    found = amct_opt.execute(module, given)["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6 * float(np.abs(expected).max()))
    for profile in ("ascend", "qdq"):
        rounded = quantized(module, session, profile, given, carried)
        assert any(isinstance(op, QuantizeOp) for op in rounded.walk())
        assert all(each.is_quantized for each in recurrent_layers(rounded))
        result = amct_opt.execute(rounded, given)["output"]
        assert sqnr(expected, result) > 15, profile
        if carried:
            check_recurrent(module, profile, given)
            with pytest.raises(CompileError, match="cannot be run by PyTorch"):
                amct_opt.torch.fake_quantized(rounded)
            continue
        with torch.no_grad():
            fake = amct_opt.torch.fake_quantized(rounded)(*inputs).numpy()
        assert sqnr(result, fake) > 40, "numbers between two integers may go to the other one: sums have other orders"
