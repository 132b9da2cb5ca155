"""The pass: operations with a rule become `ascend`; others stay, with a remark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend import AscendDequantOp, AscendQuantOp, ReshapeOp, SqueezeOp, TransposeOp
from ...dialects.nn import (
    ConstantOp,
    DequantizeOp,
    MatMulOp,
    NNOp,
    QuantizeOp,
    ShiftAccumulatorOp,
    constant_of,
    dequantize_of,
    set_type,
)
from ...rewriting import Remarks, erase_dead_constants
from ...rewriting.driver import garbage_collection_off
from ...transforms.quantization.convert.pairs import quantize_at
from ...transforms.quantization.decide.sites import Site
from ..refusal import NotLowered
from . import (
    caffe,
    carried,
    convolution,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    recurrent,
    reshape,
    shape,
    shift,
    space,
)
from .antiquant import gives_integers, is_read_in_float, reals
from .fused import inline_fused
from .linear import product_of_inputs
from .quantized import Quantizer, quantized_rules
from .rules import RULES, Builder, keys_of
from .weight_only import has_integer_weight, weight_only_matmul

FAMILIES = (
    caffe,
    carried,
    convolution,
    linear,
    pooling,
    recurrent,
    elementwise,
    normalization,
    indexing,
    reshape,
    shape,
    shift,
    space,
)
"""The modules whose rules are registered."""


@dataclass(frozen=True)
class LowerToAscendPass(ModulePass):
    """Lower a quantized or float `nn` module to `ascend`.

    A convolution, matrix product or average pool on a dequantized activation computes in integers between AscendQuant and
    AscendDequant; everything else computes in float, on quantized values after AscendAntiQuant. An operation without a
    counterpart stays in `nn`, with a remark.
    """

    name = "lower-to-ascend"

    @garbage_collection_off()
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        inline_fused(op)
        _quantize_behind_passive(op)
        operations = [each for each in op.walk() if isinstance(each, NNOp) and each.name.startswith("nn.")]
        quantizer = Quantizer.of(each for each in operations if isinstance(each, QuantizeOp))
        for each in operations:
            if not isinstance(each, QuantizeOp | DequantizeOp) and self.takes(each):
                _lower(each, quantizer, remarks)
        for each in [o for o in operations if (is_read_in_float(o) or gives_integers(o)) and self.takes(o)]:
            _lower(each, quantizer, remarks)
        _erase_unused(op)
        for each in op.walk():
            if isinstance(each, QuantizeOp | DequantizeOp) and self.takes(each) and not remarks.has(each):
                remarks.missed(each, "integer-consumer", "what takes its value does not compute in integers")
        erase_dead_constants(op)
        remarks.flush()

    def takes(self, op: NNOp) -> bool:
        """Whether to lower an operation."""
        return True


@dataclass(frozen=True)
class LowerIntegersPass(LowerToAscendPass):
    """Lowers what computes in integers. The rest stays in `nn`, for files that keep the framework's operators; so do weights
    that are quantized alone.
    """

    name = "lower-integers"

    def takes(self, op: NNOp) -> bool:
        if isinstance(op, ShiftAccumulatorOp | QuantizeOp):
            return True
        if isinstance(op, DequantizeOp):
            readers = (use.operation for use in op.result.uses)
            return not any(isinstance(reader, NNOp) and has_integer_weight(reader) for reader in readers)
        return bool(op.operands and dequantize_of(op.operands[0]) and quantized_rules(op))


def _quantize_behind_passive(module: ModuleOp) -> None:
    """Moves passive operations between a quantization and a layer (profile `qdq`) before both: same numbers."""
    for op in list(module.walk()):
        if isinstance(op, NNOp) and len(op.operands) > 1 and dequantize_of(op.operands[1]) and quantized_rules(op):
            quantize_at(Site(op, op, False))


def _lower(op: NNOp, quantizer: Quantizer, remarks: Remarks) -> None:
    """Lowers an operation in integers if possible, otherwise in float; a remark for each refusal."""
    refusals: list[NotLowered] = []
    for rule in _rules(op, quantizer):
        build = Builder(op)
        try:
            values = rule(build)
        except (NotLowered, VerifyException) as e:
            build.take_back()
            refusals.append(e if isinstance(e, NotLowered) else NotLowered("ascend-constraint", str(e)))
            continue
        op = _replace(op, values)
        break
    else:
        refusals = refusals or [NotLowered("no-ascend-op", f"no ascend operation stands for {op.name}")]
    for refusal in refusals:
        remarks.missed(op, refusal.rule, refusal.reason)
    if not refusals:
        remarks.applied(op, "lower", f"computed by {op.name}")


def _rules(op: NNOp, quantizer: Quantizer) -> Iterator[Callable[[Builder], Sequence[SSAValue]]]:
    """The lowering rules to try, the best first."""
    if isinstance(op, DequantizeOp):
        yield lambda build: reals(build, op, quantizer)
        return
    if isinstance(op, QuantizeOp):
        yield lambda build: [quantizer.integers(op).value]
        return
    first = dequantize_of(op.operands[0]) if op.operands else None
    second = _second_activation(op)
    if first is not None and second is not None:
        both = first, second
        yield lambda build: product_of_inputs(build, cast(MatMulOp, op), *map(quantizer.activation, both))
    elif first is not None:
        for rule in quantized_rules(op):
            yield lambda build, rule=rule: rule(build, op, quantizer.activation(first))
    if has_integer_weight(op):
        yield lambda build: weight_only_matmul(build, cast(MatMulOp, op))
    for rule in (RULES[key] for key in keys_of(op) if key in RULES):
        yield lambda build, rule=rule: rule(build, op)


def _second_activation(op: NNOp) -> DequantizeOp | None:
    """The dequantize of a product's second operand, if that operand is computed."""
    dequantize = dequantize_of(op.rhs) if isinstance(op, MatMulOp) else None
    return None if dequantize is None or constant_of(dequantize.input) is not None else dequantize


def _replace(op: NNOp, values: Sequence[SSAValue]) -> NNOp:
    """Replaces an operation's results by values; returns the operation that computes the first one."""
    for old, new in zip(op.results, values, strict=True):
        set_type(new, old.type)  # uses rely on the declared type, which may know more sizes than were inferred
        if not isinstance(new.owner, ConstantOp):  # whose name is that of its array
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    return cast(NNOp, values[0].owner)


_STEPS = (AscendQuantOp, AscendDequantOp, SqueezeOp, TransposeOp, ReshapeOp, QuantizeOp, DequantizeOp)


def _erase_unused(module: ModuleOp) -> None:
    """Removes quantization steps, and what put filters in the order of `nn`, if nothing reads them any more."""
    for op in reversed(list(module.walk())):
        if isinstance(op, _STEPS) and not op.results[0].uses:
            op.detach()
            op.erase()
