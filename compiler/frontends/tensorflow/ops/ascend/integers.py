"""The operators that read quantized integers. In TensorFlow these are floats, minus their zero point; here they are int8.

Layers are the operators on floats, with int8 weights and an int32 bias, giving int32.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from .....dialects import ascend
from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of
from ....deployed import Kind, bias_added, is_accumulator, mapped, on_integers, quantizer_of, zero_point
from ...node import CONVERTERS, Converted, Converter, Node
from ..shape import padded

LAYERS: Mapping[str, Kind] = {
    "AvgPool": ascend.AvgPoolOp,
    "BatchMatMul": ascend.BatchMatMulV2Op,
    "BatchMatMulV2": ascend.BatchMatMulV2Op,
    "BatchMatMulV3": ascend.BatchMatMulV2Op,
    "Conv2D": ascend.Conv2DOp,
    "Conv2DBackpropInput": ascend.Conv2DTransposeOp,
    "Conv3D": ascend.Conv2DOp,
    "DepthwiseConv2dNative": ascend.DepthwiseConv2DOp,
    "MatMul": ascend.MatMulV2Op,
}
"""Operations on integers, by operator type."""

MOVES = frozenset(
    {
        "Concat",
        "ConcatV2",
        "ExpandDims",
        "Gather",
        "GatherV2",
        "Identity",
        "MaxPool",
        "MaxPoolV2",
        "Reshape",
        "Shape",
        "Slice",
    }
    | {"Split", "SplitV", "Squeeze", "StridedSlice", "Transpose", "AscendAntiQuant"}
)
"""Operators that pass integers on unchanged, or do not use their values."""


def converter_on_integers(node: Node) -> Converter | None:
    """The function that converts a node that reads results of AscendQuant, or accumulators; None for other nodes.

    Raises CompileError for an operator that cannot read them.
    """
    values = [v for v in node.inputs if isinstance(v, SSAValue)]
    if any(is_accumulator(v) for v in values):
        if node.op_type in ("Add", "AddV2", "BiasAdd", "BiasAddV1"):
            return _bias_add
        if node.op_type != "AscendDequant":
            raise node.error("takes the int32 result of a layer on integers, AscendDequant must follow")
        return None
    if not any(element_of(v) == i8 and quantizer_of(v) is not None for v in values):
        return None
    if (kind := LAYERS.get(node.op_type)) is not None:
        return on_integers(CONVERTERS[node.op_type], kind)
    if node.op_type in ("Pad", "PadV2"):
        return mapped(_pad)
    if node.op_type not in MOVES:
        raise node.error("computes in float, and takes the result of AscendQuant")
    return None


def _pad(node: Node) -> Converted:
    """A padding value v of floats becomes zero point + v of integers."""
    value = float(node.number(2)) if node.has(2) else 0.0
    filled = value + zero_point(node, node.value(0))
    if not (filled.is_integer() and -128 <= filled <= 127):
        raise node.error(f"adds {value:g} to integers, which int8 cannot hold")
    return padded(node, filled)


def _bias_add(node: Node) -> Converted:
    """The bias is an int32 vector before a Cast to floats."""
    return bias_added(node, lambda bias: bias.integers)
