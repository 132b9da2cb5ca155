"""Random nets of Caffe: branches, in-place layers and joins, as OpenCV computes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .caffe_net import Net, opencv
from .case import Case


class Grower:
    """Adds random layers to a net; `blobs` holds the shapes of what there is to read."""

    def __init__(self, net: Any, seed: int):
        self.rng = np.random.default_rng(seed)
        self.net = net
        shape = tuple(int(n) for n in (1, self.rng.integers(2, 5), self.rng.integers(7, 12), self.rng.integers(7, 12)))
        self.blobs: dict[str, tuple[int, ...]] = {}
        self.shape = shape
        self.count = 0
        self.blob = "data"

    def numbers(self, *shape: int) -> Any:
        return (self.rng.normal(size=shape) / max(np.sqrt(np.prod(shape[1:])), 1)).astype(np.float32)

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def grow(self, layers: int) -> None:
        steps: list[Callable[[str], str | None]] = [
            self.convolution, self.deconvolution, self.norm, self.scale, self.activation, self.pooling, self.power,
            self.lrn, self.residual, self.inception,
        ]  # fmt: skip
        for _ in range(layers):
            self.count += 1
            step = steps[int(self.rng.integers(len(steps)))]
            step(f"l{self.count}")

    def add(
        self, name: str, kind: str, shape: tuple[int, ...] | None = None, in_place: bool = False, **rest: Any
    ) -> None:
        self.net.add(name, kind, self.blob, self.blob if in_place and self.blob != "data" else name, **rest)
        if not in_place or self.blob == "data":
            self.blob = name
        self.shape = shape or self.shape

    def convolution(self, name: str) -> None:
        n, c, h, w = self.shape
        k, pad, dilation = self.pick(1, 3), self.pick(0, 1), self.pick(1, 2)
        group = c if self.pick(0, 1) and pad >= dilation * (k // 2) else 1  # OpenCV is wrong for less padding
        outputs = group * self.pick(1, 2) if group > 1 else self.pick(2, 3, 4)
        stride = self.pick(1, 2)
        sizes = [(d + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for d in (h, w)]
        if min(sizes) < 3:
            return
        params = {
            "num_output": outputs,
            "kernel_size": [k],
            "pad": [pad],
            "dilation": [dilation],
            "group": group,
            "stride": [stride],
        }
        blobs = [self.numbers(outputs, c // group, k, k), self.numbers(outputs)]
        self.add(name, "Convolution", (n, outputs, *sizes), blobs=blobs, convolution_param=params)

    def deconvolution(self, name: str) -> None:
        n, c, h, w = self.shape
        if max(h, w) > 16:
            return
        params = {"num_output": 3, "kernel_size": [4], "pad": [1], "stride": [2], "bias_term": False}
        self.add(
            name, "Deconvolution", (n, 3, 2 * h, 2 * w), blobs=[self.numbers(c, 3, 4, 4)], convolution_param=params
        )

    def norm(self, name: str) -> None:
        c = self.shape[1]
        blobs = [self.rng.normal(size=c), self.rng.random(c) + 0.5, np.array([self.rng.random() + 0.5])]
        self.add(name, "BatchNorm", in_place=bool(self.pick(0, 1)), blobs=blobs, batch_norm_param={"eps": 1e-4})

    def scale(self, name: str) -> None:
        c = self.shape[1]
        blobs = [self.rng.normal(size=c), self.rng.normal(size=c)]
        self.add(name, "Scale", in_place=bool(self.pick(0, 1)), blobs=blobs, scale_param={"bias_term": True})

    def activation(self, name: str) -> None:
        kind = str(self.rng.choice(["ReLU", "TanH", "Sigmoid", "ELU", "PReLU", "AbsVal", "Dropout"]))
        blobs = [self.rng.random(self.shape[1])] if kind == "PReLU" else []
        self.add(name, kind, in_place=bool(self.pick(0, 1)), blobs=blobs)

    def pooling(self, name: str) -> None:
        n, c, h, w = self.shape
        kernel, stride = self.pick(2, 3), self.pick(1, 2)
        pad = self.pick(0, 1)
        sizes = [-(-(d + 2 * pad - kernel) // stride) + 1 for d in (h, w)]
        if min(h, w) < 4:
            return
        if pad:
            sizes = [s - 1 if (s - 1) * stride >= d + pad else s for s, d in zip(sizes, (h, w), strict=True)]
        pool = {"pool": str(self.rng.choice(["MAX", "AVE"])), "kernel_size": kernel, "stride": stride, "pad": pad}
        self.add(name, "Pooling", (n, c, *sizes), pooling_param=pool)

    def power(self, name: str) -> None:
        self.add(name, "Power", power_param={"scale": 0.5, "shift": float(self.rng.normal()), "power": self.pick(1, 2)})

    def lrn(self, name: str) -> None:
        self.add(name, "LRN", lrn_param={"local_size": self.pick(3, 5), "alpha": 0.3})

    def residual(self, name: str) -> None:
        before, shape = self.blob, self.shape
        self.convolution(f"{name}a")
        self.activation(f"{name}b")
        if self.shape != shape or self.blob == before:
            return
        kind = str(self.rng.choice(["SUM", "PROD", "MAX"]))
        params = {"operation": kind, **({"coeff": [1.0, -0.5]} if kind == "SUM" else {})}
        self.net.add(name, "Eltwise", [before, self.blob], eltwise_param=params)
        self.blob = name

    def inception(self, name: str) -> None:
        c = self.shape[1]
        first = self.rng.integers(1, c) if c > 1 else 0
        if not first:
            return
        self.net.add(
            f"{name}s", "Slice", self.blob, [f"{name}x", f"{name}y"], slice_param={"slice_point": [int(first)]}
        )
        self.net.add(f"{name}t", "TanH", f"{name}x", f"{name}x")
        self.net.add(name, "Concat", [f"{name}y", f"{name}x"])
        self.blob = name


def tail(grower: Grower) -> None:
    features = int(np.prod(grower.shape[1:]))
    blobs = [grower.numbers(6, features), grower.numbers(6)]
    grower.add("fc", "InnerProduct", blobs=blobs, inner_product_param={"num_output": 6})
    grower.add("prob", "Softmax")


def caffe_file(seed: int, path: Path) -> Case:
    """Writes a net and its weights next to it."""
    grower = Grower(Net(), seed)
    net = grower.net
    net.proto.layer.add(name="data", type="Input", top=["data"]).input_param.shape.add(dim=grower.shape)
    grower.grow(12)
    outputs = ["last"]
    grower.add("last", "Power", power_param={"scale": 1.5})
    if grower.pick(0, 1):
        tail(grower)
        outputs = ["prob"]
    weights = path.with_suffix(".caffemodel")
    path.write_text(net.text, "utf-8")
    weights.write_bytes(net.binary)
    inputs = {"data": grower.rng.normal(size=tuple(net.proto.layer[0].input_param.shape[0].dim)).astype(np.float32)}
    expected = dict(zip(outputs, opencv(net, inputs, outputs), strict=True))
    kinds = tuple(f"op {kind}" for kind in sorted({layer.type for layer in net.proto.layer}))
    return Case("caffe", path, inputs, expected, traits=kinds, imports={"weights": weights, "outputs": tuple(outputs)})
