"""Keras 3 writes GELU by the complement of the error function: a region like any other activation, no number changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from amct_opt.dialects import nn
from amct_opt.frontends.tensorflow import from_keras
from amct_opt.ir.functions import input_names, main_function
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session

from ...frameworks import keras


def test_keras_gelu(equivalence: Any) -> None:
    layers = [
        keras.Input((6, 6, 3), batch_size=2, name="image"),
        keras.layers.Conv2D(4, 3, activation="gelu", bias_initializer="normal"),
        keras.layers.Flatten(),
        keras.layers.Dense(5, activation="gelu", bias_initializer="normal"),
    ]
    model = keras.Sequential(layers)
    module = from_keras(model, new_session())
    fused = equivalence.after(module, "fuse-bias", "fuse-activation=activation-type=gelu")
    kinds = [op.kind.data for op in fused.walk() if isinstance(op, nn.FusedOp)]
    assert kinds == ["ConvGELU2d", "LinearGELU"]
    left = {type(op) for op in main_function(fused).body.block.ops}
    assert not left & {nn.ErfOp, nn.NegOp, nn.SubOp, nn.MulOp}
    equivalence.assert_equivalent(module, fused)
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 3)).astype(np.float32)
    (name,) = input_names(main_function(fused))
    (y,) = run(fused, {name: x}).values()
    np.testing.assert_allclose(y, model(x).numpy(), rtol=1e-5, atol=1e-6)
