"""Building operations from Python values, and what holds for all of them."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, TensorType, f16, f32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.properties import attribute_of, properties_of
from amct_opt.ir.text import parse_module
from amct_opt.session.universe import new_session

LIT = Path(__file__).parents[2] / "lit" / "dialects" / "nn"
OPERATIONS = [op for op in nn.OPERATIONS if issubclass(op, IRDLOperation)]


def values(*types: TensorType) -> list[SSAValue]:
    return list(Block(arg_types=types).args)


def round_trip_operations() -> list[Operation]:
    """The operations of all round-trip tests."""
    modules = [parse_module(new_session(), file.read_text(), file.name) for file in sorted(LIT.glob("ops-*.mlir"))]
    return [op for module in modules for op in module.walk()]


def test_the_round_trip_tests_hold_every_operation_and_property() -> None:
    found = {(op.name, name) for op in round_trip_operations() for name in ("", *op.properties)}
    wanted = {(op.name, name) for op in OPERATIONS for name in ("", *op.get_irdl_definition().properties)}
    without_origin = {(op, name) for op, name in wanted if name != "origin"}
    assert without_origin - found == set()


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_operation_is_documented(op: type[IRDLOperation]) -> None:
    assert op.__doc__
    assert "This class" not in op.__doc__
    assert op.__doc__.strip().endswith((".", "```"))


@pytest.mark.parametrize("dialect", [nn.OPERATIONS, list(ascend.ASCEND.operations)], ids=["nn", "ascend"])
def test_keywords_are_unambiguous(dialect: list[type[Operation]]) -> None:
    """Each property of an operation has a keyword of its own, which reads as one word."""
    for op in dialect:
        if issubclass(op, nn.NNOp):
            words = [p.keyword for p in properties_of(op).values()]
            assert len(set(words)) == len(words), op.name
            assert all(re.fullmatch(r"[a-zA-Z_][\w$.]*", word) for word in words), op.name


def test_python_values_become_attributes() -> None:
    x, w, b = values(TensorType(f32, (1, 4, 8, 8)), TensorType(f32, (6, 4, 3, 3)), TensorType(f32, (6,)))
    place = FileLineColLoc(StringAttr("net.onnx"), IntAttr(0), IntAttr(0))
    origin = nn.OriginAttr.of("onnx", "Conv", "stem/conv")
    conv = nn.ConvOp.make(
        x,
        w,
        b,
        strides=(2, np.int64(2)),
        layout="nchw",
        groups=np.int32(1),
        origin=origin,
        location=place,
        name="stem/conv",
    )
    conv.verify_()
    assert conv.result.type == TensorType(f32, (1, 6, 3, 3))
    assert conv.result.name_hint == "stem_conv"
    assert (nn.ints(conv.strides), conv.pads, conv.origin, conv.location) == ((2, 2), None, origin, place)
    assert nn.GeluOp.make(x, tanh_approximation=True).tanh_approximation is not None
    assert nn.GeluOp.make(x, tanh_approximation=False).tanh_approximation is None
    assert nn.ClipOp.make(x, max=6).bounds == (-math.inf, 6.0)
    assert nn.CompareOp.make(x, x, predicate="lt").predicate.data is nn.Predicate.LT


def test_optional_operands_may_be_left_out_or_none() -> None:
    a, b = values(TensorType(f32, (2, 3)), TensorType(f32, (3, 4)))
    assert nn.MatMulOp.make(a, b).bias is None
    assert nn.MatMulOp.make(a, b, None).bias is None


def test_several_results() -> None:
    (x,) = values(TensorType(f32, (6, 2)))
    split = nn.SplitOp.make(x, sizes=(1, 5))
    assert [r.type for r in split.results] == [TensorType(f32, (1, 2)), TensorType(f32, (5, 2))]
    assert [r.type for r in nn.SplitOp.make(x, sizes=(6,)).results] == [x.type]
    opaque = nn.OpaqueOp.make([x], framework="onnx", op_type="Sink", result_types=[])
    assert len(opaque.results) == 0


def test_given_types_are_taken() -> None:
    (x,) = values(TensorType(f32, (2,)))
    assert nn.CastOp.make(x, result_types=[TensorType(f16, (2,))]).result.type == TensorType(f16, (2,))


def test_what_cannot_be_built_uses_nothing() -> None:
    (x,) = values(TensorType(f32, (2,)))
    with pytest.raises(VerifyException, match="out of range"):
        nn.SoftmaxOp.make(x, axis=3)
    assert not x.uses.get_length()


def test_unknown_properties_and_values() -> None:
    (x,) = values(TensorType(f32, (2,)))
    with pytest.raises(ValueError, match=r"nn\.softmax has no property axes"):
        nn.SoftmaxOp.make(x, axes=(1,))
    with pytest.raises(TypeError, match="an attribute is needed, not 'conv1'"):
        nn.ReluOp.make(x, origin="conv1")
    with pytest.raises(ValueError, match="nchw4"):
        nn.GlobalMaxPoolOp.make(x, layout="nchw4")
    assert attribute_of(nn.SoftmaxOp, "axis", None) is None


def test_a_copy_with_other_operands() -> None:
    x, w, v, b = values(*(TensorType(f32, s) for s in ((1, 4, 8, 8), (6, 4, 3, 3), (5, 4, 3, 3), (5,))))
    conv = nn.ConvOp.make(x, w, pads=(1, 1, 1, 1), name="conv1", origin=nn.OriginAttr.of("onnx", "Conv", "conv1"))
    conv.attributes["note"] = StringAttr("kept")
    copy = conv.with_operands(weight=v, bias=b, result_type=TensorType(f32, (1, 5, 8, 8)))
    copy.verify_()
    assert (copy.input, copy.weight, copy.bias) == (x, v, b)
    assert (copy.properties, copy.attributes, copy.location) == (conv.properties, conv.attributes, conv.location)
    assert copy.result.name_hint == "conv1"
    assert copy.with_operands(bias=None).bias is None
    with pytest.raises(ValueError, match=r"nn\.conv has no operand wait"):
        conv.with_operands(wait=w)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("conv1", "conv1"),
        ("layer1/conv:0", "layer1_conv"),
        ("0", "v0"),
        ("12a", "v12a"),
        ("x_1_2", "x"),
        ("层", None),
        ("", None),
        ("a.b-c$d", "a.b-c$d"),
    ],
)
def test_names_of_values(name: str, hint: str | None) -> None:
    """Legal in MLIR, and what xDSL keeps: a number alone would be an unnamed value, one after `_` is removed."""
    assert nn.name_hint(name) == hint


def test_constants() -> None:
    small, large = np.arange(3), np.zeros(65, np.float32)
    assert nn.array_of(nn.ConstantOp.of(small, "k").result) is not None
    assert nn.ConstantOp.of(large, "weight").array is large
    assert nn.ConstantOp.of(large, "fc/weight").result.name_hint == "fc_weight"
    assert nn.constant_ints(nn.ConstantOp.of(np.array([[1, -2]]), "k").result) == (1, -2)
    assert nn.constant_ints(nn.ConstantOp.of(np.arange(100), "k").result) == tuple(range(100))
    assert nn.constant_ints(nn.ConstantOp.of(np.zeros(2, np.float32), "k").result) is None
    (x,) = values(TensorType(i64, (2,)))
    assert nn.constant_ints(x) is None
    assert nn.array_of(x) is None
    assert nn.array_of(None) is None
