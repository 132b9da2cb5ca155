"""Relu6 in front of AscendQuants that saturate at 6 anyway is Relu, which AscendRequant can take in.

Below 6 the two agree. From 6 on AscendQuant does not fall, so that they agree everywhere exactly when it gives its largest
integer at 6 already (AMCT: "where equivalent").
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.ascend import AscendQuantOp, Relu6Op, ReluOp
from ....dtypes import integer_range
from ....rewriting import Array, Remarks, layer_of
from ....runtime.kernels.ascend_integer import quant

RULE = "relu6-saturates"


def replace_relu6(module: ModuleOp, remarks: Remarks) -> None:
    """Let every AscendQuant that saturates at 6 read Relu; Relu6 stays for what else reads it, with a remark."""
    for relu6 in [op for op in module.walk() if isinstance(op, Relu6Op)]:
        readers = [use.operation for use in relu6.y.uses]
        quants = [op for op in readers if isinstance(op, AscendQuantOp)]
        saturating = [op for op in quants if saturates_at_6(op)]
        if saturating:
            _read_relu(relu6, saturating)
        if saturating and len(saturating) == len(readers):
            remarks.applied(relu6, RULE, "every AscendQuant behind it saturates at 6: it is Relu")
            relu6.detach()
            relu6.erase()
        else:
            remarks.missed(relu6, RULE, _why(relu6, [op for op in quants if op not in saturating]))


def saturates_at_6(op: AscendQuantOp) -> bool:
    """AscendQuant, in its own arithmetic, gives the largest integer for 6."""
    _, most = integer_range(op.storage)
    return _at_6(op) == most


def _at_6(op: AscendQuantOp) -> int:
    return int(cast(Array, quant(op)(np.array([6], np.float32)))[0])


def _read_relu(relu6: Relu6Op, quants: list[AscendQuantOp]) -> None:
    relu = ReluOp.make(relu6.x, origin=relu6.origin, location=relu6.location, name=relu6.y.name_hint)
    Rewriter.insert_op(relu, InsertPoint.before(relu6))
    for op in quants:
        op.operands[0] = relu.y


def _why(relu6: Relu6Op, below: list[AscendQuantOp]) -> str:
    if below:
        return f"{layer_of(below[0])} gives {_at_6(below[0])} for 6, which is not its largest integer"
    other = next((use.operation.name for use in relu6.y.uses), "nothing")
    return f"{other} reads it, which is no AscendQuant"
