"""What exporters write for sizes that are not known, and operators that Ascend IR lacks: the same bits, lowered and in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LegalizeAscendPass, LowerToAscendPass
from amct_opt.pipelines.passes import run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget

from ...values import normal as real


class Case(NamedTuple):
    """An operator on inputs whose sizes, of these axes of the first one, are not known."""

    op_type: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = {}
    constants: tuple[Any, ...] = ()
    unknown: tuple[int, ...] = ()
    opset: int = 18


def whole(*values: int) -> Any:
    return np.array(values, np.int64)


NOT_A_NUMBER = np.array([[1, np.nan, -np.inf], [np.nan, 0, np.inf]], np.float32)
SQUARE, TALL = real(2, 4, 4), np.random.default_rng(3).integers(-5, 5, (5, 3))

CASES = {
    "nan": Case("IsNaN", (NOT_A_NUMBER,), unknown=(0,)),
    "range": Case("Range", tuple(np.array(v, np.int64) for v in (-2, 9, 3))),
    "range down": Case("Range", tuple(np.array(v, np.int32) for v in (5, -4, -2))),
    "range of nothing": Case("Range", tuple(np.array(v, np.int64) for v in (5, 2, 1))),
    "triangle": Case("Trilu", (SQUARE,), unknown=(1, 2)),
    "triangle of known size": Case("Trilu", (SQUARE,), {"upper": 0}, unknown=(0,)),
    "lower triangle above the diagonal": Case("Trilu", (TALL,), {"upper": 0}, (np.array(1, np.int64),), (0,)),
    "triangle at a diagonal": Case("Trilu", (TALL, np.array(-1, np.int64)), unknown=(1,)),
    "triangle with infinities": Case("Trilu", (np.full((3, 3), -np.inf, np.float32),), {"upper": 1}, unknown=(0, 1)),
    "triangle of truth values": Case("Trilu", (np.ones((4, 4), bool),), {"upper": 0}, unknown=(0, 1)),
    "zeros": Case("ConstantOfShape", (whole(2, 0, 3),)),
    "value": Case("ConstantOfShape", (whole(2, 3),), {"value": numpy_helper.from_array(np.array([-7], np.int64))}),
    "truth": Case("ConstantOfShape", (whole(2, 3),), {"value": numpy_helper.from_array(np.array([True]))}),
    "expand": Case("Expand", (real(2, 1, 3), whole(4, 1, 5, 1)), unknown=(0, 1)),
    "expand to less": Case("Expand", (real(2, 1, 3), whole(4, 3)), unknown=(0,)),
    "expand to nothing": Case("Expand", (real(2, 1, 3), whole(2, 0, 3))),
    "expand an axis of 1 that is not known": Case("Expand", (real(1, 3),), {}, (whole(4, 3),), (0,)),
    "expand truth values": Case("Expand", (np.array([[True], [False]]), whole(2, 3))),
    "reshape": Case("Reshape", (real(2, 3, 4), whole(0, -1, 2)), unknown=(0,)),
    "reshape to more": Case("Reshape", (real(2, 6), whole(0, 2, 3, 1)), unknown=(0,)),
    "repeat": Case("Tile", (real(2, 3), whole(2, 3)), unknown=(0,)),
    "repeat by constants": Case("Tile", (real(2, 3),), {}, (whole(2, 3),), (0,)),
    "outer product": Case("Einsum", (real(3), real(4)), {"equation": "i,j->ij"}, unknown=(0,)),
    "gelu by tanh": Case("Gelu", (real(3, 40) * 4,), {"approximate": "tanh"}, unknown=(0,), opset=20),
    "gelu by tanh of halves": Case("Gelu", (real(3, 40).astype(np.float16),), {"approximate": "tanh"}, opset=20),
    "instances of lines": Case("InstanceNormalization", (real(2, 3, 17),), {}, (*real(2, 3),), (2,)),
    "batch norm of lines": Case("BatchNormalization", (real(2, 3, 7),), {}, (*real(3, 3), np.abs(real(3))), (0,)),
    "batch norm of rows": Case("BatchNormalization", (real(4, 3),), {}, (*real(3, 3), np.abs(real(3))), (0,)),
}


def written(case: Case, path: Path) -> Path:
    names = [f"i{i}" for i in range(len(case.inputs))]
    constants = [f"c{i}" for i in range(len(case.constants))]
    shapes = [list(np.shape(array)) for array in case.inputs]
    for axis in case.unknown:
        shapes[0][axis] = f"d{axis}"
    graph = helper.make_graph(
        [helper.make_node(case.op_type, [*names, *constants], ["y"], name="L", **case.attributes)],
        "single",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)
            for name, array, shape in zip(names, case.inputs, shapes, strict=True)
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in zip(constants, case.constants, strict=True)],
    )
    graph.output[0].type.tensor_type.elem_type = TensorProto.UNDEFINED
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_lowered_and_read_back(name: str, tmp_path: Path) -> None:
    case, session = CASES[name], new_session()
    module = frontends.read(written(case, tmp_path / "x.onnx"), session)
    inputs = {f"i{i}": array for i, array in enumerate(case.inputs)}
    (expected,) = run(module, inputs).values()
    run_passes(module, [LowerToAscendPass(), LegalizeAscendPass()], session)
    verify(module)
    OnnxAscendTarget().write(module, tmp_path / "y.onnx", session)
    read = frontends.read(tmp_path / "y.onnx", session)
    again = read.clone()
    run_passes(again, [LowerToAscendPass(), LegalizeAscendPass()], session)
    for each in (module, read, again):
        (y,) = run(each, inputs).values()
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        assert y.tobytes() == expected.tobytes()
