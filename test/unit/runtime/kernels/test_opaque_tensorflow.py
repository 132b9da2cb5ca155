"""Carried operators of TensorFlow: their attributes as text and back, the types of their results, and how they run."""

from __future__ import annotations

import builtins
from typing import cast

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
    f32,
    i32,
)

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC
from amct_opt.formats.tensorflow.attributes import attr_value, mlir_of
from amct_opt.formats.tensorflow.schema import DATA_TYPES, MESSAGES
from amct_opt.frontends.tensorflow.opaque import result_types
from amct_opt.ir.dtypes import element_type
from amct_opt.ir.functions import main_function, return_op
from amct_opt.ir.text import module_text, parse_module
from amct_opt.runtime.kernels import kernel_for
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.constant_folding import FoldConstantsPass

from ...frameworks import later, tf
from ...values import made_by

AttrValue = later("tensorflow.core.framework.attr_value_pb2.AttrValue")

WHERE = "graph.pb: node 'n'"


def types(*rows):
    return [TensorType(element_type(np.dtype(d)), shape) for d, shape in rows]


FLOAT = {"T": MESSAGES["AttrValue"](type=DATA_TYPES["DT_FLOAT"])}


def lists(**fields):
    return AttrValue(list=fields)


VALUES = {
    "integer": (lambda: AttrValue(i=-(2**62)), "-4611686018427387904 : i64"),
    "float": (lambda: AttrValue(f=1e-5), "1.000000e-05 : f32"),
    "float of nine digits": (lambda: AttrValue(f=0.100000024), "0.100000024 : f32"),
    "not a number": (lambda: AttrValue(f=float("nan")), None),
    "true": (lambda: AttrValue(b=True), "true"),
    "false": (lambda: AttrValue(b=False), "false"),
    "text": (lambda: AttrValue(s='ab,"->\\ü'.encode()), None),
    "type": (lambda: AttrValue(type=DATA_TYPES["DT_BFLOAT16"]), "bf16"),
    "unsigned type": (lambda: AttrValue(type=DATA_TYPES["DT_UINT8"]), "ui8"),
    "truth type": (lambda: AttrValue(type=DATA_TYPES["DT_BOOL"]), "i1"),
    "shape": (lambda: AttrValue(shape=tf.TensorShape([1, None, 0]).as_proto()), "#nn.shape<[1, ?, 0]>"),
    "scalar shape": (lambda: AttrValue(shape=tf.TensorShape([]).as_proto()), "#nn.shape<[]>"),
    "any shape": (lambda: AttrValue(shape=tf.TensorShape(None).as_proto()), "#nn.shape<*>"),
    "tensor": (lambda: AttrValue(tensor=tf.make_tensor_proto(np.arange(6.0).reshape(2, 3))), None),
    "long tensor": (lambda: AttrValue(tensor=tf.make_tensor_proto(np.arange(300))), None),
    "integers": (lambda: lists(i=[1, -2]), "array<i64: 1, -2>"),
    "floats": (lambda: lists(f=[0.5, 1e-7]), None),
    "flags": (lambda: lists(b=[True, False]), "[true, false]"),
    "texts": (lambda: lists(s=[b"a", b"b"]), '["a", "b"]'),
    "types": (lambda: lists(type=[DATA_TYPES["DT_FLOAT"], DATA_TYPES["DT_INT64"]]), "[f32, i64]"),
    "shapes": (
        lambda: lists(shape=[tf.TensorShape([2]).as_proto(), tf.TensorShape(None).as_proto()]),
        "[#nn.shape<[2]>, #nn.shape<*>]",
    ),
    "nothing": (lambda: lists(), "[]"),
}


def in_a_module(attribute) -> tuple[str, nn.OpaqueOp]:
    """The text of a module with the attribute, and the operation read from it."""
    attrs = DictionaryAttr({"a": attribute})
    op = nn.OpaqueOp.make([], result_types=types(), framework="tensorflow", op_type="X", attrs=attrs)
    text = module_text(ModuleOp([op]))
    (read,) = parse_module(new_session(), text).ops
    assert isinstance(read, nn.OpaqueOp)
    return text, read


@pytest.mark.parametrize("name", VALUES)
def test_attributes_come_back_from_the_text_of_a_module(name) -> None:
    make, text = VALUES[name]
    theirs = make()
    value = MESSAGES["AttrValue"].FromString(theirs.SerializeToString())
    attribute = mlir_of("a", value, WHERE)
    written, op = in_a_module(attribute)
    assert text is None or f"{{a = {text}}}" in written
    assert op.attrs is not None
    read = op.attrs.data["a"]
    back = AttrValue.FromString(attr_value(read).SerializeToString())
    if theirs.HasField("tensor"):
        np.testing.assert_array_equal(tf.make_ndarray(back.tensor), tf.make_ndarray(theirs.tensor), strict=True)
    elif name == "not a number":
        assert np.isnan(back.f)
    else:
        assert back == theirs


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"func": {"name": "f"}}, "attribute 'a' is a func, which cannot"),
        ({"list": {"func": [{"name": "f"}]}}, "attribute 'a' is a list of funcs, which cannot"),
        ({"placeholder": "T"}, "attribute 'a' is a placeholder, which cannot"),
        ({}, "attribute 'a' is a value that is missing"),
        ({"s": b"\xff"}, "contains bytes that are not text"),
        ({"type": DATA_TYPES["DT_STRING"]}, "element type DT_STRING is not supported"),
    ],
)
def test_attributes_that_cannot_be_carried(fields, message) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        mlir_of("a", MESSAGES["AttrValue"].FromString(AttrValue(**fields).SerializeToString()), WHERE)
    assert caught.value.where.startswith(WHERE)


def test_attributes_without_a_form_in_tensorflow() -> None:
    with pytest.raises(ValueError, match="a list of f and s has no form"):
        attr_value(ArrayAttr([StringAttr("a"), mlir_of("a", AttrValue(f=1), WHERE)]))


def test_results_of_known_values_and_of_types() -> None:
    x, k = TensorType(f32, (2, DYNAMIC)), np.array(3, np.int32)
    assert result_types("TopKV2", [x, k], FLOAT, WHERE) == types((np.float32, (2, 3)), (np.int32, (2, 3)))
    known = result_types("TopKV2", [x, TensorType(i32, ())], FLOAT, WHERE)
    assert known == types((np.float32, (2, DYNAMIC)), (np.int32, (2, DYNAMIC)))


@pytest.mark.parametrize(
    ("op_type", "inputs", "message"),
    [
        ("NoSuchOperator", [], "NoSuchOperator is not valid: Op type not registered"),
        ("Cholesky", [TensorType(f32, (3,))], "Cholesky is not valid: Shape must be at least rank 2"),
        ("Timestamp", [], "Timestamp cannot be carried: it has a state"),
        ("NoOp", [], "NoOp cannot be carried: it has no result"),
        ("AsString", [TensorType(f32, (3,))], "element type DT_STRING is not supported"),
    ],
)
def test_what_cannot_be_carried(op_type, inputs, message) -> None:
    attributes = FLOAT if inputs else {}
    with pytest.raises(CompileError, match=message) as caught:
        result_types(op_type, inputs, attributes, WHERE)
    assert caught.value.where.startswith(WHERE)


def test_a_file_is_not_read() -> None:
    attributes = {
        "dtype": AttrValue(type=DATA_TYPES["DT_FLOAT"]),
        "shape": AttrValue(shape=tf.TensorShape([1]).as_proto()),
        "memory_region_name": AttrValue(s=b"/etc/hostname"),
    }
    with pytest.raises(CompileError, match="ImmutableConst cannot be carried"):
        result_types("ImmutableConst", [], attributes, WHERE)


def test_a_result_of_unknown_rank() -> None:
    attributes = {**FLOAT, "Tshape": AttrValue(type=DATA_TYPES["DT_INT32"])}
    with pytest.raises(CompileError, match="Reshape has a result 0 of unknown rank"):
        result_types("Reshape", [TensorType(f32, (4,)), TensorType(i32, (DYNAMIC,))], attributes, WHERE)


def test_without_tensorflow(monkeypatch) -> None:
    whole = builtins.__import__

    def absent(name, *arguments, **more):
        if name.partition(".")[0] == "tensorflow":
            raise ImportError(name)
        return whole(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(CompileError, match="requires TensorFlow") as caught:
        result_types("TopKV2", [TensorType(f32, (2, 5)), np.array(3, np.int32)], {}, WHERE)
    assert caught.value.hint == "pip install 'amct-opt[tensorflow]'"


# How they run

T_FLOAT = ("type", DATA_TYPES["DT_FLOAT"])


@pytest.fixture
def carried(run):
    """`carried(op_type, inputs, results, **attributes)`: results of these dtypes and shapes; attributes by field and content."""

    def compute(op_type, inputs, results, **attributes):
        values = {n: mlir_of(n, MESSAGES["AttrValue"](**{k: v}), WHERE) for n, (k, v) in attributes.items()}
        properties = {"framework": "tensorflow", "op_type": op_type, "attrs": DictionaryAttr(values)}
        return run(nn.OpaqueOp, *inputs, result_types=types(*results), **properties)

    return compute


def test_several_results(carried) -> None:
    inputs = [np.array([[3, 1, 2]], np.float32), np.array(2, np.int32)]
    values, indices = carried("TopKV2", inputs, [(np.float32, (1, 2)), (np.int32, (1, 2))], T=T_FLOAT)
    assert values.tolist() == [[3, 2]]
    assert indices.tolist() == [[0, 2]]


def test_while_a_program_builds_a_graph(carried) -> None:
    with tf.Graph().as_default():
        (y,) = carried("Tan", [np.zeros(2, np.float32)], [(np.float32, (2,))], T=T_FLOAT)
    assert y.tolist() == [0, 0]


def test_results_of_unknown_size(carried) -> None:
    (y,) = carried("Where", [np.array([0, 3, 0, 5], np.float32)], [(np.int64, (DYNAMIC, 1))], T=T_FLOAT)
    assert y.tolist() == [[1], [3]]


def test_lists_of_inputs_are_told_apart_by_attributes(carried) -> None:
    indices = [np.array([0, 2], np.int32), np.array([[1]], np.int32)]
    data = [np.array([[1, 2], [3, 4]], np.float32), np.array([[[5, 6]]], np.float32)]
    (y,) = carried("DynamicStitch", [*indices, *data], [(np.float32, (3, 2))], N=("i", 2), T=T_FLOAT)
    assert y.tolist() == [[1, 2], [5, 6], [3, 4]]


def test_attributes_that_are_left_out_have_their_default(carried) -> None:
    x = [np.array([1, 2, 3], np.float32), np.array(0, np.int32)]
    (y,) = carried("Cumsum", x, [(np.float32, (3,))], T=T_FLOAT)
    (reverse,) = carried("Cumsum", x, [(np.float32, (3,))], T=T_FLOAT, reverse=("b", True))
    assert y.tolist() == [1, 3, 6]
    assert reverse.tolist() == [6, 5, 3]


def test_lists_of_floats(carried) -> None:
    boundaries = MESSAGES["AttrValue.ListValue"](f=[0.0, 1.0])
    x = np.array([-1, 0.5, 2], np.float32)
    (y,) = carried("Bucketize", [x], [(np.int32, (3,))], T=T_FLOAT, boundaries=("list", boundaries))
    assert y.tolist() == [0, 1, 2]


def test_bfloat16_goes_through(carried) -> None:
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    made = [(x.dtype, (3,))]
    (y,) = carried("Cumsum", [x, np.array(0, np.int32)], made, T=("type", DATA_TYPES["DT_BFLOAT16"]))
    assert y.astype(float).tolist() == [1, 3, 6]


def test_random_numbers_are_drawn_anew(carried) -> None:
    types_ = {"dtype": T_FLOAT, "T": ("type", DATA_TYPES["DT_INT32"])}
    shape, made = np.array([1000], np.int32), [(np.float32, (1000,))]
    (x,), (y,) = (carried("RandomUniform", [shape], made, **types_) for _ in range(2))
    assert 0.4 < x.mean() < 0.6
    assert not np.array_equal(x, y)


def test_random_numbers_are_constants_where_they_have_a_seed() -> None:
    module = parse_module(
        new_session(),
        """
        func.func @main() -> (tensor<3xf32>, tensor<3xf32>) {
          %shape = nn.constant dense<3> : tensor<1xi32>
          %seed = nn.constant dense<[1, 2]> : tensor<2xi32>
          %y = nn.opaque %shape, %seed framework "tensorflow" op_type "StatelessRandomUniform"
            attrs {T = i32, Tseed = i32, dtype = f32} : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xf32>
          %z = nn.opaque %shape framework "tensorflow" op_type "RandomUniform" attrs {T = i32, dtype = f32}
            : (tensor<1xi32>) -> tensor<3xf32>
          func.return %y, %z : tensor<3xf32>, tensor<3xf32>
        }""",
    )
    FoldConstantsPass().apply(new_session(), module)
    function = main_function(module)
    y, z = return_op(function).operands
    expected = tf.raw_ops.StatelessRandomUniform(shape=[3], seed=[1, 2])
    np.testing.assert_array_equal(nn.array_of(y), expected.numpy())
    assert made_by(z, nn.OpaqueOp).op_type.data == "RandomUniform"


def test_a_failure_names_the_operator(carried) -> None:
    inputs = [np.zeros(4, np.float32), np.array([5], np.int32)]
    attributes = {"Tparams": T_FLOAT, "Tindices": ("type", DATA_TYPES["DT_INT32"])}
    with pytest.raises(ValueError, match=r"TensorFlow failed on 'Gather': .*indices\[0\] = 5 is not in \[0, 4\)"):
        carried("Gather", inputs, [(np.float32, (1,))], **attributes)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("NoSuchOperator", {}, "NoSuchOperator is not valid: Op type not registered"),
        ("Timestamp", {}, "Timestamp cannot be carried: it has a state"),
        ("Empty", {"dtype": IntegerAttr(1, cast(IntegerType, element_type(np.dtype(np.uint8))))}, "Empty is not valid"),
    ],
)
def test_what_cannot_run_is_a_located_error(op_type, attributes, message) -> None:
    op = nn.OpaqueOp.make(
        [],
        result_types=types((np.float32, (1,))),
        framework="tensorflow",
        op_type=op_type,
        attrs=DictionaryAttr(attributes),
        location=NameLoc(StringAttr("layer7"), UnknownLoc()),
    )
    with pytest.raises(CompileError, match=message) as caught:
        kernel_for(op)
    assert caught.value.where == "node 'layer7'"
