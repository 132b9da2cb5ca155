"""Inputs of source layers: finds the operation and operand of each, because import may split a layer into operations."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import BlockArgument, OpResult, SSAValue

from ....dialects.nn import AddOp, FusedOp, MulOp, NNOp
from ....rewriting import layer_of
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
