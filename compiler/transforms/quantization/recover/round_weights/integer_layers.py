"""Layers whose weights are planned to be integers, and the operands that they will read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ConstantOp,
    How,
    MatMulOp,
    NNOp,
    OpaqueOp,
    Plan,
    QParams,
    QParamsAttr,
    array_of,
    constant_of,
    plan_of,
    set_plan,
    spread,
)
from .....ir.array import Array
from ...decide.grids import Grids
from ...decide.recurrent import recurrent_layers
from ...decide.sites import ROUNDED_FROM, Site, sites
from ...numbers.parameters import bias_fits, quantized_bias, widened
from ...numbers.weights import Weight
from ...portable import adds_singly, inexact, ranges_around
from ...products import Product, product_of
from ...profiles import Profile
from .rounding import Grid, at_least

WEIGHT, BIAS = 1, 2
"""The operands of convolutions and matrix products."""
SECOND = 2
"""The operand of a recurrent layer that is its weight R; W is its `WEIGHT`."""


@dataclass(frozen=True)
class IntegerLayer:
    """A layer with a planned integer weight."""

    site: Site
    plan: Plan
    weight: Weight
    params: QParams | None
    """The parameters of its input; None if that stays float or is not calibrated."""
    second: Weight | None = None
    """The weight R of a recurrent layer, in addition to W."""

    @property
    def compute(self) -> NNOp:
        return self.site.compute

    @cached_property
    def product(self) -> Product:
        """The layer as a matrix product."""
        return product_of(self.compute)

    @property
    def input_scale(self) -> float | None:
        """The scale of its input, if that has parameters."""
        return None if self.params is None else float(self.params.scales())

    @property
    def bias(self) -> Array | None:
        """The values of a constant bias; None for a recurrent layer, whose bias acts inside of it."""
        return None if self.second is not None else array_of(self.site.operand(BIAS))

    @property
    def float_weight(self) -> Array:
        """The weight of the float network, which `--round-weights` may have replaced."""
        kept = self.compute.attributes.get(ROUNDED_FROM)
        return self.weight.array if kept is None else ConstantOp(cast(Any, kept)).array

    @property
    def smallest(self) -> Array:
        """The smallest scales that sums and bias allow: float32, [] or [channels]."""
        if self.weight.fixed or self.input_scale is None:
            return np.zeros((), np.float32)
        return widened(np.zeros(self.weight.scales.shape, np.float32), self.bias, self.input_scale)

    @property
    def scales(self) -> Array:
        """The scales that the weight will have, float32, [] or [channels]."""
        return at_least(self.weight.scales, self.smallest)

    @property
    def integers(self) -> Array:
        """The nearest integers as matrices [G, M, K]: int8."""
        return self.product.matrices(self.weight._replace(scales=self.scales).integers)

    @property
    def plain(self) -> IntegerLayer | None:
        """The layer with weights that need not be portable; None if its own have scales that are as small, or almost."""
        if not self.plan.weights[0].portable or self.params is None or adds_singly(self.compute):
            return None
        how = replace(self.plan.weights[0], portable=False)
        plan = replace(self.plan, weights=(how, *self.plan.weights[1:]))
        plain = replace(self, plan=plan, weight=Weight.of(self.weight.value, how, self.compute))
        return plain if inexact(plain.integers, self.compute).any() else None

    def grid(self, groups: int, channels: int) -> Grid:
        """The values that the weight may have, for this many groups and channels."""
        block = self.weight.how.block

        def by_channel(values: Array) -> Array:
            if block is not None and values.size > 1:
                return self.product.matrices(
                    np.broadcast_to(self.along(values).astype(np.float64), self.weight.array.shape)
                )
            rows = values.astype(np.float64).reshape(-1, 1 if values.size == 1 else channels)
            return np.broadcast_to(rows, (groups, channels))[..., None]

        half, points = 2 ** (self.weight.how.bits - 1), by_channel(self.weight.zero_points)
        low, high = -half - points, half - 1 - points
        if self.plan.weights[0].portable:
            low, high = ranges_around(self.integers, self.compute)
        return Grid(by_channel(self.scales), low, high, by_channel(self.smallest), block, self.levels)

    @property
    def levels(self) -> Array | None:
        """The levels of a weight that has few: float64, ascending."""
        weight = self.weight._replace(scales=self.scales, how=replace(self.weight.how, levels=None))
        found = None if self.weight.how.levels is None else self.weight.levels_among(weight.integers)
        return None if found is None else found.astype(np.float64)

    def scales_of(self, grid: Grid) -> Array:
        """The scales of a grid in the form of the weight's own: float32, [], [channels] or [blocks]."""
        axis, block = self.weight.how.axis, self.weight.how.block
        if axis is not None and block is not None:
            scales = self.product.weight(grid.scale)[(slice(None),) * axis + (slice(None, None, block),)]
        else:
            scales = grid.scale[tuple(0 if i in self.shared else slice(None) for i in range(2))]
        return np.asarray(scales, np.float32).reshape(self.weight.scales.shape)

    @property
    def shared(self) -> tuple[int, ...]:
        """The axes of matrices `[G, M, K]` along which weights share their scale: none, G for a batch of matrices and
        for the directions of a recurrent layer, or G and M.
        """
        if self.weight.how.axis is None:
            return 0, 1
        return (0,) if isinstance(self.compute, MatMulOp | OpaqueOp) else ()

    def operands(self) -> Mapping[int, Array]:
        """The operands that it will read after conversion: the real numbers that the integers represent."""
        weight = self.weight._replace(scales=self.scales).reals
        same = np.array_equal(weight, self.weight.array)
        read = {WEIGHT: self.weight.array if same else weight}  # one array where the constant has these numbers
        if self.second is not None:
            read[SECOND] = self.second.reals
        if (bias := self.bias) is not None:
            read[BIAS] = self.rounded_bias(bias)
        return read

    @property
    def sums(self) -> Array | None:
        """The scales of its sums, float32, [] or [channels]; None if these are float."""
        return None if self.input_scale is None else np.asarray(self.scales * np.float32(self.input_scale), np.float32)

    def rounded_bias(self, bias: Array) -> Array:
        """The bias after rounding to integers; unchanged if it stays float or does not fit, which conversion reports."""
        if (sums := self.sums) is None or not bias_fits(bias, sums):
            return bias
        return (quantized_bias(bias, sums) * sums).astype(bias.dtype)

    def along(self, parameters: Array) -> Array:
        """Scales or zero points in a shape that broadcasts to the weight."""
        return spread(parameters, self.weight.array.shape, self.weight.how.axis, self.weight.how.block)

    def with_nearest(self) -> IntegerLayer:
        """The layer as it is; with its nearest integers, if its scales would be chosen anew for these."""
        if not self.plan.weights[0].scaled_by_divergence:
            return self
        weights = self.product.matrices(self.float_weight).astype(np.float64)
        grid = self.grid(*weights.shape[:2])
        return self.with_integers(self.product.weight(grid.integers(weights)), self.scales_of(grid))

    def with_integers(self, integers: Array, scales: Array) -> IntegerLayer:
        """The layer with the weight that integers (minus zero points, in its shape) represent, and the scales in its plan."""
        weight, old = self.weight, constant_of(self.weight.value)
        assert old is not None, "a weight that is planned is constant"
        key = f"{old.key.removesuffix('.folded')}.rounded"
        values = (integers * self.along(scales) + 0.0).astype(weight.array.dtype)  # no -0
        levels = None if self.levels is None else tuple(map(int, self.levels))
        constant = ConstantOp.of(values, key, old.location)
        Rewriter.insert_op(constant, InsertPoint.after(old))
        self.site.set_operand(WEIGHT, constant.result)
        self.compute.attributes.setdefault(ROUNDED_FROM, old.value)
        points, how = [int(z) for z in weight.zero_points.reshape(-1)], weight.how
        params = QParamsAttr.of(IntegerType(how.bits), scales, points, how.axis, f"{key}.scale", how.block)
        given = How(how.bits, axis=how.axis, block=how.block, levels=levels, given=params)
        found = Weight(constant.result, values, given, scales, weight.zero_points)
        assert np.array_equal(found.integers, integers + self.along(weight.zero_points)), "values on a grid lie on it"
        plan = replace(self.plan, weights=(given, *self.plan.weights[1:]))
        set_plan(self.compute, plan)
        return replace(self, plan=plan, weight=found)


def integer_layers(module: ModuleOp, profile: Profile) -> list[IntegerLayer]:
    """These layers, in program order. Raises CompileError, located at a layer, for a plan that does not fit it."""
    order = {op: i for i, op in enumerate(module.walk())}
    found = chain(_layers(module, profile), _recurrent_layers(module))
    return sorted(found, key=lambda layer: order[layer.compute])


def _layers(module: ModuleOp, profile: Profile) -> Iterator[IntegerLayer]:
    grids = Grids(profile.rows)
    for site in sites(module, profile.rows):
        plan, row = plan_of(site.compute), profile.rows[type(site.compute)]
        if plan is None or not plan.weights or row.weight is None or plan.weights[0].number_format is not None:
            continue
        value = site.operand(row.weight)
        if value is None or array_of(value) is None:
            continue
        params = grids.params_at(site) if plan.input else None
        yield IntegerLayer(site, plan, Weight.of(value, plan.weights[0], site.compute), params)


def _recurrent_layers(module: ModuleOp) -> Iterator[IntegerLayer]:
    for each in recurrent_layers(module):
        plan = plan_of(each.op)
        if plan is not None and len(plan.weights) == len(each.weights) and not each.is_quantized:
            pairs = zip(each.weights, plan.weights, strict=True)
            w, r = (Weight.of(value, how, each.op) for value, how in pairs)
            yield IntegerLayer(each.site, plan, w, None, r)
