"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, IntegerType, TensorType
from xdsl.ir import TypeAttribute
from xdsl.utils.exceptions import VerifyException

from ....dialects import nn
from ....dialects.nn.shapes import axis_of, static
from ....formats.onnx.tensors import dtype_of
from ....ir.dtypes import dtype_named, element_type, is_narrow_float
from ..node import Constant, Converted, Node, Unmapped, converter

_DOMAINS = ("", "com.microsoft")
"""onnxruntime's own operators allowed 16 and 4 bits before ONNX did; otherwise they are the same."""

_FLOATS = frozenset({"float32", "float16", "bfloat16"})


@converter("QuantizeLinear", domains=_DOMAINS)
def quantize_linear(node: Node) -> Converted:
    """The integers' type is the zero point's, else `output_dtype` (opset 21), else uint8."""
    if node.dtype(0).name not in _FLOATS:
        raise Unmapped(f"it quantizes {node.dtype(0)}")
    code = node.int("output_dtype", 0)
    named = dtype_of(code, node.layer.where) if code else dtype_named("uint8")
    storage = element_type(node.dtype(2) if node.has(2) else named)
    if isinstance(storage, Float8E4M3FNType | Float8E5M2Type):
        return _to_format(node, storage)
    return node.emit(nn.QuantizeOp, node.value(0), qparams=_parameters(node, storage), source="user").result


@converter("DequantizeLinear", domains=_DOMAINS)
def dequantize_linear(node: Node) -> Converted:
    """The result has the scale's type, or `output_dtype` (opset 23)."""
    code = node.int("output_dtype", 0)
    target = element_type(dtype_of(code, node.layer.where) if code else node.dtype(1))
    if is_narrow_float(element_type(node.dtype(0))):
        return _from_format(node, target)
    qparams = _parameters(node, element_type(node.dtype(0)))
    result = TensorType(target, node.shape(0))
    return node.emit(nn.DequantizeOp, node.value(0), qparams=qparams, result_types=[result]).result


def _to_format(node: Node, storage: TypeAttribute) -> Converted:
    """Floats of 8 bits. Raises Unmapped for a zero point that is not 0, and for what `nn` cannot express."""
    if node.has(2) and np.any(node.known(2).astype(np.float32)):
        raise Unmapped("it makes floats with a zero point")
    if not node.int("saturate", 1):
        raise Unmapped("it does not saturate (saturate)")
    if node.dtype(1).name != "float32" or node.int("precision", 0) not in (0, 1):
        raise Unmapped("it computes in another type than float32 (scale, precision)")
    if node.shape(1) not in ((), (1,)):
        raise Unmapped(f"its scale has the shape {list(node.shape(1))}: floats of 8 bits have one scale at run time")
    scale = node.value(1) if not node.shape(1) else node.constant(node.number(1), ".scale")
    return node.emit(nn.QuantizeFloatOp, node.value(0), scale, result_types=[TensorType(storage, node.shape(0))]).result


def _from_format(node: Node, target: TypeAttribute) -> Converted:
    """The reals of floats of 8 or 4 bits. Raises Unmapped for a zero point that is not 0, and for what `nn` cannot express."""
    shape, block, kind = node.shape(0), node.int("block_size", 0) or None, node.dtype(1).name
    if node.has(2) and np.any(node.known(2).astype(np.float32)):
        raise Unmapped("it stores floats with a zero point")
    if kind not in ("float32", "float8_e8m0fnu"):
        raise Unmapped(f"its scale is {kind}")
    if node.int("precision", 0) not in (0, 1):
        raise Unmapped("it computes in another type than float32 (precision)")
    scale, scales = node.value(1), node.shape(1)
    if scales == (1,) and block is None:
        scale, scales = node.constant(node.number(1), ".scale"), ()
    axis = axis_of(node.int("axis", 1), len(shape)) if scales or block else None
    if axis is not None and not static(shape):
        raise Unmapped("it has scales along an axis of an input of unknown sizes")
    sizes = () if axis is None else nn.blocks_of(shape, axis, block) if block else (shape[axis],)
    if scales != sizes:
        raise Unmapped(f"its scale has the shape {list(scales)}")
    properties = {"axis": axis, "block": block, "result_types": [TensorType(target, shape)]}
    return node.emit(nn.DequantizeFloatOp, node.value(0), scale, **properties).result


def _parameters(node: Node, storage: object) -> nn.QParamsAttr:
    """Scale and zero point per tensor, per index of `axis` or per block. Raises Unmapped for what `nn` cannot express."""
    scale, binding, shape = node.known(1), node.binding(1), node.shape(0)
    block = node.int("block_size", 0) or None
    if not isinstance(storage, IntegerType):
        raise Unmapped(f"it stores {storage}")
    if scale.dtype.name != "float32":
        raise Unmapped(f"its scale is {scale.dtype}")
    if node.int("precision", 0) not in (0, 1):
        raise Unmapped("it computes in another type than float32 (precision)")
    axis = axis_of(node.int("axis", 1), len(shape)) if scale.size > 1 or block else None
    blocks = nn.blocks_of(shape, axis, block) if axis is not None and block else None
    if (blocks is None and scale.ndim > 1) or (blocks is not None and scale.shape != blocks):
        raise Unmapped(f"its scale has the shape {list(scale.shape)}")
    zero_point = [int(z) for z in node.known(2).reshape(-1)] if node.has(2) else 0
    key = binding.key if isinstance(binding, Constant) else node.layer.name
    try:
        return nn.QParamsAttr.of(cast(IntegerType, storage), scale.reshape(-1), zero_point, axis, key, block)
    except VerifyException as e:
        raise Unmapped(str(e)) from None
