"""The pass: operations with a rule become linalg, tensor, arith and math; others stay, with a remark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FunctionType,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import ascend
from amct_opt.dialects.ascend import AscendOp, AveragingOp, BatchMatMulV2Op, CubeOp, MatMulV2Op, PerChannelOp
from amct_opt.dialects.ascend.base import FormatOp, Meaning
from amct_opt.dialects.ascend.quantization import ScaledOp
from amct_opt.dialects.nn import ConstantOp, Expansion, MatMulOp, NNOp, ReshapeOp, TransposeOp, WindowOp, expanded, ints
from amct_opt.dialects.nn.elementwise import ElementwiseOp
from amct_opt.dialects.nn.shapes import element_of, known, shape_of
from amct_opt.lowering.refusal import NotLowered, require
from amct_opt.rewriting import Remarks, erase_dead_constants, rewrite
from amct_opt.rewriting.driver import garbage_collection_off
from amct_opt.transforms.inline_fused import inline_fused
from amct_opt.transforms.partial_shapes import Dimension, root

from . import contraction, elementwise, lookups, requantization as steps, shape, windows
from .build import Body, Builder, Scalars, key_of, signless
from .elementwise import body_of, by_element
from .rules import RULES

FAMILIES = (contraction, elementwise, lookups, shape, steps, windows)
"""The modules whose rules are registered."""


@dataclass(frozen=True)
class ConvertToLinalgPass(ModulePass):
    """A table of rules lowers `nn` and `ascend` to linalg, tensor, arith and math on tensors, which other compilers read.

    Integers are computed exactly as the interpreter computes them. An operation without a form stays, with a remark. Constants of
    more than 16 elements stay `nn.constant`, with their arrays next to the text; `-t linalg` writes them as others read them.
    """

    name = "convert-to-linalg"

    PATTERNS: ClassVar[tuple[type[Any], ...]] = ()
    """None of its own, but a table of rules: those of plugins are tried before them."""

    @garbage_collection_off()
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower(ctx, op, Builder)


def lower(ctx: Context, module: ModuleOp, builder: type[Builder]) -> None:
    """Lowers a module with a class of builders."""
    remarks = Remarks(ctx, ConvertToLinalgPass.name)
    inline_fused(module)
    rewrite(module, *(kind(remarks) for kind in remarks.session.patterns_of(ConvertToLinalgPass.name)))
    for function in [each for each in module.ops if isinstance(each, FuncOp) and not each.is_declaration]:
        _Lowering(function, remarks, builder).run()
    erase_dead_constants(module)
    for each in [c for c in module.walk() if isinstance(c, ConstantOp)]:
        _inline_small(each)
    remarks.flush()


class _Lowering:
    """The lowering of one function. Old operations stay until the end: they tell the meaning of the new values."""

    def __init__(self, function: FuncOp, remarks: Remarks, builder: type[Builder]):
        self.function = function
        self.builder = builder
        self.remarks = remarks
        self.new: dict[SSAValue, SSAValue] = {}
        self.old: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        block = self.function.body.block
        for argument in block.args:
            self._store_signless(argument)
        done: list[Operation] = []
        for op in list(block.ops):
            if isinstance(op, ConstantOp):
                self._store_constant(op)
            elif isinstance(op, NNOp) and self._lowered(op):
                done.append(op)
            elif not isinstance(op, UnrealizedConversionCastOp):
                self._keep(op)
        for op in reversed(done):
            op.detach()
            op.erase()
        self._settle_arguments()

    def _replace(self, old: SSAValue, new: SSAValue) -> None:
        new.name_hint = new.name_hint or old.name_hint
        self.new[old] = new
        self.old.setdefault(new, old)

    def _store_signless(self, argument: BlockArgument) -> None:
        element = signless(element_of(argument))
        if element != element_of(argument):
            cast_ = UnrealizedConversionCastOp.get([argument], [TensorType(element, shape_of(argument))])
            Rewriter.insert_op(cast_, InsertPoint.at_start(self.function.body.block))
            self._replace(argument, cast_.results[0])

    def _settle_arguments(self) -> None:
        """Gives arguments that only casts read the type of the stored values, and the function the types of its block."""
        block = self.function.body.block
        for argument in block.args:
            users = [use.operation for use in argument.uses]
            if users and argument in self.new and all(isinstance(u, UnrealizedConversionCastOp) for u in users):
                (cast_,) = users
                type_ = cast_.results[0].type
                argument = Rewriter.replace_value_with_new_type(argument, type_)
                cast_.results[0].replace_all_uses_with(argument)
                cast_.detach()
                cast_.erase()
        results = cast(ReturnOp, block.last_op).arguments
        self.function.function_type = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])

    def _store_constant(self, op: ConstantOp) -> None:
        element = element_of(op.result)
        stored = signless(element)
        if stored == element:
            return
        array = op.array
        bits = array.view("int8") if array.dtype.itemsize == 1 and array.dtype.kind == "u" else array.astype("int8")
        if array.dtype.itemsize > 1:
            bits = array.view(array.dtype.name.removeprefix("u"))
        new = ConstantOp.of(bits, key_of(op.result), op.location)
        Rewriter.insert_op(new, InsertPoint.before(op))
        self._replace(op.result, new.result)

    def _lowered(self, op: NNOp) -> bool:
        build = self.builder(op, self._root)
        operands = [self.new.get(v, v) for v in op.operands]
        try:
            stays = any(isinstance(v.owner, CubeOp) and element_of(v) == i32 for v in operands)
            require(not stays, "accumulator", "what computes its sums stays")
            values = self._values(build, op, operands)
        except (NotLowered, VerifyException) as e:
            build.take_back()
            refusal = e if isinstance(e, NotLowered) else NotLowered("linalg-constraint", str(e))
            self.remarks.missed(op, refusal.rule, refusal.reason)
            return False
        for old, value in zip(op.results, values, strict=True):
            type_ = TensorType(signless(element_of(old)), shape_of(old))
            self._replace(old, build.cast(value, type_))
        self.remarks.applied(op, "lower", "computed by linalg")
        return True

    def _values(self, build: Builder, op: NNOp, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The results of an operation by a rule for it, or for its meaning in `nn`; otherwise by the expansion of either."""
        facts, reals = op, isinstance(op, AveragingOp) and element_of(op.operands[0]) != i8
        if (type(op) not in RULES or reals) and isinstance(op, AscendOp) and type(op).has_meaning():
            meaning = op.meaning()
            facts, operands = meaning.op, _arranged(meaning, operands)
        if (rule := RULES.get(type(facts))) is not None:
            return rule(build, facts, *operands)
        if (body := body_of(facts)) is not None:
            return [by_element(build, facts, operands, body)]
        if facts is not op:
            facts.operands = [self.old.get(v, v) for v in operands]
        try:
            if (expansion := expanded(facts)) is None:
                raise NotLowered("no-linalg-form", f"linalg has no form of {op.name}")
            with expansion:
                return self._by_steps(build, expansion, operands)
        finally:
            if facts is not op:
                facts.drop_all_references()

    def _by_steps(self, build: Builder, expansion: Expansion, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The results of an expansion; steps on single elements that one other such step reads are computed in its loop."""
        new = dict(zip(expansion.op.operands, operands, strict=True))
        new.update((each.result, build.constant(each.array, each.key)) for each in expansion.constants)
        inner = {step for step in expansion.steps if _is_inner(step)} - {v.owner for v in expansion.results}
        for step in expansion.steps:
            if step in inner:
                continue
            if (body := body_of(step)) is not None:
                leaves, body = _joined(step, body, inner)
                value = by_element(build, step, [new[v] for v in leaves], body)
            else:
                (value,) = self._values(build, step, [new[v] for v in step.operands])
            result = step.results[0]
            new[result] = build.cast(value, TensorType(signless(element_of(result)), shape_of(result)))
            self.old.setdefault(new[result], result)
        return [new[v] for v in expansion.results]

    def _keep(self, op: Operation) -> None:
        """Makes an operation that stays read the new values, cast to their former type if that is another one."""
        for i, operand in enumerate(op.operands):
            if (value := self.new.get(operand)) is None:
                continue
            if value.type != operand.type and not isinstance(op, ReturnOp):
                back = UnrealizedConversionCastOp.get([value], [operand.type])
                Rewriter.insert_op(back, InsertPoint.before(op))
                value = back.results[0]
            op.operands[i] = value

    def _root(self, value: SSAValue, axis: int) -> object:
        """The origin of an unknown size: through operations that keep it, and for batches through all that act on each sample."""
        at = Dimension(self.old.get(value, value), axis)
        while (before := _size_before(root(at))) != at:
            at = before
        return at


def _size_before(at: Dimension) -> Dimension:
    """The equal size of an operand, if the operation is known to keep it. Where unknown sizes meet, they were found equal."""
    op = at.value.owner
    if not isinstance(op, NNOp):
        return at
    facts, rank = _facts(op), len(shape_of(at.value))
    first = Dimension(op.operands[0], at.axis)
    if isinstance(op, ascend.ReshapeOp):
        return _entry(op.shape, at.axis) or at
    if isinstance(facts, ReshapeOp):
        target = facts.target() or ()
        copies = at.axis < len(target) and target[at.axis] == 0 and facts.allow_zero is None
        return first if copies or (at.axis == 0 and facts.acts_by_sample) else at
    if isinstance(facts, TransposeOp):
        return Dimension(op.operands[0], ints(facts.perm)[at.axis])
    if isinstance(facts, MatMulOp | BatchMatMulV2Op | MatMulV2Op):
        transposed = facts.transpose_a is not None if isinstance(facts, MatMulOp) else facts.transposes[0]
        same = len(shape_of(op.operands[0])) == rank and at.axis < rank - (2 if transposed else 1)
        return first if same and not known(shape_of(op.operands[0])[at.axis]) else at
    if facts.KEEPS_SHAPE or isinstance(facts, ElementwiseOp | ScaledOp | PerChannelOp):
        for operand in op.operands:
            shape, axis = shape_of(operand), at.axis - rank + len(shape_of(operand))
            if axis >= 0 and not known(shape[axis]):
                return Dimension(operand, axis)
    if at.axis == 0 and (facts.acts_by_sample or isinstance(facts, WindowOp | FormatOp)):
        return first
    return at


def _entry(sizes: SSAValue, index: int) -> Dimension | None:
    """The size that an entry of a computed tensor of sizes is, if it is one."""
    op = sizes.owner
    if isinstance(op, ascend.ShapeOp):
        return Dimension(op.x, index)
    if isinstance(op, ascend.SliceOp):
        return _entry(op.x, index + op.slices()[0].start)
    if not isinstance(op, ascend.ConcatV2Op):
        return None
    for part in op.x:
        (length,) = shape_of(part)
        if not known(length) or index < length:
            return _entry(part, index) if known(length) else None
        index -= length
    return None


def _facts(op: NNOp) -> NNOp:
    """The meaning of an operation of `ascend` in `nn`, as far as there is one for its element types."""
    if not isinstance(op, AscendOp) or not type(op).has_meaning():
        return op
    try:
        meaning = op.meaning()
    except (VerifyException, TypeError):
        return op
    return meaning.op


def _is_inner(step: NNOp) -> bool:
    """Whether a step on single elements is read by one other such step only."""
    readers = [use.operation for use in step.results[0].uses]
    return len(readers) == 1 and all(body_of(cast(NNOp, each)) is not None for each in (step, *readers))


def _joined(step: NNOp, body: Body, inner: Collection[Operation]) -> tuple[Sequence[SSAValue], Body]:
    """The values that a step and the inner steps before it read, and their bodies as one."""
    parts: list[tuple[Sequence[SSAValue], Body | None]] = []
    for value in step.operands:
        owner = value.owner
        own = body_of(owner) if isinstance(owner, NNOp) and owner in inner else None
        parts.append(([value], None) if own is None else _joined(cast(NNOp, owner), own, inner))

    def run(s: Scalars, *xs: SSAValue) -> SSAValue:
        rest = iter(xs)
        given = [
            next(rest) if part is None else cast(Any, part)(s, *islice(rest, len(leaves))) for leaves, part in parts
        ]
        return cast(Any, body)(s, *given)

    return [leaf for leaves, _ in parts for leaf in leaves], cast(Body, run)


def _arranged(meaning: Meaning, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """The operands of a meaning, if they are picked from those of the operation and not computed from them."""
    if meaning.arrange is None:
        return operands[: len(meaning.op.operands)]
    try:
        picked = meaning.arrange([cast(Any, _Unread(v)) for v in operands])
    except (TypeError, AttributeError):
        raise NotLowered("arranged", "its operands have another form in nn") from None
    return [cast(_Unread, each).value for each in picked]


@dataclass(frozen=True)
class _Unread:
    """An operand in place of its array."""

    value: SSAValue


def _inline_small(constant: ConstantOp) -> None:
    """Writes constants whose numbers are in the text as `arith.constant`, unless an operation that stayed reads them."""
    left = any(isinstance(use.operation, NNOp) for use in constant.result.uses)
    if left or not isinstance(constant.value, DenseIntOrFPElementsAttr):
        return
    new = arith.ConstantOp(constant.value)
    new.location = constant.location
    new.result.name_hint = constant.result.name_hint
    Rewriter.insert_op(new, InsertPoint.before(constant))
    constant.result.replace_all_uses_with(new.result)
    constant.detach()
    constant.erase()
