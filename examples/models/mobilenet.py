"""A network in the shape of MobileNetV2: inverted residuals, depthwise convolutions, ReLU6; weights from a seed.

    python examples/models/mobilenet.py OUTFILE

Layers are named as in the paper's blocks: `block3.expand`, `block3.depthwise`, `block3.project`. Needs onnxruntime.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, output channels, repetitions, stride of the first."""
STEM, HEAD, CLASSES, SIZE = 32, 1280, 1000, 224
OPSET = 10
"""Clip has its bounds as attributes: they are no parameters to draw."""


class _Builder:
    """Collects nodes and parameters; values are named after the nodes that give them."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.parameters: dict[str, tuple[int, ...]] = {}

    def add(self, name: str, kind: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def parameter(self, name: str, *shape: int) -> str:
        self.parameters[name] = shape
        return name

    def conv(self, name: str, x: str, c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """Convolution and batch norm; padding keeps the size."""
        weight = self.parameter(f"{name}.weight", c_out, c_in // groups, kernel, kernel)
        sizes = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        y = self.add(name, "Conv", x, weight, group=groups, **sizes)
        norm = [self.parameter(f"{name}.bn.{part}", c_out) for part in ("scale", "bias", "mean", "variance")]
        return self.add(f"{name}.bn", "BatchNormalization", y, *norm)

    def relu6(self, x: str) -> str:
        return self.add(f"{x.removesuffix('.bn')}.relu6", "Clip", x, min=0.0, max=6.0)

    def block(self, name: str, x: str, c_in: int, c_out: int, expansion: int, stride: int) -> str:
        """Widen, convolve each channel by itself, narrow; added to the input where the shapes allow it."""
        y, wide = x, c_in * expansion
        if expansion > 1:
            y = self.relu6(self.conv(f"{name}.expand", y, c_in, wide, 1))
        y = self.relu6(self.conv(f"{name}.depthwise", y, wide, wide, 3, stride, groups=wide))
        y = self.conv(f"{name}.project", y, wide, c_out, 1)
        return self.add(f"{name}.add", "Add", x, y) if stride == 1 and c_in == c_out else y


def topology() -> ModelProto:
    """The network with parameters that are all zero."""
    build = _Builder()
    x = build.relu6(build.conv("stem", "image", 3, STEM, 3, 2))
    channels, number = STEM, 0
    for expansion, c_out, count, stride in BLOCKS:
        for i in range(count):
            x = build.block(f"block{number}", x, channels, c_out, expansion, stride if i == 0 else 1)
            channels, number = c_out, number + 1
    x = build.relu6(build.conv("head", x, channels, HEAD, 1))
    x = build.add("flatten", "Flatten", build.add("mean", "GlobalAveragePool", x))
    weight, bias = build.parameter("classifier.weight", CLASSES, HEAD), build.parameter("classifier.bias", CLASSES)
    logits = build.add("logits", "Gemm", x, weight, bias, transB=1)
    graph = helper.make_graph(
        build.nodes,
        "mobilenet_v2",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in build.parameters.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def build(seed: int = 0) -> ModelProto:
    """The network with weights from `seed`, fitted to images as those of `light.py` are."""
    return _light().seeded(topology(), seed)


def _light() -> Any:
    spec = spec_from_file_location("light", Path(__file__).with_name("light.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: mobilenet.py OUTFILE")
    onnx.save(build(), sys.argv[1])
