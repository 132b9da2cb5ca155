"""Quantized integers: the operators that may read them, and the layers that compute with them.

The operators are those on floats, with int8 weights and an int32 bias, giving int32; in ONNX itself they accept only floats.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from .....dialects import ascend
from .....dialects.ascend.cube import DATA
from .....dialects.nn.shapes import element_of
from ....deployed import Kind, bias_added, is_accumulator, marked, on_integers, quantizer_of, unpack_input
from ...node import CONVERTERS, Converter, Node

LAYERS: Mapping[str, Kind] = {
    "Conv": ascend.Conv2DOp,
    "ConvTranspose": ascend.Conv2DTransposeOp,
    "Gemm": ascend.MatMulV2Op,
    "MatMul": ascend.BatchMatMulV2Op,
    "AveragePool": ascend.AvgPoolV2Op,
    "GlobalAveragePool": ascend.AvgPoolV2Op,
}
"""Operations on integers, by operator type."""

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


def _packed_axis(node: Node) -> int | None:
    """The axis along which the weight has half as many bytes as x has channels, because each contains two numbers."""
    if node.op_type not in _CHANNELS or node.array(1) is None or node.int("group", 1) != 1:
        return None
    of_x, of_weight = _CHANNELS[node.op_type]
    axis = 1 if node.int("transB", 0) else of_weight
    return axis if 2 * node.shape(1)[axis] == node.shape(0)[of_x] else None


_CHANNELS = {"Conv": (1, 1), "ConvTranspose": (1, 0), "Gemm": (-1, 0), "MatMul": (-1, -2)}
"""The axes of the input channels of x and of the weight, by operator type."""


def converter_on_integers(node: Node) -> Converter | None:
    """The function that converts a node that reads integers or accumulators; None for other nodes.

    Raises CompileError for an operator that cannot read integers of AscendQuant.
    """
    values = [v for v in node.inputs if isinstance(v, SSAValue)]
    if any(is_accumulator(v) for v in values):
        return bias_added if node.op_type == "Add" else None
    if not any(element_of(v) in DATA for v in values):
        return None
    if (kind := LAYERS.get(node.op_type)) is not None:
        for name in ("alpha", "beta"):  # of Gemm
            if (factor := node.float(name, 1.0)) != 1.0:
                raise node.error(f"computes in integers with {name} = {factor:g}, but it must be 1")
        axis = _packed_axis(node)
        if axis is not None:
            unpack_input(node, 1, axis)
        convert = on_integers(CONVERTERS["", node.op_type], kind)
        return convert if axis is None else marked(convert)
    if node.op_type not in MOVES and any(quantizer_of(v) is not None for v in values):
        raise node.error("computes in float, and takes the integers of AscendQuant")
    return None
