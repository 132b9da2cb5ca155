"""Convolutions of int8, and the patterns of convolutions in their order."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...rewriting import condition
from .constants import Array
from .convolution_operators import (
    Conv2D,
    Conv2DBackpropInput,
    Conv2DTranspose,
    Convolution,
    Deconvolution,
    DepthwiseConv2D,
    Operands,
    biased,
)
from .quantized import (
    InIntegers,
    MatrixEngine,
    SymmetricWeight,
    dequantized,
    int8_behind,
    integers_behind,
    products,
    scale_of,
    stored,
)
from .rules import Builder, Values


class IntegerConvolution(
    Convolution[Any], MatrixEngine[nn.ConvolutionOp], SymmetricWeight[nn.ConvolutionOp], InIntegers[nn.ConvolutionOp]
):
    """The integer convolution, AscendDequant, and, in float, a bias that cannot be its operand"""

    def channels(self, op: nn.ConvolutionOp) -> int | None:
        if not isinstance(op, nn.ConvTransposeOp):
            return 0
        # with groups, a scale along axis 1 of a transposed weight belongs to several output channels
        return 1 if op.group_count == 1 else None

    def scales(self, op: nn.ConvolutionOp) -> Array:
        return products(self.params(op).scales(), scale_of(op.weight))

    def bias(self, op: nn.ConvolutionOp) -> nn.DequantizeOp | None:
        return nn.dequantize_of(op.bias) if self.has_bias else None

    def rewrite(self, build: Builder, op: nn.ConvolutionOp) -> Values:
        (activation,) = self.activations(build, op)
        scales = self.scales(op)
        integers, floats = integers_behind(op.bias) if self.has_bias else (None, op.bias)

        def dequantize(accumulator: SSAValue) -> SSAValue:
            shape = _channel_shape(op, len(shape_of(accumulator)), scales)
            return dequantized(build, accumulator, stored(op, scales).reshape(shape))

        operands = Operands(activation.value, int8_behind(build, op.weight), integers, activation.zero_point)
        return [biased(build, op, self.convolve(build, op, operands, dequantize), floats)]


def _channel_shape(op: nn.ConvolutionOp, rank: int, scales: Array) -> tuple[int, ...]:
    """The shape of scales: `[1]`, `[C]` if channels are axis 1, otherwise full rank: a vector means axis 1 to AscendDequant."""
    return (1,) * (rank - 1) + (-1,) if op.channels_last and scales.size > 1 else (-1,)


class IntegerConv2D(Conv2D, IntegerConvolution):
    """Conv2D or Conv3D of int8, then AscendDequant"""

    @condition
    def symmetric_activation(self, op: nn.ConvOp) -> str | None:
        """the zero point of the input of Conv3D is 0"""
        symmetric = op.spatial_rank != 3 or not self.params(op).zero_points()
        return None if symmetric else "Conv3D has no offset_x, so the zero point would have to be 0"


class IntegerDepthwiseConv2D(DepthwiseConv2D, IntegerConvolution):
    """DepthwiseConv2D of int8, then AscendDequant"""


class IntegerConv2DTranspose(Conv2DTranspose, IntegerConvolution):
    """Conv2DTranspose of int8, then AscendDequant"""


class IntegerConv2DBackpropInput(Conv2DBackpropInput, IntegerConvolution):
    """Conv2DBackpropInput of int8, then AscendDequant, and a bias in float"""

    @condition
    def symmetric_activation(self, op: nn.ConvTransposeOp) -> str | None:
        """the zero point of the input is 0"""
        symmetric = not self.params(op).zero_points()
        return None if symmetric else "Conv2DBackpropInput has no offset_x, its zero point would have to be 0"


class IntegerDeconvolution(Deconvolution, IntegerConvolution):
    """Deconvolution of int8, then AscendDequant"""


PATTERNS = (
    IntegerDepthwiseConv2D,
    IntegerConv2D,
    IntegerConv2DBackpropInput,
    IntegerDeconvolution,
    IntegerConv2DTranspose,
    DepthwiseConv2D,
    Conv2D,
    Conv2DBackpropInput,
    Deconvolution,
    Conv2DTranspose,
)
