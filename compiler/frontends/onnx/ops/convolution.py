"""Conv and ConvTranspose."""

from __future__ import annotations

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from ...shapes import normalized, with_pads
from ..node import Converted, Node, converter
from .window import geometry


@converter("Conv")
def conv(node: Node) -> Converted:
    """Weight `[M, C/group, *kernel]` as in `nn`."""
    operands = node.value(0), node.value(1), None if _adds_nothing(node) else node.optional(2)
    op = node.emit(nn.ConvOp, *operands, groups=node.int("group", 1), **geometry(node))
    _check_kernel(node, op)
    return with_pads(op).result


@converter("ConvTranspose")
def conv_transpose(node: Node) -> Converted:
    """Weight `[C, M/group, *kernel]` as in `nn`. `output_shape` overrides `pads`."""
    window = geometry(node)
    output_shape = node.ints("output_shape")
    if output_shape is not None:
        # batch and channels may be listed too; onnxruntime accepts both forms
        rank = len(node.shape(0))
        output_shape = output_shape[2:] if len(output_shape) == rank else output_shape
        window["pads"] = None
    op = node.emit(
        nn.ConvTransposeOp,
        node.value(0),
        node.value(1),
        node.optional(2),
        groups=node.int("group", 1),
        output_padding=node.ints("output_padding"),
        output_shape=output_shape,
        **window,
    )
    _check_kernel(node, op)
    return normalized(op).result


def _adds_nothing(node: Node) -> bool:
    """Whether the bias is zeros of another shape than `[M]`: torch's exporter writes `[M, 2]` for a Conv3d without bias."""
    bias = node.array(2) if node.has(2) else None
    return bias is not None and bias.ndim != 1 and not bias.any()


def _check_kernel(node: Node, op: nn.ConvolutionOp) -> None:
    kernel, weight = node.ints("kernel_shape"), shape_of(op.weight)
    if kernel is not None and tuple(kernel) != weight[2:] and all(d >= 0 for d in weight[2:]):
        raise node.error(f"has kernel_shape {kernel}, its weight is of shape {list(weight)}")
