"""The pass: every operation with a rule becomes `ascend`, what has none stays and says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend import AscendQuantOp
from ...dialects.nn import DequantizeOp, NNOp, QuantizeOp, set_type
from ...rewriting import Remarks, erase_dead_constants
from . import convolution, elementwise, linear, normalization, pooling, shape
from .fused import inline_fused
from .quantized import QUANTIZED_RULES, QuantizedRule, Quantizer, dequantize_of
from .rules import RULES, Builder, NotLowered

FAMILIES = (convolution, linear, pooling, elementwise, normalization, shape)
"""The modules whose rules are registered."""


@dataclass(frozen=True)
class LowerToAscendPass(ModulePass):
    """Lower a quantized or float `nn` module to `ascend`.

    A convolution, matrix product or average pool on a dequantized activation computes in integers between AscendQuant and
    AscendDequant; everything else computes in float. What has no counterpart stays in `nn`, with a remark.
    """

    name = "lower-to-ascend"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        inline_fused(op)
        operations = [each for each in op.walk() if isinstance(each, NNOp) and each.name.startswith("nn.")]
        quantizer = Quantizer.of(each for each in operations if isinstance(each, QuantizeOp))
        for each in operations:
            if not isinstance(each, QuantizeOp | DequantizeOp):
                _lower(each, quantizer, remarks)
        _erase_unused(op)
        for each in op.walk():
            if isinstance(each, QuantizeOp | DequantizeOp):
                remarks.missed(each, "integer-consumer", "what takes its value does not compute in integers")
        erase_dead_constants(op)
        remarks.flush()


def _lower(op: NNOp, quantizer: Quantizer, remarks: Remarks) -> None:
    """In integers where that is possible, else as it stands; a remark for each refusal."""
    dequantize = dequantize_of(op.operands[0]) if op.operands else None
    quantized_rule = QUANTIZED_RULES.get(type(op))
    if dequantize is not None and quantized_rule is not None:
        in_integers = partial(_apply_quantized, quantized_rule, quantizer, dequantize)
        if _replaced(op, in_integers, remarks):
            return
    if (rule := RULES.get(type(op))) is None:
        remarks.missed(op, "no-ascend-op", f"no ascend operation stands for {op.name} yet")
        return
    _replaced(op, lambda build: rule(build, op), remarks)


def _apply_quantized(
    rule: QuantizedRule, quantizer: Quantizer, dequantize: DequantizeOp, build: Builder
) -> Sequence[SSAValue]:
    return rule(build, build.op, quantizer.activation(dequantize))


def _replaced(op: NNOp, rule: Callable[[Builder], Sequence[SSAValue]], remarks: Remarks) -> bool:
    """Replace an operation by what a rule builds; where the rule refuses, a remark says why and nothing changes."""
    build = Builder(op)
    try:
        values = rule(build)
    except NotLowered as e:
        build.take_back()
        remarks.missed(op, e.rule, e.reason)
        return False
    except VerifyException as e:
        build.take_back()
        remarks.missed(op, "ascend-constraint", str(e))
        return False
    for old, new in zip(op.results, values, strict=True):
        set_type(new, old.type)  # uses rely on the declared type, which may know more sizes than were inferred
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    if not remarks.has(op):
        owner = cast(NNOp, values[0].owner)
        remarks.applied(op, "lower", f"computed by {owner.name}")
    op.detach()
    op.erase()
    return True


def _erase_unused(module: ModuleOp) -> None:
    """Remove quantization steps that nothing takes any more."""
    for op in reversed(list(module.walk())):
        if isinstance(op, AscendQuantOp | QuantizeOp | DequantizeOp) and not op.results[0].uses.get_length():
            op.detach()
            op.erase()
