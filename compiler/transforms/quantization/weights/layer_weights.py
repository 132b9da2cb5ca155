"""How the weight of a layer is quantized, and its integer form in the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerType, UnknownLoc
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.layer_settings import settings_for
from ....configuration.record import Record
from ....configuration.settings import Arq, Nuq, Settings
from ....diagnostics import op_error
from ....dialects.nn import ConstantOp, DequantizeOp, NNOp, QParamsAttr, array_of, constant_of
from ....dtypes import numpy_dtype
from ....rewriting import erase_constant
from ....runtime.affine import asymmetric_params, symmetric_scales
from ..layers import channel_axis, layer_at
from ..legality import Broken, non_uniform_broken
from ..parameters import NO_OFFSET, quantized
from ..profiles import Row
from ..sites import Site
from .non_uniform import levels_of, nearest

Array = np.ndarray[Any, np.dtype[Any]]


class Weight(NamedTuple):
    """The weight of a layer, and how it is quantized."""

    value: SSAValue
    array: Array
    scales: Array
    """float32, [] or along `axis`."""
    axis: int | None
    bits: int
    zero_points: Array = NO_OFFSET
    """int32, [] or along `axis`; other than 0 only where the layer's input stays float."""
    levels: int | tuple[int, ...] | None = None
    """How many different integers there may be, or which; None for any."""
    refused: Broken | None = None
    """Why there may be any, though settings ask for few."""
    fixed: bool = False
    """The scales are a record's."""


def weight_at(site: Site, row: Row, settings: Settings, record: Record | None, few: Mapping[str, Nuq]) -> Weight | None:
    """The weight as the record has it, else as settings say; None where the layer has no constant one.

    `few` are the layers that were chosen for weights of few levels. Raises CompileError, located in the record's file, for
    scales that do not fit the weight, and at a layer whose own settings ask for few levels that it cannot have.
    """
    if row.weight is None or (value := site.operand(row.weight)) is None or (array := array_of(value)) is None:
        return None
    layer = layer_at(site, row)
    if record is not None and layer.name in record.layers:
        return _recorded(site, value, array, record, layer.name)
    held = settings_for(settings, layer).weight
    assert isinstance(held, Arq | Nuq), "others are refused"
    axis = channel_axis(site.compute) if held.channel_wise else None
    if isinstance(held, Arq) and held.asymmetric:
        scales, zero_points = asymmetric_params(array, held.bits, axis)
        return Weight(value, array, scales, axis, held.bits, zero_points)
    wanted = held if isinstance(held, Nuq) else few.get(layer.name)
    bits = held.bits if wanted is None else wanted.bits
    uniform = Weight(value, array, symmetric_scales(array, bits, axis), axis, bits)
    if wanted is None:
        return uniform
    refused = non_uniform_broken(site, row.rules)
    if refused is not None and layer.name in settings.by_layer:
        raise op_error(site.compute, f"cannot have weights of few levels: {refused[1]}", "leave its nuq_quantize out")
    return uniform._replace(levels=wanted.num_steps if refused is None else None, refused=refused)


def _recorded(site: Site, value: SSAValue, array: Array, record: Record, name: str) -> Weight:
    given = record.layers[name]
    scales, zero_points = np.array(given.scale_w, np.float32), np.array(given.offset_w, np.int32)
    if not scales.size:
        raise record.error(name, "has no scale_w")
    levels = tuple(sorted(given.cluster)) or None
    if scales.size == 1:
        return Weight(value, array, scales[0], None, given.weight_bits, zero_points[0], levels, fixed=True)
    axis = channel_axis(site.compute)
    channels = None if axis is None else array.shape[axis]
    if channels != scales.size:
        takes = "one" if channels is None else f"one or {channels}"
        raise record.error(name, f"scale_w has {scales.size} numbers, its weight takes {takes}")
    return Weight(value, array, scales, axis, given.weight_bits, zero_points, levels, fixed=True)


_Form = tuple[bytes, bytes, int, int | tuple[int, ...] | None]
"""Scales, zero points, bits and levels: what distinguishes the integer forms of one weight."""


class IntegerWeights:
    """The integer forms that are made: one that layers share is made once. A weight goes as soon as its layers have theirs."""

    def __init__(self) -> None:
        self._made: dict[SSAValue, dict[_Form, SSAValue]] = {}

    def feed(self, site: Site, index: int, weight: Weight) -> None:
        """Feed an operand the dequantized integer form of its weight, of the weight's own type."""
        made = self._made.setdefault(weight.value, {})
        form = (weight.scales.tobytes(), weight.zero_points.tobytes(), weight.bits, weight.levels)
        if form not in made:
            made[form] = _integer_form(weight, site.compute)
        site.set_operand(index, made[form])
        constant = constant_of(weight.value)
        assert constant is not None
        constant.release()
        if not weight.value.uses.get_length():
            del self._made[weight.value]
            erase_constant(constant)


def _integer_form(weight: Weight, layer: NNOp) -> SSAValue:
    """Integers and nn.dequantize, placed right behind the constant. Integers of 5 to 7 bits are stored in 8 (AMCT)."""
    constant = constant_of(weight.value)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    location = layer.location if isinstance(constant.location, UnknownLoc) else constant.location
    integers = quantized(weight.array, weight.scales, weight.bits, weight.axis, weight.zero_points)
    if weight.levels is not None:
        levels = (
            levels_of(integers, weight.levels) if isinstance(weight.levels, int) else np.array(weight.levels, np.int8)
        )
        integers = nearest(integers, levels)
    storage = IntegerType(4 if weight.bits == 4 else 8)
    stored = ConstantOp.of(integers.astype(numpy_dtype(storage)), f"{key}.i{storage.width.data}", location)
    points = [int(z) for z in weight.zero_points.reshape(-1)]
    qparams = QParamsAttr.of(storage, weight.scales, points, axis=weight.axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        stored.result,
        qparams=qparams,
        result_types=[weight.value.type],
        location=location,
        name=weight.value.name_hint,
    )
    Rewriter.insert_op([stored, back], InsertPoint.after(constant))
    return back.result


def described(weight: Weight) -> str:
    """`int8 weight per channel of 16 levels`."""
    count = weight.levels if isinstance(weight.levels, int | None) else len(weight.levels)
    few = "" if count is None else f" of {count} levels"
    asymmetric = ", asymmetric" if weight.zero_points.any() else ""
    return f"int{weight.bits} weight per {'tensor' if weight.axis is None else 'channel'}{few}{asymmetric}"
