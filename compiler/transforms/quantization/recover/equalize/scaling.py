"""Divides channels by powers of two and multiplies what reads them, and takes that back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import ConstantOp, MulOp, OriginAttr, constant_of
from .....dialects.nn.shapes import element_of, shape_of
from .....ir.dtypes import numpy_dtype
from .....rewriting import layer_of
from ...decide.sites import Site
from ..balance_channels import Weighted, activation_axis, weight_channels
from .links import WEIGHT, Link

Array = np.ndarray[Any, np.dtype[Any]]


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
        shifts.append((site, WEIGHT, exponents[of][weight_channels(cast(Weighted, site.compute))]))
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
    """As it was before these changes; constants that nothing reads are left."""
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
    value, axis = first.activation, activation_axis(cast(Weighted, first.compute))
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
