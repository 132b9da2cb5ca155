"""`--fuse-small-bn`: batch normalization written in small operations becomes `nn.batch_norm`, which the other fusions know.

One file per form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....dialects import nn
from ....rewriting import FusionPattern, Guard, Remarks, layer_of, nn_ops
from ..fusion_pass import FusionPass, Patterns
from .expressions import MAX_DEPTH, is_expression
from .forms import FuseAffineNorm, FuseKerasNorm, FuseWrittenNorm
from .norm import SmallNormPattern


@dataclass(frozen=True)
class FuseSmallBnPass(FusionPass):
    """Turns batch norms written in small operations (products and sums with constants) into `nn.batch_norm`."""

    name = "fuse-small-bn"

    PATTERNS: ClassVar[Patterns] = (FuseKerasNorm, FuseWrittenNorm, FuseAffineNorm)

    def patterns(self, module: ModuleOp, remarks: Remarks, guards: Sequence[Guard]) -> list[FusionPattern[Any]]:
        kinds: tuple[type[SmallNormPattern], ...] = (FuseKerasNorm, FuseWrittenNorm, FuseAffineNorm)
        qat = _quantization_in(module)
        return [kind(remarks, guards, qat) for kind in kinds]

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        for op in nn_ops(module, nn.SqrtOp, nn.RsqrtOp):
            if is_expression(op.operands[0]) and not any(remarks.has(user) for user in _users(op)):
                remarks.missed(op, "no-batch-norm", "the operations after this standard deviation are not a batch norm")


def _users(op: Operation) -> list[Operation]:
    """The operations that a parameter reaches."""
    found: dict[Operation, None] = {}
    front = [op]
    for _ in range(MAX_DEPTH):
        front = [use.operation for each in front for result in each.results for use in result.uses]
        found.update(dict.fromkeys(front))
    return list(found)


def _quantization_in(module: ModuleOp) -> str:
    """A description of a node of quantization-aware training (or of an earlier quantization); empty if there is none."""
    for op in module.walk():
        if type(op) in (nn.QuantizeOp, nn.DequantizeOp):
            return f"'{op.name}' {layer_of(op)}"
        if any(kind.startswith("FakeQuant") for kind in _source_types(op)):
            return f"a FakeQuant node, {layer_of(op)}"
    return ""


def _source_types(op: Operation) -> list[str]:
    origin = op.properties.get("origin")
    types = [origin.op_type.data] if isinstance(origin, nn.OriginAttr) else []
    return [*types, op.op_type.data] if type(op) is nn.OpaqueOp else types
