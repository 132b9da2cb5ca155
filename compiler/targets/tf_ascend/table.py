"""How each `ascend` operation is written: by a converter of its own, else as the `nn` operation that it means."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects.ascend import AscendOp, AveragingOp, CubeOp
from ...dialects.ascend.base import FormatOp
from ...dialects.nn.shapes import element_of
from ...runtime.kernels.ascend_float import MEANINGS
from ..converters import Converters, Register
from ..deployed import is_integer
from ..tensorflow.layer import CONVERTERS as NN_CONVERTERS
from ..tensorflow.layer import Layer, Written


def by_meaning(op: AscendOp, layer: Layer) -> str | Sequence[str]:
    """As `nn` writes what the interpreter computes for the operation."""
    require_channels_last(op, layer)
    meaning = MEANINGS[type(op)](op)
    if meaning.arrange is not None or (isinstance(op, CubeOp | AveragingOp) and is_integer(op)):
        hint = "leave --lower-to-ascend to the target"
        raise layer.error(f"is {op.name.removeprefix('ascend.')}, which these files do not have", hint)
    for stand_in, operand in zip(meaning.op.operands, op.operands, strict=False):
        layer.graph.bind(stand_in, layer.value(operand))
    return NN_CONVERTERS[type(meaning.op)](meaning.op, layer)


CONVERTERS: Converters[Layer, Written] = dict.fromkeys(MEANINGS, by_meaning)
converter: Register[Layer, Written] = Register(CONVERTERS)


def require_channels_last(op: AscendOp, layer: Layer) -> None:
    """Raises CompileError, at the operation, for channels second."""
    if isinstance(op, FormatOp) and not op.channels_last:
        hint = "leave --lower-to-ascend to the target, which converts the layout first, or run --convert-layout=to=nhwc before"
        raise layer.error(f"is in {op.format}, these files have channels last", hint)


def takes_integers(value: SSAValue) -> bool:
    """Whether a value is what AscendQuant gives: float to TensorFlow, its integers without their zero point."""
    return element_of(value) == i8
