"""Layers on int8 or int16: the same operators as on floats, with int8 weights and an int32 bias, giving int32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import ascend, nn
from .....dialects.ascend.base import same_pad_pairs
from .....dialects.ascend.convolution import full_rank
from .....dialects.nn.shapes import known, shape_of
from ....deployed import is_accumulator, is_second_input, producer, zero_point
from ...node import Constant, Converted, Node
from .integers import ON_ACCUMULATORS, ON_INTEGERS, registered

_CONVOLUTIONS = {3: (ascend.Conv2DOp, "NCHW"), 4: (ascend.Conv2DOp, "NCHW"), 5: (ascend.Conv3DOp, "NCDHW")}
"""By the rank of x."""


@registered(ON_INTEGERS, "Conv")
def conv(node: Node) -> Converted:
    rank = len(node.shape(0))
    if rank not in _CONVOLUTIONS:
        raise node.error(f"computes in integers on a tensor of rank {rank}, Ascend IR has ranks 3 to 5")
    kind, data_format = _CONVOLUTIONS[rank]
    x, weight, window = _operands(node, data_format)
    groups = node.int("group", 1)
    return node.emit(kind, x, weight, _bias(node, 2), **window, groups=groups, offset_x=zero_point(node, x)).y


def _operands(node: Node, data_format: str) -> tuple[SSAValue, SSAValue, dict[str, Any]]:
    """x, the weight and the window of a convolution. One of one axis gets an axis of size 1, which the result of AscendDequant
    drops again.
    """
    shape = _weight_shape(node)
    if len(shape) != 3:
        return node.value(0), node.value(1), _window(node, data_format, shape[2:])
    out, channels, size = shape
    line = _window(node, "NCL", [size])
    weight = node.binding(1)
    if not isinstance(weight, Constant):
        raise node.error("computes in integers along one axis with a weight that is computed at run time")
    window = {
        "strides": full_rank("NCHW", (1, *line["strides"].get_values()[2:])),
        "pads": [0, 0, *line["pads"]],
        "dilations": full_rank("NCHW", (1, *line["dilations"].get_values()[2:])),
        "data_format": "NCHW",
    }
    x = node.emit(nn.UnsqueezeOp, node.value(0), axes=[2]).result
    return x, node.sink.value(weight.reshaped((out, channels, 1, size))), window


@registered(ON_INTEGERS, "ConvTranspose")
def conv_transpose(node: Node) -> Converted:
    if node.ints("output_shape") is not None:
        raise node.error("computes in integers and has an output_shape, which Ascend IR takes as pads only")
    x, weight, window = _operands(node, "NCHW")
    extra = _entries(node, "output_padding", [0] * (len(node.shape(1)) - 2))
    padding = full_rank("NCHW", [*[0] * (2 - len(extra)), *extra], neutral=0)
    input_size = node.constant(np.zeros(4, np.int64), ".input_size")
    operands = input_size, x, weight, _bias(node, 2)
    properties = {**window, "output_padding": padding, "groups": node.int("group", 1)}
    return node.emit(ascend.Conv2DTransposeOp, *operands, **properties, offset_x=zero_point(node, x)).y


@registered(ON_INTEGERS, "Gemm")
def gemm(node: Node) -> Converted:
    for name in ("alpha", "beta"):
        if node.float(name, 1.0) != 1.0:
            raise node.error(f"computes in integers with {name} = {node.float(name, 1.0):g}, but it must be 1")
    _weight_shape(node)
    a, b = bool(node.int("transA", 0)), bool(node.int("transB", 0))
    operands = node.value(0), node.value(1), _bias(node, 2)
    offset = zero_point(node, operands[0])
    return node.emit(ascend.MatMulV2Op, *operands, transpose_x1=a, transpose_x2=b, offset_x=offset).y


@registered(ON_INTEGERS, "MatMul")
def matmul(node: Node) -> Converted:
    """The product of an input and a weight, or of two inputs."""
    x = node.value(0)
    if not is_second_input(node, node.value(1)):
        _weight_shape(node)
    return node.emit(ascend.BatchMatMulV2Op, x, node.value(1), offset_x=zero_point(node, x)).y


@registered(ON_ACCUMULATORS, "Add")
def bias_add(node: Node) -> Converted:
    """Makes an Add between a matrix product and its AscendDequant the bias of the product."""
    first = 0 if is_accumulator(node.inputs[0]) else 1
    product = producer(node.value(first))
    if not isinstance(product, ascend.MatrixOp) or product.bias is not None:
        raise node.error("adds to the int32 result of a layer that takes its bias itself")
    bias = _bias(node, 1 - first)
    return node.emit(type(product), product.x1, product.x2, bias, origin=product.origin, **_flags(product)).y


def _flags(product: ascend.MatrixOp) -> dict[str, Any]:
    return {name: value for name, value in product.properties.items() if name != "origin"}


@registered(ON_INTEGERS, "AveragePool", "GlobalAveragePool")
def average_pool(node: Node) -> Converted:
    """The sum of each window; AscendDequant divides by the count."""
    x = node.value(0)
    is_global = node.op_type == "GlobalAveragePool"
    kernel = [1, 1] if is_global else node.required_ints("kernel_shape")
    if len(kernel) != 2:
        raise node.error(f"computes in integers with kernel_shape {kernel}, Ascend IR has windows of two axes")
    window = _window(node, "NCHW", kernel)
    if set(window.pop("dilations").get_values()) != {1}:
        raise node.error("computes in integers with dilations, which Ascend IR does not support")
    return node.emit(
        ascend.AvgPoolV2Op,
        x,
        ksize=full_rank("NCHW", kernel),
        **window,
        exclusive=not node.int("count_include_pad", 0),
        ceil_mode=bool(node.int("ceil_mode", 0)),
        global_pooling=is_global,
        offset_x=zero_point(node, x),
    ).y


def _weight_shape(node: Node) -> tuple[int, ...]:
    """Raises CompileError for a weight that is not int8 or not constant."""
    if node.dtype(1).name != "int8":
        raise node.error(f"has integer data and a weight of {node.dtype(1)}")
    if node.array(1) is None and not isinstance(producer(node.value(1)), ascend.AscendWeightQuantOp):
        raise node.error("computes in integers with a weight that is computed at run time")
    return node.shape(1)


def _bias(node: Node, index: int) -> SSAValue | None:
    """An int32 constant, as a vector."""
    if not node.has(index):
        return None
    if node.dtype(index).name != "int32":
        raise node.error(f"has integer data and a bias of {node.dtype(index)}, but it must be int32")
    binding, array = node.binding(index), node.array(index)
    if not isinstance(binding, Constant) or array is None or array.size != max(array.shape, default=1):
        raise node.error("computes in integers with a bias that is not a constant vector")
    return node.sink.value(binding.reshaped((array.size,)))


def _window(node: Node, data_format: str, kernel: Sequence[int]) -> dict[str, Any]:
    """strides, pads (begin and end of each axis adjacent), dilations in Ascend's form."""
    ones = [1] * len(kernel)
    given = node.ints("kernel_shape")
    if given is not None and list(given) != list(kernel):
        raise node.error(f"has kernel_shape {given}, its weight is of shape {list(node.shape(1))}")
    strides, dilations = _entries(node, "strides", ones), _entries(node, "dilations", ones)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    return {
        "strides": full_rank(data_format, strides),
        "pads": _pads(node, reach, strides),
        "dilations": full_rank(data_format, dilations),
        "data_format": data_format,
    }


def _entries(node: Node, name: str, default: list[int]) -> list[int]:
    """A list with as many entries as its default. Raises CompileError for another number."""
    values = node.ints(name)
    if values is not None and len(values) != len(default):
        raise node.error(f"has {len(values)} {name}, expected {len(default)}")
    return default if values is None else values


def _pads(node: Node, kernel: Sequence[int], strides: Sequence[int]) -> list[int]:
    n = len(kernel)
    match node.choice("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER")):
        case "NOTSET":
            pads = _entries(node, "pads", [0] * (2 * n))
            return [p for pair in zip(pads[:n], pads[n:], strict=True) for p in pair]
        case "VALID":
            return [0] * (2 * n)
        case _:
            sizes = shape_of(node.value(0))[2:]
            if node.op_type == "ConvTranspose":
                raise node.error("computes in integers with auto_pad SAME_UPPER, which Ascend IR takes as pads only")
            if any(not known(size) and stride > 1 for size, stride in zip(sizes, strides, strict=True)):
                raise node.error("has auto_pad SAME_UPPER, which depends on sizes that are not known")
            return [p for pair in same_pad_pairs(sizes, kernel, strides) for p in pair]
