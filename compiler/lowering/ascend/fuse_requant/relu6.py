"""Relu6 before AscendQuants that saturate at 6 anyway becomes Relu, which AscendDequant and AscendRequant can include.

Below 6 the two agree. From 6 on AscendQuant does not fall, so that they agree everywhere exactly when it gives its largest
integer already at 6 (AMCT: "where equivalent"). Max pools may be between: the largest integer of a window is the
integer of its largest element.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects import ascend, nn
from ....dialects.ascend.base import i8
from ....ir.dtypes import integer_range
from ....ir.precision import forces_fp16
from ....rewriting import Array, Remarks, layer_of
from ....runtime.kernels.ascend_integer import quant, scaled, scaled_in_float16
from ....session import Session
from ....transforms.inline_fused import inline_fused

RULE = "relu6-saturates"

_Relu6 = ascend.Relu6Op | nn.Relu6Op
_Quant = ascend.AscendQuantOp | nn.QuantizeOp
"""The operations that are, or become, AscendQuant."""

_MaxPool = nn.MaxPoolOp | nn.GlobalMaxPoolOp | ascend.MaxPoolV3Op | ascend.MaxPoolOp


def without_relu6(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of a quantized `nn` module, without regions, in which Relu6 is Relu if AscendQuant saturates at 6."""
    module, remarks = module.clone(), Remarks(session, "fuse-requant")
    inline_fused(module)
    replace_relu6(module, remarks)
    remarks.flush()
    return module


def replace_relu6(module: ModuleOp, remarks: Remarks) -> None:
    """Readers that end in AscendQuants saturating at 6 read Relu; Relu6 stays for the others, with a remark."""
    for relu6 in [op for op in module.walk() if isinstance(op, _Relu6)]:
        ends = {use.operation: _behind_pools(use.operation) for use in relu6.results[0].uses}
        saturating = [op for op, last in ends.items() if last and all(map(_saturates, last))]
        if saturating:
            _read_relu(relu6, saturating)
        if saturating and len(saturating) == len(ends):
            remarks.applied(relu6, RULE, "every AscendQuant after it saturates at 6: Relu gives the same integers")
            relu6.detach()
            relu6.erase()
        else:
            remarks.missed(relu6, RULE, _why([op for last in ends.values() for op in last if not _saturates(op)]))


def _behind_pools(op: Operation) -> list[Operation]:
    """The operation, or the readers of a max pool, through any number of max pools."""
    found: list[Operation] = []
    reached = [op]
    while reached:
        op = reached.pop()
        if isinstance(op, _MaxPool):
            reached.extend(use.operation for use in op.results[0].uses)
        else:
            found.append(op)
    return found


def _saturates(op: Operation) -> bool:
    return isinstance(op, _Quant) and saturates_at_6(op)


def saturates_at_6(op: _Quant) -> bool:
    """AscendQuant, in its own arithmetic, gives the largest integer for 6."""
    if isinstance(op, nn.QuantizeOp):
        params = op.qparams.data
        return params.storage == i8 and params.axis is None and _at_6(op) == 127
    _, most = integer_range(op.storage)
    return _at_6(op) == most


def _at_6(op: _Quant) -> int:
    six = np.array([6], np.float32)
    if isinstance(op, ascend.AscendQuantOp):
        return int(cast(Array, quant(op)(six))[0])
    params, of = op.qparams.data, scaled_in_float16 if forces_fp16(op) else scaled
    with np.errstate(over="ignore"):
        scale, point = np.float32(1) / params.scales().reshape(-1)[:1], params.zero_points().reshape(-1)[:1]
        return int(np.clip(np.rint(of(six, scale, point.astype(np.float32))), -128, 127)[0])


def _read_relu(relu6: _Relu6, readers: list[Operation]) -> None:
    kind = ascend.ReluOp if isinstance(relu6, ascend.Relu6Op) else nn.ReluOp
    name = relu6.results[0].name_hint
    relu = kind.make(relu6.operands[0], origin=_as_relu(relu6.origin), location=relu6.location, name=name)
    Rewriter.insert_op(relu, InsertPoint.before(relu6))
    for op in readers:
        op.operands[0] = relu.results[0]


def _as_relu(origin: Attribute | None) -> Attribute | None:
    """The origin with the framework's name of Relu, which lists of the file's layers show."""
    if not isinstance(origin, nn.OriginAttr):
        return origin
    framework = origin.framework.data
    kind = "ReLU" if framework == "caffe" else "Relu"
    return nn.OriginAttr.of(framework, kind, origin.layer.data, modules=origin.module_paths)


def _why(others: list[Operation]) -> str:
    """The reason why Relu6 stays: its readers, through max pools, that are not AscendQuants saturating at 6."""
    for op in others:
        if isinstance(op, _Quant):
            return f"{layer_of(op)} gives {_at_6(op)} for 6, which is not its largest integer"
    other = others[0].name if others else "nothing"
    return f"{other} reads it; only AscendQuant and max pools may"
