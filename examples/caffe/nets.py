"""Caffe nets without Caffe: the shapes of ResNet-50, MobileNet and GoogLeNet, with weights from a seed.

    python examples/caffe/nets.py OUTDIR [NAME ...] [--size 224] [--width 1.0]

Writes NAME.prototxt, NAME.caffemodel and NAME.npz (images for calibration). Layers are named and ordered as in the published
nets, with BatchNorm and Scale apart and working in place. Weights are fitted to images layer by layer: convolutions give
variance 1, batch norms have nearly the statistics of what they see, the logits a standard deviation of 2. So activations stay
informative to the end. Smaller images and fewer channels make nets for tests. Needs OpenCV.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from amct_opt.formats.caffe.file import NetLayer, write_net
from amct_opt.targets.caffe.net import layer_proto

Array = np.ndarray[Any, np.dtype[Any]]

CLASSES = 1000
FIT_PIXELS = 4 * 224 * 224
"""Small images are fitted by more of them."""
CALIBRATION_IMAGES = 8
LOGIT_SPREAD = 2.0
OPENNESS = np.float32(1)
"""Mean of what goes from a batch norm into a ReLU, in standard deviations: random nets that cut off half of everything after
each batch norm amplify every rounding to the end."""
BN_FACTOR = 999.98236
"""Caffe stores sums of statistics, and by what to divide them."""


def images(count: int, size: int, seed: int = 0) -> Array:
    """`[count, 3, size, size]` float32 with structure from single pixels to a quarter of the image, standard deviation 1."""
    rng = np.random.default_rng(seed)
    result = np.zeros((count, 3, size, size), np.float32)
    for block in (1, 4, size // 4):
        coarse = rng.normal(size=(count, 3, -(-size // block), -(-size // block))).astype(np.float32)
        result += coarse.repeat(block, 2).repeat(block, 3)[..., :size, :size]
    return result / result.std()


class Builder:
    """Collects layers, and runs each on images with OpenCV as it comes, so that the next can be fitted to what it sees."""

    def __init__(self, size: int, width: float, seed: int):
        self.rng = np.random.default_rng(seed)
        self.width = width
        self.layers = [_input("data", (1, 3, size, size))]
        self.values = {"data": images(FIT_PIXELS // size**2, size, seed)}

    def add(
        self, name: str, kind: str, bottoms: Sequence[str], top: str, *blobs: Array, **params: dict[str, Any]
    ) -> str:
        self.layers.append(NetLayer(layer_proto(name, kind, bottoms, [top], **params), blobs))
        self.values[top] = _run(self.layers[-1], {b: self.values[b] for b in bottoms})
        return top

    def channels(self, blob: str) -> int:
        return self.values[blob].shape[1]

    def conv(
        self,
        name: str,
        bottom: str,
        outputs: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        bias: bool = False,
        group: int = 1,
    ) -> str:
        """A convolution whose results have variance 1."""
        weight = self._normal((outputs, self.channels(bottom) // group, kernel, kernel), 1.0)
        parameters: dict[str, Any] = {"num_output": outputs, "bias_term": False, "group": group if group > 1 else None}
        parameters |= {
            "pad": [pad] if pad else None,
            "kernel_size": [kernel],
            "stride": [stride] if stride > 1 else None,
        }
        trial = NetLayer(layer_proto(name, "Convolution", [bottom], [name], convolution_param=parameters), [weight])
        blobs = [weight / _run(trial, {bottom: self.values[bottom]}).std()]
        if bias:
            parameters["bias_term"] = None
            blobs.append(self._normal(outputs, 0.1))
        return self.add(name, "Convolution", [bottom], name, *blobs, convolution_param=parameters)

    def scaled(self, outputs: int) -> int:
        """A number of channels by the net's width."""
        return max(8, int(outputs * self.width))

    def norm(self, blob: str, norm: str, scale: str) -> str:
        """BatchNorm and Scale in place; statistics are near those of what comes in."""
        x, channels = self.values[blob], self.channels(blob)
        variance = x.var((0, 2, 3)) + 1e-3
        mean = x.mean((0, 2, 3)) + 0.1 * np.sqrt(variance) * self._normal(channels, 1.0)
        variance *= self._uniform(channels)
        factor = np.array([BN_FACTOR], np.float32)
        statistics = [mean * factor, variance * factor, factor]
        self.add(norm, "BatchNorm", [blob], blob, *statistics, batch_norm_param={"use_global_stats": True})
        blobs = [self._uniform(channels), OPENNESS + self._normal(channels, 0.2)]
        return self.add(scale, "Scale", [blob], blob, *blobs, scale_param={"bias_term": True})

    def relu(self, blob: str, name: str) -> str:
        return self.add(name, "ReLU", [blob], blob)

    def pool(self, name: str, bottom: str, kernel: int, stride: int = 1, pad: int = 0, kind: str = "MAX") -> str:
        parameters = {"pool": kind, "kernel_size": kernel, "stride": stride, "pad": pad or None}
        return self.add(name, "Pooling", [bottom], name, pooling_param=parameters)

    def whole(self, name: str, bottom: str) -> str:
        """An average over the whole image, by a window of its size."""
        return self.pool(name, bottom, self.values[bottom].shape[2], kind="AVE")

    def inner(self, name: str, bottom: str) -> str:
        blobs = self._classifier(bottom)
        return self.add(name, "InnerProduct", [bottom], name, *blobs, inner_product_param={"num_output": CLASSES})

    def pointwise_inner(self, name: str, bottom: str) -> str:
        """The same as a convolution."""
        weight, bias = self._classifier(bottom)
        blobs = [weight[..., None, None], bias]
        parameters = {"num_output": CLASSES, "kernel_size": [1]}
        return self.add(name, "Convolution", [bottom], name, *blobs, convolution_param=parameters)

    def _classifier(self, bottom: str) -> list[Array]:
        """A weight and a bias that give each image logits of its own: what all images have in common is taken off."""
        x = self.values[bottom].reshape(len(self.values[bottom]), -1)
        weight = self._normal((CLASSES, x.shape[1]), 1.0)
        weight *= LOGIT_SPREAD / ((x - x.mean(0)) @ weight.T).std()
        return [weight, -weight @ x.mean(0)]

    def softmax(self, bottom: str) -> str:
        return self.add("prob", "Softmax", [bottom], "prob")

    def _normal(self, shape: int | tuple[int, ...], deviation: float) -> Array:
        return (deviation * self.rng.standard_normal(shape)).astype(np.float32)

    def _uniform(self, count: int) -> Array:
        return self.rng.uniform(0.7, 1.3, count).astype(np.float32)


def _input(name: str, shape: Sequence[int]) -> NetLayer:
    proto = layer_proto(name, "Input", [], [name], input_param={})
    proto.input_param.shape.add(dim=shape)
    return NetLayer(proto)


def _run(layer: NetLayer, inputs: dict[str, Array]) -> Array:
    """What a layer alone makes of its bottoms."""
    with TemporaryDirectory() as folder:
        files = Path(folder) / "layer.prototxt", Path(folder) / "layer.caffemodel"
        write_net("layer", [*(_input(name, x.shape) for name, x in inputs.items()), layer], *files)
        net = cv2.dnn.readNetFromCaffe(*map(str, files))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    for name, x in inputs.items():
        net.setInput(x, name)
    return np.array(net.forward(layer.proto.name))


def resnet50(net: Builder) -> None:
    x = net.conv("conv1", "data", net.scaled(64), 7, stride=2, pad=3, bias=True)
    x = net.relu(net.norm(x, "bn_conv1", "scale_conv1"), "conv1_relu")
    x = net.pool("pool1", x, 3, stride=2)
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 2):
        for i in range(blocks):
            x = _bottleneck(net, f"{stage}{'abcdef'[i]}", x, net.scaled(width), 2 if stage > 2 and i == 0 else 1)
    net.softmax(net.inner("fc1000", net.whole("pool5", x)))


def _bottleneck(net: Builder, name: str, x: str, width: int, stride: int) -> str:
    def branch(suffix: str, bottom: str, outputs: int, kernel: int = 1, stride: int = 1, pad: int = 0) -> str:
        blob = net.conv(f"res{name}_{suffix}", bottom, outputs, kernel, stride, pad)
        return net.norm(blob, f"bn{name}_{suffix}", f"scale{name}_{suffix}")

    first = name.endswith("a")
    shortcut = branch("branch1", x, 4 * width, stride=stride) if first else x
    y = net.relu(branch("branch2a", x, width, stride=stride), f"res{name}_branch2a_relu")
    y = net.relu(branch("branch2b", y, width, 3, pad=1), f"res{name}_branch2b_relu")
    y = net.add(f"res{name}", "Eltwise", [shortcut, branch("branch2c", y, 4 * width)], f"res{name}")
    return net.relu(y, f"res{name}_relu")


_MOBILENET = {
    "2_1": (64, 1),
    "2_2": (128, 2),
    "3_1": (128, 1),
    "3_2": (256, 2),
    "4_1": (256, 1),
    "4_2": (512, 2),
    **{f"5_{i}": (512, 1) for i in range(1, 6)},
    "5_6": (1024, 2),
    "6": (1024, 1),
}
"""Outputs and stride of each depthwise and pointwise pair."""


def mobilenet(net: Builder) -> None:
    def normed(blob: str) -> str:
        return net.relu(net.norm(blob, f"{blob}/bn", f"{blob}/scale"), f"relu_{blob}")

    x = normed(net.conv("conv1", "data", net.scaled(32), 3, stride=2, pad=1))
    for name, (outputs, stride) in _MOBILENET.items():
        channels = net.channels(x)
        x = normed(net.conv(f"conv{name}/dw", x, channels, 3, stride=stride, pad=1, group=channels))
        x = normed(net.conv(f"conv{name}/sep", x, net.scaled(outputs), 1))
    x = net.add("pool6", "Pooling", [x], "pool6", pooling_param={"pool": "AVE", "global_pooling": True})
    net.softmax(net.pointwise_inner("fc7", x))


_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Outputs of the convolutions: 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5, pool_proj."""


def googlenet(net: Builder) -> None:
    def conv(name: str, bottom: str, outputs: int, kernel: int, stride: int = 1, pad: int = 0) -> str:
        prefix, _, last = name.rpartition("/")
        blob = net.conv(name, bottom, net.scaled(outputs), kernel, stride, pad, bias=True)
        return net.relu(blob, f"{prefix}/relu_{last}")

    def lrn(name: str, bottom: str) -> str:
        return net.add(name, "LRN", [bottom], name, lrn_param={"local_size": 5, "alpha": 1e-4, "beta": 0.75})

    x = net.pool("pool1/3x3_s2", conv("conv1/7x7_s2", "data", 64, 7, 2, 3), 3, 2)
    x = conv("conv2/3x3_reduce", lrn("pool1/norm1", x), 64, 1)
    x = lrn("conv2/norm2", conv("conv2/3x3", x, 192, 3, pad=1))
    x = net.pool("pool2/3x3_s2", x, 3, 2)
    for name, (one, reduce3, three, reduce5, five, project) in _INCEPTIONS.items():
        if name in ("4a", "5a"):
            x = net.pool(f"pool{int(name[0]) - 1}/3x3_s2", x, 3, 2)
        block = f"inception_{name}"
        branches = [
            conv(f"{block}/1x1", x, one, 1),
            conv(f"{block}/3x3", conv(f"{block}/3x3_reduce", x, reduce3, 1), three, 3, pad=1),
            conv(f"{block}/5x5", conv(f"{block}/5x5_reduce", x, reduce5, 1), five, 5, pad=2),
            conv(f"{block}/pool_proj", net.pool(f"{block}/pool", x, 3, pad=1), project, 1),
        ]
        x = net.add(f"{block}/output", "Concat", branches, f"{block}/output")
    x = net.whole("pool5/7x7_s1", x)
    net.add("pool5/drop_7x7_s1", "Dropout", [x], x, dropout_param={"dropout_ratio": 0.4})
    net.softmax(net.inner("loss3/classifier", x))


NETS: dict[str, Callable[[Builder], None]] = {"resnet50": resnet50, "mobilenet": mobilenet, "googlenet": googlenet}


def generate(name: str, folder: Path, size: int = 224, width: float = 1.0, seed: int = 0) -> tuple[Path, Path]:
    """Writes the net of that name; returns its prototxt and its caffemodel. Sizes are multiples of 32."""
    net = Builder(size, width, seed)
    NETS[name](net)
    prototxt, caffemodel = write_net(name, net.layers, folder / f"{name}.prototxt", folder / f"{name}.caffemodel")
    return prototxt, caffemodel


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes Caffe nets with seeded weights, and images to calibrate them.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETS)} (default: all)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default 224)")
    parser.add_argument("--width", type=float, default=1.0, help="factor on the numbers of channels (default 1.0)")
    args = parser.parse_args()
    if unknown := [n for n in args.names if n not in NETS]:
        parser.error(f"no net is called {', '.join(unknown)}: there are {', '.join(NETS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or NETS:
        for path in generate(name, args.folder, args.size, args.width):
            print(path)
        np.savez(args.folder / f"{name}.npz", data=images(CALIBRATION_IMAGES, args.size))


if __name__ == "__main__":
    main()
