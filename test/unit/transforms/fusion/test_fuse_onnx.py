"""Fusions of imported ONNX models against onnxruntime on the original, where PPQ 0.6.6 is known to change numbers or names.

Tolerance: inputs and weights are integers of at most 3, so before folding the sums are exact. A fold rounds at most 18 weights by
2^-24 and makes the 18 sums inexact: 36 * 2^-24 of at most 18 * 9 * k, and the factor k of the norms here is at most 3 / 0.5. That
is 2e-3; the mistakes looked for are of the size of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from amct_opt.ir.functions import main_function, output_names
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 2e-3


def model(
    path: Path, nodes: Sequence[Any], weights: dict[str, Array], x: Sequence[int], outputs: Sequence[str]
) -> Path:
    """A model with one input x and these outputs, whose types onnx infers."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a, np.float32), name) for name, a in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(proto), path)
    return path


def check(path: Path, x: Array, *passes: str) -> ModuleOp:
    """The fused module, whose outputs have the names, and the numbers, of the original's."""
    session = new_session()
    module = frontends.read(path, session)
    run_passes(module, [make_pass(name) for name in passes or ("canonicalize", "fuse-all")], session)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in reference.get_outputs()]
    assert output_names(main_function(module)) == names
    actual, expected = run(module, {"x": x}), map(np.asarray, reference.run(None, {"x": x}))
    for name, array in zip(names, expected, strict=True):
        np.testing.assert_allclose(actual[name], array, rtol=0, atol=TOLERANCE, err_msg=name)
    return module


def kinds(module: ModuleOp) -> list[str]:
    """The operations outside fused regions, by name."""
    return [op.name for op in main_function(module).body.block.ops if isinstance(op, nn.NNOp | nn.FusedOp)]


def norm(channels: int) -> dict[str, Array]:
    rng = np.random.default_rng(channels)
    numbers = {
        "scale": rng.normal(size=channels),
        "offset": rng.normal(size=channels),
        "mean": rng.normal(size=channels),
    }
    return {**numbers, "variance": 10.0 ** rng.uniform(-2, 1, channels)}


def normed(x: str, y: str) -> Any:
    return helper.make_node("BatchNormalization", [x, "scale", "offset", "mean", "variance"], [y])


def integers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


FOLLOWERS = {
    "Relu": helper.make_node("Relu", ["c"], ["y"]),
    "BatchNormalization": normed("c", "y"),
    "Add": helper.make_node("Add", ["c", "k"], ["y"]),
}


@pytest.mark.parametrize("follower", FOLLOWERS)
def test_the_convolution_is_a_graph_output_too(follower: str, tmp_path: Path) -> None:
    """PPQ folds anyway, and the output `c` changes its value or its name."""
    conv = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")
    weights = {"w": integers(4, 2, 3, 3), "k": integers(1, 4, 1, 1), **norm(4)}
    path = model(tmp_path / "m.onnx", [conv, FOLLOWERS[follower]], weights, (1, 2, 5, 5), ["c", "y"])
    module = check(path, integers(1, 2, 5, 5))
    assert len(kinds(module)) == 2


def test_a_bias_and_an_identity_at_an_output(tmp_path: Path) -> None:
    """PPQ renames the outputs `y` and `z`."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Add", ["c", "k"], ["y"], name="bias"),
        helper.make_node("Identity", ["y"], ["z"], name="same"),
    ]
    weights = {"w": integers(4, 2, 3, 3), "k": integers(1, 4, 1, 1)}
    module = check(model(tmp_path / "m.onnx", nodes, weights, (1, 2, 5, 5), ["y", "z"]), integers(1, 2, 5, 5))
    assert kinds(module) == ["nn.conv"]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), (4,), (1, 1, 1, 4), ()])
def test_a_second_bias_where_columns_equal_channels(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The convolution has a bias; its result is [1, 4, 4, 4]. PPQ squeezes [1, 4, 1, 1] to [4], which adds to the columns."""
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Add", ["c", "k"], ["y"])]
    weights = {"w": integers(4, 2, 3, 3), "b": integers(4), "k": integers(*shape)}
    module = check(model(tmp_path / "m.onnx", nodes, weights, (1, 2, 6, 6), ["y"]), integers(1, 2, 6, 6))
    along_channels = shape in ((1, 4, 1, 1), (4, 1, 1), ())
    assert kinds(module) == (["nn.conv"] if along_channels else ["nn.conv", "nn.add"])


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (3,), (1, 3), (1,), ()])
def test_gemm_factors_before_a_norm(bias: tuple[int, ...] | None, transposed: int, tmp_path: Path) -> None:
    """PPQ ignores alpha and beta."""
    inputs = ["x", "w"] if bias is None else ["x", "w", "b"]
    nodes = [helper.make_node("Gemm", inputs, ["c"], alpha=2.0, beta=0.5, transB=transposed), normed("c", "y")]
    weights = {"w": integers(3, 5) if transposed else integers(5, 3), **norm(3)}
    if bias is not None:
        weights["b"] = integers(*bias)
    path = model(tmp_path / "m.onnx", nodes, weights, (4, 5), ["y"])
    module = check(path, integers(4, 5), "fold-constants", "canonicalize", "fuse-all")
    assert "nn.batch_norm" not in kinds(module)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_a_lone_norm(rank: int, tmp_path: Path) -> None:
    """PPQ makes a two-dimensional depthwise convolution of it at any rank, and crashes."""
    shape = (2, 3, 4, 3, 2)[:rank]
    path = model(tmp_path / "m.onnx", [normed("x", "y")], norm(3), shape, ["y"])
    assert kinds(check(path, integers(*shape))) == ["nn.batch_norm"]
    assert kinds(check(path, integers(*shape), "lower-bn")) == ["nn.mul", "nn.add"]


def test_a_weight_of_two_convolutions(tmp_path: Path) -> None:
    """One of them has a batch norm; the other must keep its weight."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="plain"),
        helper.make_node("Conv", ["x", "w"], ["c"], name="normed"),
        normed("c", "d"),
        helper.make_node("Add", ["a", "d"], ["y"]),
    ]
    path = model(tmp_path / "m.onnx", nodes, {"w": integers(4, 2, 3, 3), **norm(4)}, (1, 2, 5, 5), ["a", "y"])
    module = check(path, integers(1, 2, 5, 5))
    assert "nn.batch_norm" not in kinds(module)


def test_the_same_value_on_both_sides_of_a_sum(tmp_path: Path) -> None:
    """c + c is neither a residual nor a bias."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["c", "c"], ["y"])]
    module = check(
        model(tmp_path / "m.onnx", nodes, {"w": integers(4, 2, 3, 3)}, (1, 2, 5, 5), ["y"]), integers(1, 2, 5, 5)
    )
    assert kinds(module) == ["nn.conv", "nn.add"]
