"""Layers on results of AscendQuant: the same operators as on floats, with int8 weights and an int32 bias, giving int32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import ascend, nn
from .....dialects.ascend.convolution import full_rank
from .....dialects.nn.shapes import known, same_pads
from ....deployed import is_accumulator, is_second_input, producer, zero_point
from ...node import Constant, Converted, Node
from ..convolution import channels_of, groups_of, transposed_window
from ..shape import pads_of
from ..window import geometry, spatial
from .integers import on_accumulators, on_integers

_FORMATS = {("nchw", 4): "NCHW", ("nhwc", 4): "NHWC", ("nchw", 5): "NCDHW", ("nhwc", 5): "NDHWC"}
"""By layout and rank."""

_WITH_BIAS = (ascend.GroupedOp, ascend.DepthwiseConv2DOp, ascend.Conv2DTransposeOp, ascend.MatrixOp)


@on_integers("Conv2D", "Conv3D")
def conv(node: Node) -> Converted:
    rank = len(node.shape(0))
    kind = ascend.Conv3DOp if node.op_type == "Conv3D" else ascend.Conv2DOp
    weight, groups = _filter(node), groups_of(node, channels_of(node))
    x, properties = node.value(0), _window(node, rank)
    if kind is ascend.Conv3DOp and (zero := zero_point(node, x)):
        raise node.error(f"takes integers with the zero point {zero}, but it must be 0")
    return node.emit(kind, x, weight, **properties, groups=groups, offset_x=zero_point(node, x)).y


@on_integers("DepthwiseConv2dNative")
def depthwise(node: Node) -> Converted:
    _check_weight(node)
    x, properties = node.value(0), _window(node, 4)
    return node.emit(ascend.DepthwiseConv2DOp, x, node.value(1), **properties, offset_x=zero_point(node, x)).y


@on_integers("Conv2DBackpropInput")
def conv_transpose(node: Node) -> Converted:
    weight, found = _filter(node), transposed_window(node)
    data_format = _FORMATS[node.layout, 4]
    x, input_size = node.value(2), node.constant(np.zeros(4, np.int64), ".input_size")
    return node.emit(
        ascend.Conv2DTransposeOp,
        input_size,
        x,
        weight,
        strides=full_rank(data_format, found.strides),
        dilations=full_rank(data_format, found.dilations),
        pads=[p for cut in found.cuts for p in (cut.begin, cut.end)],
        output_padding=full_rank(data_format, [cut.extra for cut in found.cuts], neutral=0),
        groups=found.groups,
        data_format=data_format,
        offset_x=zero_point(node, x),
    ).y


@on_integers("MatMul")
def matmul(node: Node) -> Converted:
    _check_weight(node)
    x, flags = node.value(0), {f"transpose_x{i}": node.flag(f"transpose_{n}") for i, n in ((1, "a"), (2, "b"))}
    return node.emit(ascend.MatMulV2Op, x, node.value(1), **flags, offset_x=zero_point(node, x)).y


@on_integers("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(node: Node) -> Converted:
    """The product of an input and a weight, or of two inputs."""
    if not is_second_input(node, node.value(1)):
        _check_weight(node)
    x, flags = node.value(0), {f"adj_x{i}": node.flag(f"adj_{n}") for i, n in ((1, "x"), (2, "y"))}
    return node.emit(ascend.BatchMatMulV2Op, x, node.value(1), **flags, offset_x=zero_point(node, x)).y


@on_integers("AvgPool")
def average_pool(node: Node) -> Converted:
    """The sum of each window; AscendDequant divides by the count."""
    x, rank = node.value(0), len(node.shape(0))
    data_format = _FORMATS[node.layout, 4]
    return node.emit(
        ascend.AvgPoolOp,
        x,
        ksize=full_rank(data_format, spatial(node, "window sizes", node.ints("ksize"), rank)),
        strides=full_rank(data_format, spatial(node, "strides", node.ints("strides"), rank)),
        padding=node.choice("padding", "", ("SAME", "VALID")),
        data_format=data_format,
        offset_x=zero_point(node, x),
    ).y


@on_integers("Pad", "PadV2")
def pad(node: Node) -> Converted:
    """A padding value v of floats becomes zero point + v of integers."""
    value = float(node.number(2)) if node.has(2) else 0.0
    filled = value + zero_point(node, node.value(0))
    if not (filled.is_integer() and -128 <= filled <= 127):
        raise node.error(f"adds {value:g} to integers, which int8 cannot hold")
    return node.emit(nn.PadOp, node.value(0), pads=pads_of(node), value=filled).result


@on_accumulators("Add", "AddV2", "BiasAdd", "BiasAddV1")
def bias_add(node: Node) -> Converted:
    """Makes an addition between a layer and its AscendDequant the bias of the layer."""
    first = 0 if is_accumulator(node.inputs[0]) else 1
    layer = producer(node.value(first))
    if not isinstance(layer, _WITH_BIAS) or layer.bias is not None:
        raise node.error("adds to the int32 result of a layer that has a bias, or takes none")
    kept = {name: value for name, value in layer.properties.items() if name != "origin"}
    made = node.emit(type(layer), *layer.operands, _bias(node, 1 - first), origin=layer.origin, **kept)
    return made.y


def _bias(node: Node, index: int) -> SSAValue:
    """The int32 vector before a Cast to floats."""
    found = node.binding(index)
    integers = found.integers if isinstance(found, Constant) else None
    if integers is None:
        raise node.error("adds something other than an int32 constant behind a Cast to the int32 result of a layer")
    if (array := integers.array).size != max(array.shape, default=1):
        raise node.error(
            f"adds a constant of shape {list(array.shape)} to the result of a layer, but it must be a vector"
        )
    return node.sink.value(integers.reshaped((array.size,)))


def _filter(node: Node) -> SSAValue:
    """`[*kernel, in, out]`, as Ascend IR has it beside channels last; beside channels second turned to `[out, in, *kernel]`."""
    _check_weight(node)
    rank = len(node.shape(1))
    return node.transposed(1, (rank - 1, rank - 2, *range(rank - 2))) if node.layout == "nchw" else node.value(1)


def _check_weight(node: Node) -> None:
    """Raises CompileError for a weight that is not int8 or not constant."""
    data = 2 if node.op_type == "Conv2DBackpropInput" else 0
    if {node.dtype(data).name, node.dtype(1).name} != {"int8"}:
        raise node.error(f"multiplies {node.dtype(data)} data and a weight of {node.dtype(1)}, not int8 both")
    if node.array(1) is None and not isinstance(producer(node.value(1)), ascend.AscendWeightQuantOp):
        raise node.error("computes in int8 with a weight that is computed at run time")


def _window(node: Node, rank: int) -> dict[str, Any]:
    """strides, pads (begin and end of each axis adjacent), dilations in Ascend's form."""
    if (node.layout, rank) not in _FORMATS:
        raise node.error(f"computes in int8 on a tensor of rank {rank}, Ascend IR has ranks 4 and 5")
    data_format, found = _FORMATS[node.layout, rank], geometry(node)
    return {
        "strides": full_rank(data_format, found["strides"]),
        "dilations": full_rank(data_format, found["dilations"]),
        "pads": _pads(node, found),
        "data_format": data_format,
    }


def _pads(node: Node, found: dict[str, Any]) -> list[int]:
    strides, dilations = found["strides"], found["dilations"]
    n = len(strides)
    if found["auto_pad"] is None:
        pads: Sequence[int] = found["pads"] or [0] * (2 * n)
        if len(pads) != 2 * n:
            raise node.error(f"has explicit_paddings for {len(pads) // 2} axes of space, not {n}")
        return [p for pair in zip(pads[:n], pads[n:], strict=True) for p in pair]
    shape, first = node.shape(0), 2 if node.layout == "nchw" else 1
    sizes = shape[first : first + n]
    kernel = node.shape(1)[:n]
    if any(not known(size) and stride > 1 for size, stride in zip(sizes, strides, strict=True)):
        raise node.error("has SAME padding, which depends on sizes that are not known")
    rows = zip(sizes, kernel, strides, dilations, strict=True)
    return [p for row in rows for p in same_pads(*row, upper=True)]
