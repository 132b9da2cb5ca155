"""`--fuse-requant`: from integers to integers without reals between, if nothing else reads the reals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ....dialects.ascend import AscendDequantOp
from ....rewriting import Remarks, erase_dead_constants, layer_of, rewrite
from ....rewriting.driver import apply_once
from .chips import BY_CHIP, Chip, Scales
from .relu6 import ReplaceRelu6, without_relu6
from .requant import MergeQuants

__all__ = ["FuseRequantPass", "without_relu6"]


@dataclass(frozen=True)
class FuseRequantPass(ModulePass):
    """Merges AscendDequant, Relu and AscendQuant into AscendRequant; Relu6 before AscendQuant becomes Relu if that is exact.

    With `chip` only what CANN's graph engine merges on that chip, in its arithmetic.
    """

    name = "fuse-requant"

    PATTERNS: ClassVar[tuple[type[Any], ...]] = (MergeQuants, ReplaceRelu6, *BY_CHIP[None][0])
    BY_OPTION: ClassVar[Mapping[str, Sequence[type[Any]]]] = {
        f"chip={chip}": [*chain(*groups)] for chip, groups in BY_CHIP.items() if chip is not None
    }
    """The patterns in place of these."""

    chip: Chip | None = None
    """v100: Ascend 310 and 910; v200: 310P; 310b; a2: Atlas A2 and A3 (910B, 910C); 950. None: every merge, by exact scales."""

    @property
    def numbers(self) -> Literal["rounded", "chosen"]:
        """The promise that `--check` verifies: chips round scales otherwise, and merge AscendQuants of different offsets."""
        return "rounded" if self.chip is None else "chosen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks, scaled = Remarks(ctx, self.name), set[Operation]()
        if self.chip is None:
            apply_once(op, [MergeQuants(remarks), ReplaceRelu6(remarks)])
        for group in BY_CHIP[self.chip]:
            own = (each(remarks, scaled) if issubclass(each, Scales) else each(remarks) for each in group)
            rewrite(op, *(each(remarks) for each in remarks.session.patterns_of(self.name)), *own)
        _report(op, remarks, scaled)
        erase_dead_constants(op)
        remarks.flush()


def _report(module: ModuleOp, remarks: Remarks, scaled: set[Operation]) -> None:
    """Adds a remark for every remaining AscendDequant without a remark of a pattern, apart from those that are scaled."""
    for op in module.walk():
        if isinstance(op, AscendDequantOp) and not remarks.has(op) and op not in scaled:
            remarks.missed(op, "integer-consumer", f"{_readers(op.y)} reads floats")


def _readers(value: SSAValue) -> str:
    names = dict.fromkeys(f"'{use.operation.name}' {layer_of(use.operation)}" for use in value.uses)
    return ", ".join(names) or "nothing"
