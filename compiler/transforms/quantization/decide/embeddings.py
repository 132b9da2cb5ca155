"""Constants of floats from which a Gather picks by token: tables of embeddings, which can be integers on request, and weights of
experts, which are integers where other weights are by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....configuration.layer_settings import LayerFacts
from ....configuration.settings import Arq
from ....dialects.nn import GatherOp, How, MatMulOp, NNOp, ReshapingOp, TransposeOp, constant_of, ints, plan_of
from ....dialects.nn.shapes import axis_of, element_of, shape_of
from ....ir.array import Array
from ....ir.dtypes import is_float
from ....ir.functions import main_function
from ....rewriting import Condition, Refusal, Roots, condition, layer_of
from .deciding import SETTINGS, Decide, first_refusal
from .sites import Site

TABLE = 0
"""The operand of Gather that is the table."""
ROWS, COLUMNS = 0, 1
"""The axes of the table: of tokens, and of the numbers of each token."""
_NEAR = 0.01
"""Tolerance for cosines and sines: more than twice the rounding error of float16 and bfloat16 up to 1."""


@dataclass(frozen=True)
class Embedding:
    """A Gather of rows of a constant of floats."""

    op: GatherOp

    def how(self, given: Arq) -> How:
        """The quantization of the table: with a scale for each row, or for groups in each row."""
        return given.how(ROWS if given.channel_wise else None, COLUMNS)

    @property
    def layer(self) -> LayerFacts:
        """The layer in the form that settings use."""
        return LayerFacts(layer_of(self.op), "Gather", channel_wise=True, weight_only=True, channel_formats=True)

    @property
    def compute(self) -> NNOp:
        return self.op

    @property
    def site(self) -> Site:
        return Site(self.op, self.op, half_precision=False)

    @property
    def float_because(self) -> Refusal | None:
        """The condition that keeps the table from being quantized, by its name, and the reason."""
        return first_refusal(None, self, DecideEmbedding.own())


@dataclass(frozen=True)
class Experts(Embedding):
    """A Gather of matrices of a constant of floats `[experts, ., .]` that products multiply by: the weights of a mixture."""

    inputs: int
    """The axis of the constant that counts input channels, 1 or 2."""

    def how(self, given: Arq) -> How:
        """The quantization of the weights: with a scale for each output channel of each expert, or for groups in it."""
        if not given.channel_wise or given.block is not None:
            return given.how(None, self.inputs)
        return replace(given.how(self.inputs), block=shape_of(self.op.input)[self.inputs])

    @property
    def float_because(self) -> Refusal | None:
        return first_refusal(None, self, (DecideEmbedding.table_finite,))


def experts_at(op: Operation | None) -> Experts | None:
    """The experts that an operation picks from."""
    if not isinstance(op, GatherOp) or constant_of(op.input) is None or not is_float(element_of(op.input)):
        return None
    if len(shape_of(op.input)) != 3 or axis_of(op.axis.value.data, 3) != 0 or op.batch_count:
        return None
    found = set(_inputs(op.result, (1, 2)))
    return Experts(op, found.pop()) if len(found) == 1 and None not in found else None


def _inputs(value: SSAValue, axes: tuple[int, int]) -> Iterator[Any]:
    """The axes of a table that are the input channels of the products of a value, whose last axes are those axes of the table;
    None for other readers.
    """
    for use in value.uses:
        match op := use.operation:
            case MatMulOp():
                left, turned = use.index == 0, op.transpose_a if use.index == 0 else op.transpose_b
                yield axes[left == (turned is None)] if use.index < 2 else None
            case TransposeOp():
                *_, before, after = ints(op.perm)
                last = len(shape_of(value)) - 1
                turned = (before, after) == (last, last - 1)
                kept = turned or (before, after) == (last - 1, last)
                yield from _inputs(op.result, (axes[1], axes[0]) if turned else axes) if kept else (None,)
            case ReshapingOp():
                same = shape_of(op.result)[-2:] == shape_of(value)[-2:]
                yield from _inputs(op.result, axes) if same else (None,)
            case _:
                yield None


def picked_from(value: SSAValue | None) -> Experts | None:
    """The experts whose weights a value has, moved or not."""
    while isinstance(value, SSAValue) and isinstance(value.owner, TransposeOp | ReshapingOp):
        value = value.owner.input
    return None if value is None or not isinstance(value.owner, Operation) else experts_at(value.owner)


def tables(module: ModuleOp) -> Iterator[Embedding]:
    """The tables and experts that are floats, by the operations that read them, in program order."""
    for op in main_function(module).body.block.ops:
        if (found := experts_at(op) or embedding_at(op)) is not None:
            yield found


def embedding_at(op: Operation) -> Embedding | None:
    """The table that an operation picks rows of."""
    if not isinstance(op, GatherOp) or constant_of(op.input) is None or not is_float(element_of(op.input)):
        return None
    return None if experts_at(op) is not None else Embedding(op)


class DecideEmbedding(Decide[Embedding]):
    """A Gather of rows of a table: the table, by itself, with a scale for each row, or for groups in each row"""

    name = "quantize-embedding"
    roots: ClassVar[Roots] = (GatherOp,)

    def match(self, op: Operation) -> Embedding | None:
        return embedding_at(op) if plan_of(op) is None or self.request.record is not None else None

    @classmethod
    def own(cls) -> Sequence[Condition[Any]]:
        """The conditions of the table itself."""
        return [each for each in cls.conditions if each not in (*SETTINGS, cls.record, cls.picked_integers)]

    @condition
    def record(self, m: Embedding) -> str | None:
        """no record is given, as records do not describe tables of embeddings"""
        return None if self.request.record is None else "records do not describe tables of embeddings"

    @condition
    def picked_integers(self, m: Embedding) -> str | None:
        """the target reads numbers that are picked at run time as integers; the weights of experts become integers"""
        row, held = self.request.profile.rows[MatMulOp], self.held(m).weight
        if row.weight_only != "always":
            return "this target reads what is picked at run time as floats: use profile qdq"
        given = held.number_format if isinstance(held, Arq) and isinstance(m, Experts) else None
        return None if given is None else f"the weights of experts become integers, not {given}"

    @condition
    def table_rows(self, each: Embedding) -> str | None:
        """the table is a matrix, of which rows are picked"""
        op, rank = each.op, len(shape_of(each.op.input))
        picked = axis_of(op.axis.value.data, rank) if rank else ROWS
        return (
            None
            if (rank, picked, op.batch_count) == (2, ROWS, 0)
            else "its table is not a matrix of which it picks rows"
        )

    @condition
    def table_finite(self, each: Embedding) -> str | None:
        """the table holds finite numbers"""
        constant = constant_of(each.op.input)
        return None if constant is None or constant.finite else "its table holds NaN or Inf"

    @condition
    def table_learned(self, each: Embedding) -> str | None:
        """the table is not one of cosines or sines of positions, which are few, and need their digits"""
        constant = constant_of(each.op.input)
        assert constant is not None
        return "its table holds cosines or sines of positions" if _holds_angles(constant.array) else None


class DecideExperts(Decide[Experts]):
    """A Gather of weights of experts, where weights are quantized by themselves: the weights of all experts"""

    name = "quantize-experts"
    roots: ClassVar[Roots] = (GatherOp,)

    def match(self, op: Operation) -> Experts | None:
        m = experts_at(op) if plan_of(op) is None or self.request.record is not None else None
        held = None if m is None else self.request.layers.held.get(m.op)
        return m if held is not None and held.weight_compress_only else None

    asks: ClassVar[tuple[Condition[Any], ...] | None] = (
        *SETTINGS,
        DecideEmbedding.record,
        DecideEmbedding.table_finite,
        DecideEmbedding.picked_integers,
    )


def _holds_angles(table: Array) -> bool:
    """Whether row n has the cosines, or the sines, of n times the angles of row 1."""
    if len(table) < 3:
        return False
    zeroth, first, second = table[:3].astype(np.float64)
    if np.abs(first).max(initial=0.0) > 1 or not first.any():
        return False
    if np.all(zeroth == 1):
        return bool(np.all(np.abs(2 * first**2 - 1 - second) < _NEAR))
    return not zeroth.any() and bool(np.all(np.abs(2 * np.abs(first) * np.sqrt(1 - first**2) - np.abs(second)) < _NEAR))
