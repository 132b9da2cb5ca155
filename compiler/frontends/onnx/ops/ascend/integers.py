"""Quantized integers: the operators that may read them, and the layers that compute with them.

The operators are those on floats, with int8 weights and an int32 bias, giving int32; in ONNX itself they accept only floats.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from .....dialects import ascend
from .....dialects.ascend.cube import DATA
from .....dialects.nn.shapes import element_of
from ....deployed import Kind, bias_added, is_accumulator, on_integers, quantizer_of
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
        return on_integers(CONVERTERS["", node.op_type], kind)
    if node.op_type not in MOVES and any(quantizer_of(v) is not None for v in values):
        raise node.error("computes in float, and takes the integers of AscendQuant")
    return None
