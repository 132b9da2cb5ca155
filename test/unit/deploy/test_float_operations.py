"""Float operations that no lowering needs but that modules may hold: written, read back, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from compiler.diagnostics import CompileError, verify
from compiler.dialects import ascend
from compiler.runtime.executor import run

from .nets import Net

ROUNDED = {"Swish", "Swish 2", "FastGelu", "BNInference"}
"""Written in small operators that round in another order: a few units in the last place."""


def reals(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).uniform(0.1, 2, shape).astype(np.float32)


CASES: dict[str, Callable[[Net], Any]] = {
    "Identity": lambda n: ascend.IdentityOp.make(n.x),
    "Square": lambda n: ascend.SquareOp.make(n.x),
    "Adds": lambda n: ascend.AddsOp.make(n.x, value=0.3),
    "Muls": lambda n: ascend.MulsOp.make(n.x, value=0.3),
    "AddN": lambda n: ascend.AddNOp.make([n.x, n.x, n.constant(reals(2, 4, 3, 3), "c")], N=3),
    "AddN of one": lambda n: ascend.AddNOp.make([n.x], N=1),
    "Eltwise": lambda n: ascend.EltwiseOp.make([n.x, n.constant(reals(2, 4, 3, 3), "c")], N=2, mode=2),
    "Eltwise weighted": lambda n: ascend.EltwiseOp.make(
        [n.x, n.constant(reals(2, 4, 3, 3), "c")], N=2, coeff=(0.5, -0.3)
    ),
    "Swish": lambda n: ascend.SwishOp.make(n.x),
    "Swish 2": lambda n: ascend.SwishOp.make(n.x, scale=2.0),
    "FastGelu": lambda n: ascend.FastGeluOp.make(n.x),
    "Selu": lambda n: ascend.SeluOp.make(n.x),
    "ClipByValueV2": lambda n: ascend.ClipByValueV2Op.make(
        n.x, n.constant(np.array([-0.5], np.float32), "low"), n.constant(np.array([1], np.float32), "high")
    ),
    "Scale": lambda n: ascend.ScaleOp.make(n.x, n.constant(reals(4), "s"), n.constant(reals(4), "b")),
    "Scale by one": lambda n: ascend.ScaleOp.make(n.x, n.constant(reals(1), "s"), num_axes=0),
    "Bias": lambda n: ascend.BiasOp.make(n.x, n.constant(reals(4, 3), "b"), num_axes=2),
    "BNInference": lambda n: ascend.BNInferenceOp.make(
        n.x,
        n.constant(reals(4), "m"),
        n.constant(reals(4), "v"),
        n.constant(np.array([1.5], np.float32), "f"),
    ),
    "LayerNorm": lambda n: ascend.LayerNormOp.make(
        n.x, n.constant(reals(3), "g"), n.constant(reals(3), "b"), begin_norm_axis=3, begin_params_axis=3
    ),
    "InstanceNorm": lambda n: ascend.InstanceNormOp.make(
        n.x, n.constant(reals(4), "g"), n.constant(reals(4), "b"), data_format="NCHW"
    ),
    "GroupNorm": lambda n: ascend.GroupNormOp.make(
        n.x, n.constant(reals(4), "g"), n.constant(reals(4), "b"), num_groups=2, data_format="NCHW"
    ),
    "Gather": lambda n: ascend.GatherOp.make(n.x, n.constant(np.array([1, 0, 1]), "i")),
    "GatherNd": lambda n: ascend.GatherNdOp.make(n.x, n.constant(np.array([[1, 3], [0, 2]], np.int32), "i")),
    "Tile": lambda n: ascend.TileOp.make(n.x, n.constant(np.array([1, 2, 1, 3]), "m")),
    "Pack": lambda n: ascend.PackOp.make([n.x, n.x], N=2, axis=-1),
    "Unpack": lambda n: ascend.UnpackOp.make(n.x, num=4, axis=1),
    "Split": lambda n: ascend.SplitOp.make(n.constant(np.array(1, np.int32), "d"), n.x, num_split=2),
    "Slice": lambda n: ascend.SliceOp.make(
        n.x, n.constant(np.array([0, 1, 0, 1]), "o"), n.constant(np.array([2, 2, -1, 1]), "s")
    ),
    "Fill": lambda n: ascend.FillOp.make(
        n.constant(np.array([2, 3]), "d"), n.constant(np.array([0.25], np.float32), "v")
    ),
    "Shape": lambda n: ascend.ShapeOp.make(n.x),
    "ArgMaxV2": lambda n: ascend.ArgMaxV2Op.make(n.x, n.constant(np.array(1), "d"), dtype=3),
}


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str, opset: int, deploy: Any) -> None:
    net = Net(2, 4, 3, 3, element=f32)
    op = CASES[case](net)
    net.block.add_op(op)
    results = op.results[:1] if isinstance(op, ascend.MomentsOp) else op.results
    module = net.module(*results)
    verify(module)
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype(np.float32)
    deploy.write(module, opset=opset)
    expected, actual = run(module, {"arg0": x}), run(deploy.read(), {"arg0": x})
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        if case in ROUNDED:
            np.testing.assert_allclose(actual[name], array, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(actual[name], array)


def test_moments_have_no_place(deploy: Any) -> None:
    net = Net(2, 4)
    op = ascend.LayerNormOp.make(
        net.x, net.constant(reals(4), "g"), net.constant(reals(4), "b"), begin_norm_axis=1, begin_params_axis=1
    )
    net.block.add_op(op)
    with pytest.raises(CompileError, match="gives mean and variance"):
        deploy.write(net.module(op.y, op.mean))
