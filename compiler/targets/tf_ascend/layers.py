"""The layers that compute in integers, and the same operations on floats. Filters are in TensorFlow's order."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from ...dialects import ascend
from ...dialects.ascend.base import same_pad_pairs, window_sizes
from ...dialects.nn.shapes import Shape, shape_of, static
from ...formats.tensorflow.attributes import GROUPS
from ..deployed import is_integer
from ..tensorflow.convolution import spread
from ..tensorflow.layer import TensorFlowLayer
from ..tensorflow.movement import pad_all
from ..tensorflow.window import Window
from .quantization import weight
from .table import by_meaning, converter, require_channels_last, takes_integers

_CONVOLUTIONS: dict[type[ascend.ConvolutionOp], str] = {
    ascend.Conv2DOp: "Conv2D",
    ascend.Conv3DOp: "Conv3D",
    ascend.DepthwiseConv2DOp: "DepthwiseConv2dNative",
}


@converter(*_CONVOLUTIONS)
def conv(op: ascend.ConvolutionOp, layer: TensorFlowLayer) -> str:
    """The padding of the operator: SAME if possible. Conv3D has no explicit padding, so its input is padded."""
    require_channels_last(op, layer)
    x, window = layer.value(op.x_value), _window(op, op.pad_list)
    padding = window.padding(explicit=window.rank == 2)
    if padding is None:
        x, padding = _padded(layer, x, op.pad_list), {"padding": "VALID"}
    # readers may know less of sizes than the module
    unsure = isinstance(op, ascend.GroupedOp) and not static(shape_of(op.x_value))
    groups = {GROUPS: op.group_count} if unsure else {}
    kernel = _operand(layer, op.filter_value, x)
    made = layer.node(_CONVOLUTIONS[type(op)], x, kernel, **window.sliding(), **padding, **groups)
    return _biased(layer, made, op.bias_value)


@converter(ascend.Conv2DTransposeOp, ascend.Conv2DBackpropInputOp)
def conv_transpose(op: ascend.TransposedOp, layer: TensorFlowLayer) -> str:
    """The gradient of a convolution; its padding is the cut-off part minus the part added at the end."""
    require_channels_last(op, layer)
    x, channels = layer.value(op.x_value), op.filter_sizes.out
    cuts = [(b, e - extra) for (b, e), extra in zip(op.pad_list, op.output_padding_list, strict=True)]
    window, kernel = _window(op, tuple(cuts)), _operand(layer, op.filter_value, x)
    padding = {"padding": "SAME"} if _is_same(op) else None
    return _biased(layer, spread(layer, "Conv2DBackpropInput", x, kernel, window, channels, padding), op.bias_value)


def _is_same(op: ascend.TransposedOp) -> bool:
    """Whether SAME padding of the convolution that it is the gradient of cuts off as much."""
    sizes = op.spatial(shape_of(op.results[0]))
    strided = zip(sizes, op.stride_list, strict=True)
    if not static(sizes) or op.spatial(shape_of(op.x_value)) != tuple(-(-size // stride) for size, stride in strided):
        return False
    begins = [begin for begin, _ in same_pad_pairs(sizes, op.filter_sizes.kernel, op.stride_list)]
    return begins == [begin for begin, _ in op.pad_list]


@converter(ascend.MatMulV2Op)
def matmul(op: ascend.MatMulV2Op, layer: TensorFlowLayer) -> str:
    a, b = (flag or None for flag in op.transposes)
    x = layer.value(op.x1)
    return _biased(layer, layer.node("MatMul", x, _operand(layer, op.x2, x), transpose_a=a, transpose_b=b), op.bias)


@converter(ascend.BatchMatMulV2Op)
def batch_matmul(op: ascend.BatchMatMulV2Op, layer: TensorFlowLayer) -> str:
    a, b = (flag or None for flag in op.transposes)
    x = layer.value(op.x1)
    return _biased(layer, layer.node("BatchMatMulV2", x, _operand(layer, op.x2, x), adj_x=a, adj_y=b), op.bias)


@converter(ascend.AvgPoolOp, ascend.AvgPoolV2Op)
def average_pool(op: ascend.AveragingOp, layer: TensorFlowLayer) -> str | list[str]:
    """TensorFlow's mean of each window: the count is removed from the scales. Padding that counts is added before."""
    require_channels_last(op, layer)
    if not takes_integers(op.x):
        made = by_meaning(op, layer)
        return made if isinstance(made, str) else list(made)
    sizes = op.spatial(shape_of(op.x))
    kernel, pads = op.kernel(sizes), op.resolved_pads(sizes)
    if not static(kernel):
        raise layer.error("averages over all of a space that is not known", "--infer-shapes sets the sizes of inputs")
    if op.rounds_up and not _rounds_nothing(op, sizes):
        raise layer.error("rounds sizes up, which TensorFlow's AvgPool does not")
    x, padding = layer.value(op.x), "SAME"
    if pads is not None and not any(map(any, pads)):
        padding = "VALID"
    elif op.counts_padding and pads is not None:
        x, padding = _padded(layer, x, pads), "VALID"
    elif pads is not None and pads != same_pad_pairs(sizes, kernel, op.stride_list):
        raise layer.error("pads otherwise than SAME, and does not count it: TensorFlow's AvgPool has no such padding")
    return layer.node("AvgPool", x, ksize=[1, *kernel, 1], strides=[1, *op.stride_list, 1], padding=padding)


def _rounds_nothing(op: ascend.AveragingOp, sizes: Shape) -> bool:
    """Whether as many windows fit without rounding up."""
    ones, pads = (1,) * len(sizes), op.resolved_pads(sizes)
    if pads is None:
        return True
    fitting = window_sizes(sizes, op.kernel(sizes), op.stride_list, ones, pads)
    return static(fitting) and fitting == op.spatial(shape_of(op.y))


def _window(op: ascend.ConvolutionOp, pads: tuple[tuple[int, int], ...]) -> Window:
    x, kernel = shape_of(op.x_value), op.filter_sizes.kernel
    flat = (*(b for b, _ in pads), *(e for _, e in pads))
    return Window(x[0], op.spatial(x), kernel, op.stride_list, op.dilation_list, flat, upper=True, ceil=False)


def _operand(layer: TensorFlowLayer, value: SSAValue, x: str) -> str:
    """A weight: unchanged for floats, after AscendWeightQuant for integers."""
    return weight(layer, value, layer.graph.elements[x]) if takes_integers(value) else layer.value(value)


def _padded(layer: TensorFlowLayer, x: str, pads: Any) -> str:
    """Zeros around space, which contribute nothing, also for integers without their zero point."""
    return pad_all(layer, x, [0, *(b for b, _ in pads), 0], [0, *(e for _, e in pads), 0], 0)


def _biased(layer: TensorFlowLayer, made: str, bias: SSAValue | None) -> str:
    """A bias after the layer; an int32 bias for accumulators is cast, before AscendDequant."""
    if bias is None:
        return made
    added = layer.cast(bias, layer.graph.elements[made]) if is_integer(layer.op) else layer.value(bias)
    return layer.helper("BiasAdd", made, added)
