"""A model of many parameters, made without a download: the feed-forward half of a transformer, with layer scale.

    python benchmarks/large_model.py OUT.onnx [MILLIONS]

A block is MatMul [width, 4 width], bias, Relu, MatMul [4 width, width], bias, a factor per channel, and the residual sum. The
weights, seeded noise, are external data, written matrix by matrix.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

Array = np.ndarray[Any, np.dtype[Any]]

WIDTH = 1024
EXPANSION = 4
INPUT = "x"


class Weights:
    """Initializers whose numbers are in a file next to the model."""

    def __init__(self, stream: IO[bytes], location: str):
        self.stream = stream
        self.location = location
        self.tensors: list[TensorProto] = []
        self.rng = np.random.default_rng(0)

    def normal(self, name: str, *shape: int, spread: float, mean: float = 0) -> str:
        numbers = self.rng.standard_normal(shape, np.float32)
        numbers *= np.float32(spread)
        numbers += np.float32(mean)
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        self.stream.write(b"\0" * (-self.stream.tell() % 4096))
        entries = {"location": self.location, "offset": str(self.stream.tell()), "length": str(numbers.nbytes)}
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        self.stream.write(numbers.data)
        self.tensors.append(tensor)
        return name


def write(path: Path, millions: int) -> int:
    """Write a model of about this many million parameters; returns how many bytes they are."""
    blocks = max(1, round(millions * 1e6 / (2 * EXPANSION * WIDTH**2)))
    nodes: list[NodeProto] = []
    with path.with_name(f"{path.name}.data").open("wb") as stream:
        weights = Weights(stream, f"{path.name}.data")
        value = INPUT
        for i in range(blocks):
            value = _block(nodes, weights, value, f"block{i}")
        size = stream.tell()
    shape = ["tokens", WIDTH]
    given = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "feed_forward", [given], [result], weights.tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return size


def _block(nodes: list[NodeProto], weights: Weights, value: str, name: str) -> str:
    def add(op_type: str, *operands: str) -> str:
        result = f"{name}.{sum(n.output[0].startswith(f'{name}.') for n in nodes)}"
        nodes.append(helper.make_node(op_type, list(operands), [result], name=f"{result}.{op_type}"))
        return result

    inner = EXPANSION * WIDTH
    up = add("MatMul", value, weights.normal(f"{name}.up", WIDTH, inner, spread=WIDTH**-0.5))
    active = add("Relu", add("Add", up, weights.normal(f"{name}.up_bias", inner, spread=0.1)))
    down = add("MatMul", active, weights.normal(f"{name}.down", inner, WIDTH, spread=inner**-0.5))
    down = add("Add", down, weights.normal(f"{name}.down_bias", WIDTH, spread=0.1))
    scaled = add("Mul", down, weights.normal(f"{name}.scale", WIDTH, spread=0.1, mean=1))
    return add("Add", value, scaled)


def main(path: str, millions: str = "300") -> None:
    write(Path(path), int(millions))


if __name__ == "__main__":
    main(*sys.argv[1:])
