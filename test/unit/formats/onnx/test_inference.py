"""onnx's inference ends in an error, not with the process, for convolutions whose parts contradict each other."""

import numpy as np
import pytest
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from amct_opt.formats.onnx.inference import infer_shapes, inferred

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
CONV = helper.make_node("Conv", ["x", "w"], ["y"])


def model(x: list[int], w: list[int], *nodes: NodeProto, functions: list[FunctionProto] | None = None) -> ModelProto:
    """`y` is computed from an input `x` and an initializer `v`."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(w, np.float32), "v")],
    )
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions or [])


def sizes(model: ModelProto) -> list[int] | None:
    (output,) = inferred(model).output
    shape = output.type.tensor_type
    return [d.dim_value for d in shape.shape.dim] if shape.HasField("shape") else None


def same(kind: str) -> NodeProto:
    return helper.make_node(kind, ["v"], ["w"])


COMPUTED = helper.make_node("Relu", ["v"], ["w"])
INNER = helper.make_node("own", ["x", "v"], ["y"], domain="own")
OWN = helper.make_function("own", "own", ["x", "w"], ["y"], [CONV], OPSETS[:1])


@pytest.mark.parametrize(
    ("nodes", "functions"),
    [([same("Identity"), CONV], []), ([COMPUTED, CONV], []), ([INNER], [OWN])],
    ids=["weight", "computed weight", "function"],
)
def test_a_weight_of_more_axes_than_the_input(nodes: list[NodeProto], functions: list[FunctionProto]) -> None:
    made = model([1, 1, 4], [1, 1, 2, 2], *nodes, functions=functions)
    assert sizes(made) is None
    with pytest.raises(Exception, match="kernel_shape has incorrect size"):
        infer_shapes(made, strict=True)


@pytest.mark.parametrize("kind", ["Identity", "Cast"])
def test_the_kernel_is_read_from_the_weight(kind: str) -> None:
    node = same(kind)
    if kind == "Cast":
        node.attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    made = model([1, 3, 8, 8], [5, 3, 3, 2], node, CONV)
    before = made.SerializeToString()
    assert sizes(made) == [1, 5, 6, 7]
    assert made.SerializeToString() == before
