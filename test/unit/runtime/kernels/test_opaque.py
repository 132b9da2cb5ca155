"""Carried operators run in onnxruntime or onnx.reference, with attributes, absent inputs and several results."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
    f32,
    i64,
)

from amct_opt.dialects import nn
from amct_opt.ir.dtypes import element_type
from amct_opt.runtime.kernels import kernel_for
from amct_opt.support.diagnostics import CompileError


def types(*arrays):
    return [TensorType(element_type(np.dtype(d)), shape) for d, shape in arrays]


def test_results_of_unknown_size(run) -> None:
    x = np.array([0, 3, 0, 5], np.float32)
    (y,) = run(
        nn.OpaqueOp, x, result_types=types((np.int64, (1, -(2**63)))), framework="onnx", op_type="NonZero", version=13
    )
    assert y.tolist() == [[1, 3]]


def test_several_results_and_integer_attributes(run) -> None:
    x = np.array([[3, 1, 2]], np.float32)
    attrs = {"axis": IntegerAttr(-1, i64), "largest": IntegerAttr(0, i64)}
    values, indices = run(
        nn.OpaqueOp,
        x,
        np.array([2], np.int64),
        result_types=types((np.float32, (1, 2)), (np.int64, (1, 2))),
        framework="onnx",
        op_type="TopK",
        version=11,
        attrs=DictionaryAttr(attrs),
    )
    assert values.tolist() == [[1, 2]]
    assert indices.tolist() == [[1, 2]]


def test_absent_inputs_keep_their_place(run) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    (y,) = run(
        nn.OpaqueOp,
        x,
        np.array([1, 1, 4, 4], np.int64),
        result_types=types((np.float32, (1, 1, 4, 4))),
        framework="onnx",
        op_type="Resize",
        version=19,
        present=(1, 0, 0, 1),
        attrs=DictionaryAttr({"mode": StringAttr("nearest")}),
    )
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value_float", FloatAttr(1.5, f32), 1.5),
        ("value_int", IntegerAttr(-3, i64), -3),
        ("value_ints", DenseArrayBase.from_list(i64, [1, 2]), [1, 2]),
        ("value_floats", nn.RealsAttr((0.5, 2.0)), [0.5, 2.0]),
        ("value", nn.ConstantOp.of(np.array([[7, 8]], np.int64), "v").value, [[7, 8]]),
        ("value", nn.ConstantOp.of(np.arange(100, dtype=np.int64), "v").value, list(range(100))),
    ],
)
def test_every_kind_of_attribute(run, attribute, value, expected) -> None:
    array = np.array(expected, np.float32 if "float" in attribute else np.int64)
    (y,) = run(
        nn.OpaqueOp,
        result_types=types((array.dtype, array.shape)),
        framework="onnx",
        op_type="Constant",
        version=13,
        attrs=DictionaryAttr({attribute: value}),
    )
    np.testing.assert_array_equal(y, array)


def test_lists_of_text(run) -> None:
    one = np.ones((1, 1, 1), np.float32)
    activation = {
        "activations": ArrayAttr([StringAttr("Affine")]),
        "activation_alpha": nn.RealsAttr((3.0,)),
        "activation_beta": nn.RealsAttr((1.0,)),
    }
    _, hidden = run(
        nn.OpaqueOp,
        *(2 * one, one, one),
        result_types=types((np.float32, (1, 1, 1, 1)), (np.float32, (1, 1, 1))),
        framework="onnx",
        op_type="RNN",
        version=14,
        attrs=DictionaryAttr({"hidden_size": IntegerAttr(1, i64), **activation}),
    )
    assert hidden.item() == 7.0  # 3 * 2 + 1


def test_bfloat16_goes_through(run) -> None:
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    (y,) = run(nn.OpaqueOp, x, result_types=types((x.dtype, (3,))), framework="onnx", op_type="Identity", version=16)
    assert y.astype(float).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("framework", "op_type", "message"),
    [
        (
            "onnx",
            "NoSuchOperator",
            r"cannot be run: onnxruntime: .*NoSuchOperator.*; onnx\.reference: .*NoSuchOperator",
        ),
        ("caffe", "Reorg", "there is no reference for operators of framework 'caffe'"),
    ],
)
def test_what_has_no_reference_is_a_located_error(framework, op_type, message) -> None:
    op = nn.OpaqueOp.make(
        [],
        result_types=types((np.float32, (1,))),
        framework=framework,
        op_type=op_type,
        location=NameLoc(StringAttr("layer7"), UnknownLoc()),
    )
    with pytest.raises(CompileError, match=message) as caught:
        kernel_for(op)
    assert caught.value.where == "node 'layer7'"


def test_a_failure_names_the_operator_and_both_engines(run) -> None:
    with pytest.raises(ValueError, match=r"onnxruntime failed on 'Det': .*; onnx\.reference failed on 'Det'"):
        run(
            nn.OpaqueOp,
            np.zeros((2, 3), np.float32),
            result_types=types((np.float32, ())),
            framework="onnx",
            op_type="Det",
            version=11,
        )


def test_gaps_of_the_reference_run_in_onnxruntime(run) -> None:
    """onnx.reference 1.21 gets GatherElements on unequal shapes wrong, and has no bidirectional LSTM."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    indices = np.array([[2], [0]])
    (y,) = run(
        nn.OpaqueOp,
        x,
        indices,
        result_types=types((np.float32, (2, 1))),
        framework="onnx",
        op_type="GatherElements",
        version=13,
        attrs=DictionaryAttr({"axis": IntegerAttr(1, i64)}),
    )
    np.testing.assert_array_equal(y, np.take_along_axis(x, indices, 1))
    zeros = np.zeros((2, 8, 3), np.float32), np.zeros((2, 8, 2), np.float32)
    (y,) = run(
        nn.OpaqueOp,
        np.ones((5, 1, 3), np.float32),
        *zeros,
        result_types=types((np.float32, (5, 2, 1, 2))),
        framework="onnx",
        op_type="LSTM",
        version=14,
        attrs=DictionaryAttr({"hidden_size": IntegerAttr(2, i64), "direction": StringAttr("bidirectional")}),
    )
    assert not y.any()


def test_gaps_of_onnxruntime_run_in_the_reference(run) -> None:
    """onnxruntime 1.31 has no BitwiseNot of float16's bits, so to speak: no Acosh of float16."""
    x = np.array([1.0, 2.0], np.float16)
    (y,) = run(nn.OpaqueOp, x, result_types=types((x.dtype, (2,))), framework="onnx", op_type="Acosh", version=22)
    np.testing.assert_allclose(y, np.arccosh(x), rtol=1e-3)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((np.float64, (3,)), r"result 0 is float32\[3\], tensor<3xf64> is declared"),
        ((np.float32, (4,)), r"result 0 is float32\[3\], tensor<4xf32> is declared"),
        ((np.float32, ()), r"result 0 is float32\[3\], tensor<f32> is declared"),
    ],
)
def test_results_are_held_against_their_declared_types(run, declared, message) -> None:
    with pytest.raises(ValueError, match=message):
        run(
            nn.OpaqueOp,
            np.zeros(3, np.float32),
            result_types=types(declared),
            framework="onnx",
            op_type="Acosh",
            version=22,
        )


def test_without_onnxruntime_the_reference_runs(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    x = np.array([0.5, 0.25], np.float32)
    options = {"result_types": types((x.dtype, (2,))), "framework": "onnx"}
    (y,) = run(nn.OpaqueOp, x, op_type="Acos", version=7, **options)
    np.testing.assert_allclose(y, np.arccos(x), rtol=1e-6)
    with pytest.raises(CompileError, match=r"onnxruntime is not installed; onnx\.reference: "):
        run(nn.OpaqueOp, x, op_type="Gelu", domain="com.microsoft", version=1, **options)
