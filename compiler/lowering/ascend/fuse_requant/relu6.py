"""Relu6 in front of AscendQuants that saturate at 6 anyway is Relu, which AscendRequant can take in.

Below 6 the two agree. From 6 on AscendQuant does not fall, so that they agree everywhere exactly when it gives its largest
integer at 6 already (AMCT: "where equivalent").
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects import ascend, nn
from ....dialects.ascend.base import i8
from ....dtypes import integer_range
from ....rewriting import Array, Remarks, layer_of
from ....runtime.kernels.ascend_integer import quant
from ....session import Session
from ..fused import inline_fused

RULE = "relu6-saturates"

_Relu6 = ascend.Relu6Op | nn.Relu6Op
_Quant = ascend.AscendQuantOp | nn.QuantizeOp
"""What becomes AscendQuant, too."""


def without_relu6(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of a quantized `nn` module, without regions, in which Relu6 is Relu where AscendQuant saturates at 6."""
    module, remarks = module.clone(), Remarks(session, "fuse-requant")
    inline_fused(module)
    replace_relu6(module, remarks)
    remarks.flush()
    return module


def replace_relu6(module: ModuleOp, remarks: Remarks) -> None:
    """Let every AscendQuant that saturates at 6 read Relu; Relu6 stays for what else reads it, with a remark."""
    for relu6 in [op for op in module.walk() if isinstance(op, _Relu6)]:
        readers = [use.operation for use in relu6.results[0].uses]
        quants = [op for op in readers if isinstance(op, _Quant)]
        saturating = [op for op in quants if saturates_at_6(op)]
        if saturating:
            _read_relu(relu6, saturating)
        if saturating and len(saturating) == len(readers):
            remarks.applied(relu6, RULE, "every AscendQuant behind it saturates at 6: it is Relu")
            relu6.detach()
            relu6.erase()
        else:
            remarks.missed(relu6, RULE, _why(relu6, [op for op in quants if op not in saturating]))


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
    params = op.qparams.data
    with np.errstate(over="ignore"):
        scaled = six * (np.float32(1) / params.scales().reshape(-1)[:1])
    return int(np.clip(np.rint(scaled + params.zero_points().reshape(-1)[:1].astype(np.float32)), -128, 127)[0])


def _read_relu(relu6: _Relu6, quants: list[_Quant]) -> None:
    kind = ascend.ReluOp if isinstance(relu6, ascend.Relu6Op) else nn.ReluOp
    name = relu6.results[0].name_hint
    relu = kind.make(relu6.operands[0], origin=_as_relu(relu6.origin), location=relu6.location, name=name)
    Rewriter.insert_op(relu, InsertPoint.before(relu6))
    for op in quants:
        op.operands[0] = relu.results[0]


def _as_relu(origin: Attribute | None) -> Attribute | None:
    """The layer under its framework's name of Relu, which lists of the file's layers show."""
    if not isinstance(origin, nn.OriginAttr):
        return origin
    framework = origin.framework.data
    kind = "ReLU" if framework == "caffe" else "Relu"
    return nn.OriginAttr.of(framework, kind, origin.layer.data, modules=origin.module_paths)


def _why(relu6: _Relu6, below: list[_Quant]) -> str:
    if below:
        return f"{layer_of(below[0])} gives {_at_6(below[0])} for 6, which is not its largest integer"
    other = next((use.operation.name for use in relu6.results[0].uses), "nothing")
    return f"{other} reads it, where only AscendQuant may"
