"""Running one operation on arrays, and the same operator of ONNX in its reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, tensor_of
from amct_opt.ir.dtypes import element_type, numpy_dtype
from amct_opt.runtime.kernels import Array

from ..frameworks import ReferenceEvaluator
from ..values import kernel_of


def run(op: type[nn.NNOp], *arrays: Array, dynamic: bool = False, **properties: Any) -> Array | list[Array]:
    """The result (results) of an operation built for these operands; its type must hold, the operands must not change.

    `dynamic` builds it for unknown sizes, which must not change the results.
    """
    shapes = [[DYNAMIC] * a.ndim if dynamic and i == 0 else a.shape for i, a in enumerate(arrays)]
    block = Block(arg_types=[TensorType(element_type(a.dtype), s) for a, s in zip(arrays, shapes, strict=True)])
    variadic = op in (nn.ConcatOp, nn.OpaqueOp)
    built = op.make(*([list(block.args)] if variadic else block.args), **properties)
    kernel = kernel_of(built)
    copies = [a.copy() for a in arrays]
    for a in arrays:
        a.setflags(write=False)
    results: Any = kernel(*arrays)
    for a, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(a, copy, err_msg="an operand was written to")
    several = results if isinstance(results, list | tuple) else [results]
    for result, value in zip(several, built.results, strict=True):
        type_ = tensor_of(value)
        assert result.dtype == numpy_dtype(type_.element_type)
        declared = type_.get_shape()
        assert len(declared) == result.ndim
        assert all(d in (DYNAMIC, n) for d, n in zip(declared, result.shape, strict=True)), (declared, result.shape)
    return cast(Any, results)


def reference(
    op_type: str, *arrays: Array | None, version: int = 21, engine: str = "onnx.reference", **attributes: Any
) -> Any:
    """The first output of an ONNX operator in onnx.reference, or onnxruntime; None is an absent input."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(arrays)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)), None)
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [output]), opset_imports=[helper.make_opsetid("", version)]
    )
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    if engine == "onnxruntime":
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    with np.errstate(all="ignore"):
        (first, *_) = ReferenceEvaluator(model).run(None, feeds)
    return first


@pytest.fixture(name="run", scope="session")
def run_fixture() -> Callable[..., Any]:
    return run


@pytest.fixture(name="reference", scope="session")
def reference_fixture() -> Callable[..., Any]:
    return reference


@pytest.fixture
def small_integers(rng: np.random.Generator) -> Callable[[Sequence[int]], Array]:
    """float32 arrays of integers in [-4, 4]: their products and sums are exact, so results must be equal."""
    return lambda shape: rng.integers(-4, 5, shape).astype(np.float32)
