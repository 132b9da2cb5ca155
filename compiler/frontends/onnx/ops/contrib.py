"""Operators of onnxruntime's own domain that its optimizer fuses from standard ones, decomposed again.

Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, f16, f32
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import axis_of, shape_of
from ....formats.onnx.packing import WIDTHS, unpacked_rows
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ..node import Constant, Converted, Node, Unmapped, converter
from ..rows import by_row
from .convolution import conv
from .linear import gemm

DOMAIN = ("com.microsoft",)


@converter("FusedMatMul", domains=DOMAIN)
def fused_matmul(node: Node) -> Converted:
    """Converts FusedMatMul, `alpha * A' @ B'`; alpha goes into a constant B."""
    if min(len(node.shape(0)), len(node.shape(1))) < 2:
        raise Unmapped("it multiplies vectors")
    alpha, weight = node.float("alpha", 1.0), node.binding(1)
    if alpha != 1.0 and isinstance(weight, Constant):
        scaled = weight.array * np.asarray(alpha, weight.array.dtype)
        weight, alpha = Constant(weight.key, scaled), 1.0
    product = node.emit(
        nn.MatMulOp,
        _batched(node, node.value(0), "transBatchA"),
        _batched(node, node.sink.value(weight), "transBatchB"),
        transpose_a=bool(node.int("transA", 0)),
        transpose_b=bool(node.int("transB", 0)),
    ).result
    return product if alpha == 1.0 else _times(node, product, alpha)


def _batched(node: Node, x: SSAValue, flag: str) -> SSAValue:
    """The operand with its first axis moved after those of batches, which follow it if the flag is set."""
    rank = len(shape_of(x))
    if not node.int(flag, 0) or rank < 3:
        return x
    return node.emit(nn.TransposeOp, x, perm=[*range(1, rank - 1), 0, rank - 1]).result


@converter("MatMulNBits", domains=DOMAIN)
def matmul_nbits(node: Node) -> Converted:
    """A product with a dequantized weight `[K, N]` in blocks. At higher accuracy levels it rounds its input, and is carried."""
    if (level := node.int("accuracy_level", 0)) not in (0, 1):
        raise Unmapped(f"it rounds its input (accuracy level {level})")
    if node.has(4):
        raise Unmapped("it has an order of groups (g_idx)")
    if (bits := node.int("bits", 4)) not in WIDTHS:
        raise Unmapped(f"its weight is of {bits} bits")
    k, n, block = (node.required_int(name) for name in ("K", "N", "block_size"))
    packed, scales = node.known(1), node.known(2)
    if scales.dtype.name not in ("float32", "float16"):
        raise Unmapped(f"its scales are {scales.dtype}")
    if node.has(3) and node.dtype(3).name != "uint8":
        raise Unmapped(f"its zero points are {node.dtype(3)}")
    groups = -(-k // max(1, block))
    sizes = [packed.size, scales.size, *([node.known(3).size] if node.has(3) else [])]
    if sizes != [n * groups * (block * bits // 8), n * groups, n * -(-groups * bits // 8)][: len(sizes)]:
        raise node.error(f"has {sizes} bytes, scales and zero points, which do not fit its K, N and block_size")
    integers = unpacked_rows(packed.reshape(n, groups, -1), block, bits).reshape(n, -1)[:, :k]
    real = _dequantized(node, ".weight", integers, scales.reshape(n, groups), bits, block, axis=0)
    return node.emit(nn.MatMulOp, node.value(0), real, node.optional(5)).result


@converter("GatherBlockQuantized", domains=DOMAIN)
def gather_block_quantized(node: Node) -> Converted:
    """Rows of a dequantized table `[rows, columns]` in blocks of columns, which is stored in bytes."""
    bits, block = node.int("bits", 4), node.int("block_size", 128)
    if (node.int("gather_axis", 0), node.int("quantize_axis", 1)) != (0, 1) or bits not in WIDTHS:
        raise Unmapped(f"it does not pick rows of {bits} bits with scales along columns")
    packed, scales = node.known(0), node.known(2)
    if packed.dtype.name != "uint8" or packed.ndim != 2 or scales.dtype.name not in ("float32", "float16"):
        raise Unmapped(f"its table is {packed.dtype}{list(packed.shape)}, its scales are {scales.dtype}")
    rows, columns = len(packed), packed.shape[1] * 8 // bits
    groups = -(-columns // max(1, block))
    sizes = [scales.shape, *([node.known(3).shape] if node.has(3) else [])]
    if sizes != [(rows, groups), (rows, -(-groups * bits // 8))][: len(sizes)]:
        raise node.error(f"has scales and zero points of {sizes}, which do not fit its table and block_size")
    real = _dequantized(node, ".table", unpacked_rows(packed, columns, bits), scales, bits, block, axis=1)
    return node.emit(nn.GatherOp, real, node.value(1), axis=0).result


def _dequantized(node: Node, key: str, table: Array, scales: Array, bits: int, block: int, axis: int) -> SSAValue:
    """A table of unsigned integers [rows, columns] with `scales` [rows, blocks of columns] and packed zero points in input 3, as
    floats in the type of the scales. The columns are `axis` of the result.
    """
    half, storage = 2 ** (bits - 1), IntegerType(bits)
    zeros = np.full((1, 1), half)
    if node.has(3):
        zeros = unpacked_rows(node.known(3).reshape(len(scales), -1), scales.shape[1], bits)
    signed = (table.astype(np.int16) - half, scales, zeros.astype(np.int16) - half)
    integers, scale, points = (np.ascontiguousarray(each if axis else each.T) for each in signed)
    params = nn.QParamsAttr.of(storage, scale, points.reshape(-1).tolist(), axis, f"{node.layer.name}.scale", block)
    held = node.constant(integers.astype(numpy_dtype(storage)), key)
    real = TensorType(f32 if scales.dtype.name == "float32" else f16, integers.shape)
    return node.emit(nn.DequantizeOp, held, qparams=params, result_types=[real]).result


converter("Gelu", domains=DOMAIN)(by_row)  # as in ONNX, without its attribute


@converter("BiasGelu", domains=DOMAIN)
def bias_gelu(node: Node) -> Converted:
    return node.emit(nn.GeluOp, _sum(node, 0, 1)).result


@converter("FastGelu", domains=DOMAIN)
def fast_gelu(node: Node) -> Converted:
    return node.emit(nn.GeluOp, _sum(node, 0, 1), tanh_approximation=True).result


@converter("QuickGelu", domains=DOMAIN)
def quick_gelu(node: Node) -> Converted:
    """`x * sigmoid(alpha * x)`."""
    alpha = node.float("alpha", 1.702)
    scaled = node.value(0) if alpha == 1.0 else _times(node, node.value(0), alpha)
    return node.emit(nn.MulOp, node.value(0), node.emit(nn.SigmoidOp, scaled).result).result


@converter("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domains=DOMAIN)
def skip_layer_normalization(node: Node) -> Converted:
    """Layer normalization of `input + skip + bias`, which is output 3; the simplified one has no shift."""
    if node.uses_output(1) or node.uses_output(2):
        raise Unmapped("its mean or deviation is used")
    if len(node.shape(0)) != len(node.shape(1)):
        raise Unmapped("it broadcasts the skipped input")
    total, is_simplified = _sum(node, 0, 1), node.op_type == "SkipSimplifiedLayerNormalization"
    bias = 3 if is_simplified else 4
    if node.has(bias):
        total = node.emit(nn.AddOp, total, node.value(bias)).result
    if is_simplified:
        normalized = _root_mean_square(node, total, node.value(2), -1, 1e-12)
    else:
        epsilon = node.float("epsilon", 1e-12)
        normalized = node.emit(nn.LayerNormOp, total, node.value(2), node.optional(3), axis=-1, epsilon=epsilon).result
    return [normalized, normalized, normalized, total]


@converter("SimplifiedLayerNormalization", domains=("", *DOMAIN))
@converter("RMSNormalization")
def root_mean_square_normalization(node: Node) -> Converted:
    """`x / sqrt(mean(x ^ 2) + epsilon) * scale` over the axes from `axis` on. onnxruntime's own operator is also found in ONNX's
    domain."""
    if node.uses_output(1):
        raise Unmapped("its deviation is used")
    return _root_mean_square(node, node.value(0), node.value(1), node.int("axis", -1), 1e-5)


def _root_mean_square(node: Node, x: SSAValue, scale: SSAValue, axis: int, epsilon: float) -> SSAValue:
    """The root mean square by the operations that onnxruntime's optimizer makes one kernel of: it does not take a
    reciprocal for the division.
    """
    if node.dtype(0).name != "float32":
        raise Unmapped("it computes in another type than its input's (float32)")
    rank = len(node.shape(0))
    axes = list(range(axis_of(axis, rank), rank))
    square = node.emit(nn.PowOp, x, node.constant(np.asarray(2, np.float32), ".power")).result
    mean = node.emit(nn.ReduceMeanOp, square, axes=axes, keepdims=True).result
    shift = node.constant(np.asarray(node.float("epsilon", epsilon), np.float32), ".epsilon")
    root = node.emit(nn.SqrtOp, node.emit(nn.AddOp, mean, shift).result).result
    return node.emit(nn.MulOp, node.emit(nn.DivOp, x, root).result, scale).result


_ACTIVATIONS: dict[str, tuple[type[nn.UnaryOp], Sequence[str]]] = {
    "Relu": (nn.ReluOp, ()),
    "Sigmoid": (nn.SigmoidOp, ()),
    "Tanh": (nn.TanhOp, ()),
    "LeakyRelu": (nn.LeakyReluOp, ("alpha",)),
    "Elu": (nn.EluOp, ("alpha",)),
    "HardSigmoid": (nn.HardSigmoidOp, ("alpha", "beta")),
    "Clip": (nn.ClipOp, ("min", "max")),
}
"""The activations that are fused after other operators, with their parameters in order."""


@converter("FusedConv", domains=DOMAIN)
def fused_conv(node: Node) -> Converted:
    """A convolution, plus input 3, then an activation whose parameters are a list."""
    kind, names = _activation(node)
    params = dict(zip(names, node.floats("activation_params") or (), strict=False))
    result = conv(node)
    assert isinstance(result, SSAValue)
    if node.has(3):
        result = node.emit(nn.AddOp, result, node.value(3)).result
    return result if kind is None else node.emit(kind, result, **params).result


@converter("FusedGemm", domains=DOMAIN)
def fused_gemm(node: Node) -> Converted:
    """A Gemm, then an activation with its own attributes as parameters."""
    kind, names = _activation(node)
    params = {n: node.float(f"activation_{n}", 0.0) for n in names if f"activation_{n}" in node.attributes}
    result = gemm(node)
    assert isinstance(result, SSAValue)
    return result if kind is None else node.emit(kind, result, **params).result


def _activation(node: Node) -> tuple[type[nn.UnaryOp] | None, Sequence[str]]:
    """The fused activation and the names of its parameters. Raises Unmapped for one that is not in the table."""
    kind = node.text("activation", "")
    if kind and kind not in _ACTIVATIONS:
        raise Unmapped(f"its activation is {kind}")
    return _ACTIVATIONS.get(kind, (None, ()))


def _sum(node: Node, a: int, b: int) -> SSAValue:
    return node.emit(nn.AddOp, node.value(a), node.value(b)).result if node.has(b) else node.value(a)


def _times(node: Node, x: SSAValue, factor: float) -> SSAValue:
    return node.emit(nn.MulOp, x, node.constant(np.asarray(factor, node.dtype(0)), ".factor")).result
