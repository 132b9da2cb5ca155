"""Reads deployed files of any framework: which values are integers, their zero points, and their scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr, f32, i32
from xdsl.ir import OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..dialects import ascend, nn
from ..dialects.ascend.base import FormatOp, i8, stand_ins
from ..dialects.ascend.convolution import XFirstOp
from ..dialects.ascend.cube import PACKED
from ..dialects.nn.shapes import element_of, shape_of, tensor
from ..formats import int4
from ..formats.deq_scale import Array, averaged, unpack
from ..ir.dtypes import numpy_dtype
from ..ir.functions import producer_of
from .building import Binding, Constant, Converted, Unmapped
from .node import SourceNode

_Node = TypeVar("_Node", bound=SourceNode)
_LAYERS = (nn.ConvolutionOp, nn.MatMulOp, nn.AveragePoolOp, nn.GlobalAveragePoolOp)
"""Operations that Ascend computes in integers."""
Kind = type[ascend.AscendOp]
"""An operation on integers: a convolution, a product or an average."""


def quantizer_of(value: SSAValue) -> ascend.AscendQuantOp | ascend.AscendRequantOp | None:
    """The AscendQuant or AscendRequant that these integers come from, past operations that move them. What is joined or
    filled in has the scale of the first operand.
    """
    op = producer_of(value)
    while isinstance(op, nn.NNOp) and (op.is_passive or isinstance(op, nn.MovingOp)):
        op = producer_of(op.operands[0])
    return op if isinstance(op, ascend.AscendQuantOp | ascend.AscendRequantOp) else None


def zero_point(node: SourceNode, value: SSAValue) -> int:
    """The zero point of a layer's integer input. Raises CompileError if it does not come from an AscendQuant."""
    if (quant := quantizer_of(value)) is None:
        raise node.error("takes integers that come from no AscendQuant: its zero point is not known")
    return int(quant.offset.value.data)


def mapped(convert: Callable[[_Node], Converted]) -> Callable[[_Node], Converted]:
    """The converter, whose Unmapped is an error: nothing that reads integers is carried."""

    def converted(node: _Node) -> Converted:
        try:
            return convert(node)
        except Unmapped as e:
            raise node.error(f"computes in integers, which is not supported: {e}") from None

    return converted


def on_integers(convert: Callable[[_Node], Converted], kind: Kind) -> Callable[[_Node], Converted]:
    """The converter of a layer on integers: `kind` with the geometry that the converter gives for floats."""

    def converted(node: _Node) -> Converted:
        made: dict[SSAValue, SSAValue] = {}

        def make_layer(like: type[nn.NNOp], x: Any, *rest: SSAValue | None, **properties: Any) -> nn.NNOp | None:
            if made:
                raise node.error("computes in integers, and is more than a layer and its bias")
            if not issubclass(like, _LAYERS):
                return None
            floats = [None if v is None else stand_ins([tensor(f32, shape_of(v))])[0] for v in (x, *rest)]
            try:
                layer = like.make(*floats, **properties)
                made[layer.results[0]] = _layer(node, kind, layer, x, *rest)
            except VerifyException as e:
                raise node.misfit(e) from None
            return layer

        node.make_layer = make_layer
        result = convert(node)
        assert isinstance(result, SSAValue)
        return made[result]

    return mapped(converted)


def unpack_input(node: SourceNode, index: int, axis: int) -> None:
    """Replace an int8 constant of a node, which has two numbers of four bits in each byte, by one with a number in each."""
    found = node.binding(index)
    assert isinstance(found, Constant)
    node.inputs[index] = Constant(found.key, int4.unpack(found.array, axis % found.array.ndim))


def marked(convert: Callable[[_Node], Converted]) -> Callable[[_Node], Converted]:
    """The converter of a layer, which is marked: its weights are packed in files."""

    def converted(node: _Node) -> Converted:
        results = convert(node)
        for value in [results] if isinstance(results, SSAValue | Constant) else results:
            if isinstance(value, OpResult):
                value.op.attributes[PACKED] = UnitAttr()
        return results

    return converted


_ON_MORE_AXES: Mapping[tuple[Kind, int], Kind] = {
    (ascend.Conv2DOp, 5): ascend.Conv3DOp,
    (ascend.FullyConnectionOp, 4): ascend.BatchMatMulV2Op,
    (ascend.FullyConnectionOp, 5): ascend.BatchMatMulV2Op,
}
"""Operations that take the place of others, by the operation and the rank of x."""


def _layer(
    node: SourceNode,
    kind: Kind,
    like: Any,
    x: SSAValue,
    weight: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> SSAValue:
    """The operation of `ascend`."""
    offset, rank, constants = zero_point(node, x), len(shape_of(x)), node.sink.constants
    of_bias = [constants.pop()] if bias is not None and constants[-1] is bias.owner else []
    kind = _ON_MORE_AXES.get((kind, rank), kind)
    if issubclass(kind, FormatOp) and rank != len(kind.FORMATS[0]):
        x, weight = _with_axis(node, kind, like, x, weight)
    properties = kind.like(like)
    if kind is ascend.FullyConnectionOp:
        x = node.value(0)  # before axes are merged
    if kind is ascend.DepthwiseConv2DOp or (isinstance(like, nn.ConvolutionOp) and like.channels_last):
        weight = node.value(1)  # as TensorFlow and Ascend IR have it, not `nn`
    if weight is not None and not (isinstance(like, nn.MatMulOp) and _is_second_input(node, weight)):
        _check_weight(node, weight)
    if bias is not None:
        _check_bias(node, bias)
    if isinstance(like, nn.PoolOp) and set(like.dilation_list) != {1}:
        raise node.error("computes in integers with dilations, which Ascend IR does not support")
    operands = [x] if weight is None else [x, weight, bias]
    if kind is ascend.Conv2DTransposeOp:
        operands = [node.constant(np.zeros(4, np.int64), ".input_size"), *operands]
    constants += of_bias  # after those of the other operands
    return node.emit(kind, *operands, **properties, offset_x=offset).results[0]


def _with_axis(
    node: SourceNode, kind: type[FormatOp], like: nn.NNOp, x: SSAValue, weight: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    """x and the weight of a convolution of one axis with an axis of size 1, which `without_added_axis` drops again."""
    if weight is None or len(shape_of(x)) != 3 or not isinstance(like, nn.LayoutOp) or like.channels_last:
        raise node.error(
            f"computes in integers on a tensor of rank {len(shape_of(x))}, "
            f"{kind.name.removeprefix('ascend.')} takes rank {len(kind.FORMATS[0])}"
        )
    if (constant := node.sink.constant_of(weight)) is None:
        raise node.error("computes in integers along one axis with a weight that is computed at run time")
    out, channels, size = constant.array.shape
    wider = node.emit(nn.UnsqueezeOp, x, axes=[2]).result
    return wider, node.sink.value(constant.reshaped((out, channels, 1, size)))


def bias_added(node: SourceNode, stored: Callable[[Constant], Constant | None] = lambda bias: bias) -> SSAValue:
    """Makes an addition between a layer and its dequantization the bias of the layer; `stored` gives the int32 constant."""
    first = 0 if is_accumulator(node.inputs[0]) else 1
    layer = producer_of(node.inputs[first])
    if not isinstance(layer, XFirstOp | ascend.MatrixOp) or layer.bias is not None:
        raise node.error("adds to the int32 result of a layer that has a bias, or takes none")
    found = node.binding(1 - first)
    bias = stored(found) if isinstance(found, Constant) else None
    if bias is None or bias.array.dtype != np.int32:
        raise node.error("adds something other than an int32 constant to the int32 result of a layer")
    if (array := bias.array).size != max(array.shape, default=1):
        shape = list(array.shape)
        raise node.error(f"adds a constant of shape {shape} to the result of a layer, but it must be a vector")
    kept = {name: value for name, value in layer.properties.items() if name != "origin"}
    vector = node.sink.value(bias.reshaped((array.size,)))
    return node.emit(type(layer), *layer.operands, vector, origin=layer.origin, **kept).y


def without_added_axis(node: SourceNode, accumulator: SSAValue, value: SSAValue) -> SSAValue:
    """The value computed from an accumulator, without the axis that was added to its convolution."""
    layer = producer_of(accumulator)
    if not isinstance(layer, ascend.ConvolutionOp):
        return value
    before = producer_of(layer.x_value)
    if not isinstance(before, nn.UnsqueezeOp) or before.origin != layer.origin:
        return value
    return node.emit(nn.SqueezeOp, value, axes=[2]).result


def _is_second_input(node: SourceNode, value: SSAValue) -> bool:
    """Whether the second operand comes from an AscendQuant, not from a weight. Raises CompileError if it has a zero point."""
    if (quant := quantizer_of(value)) is None:
        return False
    if zero := quant.offset.value.data:
        raise node.error(f"multiplies by integers with the zero point {zero:g}, but it must be 0")
    return True


def _check_weight(node: SourceNode, weight: SSAValue) -> None:
    """Raises CompileError for a weight that is not int8 or not constant."""
    if (element := element_of(weight)) != i8:
        raise node.error(f"has integer data and a weight of {numpy_dtype(element)}, but it must be int8")
    if nn.constant_of(weight) is None and not isinstance(producer_of(weight), ascend.AscendWeightQuantOp):
        raise node.error("computes in integers with a weight that is computed at run time")


def _check_bias(node: SourceNode, bias: SSAValue) -> None:
    """Raises CompileError for a bias that is not int32 or not constant."""
    if (element := element_of(bias)) != i32:
        raise node.error(f"has integer data and a bias of {numpy_dtype(element)}, but it must be int32")
    if nn.constant_of(bias) is None:
        raise node.error("computes in integers with a bias that is computed at run time")


def is_accumulator(value: object) -> bool:
    """Whether a value is the int32 result of a layer."""
    op = producer_of(value)
    return isinstance(op, ascend.CubeOp | ascend.AveragingOp) and element_of(op.results[0]) == i32


def accumulator(node: SourceNode) -> SSAValue:
    """The first input, which must be the result of a layer."""
    x = node.value(0)
    if element_of(x) != i32:
        raise node.error(f"takes the int32 result of a layer, not {node.dtype(0)}")
    return x


def parameter(node: SourceNode) -> Array:
    """The second input, a vector of uint64 with scales."""
    packed = constant(node, 1, "parameter", "uint64")
    if packed.ndim != 1 or not packed.size:
        raise node.error(f"has a parameter of shape {list(packed.shape)}, but it must be a vector")
    return packed


def shifts(node: SourceNode, shift: Array) -> list[int] | None:
    """The shifts; None if accumulators are not shifted."""
    if not shift.any():
        return None
    if shift.max() > 16:
        raise node.error(f"has shifts that are not in [0, 16]: {sorted(set(shift.tolist()))}")
    return [int(n) for n in shift]


def origin_of(node: SourceNode) -> nn.OriginAttr:
    """The origin without attributes, which are all properties of the operation."""
    return nn.OriginAttr.of(node.origin.framework.data, node.op_type, node.layer.name)


def dequantized(node: SourceNode, x: SSAValue, packed: Array, **properties: Any) -> SSAValue:
    """AscendDequant of an accumulator, with the scales and shifts in 64-bit integers."""
    scale, shift, weight_offset = unpack(packed)
    if weight_offset.any():
        raise node.error("has a weight with an offset that is not 0")
    constant, shift_n = scales(node, x, scale), shifts(node, shift)
    y = node.emit(ascend.AscendDequantOp, x, constant, shift_n=shift_n, origin=origin_of(node), **properties).y
    return without_added_axis(node, x, y)


def weight_quant(node: SourceNode) -> Binding:
    """The weight itself if the offsets are 0, as in every model that AMCT quantizes with activations."""
    constant(node, 0, "weight", "int8")
    if not constant(node, 1, "offset", "int8").any():
        return node.binding(0)
    return node.emit(ascend.AscendWeightQuantOp, node.value(0), node.value(1), origin=origin_of(node)).y


def scales(node: SourceNode, x: SSAValue, scale: Array) -> SSAValue:
    """The scales of an accumulator, as a constant; those of a pool, whose operator averages, are converted to scales of sums.

    They are of full rank unless their axis is 1, which a vector means to Ascend IR.
    """
    layer, rank, array = producer_of(x), len(shape_of(x)), _of_sums(node, x, scale)
    axis = layer.channel_axis if isinstance(layer, FormatOp) else rank - 1 if isinstance(layer, ascend.MatrixOp) else 1
    shape = (1,) * axis + (-1,) + (1,) * (rank - axis - 1) if array.size > 1 and axis != 1 else (-1,)
    return node.sink.value(Constant(f"{node.layer.name}.scale", array.reshape(shape)))


def _of_sums(node: SourceNode, x: SSAValue, scale: Array) -> Array:
    if not np.all((scale > 0) & np.isfinite(scale)):
        raise node.error("has a scale that is not positive and finite")
    pool = producer_of(x)
    if not isinstance(pool, ascend.AveragingOp):
        return scale
    if (count := pool.constant_count()) is None:
        raise node.error("follows a pool whose windows do not all count the same number of elements")
    return averaged(scale, count)


def constant(node: SourceNode, index: int, what: str, dtype: str) -> Array:
    """The numbers of an input of this type."""
    if node.dtype(index).name != dtype:
        raise node.error(f"has a {what} of {node.dtype(index)}, but it must be {dtype}")
    if (array := node.array(index)) is None:
        raise node.error(f"has a {what} that is computed at run time, but it must be a constant")
    return array


def real(node: SourceNode) -> SSAValue:
    """The first input, which must be a tensor of floats."""
    if (name := node.dtype(0).name) not in ("float32", "float16"):
        raise node.error(f"takes float32 or float16, not {name}")
    return node.value(0)


def attribute_number(node: Any, name: str) -> float:
    """A number that a node must have. Raises CompileError."""
    if name not in node.attributes:
        raise node.error(f"has no attribute '{name}'")
    return check_finite(node, name, node.float(name, 0.0))


def check_finite(node: SourceNode, name: str, value: float) -> float:
    """The number. Raises CompileError, at the node, for NaN and Inf."""
    if not isfinite(value):
        raise node.error(f"has the {name} {value}")
    return value


def check_offset(node: SourceNode, offset: float, low: int, high: int) -> None:
    """Raises CompileError, at the node, for an offset that is not an integer from `low` to `high`."""
    if not (offset.is_integer() and low <= offset <= high):
        raise node.error(f"has the offset {offset:g}, but it must be an integer in [{low}, {high}]")
