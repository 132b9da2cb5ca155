"""`--round-weights`: weights on their grid so that a layer's output changes least, instead of each to its nearest number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import ConstantOp, Plan, QParamsAttr, WeightPlan, array_of, constant_of, plan_of, set_plan
from ....rewriting import Remarks, erase_dead_constants
from ....runtime.data import Samples
from ....session import Session, session_of
from ..convert_observers import point_of
from ..data_options import DataOptions
from ..layers import channel_axis
from ..parameters import quantized, widened_for_bias
from ..profiles import Profile, profile_of
from ..recovery_options import Method
from ..recurrent import recurrent_layers
from ..sites import Site, sites
from ..weights.layer_weights import Weight, weight_as
from .gptq import Grid, gptq, matched, with_least_error
from .layer_data import Networks
from .products import Product, product_of

Array = np.ndarray[Any, np.dtype[Any]]

_WEIGHT = 1
"""The operand that is the weight of every layer that has one."""


@dataclass(frozen=True)
class RoundWeightsPass(DataOptions, ModulePass):
    """Choose the integers of weights by what they make of the layers' outputs, one layer after the other. Stands between
    `--calibrate` and `--convert-observers`. Weights then hold numbers of their grid, and plans the scales.
    """

    name = "round-weights"
    positional: ClassVar[str] = "method"

    method: Method = "mismatch"
    """`gptq`: the weights that are rounded later make up for the errors of those before. `mismatch`: the same, after all of them
    have moved to where they make up for what rounding in earlier layers does to the input.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        round_weights(op, self.method, lambda: self.load(op, session), session)


class Layer(NamedTuple):
    """A layer whose weight is to be rounded."""

    site: Site
    plan: Plan
    product: Product
    weight: Weight
    smallest: Array
    """The smallest scales, float32, [] or [channels]: the bias has to fit into int32 at them."""

    @property
    def matrices(self) -> Array:
        return self.product.matrices(self.weight.array)

    def grid(self) -> Grid:
        """The numbers that the weight may be, by its plan."""
        half, points = 2 ** (self.weight.bits - 1), self._by_channel(self.weight.zero_points)
        scale = self._by_channel(np.maximum(self.weight.scales, self.smallest))
        return Grid(scale, -half - points, half - 1 - points)

    def with_least_error(self, weights: Array, h: Array) -> Grid:
        """The grid with scales that change the outputs less."""
        return with_least_error(weights, h, self.grid(), self._by_channel(self.smallest), self.weight.axis is None)

    def _by_channel(self, values: Array) -> Array:
        groups, channels, _ = self.matrices.shape
        return np.broadcast_to(values.astype(np.float64), groups * channels).reshape(groups, channels, 1)


def round_weights(module: ModuleOp, method: Method, samples: Callable[[], Samples], session: Session) -> None:
    """Round the weights of the layers whose plans have integer ones. Raises CompileError, located at a layer or in the data."""
    remarks = Remarks(session, RoundWeightsPass.name)
    layers, others = _layers(module, session, remarks)
    if layers:
        with TemporaryDirectory(prefix="amct-") as folder:
            computed = [site.compute for site in sites(module, profile_of(session).rows)]
            networks = Networks(module, computed, samples(), Path(folder), beside=method == "mismatch")
            for site, weight in others:
                networks.operands[site.compute][_WEIGHT] = _nearest(weight)
            for i, layer in enumerate(layers):
                _round(layer, method, networks, remarks)
                session.progress("round", i + 1, len(layers))
    erase_dead_constants(module)
    remarks.flush()


def _layers(module: ModuleOp, session: Session, remarks: Remarks) -> tuple[list[Layer], list[tuple[Site, Weight]]]:
    """The layers to round, and the other layers whose weights will be integers."""
    profile = profile_of(session)
    layers: list[Layer] = []
    others: list[tuple[Site, Weight]] = []
    for site in sites(module, profile.rows):
        plan, row = plan_of(site.compute), profile.rows[type(site.compute)]
        if (
            plan is None
            or not plan.weights
            or row.weight is None
            or array_of(value := site.operand(row.weight)) is None
        ):
            continue
        assert value is not None, "a constant is a value"
        weight = weight_as(value, plan.weights[0], site.compute)
        product = product_of(site.compute)
        if (broken := _broken(site, plan, weight, product, profile)) is not None:
            remarks.missed(site.compute, *broken)
            others.append((site, weight))
            continue
        assert product is not None
        layers.append(Layer(site, plan, product, weight, _smallest(site, plan, profile)))
    for each in recurrent_layers(module):
        if (plan := plan_of(each.op)) is not None and plan.weights:
            remarks.missed(each.op, "recurrent", "the weights of recurrent layers are rounded to the nearest number")
    return layers, others


def _broken(
    site: Site, plan: Plan, weight: Weight, product: Product | None, profile: Profile
) -> tuple[str, str] | None:
    """The condition that does not hold, and the reason."""
    if plan.input and point_of(site, profile) is None:
        return "calibrated", "its input has no parameters: --calibrate comes before --round-weights"
    if product is None:
        return (
            "one-matrix",
            "weights of transposed convolutions and of batches of matrices are rounded to the nearest number",
        )
    if weight.levels is not None:
        return "all-levels", "its weight has few levels, which are chosen by their values"
    if weight.axis is not None and weight.axis != channel_axis(site.compute):
        return "channel-axis", "the scales of its weight are not those of output channels"
    return None


def _smallest(site: Site, plan: Plan, profile: Profile) -> Array:
    row = profile.rows[type(site.compute)]
    bias = None if row.bias is None or (value := site.operand(row.bias)) is None else array_of(value)
    point = point_of(site, profile) if plan.input else None
    nothing = np.zeros((), np.float32)
    if bias is None or point is None:
        return nothing
    per_channel = plan.weights[0].axis is not None
    return widened_for_bias(np.zeros(bias.shape, np.float32) if per_channel else nothing, bias, float(point.scales()))


def _round(layer: Layer, method: Method, networks: Networks, remarks: Remarks) -> None:
    compute, weights, grid = layer.site.compute, layer.matrices, layer.grid()
    data = networks.data(compute, layer.product, weights.shape[0], weights.shape[2])
    target = matched(weights, data.sums) if method == "mismatch" else weights
    found = grid if layer.weight.fixed else layer.with_least_error(target, data.sums.h)
    nearest, integers = grid.nearest(weights), gptq(target, data.sums.h, found)
    before, after = (data.sqnr(weights, each) for each in (nearest, integers * found.scale))
    if not after > before:
        reason = f"its output has {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding, which stays"
        remarks.missed(compute, "improves", f"{reason}{networks.measured}")
        networks.operands[compute][_WEIGHT] = layer.product.weight(nearest).astype(layer.weight.array.dtype)
        return
    networks.operands[compute][_WEIGHT] = _write(layer, integers, found)
    reason = f"SQNR of its output {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding"
    remarks.applied(compute, "rounded", f"{reason}{networks.measured}")


def _write(layer: Layer, integers: Array, grid: Grid) -> Array:
    """Put what the integers mean in the place of the weight, and their scales into the plan."""
    site, weight = layer.site, layer.weight
    scales = np.asarray(grid.scale, np.float32).reshape(-1)[slice(None) if weight.axis is not None else 0, ...]
    values = layer.product.weight(integers * grid.scale).astype(weight.array.dtype)
    old = constant_of(weight.value)
    assert old is not None, "a weight that is planned is constant"
    key = f"{old.key.removesuffix('.folded')}.rounded"
    constant = ConstantOp.of(values, key, old.location)
    Rewriter.insert_op(constant, InsertPoint.after(old))
    site.set_operand(_WEIGHT, constant.result)
    points = [int(z) for z in weight.zero_points.reshape(-1)]
    params = QParamsAttr.of(IntegerType(weight.bits), scales, points, weight.axis, f"{key}.scale")
    set_plan(site.compute, replace(layer.plan, weights=(WeightPlan(weight.bits, weight.axis, given=params),)))
    again = quantized(values, scales, weight.bits, weight.axis, weight.zero_points)
    assert np.array_equal(again, layer.product.weight(integers) + _along(weight, weight.zero_points)), (
        "lost by rounding"
    )
    return values


def _nearest(weight: Weight) -> Array:
    """What a weight is behind its integers."""
    integers = quantized(weight.array, weight.scales, weight.bits, weight.axis, weight.zero_points).astype(np.float32)
    values = (integers - _along(weight, weight.zero_points)) * _along(weight, weight.scales)
    return values.astype(weight.array.dtype)


def _along(weight: Weight, parameters: Array) -> Array:
    """Scales or zero points in a shape that broadcasts to the weight."""
    if parameters.ndim == 0:
        return parameters
    return parameters.reshape([-1 if i == weight.axis else 1 for i in range(weight.array.ndim)])
