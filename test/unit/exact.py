"""Files for tests of equal integers: onnxruntime may add products of uint8 and int8 in 16 bits, those of uint8 are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from amct_opt.engines.onnx_runtime import arithmetic

_MIDDLE = 128


def exact_file(path: Path) -> Path:
    """A file in which onnxruntime adds exactly on this processor: itself, or with uint8 in place of int8 weights, of which the
    zero points are 128 larger. Both represent the same numbers.
    """
    if arithmetic() == "exact":
        return path
    model = onnx.load(path)
    constants = {each.name: each for each in model.graph.initializer}
    moved: dict[str, str] = {}
    for node in model.graph.node:
        weight = constants.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if weight is None or (weight.data_type != TensorProto.INT8 and weight.name not in moved):
            continue
        point = constants.get(node.input[2]) if len(node.input) > 2 else None
        points = 0 if point is None else numpy_helper.to_array(point).astype(np.int16)
        shape = numpy_helper.to_array(constants[node.input[1]]).shape if node.input[1] in constants else ()
        name = f"{node.output[0]}.unsigned zero point"
        model.graph.initializer.append(
            numpy_helper.from_array(np.broadcast_to(np.uint8(points + _MIDDLE), shape).copy(), name)
        )
        del node.input[2:]
        node.input.append(name)
        if weight.name not in moved:
            moved[weight.name] = name
            integers = numpy_helper.to_array(weight).astype(np.int16) + _MIDDLE
            weight.CopyFrom(numpy_helper.from_array(integers.astype(np.uint8), weight.name))
    found = path.with_name(f"unsigned_{path.name}")
    onnx.save(model, found)
    return found
