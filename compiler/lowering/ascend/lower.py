"""The pass: operations that a pattern takes become `ascend`; others stay, with a remark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend import AscendDequantOp, AscendQuantOp, ReshapeOp, SqueezeOp, TransposeOp
from ...dialects.nn import (
    OPERATIONS,
    DequantizeOp,
    Expansion,
    NNOp,
    QuantizeOp,
    ShiftAccumulatorOp,
    dequantize_of,
    expandable,
    expanded,
)
from ...rewriting import Condition, Remarks, Roots, erase_dead_constants, requires
from ...rewriting.driver import apply_once, garbage_collection_off
from ...transforms.inline_fused import inline_fused
from ...transforms.quantization.convert.pairs import quantize_at
from ...transforms.quantization.decide.sites import Site
from . import (
    antiquant,
    caffe,
    carried,
    convolution,
    elementwise,
    indexing,
    normalization,
    pooling,
    recurrent,
    reshape,
    shape,
    shift,
    space,
    weight_only,
)
from .quantized import InIntegers
from .quantizer import Quantizer
from .rules import ROWS, Builder, Lowering, Rule, Run, Values, source_of
from .weight_only import has_integer_weight

Patterns = tuple[type[Lowering[Any]], ...]


class Row(Lowering[NNOp]):
    """What has a counterpart, or can be written by other operations, under no condition"""

    roots: ClassVar[Roots] = tuple(dict.fromkeys(kind for kind, _ in ROWS))

    def match(self, op: Operation) -> NNOp | None:
        return op if isinstance(op, NNOp) and _row(op) is not None else None

    def rewrite(self, build: Builder, op: NNOp) -> Values:
        rule = _row(op)
        assert rule is not None
        return rule(build, op)


def _row(op: NNOp) -> Rule | None:
    return ROWS.get((type(op), source_of(op))) or ROWS.get((type(op), None))


class Steps(Lowering[NNOp]):
    """The steps of the expansion, each by the first pattern that takes it, if no other pattern matches"""

    roots: ClassVar[Roots] = tuple(kind for kind in OPERATIONS if kind in expandable())

    def match(self, op: Operation) -> NNOp | None:
        if not isinstance(op, NNOp) or self.run is None or self.run.remarks.has(op) or (found := expanded(op)) is None:
            return None
        with found:
            return op

    def rewrite(self, build: Builder, op: NNOp) -> Values:
        expansion, hint = cast(Expansion, expanded(op)), build.hint
        new = {v: v for v in op.operands}
        try:
            for constant in expansion.constants:
                new[constant.result] = build.constant(constant.array, f"{hint}_number")
            for step in expansion.steps:
                step.results[0].name_hint = f"{hint}_{step.name.partition('.')[2]}"
                step.operands = [new[v] for v in step.operands]
                Rewriter.insert_op(step, InsertPoint.before(op))
                (new[step.results[0]],) = _step(step, build)
            return [new[v] for v in expansion.results]
        finally:
            for each in reversed(expansion.made):
                if each.parent is not None:
                    each.detach()
                each.erase()


def _step(step: NNOp, build: Builder) -> Values:
    """The values of a step. Raises VerifyException if no pattern takes it."""
    reason = "no ascend operation stands for it"
    for pattern in LAYERS:
        own, inner = pattern(), Builder(step, build.quantizer)
        if issubclass(pattern, Steps | Remaining) or (found := own.match(step)) is None:
            continue
        try:
            if (refusal := own.refusal(found)) is None:
                values = own.rewrite(inner, found)
                build.made += inner.made
                for value in values:
                    value.name_hint = step.results[0].name_hint
                return values
            reason = refusal.reason
        except VerifyException as e:
            inner.take_back()
            reason = str(e)
    raise VerifyException(f"its step {step.name}: {reason}")


class Remaining(Lowering[NNOp]):
    """What no other pattern matches"""

    roots: ClassVar[Roots] = tuple(
        each for each in OPERATIONS if issubclass(each, NNOp) and each not in (QuantizeOp, DequantizeOp)
    )

    no_ascend_op: Condition[Any] = requires(
        lambda op: False, "it has a counterpart", lambda op: f"no ascend operation stands for {op.name}"
    )

    def match(self, op: Operation) -> NNOp | None:
        return op if isinstance(op, NNOp) and self.run is not None and not self.run.remarks.has(op) else None


FAMILIES = (
    caffe,
    carried,
    convolution,
    weight_only,
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
"""The modules whose patterns come in this order."""
LAYERS: Patterns = (*(pattern for family in FAMILIES for pattern in family.PATTERNS), Row, Steps, Remaining)
"""The patterns of layers, the best first."""


@dataclass(frozen=True)
class LowerToAscendPass(ModulePass):
    """Lower a quantized or float `nn` module to `ascend`.

    A convolution, matrix product or average pool on a dequantized activation computes in integers between AscendQuant and
    AscendDequant; everything else computes in float, on quantized values after AscendAntiQuant. An operation without a
    counterpart stays in `nn`, with a remark.
    """

    name = "lower-to-ascend"

    PATTERNS: ClassVar[Patterns] = (*LAYERS, *antiquant.PATTERNS)
    """All patterns in the order in which they are tried; those of `antiquant` after all others have been."""

    @garbage_collection_off()
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        inline_fused(op)
        _quantize_behind_passive(op)
        quantizer = Quantizer.of(each for each in op.walk() if isinstance(each, QuantizeOp))
        run = Run(remarks, quantizer, self.takes)
        added = remarks.session.patterns_of(LowerToAscendPass.name)
        apply_once(op, [pattern(run) for pattern in (*added, *LAYERS)])
        apply_once(op, [pattern(run) for pattern in antiquant.PATTERNS])
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
    that are quantized by themselves.
    """

    name = "lower-integers"

    def takes(self, op: NNOp) -> bool:
        if isinstance(op, ShiftAccumulatorOp | QuantizeOp):
            return True
        if isinstance(op, DequantizeOp):
            readers = (use.operation for use in op.result.uses)
            return not any(isinstance(reader, NNOp) and has_integer_weight(reader) for reader in readers)
        return bool(op.operands and dequantize_of(op.operands[0]) and in_integers(op))


_IN_INTEGERS: list[InIntegers[Any]] = [pattern() for pattern in LAYERS if issubclass(pattern, InIntegers)]


def in_integers(op: NNOp) -> list[InIntegers[Any]]:
    """The patterns that compute an operation of this class and source in integers."""
    return [pattern for pattern in _IN_INTEGERS if pattern.stands_for(op)]


def _quantize_behind_passive(module: ModuleOp) -> None:
    """Moves passive operations between a quantization and a layer (profile `qdq`) before both: same numbers."""
    for op in list(module.walk()):
        if isinstance(op, NNOp) and len(op.operands) > 1 and dequantize_of(op.operands[1]) and in_integers(op):
            quantize_at(Site(op, op, False))


_STEPS = (AscendQuantOp, AscendDequantOp, SqueezeOp, TransposeOp, ReshapeOp, QuantizeOp, DequantizeOp)


def _erase_unused(module: ModuleOp) -> None:
    """Removes quantization steps, and operations that put filters in the order of `nn`, if nothing reads them any more."""
    for op in reversed(list(module.walk())):
        if isinstance(op, _STEPS) and not op.results[0].uses:
            op.detach()
            op.erase()
