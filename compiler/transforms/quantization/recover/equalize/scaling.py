"""Divides channels by powers of two and multiplies what reads them, and takes that back; moves bias after a layer.

What a channel never falls below moves from the bias of a layer into the biases of those that read it: Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction" (2019), section 4.1.3, with minima of data in place of those that
batch norms suggest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ConstantOp,
    FusedOp,
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
    """Divide a link's channels by 2^exponents and multiply what reads them; None, with nothing changed, if that rounds."""
    shifts = [(link.site, index, -exponents[channels]) for index, channels in link.parameters if link.site is not None]
    for site, of in link.readers:
        shifts.append((site, WEIGHT, exponents[of][cast(WeightedOp, site.compute).weight_inputs()]))
    constants = [_times(site.operand(index), shift) for site, index, shift in shifts]
    changes: list[Change] = []
    for (site, index, _), constant in zip(shifts, constants, strict=True):
        before = site.operand(index)
        if constant is None or before is None:
            return None
        Rewriter.insert_op(constant, InsertPoint.before(site.owner))
        changes.append(Change(site, index, before, constant.result))
    if link.site is None:
        value = _divided(link, exponents)
        changes += [Change(reader.site, 0, value.operands[0], value.result) for reader in link.readers]
    for site, index, _, after in changes:
        site.set_operand(index, after)
    return changes


def undo(changes: Sequence[Change]) -> None:
    """Takes changes back; constants that nothing reads are left."""
    for site, index, before, after in reversed(changes):
        site.set_operand(index, before)
        if isinstance(after.owner, MulOp) and not after.uses:
            Rewriter.erase_op(after.owner)


def _times(value: SSAValue | None, shifts: Array) -> ConstantOp | None:
    """A constant times 2^shifts; None where its type does not hold that."""
    constant = constant_of(value)
    assert constant is not None, "links have constant parameters"
    numbers = constant.array
    with np.errstate(all="ignore"):
        scaled = np.ldexp(numbers.astype(np.float64), shifts).astype(numbers.dtype)
        back = np.ldexp(scaled.astype(np.float64), -shifts)
    if not np.array_equal(back, numbers.astype(np.float64)):
        return None
    return ConstantOp.of(scaled, f"{constant.key.removesuffix('.equalized')}.equalized", constant.location)


def _divided(link: Link, exponents: Array) -> MulOp:
    """The product, in front of all readers, that divides the channels of what they read."""
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
        weight = Weight.of(cast(WeightedOp, reader.compute), numbers, FLOAT)
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
    return isinstance(op, WeightedOp) and op.sums_all


def _bias_of(site: Site, size: int) -> ConstantOp | None:
    """The layer's bias, where it is a constant of this many floats that nothing scales."""
    bias = constant_of(site.operand(_BIAS))
    return bias if isinstance(site.compute, WeightedOp) and bias is not None and bias.array.size == size else None


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
