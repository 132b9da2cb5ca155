"""Where channels that no layer can divide are divided by a product in float, as DMQ divides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import Float16Type, ModuleOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

from .....dialects.nn import MulOp, NNOp, PointOp, WeightedOp, plan_of
from .....dialects.nn.shapes import DYNAMIC, element_of, shape_of
from .....rewriting import Remarks
from .....session import Session
from ....fusion.fuse_activation.activations import LINEAR, single_kind
from ...decide.sites import Site, sites
from ...place.insert_observers import insert_observers
from ...request import Request
from .links import Link, NotLinked, Reader, ask_for_numbers


def products_of(
    module: ModuleOp, links: Sequence[Link], request: Request, session: Session, remarks: Remarks
) -> list[Link]:
    """The values that are computed in float, and the layers that quantize them, of those whose inputs no link divides; with
    remarks on the others.

    There are none where the profile computes products in integers, which would round before it divides.
    """
    row = request.profile.rows.get(MulOp)
    if row is not None and not row.between:
        return []
    linked = {reader.compute for link in links for reader in link.readers}
    free = [site for site in sites(module, (WeightedOp,)) if site.compute not in linked and _takes_one(site)]
    if not free:
        return []
    in_float = _made_in_float(module, request, session)
    found: dict[tuple[SSAValue, int], list[Reader]] = {}
    for site in free:
        value, axis = site.activation, cast(WeightedOp, site.compute).input_axis
        assert value is not None, "it takes a product"
        if in_float(value):
            found.setdefault((value, axis), []).append(Reader(site, np.arange(shape_of(value)[axis])))
        else:
            remarks.missed(
                site.compute, "float-input", "its input comes from integers, and a product would compute in float"
            )
    return [Link(None, (), tuple(readers)) for readers in found.values()]


def _takes_one(site: Site) -> bool:
    """Whether a layer can read a product of its input: its numbers are known, and nothing else in its region reads the input."""
    try:
        ask_for_numbers(site)
    except NotLinked:
        return False
    value, inner = site.activation, site.compute.operands[0]
    assert value is not None, "its numbers are known"
    if isinstance(value.owner, PointOp) or isinstance(element_of(value), Float16Type):
        return False
    if shape_of(value)[cast(WeightedOp, site.compute).input_axis] == DYNAMIC:
        return False
    return site.owner is site.compute or (isinstance(inner, BlockArgument) and inner.has_one_use())


def _made_in_float(module: ModuleOp, request: Request, session: Session) -> Callable[[SSAValue], bool]:
    """Whether the operation that computes a value stays in float, when it is quantized as requested."""
    copies: dict[SSAValue, SSAValue] = {}
    copy = module.clone(copies)
    insert_observers(copy, request, session.silent())
    quantized = {site.owner for site in sites(copy, request.profile.rows) if (p := plan_of(site.compute)) and p.input}

    def in_float(value: SSAValue) -> bool:
        while isinstance(value, OpResult) and isinstance(op := value.op, NNOp):
            if not (op.is_passive or single_kind(op) in LINEAR):
                break
            value = op.operands[0]
        return not isinstance(value, OpResult) or copies[value].owner not in quantized

    return in_float
