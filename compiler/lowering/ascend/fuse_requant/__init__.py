"""`--fuse-requant`: from integers to integers without reals between, if nothing else reads the reals."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....dialects.ascend import AscendDequantOp
from ....rewriting import Remarks, erase_dead_constants, layer_of, rewrite
from .merge_quants import merge_quants
from .relu6 import replace_relu6, without_relu6
from .relu_flag import FuseReluFlag
from .requant import FuseRequant

__all__ = ["FuseReluFlag", "FuseRequant", "FuseRequantPass", "without_relu6"]


@dataclass(frozen=True)
class FuseRequantPass(ModulePass):
    """Merges AscendDequant, Relu and AscendQuant into AscendRequant; Relu6 before AscendQuant becomes Relu if that is exact."""

    name = "fuse-requant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        merge_quants(op, remarks)
        replace_relu6(op, remarks)
        rewrite(op, FuseReluFlag(remarks), FuseRequant(remarks))
        _report(op, remarks)
        erase_dead_constants(op)
        remarks.flush()


def _report(module: ModuleOp, remarks: Remarks) -> None:
    """Adds a remark for every remaining AscendDequant without a remark of a pattern."""
    for op in module.walk():
        if isinstance(op, AscendDequantOp) and not remarks.has(op):
            remarks.missed(op, "integer-consumer", f"{_readers(op.y)} reads floats")


def _readers(value: SSAValue) -> str:
    names = dict.fromkeys(f"'{use.operation.name}' {layer_of(use.operation)}" for use in value.uses)
    return ", ".join(names) or "nothing"
