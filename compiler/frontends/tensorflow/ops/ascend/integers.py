"""The operators that read quantized integers. In TensorFlow these are floats, minus their zero point; here they are int8."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of
from ....deployed import is_accumulator, quantizer_of
from ...node import Converted, Converter, Node, Unmapped

ON_INTEGERS: dict[str, Converter] = {}
"""Converters of operators on results of AscendQuant, by type."""

ON_ACCUMULATORS: dict[str, Converter] = {}
"""The converters of operators that may read the result of a layer on integers, by type."""

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


def on_integers(*op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types where their data is quantized."""
    return _registered(ON_INTEGERS, op_types)


def on_accumulators(*op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types after a layer on integers."""
    return _registered(ON_ACCUMULATORS, op_types)


def _registered(table: dict[str, Converter], op_types: tuple[str, ...]) -> Callable[[Converter], Converter]:
    def register(convert: Converter) -> Converter:
        def converted(node: Node) -> Converted:
            """Raises CompileError for integers if the operator is carried for floats."""
            try:
                return convert(node)
            except Unmapped as e:
                raise node.error(f"computes in integers, which is not supported: {e}") from None

        table.update(dict.fromkeys(op_types, converted))
        return convert

    return register


def converter_on_integers(node: Node) -> Converter | None:
    """The function that converts a node that reads results of AscendQuant, or accumulators; None for other nodes.

    Raises CompileError for an operator that cannot read them.
    """
    values = [v for v in node.inputs if isinstance(v, SSAValue)]
    if any(is_accumulator(v) for v in values):
        if (convert := ON_ACCUMULATORS.get(node.op_type)) is None:
            raise node.error("takes the int32 result of a layer on integers, AscendDequant must follow")
        return convert
    if not any(element_of(v) == i8 and quantizer_of(v) is not None for v in values):
        return None
    if (convert := ON_INTEGERS.get(node.op_type)) is not None:
        return convert
    if node.op_type not in MOVES:
        raise node.error("computes in float, and takes the result of AscendQuant")
    return None
