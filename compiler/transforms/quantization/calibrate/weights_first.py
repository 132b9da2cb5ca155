"""The network in which ranges are found: where plans and the profile say so, that of AMCT."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import ConstantOp, DivOp, MulOp, array_of, constant_of, plan_of
from ....dialects.nn.shapes import shape_of
from ....rewriting import erase_constant
from ....session import Session
from ..convert.layer_weights import numbers_of, weight_as
from ..decide.sites import Site, sites
from ..profiles import profile_of
from ..recover.balance_channels import FACTORS, balancer_of


@contextmanager
def weights_first(module: ModuleOp, session: Session) -> Generator[None]:
    """Feed layers the numbers that the planned integers of their weights represent (`WeightPlan.first`), and divide balanced
    inputs by their factors where AMCT does (`Row.as_amct`); undone on exit.

    Raises CompileError, located at a layer, for a plan that does not fit its weight.
    """
    rows = profile_of(session).rows
    fed: list[tuple[Site, int, SSAValue, ConstantOp]] = []
    divided: list[tuple[MulOp, DivOp]] = []
    try:
        for site in sites(module, rows):
            if rows[type(site.compute)].as_amct and (product := balancer_of(site)) is not None:
                divided.append((product, _divided(product)))
            index, plan = rows[type(site.compute)].weight, plan_of(site.compute)
            if index is None or plan is None or not plan.weights or not plan.weights[0].first:
                continue
            value = site.operand(index)
            if value is None or array_of(value) is None:
                continue
            old = constant_of(value)
            assert old is not None, "it has an array"
            numbers = numbers_of(weight_as(value, plan.weights[0], site.compute))
            new = ConstantOp.of(numbers, f"{old.key}.first", old.location)
            Rewriter.insert_op(new, InsertPoint.after(old))
            site.set_operand(index, new.result)
            fed.append((site, index, value, new))
        yield
    finally:
        for site, index, value, new in fed:
            site.set_operand(index, value)
            erase_constant(new)
        for product, division in divided:
            division.result.replace_all_uses_with(product.result)
            factors = constant_of(division.operands[1])
            assert factors is not None, "made here"
            Rewriter.erase_op(division)
            erase_constant(factors)


def _divided(product: MulOp) -> DivOp:
    """The division by factors in the place of a product with their reciprocals."""
    factors = ConstantOp(cast(Any, product.attributes[FACTORS]))
    constant = ConstantOp.of(
        factors.array.reshape(shape_of(product.operands[1])), f"{factors.key}.first", product.location
    )
    division = DivOp.make(
        product.operands[0], constant.result, result_types=[product.result.type], location=product.location
    )
    Rewriter.insert_op([constant, division], InsertPoint.after(product))
    product.result.replace_all_uses_with(division.result)
    return division
