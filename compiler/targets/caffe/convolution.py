"""Convolution and Deconvolution. Caffe stores weights as `nn` does: `[out, in/group, *kernel]`, `[in, out/group, *kernel]`.

Caffe pads both ends of an axis alike. Other pads are written as a larger kernel, with zeros where the window is moved: what
the zeros multiply adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .layer import CaffeLayer, Written, converter
from .net import Array
from .quantization import compute


def spatial(name: str, values: Sequence[int], default: int | None = None) -> dict[str, object]:
    """A number for both spatial axes, `..._h` and `..._w` if they differ; for another number of axes one for each."""
    if default is not None and set(values) == {default}:
        return {}
    if len(values) != 2 or (name == "dilation" and values[0] != values[1]):
        return {name: list(values)}
    if values[0] == values[1]:
        return {name: values[0]}
    stem = name.removesuffix("_size")
    return {f"{stem}_h": values[0], f"{stem}_w": values[1]}


def listed(parameters: dict[str, object]) -> dict[str, object]:
    """The fields in the form of a convolution: one number for all axes is a list of one."""
    repeated = ("kernel_size", "stride", "pad", "dilation")
    return {k: [v] if k in repeated and not isinstance(v, list) else v for k, v in parameters.items()}


@converter(nn.ConvOp)
def conv(op: nn.ConvOp, layer: CaffeLayer) -> Written:
    pads = _pads(op, layer)
    n = op.spatial_rank
    more = [e - b for b, e in zip(pads[:n], pads[n:], strict=True)]
    zeros = [(max(m, 0), max(-m, 0)) for m in more]
    return _write(op, layer, "Convolution", list(map(max, pads[:n], pads[n:])), zeros)


@converter(nn.ConvTransposeOp)
def conv_transpose(op: nn.ConvTransposeOp, layer: CaffeLayer) -> Written:
    """`output = stride*(input - 1) + dilation*(kernel - 1) + 1 - 2*pad`: with a zero more in the kernel it is one more."""
    pads, n = _pads(op, layer), op.spatial_rank
    # the end needs this much more than it has when both ends are cut by `begin`; where it needs less, the begin gets more
    more = [p + b - e for b, e, p in zip(pads[:n], pads[n:], op.output_padding_list, strict=True)]
    zeros = [(max(-m, 0), max(m, 0)) for m in more]
    cut = [b + before for b, (before, _) in zip(pads[:n], zeros, strict=True)]
    if min(cut) < 0:
        layer.fail("asks for more than its windows cover at the beginning of an axis, Caffe cuts off only")
    return _write(op, layer, "Deconvolution", cut, zeros)


def _pads(op: nn.ConvolutionOp, layer: CaffeLayer) -> tuple[int, ...]:
    if (pads := op.resolved_pads(op.spatial(shape_of(op.input)))) is None:
        layer.fail("has an auto_pad that depends on sizes which are not known", "--input-shape gives sizes")
    return pads


def _write(
    op: nn.ConvolutionOp, layer: CaffeLayer, kind: str, pads: Sequence[int], zeros: Sequence[tuple[int, int]]
) -> str:
    """The layer with these pads at both ends, and a kernel with additional zeros before and after each axis."""
    taps = _taps(op, layer, zeros)
    if any(any(t) for t in taps):
        layer.note("pads", "Caffe pads both ends alike: the kernel has zeros where the ends differ")
    kernel = [k + sum(t) for k, t in zip(op.kernel_shape, taps, strict=True)]
    parameters = {
        "num_output": op.output_channels,
        **spatial("pad", pads, 0),
        **spatial("kernel_size", kernel),
        "group": op.group_count,
        **spatial("stride", op.stride_list, 1),
        **spatial("dilation", op.dilation_list, 1),
    }

    def weight(array: Array) -> Array:
        return np.pad(array, [(0, 0), (0, 0), *taps]) if any(any(t) for t in taps) else array

    return compute(op, layer, kind, "convolution_param", listed(parameters), weight)


def _taps(op: nn.ConvolutionOp, layer: CaffeLayer, zeros: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The number of zeros in the kernel, considering dilation."""
    if any(z % d for pair, d in zip(zeros, op.dilation_list, strict=True) for z in pair):
        layer.fail("has pads whose ends differ by no multiple of its dilations, Caffe pads both ends alike")
    return [(b // d, e // d) for (b, e), d in zip(zeros, op.dilation_list, strict=True)]
