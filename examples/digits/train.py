"""Train the network of this example: digits (1797 images of 8x8 pixels, shipped inside scikit-learn), in numpy alone.

    python examples/digits/train.py [FOLDER]

Writes, into this folder unless another is named:
    digits.onnx          the network, its batch norms kept apart as a framework exports them
    calib.npz            128 training images, by input name, for calibration
    heldout.npz          397 images that training never saw, by input name
    heldout_labels.npy   the digits that they show
Same seed and same BLAS, same files.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

Array = np.ndarray[Any, np.dtype[Any]]

TRAINING_IMAGES = 1400
CALIBRATION_IMAGES = 128
EPSILON = 1e-5


@dataclass
class Layer(ABC):
    """A layer: parameters, and after `backward` their gradients under the same names."""

    parameters: dict[str, Array] = field(default_factory=dict[str, Array])
    gradients: dict[str, Array] = field(default_factory=dict[str, Array])

    @abstractmethod
    def forward(self, x: Array, training: bool) -> Array:
        """Output for a batch; what `backward` needs is kept."""

    @abstractmethod
    def backward(self, dy: Array) -> Array:
        """Gradient of the loss by the input, from the one by the output; parameter gradients are kept."""

    def parts(self) -> list[Layer]:
        return [self]


def windows(x: Array, kernel: int) -> Array:
    """[n, c, h, w] -> [n, c, h, w, kernel, kernel]: the window around each pixel, zeros outside the image."""
    pad = kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))


def add_windows(shape: tuple[int, ...], kernel: int, part: Any) -> Array:
    """The transpose of `windows`: `part(i, j)` [n, c, h, w] is added at offset (i, j) of each window."""
    n, c, h, w = shape
    pad = kernel // 2
    total = np.zeros((n, c, h + 2 * pad, w + 2 * pad), np.float32)
    for i in range(kernel):
        for j in range(kernel):
            total[:, :, i : i + h, j : j + w] += part(i, j)
    return total[:, :, pad : pad + h, pad : pad + w]


class Conv(Layer):
    """Convolution without bias, stride 1, same size; weights [out, in, kernel, kernel]."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, kernel: int):
        spread = np.sqrt(2 / (inputs * kernel * kernel))
        weights = rng.normal(size=(outputs, inputs, kernel, kernel)) * spread
        super().__init__({"weight": weights.astype(np.float32)})
        self.kernel = kernel

    def forward(self, x: Array, training: bool) -> Array:
        self.shape = n, _, h, w = x.shape
        weight = self.parameters["weight"]
        self.columns = windows(x, self.kernel).transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, -1)
        y = (self.columns @ weight.reshape(len(weight), -1).T).reshape(n, h, w, -1)
        return np.ascontiguousarray(y.transpose(0, 3, 1, 2))

    def backward(self, dy: Array) -> Array:
        weight = self.parameters["weight"]
        n, c, h, w = self.shape
        rows = dy.transpose(0, 2, 3, 1).reshape(-1, len(weight))
        self.gradients["weight"] = (rows.T @ self.columns).reshape(weight.shape)
        columns = (rows @ weight.reshape(len(weight), -1)).reshape(n, h, w, c, self.kernel, self.kernel)
        return add_windows(self.shape, self.kernel, lambda i, j: columns[..., i, j].transpose(0, 3, 1, 2))


class Depthwise(Layer):
    """Depthwise convolution without bias, stride 1, same size; weights [channels, 1, kernel, kernel]."""

    def __init__(self, rng: np.random.Generator, channels: int, kernel: int):
        weights = rng.normal(size=(channels, 1, kernel, kernel)) * np.sqrt(2 / (kernel * kernel))
        super().__init__({"weight": weights.astype(np.float32)})
        self.kernel = kernel

    def forward(self, x: Array, training: bool) -> Array:
        self.shape = x.shape
        self.windows = windows(x, self.kernel)
        return np.einsum("nchwij,cij->nchw", self.windows, self.parameters["weight"][:, 0], optimize=True)

    def backward(self, dy: Array) -> Array:
        weight = self.parameters["weight"]
        self.gradients["weight"] = np.einsum("nchwij,nchw->cij", self.windows, dy, optimize=True)[:, None]
        return add_windows(self.shape, self.kernel, lambda i, j: dy * weight[None, :, 0, i, j, None, None])


class BatchNorm(Layer):
    """Batch normalization over all but the channel axis, with running statistics for inference."""

    def __init__(self, channels: int):
        super().__init__({"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)})
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = 0.9 * self.mean + 0.1 * mean
            self.variance = 0.9 * self.variance + 0.1 * variance
        self.factor = 1 / np.sqrt(variance + EPSILON)
        self.normal = (x - _per_channel(mean)) * _per_channel(self.factor)
        return self.normal * _per_channel(self.parameters["scale"]) + _per_channel(self.parameters["bias"])

    def backward(self, dy: Array) -> Array:
        d_scale, d_bias = (dy * self.normal).sum((0, 2, 3)), dy.sum((0, 2, 3))
        self.gradients = {"scale": d_scale, "bias": d_bias}
        count = dy.size / dy.shape[1]
        centred = dy - _per_channel(d_bias) / count - self.normal * _per_channel(d_scale) / count
        return _per_channel(self.parameters["scale"] * self.factor) * centred


def _per_channel(vector: Array) -> Array:
    return vector[:, None, None]


class Relu(Layer):
    def forward(self, x: Array, training: bool) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        return dy * self.positive


class AveragePool(Layer):
    """The mean of each 2x2 square."""

    def forward(self, x: Array, training: bool) -> Array:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))

    def backward(self, dy: Array) -> Array:
        return dy.repeat(2, 2).repeat(2, 3) / 4


class Residual(Layer):
    """The input added to what a chain of layers makes of it."""

    def __init__(self, *chain: Layer):
        super().__init__()
        self.chain = chain

    def forward(self, x: Array, training: bool) -> Array:
        y = x
        for layer in self.chain:
            y = layer.forward(y, training)
        return x + y

    def backward(self, dy: Array) -> Array:
        dx = dy
        for layer in reversed(self.chain):
            dx = layer.backward(dx)
        return dx + dy

    def parts(self) -> list[Layer]:
        return [part for layer in self.chain for part in layer.parts()]


class Head(Layer):
    """Global average, then a dense layer with bias: [n, c, h, w] -> [n, classes]."""

    def __init__(self, rng: np.random.Generator, inputs: int, classes: int):
        weights = rng.normal(size=(inputs, classes)) / np.sqrt(inputs)
        super().__init__({"weight": weights.astype(np.float32), "bias": np.zeros(classes, np.float32)})

    def forward(self, x: Array, training: bool) -> Array:
        self.shape, self.mean = x.shape, x.mean((2, 3))
        return self.mean @ self.parameters["weight"] + self.parameters["bias"]

    def backward(self, dy: Array) -> Array:
        self.gradients = {"weight": self.mean.T @ dy, "bias": dy.sum(0)}
        pixels = self.shape[2] * self.shape[3]
        return np.broadcast_to((dy @ self.parameters["weight"].T)[:, :, None, None] / pixels, self.shape)


def make_network(rng: np.random.Generator) -> list[Layer]:
    return [
        *(Conv(rng, 1, 32, 3), BatchNorm(32), Relu()),
        Residual(Conv(rng, 32, 32, 3), BatchNorm(32), Relu(), Conv(rng, 32, 32, 3), BatchNorm(32)),
        *(Relu(), AveragePool()),
        *(Depthwise(rng, 32, 3), BatchNorm(32), Relu()),
        *(Conv(rng, 32, 64, 1), BatchNorm(64), Relu()),
        Head(rng, 64, 10),
    ]


def forward(network: list[Layer], x: Array, training: bool = False) -> Array:
    for layer in network:
        x = layer.forward(x, training)
    return x


def train(network: list[Layer], images: Array, labels: Array, rng: np.random.Generator, epochs: int = 12) -> None:
    """Stochastic gradient descent with momentum on the cross entropy, the step following half a cosine."""
    parts = [part for layer in network for part in layer.parts()]
    momentum = [{name: np.zeros_like(p) for name, p in part.parameters.items()} for part in parts]
    for epoch in range(epochs):
        rate = np.float32(0.1 * (1 + np.cos(np.pi * epoch / epochs)) / 2)
        for batch in np.array_split(rng.permutation(len(images)), len(images) // 32):
            logits = forward(network, images[batch], training=True)
            gradient = np.exp(logits - logits.max(1, keepdims=True))
            gradient /= gradient.sum(1, keepdims=True)
            gradient[np.arange(len(batch)), labels[batch]] -= 1
            gradient = (gradient / len(batch)).astype(np.float32)
            for layer in reversed(network):
                gradient = layer.backward(gradient)
            for part, speed in zip(parts, momentum, strict=True):
                for name, slope in part.gradients.items():
                    speed[name] = 0.9 * speed[name] + slope.astype(np.float32)
                    part.parameters[name] = part.parameters[name] - rate * speed[name]


class Exporter:
    """Collects the nodes and initializers of an ONNX graph as the layers are walked."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.counts: dict[str, int] = {}

    def node(self, op_type: str, inputs: list[str], stem: str, arrays: dict[str, Array], **attributes: Any) -> str:
        """Add one node; its name is `stem` with a running number, as is its output's. Returns the output."""
        self.counts[stem] = number = self.counts.get(stem, 0) + 1
        name = f"{stem}{number}"
        for key, array in arrays.items():
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), f"{name}.{key}"))
        operands = [*inputs, *(f"{name}.{key}" for key in arrays)]
        self.nodes.append(helper.make_node(op_type, operands, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def layer(self, layer: Layer, x: str) -> str:
        match layer:
            case Conv():
                k = layer.kernel
                pads = [k // 2] * 4
                return self.node("Conv", [x], "conv", layer.parameters, kernel_shape=[k, k], pads=pads)
            case Depthwise():
                k, group = layer.kernel, len(layer.parameters["weight"])
                pads = [k // 2] * 4
                return self.node(
                    "Conv", [x], "depthwise", layer.parameters, kernel_shape=[k, k], pads=pads, group=group
                )
            case BatchNorm():
                arrays = {**layer.parameters, "mean": layer.mean, "variance": layer.variance}
                return self.node("BatchNormalization", [x], "bn", arrays, epsilon=EPSILON)
            case Relu():
                return self.node("Relu", [x], "relu", {})
            case AveragePool():
                return self.node("AveragePool", [x], "pool", {}, kernel_shape=[2, 2], strides=[2, 2])
            case Residual():
                y = x
                for inner in layer.chain:
                    y = self.layer(inner, y)
                return self.node("Add", [x, y], "add", {})
            case Head():
                pooled = self.node("GlobalAveragePool", [x], "mean", {})
                flat = self.node("Flatten", [pooled], "flatten", {})
                return self.node("Gemm", [flat], "fc", layer.parameters)
            case _:
                raise TypeError(f"no ONNX form for {type(layer).__name__}")


def to_onnx(network: list[Layer]) -> onnx.ModelProto:
    exporter = Exporter()
    last = "image"
    for layer in network:
        last = exporter.layer(layer, last)
    exporter.nodes[-1].output[0] = "logits"
    graph = helper.make_graph(
        exporter.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        exporter.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main(folder: Path, epochs: int = 12) -> float:
    """Train, write the four files, return top-1 on the held-out images."""
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 8 - 1).astype(np.float32)
    order = rng.permutation(len(images))
    training, heldout = order[:TRAINING_IMAGES], order[TRAINING_IMAGES:]
    network = make_network(rng)
    train(network, images[training], labels[training], rng, epochs)
    top1 = float((forward(network, images[heldout]).argmax(1) == labels[heldout]).mean())
    onnx.save(to_onnx(network), folder / "digits.onnx")
    np.savez_compressed(folder / "calib.npz", image=images[training[:CALIBRATION_IMAGES]])
    np.savez_compressed(folder / "heldout.npz", image=images[heldout])
    np.save(folder / "heldout_labels.npy", labels[heldout].astype(np.int64))
    return top1


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    print(f"top-1 on held-out images: {main(target):.2%}; files are in {target}")
