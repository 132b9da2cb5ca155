"""Carried operators of ONNX, run by onnx.reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute

from ...diagnostics import first_line, op_error
from ...dialects import nn
from ...dtypes import Tensor, numpy_dtype
from . import Array, Kernel


def reference(op: nn.OpaqueOp) -> Kernel:
    """A model of one node in `onnx.reference`. Results are held against the declared types."""
    from onnx.reference import ReferenceEvaluator

    kind = op.op_type.data
    try:
        evaluator: Any = ReferenceEvaluator(_one_node(op))
    except Exception as e:
        raise op_error(op, f"cannot be run: onnx.reference has no '{kind}' ({first_line(str(e))})") from e
    names = [f"i{i}" for i in range(len(op.inputs))]
    dtypes = [numpy_dtype(r.type.element_type) for r in op.outputs]

    def run(*inputs: Array) -> Sequence[Array]:
        try:
            results = cast("list[Any]", evaluator.run(None, dict(zip(names, inputs, strict=True))))
        except Exception as e:
            raise ValueError(f"onnx.reference failed on '{kind}': {first_line(str(e.__cause__ or e))}") from e
        return [np.asarray(r).astype(d, copy=False) for r, d in zip(results, dtypes, strict=True)]

    return run


def _one_node(op: nn.OpaqueOp) -> Any:
    """The operator as an ONNX model with inputs i0, i1, ... and outputs o0, o1, ..."""
    from onnx import helper

    domain = "" if op.domain is None else op.domain.data
    version = 1 if op.version is None else op.version.value.data
    present = nn.ints(op.present, (1,) * len(op.inputs))
    rest = iter(range(len(op.inputs)))
    inputs = [f"i{next(rest)}" if p else "" for p in present]
    outputs = [f"o{i}" for i in range(len(op.outputs))]
    attributes = {} if op.attrs is None else {k: _attribute(v) for k, v in op.attrs.data.items()}
    node = helper.make_node(op.op_type.data, inputs, outputs, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        op.op_type.data,
        [_value_info(f"i{i}", v.type) for i, v in enumerate(op.inputs)],
        [_value_info(f"o{i}", v.type) for i, v in enumerate(op.outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)])


def _value_info(name: str, type_: Attribute) -> Any:
    from onnx import helper

    element = helper.np_dtype_to_tensor_dtype(numpy_dtype(cast(Tensor, type_).element_type))
    return helper.make_tensor_value_info(name, element, None)


def _attribute(value: Attribute) -> Any:
    """What `onnx.helper.make_node` takes for an attribute that was carried."""
    match value:
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case DenseArrayBase():
            return list(cast("DenseArrayBase[Any]", value).get_values())
        case nn.RealsAttr():
            return list(value.data)
        case ArrayAttr():
            return [_attribute(v) for v in value]
        case DenseIntOrFPElementsAttr() | nn.ExternalAttr():
            from onnx import numpy_helper

            return numpy_helper.from_array(np.array(nn.ConstantOp(value).array))
        case _:
            raise ValueError(f"attribute {value} has no ONNX form")
