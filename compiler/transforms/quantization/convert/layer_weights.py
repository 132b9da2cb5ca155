"""A layer's quantized weight and bias: parameters, the integer form in the module, and integers kept apart from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, UnknownLoc, i32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....diagnostics import op_error
from ....dialects.nn import (
    ConstantOp,
    DequantizeOp,
    MatMulIntegerOp,
    NNOp,
    QParams,
    QParamsAttr,
    WeightPlan,
    array_of,
    blocks_of,
    constant_of,
    dequantize_of,
    spread,
)
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....rewriting import erase_constant, erase_dead_constants, layer_of
from ....runtime.affine import LEAST_SCALE, asymmetric_params, ends_of, symmetric_scales
from ..decide.sites import Site, sites
from ..portable import (
    BITS,
    HIGHEST,
    LOWEST,
    MULTIPLIED,
    adds_singly,
    least_scales,
    products_of_neighbours,
    why_inexact,
)
from ..products import product_of
from ..profiles import Profile
from .parameters import NO_OFFSET, quantized
from .weight_divergence import divergence_scales
from .weight_formats import in_format
from .weight_search import searched_scales


class Weight(NamedTuple):
    """The weight of a layer, and how it is quantized."""

    value: SSAValue
    array: Array
    scales: Array
    """float32, [], along `axis` or [blocks]."""
    axis: int | None
    bits: int
    zero_points: Array = NO_OFFSET
    """int32, [] or as many as scales; nonzero only if the layer's input stays float."""
    levels: int | tuple[int, ...] | None = None
    """The number of distinct integers allowed, or the integers themselves; None for no limit."""
    fixed: bool = False
    """Whether the scales come from a record."""
    block: int | None = None
    """The size of groups along `axis`: `QParams.block`."""


def weight_as(value: SSAValue, plan: WeightPlan, layer: NNOp) -> Weight:
    """A constant weight of a layer, with scales from its plan or computed from its values.

    Raises CompileError, located at the layer, if the number of planned scales is not the size of their axis or number of blocks.
    """
    array = array_of(value)
    assert array is not None, "a weight that is planned is constant"
    if plan.given is not None:
        given = plan.given.data
        _check_scales(given, array, layer)
        points = given.zero_points()
        return Weight(
            value, array, given.scales(), plan.axis, plan.bits, points, plan.levels, fixed=True, block=plan.block
        )
    if plan.asymmetric:
        scales, zero_points = asymmetric_params(array, plan.bits, plan.axis, plan.block)
        scales = _searched(plan, array, scales, zero_points)
        return Weight(value, array, scales, plan.axis, plan.bits, zero_points, block=plan.block)
    if plan.scaled_by_divergence:
        return Weight(value, array, divergence_scales(array, plan.axis), plan.axis, plan.bits)
    scales = _searched(plan, array, symmetric_scales(array, plan.bits, plan.axis, plan.block), NO_OFFSET)
    if plan.epsilon:
        scales = np.where(np.abs(scales) < np.finfo(np.float32).eps, np.float32(1), scales)
    if plan.portable:
        scales = np.maximum(scales, least_scales(array, plan.axis, layer))
    return Weight(value, array, scales, plan.axis, plan.bits, levels=plan.levels, block=plan.block)


def _searched(plan: WeightPlan, array: Array, scales: Array, zero_points: Array) -> Array:
    """The scales, or the fractions of them that the plan asks to search for."""
    return searched_scales(array, scales, plan.bits, plan.axis, zero_points, plan.block) if plan.search else scales


def zeroed_scales(weight: Weight) -> int:
    """The number of scales under which all numbers of the weight round to zero, though one of them is not zero.

    Scales that are computed reach to the largest number at most; only the least scale, and the 1 of AMCT's rule, are larger.
    """
    if not weight.fixed and not np.any((weight.scales == LEAST_SCALE) | (weight.scales == 1)):
        return 0
    low, high = ends_of(weight.array, weight.axis, weight.block)
    largest = np.maximum(np.asarray(high, np.float64), -np.asarray(low, np.float64))
    return int(np.count_nonzero((largest > 0) & (np.rint(largest / weight.scales) == 0)))


def integers_of(weight: Weight) -> Array:
    """The integers of a weight by nearest rounding: int8."""
    return integers_and_levels(weight)[0]


def numbers_of(weight: Weight) -> Array:
    """The real numbers that the integers of a weight represent, in its type."""
    scales, points = (
        spread(each, weight.array.shape, weight.axis, weight.block) for each in (weight.scales, weight.zero_points)
    )
    return ((integers_of(weight).astype(np.float32) - points) * scales).astype(weight.array.dtype)


def integers_and_levels(weight: Weight) -> tuple[Array, Array | None]:
    """The integers of a weight by nearest rounding, int8, and the levels among which they are, None for all."""
    integers = quantized(weight.array, weight.scales, weight.bits, weight.axis, weight.zero_points, weight.block)
    levels = levels_among(weight, integers)
    return (integers, None) if levels is None else (nearest(integers, levels), levels)


def levels_among(weight: Weight, integers: Array) -> Array | None:
    """The levels of a weight that has few, ascending: int8; its own, or chosen for its integers."""
    if isinstance(weight.levels, int):
        return levels_of(integers, weight.levels)
    return None if weight.levels is None else np.array(sorted(weight.levels), np.int8)


def _check_scales(given: QParams, array: Array, layer: NNOp) -> None:
    count = given.scales().size
    if given.axis is not None and given.block is not None:
        blocks = prod(blocks_of(array.shape, given.axis, given.block))
        if count != blocks:
            raise op_error(layer, f"has a plan with {count} scales for a weight of {blocks} blocks")
        return
    channels = 1 if given.axis is None else array.shape[given.axis]
    if count != channels:
        raise op_error(layer, f"has a plan with {count} scales for a weight of {channels} channels")


class StoredWeights:
    """Creates the stored forms of weights, shared ones once. A float weight is erased once all its layers are converted."""

    def __init__(self) -> None:
        self._made: dict[SSAValue, dict[object, SSAValue]] = {}
        """The forms of each weight, by what distinguishes them: scales, zero points, bits, axis, block and levels of integers, or
        the plan of a number format.
        """

    def feed(self, site: Site, index: int, weight: Weight) -> None:
        """Feed an operand the dequantized integer form of its weight, of the weight's own type."""
        numbers = weight.scales.tobytes(), weight.zero_points.tobytes()
        form = (*numbers, weight.bits, weight.axis, weight.block, weight.levels)
        self._feed(site, index, weight.value, form, lambda: _integer_form(weight, site.compute))

    def feed_format(self, site: Site, index: int, value: SSAValue, plan: WeightPlan) -> None:
        """Feed an operand its weight in the number format of a plan, as reals of the weight's own type."""
        self._feed(site, index, value, plan, lambda: in_format(value, plan, site.compute))

    def _feed(self, site: Site, index: int, value: SSAValue, form: object, make: Callable[[], SSAValue]) -> None:
        made = self._made.setdefault(value, {})
        if form not in made:
            made[form] = make()
        site.set_operand(index, made[form])
        constant = constant_of(value)
        assert constant is not None
        constant.release()
        if not value.uses:
            del self._made[value]
            erase_constant(constant)


def _integer_form(weight: Weight, layer: NNOp) -> SSAValue:
    """Integers and nn.dequantize, placed right after the constant. 3 bits are stored in 4, 5 to 7 bits in 8 (AMCT)."""
    constant = constant_of(weight.value)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    location = layer.location if isinstance(constant.location, UnknownLoc) else constant.location
    integers, levels = integers_and_levels(weight)
    storage = IntegerType(4 if weight.bits <= 4 else 8)
    # the integers of 4 bits are those of 8, a byte each
    stored = ConstantOp.of(integers.view(numpy_dtype(storage)), f"{key}.i{storage.width.data}", location)
    points = [int(z) for z in weight.zero_points.reshape(-1)]
    qparams = QParamsAttr.of(storage, weight.scales, points, axis=weight.axis, key=f"{key}.scale", block=weight.block)
    back = DequantizeOp.make(
        stored.result,
        qparams=qparams,
        bits=None if weight.bits == storage.width.data else weight.bits,
        levels=None if levels is None else levels.tolist(),
        result_types=[weight.value.type],
        location=location,
        name=weight.value.name_hint,
    )
    Rewriter.insert_op([stored, back], InsertPoint.after(constant))
    return back.result


def feed_bias(site: Site, index: int, integers: Array, scales: Array, axis: int | None, key: str = "") -> None:
    """Feed an operand the dequantized form of its constant bias: int32 in units of the sums that it is added to."""
    bias = site.operand(index)
    constant = constant_of(bias)
    assert bias is not None
    assert constant is not None
    key = key or constant.key.removesuffix(".folded")
    stored = ConstantOp.of(integers, f"{key}.i32", constant.location)
    back = DequantizeOp.make(
        stored.result,
        qparams=QParamsAttr.of(i32, scales, axis=axis, key=f"{key}.scale"),
        result_types=[bias.type],
        location=constant.location,
        name=bias.name_hint,
    )
    Rewriter.insert_op([stored, back], InsertPoint.before(site.owner))
    site.set_operand(index, back.result)


def described(weight: Weight) -> str:
    """`int8 weight per channel of 16 levels`, `int4 weight per group of 128`."""
    count = weight.levels if isinstance(weight.levels, int | None) else len(weight.levels)
    few = "" if count is None else f" of {count} levels"
    asymmetric = ", asymmetric" if weight.zero_points.any() else ""
    scales = "tensor" if weight.axis is None else "channel" if weight.block is None else f"group of {weight.block}"
    return f"int{weight.bits} weight per {scales}{few}{asymmetric}"


# Non-uniform weights: int8 restricted to a few levels, so that lossless compression of weights shrinks them more. AMCT does not
# publish its search, whose time grows with its `num_of_iteration`. Ours does not iterate: the values of one level are neighbours
# on a line, so dynamic programming over the 256 values finds the best levels.

_LEAST, _MOST = -128, 127
_VALUES = np.arange(_LEAST, _MOST + 1)


def levels_of(weights: Array, steps: int) -> Array:
    """The int8 levels of least squared error, ascending: `steps`, or as many as there are distinct values where these are fewer.

    `weights` are int8 of any shape.
    """
    counts = np.bincount(weights.reshape(-1).astype(np.int64) - _LEAST, minlength=_VALUES.size)
    values, counts = _VALUES[counts > 0], counts[counts > 0]
    if values.size <= steps:
        return values.astype(np.int8)
    centres, costs = _runs(values, counts)
    best = costs[0]
    """The least cost of the values up to each one, with the levels used so far."""
    begins: list[Array] = []
    for _ in range(steps - 1):
        totals = best[:-1, None] + costs[1:, 1:]
        begins.append(np.argmin(totals, 0))
        best = np.append(np.inf, totals.min(0))
    levels: list[int] = []
    end = values.size - 1
    for begin in reversed(begins):
        first = int(begin[end - 1]) + 1
        levels.append(int(centres[first, end]))
        end = first - 1
    return np.array([int(centres[0, end]), *reversed(levels)], np.int8)


def _runs(values: Array, counts: Array) -> tuple[Array, Array]:
    """For the values from the i-th to the j-th, the whole number nearest to their mean, and their squared distance to it."""
    mass, first, second = (np.append(0, np.cumsum(counts * values**power)) for power in (0, 1, 2))
    m, f, s = (np.subtract.outer(sums[1:], sums[:-1]).T for sums in (mass, first, second))
    inside = np.triu(np.ones(m.shape, bool))
    centres = np.rint(f / np.where(inside, m, 1)).astype(np.int64)
    return centres, np.where(inside, s - 2 * centres * f + centres**2 * m, np.inf)


def nearest(weights: Array, levels: Array) -> Array:
    """Each int8 weight replaced by the nearest of the ascending levels; the lower one on ties."""
    wide = levels.astype(np.int64)
    place = np.searchsorted(wide[:-1] + wide[1:], 2 * _VALUES)
    return levels[place[weights.astype(np.int64) - _LEAST]]


Integers = np.ndarray[Any, np.dtype[Any]]


def stored_integers(module: ModuleOp, layers: Collection[str], profile: Profile) -> dict[str, Integers]:
    """The integers of the weights of quantized layers, by name, in the shapes and dtypes of the module."""
    found = _weights(module, layers, profile)
    return {layer_of(site.compute): constant.array for site, _, _, constant in found}


def put_integers(module: ModuleOp, integers: Mapping[str, Integers], profile: Profile) -> None:
    """Give the weights of quantized layers these integers. Raises CompileError, located at a layer, if they do not fit."""
    for site, index, back, constant in list(_weights(module, integers, profile)):
        array = integers[layer_of(site.compute)]
        if (array.shape, array.dtype) != (constant.array.shape, constant.array.dtype):
            wanted, given = ("x".join(map(str, (*a.shape, a.dtype))) for a in (constant.array, array))
            raise op_error(site.compute, f"has a weight of {wanted}; its integers were found for {given}")
        new = ConstantOp.of(array, f"{constant.key}.rounded", constant.location)
        again = back.clone()  # another layer may read it
        again.operands[0] = new.result
        Rewriter.insert_op([new, again], InsertPoint.after(back))
        site.set_operand(index, again.result)
        if not back.result.uses:
            Rewriter.erase_op(back)
    erase_dead_constants(module)


class Inexact(NamedTuple):
    """A layer whose sums of products onnxruntime may get wrong on some processors."""

    op: NNOp
    inputs: SSAValue | None
    """The integers that its input is dequantized from; None if it quantizes them itself, or if no sums saturate on x86."""
    offset: int
    """What the kernel, which reads 0 to 255, adds to these integers."""
    zero_point: int
    matrices: Array
    """Its weight: int8 [G, M, K]."""

    def overflows(self, inputs: Array) -> int:
        """How many sums of two neighbouring products leave 16 bits for these integers."""
        product = product_of(self.op)
        rows = product.rows(inputs.astype(np.float32) - self.zero_point, np.arange(product.places(inputs)[0]))
        integers = rows.astype(np.int32) + self.zero_point + self.offset
        sums = products_of_neighbours(integers, self.matrices)
        return sum(int(np.count_nonzero((each > HIGHEST) | (each < LOWEST))) for each in sums)

    @property
    def reason(self) -> str:
        """The share of its weight, as a sentence."""
        return why_inexact(self.matrices, self.op)


def inexact_layers(module: ModuleOp, profile: Profile) -> list[Inexact]:
    """The layers of a quantized module whose weights do not make sums exact on every processor."""
    found: list[Inexact] = []
    for site, _, _, constant in _weights(module, None, profile):
        back = dequantize_of(site.activation)
        if back is None or constant.array.dtype != np.int8 or not isinstance(site.compute, MULTIPLIED):
            continue
        params = back.qparams.data
        if params.storage.width.data == BITS:
            offset = 0 if params.storage.signedness.data == Signedness.UNSIGNED else 2 ** (BITS - 1)
            matrices = product_of(site.compute).matrices(constant.array)
            inputs = None if adds_singly(site.compute) else back.input
            found.append(Inexact(site.compute, inputs, offset, params.zero_point[0], matrices))
    for op in module.walk():
        weight = constant_of(op.rhs) if isinstance(op, MatMulIntegerOp) else None
        if isinstance(op, MatMulIntegerOp) and weight is not None and weight.array.dtype == np.int8:
            matrices = weight.array.swapaxes(-1, -2).reshape(-1, *weight.array.shape[:-3:-1])
            found.append(Inexact(op, None, 0, 0, matrices))
    return [each for each in found if each.reason]


def _weights(
    module: ModuleOp, layers: Collection[str] | None, profile: Profile
) -> Iterator[tuple[Site, int, DequantizeOp, ConstantOp]]:
    for site in sites(module, profile.rows):
        index = profile.rows[type(site.compute)].weight
        if index is None or (layers is not None and layer_of(site.compute) not in layers):
            continue
        back = dequantize_of(site.operand(index))
        constant = None if back is None else constant_of(back.input)
        if back is not None and constant is not None:
            yield site, index, back, constant
