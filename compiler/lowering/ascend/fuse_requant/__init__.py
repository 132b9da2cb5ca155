"""`--fuse-requant`: from integers to integers without reals between, if nothing else reads the reals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ....dialects.ascend import AscendDequantOp
from ....rewriting import Remarks, erase_dead_constants, layer_of, rewrite
from .chips import Chip, chip_patterns
from .merge_quants import merge_quants
from .relu6 import replace_relu6, without_relu6
from .relu_flag import FuseReluFlag
from .requant import FuseRequant

__all__ = ["FuseReluFlag", "FuseRequant", "FuseRequantPass", "without_relu6"]


@dataclass(frozen=True)
class FuseRequantPass(ModulePass):
    """Merges AscendDequant, Relu and AscendQuant into AscendRequant; Relu6 before AscendQuant becomes Relu if that is exact.

    With `chip` only what CANN's graph engine merges on that chip, in its arithmetic.
    """

    name = "fuse-requant"

    chip: Chip | None = None
    """v100: Ascend 310 and 910; v200: 310P; 310b; a2: Atlas A2 and A3 (910B, 910C); 950. None: every merge, by exact scales."""

    @property
    def numbers(self) -> Literal["rounded", "chosen"]:
        """The promise that `--check` holds: chips round scales otherwise, and merge AscendQuants of different offsets."""
        return "rounded" if self.chip is None else "chosen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks, scaled = Remarks(ctx, self.name), set[Operation]()
        if self.chip is None:
            merge_quants(op, remarks)
            replace_relu6(op, remarks)
            rewrite(op, FuseReluFlag(remarks), FuseRequant(remarks))
        else:
            for patterns in chip_patterns(self.chip, remarks, scaled):
                rewrite(op, *patterns)
        _report(op, remarks, scaled)
        erase_dead_constants(op)
        remarks.flush()


def _report(module: ModuleOp, remarks: Remarks, scaled: set[Operation]) -> None:
    """Adds a remark for every remaining AscendDequant without a remark of a pattern, but for those that are scaled."""
    for op in module.walk():
        if isinstance(op, AscendDequantOp) and not remarks.has(op) and op not in scaled:
            remarks.missed(op, "integer-consumer", f"{_readers(op.y)} reads floats")


def _readers(value: SSAValue) -> str:
    names = dict.fromkeys(f"'{use.operation.name}' {layer_of(use.operation)}" for use in value.uses)
    return ", ".join(names) or "nothing"
