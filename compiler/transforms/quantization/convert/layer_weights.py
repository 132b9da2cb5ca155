"""A layer's quantized weight and bias in the module: their stored form, and integers kept apart from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import LocationAttr, ModuleOp, Signedness, UnknownLoc, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import (
    ConstantOp,
    DequantizeFloatOp,
    DequantizeOp,
    MatMulIntegerOp,
    NNOp,
    QParamsAttr,
    constant_of,
    dequantize_of,
)
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....ir.number_formats import NUMBER_FORMATS
from ....rewriting import erase_constant, erase_dead_constants, layer_of
from ....support.diagnostics import op_error
from ..decide.sites import Site, sites
from ..numbers.formats import format_elements
from ..numbers.weights import Weight
from ..portable import (
    BITS,
    HIGHEST,
    LOWEST,
    MULTIPLIED,
    adds_singly,
    products_of_neighbours,
    why_inexact,
)
from ..products import product_of
from ..profiles import Profile


class StoredWeights:
    """Creates the stored forms of weights, shared ones once. A float weight is erased once all its layers are converted."""

    def __init__(self) -> None:
        self._made: dict[SSAValue, dict[object, SSAValue]] = {}
        """The forms of each weight, by the properties that distinguish them."""

    def feed(self, site: Site, index: int, weight: Weight) -> None:
        """Feed an operand the reals of the stored form of its weight, in the weight's own type."""
        value, how, numbers = weight.value, weight.how, (weight.scales.tobytes(), weight.zero_points.tobytes())
        form = (*numbers, how.bits, how.axis, how.block, how.levels, how.number_format)
        made = self._made.setdefault(value, {})
        if form not in made:
            made[form] = _stored(weight, site.compute)
        site.set_operand(index, made[form])
        constant = constant_of(value)
        assert constant is not None
        constant.release()
        if not value.uses:
            del self._made[value]
            erase_constant(constant)


def _stored(weight: Weight, layer: NNOp) -> SSAValue:
    """The reals of a weight's stored form, whose operations are placed right after the constant."""
    constant = constant_of(weight.value)
    assert constant is not None
    location = layer.location if isinstance(constant.location, UnknownLoc) else constant.location
    made = (_floats if weight.how.number_format is not None else _integers)(weight, location)
    Rewriter.insert_op(made, InsertPoint.after(constant))
    return made[-1].results[0]


def _integers(weight: Weight, location: LocationAttr) -> list[Operation]:
    """Integers and nn.dequantize."""
    how, key = weight.how, constant_key(weight.value)
    integers, levels = weight.integers_and_levels()
    storage = how.storage
    # integers of fewer bits are those of 8, a byte each
    stored = ConstantOp.of(integers.view(numpy_dtype(storage)), f"{key}.i{storage.width.data}", location)
    points = [int(z) for z in weight.zero_points.reshape(-1)]
    qparams = QParamsAttr.of(storage, weight.scales, points, axis=how.axis, key=f"{key}.scale", block=how.block)
    back = DequantizeOp.make(
        stored.result,
        qparams=qparams,
        bits=None if how.bits == storage.width.data else how.bits,
        levels=None if levels is None else levels.tolist(),
        result_types=[weight.value.type],
        location=location,
        name=weight.value.name_hint,
    )
    return [stored, back]


def _floats(weight: Weight, location: LocationAttr) -> list[Operation]:
    """Elements and scales of a number format, and nn.dequantize_float."""
    how, key, name = weight.how, constant_key(weight.value), weight.value.name_hint
    assert how.number_format is not None
    stored = format_elements(
        weight.array, weight.scales, weight.tensor_scale, NUMBER_FORMATS[how.number_format], how.axis
    )
    elements = ConstantOp.of(stored, f"{key}.{how.number_format}", location)
    scales = ConstantOp.of(weight.scales, f"{key}.scale", location)
    made: list[Operation] = [elements, scales]
    scale: SSAValue = scales.result
    if weight.tensor_scale is not None:
        factor = ConstantOp.of(weight.tensor_scale, f"{key}.tensor_scale", location)
        again = DequantizeFloatOp.make(scale, factor.result, location=location, name=f"{key}_scale")
        made += [factor, again]
        scale = again.result
    back = DequantizeFloatOp.make(
        elements.result,
        scale,
        axis=how.axis,
        block=how.block,
        result_types=[weight.value.type],
        location=location,
        name=name,
    )
    return [*made, back]


def constant_key(value: SSAValue | None) -> str:
    """The key of a constant, without the mark of a fold."""
    constant = constant_of(value)
    assert constant is not None
    return constant.key.removesuffix(".folded")


def feed_bias(site: Site, index: int, integers: Array, scales: Array, axis: int | None, key: str = "") -> None:
    """Feed an operand the dequantized form of its constant bias: int32 in units of the sums that it is added to."""
    bias = site.operand(index)
    constant = constant_of(bias)
    assert bias is not None
    assert constant is not None
    key = key or constant_key(bias)
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
    """A layer whose sums of products onnxruntime may get wrong on some processors: for its `reason`, if it has one."""

    op: NNOp
    inputs: SSAValue | None
    """The integers that its input is dequantized from; None if it quantizes them itself, or if no sums saturate on x86."""
    offset: int
    """The number that the kernel, which reads 0 to 255, adds to these integers."""
    zero_point: int
    matrices: Array
    """The weight: int8 [G, M, K]."""
    arranged: Callable[[Array, NNOp], Array] | None = None
    """Brings the columns of inputs [G, R, K] into the order of those of `matrices`; None if they have it."""

    def overflows(self, inputs: Array) -> int:
        """The number of sums of two neighbouring products that leave 16 bits for these integers."""
        product = product_of(self.op)
        rows = product.rows(inputs.astype(np.float32) - self.zero_point, np.arange(product.places(inputs)[0]))
        integers = rows.astype(np.int32) + self.zero_point + self.offset
        integers = integers if self.arranged is None else self.arranged(integers, self.op)
        sums = products_of_neighbours(integers, self.matrices)
        return sum(int(np.count_nonzero((each > HIGHEST) | (each < LOWEST))) for each in sums)

    @property
    def reason(self) -> str:
        """The share of its weight, as a sentence."""
        return why_inexact(self.matrices, self.op)


def inexact_layers(module: ModuleOp, profile: Profile) -> list[Inexact]:
    """The layers of a quantized module whose weights do not make sums exact on every processor."""
    return [each for each in multiplied_layers(module, profile) if each.reason]


def multiplied_layers(module: ModuleOp, profile: Profile) -> list[Inexact]:
    """The layers of a quantized module that multiply inputs of 8 bits by constant weights of int8."""
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
    return found


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
