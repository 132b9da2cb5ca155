"""A small detector as ultralytics exports YOLO: SiLU, split blocks, SPPF, a neck, heads whose boxes are sums over bins (DFL)."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

SIDE, BINS, CLASSES = 64, 4, 3
STRIDES = (4, 8)


class _Net:
    """Nodes and weights of a graph; a method returns the name of its result, which is that of its node."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def op(self, kind: str, *inputs: str, name: str, results: int = 1, **attributes: Any) -> list[str]:
        made = [name, *(f"{name}_{i}" for i in range(1, results))]
        self.nodes.append(helper.make_node(kind, inputs, made, name, **attributes))
        return made

    def array(self, name: str, array: Any) -> str:
        self.arrays[name] = np.asarray(array)
        return name

    def conv(
        self, x: str, name: str, sizes: tuple[int, int], kernel: int = 1, stride: int = 1, act: bool = True
    ) -> str:
        fan = sizes[0] * kernel * kernel
        weight = self.rng.normal(0, 1.5 / np.sqrt(fan), (sizes[1], sizes[0], kernel, kernel)).astype(np.float32)
        bias = self.rng.normal(0, 0.1, sizes[1]).astype(np.float32)
        pads = [kernel // 2] * 4
        arrays = self.array(f"{name}.weight", weight), self.array(f"{name}.bias", bias)
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
        (y,) = self.op("Conv", x, *arrays, name=f"{name}.conv", **window)
        if not act:
            return y
        (gate,) = self.op("Sigmoid", y, name=f"{name}.sigmoid")
        return self.op("Mul", y, gate, name=f"{name}.silu")[0]

    def concat(self, *parts: str, name: str, axis: int = 1) -> str:
        return self.op("Concat", *parts, name=name, axis=axis)[0]

    def reshape(self, x: str, name: str, *sizes: int) -> str:
        return self.op("Reshape", x, self.array(f"{name}.shape", np.array(sizes)), name=name)[0]

    def split(self, x: str, name: str, *sizes: int) -> list[str]:
        part = self.array(f"{name}.sizes", np.array(sizes))
        return self.op("Split", x, part, name=name, results=len(sizes), axis=1)

    def pair(self, kind: str, a: str, b: str, name: str) -> str:
        return self.op(kind, a, b, name=name)[0]


def detector(seed: int = 0) -> ModelProto:
    """`images [n, 3, 64, 64]` from 0 to 1 -> `output0 [n, 4 + 3, boxes]`: boxes in pixels, then scores."""
    net = _Net(seed)
    x = net.conv("images", "stem", (3, 8), 3, 2)
    x = net.conv(x, "down1", (8, 16), 3, 2)
    left, right = net.split(net.conv(x, "c2f.in", (16, 16)), "c2f.split", 8, 8)
    inner = net.conv(net.conv(right, "c2f.m1", (8, 8), 3), "c2f.m2", (8, 8), 3)
    inner = net.pair("Add", right, inner, "c2f.add")
    p3 = net.conv(net.concat(left, right, inner, name="c2f.concat"), "c2f.out", (24, 16))
    y = net.conv(net.conv(p3, "down2", (16, 32), 3, 2), "sppf.in", (32, 16))
    pools = [y]
    for i in range(3):
        window: dict[str, Any] = {"kernel_shape": [5, 5], "strides": [1, 1], "pads": [2] * 4}
        pools += net.op("MaxPool", pools[-1], name=f"sppf.pool{i}", **window)
    p4 = net.conv(net.concat(*pools, name="sppf.concat"), "sppf.out", (64, 32))
    scales = net.array("up.scales", np.array([1, 1, 2, 2], np.float32))
    (up,) = net.op(
        *("Resize", p4, "", scales),
        name="up",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    n3 = net.conv(net.concat(up, p3, name="neck3.concat"), "neck3", (48, 16))
    down = net.conv(n3, "down3", (16, 16), 3, 2)
    n4 = net.conv(net.concat(down, p4, name="neck4.concat"), "neck4", (48, 32))
    return _model(net, _decoded(net, [_head(net, n3, 16, 0), _head(net, n4, 32, 1)]))


def _head(net: _Net, x: str, channels: int, level: int) -> str:
    """Bins of the four sides, and classes, of each place."""
    name = f"head{level}"
    box = net.conv(x, f"{name}.box.a", (channels, 16), 3)
    classes = net.conv(x, f"{name}.cls.a", (channels, 16), 3)
    box = net.conv(box, f"{name}.box", (16, 4 * BINS), act=False)
    classes = net.conv(classes, f"{name}.cls", (16, CLASSES), act=False)
    both = net.concat(box, classes, name=f"{name}.concat")
    return net.reshape(both, f"{name}.flat", 0, 4 * BINS + CLASSES, -1)


def _decoded(net: _Net, levels: list[str]) -> str:
    sides, classes = net.split(net.concat(*levels, name="levels", axis=2), "parts", 4 * BINS, CLASSES)
    bins = net.reshape(sides, "dfl.bins", 0, 4, BINS, -1)
    (turned,) = net.op("Transpose", bins, name="dfl.turn", perm=[0, 2, 1, 3])
    (shares,) = net.op("Softmax", turned, name="dfl.softmax", axis=1)
    weight = net.array("dfl.weight", np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    (sums,) = net.op("Conv", shares, weight, name="dfl.conv", kernel_shape=[1, 1])
    low, high = net.split(net.reshape(sums, "dfl.sides", 0, 4, -1), "dfl.ends", 2, 2)
    grids = [np.indices((SIDE // s, SIDE // s)).reshape(2, -1)[::-1] + 0.5 for s in STRIDES]
    anchors = net.array("anchors", np.concatenate(grids, 1)[None].astype(np.float32))
    steps = net.array("steps", np.repeat(STRIDES, [g.shape[1] for g in grids])[None, None].astype(np.float32))
    first, last = net.pair("Sub", anchors, low, "box.first"), net.pair("Add", anchors, high, "box.last")
    centre = net.pair("Div", net.pair("Add", first, last, "box.sum"), net.array("two", np.float32(2)), "box.centre")
    boxes = net.concat(centre, net.pair("Sub", last, first, "box.size"), name="box.concat")
    (scores,) = net.op("Sigmoid", classes, name="scores")
    return net.concat(net.pair("Mul", boxes, steps, "box.pixels"), scores, name="output0")


def _model(net: _Net, output: str) -> ModelProto:
    count = sum((SIDE // stride) ** 2 for stride in STRIDES)
    ends = {"images": [1, 3, SIDE, SIDE], output: [1, 4 + CLASSES, count]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items())
    arrays = [numpy_helper.from_array(array, name) for name, array in net.arrays.items()]
    graph = helper.make_graph(net.nodes, "yolo", [x], [y], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def pictures(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Images `[count, 64, 64, 3]` of colored rectangles on gray."""
    rng = np.random.default_rng(seed)
    images = np.full((count, SIDE, SIDE, 3), 114, np.uint8)
    for image in images:
        for _ in range(4):
            (top, left), (height, width) = rng.integers(0, SIDE - 8, 2), rng.integers(8, SIDE // 2, 2)
            image[top : top + height, left : left + width] = rng.integers(0, 256, 3)
    return images
