"""The converters of `ascend` operations: their own, otherwise that of their meaning in `nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from ...dialects.ascend import OPERATIONS, AscendOp, AveragingOp, CubeOp
from ...dialects.ascend.base import FormatOp
from ...dialects.ascend.cube import DATA, PACKED
from ...dialects.nn import NNOp, constant_of
from ...dialects.nn.shapes import element_of
from ...formats import int4
from ..converters import Converters, Register
from ..deployed import is_integer, part_of_another
from ..onnx.layer import OnnxLayer, Operand, Written, written

OPERATORS = frozenset(
    {"AscendQuant", "AscendDequant", "AscendAntiQuant", "AscendRequant", "AscendWeightQuant"}
    | {"BasicGRUInplaceFillWindowCache", "BasicLSTMInplaceFillWindowCache"}
)
"""Ascend's own operators in these files, in ONNX's default domain."""


def by_meaning(op: AscendOp, layer: OnnxLayer) -> str | Sequence[str | None]:
    """Writes the meaning of the operation in `nn`."""
    if isinstance(op, FormatOp):
        require_channels_second(op, layer)
    # what has integers has no meaning in `nn` alone
    if (isinstance(op, CubeOp | AveragingOp) and is_integer(op)) or (meaning := op.meaning()).arrange is not None:
        raise layer.error(f"is {op.name.removeprefix('ascend.')}, which these files do not have")
    return written_as(meaning.op, op, layer)


def written_as(meaning: NNOp, op: AscendOp, layer: OnnxLayer) -> str | Sequence[str | None]:
    """The results of an `nn` operation on stand-ins, which are the operation's first operands."""
    for stand_in, operand in zip(meaning.operands, op.operands, strict=False):
        layer.graph.bind(stand_in, layer.value(operand))
    return written(meaning, layer)


CONVERTERS: Converters[OnnxLayer, Written] = {op: by_meaning for op in OPERATIONS if op.has_meaning()}
converter: Register[OnnxLayer, Written] = Register(CONVERTERS)


def require_channels_second(op: FormatOp, layer: OnnxLayer) -> None:
    """Raises CompileError, at the operation, for channels last."""
    if op.channels_last:
        hint = "leave --lower-to-ascend to the target, which converts the layout first, or run --convert-layout=to=nchw before"
        raise layer.error(f"is in {op.format}, ONNX has channels second", hint)


def product(
    layer: OnnxLayer,
    op_type: str,
    x: SSAValue,
    rest: Sequence[Operand],
    attributes: dict[str, Any],
    data: Operand = None,
) -> str:
    """The node with the layer's name: ONNX's operator on floats, ATC's form on integers. `data` is x in another shape."""
    operands = [x if data is None else data, *rest]
    if element_of(x) in DATA:
        return layer.unchecked(op_type, operands, attributes, layer.label)
    return layer.emit(op_type, operands, attributes, layer.label)[0]


def packed(op: AscendOp, weight: SSAValue, axis: int, layer: OnnxLayer) -> Operand:
    """The weight of a layer; two of its numbers in a byte, along the axis of its input channels, if the layer is marked."""
    constant = constant_of(weight)
    if PACKED not in op.attributes or constant is None or constant.array.shape[axis] % 2:
        return weight
    return layer.named_constant(int4.pack(constant.array, axis), constant.key)


def name_beside(op: AscendOp, layer: OnnxLayer, op_type: str) -> str:
    """The layer's name, if it belongs to the operation."""
    return f"{layer.label}/{op_type}" if part_of_another(op) else layer.label
