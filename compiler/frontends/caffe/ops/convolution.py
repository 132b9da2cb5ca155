"""Convolution and Deconvolution."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from ....dialects import nn
from ..node import Converted, Node, Unmapped, converter
from .window import geometry, per_axis


@converter("Convolution", "DepthwiseConvolution")
def convolution(node: Node) -> Converted:
    """Weight `[M, C/group, *kernel]` as in `nn`. Output sizes are rounded down."""
    channels, outputs, groups, kernel = sizes_of(node)
    operands = _parameters(node, (outputs, channels // groups, *kernel), outputs)
    return node.emit(nn.ConvOp, node.value(0), *operands, groups=groups, **_geometry(node)).result


@converter("Deconvolution")
def deconvolution(node: Node) -> Converted:
    """Weight `[C, M/group, *kernel]` as in `nn`; `output = stride*(input - 1) + dilation*(kernel - 1) + 1 - 2*pad`."""
    channels, outputs, groups, kernel = sizes_of(node)
    operands = _parameters(node, (channels, outputs // groups, *kernel), outputs)
    return node.emit(nn.ConvTransposeOp, node.value(0), *operands, groups=groups, **_geometry(node)).result


def sizes_of(node: Node) -> tuple[int, int, int, list[int]]:
    """Input channels, output channels, groups, kernel."""
    p = node.proto.convolution_param
    rank = len(node.shape(0))
    if rank < 3:
        raise node.error(f"reads a blob of rank {rank}, but it needs spatial axes")
    if node.axis(p.axis) != 1:
        raise Unmapped(f"its channels are on axis {p.axis}")
    channels = node.size(1)
    if not p.num_output:
        raise node.error("has no num_output")
    if not p.group or channels % p.group or p.num_output % p.group:
        raise node.error(f"has group {p.group}, which does not divide {channels} channels and {p.num_output} outputs")
    return channels, p.num_output, p.group, per_axis(node, p, "kernel_size", rank - 2)


def _geometry(node: Node) -> dict[str, Any]:
    return geometry(node, node.proto.convolution_param, len(node.shape(0)) - 2)


def _parameters(node: Node, weight: tuple[int, ...], outputs: int) -> list[SSAValue]:
    bias = {"bias": (outputs,)} if node.proto.convolution_param.bias_term else {}
    return [node.sink.value(c) for c in node.parameters(weight=weight, **bias)]
