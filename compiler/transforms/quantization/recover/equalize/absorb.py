"""Moves what a channel never falls below from the bias of a layer into the biases of those that read it.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019), section 4.1.3, with minima of data
in place of those that batch norms suggest.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ConstantOp,
    ConvOp,
    FusedOp,
    LeakyReluOp,
    MatMulOp,
    PReluOp,
    ReluOp,
    array_of,
    constant_of,
    ints,
)
from .....dialects.nn.shapes import shape_of
from ...decide.sites import Site
from ..balance_channels import Weighted
from .costs import FLOAT, Weight
from .links import WEIGHT, Link
from .scaling import Change

Array = np.ndarray[Any, np.dtype[Any]]

SHARE = 0.875
"""The share of a channel's minimum that is moved: other data may fall a little lower."""
_BIAS = 2
_IDENTITIES = (ReluOp, LeakyReluOp, PReluOp)
"""They leave positive numbers as they are."""


def absorbed(link: Link, least: Array, exponents: Array) -> list[Change]:
    """Move the minima of a link's channels; empty where there are none above 0, or where that is not exact.

    `least` are the minima before the channels were divided by 2^exponents. Every reader has a bias, and pads nothing.
    """
    shift = np.ldexp(SHARE * np.maximum(least, 0), -exponents)
    site = link.site
    if site is None or not shift.any() or not _is_direct(link) or _bias_of(site, shift.size) is None:
        return []
    moved = [(site, -shift)]
    for reader, of in link.readers:
        numbers = array_of(reader.operand(WEIGHT))
        if numbers is None or not _adds_evenly(reader):
            return []
        weight = Weight.of(cast(Weighted, reader.compute), numbers, FLOAT)
        groups, inputs = weight.numbers.shape[:2]
        sums = (weight.numbers * shift[of].reshape(groups, inputs, 1, 1)).sum(axis=(1, 3), dtype=np.float64).reshape(-1)
        if _bias_of(reader, sums.size) is None:
            return []
        moved.append((reader, sums))
    return [_added(place, amount) for place, amount in moved]


def _is_direct(link: Link) -> bool:
    """Whether readers read the layer's result, or a Relu of it that leaves what is above 0."""
    assert link.site is not None, "a layer begins it"
    return all(_source(reader.site.activation) is link.site.compute for reader in link.readers)


def _source(value: SSAValue | None) -> Operation | None:
    """The operation that computes a value, or the operand of a Relu that does."""
    op = _owner(value)
    return _owner(op.operands[0]) if isinstance(op, _IDENTITIES) else op


def _owner(value: SSAValue | None) -> Operation | None:
    if isinstance(value, BlockArgument) and isinstance(region := value.owner.parent_op(), FusedOp):
        value = region.operands[value.index]
    op = value.owner if value is not None and isinstance(value.owner, Operation) else None
    if isinstance(op, FusedOp):
        last = op.body.block.last_op
        return None if last is None else _owner(last.operands[0])
    return op


def _adds_evenly(site: Site) -> bool:
    """Whether a constant added to an input channel adds one to the results: no padding, one matrix."""
    op = site.compute
    if isinstance(op, MatMulOp):
        return len(shape_of(op.rhs)) == 2
    return isinstance(op, ConvOp) and not any(ints(op.pads))


def _bias_of(site: Site, size: int) -> ConstantOp | None:
    """The layer's bias, where it is a constant of so many floats that nothing scales."""
    bias = constant_of(site.operand(_BIAS))
    return bias if isinstance(site.compute, Weighted) and bias is not None and bias.array.size == size else None


def _added(site: Site, amount: Array) -> Change:
    before, bias = site.operand(_BIAS), constant_of(site.operand(_BIAS))
    assert before is not None, "it has a bias"
    assert bias is not None, "it has a bias"
    numbers = bias.array
    changed = (numbers.astype(np.float64) + amount.reshape(numbers.shape)).astype(numbers.dtype)
    constant = ConstantOp.of(changed, f"{bias.key.removesuffix('.absorbed')}.absorbed", bias.location)
    Rewriter.insert_op(constant, InsertPoint.before(site.owner))
    site.set_operand(_BIAS, constant.result)
    return Change(site, _BIAS, before, constant.result)
