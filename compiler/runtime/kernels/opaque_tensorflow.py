"""Carried operators of TensorFlow, run by TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import nn
from ...dialects.nn.shapes import tensor_of
from ...ir.dtypes import numpy_dtype
from ...support.diagnostics import describe, op_error
from . import Array, Kernel


def reference(op: nn.OpaqueOp) -> Kernel:
    """Runs a graph of one node. Results are checked against the declared types, which may omit the last ones."""
    from ...formats.tensorflow.attributes import attr_value
    from ...formats.tensorflow.library import runner

    try:
        attributes = {} if op.attrs is None else {name: attr_value(a) for name, a in op.attrs.data.items()}
    except ValueError as e:
        raise op_error(op, f"cannot be run: {e}") from None
    compute = runner(op.op_type.data, attributes, [tensor_of(v) for v in op.inputs], describe(op.location))
    dtypes = [numpy_dtype(r.type.element_type) for r in op.outputs]

    def run(*inputs: Array) -> Sequence[Array]:
        return [r.astype(d, copy=False) for r, d in zip(compute(*inputs)[: len(dtypes)], dtypes, strict=True)]

    return run
