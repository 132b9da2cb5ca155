"""AMCT's three tables of layers as data, by the source framework and its operator type.

Constraints are conditions of the patterns that decide layers, by name. Source: "layers that support quantization, and
constraints" of AMCT's manual, tables 1 to 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .decide.conditions import DecideLayer, DecideProduct, DecideWeighted, conditions_named
from .decide.rows import LayerRow, Rule


def _row(
    framework: str,
    op_type: str,
    operations: tuple[type[NNOp], ...],
    rules: str,
    ascend: tuple[str, ...],
    variants: tuple[str, ...] = (),
) -> LayerRow:
    """A row with the conditions of these names, which are members of the patterns that decide its operations."""
    return LayerRow(framework, op_type, operations, conditions_named(operations, rules.split()), ascend, variants)


_AVERAGES = (AveragePoolOp, GlobalAveragePoolOp)
_TENSOR = "float16-off tensor-only"

UNIFORM: tuple[LayerRow, ...] = (
    _row("caffe", "InnerProduct", (MatMulOp,), "transpose-false axis-1 weight-constant", ("FullyConnection",)),
    _row("caffe", "Convolution", (ConvOp,), "filter-rank-4 weight-constant", ("Conv2D",), ("DepthwiseConvolution",)),
    _row("caffe", "Deconvolution", (ConvTransposeOp,), "dilation-1 filter-rank-4 weight-constant", ("Deconvolution",)),
    _row("caffe", "Pooling", _AVERAGES, "float16-off global-pooling-false", ("Pooling",)),
    _row("caffe", "Pooling", (MaxPoolOp, GlobalMaxPoolOp), _TENSOR, ("Pooling",)),
    _row("caffe", "Eltwise", (AddOp, MulOp, MaxOp), "operation-sum float16-off tensor-only", ("Eltwise",)),
    _row("tensorflow", "MatMul", (MatMulOp,), "transpose-false weight-constant", ("MatMulV2",)),
    _row("tensorflow", "Conv2D", (ConvOp,), "weight-constant", ("Conv2D",)),
    _row("tensorflow", "DepthwiseConv2dNative", (ConvOp,), "weight-constant", ("DepthwiseConv2D",)),
    _row("tensorflow", "Conv2DBackpropInput", (ConvTransposeOp,), "dilation-1 weight-constant",
         ("Conv2DBackpropInput",)),
    _row("tensorflow", "BatchMatMulV2", (MatMulOp,), "adj-x-false weight-constant matrix-weight",
         ("BatchMatMulV2",), ("BatchMatMul", "BatchMatMulV3")),
    _row("tensorflow", "BatchMatMulV2", (ConvOp,), "weight-constant", ("Conv2D",),
         ("BatchMatMul", "BatchMatMulV3", "MatMul")),
    _row("tensorflow", "AvgPool", (AveragePoolOp,), "float16-off", ("AvgPool",)),
    _row("tensorflow", "Conv3D", (ConvOp,), "dilation-d-1 weight-constant", ("Conv3D",)),
    _row("tensorflow", "MaxPool", (MaxPoolOp,), _TENSOR, ("MaxPool", "MaxPoolV3"), ("MaxPoolV2",)),
    _row("tensorflow", "Add", (AddOp,), _TENSOR, ("Add",), ("AddV2",)),
    _row("onnx", "Conv", (ConvOp,), "dilation-d-1 weight-constant", ("Conv2D", "Conv3D")),
    _row("onnx", "Gemm", (MatMulOp,), "transpose-a-false weight-constant", ("MatMulV2",)),
    _row("onnx", "ConvTranspose", (ConvTransposeOp,), "dilation-1 filter-rank-4 weight-constant", ("Conv2DTranspose",)),
    _row("onnx", "MatMul", (MatMulOp,), "weight-constant matrix-weight", ("BatchMatMulV2",)),
    _row("onnx", "MatMul", (ConvOp,), "weight-constant", ("Conv2D",), ("Gemm",)),
    _row("onnx", "AveragePool", _AVERAGES, "float16-off global-pooling-false", ("AvgPoolV2",), ("GlobalAveragePool",)),
    _row("onnx", "MaxPool", (MaxPoolOp,), _TENSOR, ("MaxPool", "MaxPoolV3")),
    _row("onnx", "Add", (AddOp,), _TENSOR, ("Add",)),
)  # fmt: skip
"""Table 1: input and weight to int8, evenly spaced. Beyond AMCT are products with a constant on the left, which canonicalization
makes convolutions.
"""

_OF_WEIGHTS = (DecideWeighted.weight_constant, DecideProduct.matrix_weight)
TWO_INPUTS: tuple[LayerRow, ...] = tuple(
    replace(
        row,
        of_inputs=(
            *(each for each in row.rules if each not in _OF_WEIGHTS),
            DecideLayer.float16_off,
            DecideProduct.two_inputs,
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
    _row("pytorch", "Conv1d", (ConvOp,), "called-once weight-unshared weight-constant", ("Conv2D",)),
    _row("pytorch", "Conv2d", (ConvOp,), "called-once weight-unshared weight-constant", ("Conv2D",)),
    _row("pytorch", "Conv3d", (ConvOp,), "called-once weight-unshared dilation-d-1 weight-constant", ("Conv3D",)),
    _row("pytorch", "Linear", (MatMulOp,), "called-once weight-unshared weight-constant matrix-weight", ("MatMulV2",)),
    _row("pytorch", "ConvTranspose1d", (ConvTransposeOp,), "called-once weight-unshared weight-constant",
         ("Conv2DTranspose",)),
    _row("pytorch", "ConvTranspose2d", (ConvTransposeOp,), "called-once weight-unshared weight-constant",
         ("Conv2DTranspose",)),
    _row("pytorch", "AvgPool2d", (AveragePoolOp,), "called-once", ("AvgPoolV2",)),
)  # fmt: skip
"""Table 1 of AMCT for PyTorch, whose layers are modules: each a call of one of these classes, not of a subclass, and
the only call. Source: its program (`QUANTIZABLE_TYPES`, `check_quantize_type`).
"""

NON_UNIFORM: tuple[LayerRow, ...] = (
    _row("caffe", "Convolution", (ConvOp,), "dilation-1 filter-rank-4", ("Conv2D",)),
    _row("caffe", "InnerProduct", (MatMulOp,), "transpose-false axis-1", ("FullyConnection",)),
    _row("tensorflow", "Conv2D", (ConvOp,), "dilation-1", ("Conv2D",)),
    _row("tensorflow", "MatMul", (MatMulOp,), "transpose-a-false", ("MatMulV2",)),
    _row("onnx", "Conv", (ConvOp,), "planar-filter", ("Conv2D",)),
    _row("onnx", "Gemm", (MatMulOp,), "transpose-a-false", ("MatMulV2",)),
)
"""Table 2: int8 weights of few distinct values. The layers are quantized uniformly first, so table 1 applies as well."""


class Mark(Enum):
    """The manual's mark of a scenario."""

    YES = "√"
    ONLY = "√, its only form"
    """A weight with zero points of 0 has this form, too."""
    ERROR = "×"
    NONE = "not supported"
    """The operator has no weight that can be quantized alone."""


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


_PRODUCT = WeightRow(Marks(Mark.YES, Mark.ONLY), Marks(Mark.ERROR, Mark.ERROR), (DecideWeighted.weight_constant,))
_POOL = WeightRow(Marks(Mark.NONE, Mark.NONE), Marks(Mark.ERROR, Mark.ERROR))

WEIGHTS: Mapping[str, WeightRow] = {
    "MatMulV2": _PRODUCT,
    "BatchMatMulV2": _PRODUCT,
    "Pooling": _POOL,
    "AvgPool": _POOL,
    "AvgPoolV2": _POOL,
}
"""Table 3, by Ascend operator."""


def listed_in(table: Sequence[LayerRow]) -> Rule | None:
    """The condition that a table of uniform quantization has a layer; None for an empty one."""
    if not table:
        return None
    return DecideLayer.not_a_module if table is PYTORCH else DecideLayer.not_in_table
