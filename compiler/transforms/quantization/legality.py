"""Why a layer may or may not be quantized: named rules that return None or the reason why not.

Rules of a source framework judge the source layer by its origin (AMCT's table of uniform quantization); rules of a target
judge the operation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from ...dialects.nn import AveragePoolOp, ConvTransposeOp, NNOp, OriginAttr, array_of
from ...dialects.nn.shapes import element_of, shape_of
from ...dtypes import is_float
from .sites import Site


@dataclass(frozen=True)
class Rule:
    """A named constraint. `check` returns None where it holds, else the reason as one sentence."""

    name: str
    statement: str
    check: Callable[[Site], str | None]


def rule(name: str) -> Callable[[Callable[[Site], str | None]], Rule]:
    """Decorator: the docstring is the statement."""
    return lambda check: Rule(name, (check.__doc__ or "").strip(), check)


@rule("input-float")
def input_is_float(site: Site) -> str | None:
    """the layer's input is of a float type"""
    element = element_of(site.compute.operands[0])
    return None if is_float(element) else f"its input is of {element}"


@rule("input-computed")
def input_is_computed(site: Site) -> str | None:
    """the layer's input is no constant, and is not made inside a fused region"""
    value = site.activation
    if value is None:
        return "its input is made inside the fused region"
    return None if array_of(value) is None else "its input is a constant"


@rule("weight-constant")
def weight_constant(site: Site) -> str | None:
    """the weight does not depend on an input (AMCT: its source holds no placeholder) and is finite"""
    weight = _numbers(site, 1)
    if weight is None:
        return "its weight is computed at run time"
    return None if np.isfinite(weight).all() else "its weight holds NaN or Inf"


@rule("bias-constant")
def bias_constant(site: Site) -> str | None:
    """the bias, where there is one, is a finite constant"""
    if len(site.compute.operands) < 3:
        return None
    bias = _numbers(site, 2)
    if bias is None:
        return "its bias is computed at run time"
    return None if np.isfinite(bias).all() else "its bias holds NaN or Inf"


def _numbers(site: Site, index: int) -> np.ndarray | None:
    value = site.operand(index)
    return None if value is None else array_of(value)


@rule("rank")
def rank_supported(site: Site) -> str | None:
    """the filter is of rank 3 to 5 (Conv2D, Conv3D; 1-D convolutions run as Conv2D)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank in (3, 4, 5) else f"its filter is of rank {rank}"


@rule("filter-rank-4")
def kernel_rank_two(site: Site) -> str | None:
    """the filter is of rank 4 (AMCT)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank == 4 else f"its filter is of rank {rank}"


@rule("dilation-1")
def dilation_one(site: Site) -> str | None:
    """dilations are 1 (AMCT)"""
    dilations = cast(ConvTransposeOp, site.compute).dilation_list
    return None if set(dilations) <= {1} else f"its dilations are {list(dilations)}"


@rule("matrix-weight")
def matrix_weight(site: Site) -> str | None:
    """the second operand is of rank 2 (AMCT)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank == 2 else f"its second operand is of rank {rank}"


@rule("float16-off")
def input_is_float32(site: Site) -> str | None:
    """pooling stays float in float16 and mixed models (AMCT)"""
    return "the model is of float16 or mixed types" if site.half_precision else None


@rule("average-count")
def average_count_constant(site: Site) -> str | None:
    """every window averages the same number of elements, so that 1/count is one factor"""
    pool = cast(AveragePoolOp, site.compute)
    padded = pool.auto_pad is not None or any(pool.pad_list)
    if padded and pool.count_include_pad is None:
        return "its windows at the border average fewer elements"
    if pool.ceil_mode is not None and not _ceil_is_floor(pool):
        return "ceil_mode adds windows that average fewer elements"
    if pool.auto_pad is not None:
        return "its padding is not known before run time"
    return None


def _ceil_is_floor(pool: AveragePoolOp) -> bool:
    spatial = pool.spatial(shape_of(pool.input))
    return DYNAMIC_INDEX not in spatial and pool.window_output(spatial, ceil=True) == pool.window_output(spatial)


@rule("global-pooling-false")
def pools_locally(site: Site) -> str | None:
    """the layer does not pool over all of space (AMCT)"""
    return "it pools over all of space"


@rule("tensor-only")
def tensor_only(site: Site) -> str | None:
    """AMCT quantizes this layer's input tensor only when asked to by tensor_quantize"""
    return "only its input tensor could be quantized, and only on request"


def source_attribute(op: NNOp, name: str) -> Attribute | None:
    """An attribute of the source layer, None when the operation has no origin or the layer no such attribute."""
    return op.origin.attributes.data.get(name) if isinstance(op.origin, OriginAttr) else None


def _source_int(op: NNOp, name: str, default: int = 0) -> int:
    value = source_attribute(op, name)
    return value.value.data if isinstance(value, IntegerAttr) else default


def _source_ints(op: NNOp, name: str) -> tuple[int, ...]:
    value = source_attribute(op, name)
    return tuple(value.get_values()) if isinstance(value, DenseArrayBase) else ()


@rule("dilation-d-1")
def conv3d_dilation(site: Site) -> str | None:
    """a convolution with a filter of rank 5 has dilation_d 1 (AMCT)"""
    dilations = _source_ints(site.compute, "dilations")
    if len(dilations) == 5:  # TensorFlow's have an entry for every axis
        depth = 2 if source_attribute(site.compute, "data_format") == StringAttr("NCDHW") else 1
        dilations = dilations[depth : depth + 3]
    if len(dilations) == 3 and dilations[0] != 1:
        return f"its dilation_d is {dilations[0]}"
    return None


@rule("transpose-a-false")
def gemm_transpose(site: Site) -> str | None:
    """transpose_a is false (AMCT)"""
    return "its transA is 1" if _source_int(site.compute, "transA") else None


@rule("transpose-false")
def matmul_transpose(site: Site) -> str | None:
    """transpose_a and transpose_b are false (AMCT)"""
    flags = [name for name in ("transpose_a", "transpose_b") if _source_int(site.compute, name)]
    return f"its {' and '.join(flags)} {'are' if len(flags) > 1 else 'is'} true" if flags else None


@rule("adj-x-false")
def batch_matmul_adjoint(site: Site) -> str | None:
    """adj_x is false (AMCT)"""
    return "its adj_x is true" if _source_int(site.compute, "adj_x") else None


@rule("two-axes")
def pooling_rank_two(site: Site) -> str | None:
    """pooling is over two axes (AMCT lists AvgPool, not AvgPool3D)"""
    return None if cast(AveragePoolOp, site.compute).spatial_rank == 2 else "it pools over three axes"


@rule("dilation-1")
def transpose_dilation(site: Site) -> str | None:
    """a transposed convolution has dilation 1 (AMCT)"""
    dilations = _source_ints(site.compute, "dilations")
    return None if set(dilations) <= {1} else f"its dilations are {list(dilations)}"


@rule("axis-1")
def inner_product_axis(site: Site) -> str | None:
    """an InnerProduct has axis 1 (AMCT)"""
    axis = _source_int(site.compute, "axis", 1)
    return None if axis == 1 else f"its axis is {axis}"


@rule("transpose-false")
def inner_product_transpose(site: Site) -> str | None:
    """an InnerProduct has transpose false (AMCT)"""
    return "its transpose is true" if _source_int(site.compute, "transpose") else None


@rule("not-in-table")
def not_in_table(site: Site) -> str | None:
    """AMCT's table has the layer's type"""
    origin = site.compute.origin
    return f"AMCT quantizes no {origin.op_type.data} layer" if isinstance(origin, OriginAttr) else None


SOURCE_RULES: Mapping[tuple[str, str], tuple[Rule, ...]] = {
    ("onnx", "Conv"): (conv3d_dilation,),
    ("onnx", "Gemm"): (gemm_transpose,),
    ("onnx", "ConvTranspose"): (transpose_dilation,),
    ("tensorflow", "AvgPool3D"): (pooling_rank_two,),
    ("tensorflow", "BatchMatMul"): (batch_matmul_adjoint,),
    ("tensorflow", "BatchMatMulV2"): (batch_matmul_adjoint,),
    ("tensorflow", "BatchMatMulV3"): (batch_matmul_adjoint,),
    ("tensorflow", "Conv2DBackpropInput"): (transpose_dilation,),
    ("tensorflow", "Conv3D"): (conv3d_dilation,),
    ("tensorflow", "MatMul"): (matmul_transpose,),
    ("caffe", "Convolution"): (kernel_rank_two,),
    ("caffe", "Deconvolution"): (kernel_rank_two, dilation_one),
    ("caffe", "InnerProduct"): (inner_product_axis, inner_product_transpose),
    **{("caffe", name): (not_in_table,) for name in ("Bias", "LRN", "Log", "Exp", "Power", "Scale")},
}
"""Constraints on the source layer, by framework and operator type (AMCT's table of uniform quantization)."""

COMMON_RULES = (input_is_float, input_is_computed)


def first_broken(site: Site, rules: tuple[Rule, ...]) -> tuple[Rule, str] | None:
    """The first rule that does not hold, with the reason: common ones, those of the source layer, then `rules`."""
    origin = site.compute.origin
    source: tuple[Rule, ...] = ()
    if isinstance(origin, OriginAttr):
        source = SOURCE_RULES.get((origin.framework.data, origin.op_type.data), ())
    for each in (*COMMON_RULES, *source, *rules):
        if (reason := each.check(site)) is not None:
            return each, reason
    return None
