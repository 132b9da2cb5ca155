"""Tables of embeddings: matrices of floats from which a Gather picks rows by token, and which can be integers on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....configuration.layer_settings import LayerFacts
from ....dialects.nn import GatherOp, NNOp, constant_of, plan_of
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


class Embedding(NamedTuple):
    """A Gather of rows of a constant of floats."""

    op: GatherOp

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


def embeddings(module: ModuleOp) -> Iterator[Embedding]:
    """The tables that are floats, by the operations that read them, in program order."""
    for op in main_function(module).body.block.ops:
        if (found := embedding_at(op)) is not None:
            yield found


def embedding_at(op: Operation) -> Embedding | None:
    """The table that an operation picks rows of."""
    if not isinstance(op, GatherOp) or constant_of(op.input) is None or not is_float(element_of(op.input)):
        return None
    return Embedding(op)


class DecideEmbedding(Decide[Embedding]):
    """A Gather of rows of a table: the table, by itself, with a scale for each row, or for groups in each row"""

    name = "quantize-embedding"
    roots: ClassVar[Roots] = (GatherOp,)

    def match(self, op: Operation) -> Embedding | None:
        return embedding_at(op) if plan_of(op) is None or self.request.record is not None else None

    @classmethod
    def own(cls) -> Sequence[Condition[Any]]:
        """The conditions of the table itself."""
        return [each for each in cls.conditions if each not in (*SETTINGS, cls.record)]

    @condition
    def record(self, m: Embedding) -> str | None:
        """no record is given, as records do not describe tables of embeddings"""
        return None if self.request.record is None else "records do not describe tables of embeddings"

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
