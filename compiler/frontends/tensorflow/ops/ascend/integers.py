"""Which operators take quantized integers. To TensorFlow these are floats, less their zero point; here they are int8."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of
from ....deployed import is_accumulator, quantizer_of
from ...node import Converted, Converter, Node, Unmapped

ON_INTEGERS: dict[str, Converter] = {}
"""How operators compute on what AscendQuant gives, by type."""

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
"""Operators that hand integers on as they are, or that do not look at them."""


def on_integers(*op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types where their data is quantized."""
    return _registered(ON_INTEGERS, op_types)


def on_accumulators(*op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types behind a layer on integers."""
    return _registered(ON_ACCUMULATORS, op_types)


def _registered(table: dict[str, Converter], op_types: tuple[str, ...]) -> Callable[[Converter], Converter]:
    def register(convert: Converter) -> Converter:
        def converted(node: Node) -> Converted:
            """An operator that is carried for floats is an error for integers."""
            try:
                return convert(node)
            except Unmapped as e:
                raise node.error(f"computes in integers, which is not supported: {e}") from None

        table.update(dict.fromkeys(op_types, converted))
        return convert

    return register


def converter_on_integers(node: Node) -> Converter | None:
    """The function that converts a node that takes what AscendQuant gives, or accumulators; None for every other node.

    Raises CompileError for an operator that cannot take them.
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
