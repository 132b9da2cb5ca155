"""The converters of `ascend` operations: their own, otherwise that of their meaning in `nn`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects.ascend import OPERATIONS, AscendOp, AveragingOp, BNInferOp, CastOp, CubeOp, LRNOp
from ...dialects.ascend.base import FormatOp
from ...dialects.nn import NNOp
from ...dialects.nn.shapes import element_of, shape_of
from ..converters import Converters, Register
from ..deployed import is_integer
from ..tensorflow.layer import TensorFlowLayer, Written, written


def by_meaning(op: AscendOp, layer: TensorFlowLayer) -> str | Sequence[str]:
    """Writes the meaning of the operation in `nn`."""
    require_channels_last(op, layer)
    if isinstance(op, CastOp) and takes_integers(op.x):
        raise layer.error(
            "takes the integers of AscendQuant as numbers, which are without their zero point in these files"
        )
    # what has integers has no meaning in `nn` alone
    if (isinstance(op, CubeOp | AveragingOp) and is_integer(op)) or (meaning := op.meaning()).arrange is not None:
        hint = "leave --lower-to-ascend to the target"
        raise layer.error(f"is {op.name.removeprefix('ascend.')}, which these files do not have", hint)
    return written_as(meaning.op, op, layer)


def written_as(meaning: NNOp, op: AscendOp, layer: TensorFlowLayer) -> str | Sequence[str]:
    """The results of an `nn` operation on stand-ins, which are the operation's first operands."""
    for stand_in, operand in zip(meaning.operands, op.operands, strict=False):
        layer.graph.bind(stand_in, layer.value(operand))
    return written(meaning, layer)


CONVERTERS: Converters[TensorFlowLayer, Written] = {op: by_meaning for op in OPERATIONS if op.has_meaning()}
converter: Register[TensorFlowLayer, Written] = Register(CONVERTERS)


def require_channels_last(op: AscendOp, layer: TensorFlowLayer) -> None:
    """Raises CompileError, at the operation, for channels second."""
    hint = (
        "leave --lower-to-ascend to the target, which converts the layout first, or run --convert-layout=to=nhwc before"
    )
    if isinstance(op, FormatOp) and not op.channels_last:
        raise layer.error(f"is in {op.format}, these files have channels last", hint)
    if isinstance(op, BNInferOp | LRNOp) and len(shape_of(op.x)) > 2:
        raise layer.error("has its channels on axis 1, these files have them last", hint)


def takes_integers(value: SSAValue) -> bool:
    """Whether a value comes from AscendQuant: float in TensorFlow, integers without their zero point."""
    return element_of(value) == i8
