"""The form of a module for files: channels last, layers on int8 in `ascend`, weights as in AMCT's files. Same numbers."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from ...dialects import ascend
from ...dialects.nn.shapes import shape_of
from ...lowering.ascend import LowerIntegersPass
from ...lowering.ascend.chips.kernels import take_kernels
from ...rewriting import erase_dead_constants
from ...session import Session
from ..deployed import Made, turn_weight
from ..graph import in_layout


def deployable(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of an `nn` or `ascend` module in the form of the file; float operations stay in their dialect."""
    module = in_layout(module, "NHWC", session).clone()
    LowerIntegersPass().apply(session, module)
    take_kernels(module, session, "tf-ascend")
    made: Made = {}
    for op in list(module.walk()):
        if isinstance(op, ascend.FullyConnectionOp) and op.first_axis == len(shape_of(op.x)) - 1:
            op = _as_product(op)
        if isinstance(op, ascend.MatrixOp):
            turn_weight(op, made)
    erase_dead_constants(module)
    return module


def _as_product(op: ascend.FullyConnectionOp) -> ascend.MatrixOp:
    """Converts Caffe's inner product along the last axis: TensorFlow has products of matrices only."""
    kind = ascend.MatMulV2Op if op.first_axis == 1 else ascend.BatchMatMulV2Op
    properties: dict[str, Any] = {kind.FLAGS[1]: not op.is_transposed}
    product = kind.make(
        op.x,
        op.w,
        op.b,
        offset_x=op.offset_x,
        origin=op.origin,
        location=op.location,
        result_types=op.result_types,
        **properties,
    )
    Rewriter.replace_op(op, product)
    return product
