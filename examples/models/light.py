"""Test models without network: the topologies that come with the onnx package, with weights that make them informative.

    python examples/models/light.py OUTDIR [NAME ...]

As shipped, every weight is the constant 0.02: all channels are equal, and so are all outputs. Here parameters are drawn from a
seed and fitted to data layer by layer: a convolution's outputs get unit variance, a batch norm the statistics of what it sees,
and the logits a standard deviation of 2, so that the softmax is not saturated. Needs onnxruntime.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx")))
SIZE = 224
FIT_IMAGES = 8
LOGIT_SPREAD = 2.0

_LINEAR = frozenset({"Conv", "Gemm"})


def images(count: int, seed: int) -> Array:
    """`[count, 3, 224, 224]` float32 with structure from single pixels to an eighth of the image: mean 0, standard deviation 1.

    White noise would be averaged away by pooling, and all images would have the same logits.
    """
    rng = np.random.default_rng(seed)
    result = np.zeros((count, 3, SIZE, SIZE), np.float32)
    for block in (1, 4, 16, 28):
        noise = rng.normal(size=(count, 3, SIZE // block, SIZE // block)) * rng.uniform(0.2, 1, (count, 3, 1, 1))
        result += noise.repeat(block, 2).repeat(block, 3).astype(np.float32)
    axes = (1, 2, 3)
    return (result - result.mean(axes, keepdims=True)) / result.std(axes, keepdims=True)


def build(name: str, seed: int = 0) -> ModelProto:
    """The topology `name` of the onnx package with weights from `seed`."""
    return seeded(onnx.load(FOLDER / f"light_{name}.onnx"), seed)


def seeded(model: ModelProto, seed: int = 0) -> ModelProto:
    """The model, which is changed, with weights drawn from `seed` and fitted; its input is an image, its output the logits or a
    softmax of them.
    """
    parameters = _draw(model, np.random.default_rng(seed))
    _fit(model, parameters, images(FIT_IMAGES, seed))
    _install(model, parameters)
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def without_softmax(model: ModelProto) -> ModelProto:
    """A copy whose first output is the logits: a softmax at the end hides differences between small probabilities."""
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    last = next((n for n in graph.node if n.op_type == "Softmax" and n.output[0] == graph.output[0].name), None)
    if last is not None:
        graph.output[0].name = last.input[0]
        graph.node.remove(last)
    return copy


def _draw(model: ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    """Values for all parameters by their role; the nodes that made them constant are taken out."""
    graph = model.graph
    fixed = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    shapes = {name: value.shape for name, value in fixed.items() if value.dtype == np.float32}
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shapes[node.output[0]] = tuple(int(d) for d in fixed[node.input[0]])
        graph.node.remove(node)
    behind = _behind(graph.node)
    roles = {
        behind.get(v, v): (n.op_type, i) for n in graph.node for i, v in enumerate(n.input) if n.output[0] not in behind
    }
    return {name: _value(roles[name], shape, rng) for name, shape in shapes.items() if name in roles}


def _behind(nodes: Iterable[NodeProto]) -> dict[str, str]:
    """What is only a parameter in another shape, and which."""
    return {n.output[0]: n.input[0] for n in nodes if n.op_type in ("Unsqueeze", "Reshape")}


def _value(role: tuple[str, int], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Filters normal, factors around 1, everything else (biases, offsets) around 0."""
    op_type, index = role
    if op_type in _LINEAR and index == 1:
        return rng.normal(size=shape).astype(np.float32)
    if op_type == "Mul" or (op_type == "BatchNormalization" and index == 1):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    return (rng.normal(size=shape) * 0.1).astype(np.float32)


def _fit(model: ModelProto, parameters: dict[str, Array], data: Array) -> None:
    """Run node by node on `data` and scale filters, set statistics; at last scale the logits. Changes `parameters`."""
    graph = model.graph
    fixed = {i.name: numpy_helper.to_array(i) for i in graph.initializer if i.name not in parameters}
    (source,) = [i.name for i in graph.input if i.name not in parameters and i.name not in fixed]
    behind = _behind(graph.node)
    # one dictionary per image: some topologies have a batch of 1 in their shapes
    runs = [{**fixed, source: image[None]} for image in data]
    linear: list[str] = []
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            seen = np.concatenate([values[node.input[0]] for values in runs])
            axes = (0, *range(2, seen.ndim))
            parameters[node.input[3]], parameters[node.input[4]] = seen.mean(axes), seen.var(axes)
        if node.op_type in _LINEAR:
            linear = [behind.get(name, name) for name in node.input[1:]]
            spread = np.std([v[node.output[0]] for v in _after(model, node, parameters, runs)])
            parameters[linear[0]] /= spread
            for values in runs:
                values.update({name: values[name] / spread for name in node.input[1:2] if name in values})
        runs = _after(model, node, parameters, runs)
    logits = next((n.input[0] for n in graph.node if n.op_type == "Softmax"), graph.output[0].name)
    # what stands between the last linear layer and the logits (ReLU, pooling, reshape) passes a factor on
    factor = np.float32(LOGIT_SPREAD / np.std([values[logits] for values in runs]))
    for name in linear:
        parameters[name] *= factor


def _after(
    model: ModelProto, node: NodeProto, parameters: dict[str, Array], runs: list[dict[str, Array]]
) -> list[dict[str, Array]]:
    """The values of each run with the node's results among them; computed in onnxruntime, by a model of its own."""
    names = list(dict.fromkeys(n for n in node.input if n))
    feeds = [{n: values[n] if n in values else parameters[n] for n in names} for values in runs]
    code = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(n, code(v.dtype), v.shape) for n, v in feeds[0].items()]
    graph = helper.make_graph([node], "node", inputs, [ValueInfoProto(name=n) for n in node.output])
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(single.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = [[np.asarray(each) for each in session.run(None, feed)] for feed in feeds]
    return [{**values, **dict(zip(node.output, r, strict=True))} for values, r in zip(runs, results, strict=True)]


def _install(model: ModelProto, parameters: dict[str, Array]) -> None:
    """Put the parameters in as initializers, and leave as inputs what is one."""
    graph = model.graph
    used = {name for node in graph.node for name in node.input}
    kept = [i for i in graph.initializer if i.name in used and i.name not in parameters]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in parameters.items())
    weights = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name in used and i.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit(f"usage: light.py OUTDIR [NAME ...]\nnames: {', '.join(NAMES)}")
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments[1:] or NAMES:
        path = folder / f"{name}.onnx"
        onnx.save(build(name), path)
        print(f"{path}  {path.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
