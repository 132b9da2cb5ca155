"""The networks of keras.applications without downloads: frozen graphs with weights from a seed that make them informative.

    python examples/tensorflow/applications.py OUTDIR [NAME ...] [--package keras|tf_keras] [--size 224]

Writes NAME.pb and NAME.npz (images for calibration). What arrives at the output still depends on the input: kernels are scaled by
their fan-in, with sum 0 over it (what all inputs have in common would grow from relu to relu); batch norms have the statistics of
the images, as training leaves them, with offsets above 0 (a relu that cuts half of everything away makes differences grow from
layer to layer). Needs TensorFlow; batch norms of tf_keras are one operator each.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

Array = np.ndarray[Any, np.dtype[Any]]

INPUT = "images"
COUNT = 8


class Seeded(NamedTuple):
    """A Keras model with weights from a seed, the images that its batch norms have the statistics of, and its graph."""

    model: Any
    images: Array
    function: Any


def build(package: str, name: str, size: int) -> Seeded:
    """`package.applications.name` for images of `size` by `size`, logits as output, any number of images at a time."""
    keras = import_module(package)
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    shape = (size, size, 3)
    model = getattr(keras.applications, name)(weights=None, input_shape=shape, classifier_activation=None)
    layers = layers_of(model)
    randomize(layers)
    images = np.random.default_rng(1).normal(size=(COUNT, *shape)).astype(np.float32)
    if any(type(layer).__name__ == "Rescaling" for layer in layers):
        images = np.clip(images * 60 + 128, 0, 255)
    model(images, training=True)  # the batch norms take the statistics of the images
    signature = [tf.TensorSpec((None, *shape), tf.float32, INPUT)]
    traced = tf.function(lambda x: model(x, training=False), input_signature=signature, autograph=False)
    return Seeded(model, images, traced.get_concrete_function())


def layers_of(model: Any) -> list[Any]:
    """All layers, those of nested models included."""
    return list(model._flatten_layers())


def randomize(layers: Sequence[Any]) -> None:
    """Random weights, and batch norms that take the statistics of the next images they see in training."""
    rng = np.random.default_rng(0)
    for layer in layers:
        kind = type(layer).__name__
        if kind == "BatchNormalization":
            layer.momentum = 0.0
        for variable in getattr(layer, "_trainable_variables", None) or getattr(layer, "_trainable_weights", ()):
            name, shape = variable.name.split("/")[-1].removesuffix(":0"), tuple(variable.shape)
            if name.endswith("kernel"):
                fan_in = (0, 1) if "depthwise" in f"{kind}/{name}".lower() else tuple(range(len(shape) - 1))
                values = rng.normal(size=shape) * np.sqrt(2 / np.prod([shape[axis] for axis in fan_in]))
                values -= values.mean(axis=fan_in, keepdims=True)
            elif name in ("gamma", "beta"):
                values = rng.uniform(0.5, 1.5, shape)
            else:
                values = rng.normal(size=shape) * 0.2
            variable.assign(values.astype(np.float32))


def write_frozen(function: Any, path: Path) -> Path:
    """A graph whose variables are constants, next to `path` with the ending .pb."""
    file = path.with_suffix(".pb")
    file.write_bytes(convert_variables_to_constants_v2(function).graph.as_graph_def().SerializeToString())
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes frozen Keras applications with seeded weights, and images.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: MobileNetV2")
    parser.add_argument("--package", choices=("keras", "tf_keras"), default="keras")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default 224)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or ["MobileNetV2"]:
        network = build(args.package, name, args.size)
        print(write_frozen(network.function, args.folder / name))
        np.savez(args.folder / f"{name}.npz", **dict[str, Any]({INPUT: network.images}))


if __name__ == "__main__":
    main()
