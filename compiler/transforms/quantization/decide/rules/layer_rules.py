"""The rules for a layer, checked before it is quantized: named rules that return None or the reason why not.

Rules of a source layer read what its origin keeps of the source's attributes; rules of a target judge the operation itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i8
from xdsl.ir import Attribute, OpResult

from .....dialects.nn import (
    AveragePoolOp,
    ConvolutionOp,
    DequantizeOp,
    FusedOp,
    GlobalAveragePoolOp,
    MatMulOp,
    NNOp,
    OriginAttr,
    ReduceMeanOp,
    constant_of,
)
from .....dialects.nn.shapes import element_of, known, shape_of
from .....ir.dtypes import is_float
from ..sites import Site


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
    """the layer's input is not a constant, and is not computed inside a fused region"""
    value = site.activation
    if value is None:
        return "its input is computed inside the fused region"
    return None if constant_of(value) is None else "its input is a constant"


@rule("weight-constant")
def weight_constant(site: Site) -> str | None:
    """the weight does not depend on an input (AMCT: its source holds no placeholder), is finite and has elements"""
    weight = constant_of(site.operand(1))
    if weight is None:
        return "its weight is computed at run time"
    if 0 in shape_of(weight.result):
        return "its weight has no elements"
    return None if weight.finite else "its weight holds NaN or Inf"


@rule("called-once")
def called_once(site: Site) -> str | None:
    """the module is called once (AMCT for PyTorch)"""
    origin = site.compute.origin
    again = isinstance(origin, OriginAttr) and _CALL.search(origin.layer.data) is not None
    return "its module is called more than once" if again else None


_CALL = re.compile(r"@\d+$")
"""The number of one of several calls of a module."""


@rule("weight-unshared")
def weight_unshared(site: Site) -> str | None:
    """no other layer has the weight (AMCT for PyTorch)"""
    weight = constant_of(site.operand(1))
    if weight is None:
        return None
    readers = {
        use.operation for use in weight.result.uses if isinstance(use.operation, ConvolutionOp | MatMulOp | FusedOp)
    }
    return "another layer has the same weight" if len(readers) > 1 else None


@rule("bias-constant")
def bias_constant(site: Site) -> str | None:
    """the bias, where there is one, is a finite constant"""
    if len(site.compute.operands) < 3:
        return None
    bias = constant_of(site.operand(2))
    if bias is None:
        return "its bias is computed at run time"
    return None if bias.finite else "its bias holds NaN or Inf"


@rule("filter-rank-4")
def kernel_rank_two(site: Site) -> str | None:
    """the filter is of rank 4 (AMCT)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank == 4 else f"its filter is of rank {rank}"


@rule("planar-filter")
def planar_filter(site: Site) -> str | None:
    """the operator is Conv2D: the filter is of rank 4, or 3, which runs as 4 (AMCT)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank in (3, 4) else f"its filter is of rank {rank}"


@rule("matrix-weight")
def matrix_weight(site: Site) -> str | None:
    """the second operand is of rank 2 (AMCT)"""
    rank = len(shape_of(site.compute.operands[1]))
    return None if rank == 2 else f"its second operand is of rank {rank}"


@rule("two-inputs")
def two_inputs(site: Site) -> str | None:
    """a product of two inputs takes both from outside of a fused region, int8 without a zero point where they come quantized"""
    for index in site.inputs if site.multiplies_inputs else ():
        value = site.operand(index)
        if value is None:
            return f"its input {index} is computed inside the fused region"
        if not isinstance(value, OpResult) or not isinstance(value.op, DequantizeOp):
            continue
        params = value.op.qparams.data
        if params.storage != i8 or params.axis is not None or params.zero_points().any():
            return f"its input {index} came quantized otherwise than to int8 with one scale and no zero point"
    return None


def of_weights(asked: Rule) -> Rule:
    """The rule, where what a layer multiplies by is a weight."""
    return Rule(asked.name, asked.statement, lambda site: None if site.multiplies_inputs else asked.check(site))


def of_two_inputs(asked: Rule) -> Rule:
    """The rule, where it is an input as well."""
    return Rule(asked.name, asked.statement, lambda site: asked.check(site) if site.multiplies_inputs else None)


@rule("float16-off")
def input_is_float32(site: Site) -> str | None:
    """pooling, addition and products of two inputs stay float in float16 and mixed models (AMCT)"""
    return "the model is of float16 or mixed types" if site.half_precision else None


@rule("average-count")
def average_count_constant(site: Site) -> str | None:
    """every window averages the same number of elements, so that 1/count is one factor"""
    pool = cast(AveragePoolOp, site.compute)
    spatial = pool.spatial(shape_of(pool.input))
    if (pads := pool.resolved_pads(spatial)) is None:
        return "its padding is not known before run time"
    if any(pads) and pool.count_include_pad is None:
        return "its windows at the border average fewer elements"
    if pool.ceil_mode is not None and not _ceil_is_floor(pool, spatial):
        return "ceil_mode adds windows that average fewer elements"
    return None


@rule("integer-average")
def average_in_integers(site: Site) -> str | None:
    """onnxruntime's integer kernel computes the mean: no dilations, and no `ceil_mode` beside padding that counts"""
    pool = cast(AveragePoolOp, site.compute)
    if pool.has_integer_kernel:
        return None
    return "onnxruntime has no integer kernel for its dilations, or for its ceil_mode with padding that counts"


@rule("averages-space")
def averages_space(site: Site) -> str | None:
    """a mean is that of GlobalAveragePool: over all axes behind the channels, which stay as 1"""
    if cast(ReduceMeanOp, site.compute).averages_space:
        return None
    return "onnxruntime has an integer kernel only for the mean over all axes behind the channels, with keepdims"


def _ceil_is_floor(pool: AveragePoolOp, spatial: Sequence[int]) -> bool:
    """Whether `ceil_mode` adds no window; with strides of 1 it adds none to any size."""
    sizes = zip(pool.window_output(spatial), pool.window_output(spatial, ceil=True), pool.stride_list, strict=True)
    return all(stride == 1 or (known(floor) and floor == ceil) for floor, ceil, stride in sizes)


@rule("integer-operator")
def computes_in_integers(site: Site) -> str | None:
    """an operator of Ascend IR computes the layer in integers: `--lower-to-ascend` would find one"""
    from .....lowering.ascend.trial import integer_refusal, product_refusal

    op = site.compute
    refusal = product_refusal(op) if isinstance(op, MatMulOp) and site.multiplies_inputs else integer_refusal(op)
    return None if refusal is None else refusal.reason


@rule("global-pooling-false")
def pools_locally(site: Site) -> str | None:
    """global_pooling is false: the layer does not pool over all of space (AMCT)"""
    whole = isinstance(site.compute, GlobalAveragePoolOp) or _source_int(site.compute, "global_pooling")
    return "global pooling is not quantized" if whole else None


@rule("tensor-only")
def tensor_only(site: Site) -> str | None:
    """AMCT quantizes this layer's input tensor only when asked to by tensor_quantize"""
    return "only its input can be quantized: set tensor_quantize for that"


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
    """transpose_a, transpose_b, adjoint_a and adjoint_b are false (AMCT)"""
    names = ("transpose_a", "transpose_b", "adjoint_a", "adjoint_b")
    flags = [name for name in names if _source_int(site.compute, name)]
    return f"its {' and '.join(flags)} {'are' if len(flags) > 1 else 'is'} true" if flags else None


@rule("transpose-a-false")
def matmul_transpose_a(site: Site) -> str | None:
    """transpose_a is false (AMCT)"""
    return "its transpose_a is true" if _source_int(site.compute, "transpose_a") else None


@rule("adj-x-false")
def batch_matmul_adjoint(site: Site) -> str | None:
    """adj_x is false (AMCT)"""
    return "its adj_x is true" if _source_int(site.compute, "adj_x") else None


@rule("dilation-1")
def dilation_one(site: Site) -> str | None:
    """dilations are 1: those of the source layer, and what import and canonicalization made of them (AMCT)"""
    op = cast(ConvolutionOp, site.compute)
    # ONNX and TensorFlow have the plural
    for dilations in (_source_ints(op, "dilations"), _source_ints(op, "dilation"), op.dilation_list):
        if set(dilations) - {1}:
            return f"its dilations are {list(dilations)}"
    return None


@rule("axis-1")
def inner_product_axis(site: Site) -> str | None:
    """an InnerProduct has axis 1 (AMCT)"""
    axis = _source_int(site.compute, "axis", 1)
    return None if axis == 1 else f"its axis is {axis}"


@rule("transpose-false")
def inner_product_transpose(site: Site) -> str | None:
    """an InnerProduct has transpose false (AMCT)"""
    return "its transpose is true" if _source_int(site.compute, "transpose") else None


@rule("operation-sum")
def eltwise_sums(site: Site) -> str | None:
    """operation is 1, SUM (AMCT)"""
    operation = source_attribute(site.compute, "operation")
    if not isinstance(operation, StringAttr) or operation.data == "SUM":
        return None
    return f"its operation is {operation.data}"


@rule("not-in-table")
def not_in_table(site: Site) -> str | None:
    """AMCT's table has the layer's type"""
    origin = site.compute.origin
    return f"AMCT does not quantize {origin.op_type.data} layers" if isinstance(origin, OriginAttr) else None


@rule("not-a-module")
def not_a_module(site: Site) -> str | None:
    """the layer is a call of a module that AMCT for PyTorch quantizes"""
    origin = site.compute.origin
    module = origin.module_class if isinstance(origin, OriginAttr) else ""
    if module:
        return f"AMCT for PyTorch does not quantize {module}"
    return "AMCT for PyTorch quantizes calls of torch.nn's modules that pad with zeros; this is not such a call"


@rule("not-in-table")
def not_in_non_uniform_table(site: Site) -> str | None:
    """AMCT's table of non-uniform quantization has the layer's type"""
    origin = site.compute.origin
    name = origin.op_type.data if isinstance(origin, OriginAttr) else site.compute.name
    return f"AMCT does not restrict the weights of {name} layers to a few values"


@rule("weight-only")
def no_weight_only_mode(site: Site) -> str | None:
    """the layer's weight can be quantized while its input stays float (AMCT's table of weights)"""
    origin = site.compute.origin
    name = origin.op_type.data if isinstance(origin, OriginAttr) else site.compute.name
    return f"AMCT does not quantize the weights of {name} layers alone"


@rule("imported-as")
def other_operation(site: Site) -> str | None:
    """the layer is imported as an operation that the profile quantizes"""
    return f"it is imported as {site.compute.name}"
