"""Quantized integers: which values are, their zero points, and which operators may read them."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .....dialects import ascend, nn
from .....dialects.ascend.cube import DATA
from .....dialects.nn.shapes import element_of
from ....deployed import is_accumulator, producer, quantizer_of
from ...node import Converter, Node

ON_INTEGERS: dict[str, Converter] = {}
"""Converters of layers on int8 and int16, by type. In ONNX itself these operators accept only floats."""

ON_ACCUMULATORS: dict[str, Converter] = {}
"""The converters of operators between a layer and its AscendDequant, by type."""

MOVES = frozenset(
    {
        "Cast",
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherND",
        "Identity",
        "MaxPool",
        "Pad",
        "Reshape",
    }
    | {"Shape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "AscendAntiQuant"}
    | {
        "Abs",
        "ArgMax",
        "ArgMin",
        "Equal",
        "GatherElements",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
    }
    | {"Neg", "ReduceMax", "ReduceMin", "ScatterElements", "ScatterND", "Sign", "TopK", "Trilu", "Where"}
)
"""Operators that pass quantized integers on unchanged, or compute with them as plain numbers, as ONNX defines for int8."""


def registered(table: dict[str, Converter], *op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types in a table."""

    def register(convert: Converter) -> Converter:
        table.update(dict.fromkeys(op_types, convert))
        return convert

    return register


def without_added_axis(node: Node, accumulator: SSAValue, value: SSAValue) -> SSAValue:
    """The value computed from an accumulator, without the axis that was added to its convolution."""
    layer = producer(accumulator)
    if not isinstance(layer, ascend.Conv2DOp | ascend.Conv2DTransposeOp):
        return value
    before = producer(layer.x_value)
    if not isinstance(before, nn.UnsqueezeOp) or before.origin != layer.origin:
        return value
    return node.emit(nn.SqueezeOp, value, axes=[2]).result


def converter_on_integers(node: Node) -> Converter | None:
    """The function that converts a node that reads integers or accumulators; None for other nodes.

    Raises CompileError for an operator that cannot read integers of AscendQuant.
    """
    values = [v for v in node.inputs if isinstance(v, SSAValue)]
    if any(is_accumulator(v) for v in values):
        return ON_ACCUMULATORS.get(node.op_type)
    if not any(element_of(v) in DATA for v in values):
        return None
    if (convert := ON_INTEGERS.get(node.op_type)) is not None:
        return convert
    if node.op_type not in MOVES and any(quantizer_of(v) is not None for v in values):
        raise node.error("computes in float, and takes the integers of AscendQuant")
    return None
