"""AscendQuants of one tensor that are equal become one (AMCT)."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, SSAValue

from ....dialects.ascend import AscendQuantOp
from ....rewriting import Remarks, layer_of

_Key = tuple[Block | None, SSAValue, tuple[Attribute, ...]]


def merge_quants(module: ModuleOp, remarks: Remarks) -> None:
    """The first of several equal AscendQuants, bit for bit in all properties, replaces the others."""
    first: dict[_Key, AscendQuantOp] = {}
    for op in [op for op in module.walk() if isinstance(op, AscendQuantOp)]:
        kept = first.setdefault((op.parent, op.x, _parameters(op)), op)
        if kept is op:
            continue
        op.y.replace_all_uses_with(kept.y)
        remarks.applied(op, "merge-quants", f"{layer_of(kept)} gives the same integers")
        op.detach()
        op.erase()


def _parameters(op: AscendQuantOp) -> tuple[Attribute, ...]:
    return op.scale, op.offset, op.dst_type, op.round_mode, op.sqrt_mode, op.fakequant_precision_mode
