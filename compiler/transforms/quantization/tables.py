"""AMCT's three tables of layers as data, by the source framework and its operator type.

Constraints are named rules. Source: "layers that support quantization, and constraints" of AMCT's manual, tables 1 to 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from ...dialects.nn import (
    AddOp,
    AveragePoolOp,
    ConvOp,
    ConvTransposeOp,
    GlobalAveragePoolOp,
    GlobalMaxPoolOp,
    MatMulOp,
    MaxOp,
    MaxPoolOp,
    MulOp,
    NNOp,
)
from .decide.rules.layer_rules import (
    Rule,
    batch_matmul_adjoint,
    called_once,
    conv3d_dilation,
    dilation_one,
    eltwise_sums,
    gemm_transpose,
    inner_product_axis,
    inner_product_transpose,
    input_is_float32,
    kernel_rank_two,
    matmul_transpose,
    matmul_transpose_a,
    matrix_weight,
    of_two_inputs,
    of_weights,
    planar_filter,
    pools_locally,
    tensor_only,
    two_inputs,
    weight_constant,
    weight_unshared,
)


@dataclass(frozen=True)
class LayerRow:
    """A type of layer, the conditions for quantizing it, and the Ascend IR operators that AMCT maps it to.

    A type can have several rows, distinguished by `operations`, the imported operations (Caffe's Pooling by its mode).
    """

    framework: str
    op_type: str
    operations: tuple[type[NNOp], ...]
    rules: tuple[Rule, ...]
    ascend: tuple[str, ...]
    variants: tuple[str, ...] = ()
    """Types that the table does not list, but that are other versions or spellings of this type."""

    @property
    def tensor_only(self) -> bool:
        return tensor_only in self.rules


_AVERAGES = (AveragePoolOp, GlobalAveragePoolOp)
_TENSOR = (input_is_float32, tensor_only)

UNIFORM: tuple[LayerRow, ...] = (
    LayerRow("caffe", "InnerProduct", (MatMulOp,), (inner_product_transpose, inner_product_axis, weight_constant),
             ("FullyConnection",)),
    LayerRow("caffe", "Convolution", (ConvOp,), (kernel_rank_two, weight_constant), ("Conv2D",),
             ("DepthwiseConvolution",)),
    LayerRow("caffe", "Deconvolution", (ConvTransposeOp,), (dilation_one, kernel_rank_two, weight_constant),
             ("Deconvolution",)),
    LayerRow("caffe", "Pooling", _AVERAGES, (input_is_float32, pools_locally), ("Pooling",)),
    LayerRow("caffe", "Pooling", (MaxPoolOp, GlobalMaxPoolOp), _TENSOR, ("Pooling",)),
    LayerRow("caffe", "Eltwise", (AddOp, MulOp, MaxOp), (eltwise_sums, *_TENSOR), ("Eltwise",)),
    LayerRow("tensorflow", "MatMul", (MatMulOp,), (matmul_transpose, weight_constant), ("MatMulV2",)),
    LayerRow("tensorflow", "Conv2D", (ConvOp,), (weight_constant,), ("Conv2D",)),
    LayerRow("tensorflow", "DepthwiseConv2dNative", (ConvOp,), (weight_constant,), ("DepthwiseConv2D",)),
    LayerRow("tensorflow", "Conv2DBackpropInput", (ConvTransposeOp,), (dilation_one, weight_constant),
             ("Conv2DBackpropInput",)),
    LayerRow("tensorflow", "BatchMatMulV2", (MatMulOp,), (batch_matmul_adjoint, weight_constant, matrix_weight),
             ("BatchMatMulV2",), ("BatchMatMul", "BatchMatMulV3")),
    LayerRow("tensorflow", "AvgPool", (AveragePoolOp,), (input_is_float32,), ("AvgPool",)),
    LayerRow("tensorflow", "Conv3D", (ConvOp,), (conv3d_dilation, weight_constant), ("Conv3D",)),
    LayerRow("tensorflow", "MaxPool", (MaxPoolOp,), _TENSOR, ("MaxPool", "MaxPoolV3"), ("MaxPoolV2",)),
    LayerRow("tensorflow", "Add", (AddOp,), _TENSOR, ("Add",), ("AddV2",)),
    LayerRow("onnx", "Conv", (ConvOp,), (conv3d_dilation, weight_constant), ("Conv2D", "Conv3D")),
    LayerRow("onnx", "Gemm", (MatMulOp,), (gemm_transpose, weight_constant), ("MatMulV2",)),
    LayerRow("onnx", "ConvTranspose", (ConvTransposeOp,), (dilation_one, kernel_rank_two, weight_constant),
             ("Conv2DTranspose",)),
    LayerRow("onnx", "MatMul", (MatMulOp,), (weight_constant, matrix_weight), ("BatchMatMulV2",)),
    LayerRow("onnx", "AveragePool", _AVERAGES, (input_is_float32, pools_locally), ("AvgPoolV2",),
             ("GlobalAveragePool",)),
    LayerRow("onnx", "MaxPool", (MaxPoolOp,), _TENSOR, ("MaxPool", "MaxPoolV3")),
    LayerRow("onnx", "Add", (AddOp,), _TENSOR, ("Add",)),
)  # fmt: skip
"""Table 1: input and weight to int8, evenly spaced."""

_WEIGHTS_ONLY = {weight_constant, matrix_weight}
TWO_INPUTS: tuple[LayerRow, ...] = tuple(
    replace(
        row,
        rules=(
            *(of_weights(each) if each in _WEIGHTS_ONLY else each for each in row.rules),
            of_two_inputs(input_is_float32),
            two_inputs,
        ),
    )
    for row in UNIFORM
    if row.ascend == ("BatchMatMulV2",)
)
"""The row that AMCT 8.0 added to table 1: BatchMatMulV2 of two variable inputs, int8 without zero points. Only the Atlas A2 and
A3 become faster by it; elsewhere it only costs accuracy.
"""

UNIFORM_A2: tuple[LayerRow, ...] = (*(row for row in UNIFORM if row.ascend != ("BatchMatMulV2",)), *TWO_INPUTS)

PYTORCH: tuple[LayerRow, ...] = (
    LayerRow("pytorch", "Conv1d", (ConvOp,), (called_once, weight_unshared, weight_constant), ("Conv2D",)),
    LayerRow("pytorch", "Conv2d", (ConvOp,), (called_once, weight_unshared, weight_constant), ("Conv2D",)),
    LayerRow("pytorch", "Conv3d", (ConvOp,), (called_once, weight_unshared, conv3d_dilation, weight_constant),
             ("Conv3D",)),
    LayerRow("pytorch", "Linear", (MatMulOp,), (called_once, weight_unshared, weight_constant, matrix_weight),
             ("MatMulV2",)),
    LayerRow("pytorch", "ConvTranspose1d", (ConvTransposeOp,), (called_once, weight_unshared, weight_constant),
             ("Conv2DTranspose",)),
    LayerRow("pytorch", "ConvTranspose2d", (ConvTransposeOp,), (called_once, weight_unshared, weight_constant),
             ("Conv2DTranspose",)),
    LayerRow("pytorch", "AvgPool2d", (AveragePoolOp,), (called_once,), ("AvgPoolV2",)),
)  # fmt: skip
"""Table 1 of AMCT for PyTorch, whose layers are modules: each a call of one of these classes, not of a subclass, and the only
call. Source: its program (`QUANTIZABLE_TYPES`, `check_quantize_type`).
"""

NON_UNIFORM: tuple[LayerRow, ...] = (
    LayerRow("caffe", "Convolution", (ConvOp,), (dilation_one, kernel_rank_two), ("Conv2D",)),
    LayerRow("caffe", "InnerProduct", (MatMulOp,), (inner_product_transpose, inner_product_axis), ("FullyConnection",)),
    LayerRow("tensorflow", "Conv2D", (ConvOp,), (dilation_one,), ("Conv2D",)),
    LayerRow("tensorflow", "MatMul", (MatMulOp,), (matmul_transpose_a,), ("MatMulV2",)),
    LayerRow("onnx", "Conv", (ConvOp,), (planar_filter,), ("Conv2D",)),
    LayerRow("onnx", "Gemm", (MatMulOp,), (gemm_transpose,), ("MatMulV2",)),
)
"""Table 2: int8 weights of few distinct values. The layers are quantized uniformly first, so table 1 applies as well."""


class Mark(Enum):
    """The manual's mark of a scenario."""

    YES = "√"
    ONLY = "√, its only form"
    """A weight with zero points of 0 has this form, too."""
    ERROR = "×"
    NONE = "not supported"
    """The operator has no weights to quantize alone."""


class Marks(NamedTuple):
    """The options of ARQ, AMCT's algorithm for weights, that an operator supports."""

    channel_wise: Mark
    asymmetric: Mark


@dataclass(frozen=True)
class WeightRow:
    """The effect of ARQ's options on an Ascend operator: with its weight alone quantized, and together with its input."""

    weight_only: Marks
    with_input: Marks
    rules: tuple[Rule, ...] = ()


_PRODUCT = WeightRow(Marks(Mark.YES, Mark.ONLY), Marks(Mark.ERROR, Mark.ERROR), (weight_constant,))
_POOL = WeightRow(Marks(Mark.NONE, Mark.NONE), Marks(Mark.ERROR, Mark.ERROR))

WEIGHTS: Mapping[str, WeightRow] = {
    "MatMulV2": _PRODUCT,
    "BatchMatMulV2": _PRODUCT,
    "Pooling": _POOL,
    "AvgPool": _POOL,
    "AvgPoolV2": _POOL,
}
"""Table 3, by Ascend operator."""
