"""`--convert-layout=NCHW`: one layout for all operations with a layout; transposes are sunk and cancelled.

A value of the old graph may be available in several forms, each a permutation of its axes. Operations of the other layout are
rebuilt on permuted operands and leave a permuted result; operations that commute with permutations (`NNOp.commuted`)
follow it; all others, and the results of the function, need the unpermuted value. A transpose is made only if a needed form
is not available, once per value and form, so that a convolutional network ends with transposes at its inputs
and outputs only. A backward walk finds the forms that consumers need, a forward walk rewrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import nn
from ..dialects.nn.base import rebuilt
from ..dialects.nn.permutations import Moved, Perm, compose, identity, inverse
from ..dialects.nn.shapes import shape_of
from ..rewriting import Remarks, layer_of, rewrite
from .dead_code import erase_dead
from .flattened_weights import permute_rows
from .transposition import (
    build_moved,
    commute,
    follows,
    is_constant,
    is_single,
    leads,
    permute_constant,
    permuted_type,
)


@dataclass(frozen=True)
class ConvertLayoutPass(ModulePass):
    """Two walks give every operation with a layout the requested one; inputs and outputs of the function keep theirs.

    Constants are transposed themselves; weights do not depend on the layout, except those of a matrix product
    after a flattened feature map, whose rows get the new order. Each rewritten operation leaves
    an applied remark, each transpose that is made an analysis remark.
    """

    name = "convert-layout"
    positional: ClassVar[str] = "to"

    PATTERNS: ClassVar[tuple[type[Any], ...]] = (permute_rows,)

    to: Literal["NCHW", "NHWC"]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            block = function.body.block
            _Converter(block, nn.Layout(self.to.lower()), remarks).convert()
        kinds = (*remarks.session.patterns_of(self.name), *self.PATTERNS)
        rewrite(op, *(kind(remarks) for kind in kinds), erase_dead=False)
        remarks.flush()


def layout_permutation(to: nn.Layout, rank: int) -> Perm:
    """The permutation that brings a tensor of this rank from the other layout to `to`."""
    if to is nn.Layout.NCHW:
        return (0, rank - 1, *range(1, rank - 1))
    return (0, *range(2, rank), 1)


class _Converter:
    """The conversion of one block, of a function or of a fused operation inside the block of `outer`."""

    def __init__(self, block: Block, to: nn.Layout, remarks: Remarks, outer: _Converter | None = None):
        self.block = block
        self.to = to
        self.remarks = remarks
        self.outer = outer
        self.forms: dict[SSAValue, dict[Perm, SSAValue]] = {}
        """The available forms of values of the old graph; without an entry only the unpermuted value."""
        self.wanted: dict[SSAValue, Perm] = {}
        """The form of a value that an operation of the other layout will need, through commuting operations."""
        self.kept: dict[SSAValue, frozenset[SSAValue]] = {}
        """Values that commuting operations connect to ones that are needed unpermuted: these (including the value
        itself; of others only as many as are needed to know that there are several).
        """
        self.inner: dict[nn.FusedOp, _Converter] = {}
        self.lifted: dict[tuple[SSAValue, int], SSAValue] = {}
        self.here: Operation | None = None
        """The operation of the old graph that is being rewritten; new ones are inserted before it."""

    def convert(self) -> None:
        self.look_back()
        self.rewrite()

    # forms that consumers need

    def look_back(self) -> None:
        for op in reversed(list(self.block.ops)):
            self._look_at(op)

    def _look_at(self, op: Operation) -> None:
        if isinstance(op, nn.FusedOp):
            self._look_into(op)
        elif isinstance(op, nn.YieldOp):
            pass  # the outer block determines the needed form
        elif self._is_other(op):
            self.wanted[op.operands[0]] = layout_permutation(self.to, len(shape_of(op.operands[0])))
            self._keep(op.operands[1:])
        elif isinstance(op, nn.TransposeOp):
            self._look_through_transpose(op)
        elif follows(type(op)):
            self._look_through(op)
        else:
            self._keep(op.operands)

    def _look_into(self, op: nn.FusedOp) -> None:
        inner = self.inner[op] = _Converter(op.body.block, self.to, self.remarks, self)
        if (wanted := self.wanted.get(op.result)) is not None:
            inner.wanted[op.terminator.value] = wanted
        inner._keep([op.terminator.value], self.kept.get(op.result, frozenset()))
        inner.look_back()
        for argument, value in zip(op.body.block.args, op.inputs, strict=True):
            if (wanted := inner.wanted.get(argument)) is not None:
                self.wanted.setdefault(value, wanted)
            self._keep([value], inner.kept.get(argument, frozenset()))

    def _look_through_transpose(self, op: nn.TransposeOp) -> None:
        if (wanted := self.wanted.get(op.result)) is not None:
            through = compose(wanted, nn.ints(op.perm))
            if through != identity(len(through)):
                self.wanted.setdefault(op.input, through)
        self._keep([op.input], self.kept.get(op.result, frozenset()))

    def _look_through(self, op: Operation) -> None:
        if (wanted := self._wanted_by(op)) is not None and (moved := commute(op, wanted)) is not None:
            for operand, perm in zip(op.operands, moved.operands, strict=True):
                if perm is not None and len(perm) == len(shape_of(operand)):
                    self.wanted.setdefault(operand, perm)
        ends = frozenset[SSAValue]().union(*(self.kept.get(r, frozenset()) for r in op.results))
        if ends and not self._ends_here(op):
            self._keep(op.operands, ends)

    def _keep(self, values: Iterable[SSAValue], ends: frozenset[SSAValue] | None = None) -> None:
        """Records that values lead to these ends, or are needed unpermuted themselves."""
        for value in values:
            there = self.kept.get(value, frozenset())
            if ends is None:
                self.kept[value] = there | {value}
            elif ends and len(there) < 2:
                self.kept[value] = there | ends

    def _wanted_by(self, op: Operation) -> Perm | None:
        """The form in which a result is needed whose axes are those of the first operand."""
        rank = len(shape_of(op.operands[0]))
        return next((p for r in op.results if (p := self.wanted.get(r)) is not None and len(p) == rank), None)

    def _ends_here(self, op: Operation) -> bool:
        """Whether the results are the same for any layout of the operand."""
        rank = len(shape_of(op.operands[0]))
        moved = commute(op, layout_permutation(self.to, rank)) if rank > 2 else None
        return moved is not None and _is_plain(moved)

    def _is_other(self, op: Operation) -> bool:
        return isinstance(op, nn.LayoutOp) and op.layout.data is not self.to

    # the rewriting

    def rewrite(self) -> None:
        old = list(self.block.ops)
        for op in old:
            self.here = op
            self._visit(op)
        erase_dead(old)

    def _visit(self, op: Operation) -> None:
        if isinstance(op, nn.FusedOp):
            self._visit_fused(op)
        elif isinstance(op, nn.YieldOp):
            op.operands[0] = next(iter(self._forms(op.value).values())) if self._is_moved(op.value) else op.value
        elif isinstance(op, nn.LayoutOp) and self._is_other(op):
            self._convert(op)
        elif isinstance(op, nn.TransposeOp) and self._absorbs(op):
            forms = self._forms(op.input).items()
            self.forms[op.result] = {inverse(compose(nn.ints(op.perm), inverse(p))): v for p, v in forms}
        elif isinstance(op, nn.NNOp) and (moved := self._moved(op)) is not None:
            operands = [self._operand(v, p) for v, p in zip(op.operands, moved.operands, strict=True)]
            self._replace(op, build_moved(op, moved, operands), moved.results)
        else:
            self._keep_operands(op)

    def _keep_operands(self, op: Operation) -> None:
        for i, operand in enumerate(op.operands):
            if (form := self._as_it_was(operand)) is not operand:
                op.operands[i] = form

    def _convert(self, op: nn.LayoutOp) -> None:
        perm = layout_permutation(self.to, len(shape_of(op.operands[0])))
        operands = [self._form(op.operands[0], perm), *map(self._as_it_was, op.operands[1:])]
        types = [permuted_type(r.type, perm) for r in op.results]
        self._replace(op, rebuilt(op, operands, types, layout=self.to), [perm] * len(types))
        self.remarks.applied(op, "layout", f"{op.name} takes its input as {self.to.value}")

    def _replace(self, op: Operation, new: Operation, perms: Sequence[Perm]) -> None:
        self._insert(new)
        for old, result, perm in zip(op.results, new.results, perms, strict=True):
            self.forms[old] = {perm: result}

    def _insert(self, op: Operation) -> None:
        here = cast(Operation, self.here)
        self.block.insert_op_before(op, here)
        if isinstance(op.location, UnknownLoc):
            op.location = here.location

    def _absorbs(self, op: nn.TransposeOp) -> bool:
        """Whether a transpose of the old graph becomes a form: its input is permuted, or its result will be."""
        exact = permuted_type(op.input.type, nn.ints(op.perm)) == op.result.type
        return exact and (self._is_moved(op.input) or op.result in self.wanted)

    def _moved(self, op: nn.NNOp) -> Moved | None:
        """The way to compute an operation that commutes with permutations; None to keep it."""
        if not follows(type(op)):
            return None
        wanted = self._wanted_by(op)
        computed = {v: None for v in op.operands if not is_constant(v)}
        permuted = [v for v in computed if self._is_moved(v) and leads(op, v)]
        if not permuted:
            return self._hoisted(op, wanted, list(computed))
        forms = self._forms(permuted[0])
        moved = commute(op, wanted if wanted in forms else next(iter(forms)))
        if moved is None or wanted is not None or _is_plain(moved) or not any(r in self.kept for r in op.results):
            return moved
        # a value needed unpermuted, directly or by several readers, is transposed here once, not after each of them
        ends = [(v, self.kept.get(v, frozenset())) for v in permuted]
        return None if all(v in there or len(there) > 1 for v, there in ends) else moved

    def _hoisted(self, op: nn.NNOp, wanted: Perm | None, computed: list[SSAValue]) -> Moved | None:
        """Moves a transpose that will be needed after `op` before it, unless that makes a second one."""
        if wanted is None or not computed or not all(leads(op, v) for v in computed):
            return None
        at_hand = all(wanted in self._forms(v) for v in computed)
        alone = len(computed) == 1 and not any(r in self.kept for r in op.results)
        return commute(op, wanted) if at_hand or alone else None

    # forms of values

    def _forms(self, value: SSAValue) -> dict[Perm, SSAValue]:
        return self.forms.get(value) or {identity(len(shape_of(value))): value}

    def _is_moved(self, value: SSAValue) -> bool:
        """Whether a value is available only in permuted forms."""
        return value in self.forms and identity(len(shape_of(value))) not in self.forms[value]

    def _as_it_was(self, value: SSAValue) -> SSAValue:
        return self._form(value, identity(len(shape_of(value))))

    def _operand(self, value: SSAValue, perm: Perm | None) -> SSAValue:
        """The operand in a form whose rank may be higher, if it broadcasts."""
        if perm is None or is_single(value):
            return self._as_it_was(value)
        rank = len(shape_of(value))
        if rank == len(perm) or is_constant(value):
            return self._form(value, perm)
        key = (value, len(perm))
        if key not in self.lifted:
            lifted = nn.UnsqueezeOp.make(self._as_it_was(value), axes=range(len(perm) - rank))
            self._insert(lifted)
            self.lifted[key] = lifted.result
        return self._form(self.lifted[key], perm)

    def _form(self, value: SSAValue, perm: Perm) -> SSAValue:
        """`transpose(value, perm)`: available, or made now."""
        if not isinstance(value.type, TensorType):
            return value
        forms = self.forms.setdefault(value, self._forms(value))
        if perm not in forms:
            forms[perm] = self._made(value, perm, forms)
        return forms[perm]

    def _made(self, value: SSAValue, perm: Perm, forms: Mapping[Perm, SSAValue]) -> SSAValue:
        if self.outer is not None and isinstance(value, BlockArgument):
            return self._argument(value, perm)
        if is_constant(value):
            return self._constant(value, perm)
        source, at_hand = next(iter(forms.items()))
        transpose = nn.TransposeOp.make(
            at_hand, perm=compose(perm, inverse(source)), result_types=[permuted_type(value.type, perm)]
        )
        self._insert(transpose)
        transpose.result.name_hint = value.name_hint
        self.remarks.note(transpose, "transpose", f"made in front of {layer_of(cast(Operation, self.here))}")
        return transpose.result

    def _constant(self, value: SSAValue, perm: Perm) -> SSAValue:
        made = permute_constant(value, perm)
        for op in made:
            self._insert(op)
        return made[-1].results[0]

    # fused operations

    def _argument(self, value: BlockArgument, perm: Perm) -> SSAValue:
        """An argument of the fused block with another form of an old one; the old one unpermuted."""
        if perm == identity(len(perm)):
            return value
        argument = self.block.insert_arg(permuted_type(value.type, perm), value.index + 1)
        argument.name_hint = value.name_hint
        return argument

    def _visit_fused(self, op: nn.FusedOp) -> None:
        """Passes forms of inputs as additional arguments, and returns the form of the result: no transpose inside."""
        inner, result = self.inner[op], op.terminator.value
        old = list(zip(op.body.block.args, op.inputs, strict=True))
        for argument, value in old:
            if self._is_moved(value):
                perm = next(iter(self._forms(value)))
                inner.forms[argument] = {perm: inner._argument(argument, perm)}
        inner.rewrite()
        sources = {form: (value, perm) for argument, value in old for perm, form in inner._forms(argument).items()}
        perm = identity(len(shape_of(result)))
        if inner._is_moved(result):
            perm = next(iter(inner._forms(result)))
        for argument in [a for a in op.body.block.args if a.first_use is None]:
            op.body.block.erase_arg(argument)
        operands = [self._form(*sources[a]) for a in op.body.block.args]
        new = nn.FusedOp.of(op.kind.data, operands, op.detach_region(op.body))
        new.properties.update(op.properties)
        new.attributes.update(op.attributes)
        new.location = op.location
        new.result.name_hint = op.result.name_hint
        self._replace(op, new, [perm])


def _is_plain(moved: Moved) -> bool:
    return all(p == identity(len(p)) for p in moved.results)
