"""Operators that hand their input on leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ...frameworks import later, tf

raw = later("tensorflow.raw_ops")
X = np.array([[1, 2], [3, 4]], np.float32)

CASES: dict[str, Callable[..., Any]] = {
    "identity": lambda x: tf.identity(x),
    "stop_gradient": lambda x: tf.stop_gradient(x),
    "prevent_gradient": lambda x: raw.PreventGradient(input=x),
    "check_numerics": lambda x: tf.debugging.check_numerics(x, "x"),
    "snapshot": lambda x: raw.Snapshot(input=x),
    "ensure_shape": lambda x: tf.ensure_shape(x, [None, 2]),
    "debug_gradient_identity": lambda x: raw.DebugGradientIdentity(input=x),
    "identity_n": lambda x: tf.identity_n([tf.constant(7.0), x])[1],
    "empty reduction": lambda x: tf.reduce_sum(x, axis=[]),
    "concat of one": lambda x: tf.concat([x], 0),
    "tile by 1": lambda x: tf.tile(x, [1, 1]),
    "cast to its own type": lambda x: raw.Cast(x=x, DstT=tf.float32),
}


@pytest.mark.parametrize("name", CASES)
def test_identity(name: str, agrees: Callable[..., Any]) -> None:
    module = agrees(lambda x: tf.nn.relu(CASES[name](x)), X)
    assert [op.name for op in module.walk() if op.name.startswith("nn.")] == ["nn.relu"]
