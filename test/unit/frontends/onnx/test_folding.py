"""Nodes on constants are computed at import, with the numbers that onnxruntime computes at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, ValueInfoProto, helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.runtime.executor import run

from ...values import normal as numbers

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]


def positive(*shape: int) -> np.ndarray:
    return np.abs(numbers(*shape)) + np.float32(0.5)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


BATCH_NORM = numbers(4, 3, 2, 3), *numbers(3, 3), positive(3)

NODES: Mapping[str, tuple[str, int, tuple[np.ndarray, ...], dict[str, Any]]] = {
    "conv same lower": (
        *("Conv", 17, (numbers(3, 4, 3, 3), numbers(4, 4, 3, 2))),
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ),
    "conv same upper": (
        *("Conv", 17, (numbers(1, 2, 8, 8), numbers(2, 2, 3, 3))),
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "conv transpose in groups, dilated": (
        *("ConvTranspose", 17, (numbers(3, 5, 3, 3), numbers(5, 1, 4, 2), numbers(5))),
        {"dilations": [2, 1], "group": 5},
    ),
    "conv transpose padded": (
        *("ConvTranspose", 17, (numbers(1, 4, 3, 3), numbers(4, 2, 3, 3))),
        {"pads": [0, 1, 1, 0], "strides": [2, 2], "output_padding": [1, 1]},
    ),
    "conv transpose with a kernel below its stride": (
        *("ConvTranspose", 17, (numbers(1, 2, 5, 5), numbers(2, 3, 2, 1))),
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
    ),
    "batch normalization, opset 13": ("BatchNormalization", 13, BATCH_NORM, {"epsilon": 0.1}),
    "batch normalization, opset 15": ("BatchNormalization", 15, BATCH_NORM, {"epsilon": 0.1}),
    "max pool padded at the end": (
        "MaxPool",
        17,
        (numbers(1, 1, 7, 2),),
        {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]},
    ),
    "max pool rounded up": ("MaxPool", 17, (numbers(2, 2, 7),), {"kernel_shape": [4], "pads": [3, 1], "ceil_mode": 1}),
    "average pool, uneven padding": (
        *("AveragePool", 17, (numbers(1, 2, 6, 5),)),
        {"kernel_shape": [3, 3], "pads": [0, 1, 2, 1], "strides": [2, 2]},
    ),
    "average pool rounded up": (
        *("AveragePool", 17, (numbers(1, 2, 6, 5),)),
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "average pool same": (
        *("AveragePool", 17, (numbers(1, 2, 5, 5),)),
        {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "lp pool padded": ("LpPool", 18, (numbers(1, 2, 6, 6),), {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
    "local response": ("LRN", 17, (numbers(1, 5, 2, 2),), {"size": 3}),
    "layer normalization": ("LayerNormalization", 17, (numbers(2, 3, 4), *numbers(2, 3, 4, seed=1)), {"axis": 1}),
    "instance normalization": ("InstanceNormalization", 17, (numbers(2, 3, 4, 4), *numbers(2, 3)), {}),
    "resize": (
        *("Resize", 17, (numbers(1, 1, 5, 5), floats(), floats(1, 1, 0.3, 2))),
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
    "gelu": ("Gelu", 20, (numbers(3, 4),), {"approximate": "tanh"}),
    "leaky relu with slopes": ("PRelu", 17, (numbers(2, 3, 4), numbers(3, 1)), {}),
    "softmax": ("Softmax", 17, (numbers(2, 3, 4),), {"axis": 1}),
    "depth to space": ("DepthToSpace", 17, (numbers(1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}),
    "remainder": ("Mod", 17, (numbers(4), positive(1, 4)[0]), {"fmod": 1}),
    "matrix product": ("Gemm", 17, (numbers(3, 4), numbers(4, 2), numbers(2)), {"alpha": 0.5, "beta": 2.0}),
    "einsum": ("Einsum", 17, (numbers(2, 3), numbers(3, 4)), {"equation": "ij,jk->ik"}),
    "integer division": ("Div", 17, (np.array([-7, 7, 2**53 + 1]), np.array([2, -2, 1])), {}),
    "wide integers": ("Mul", 17, (np.array([2**31 + 1, -3]), np.array([2**31 - 1, 2**61])), {}),
    "truth": ("Where", 17, (np.array([True, False]), np.array([1, 2]), np.array([2**60 + 1, 2**60 + 3])), {}),
    "unknown size": ("NonZero", 17, (floats(0, 1, 2),), {}),
    "range": ("Range", 17, (np.array(3), np.array(20), np.array(4)), {}),
}


@pytest.mark.parametrize("name", NODES)
def test_constants_as_onnxruntime_computes_them(name: str, build: Build, load: Load) -> None:
    """A node on constants is a constant, and has the numbers, the type and the shape that onnxruntime gives."""
    op_type, opset, inputs, attributes = NODES[name]
    names = [f"i{i}" for i in range(len(inputs))]
    nodes = [helper.make_node(op_type, names, ["y"], **attributes), helper.make_node("Relu", ["x"], ["r"])]
    model = build(nodes, [("x", [1])], ["y", "r"], dict(zip(names, inputs, strict=True)), opset=opset)
    x = {"x": floats(1)}
    module = load(model)
    assert [op.name for op in module.walk() if isinstance(op, nn.NNOp)] == ["nn.relu"]
    expected, actual = in_onnxruntime(op_type, opset, inputs, attributes), run(module, x)["y"]
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(actual, expected)


def in_onnxruntime(op_type: str, opset: int, inputs: tuple[np.ndarray, ...], attributes: dict[str, Any]) -> np.ndarray:
    """The first output of one node, whose inputs are those of the graph."""
    names = [f"i{i}" for i in range(len(inputs))]
    types = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in inputs]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], **attributes)],
        "graph",
        [helper.make_tensor_value_info(n, t, a.shape) for n, t, a in zip(names, types, inputs, strict=True)],
        [ValueInfoProto(name="y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])
