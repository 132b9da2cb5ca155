"""`--quantize-cache`: the cache of a decoder goes in and out as the integers that attention computes with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ....dialects.nn import ConcatOp, DequantizeOp, MovingOp, MulOp, QParamsAttr, QuantizeOp, ShapeOp, array_of
from ....dialects.nn.shapes import element_of, shape_of, tensor
from ....ir.dtypes import is_float
from ....ir.functions import input_names, main_function, output_names
from ....rewriting import Remarks, Roots, StepPattern, condition, layer_of, rewrite


@dataclass(frozen=True)
class Cache:
    """The cache of a layer: an input, joined with new values, is an output."""

    join: ConcatOp
    past: BlockArgument


class _Reads(NamedTuple):
    """The readers of a value in the end, past operations that only move elements, and products with a number."""

    quantized: set[QParamsAttr]
    """The parameters, converted to those of the value itself."""
    otherwise: list[Operation]


class QuantizeCache(StepPattern[Cache]):
    """a cache whose values are quantized by the same parameters wherever they are read: it holds these integers"""

    name = "cache"
    roots: ClassVar[Roots] = (ConcatOp,)

    @condition
    def past_joined(self, m: Cache) -> str | None:
        """the past is read only where what is new joins it, apart from its shape"""
        others = [
            u.operation for u in m.past.uses if u.operation is not m.join and not isinstance(u.operation, ShapeOp)
        ]
        return None if not others else f"{layer_of(others[0])} reads the past as well"

    @condition
    def quantized_reads(self, m: Cache) -> str | None:
        """what reads the values takes integers"""
        reads = _reads(m.join.result)
        if reads.otherwise:
            return f"'{reads.otherwise[0].name}' {layer_of(reads.otherwise[0])} reads its values as floats"
        return None if reads.quantized else "nothing quantizes its values"

    @condition
    def same_parameters(self, m: Cache) -> str | None:
        """its values are quantized by the same parameters everywhere"""
        count = len(_reads(m.join.result).quantized)
        return None if count == 1 else f"its values are quantized in {count} ways"

    @condition
    def one_scale(self, m: Cache) -> str | None:
        """its values have one scale"""
        (qparams,) = _reads(m.join.result).quantized
        return None if qparams.data.axis is None else "its values have more than one scale"

    def match(self, op: Operation) -> Cache | None:
        past = next((v for v in op.operands if isinstance(v, BlockArgument)), None)
        if not isinstance(op, ConcatOp) or past is None:
            return None
        is_output = any(isinstance(use.operation, ReturnOp) for use in op.result.uses)
        if not is_output or not is_float(element_of(past)) or not isinstance(past.block.parent_op(), FuncOp):
            return None
        return Cache(op, past)

    def rewrite(self, m: Cache, rewriter: PatternRewriter) -> None:
        (read,) = _reads(m.join.result).quantized
        qparams = _held(read)
        type_, index, location = m.past.type, m.past.index, m.join.location
        past = rewriter.replace_value_with_new_type(m.past, tensor(qparams.data.storage, shape_of(m.past)))
        real = DequantizeOp.make(past, qparams=qparams, result_types=[type_], location=location)
        past.replace_uses_with_if(real.result, lambda use: use.operation is m.join)
        block = m.join.parent_block()
        assert isinstance(block, Block), "it is in the graph"
        rewriter.insert(real, InsertPoint.at_start(block))
        present = QuantizeOp.make(m.join.result, qparams=qparams, location=location)
        rewriter.insert(present, InsertPoint.after(m.join))
        m.join.result.replace_uses_with_if(present.result, lambda use: isinstance(use.operation, ReturnOp))
        function = block.parent_op()
        assert isinstance(function, FuncOp), "it is in the graph"
        function.update_function_type()
        ends = block.last_op
        assert isinstance(ends, ReturnOp), "of a graph"
        outputs = zip(output_names(function), ends.arguments, strict=True)
        names = ", ".join(f"'{name}'" for name, value in outputs if value is present.result)
        taken = input_names(function)[index]
        self.remarks.applied(m.join, "cache", f"input '{taken}' and output {names} are {qparams.data.storage}")


def _computing(value: SSAValue) -> Iterator[Use]:
    """The operations that read a value, apart from outputs and those that only ask for its shape."""
    return (use for use in value.uses if not isinstance(use.operation, ReturnOp | ShapeOp))


def _reads(value: SSAValue) -> _Reads:
    """The readers of a value of the graph in the end; outputs and shapes do not count."""
    found = _Reads(set(), [])
    waiting = [(value, 1.0)]
    while waiting:
        read, factor = waiting.pop()
        for use in _computing(read):
            op = use.operation
            if isinstance(op, QuantizeOp):
                found.quantized.add(_before(op.qparams, factor))
            elif isinstance(op, MovingOp) and op.is_passive and use.index == 0:
                waiting += [(result, factor) for result in op.results]
            elif isinstance(op, MulOp) and (number := _positive_number(op.operands[1 - use.index])) is not None:
                waiting.append((op.result, factor * number))
            else:
                found.otherwise.append(op)
    return found


def _positive_number(value: SSAValue) -> float | None:
    """The number that a constant of one element holds, if it is positive."""
    array = array_of(value)
    return float(array.item()) if array is not None and array.size == 1 and array.item() > 0 else None


def _before(qparams: QParamsAttr, factor: float) -> QParamsAttr:
    """The parameters that give a value the same integers as its product with `factor` has by `qparams`."""
    params = qparams.data
    if factor == 1 or params.axis is not None:
        return qparams
    return QParamsAttr.of(params.storage, float(params.scales()) / factor, params.zero_point)


def _held(qparams: QParamsAttr) -> QParamsAttr:
    """The parameters of a cache that is read by these: as int8 if they have fewer bits, which onnxruntime cannot
    exchange with numpy. Reading saturates to the fewer bits, as before.
    """
    params = qparams.data
    return qparams if params.storage.width.data >= i8.width.data else QParamsAttr(replace(params, storage=i8))


@dataclass(frozen=True)
class QuantizeCachePass(ModulePass):
    """Give a decoder's cache the type of the integers that attention reads, after `--quantize`.

    A cache is an input that new values are joined to, with the result as an output, such as `past_key_0` and `present_key_0`.
    What the model computes does not change: past values are quantized once, by the parameters by which they were quantized in
    each step. Integers of fewer than 8 bits are held in int8. If keys are multiplied by a number before, that number divides the
    scale, and what is halfway between two integers may become the other one. A cache that stays float has a remark; if all do, or
    the module has none, that is a warning. Raises CompileError for a module without a graph.
    """

    name = "quantize-cache"

    PATTERNS: ClassVar[tuple[type[QuantizeCache], ...]] = (QuantizeCache,)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main_function(op)  # there has to be one
        remarks = Remarks(ctx, self.name)
        kinds = (*remarks.session.patterns_of(self.name), *self.PATTERNS)
        rewrite(op, *(kind(remarks) for kind in kinds), erase_dead=False)
        remarks.flush_requested(
            "no cache holds integers", "no output is an input of floats with new values joined to it"
        )
