"""Relu6 before AscendQuants that saturate at 6 anyway becomes Relu, which AscendDequant and AscendRequant can include.

Below 6 the two agree. From 6 on AscendQuant does not fall, so that they agree everywhere exactly when it gives its largest
integer already at 6 (AMCT: "where equivalent"). Max pools may be between: the largest integer of a window is the
integer of its largest element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects import ascend, nn
from ....dialects.ascend.base import i8
from ....ir.dtypes import integer_range
from ....ir.precision import forces_fp16
from ....rewriting import Array, Refusal, Remarks, Roots, StepPattern, condition, layer_of
from ....rewriting.driver import apply_once
from ....runtime.kernels.ascend_integer import quant, scaled, scaled_in_float16
from ....session import Session
from ....transforms.inline_fused import inline_fused

_Relu6 = ascend.Relu6Op | nn.Relu6Op
_Quant = ascend.AscendQuantOp | nn.QuantizeOp
"""The operations that are, or become, AscendQuant."""

_MaxPool = nn.MaxPoolOp | nn.GlobalMaxPoolOp | ascend.MaxPoolV3Op | ascend.MaxPoolOp


def without_relu6(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of a quantized `nn` module, without regions, in which Relu6 is Relu if AscendQuant saturates at 6."""
    module, remarks = module.clone(), Remarks(session, "fuse-requant")
    inline_fused(module)
    apply_once(module, [ReplaceRelu6(remarks)])
    remarks.flush()
    return module


class ReadRelu6(NamedTuple):
    """Relu6 and its readers."""

    relu6: _Relu6
    ends: Mapping[Operation, Sequence[Operation]]
    """The operations that a reader's numbers reach through max pools, by reader: the reader itself if it is not a max pool."""
    saturating: Sequence[Operation]
    """The readers from which they reach only AscendQuants that saturate at 6."""


class ReplaceRelu6(StepPattern[ReadRelu6]):
    """AscendQuant(Relu6(x)) = AscendQuant(Relu(x)), also through max pools; Relu6 stays for other readers"""

    name = "replace-relu6"
    roots: ClassVar[Roots] = (ascend.Relu6Op, nn.Relu6Op)

    @condition
    def relu6_saturates(self, m: ReadRelu6) -> str | None:
        """every reader, through max pools, is an AscendQuant that gives its largest integer for 6"""
        if len(m.saturating) == len(m.ends) > 0:
            return None
        others = [op for last in m.ends.values() for op in last if not _saturates(op)]
        if (other := next((op for op in others if isinstance(op, _Quant)), None)) is not None:
            return f"{layer_of(other)} gives {_at_6(other)} for 6, which is not its largest integer"
        return f"{others[0].name if others else 'nothing'} reads it; only AscendQuant and max pools may"

    def match(self, op: Operation) -> ReadRelu6 | None:
        ends = {use.operation: _behind_pools(use.operation) for use in op.results[0].uses}
        saturating = [reader for reader, last in ends.items() if last and all(map(_saturates, last))]
        return ReadRelu6(cast(_Relu6, op), ends, saturating)

    def refused(self, m: ReadRelu6, refusal: Refusal) -> None:
        _read_relu(m)

    def rewrite(self, m: ReadRelu6, rewriter: PatternRewriter) -> None:
        why = "every AscendQuant after it saturates at 6: Relu gives the same integers"
        self.remarks.applied(m.relu6, "relu6-saturates", why)
        _read_relu(m)
        rewriter.erase(m.relu6)


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
    """Whether AscendQuant, in its own arithmetic, gives the largest integer for 6."""
    if isinstance(op, ascend.AscendQuantOp):
        return _at_6(op) == integer_range(op.storage)[1]
    params = op.qparams.data
    return params.storage == i8 and params.axis is None and _at_6(op) == 127


def _at_6(op: _Quant) -> int:
    six = np.array([6], np.float32)
    if isinstance(op, ascend.AscendQuantOp):
        return int(cast(Array, quant(op)(six))[0])
    params, of = op.qparams.data, scaled_in_float16 if forces_fp16(op) else scaled
    with np.errstate(over="ignore"):
        scale, point = np.float32(1) / params.scales().reshape(-1)[:1], params.zero_points().reshape(-1)[:1]
        return int(np.clip(np.rint(of(six, scale, point.astype(np.float32))), -128, 127)[0])


def _read_relu(m: ReadRelu6) -> None:
    if not m.saturating:
        return
    relu6 = m.relu6
    kind = ascend.ReluOp if isinstance(relu6, ascend.Relu6Op) else nn.ReluOp
    name = relu6.results[0].name_hint
    relu = kind.make(relu6.operands[0], origin=_as_relu(relu6.origin), location=relu6.location, name=name)
    Rewriter.insert_op(relu, InsertPoint.before(relu6))
    for op in m.saturating:
        op.operands[0] = relu.results[0]


def _as_relu(origin: Attribute | None) -> Attribute | None:
    """The origin with the framework's name of Relu, which lists of the file's layers show."""
    if not isinstance(origin, nn.OriginAttr):
        return origin
    framework = origin.framework.data
    kind = "ReLU" if framework == "caffe" else "Relu"
    return nn.OriginAttr.of(framework, kind, origin.layer.data, modules=origin.module_paths)
