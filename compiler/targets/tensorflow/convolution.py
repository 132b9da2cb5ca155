"""Convolutions. TensorFlow stores weights as `[*kernel, in/groups, out]`, transposed ones as `[*kernel, out/groups, in]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, Shape, known, shape_of, static
from ..graph import source
from .layer import TensorFlowLayer, converter
from .movement import cut, pad_all, weight
from .window import Window, lifted, padded

_AXES = 3
"""The maximum number of spatial axes of convolutions."""


@converter(nn.ConvOp)
def conv(op: nn.ConvOp, layer: TensorFlowLayer) -> str:
    """DepthwiseConv2dNative and Conv3D do not support dilation on a CPU: zeros in their kernels replace it."""
    _check_rank(op, layer)
    depthwise, window = is_depthwise(op), Window.of(op)
    kernel = _kernel(op, layer, depthwise)
    if (depthwise or op.spatial_rank == _AXES) and set(op.dilation_list) != {1}:
        kernel, window = _with_holes(op, layer, kernel, depthwise), window.dense()

    def write(x: str, window: Window) -> str:
        if depthwise:
            return _slide_depthwise(layer, x, kernel, window)
        if window.rank < _AXES:
            return _slide(layer, "Conv2D", x, kernel, window, window.padding(explicit=True))
        return _by_group(layer, op, x, kernel, lambda a, w: _slide(layer, "Conv3D", a, w, window, window.padding()))

    return _biased(op, layer, lifted(layer, window, layer.value(op.input), write))


def is_depthwise(op: nn.ConvolutionOp) -> bool:
    """Whether each group has one input channel; for a transposed convolution, one output channel."""
    return op.spatial_rank < _AXES and op.group_count > 1 and shape_of(op.weight)[1] == 1


def _has_groups(op: nn.ConvolutionOp) -> bool:
    """Whether a Conv2D has groups. On a CPU it has them on its own, but fused with a BiasAdd or a FusedBatchNorm it fails."""
    return op.spatial_rank < _AXES and op.group_count > 1 and not is_depthwise(op)


def is_of_groups(value: SSAValue) -> bool:
    """Whether a value is the result of a Conv2D with groups."""
    producer = source(value).owner
    return isinstance(producer, nn.ConvOp) and _has_groups(producer)


def _check_rank(op: nn.ConvolutionOp, layer: TensorFlowLayer) -> None:
    if op.spatial_rank > _AXES:
        raise layer.error(f"has {op.spatial_rank} spatial axes, TensorFlow's convolutions have {_AXES} at most")


def _kernel(op: nn.ConvolutionOp, layer: TensorFlowLayer, depthwise: bool) -> str:
    """The weight in TensorFlow's order, with an axis of 1 before a single spatial axis."""
    shape, to = shape_of(op.weight), _kernel_shape(op, depthwise)
    perm = (*range(2, len(shape)), 1, 0)
    return weight(layer, op.weight, perm, None if to == tuple(shape[p] for p in perm) else to)


def _kernel_shape(op: nn.ConvolutionOp, depthwise: bool) -> Shape:
    """`[*kernel, in/groups, out]`, of transposed ones `[*kernel, out/groups, in]`, depthwise `[*kernel, groups, rest]`."""
    shape, n = shape_of(op.weight), op.group_count
    space = (1, *shape[2:]) if len(shape) == 3 else shape[2:]
    if not depthwise:
        return (*space, shape[1], shape[0])
    return (*space, n, shape[0] // n if known(shape[0]) else DYNAMIC)


def _slide(
    layer: TensorFlowLayer, op_type: str, x: str, kernel: str, window: Window, padding: Mapping[str, object] | None
) -> str:
    """A convolution, with padding before it if it cannot pad itself."""
    if padding is None:
        x, padding = padded(layer, x, window, 0), {"padding": "VALID"}
    return layer.node(op_type, x, kernel, **window.sliding(), **padding)


def _slide_depthwise(layer: TensorFlowLayer, x: str, kernel: str, window: Window) -> str:
    """Writes a depthwise convolution: on a CPU both axes have one stride. If they differ, the wanted results are taken
    from those of a convolution without strides.

    Its explicit padding is not used: if oneDNN fuses it with a BiasAdd, TensorFlow 2.21 aborts.
    """
    if len(set(window.strides)) == 1:
        return _slide(layer, "DepthwiseConv2dNative", x, kernel, window, window.padding())
    x = padded(layer, x, window, 0)
    dense = _slide(layer, "DepthwiseConv2dNative", x, kernel, window.without_strides(), {"padding": "VALID"})
    return cut(layer, dense, [slice(None), *(slice(None, None, s) for s in window.strides), slice(None)])


def _by_group(
    layer: TensorFlowLayer, op: nn.ConvolutionOp, x: str, kernel: str, write: Callable[[str, str], str]
) -> str:
    """Writes groups for a CPU, which has none: splits the channels, and joins them again."""
    n, channels = op.group_count, shape_of(op.weight)[:2]
    if n == 1:
        return write(x, kernel)
    if not static(channels):
        raise layer.error("needs a weight of known shape", "--infer-shapes sets the sizes of inputs")
    # a kernel's last axis is the first of the weight: what goes out, of a transposed one what comes in
    last, filters = op.spatial_rank + 1 + (op.spatial_rank == 1), channels[0] // n
    taken = filters if isinstance(op, nn.ConvTransposeOp) else channels[1]
    xs = _split(layer, x, last, [taken] * n)
    kernels = _split(layer, kernel, last, [filters] * n)
    return layer.helper("ConcatV2", *map(write, xs, kernels), layer.int(last, "axis"))


def _split(layer: TensorFlowLayer, x: str, axis: int, sizes: Sequence[int]) -> list[str]:
    inputs = [x, layer.ints(sizes, "sizes"), layer.int(axis, "axis")]
    return layer.emit("SplitV", inputs, {"num_split": len(sizes)}, f"{layer.label}/SplitV", outputs=len(sizes))


def _biased(op: nn.ConvolutionOp, layer: TensorFlowLayer, x: str) -> str:
    if op.bias is None:
        return x
    return layer.helper("AddV2" if _has_groups(op) else "BiasAdd", x, op.bias)


@converter(nn.ConvTransposeOp)
def conv_transpose(op: nn.ConvTransposeOp, layer: TensorFlowLayer) -> str:
    """The gradient of a convolution's input: the area that the windows cover, then cut or filled to the output's size."""
    _check_rank(op, layer)
    if not static(op.kernel_shape):
        raise layer.error("needs a weight of known shape", "--infer-shapes sets the sizes of inputs")
    depthwise = is_depthwise(op)
    kernel = _kernel(op, layer, depthwise)
    if set(op.dilation_list) != {1}:
        kernel = _with_holes(op, layer, kernel, depthwise)

    def write(x: str, window: Window) -> str:
        if depthwise:
            full = spread(layer, "DepthwiseConv2dNativeBackpropInput", x, kernel, window, op.output_channels)
        else:
            op_type = "Conv3DBackpropInputV2" if window.rank == _AXES else "Conv2DBackpropInput"
            channels = op.output_channels // op.group_count
            full = _by_group(layer, op, x, kernel, lambda a, w: spread(layer, op_type, a, w, window, channels))
        if _own_padding(window) is not None:
            return full
        return pad_all(layer, full, [0, *(-b for b in window.begins), 0], [0, *(-e for e in window.ends), 0], 0)

    return _biased(op, layer, lifted(layer, _covered(op, layer), layer.value(op.input), write))


def _covered(op: nn.ConvTransposeOp, layer: TensorFlowLayer) -> Window:
    """The window; its pads are cut off the covered sizes, negative ones add zeros."""
    shape = shape_of(op.input)
    begins, cuts = _cuts(op, layer, op.spatial(shape))
    geometry = op.kernel_shape, op.stride_list, op.dilation_list
    return Window(shape[0], op.spatial(shape), *geometry, (*begins, *cuts), upper=True, ceil=False).dense()


def _with_holes(op: nn.ConvolutionOp, layer: TensorFlowLayer, kernel: str, depthwise: bool) -> str:
    """Writes a kernel with zeros between its elements for dilation: each is in a row with those after it."""
    shape = _kernel_shape(op, depthwise)
    channels, dilations = shape[-2:], (1, *op.dilation_list)[-len(shape) + 2 :]
    if not static(shape):
        raise layer.error("needs a weight of known shape", "--infer-shapes sets the sizes of inputs")
    rows = [size for k in shape[:-2] for size in (k, 1)]
    kernel = layer.helper("Reshape", kernel, layer.ints([*rows, *channels], "rows"))
    holes = [hole for d in dilations for hole in (0, d - 1)]
    kernel = pad_all(layer, kernel, [0] * (len(rows) + 2), [*holes, 0, 0], 0)
    wide = [k * d for k, d in zip(shape[:-2], dilations, strict=True)]
    kernel = layer.helper("Reshape", kernel, layer.ints([*wide, *channels], "wide"))
    return pad_all(layer, kernel, [0] * len(shape), [*(1 - d for d in dilations), 0, 0], 0)


def _cuts(op: nn.ConvTransposeOp, layer: TensorFlowLayer, spatial: Shape) -> tuple[Shape, Shape]:
    """The sizes to cut off at the begin and the end of each axis, so that the output starts with the first window's
    first element.
    """
    n = op.spatial_rank
    pads = op.resolved_pads(spatial)
    if op.auto_pad is not None and op.output_shape is None:
        # the output is a stride per input element, whatever the size is, or the covered area if that is less
        pads = op.resolved_pads((1,) * n)
        assert pads is not None
        rows = zip(op.full_sizes((1,) * n), op.stride_list, pads[:n], op.output_padding_list, strict=True)
        return pads[:n], tuple(full - extra - min(stride, full) - begin for full, stride, begin, extra in rows)
    if pads is None:
        raise layer.error("needs its input's size for output_shape", "--infer-shapes sets the sizes of inputs")
    return pads[:n], tuple(e - extra for e, extra in zip(pads[n:], op.output_padding_list, strict=True))


def _own_padding(window: Window) -> dict[str, object] | None:
    """The attributes with which a transposed convolution pads itself; None if it cannot.

    The convolution that it inverts may leave up to stride - 1 elements of its input unread: a negative end.
    """
    rows = zip(window.begins, window.ends, window.strides, strict=True)
    if window.rank == _AXES or any(b < 0 or e <= -stride for b, e, stride in rows):
        return None
    ends = [max(e, 0) for e in window.ends]
    if not any((*window.begins, *ends)):
        return {"padding": "VALID"}
    pairs = [p for pair in zip(window.begins, ends, strict=True) for p in pair]
    return {"padding": "EXPLICIT", "explicit_paddings": [0, 0, *pairs, 0, 0]}


def spread(
    layer: TensorFlowLayer,
    op_type: str,
    x: str,
    kernel: str,
    window: Window,
    channels: int,
    named: Mapping[str, object] | None = None,
) -> str:
    """Writes the gradient, of the size that is covered, less its own padding; `named` is that by another name."""
    padding = _own_padding(window)
    cuts = [0 if padding is None else b + e for b, e in zip(window.begins, window.ends, strict=True)]
    rows = zip(window.strides, window.extents, cuts, strict=True)
    factors, summands = [1, *window.strides, 0], [0, *(k - s - c for s, k, c in rows), channels]
    if known(window.batch) and static(window.spatial):
        sizes = [window.batch, *window.spatial, 0]
        vector = layer.ints([s * f + c for s, f, c in zip(sizes, factors, summands, strict=True)], "sizes")
    else:
        scaled = layer.helper("Mul", layer.sizes(x), layer.ints(factors, "factors"))
        vector = layer.helper("AddV2", scaled, layer.ints(summands, "summands"))
    return layer.node(op_type, vector, kernel, x, **window.sliding(), **(named or padding or {"padding": "VALID"}))
