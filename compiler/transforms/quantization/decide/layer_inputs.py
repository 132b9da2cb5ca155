"""Inputs of source layers: the operation and operand of each, as import may split a layer; which can be quantized alone."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import BlockArgument, OpResult, SSAValue

from ....dialects.nn import AddOp, FusedOp, MulOp, NNOp, array_of
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....rewriting import layer_of
from ..tables import LayerRow
from .conditions import DecideLayer, first_of
from .legality import row_of
from .sites import Site


class LayerInput(NamedTuple):
    """Operand `slot` of one of a layer's operations."""

    site: Site
    slot: int

    @property
    def value(self) -> SSAValue | None:
        """The input's value; None if it is computed inside a fused region."""
        return self.site.operand(self.slot)


def inputs_of(site: Site) -> list[LayerInput]:
    """The inputs of the layer whose last operation stands at `site`, in the layer's order.

    Caffe's Eltwise of many inputs is a chain of additions, with a product for each coefficient.
    """
    found: list[LayerInput] = []
    for slot in range(len(site.compute.operands)):
        before = _within_layer(site, slot)
        if before is None:
            found.append(LayerInput(site, slot))
        elif isinstance(site.compute, AddOp) and isinstance(before.compute, MulOp):
            found.append(LayerInput(before, 0))
        else:
            found.extend(inputs_of(before))
    return found


def ends_layer(site: Site) -> bool:
    """Whether no operation of the same layer reads an operation's results."""
    op, owner = site.compute, site.owner
    readers = [use.operation for use in op.results[0].uses]
    if isinstance(owner, FusedOp):
        readers += [use.operation for use in owner.result.uses]
    return op.origin is None or all(op.origin != r.properties.get("origin") for r in readers)


def _within_layer(site: Site, slot: int) -> Site | None:
    """The operation of the same layer that computes an operand."""
    before = _producer(site, slot)
    if before is None or site.compute.origin is None or layer_of(before.compute) != layer_of(site.compute):
        return None
    return before


def _producer(site: Site, slot: int) -> Site | None:
    """The operation that computes an operand, in the same region or another."""
    value, owner = site.compute.operands[slot], site.owner
    if owner is site.compute or isinstance(value, BlockArgument):
        outer = site.operand(slot)
        owner = outer.op if isinstance(outer, OpResult) else None
        value = owner.terminator.value if isinstance(owner, FusedOp) else outer
    op = value.op if isinstance(value, OpResult) else None
    if not isinstance(op, NNOp) or not isinstance(owner, NNOp | FusedOp):
        return None
    return Site(owner, op, site.half_precision)


def tensor_broken(site: Site, index: int) -> tuple[str, str] | None:
    """The first condition, by its name, that keeps input `index` of a layer from being quantized alone, and the reason.

    `site` is the layer's last operation. The layer has to be one that AMCT's table 1 has for its input tensors only.
    """
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return DecideLayer.tensor_only.name, "only inputs of max pooling and addition are quantized by themselves"
    if (broken := _row_broken(site, row)) is not None:
        return broken
    inputs = inputs_of(site)
    if not 0 <= index < len(inputs):
        return "input-index", f"it has {len(inputs)} input{'s' if len(inputs) > 1 else ''}, counted from 0"
    if (value := inputs[index].value) is None:
        return DecideLayer.input_computed.name, f"its input {index} is computed inside a fused region"
    if not is_float(element_of(value)):
        return DecideLayer.input_float.name, f"its input {index} is of {element_of(value)}"
    return None if array_of(value) is None else (DecideLayer.input_computed.name, f"its input {index} is a constant")


def sum_broken(site: Site) -> str | None:
    """Why the values around a sum are not quantized jointly."""
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return "it is not one of the sums that AMCT quantizes"
    return broken[1] if (broken := _row_broken(site, row)) is not None else None


def _row_broken(site: Site, row: LayerRow) -> tuple[str, str] | None:
    """The first condition of the layer's row, but for the one that it is asked for, or of masks, that does not hold."""
    rules = (each for each in row.rules if each is not DecideLayer.tensor_only)
    broken = first_of(site, (*rules, DecideLayer.softmax_input))
    return None if broken is None else (broken[0].name, broken[1])
