"""The two examples of Horizon's page on fusion as PyTorch exports them: writes `sequential.onnx`, `module.onnx` and
`module_train.onnx` next to this script.

QuantStub and DeQuantStub are identities in a float model; node names are module paths and operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent


def sequential() -> ModelProto:
    """Example 1: QuantStub, Conv2d(1, 2, 1), BatchNorm2d(2), Identity in a Sequential, whose children have indices."""
    nodes = [
        _node("Identity", "/0/Identity", ["x"], "quant"),
        _node("Conv", "/1/Conv", ["quant", "1.weight", "1.bias"], "conv", kernel_shape=[1, 1]),
        _node("BatchNormalization", "/2/BatchNormalization", ["conv", *_norm("2")], "bn", epsilon=1e-5),
        _node("Identity", "/3/Identity", ["bn"], "y"),
    ]
    rng = np.random.default_rng(1)
    weights = {"1.weight": rng.normal(size=(2, 1, 1, 1)), "1.bias": rng.normal(size=2), **_statistics(rng, "2")}
    return _model("sequential", nodes, weights, [1, 1, 4, 4])


def module(training: bool = False) -> ModelProto:
    """Example 2: quant, Conv2d(2, 2, 1, bias=False), BatchNorm2d(2), ReLU, dequant, each by its attribute's name.

    `training` leaves the batch norm in the mode that the example's `.train()` puts it in.
    """
    running = ["running_mean", "running_var"] if training else []
    nodes = [
        _node("Identity", "/quant/Identity", ["x"], "quant"),
        _node("Conv", "/conv/Conv", ["quant", "conv.weight"], "conv", kernel_shape=[1, 1]),
        _node(
            "BatchNormalization",
            "/bn/BatchNormalization",
            ["conv", *_norm("bn")],
            "bn",
            *running,
            epsilon=1e-5,
            training_mode=int(training),
        ),
        _node("Relu", "/relu/Relu", ["bn"], "relu"),
        _node("Identity", "/dequant/Identity", ["relu"], "y"),
    ]
    rng = np.random.default_rng(2)
    weights = {"conv.weight": rng.normal(size=(2, 2, 1, 1)), **_statistics(rng, "bn")}
    return _model("module", nodes, weights, [1, 2, 4, 4])


MODELS = {"sequential.onnx": sequential, "module.onnx": module, "module_train.onnx": lambda: module(training=True)}


def _node(kind: str, name: str, inputs: list[str], *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs, list(outputs), name, **attributes)


def _norm(prefix: str) -> list[str]:
    return [f"{prefix}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]


def _statistics(rng: np.random.Generator, prefix: str) -> dict[str, np.ndarray]:
    """Of a batch norm: one negative scale, variances that are not one."""
    numbers = ([0.5, -1.5], rng.normal(size=2), rng.normal(size=2), rng.uniform(0.5, 2, 2))
    return dict(zip(_norm(prefix), map(np.asarray, numbers), strict=True))


def _model(name: str, nodes: list[NodeProto], weights: dict[str, np.ndarray], shape: list[int]) -> ModelProto:
    channels = weights[next(iter(weights))].shape[0]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], channels, *shape[2:]])],
        [numpy_helper.from_array(array.astype(np.float32), key) for key, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="pytorch")


if __name__ == "__main__":
    for file, build in MODELS.items():
        onnx.save(build(), HERE / file)
