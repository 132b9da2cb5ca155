"""Divides channels by powers of two and multiplies the weights that read them, and takes that back; moves bias after a layer.

What a channel never falls below moves from the bias of a layer into the biases of those that read it: Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction" (2019), section 4.1.3, with minima of data in place of those that
batch norms suggest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ConstantOp,
    LeakyReluOp,
    MatMulOp,
    MulOp,
    OriginAttr,
    PReluOp,
    ReluOp,
    WeightedOp,
    array_of,
    constant_of,
)
from .....dialects.nn.fused import computed
from .....dialects.nn.shapes import element_of, shape_of
from .....ir.array import Array
from .....ir.dtypes import numpy_dtype
from .....rewriting import layer_of
from ...decide.sites import Site
from .links import WEIGHT, Link
from .search import FLOAT, Weight


class Change(NamedTuple):
    """An operand of a layer, before and after."""

    site: Site
    operand: int
    before: SSAValue
    after: SSAValue


def scaled(link: Link, exponents: Array) -> list[Change] | None:
    """Divide a link's channels by 2^exponents and multiply the weights that read them; None, with nothing changed, if
    that rounds.
    """
    shifts = [(link.site, index, -exponents[channels]) for index, channels in link.parameters if link.site is not None]
    for site, of in link.readers:
        shifts.append((site, WEIGHT, exponents[of][cast(WeightedOp, site.compute).weight_inputs()]))
    numbers = [_times(site.operand(index), shift) for site, index, shift in shifts]
    exact = [each for each in numbers if each is not None]
    if len(exact) < len(numbers):
        return None
    changes = [replaced(site, index, each, ".equalized") for (site, index, _), each in zip(shifts, exact, strict=True)]
    if link.site is None:
        value = _divided(link, exponents)
        changes += [fed(reader.site, 0, value.result) for reader in link.readers]
    return changes


def fed(site: Site, index: int, value: SSAValue) -> Change:
    """Feed another value to a layer's operand."""
    before = site.operand(index)
    assert before is not None, "it has the operand"
    site.set_operand(index, value)
    return Change(site, index, before, value)


def replaced(site: Site, index: int, numbers: Array, suffix: str) -> Change:
    """Give a layer its own constant instead of another one: these numbers in its type, the key with a suffix."""
    constant = constant_of(site.operand(index))
    assert constant is not None, "what is replaced is constant"
    key = constant.key.removesuffix(suffix) + suffix
    own = ConstantOp.of(numbers.astype(constant.array.dtype), key, constant.location)
    Rewriter.insert_op(own, InsertPoint.before(site.owner))
    return fed(site, index, own.result)


def undo(changes: Sequence[Change]) -> None:
    """Takes changes back; constants that nothing reads are left."""
    for site, index, before, after in reversed(changes):
        site.set_operand(index, before)
        if isinstance(after.owner, MulOp) and not after.uses:
            Rewriter.erase_op(after.owner)


def _times(value: SSAValue | None, shifts: Array) -> Array | None:
    """The numbers of a constant times 2^shifts; None if its type cannot represent them."""
    numbers = array_of(value)
    assert numbers is not None, "links have constant parameters"
    with np.errstate(all="ignore"):
        scaled = np.ldexp(numbers.astype(np.float64), shifts).astype(numbers.dtype)
        back = np.ldexp(scaled.astype(np.float64), -shifts)
    return scaled if np.array_equal(back, numbers.astype(np.float64)) else None


def _divided(link: Link, exponents: Array) -> MulOp:
    """The product, in front of all readers, that divides the channels that they read."""
    first = link.readers[0].site
    value, axis = first.activation, cast(WeightedOp, first.compute).input_axis
    assert value is not None, "links are between layers that read from outside"
    shape = [-1 if i == axis else 1 for i in range(len(shape_of(value)))]
    inverse = np.ldexp(np.float64(1), -exponents).astype(numpy_dtype(element_of(value))).reshape(shape)
    layer, origin = f"{layer_of(first.compute)}.equalized", first.compute.origin
    framework = origin.framework.data if isinstance(origin, OriginAttr) else "onnx"
    constant = ConstantOp.of(inverse, f"{layer}.inverse", first.compute.location)
    product = MulOp.make(
        value,
        constant.result,
        result_types=[value.type],
        origin=OriginAttr.of(framework, "Mul", layer, {}),
        location=first.compute.location,
        name=f"{value.name_hint}.equalized" if value.name_hint else None,
    )
    made = value.owner
    place = InsertPoint.after(made) if isinstance(made, Operation) else InsertPoint.at_start(made)
    Rewriter.insert_op([constant, product], place)
    return product


SHARE = 0.875
"""The share of a channel's minimum that is moved: other data may fall a little lower."""
_BIAS = 2
_IDENTITIES = (ReluOp, LeakyReluOp, PReluOp)
"""Operations that leave positive numbers as they are."""


def absorbed(link: Link, least: Array, exponents: Array) -> list[Change]:
    """Move the minima of a link's channels; empty if none are above 0, or if that is not exact.

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
        weight = Weight.of(cast(WeightedOp, reader.compute), numbers, FLOAT)
        groups, inputs = weight.numbers.shape[:2]
        sums = (weight.numbers * shift[of].reshape(groups, inputs, 1, 1)).sum(axis=(1, 3), dtype=np.float64).reshape(-1)
        if _bias_of(reader, sums.size) is None:
            return []
        moved.append((reader, sums))
    return [_added(place, amount) for place, amount in moved]


def _is_direct(link: Link) -> bool:
    """Whether readers read the layer's result, or a Relu of it that keeps everything above 0."""
    assert link.site is not None, "a layer begins it"
    return all(_source(reader.compute.operands[0]) is link.site.compute for reader in link.readers)


def _source(value: SSAValue) -> Operation | Block:
    """The operation that computes a value, or the operand of a Relu that does."""
    op = computed(value).owner
    return computed(op.operands[0]).owner if isinstance(op, _IDENTITIES) else op


def _adds_evenly(site: Site) -> bool:
    """Whether a constant added to an input channel adds one to the results: no padding, one matrix."""
    op = site.compute
    if isinstance(op, MatMulOp):
        return len(shape_of(op.rhs)) == 2
    return isinstance(op, WeightedOp) and op.sums_all


def _bias_of(site: Site, size: int) -> ConstantOp | None:
    """The layer's bias, if it is a constant of this many floats that nothing scales."""
    bias = constant_of(site.operand(_BIAS))
    return bias if isinstance(site.compute, WeightedOp) and bias is not None and bias.array.size == size else None


def _added(site: Site, amount: Array) -> Change:
    bias = array_of(site.operand(_BIAS))
    assert bias is not None, "it has a bias"
    return replaced(site, _BIAS, bias.astype(np.float64) + amount.reshape(bias.shape), ".absorbed")
