"""`--rotate`: the residual stream of transformers and the values of attention's heads, times Hadamard matrices that cancel out.

A rotation spreads outliers of single channels over all of them. Between linear layers it is folded into their weights: Ashkboos
et al., "QuaRot" (2024), and Liu et al., "SpinQuant" (2024), whose R1 and R2 these are, with fixed matrices and without training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter

from ....data import Samples
from ....dialects.nn import (
    AddOp,
    DivOp,
    ExpandOp,
    GatherOp,
    MatMulOp,
    MulOp,
    NNOp,
    PowOp,
    ReduceMeanOp,
    ReshapeOp,
    ShapeOp,
    TransposeOp,
    UnsqueezeOp,
    array_of,
    constant_of,
)
from ....dialects.nn.fused import computed, outside, uses_of
from ....dialects.nn.properties import ints
from ....dialects.nn.shapes import DYNAMIC, element_of, shape_of
from ....engines import Runner
from ....ir.array import Array
from ....ir.functions import main_function
from ....rewriting import Remarks, Roots, StepPattern, condition, erase_dead_constants, layer_of
from ....rewriting.driver import apply_once
from ....session import Session
from ...dead_code import erase_dead
from ..decide.sites import Site, sites
from ..request import Request
from .equalize.judging import EqualizationTrial
from .equalize.links import WEIGHT, named
from .equalize.scaling import Change, fed, replaced, undo
from .even_out import ChannelsPass
from .outputs import WORTH, few, halves

_KEY = ".rotated"
"""The end of the keys of rotated constants."""
_SEED = 0
"""The seed of the signs in front of the matrices: without them a channel of equal numbers would become an outlier."""
_KEEPING = (ReshapeOp, UnsqueezeOp, ExpandOp, TransposeOp)
"""Operations between the layer that computes values of heads and the product with probabilities."""


@dataclass(frozen=True)
class Rotated:
    """Values that are rotated along their last axis, in blocks of `size` channels."""

    subject: Operation
    """The operation that remarks are about."""
    what: str
    size: int
    writers: Sequence[Operation | Block]
    """The operations that compute the values, or the blocks that have them as arguments."""
    readers: Sequence[tuple[Use, MulOp | None]]
    """The uses of the values, directly or after a norm, with the scale of the norm."""
    additions: Sequence[AddOp] = ()
    between: Sequence[SSAValue] = ()
    """The values of heads on their way from the writer to the reader, the last one first."""

    @cached_property
    def matrix(self) -> Array | None:
        return hadamard(self.size) if self.size > 1 else None

    @property
    def constants(self) -> Iterator[tuple[Operation, int]]:
        """The tables of embeddings, the weights and the biases: operations and operands."""
        layers = (*self.writers, *(use.operation for use, _ in self.readers))
        yield from ((op, 0) for op in layers if isinstance(op, GatherOp))
        yield from ((op, i) for op in layers if isinstance(op, MatMulOp) for i in range(WEIGHT, len(op.operands)))


class RotatePattern(StepPattern[Rotated]):
    """Base of what finds values that can be rotated; all that one pattern finds is rotated together."""

    def __init__(self, remarks: Remarks, module: ModuleOp, seen: set[SSAValue]):
        super().__init__(remarks)
        self.seen = seen
        """The values that this pattern, or one before it, has matched."""
        self.sites: dict[Operation, Site] = {site.compute: site for site in sites(module, (GatherOp, MatMulOp))}
        self.found: list[Rotated] = []

    @condition
    def writer(self, m: Rotated) -> str | None:
        """embeddings and linear layers write it, or additions of these"""
        for op in m.writers:
            if not isinstance(op, MatMulOp) and not _is_embedding(op):
                return f"{named(op)} writes it, which is neither a linear layer, an embedding nor an addition of these"
        return None

    @condition
    def graph_output(self, m: Rotated) -> str | None:
        """it is not an output of the model"""
        is_output = any(isinstance(use.operation, ReturnOp) for use, _ in m.readers)
        return "it is an output of the model" if is_output else None

    @condition
    def reader(self, m: Rotated) -> str | None:
        """only linear layers and norms read it, and only one layer the values of heads; layers have constant matrices"""
        for made in (value.owner for value in m.between if len(_reads(value)) > 1):
            what = layer_of(made) if isinstance(made, Operation) else "an input"
            return f"the values of heads, {what}, are read elsewhere as well"
        written = ((op, 0) for op in m.writers if isinstance(op, MatMulOp))
        for op, index in (*written, *((use.operation, use.index) for use, _ in m.readers)):
            if not isinstance(op, MatMulOp):
                return f"{named(op)} reads it, which is not a linear layer"
            weight = array_of(outside(op.rhs))
            if index != 0 or weight is None or weight.ndim != 2 or op.transpose_a is not None:
                return f"'nn.matmul' {layer_of(op)} reads or writes it without a constant matrix"
        return None

    @condition
    def float32(self, m: Rotated) -> str | None:
        """its layers compute in float32"""
        types = {element_of(op.operands[i]): None for op, i in m.constants}
        return next((f"{each} would round what is rotated" for each in types if each != f32), None)

    @condition
    def constant_bias(self, m: Rotated) -> str | None:
        """its layers have constant biases, or none"""
        unknown = (layer_of(op) for op, i in m.constants if array_of(outside(op.operands[i])) is None)
        return next((f"the bias of {name} is computed at run time" for name in unknown), None)

    @condition
    def size(self, m: Rotated) -> str | None:
        """a Hadamard matrix of its channels is known"""
        size = "?" if m.size == DYNAMIC else m.size
        return f"no Hadamard matrix of {size} channels is known" if m.matrix is None else None

    def subject(self, m: Rotated, root: Operation) -> Operation:
        return m.subject

    def rewrite(self, m: Rotated, rewriter: PatternRewriter) -> None:
        self.found.append(m)

    def rotate(self, m: Rotated) -> list[Change]:
        """Multiply the layers that write by the matrix, and the layers that read by its transpose and by the scale in
        front of them.
        """
        changes: list[Change] = []
        for op in (cast(NNOp, op) for op in m.writers):
            site, by = self.sites[op], _blocks(m, shape_of(op.results[0])[-1])
            for i in (0,) if isinstance(op, GatherOp) else range(WEIGHT, len(op.operands)):
                transposed = i == WEIGHT and isinstance(op, MatMulOp) and op.transpose_b is not None
                rotated = by.T @ _numbers(site, i) if transposed else _numbers(site, i) @ by
                changes.append(replaced(site, i, rotated, _KEY))
        for use, scale in m.readers:
            op, factors = cast(MatMulOp, use.operation), np.ones(1)
            site, by = self.sites[op], _blocks(m, op.rhs_shape[-2])
            if scale is not None:
                value, constant = _scaled(scale)
                factors = constant.astype(np.float64).reshape(-1)
                changes.append(fed(site, 0, value))
            weight = _numbers(site, WEIGHT)
            rotated = (weight * factors) @ by if op.transpose_b is not None else by.T @ (weight * factors[:, None])
            changes.append(replaced(site, WEIGHT, rotated, _KEY))
        return changes


class RotateStream(RotatePattern):
    """the residual stream of a transformer is rotated: RMS norms multiply all channels by a number that no rotation changes"""

    name = "rotate-stream"
    roots: ClassVar[Roots] = (ReduceMeanOp,)

    def __init__(self, remarks: Remarks, module: ModuleOp, seen: set[SSAValue]):
        super().__init__(remarks, module, seen)
        self.block: Block = main_function(module).body.block
        means = (op for op in self.block.ops if isinstance(op, ReduceMeanOp))
        found = ((op.input.owner, _mean_square(op)) for op in means)
        self.squares: dict[Operation | Block, SSAValue] = {
            square: computed(value) for square, value in found if value is not None
        }
        """The values that are squared, by squares whose mean over channels alone is used, which no rotation changes."""

    @condition
    def stream(self, m: Rotated) -> str | None:
        """whatever is added to it has its shape"""
        others = (layer_of(op) for op in m.additions if not _keeps_shape(op, m.size))
        return next((f"'nn.add' {name} adds something of another shape to it" for name in others), None)

    @condition
    def scale(self, m: Rotated) -> str | None:
        """the scale of a norm has one number for each channel, or one for all"""
        for op in (scale for _, scale in m.readers if scale is not None):
            value, factors = _scaled(op)
            if shape_of(op.result) != shape_of(value) or factors.size not in (1, *factors.shape[-1:]):
                return f"'nn.mul' {layer_of(op)} does not scale channels"
        return None

    def match(self, op: Operation) -> Rotated | None:
        """Matches all of the stream that a norm reads; None if it is known already."""
        first = self.squares.get(cast(ReduceMeanOp, op).input.owner)
        if first is None or first in self.seen:
            return None
        size = shape_of(first)[-1]
        writers, readers, additions = list[Operation | Block](), list[tuple[Use, MulOp | None]](), list[AddOp]()
        norms: list[NNOp] = []
        values, waiting = {first}, [first]
        while waiting:
            value = waiting.pop()
            near: list[SSAValue] = []
            if isinstance(made := value.owner, AddOp):
                additions.append(made)
                near += made.operands if _keeps_shape(made, size) else ()
            else:
                writers.append(made)
            for use in _reads(value):
                if isinstance(use.operation, AddOp):
                    near.append(use.operation.result)
                elif use.operation.parent is self.block and _scales_rows(use):
                    norms.append(cast(NNOp, use.operation))
                elif use.operation not in self.squares:
                    readers.append((use, None))
            new = [each for each in dict.fromkeys(map(computed, near)) if each not in values]
            values.update(new)
            waiting += new
        self.seen |= values
        for norm in norms:
            scale = _scale(norm)
            readers += [(use, scale) for use in _reads((scale or norm).results[0])]
        what = f"a stream of {size} channels, which {len(writers)} layers write and {len(readers)} read"
        return Rotated(norms[0], what, size, writers, readers, additions) if norms else None


class RotateHeads(RotatePattern):
    """the values of attention's heads are rotated, each head by itself"""

    name = "rotate-heads"
    roots: ClassVar[Roots] = (MatMulOp,)

    @condition
    def heads(self, m: Rotated) -> str | None:
        """the layer that reads them reads all heads side by side"""
        inputs, heads = cast(MatMulOp, m.subject).rhs_shape[-2], shape_of(m.between[1])[-2]
        return None if heads * m.size == inputs else f"its {inputs} inputs are not all heads of {m.size} side by side"

    @condition
    def values(self, m: Rotated) -> str | None:
        """the values of a head stay together on the way from a linear layer"""
        made = m.between[-1].owner
        keeps = isinstance(made, _KEEPING)
        why = "does not keep the values of a head together" if keeps else "gives it values, which is not a linear layer"
        return None if m.writers else f"{named(made)} {why}"

    def match(self, op: Operation) -> Rotated | None:
        """A layer that reads the product of two activations, its heads side by side, and the source of the values."""
        merge = computed(op.operands[0]).owner if op in self.sites and isinstance(op, MatMulOp) else None
        order = computed(merge.input).owner if isinstance(merge, ReshapeOp) else None
        product = computed(order.input).owner if isinstance(order, TransposeOp) else None
        if not isinstance(order, TransposeOp) or not isinstance(product, MatMulOp) or product.bias is not None:
            return None
        size = shape_of(product.result)[-1]
        computes = constant_of(outside(product.rhs)) is None and product.transpose_b is None
        if ints(order.perm)[-1] != len(order.perm) - 1 or not computes or size <= 1:
            return None
        between = [computed(value) for value in (op.operands[0], order.result, product.result, product.rhs)]
        while isinstance(made := between[-1].owner, _KEEPING) and _keeps_heads(made, size):
            between.append(computed(made.input))
        if between[-1] in self.seen:
            return None
        self.seen.add(between[-1])
        writers = [made] if isinstance(made, MatMulOp) and made.output_channels % size == 0 else []
        what = f"values in heads of {size}, which {', '.join(map(layer_of, writers))} writes"
        return Rotated(op, what, size, writers, [(Use(op, 0), None)], between=between)


Patterns = tuple[type[RotatePattern], ...]
_NOT_EQUALIZED = (
    "rotation folds the scales of norms into weights, so that no norm shows uneven channels, and equalization does not run by "
    "itself: the option equalize asks for it, or leaves it out"
)


@dataclass(frozen=True, init=False)
class RotatePass(ChannelsPass):
    """Multiply the residual stream of a transformer by a Hadamard matrix, folded into the embedding and into the weights of all
    layers that read and write it, after the scales of its RMS norms are folded into their readers; then the values of attention
    by one in each head. Each is kept where the quantized module's outputs win on samples that did not calibrate. What the module
    computes in float does not change. Options are those of the quantization that follows.
    """

    name = "rotate"

    PATTERNS: ClassVar[Patterns] = (RotateStream, RotateHeads)

    @staticmethod
    def even(
        module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
    ) -> bool:
        """Rotate the values that can be rotated, and keep it where it is worth it, if it is requested."""
        if not request.recovery.rotate:
            return False
        remarks = Remarks(session, RotatePass.name)
        if patterns := matched(module, remarks):
            trial = EqualizationTrial(module, request.by_nearest, halves(few(samples())), session, runner)
            trial.begin()
            for pattern in patterns:
                _try(pattern, trial, remarks)
        erase_dead([op for op in module.walk() if isinstance(op, MulOp)])
        erase_dead_constants(module)
        nothing = "the network has neither RMS norms nor heads of attention"
        rotated = remarks.flush_requested("nothing is rotated", nothing).applied
        if rotated and request.recovery.equalize is None:
            session.note(_NOT_EQUALIZED)
        return rotated

    @staticmethod
    def applies(module: ModuleOp, session: Session) -> bool:
        """Whether the network has values that can be rotated."""
        return bool(matched(module, Remarks(session, RotatePass.name)))


def matched(module: ModuleOp, remarks: Remarks) -> list[RotatePattern]:
    """The patterns that can rotate something; with remarks on what cannot be rotated."""
    kinds = (*cast(Patterns, remarks.session.patterns_of(RotatePass.name)), *RotatePass.PATTERNS)
    seen: set[SSAValue] = set()
    patterns = [kind(remarks, module, seen) for kind in kinds]
    for pattern in patterns:
        apply_once(module, [pattern])
    return [pattern for pattern in patterns if pattern.found]


def _try(pattern: RotatePattern, trial: EqualizationTrial, remarks: Remarks) -> None:
    """Rotate all that a pattern has found; all is as before if the outputs do not win."""
    changes = [change for each in pattern.found for change in pattern.rotate(each)]
    if (reason := trial.lost(WORTH)) is not None:
        undo(changes)
    for each in pattern.found:
        if reason is None:
            outcome = f"{each.what}; on samples that did not calibrate {trial.outcome}"
            remarks.applied(each.subject, "rotated", outcome)
        else:
            remarks.missed(each.subject, "outputs", reason)


def hadamard(size: int) -> Array | None:
    """An orthogonal matrix of equal magnitudes, float64 [size, size], its rows with fixed random signs; None if none is known.

    Sylvester's doubling of Paley's constructions: sizes are 2^k (q + 1) for a prime q = 3 mod 4, or 2^k 2 (q + 1) for a prime
    q = 1 mod 4.
    """
    core, doublings = size, 0
    while (matrix := _core(core)) is None:
        if core % 2:
            return None
        core, doublings = core // 2, doublings + 1
    for _ in range(doublings):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], size)
    return signs[:, None] * matrix / np.sqrt(size)


def _core(size: int) -> Array | None:
    """A Hadamard matrix that is not made by doubling: that of size 1, and Paley's."""
    if size == 1:
        return np.ones((1, 1))
    if size % 4:
        return None
    if _is_prime(size - 1):  # 3 mod 4
        skew = np.block([[np.zeros((1, 1)), np.ones((1, size - 1))], [-np.ones((size - 1, 1)), _residues(size - 1)]])
        return skew + np.eye(size)
    half = size // 2
    if half % 4 != 2 or not _is_prime(half - 1):
        return None
    conference = np.block([[np.zeros((1, 1)), np.ones((1, half - 1))], [np.ones((half - 1, 1)), _residues(half - 1)]])
    return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(np.eye(half), [[1, -1], [-1, -1]])


def _is_prime(number: int) -> bool:
    return number > 2 and all(number % each for each in range(2, int(number**0.5) + 1))


def _residues(prime: int) -> Array:
    """Jacobsthal's matrix: 1 where the difference of column and row is a square modulo the prime, -1 elsewhere, 0 for none."""
    character = np.full(prime, -1.0)
    character[np.arange(1, prime, dtype=np.int64) ** 2 % prime] = 1
    character[0] = 0
    return character[(np.arange(prime) - np.arange(prime)[:, None]) % prime]


def _mean_square(op: ReduceMeanOp) -> SSAValue | None:
    """The value whose mean square over channels an operation computes, and nothing else from the squares."""
    if op.axis_list() != (len(shape_of(op.input)) - 1,) or not op.input.has_one_use():
        return None
    match op.input.owner:
        case PowOp(lhs=value, rhs=exponent) if (power := array_of(exponent)) is not None and power.size == 1:
            return value if float(power.reshape(())) == 2 else None
        case MulOp(lhs=value, rhs=other) if value is other:
            return value
        case _:
            return None


def _scales_rows(use: Use) -> bool:
    """Whether an operation multiplies or divides all channels by the same number."""
    op = use.operation
    if not isinstance(op, MulOp | DivOp) or (isinstance(op, DivOp) and use.index == 1):
        return False
    rows = shape_of(op.operands[1 - use.index])[-1:] == (1,)
    return rows and shape_of(op.result) == shape_of(op.operands[use.index])


def _scale(norm: NNOp) -> MulOp | None:
    """The product with a constant that alone reads a norm."""
    op = next(iter(norm.results[0].uses)).operation if norm.results[0].has_one_use() else None
    return op if isinstance(op, MulOp) and any(array_of(each) is not None for each in op.operands) else None


def _scaled(scale: MulOp) -> tuple[SSAValue, Array]:
    """The value that a scale multiplies, and its factors."""
    index = 0 if array_of(scale.lhs) is not None else 1
    return scale.operands[1 - index], cast(Array, array_of(scale.operands[index]))


def _reads(value: SSAValue) -> list[Use]:
    """The uses of a value, apart from those that ask for its shape."""
    return [use for use in uses_of(value) if not isinstance(use.operation, ShapeOp)]


def _keeps_shape(op: AddOp, size: int) -> bool:
    """Whether both operands have this many channels, and the rank of the result."""
    shapes = [shape_of(each) for each in op.operands]
    return all(each[-1:] == (size,) and len(each) == len(shape_of(op.result)) for each in shapes)


def _is_embedding(op: object) -> bool:
    """Whether an operation takes rows of a constant table."""
    table = array_of(outside(op.input)) if isinstance(op, GatherOp) and op.batch_count == 0 else None
    return table is not None and table.ndim == 2 and cast(GatherOp, op).axis.value.data == 0


def _keeps_heads(op: ReshapeOp | UnsqueezeOp | ExpandOp | TransposeOp, size: int) -> bool:
    """Whether the values of each head stay together on the last axis, or are split to be there."""
    before, after = shape_of(op.input)[-1], shape_of(op.result)[-1]
    if isinstance(op, ReshapeOp) and isinstance(computed(op.input).owner, MatMulOp):
        return after == size
    return before == after == size and (not isinstance(op, TransposeOp) or ints(op.perm)[-1] == len(op.perm) - 1)


def _blocks(m: Rotated, channels: int) -> Array:
    """The matrix, once for each block of these channels."""
    assert m.matrix is not None, "size has asked for it"
    return np.kron(np.eye(channels // m.size), m.matrix)


def _numbers(site: Site, index: int) -> Array:
    """A constant operand in float64."""
    return cast(Array, array_of(site.operand(index))).astype(np.float64)
