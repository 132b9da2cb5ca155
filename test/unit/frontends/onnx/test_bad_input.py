"""Files that are not models, damaged ones, and what cannot be represented: one located error each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, ValueInfoProto, helper, numpy_helper

from amct_opt.frontends.onnx import read
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Build = Callable[..., ModelProto]
Save = Callable[[ModelProto], Path]


def error_of(path: Path) -> CompileError:
    with pytest.raises(CompileError) as caught:
        read(path, new_session())
    return caught.value


@pytest.fixture
def refused(save: Save) -> Callable[[ModelProto], str]:
    """The error that a model gives, with the folder cut off: `model.onnx: ...`."""
    return lambda model: str(error_of(path := save(model))).replace(f"{path.parent}/", "")


def relu(name: str = "act", x: str = "x", y: str = "y"):
    return helper.make_node("Relu", [x], [y], name)


# Files


def test_missing_file(tmp_path: Path) -> None:
    assert (
        str(error_of(tmp_path / "none.onnx"))
        == f"{tmp_path}/none.onnx: error: cannot be read: No such file or directory"
    )


def test_directory(tmp_path: Path) -> None:
    error = error_of(tmp_path)
    assert error.message == "is a folder, not a model file"
    assert "inside it" in error.hint


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.touch()
    assert error_of(path).message == "is empty"


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "another format"),
        (b"builtin.module {}\n", "another format"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git lfs pull"),
        (b"\x08\x08", "holds no graph"),
    ],
    ids=["png", "text", "lfs", "no graph"],
)
def test_not_onnx(tmp_path: Path, content: bytes, hint: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    error = error_of(path)
    assert (error.message, error.where) == ("is not an ONNX model", str(path))
    assert hint in error.hint


def test_truncated_anywhere(build: Build, tmp_path: Path) -> None:
    """Whatever length is left, there is a located error, or the whole graph: never another exception, or part of it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "fc"), relu("act", "h")]
    data = build(nodes, [("x", [1, 64])], [("y", [1, 64])], {"w": np.ones((64, 64), np.float32)}).SerializeToString()
    path = tmp_path / "model.onnx"
    whole = outcome(path, data)
    assert "nn.matmul" in whole
    for length in [*range(60), *range(60, len(data) - 200, 997), *range(len(data) - 200, len(data))]:
        left = outcome(path, data[:length])
        assert left == whole or left.startswith(f"{path}: "), f"cut at {length} of {len(data)}"


def outcome(path: Path, data: bytes) -> str:
    """The operations that are read, or the error."""
    path.write_bytes(data)
    try:
        return " ".join(op.name for op in read(path, new_session()).walk())
    except CompileError as e:
        return str(e)


# Opsets and domains


def test_opset_too_new(build: Build, refused: Callable[[ModelProto], str]) -> None:
    text = refused(build([relu()], [("x", [1])], ["y"], opset=99))
    assert text.startswith("model.onnx: error: is of opset 99; 7 to 26 are read")


def test_versions_of_other_domains(build: Build, refused: Callable[[ModelProto], str]) -> None:
    """onnx's checker takes 32 bits and ends with a TypeError else."""
    model = build([relu()], [("x", [1])], ["y"], opset=17)
    model.opset_import.append(helper.make_opsetid("f", 1 << 32))
    assert refused(model).startswith("model.onnx: error: is of opset 4294967296 of 'f', which is not a version")


def test_opset_too_old_for_an_operator(build: Build, refused: Callable[[ModelProto], str]) -> None:
    model = build([helper.make_node("Add", ["x", "x"], ["y"], "sum", broadcast=1)], [("x", [1])], ["y"], opset=6)
    assert refused(model).startswith(
        "model.onnx: node 'sum': error: Add is in the form of opset 6; 7 and later are read"
    )


def test_no_opset(build: Build, refused: Callable[[ModelProto], str]) -> None:
    model = build([relu()], [("x", [1])], ["y"], opset_imports=[helper.make_opsetid("other", 1)])
    assert refused(model) == "model.onnx: error: names no opset of the standard operators"


def test_domain_without_opset(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("Fast", ["x"], ["y"], "fast", domain="my.ops")
    text = refused(build([node], [("x", [1])], ["y"]))
    assert text == "model.onnx: node 'fast': error: Fast is of the domain 'my.ops', whose opset the model does not name"


def test_unknown_operator_of_unknown_type(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("Fast", ["x"], ["y"], "fast", domain="my.ops")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    text = refused(build([node, relu("act", "y", "z")], [("x", [1])], ["z"], opset_imports=imports))
    assert text.startswith("model.onnx: node 'fast': error: Fast has no equivalent here, and the type of its result 0")
    assert "value_info" in text


# Graphs


def test_undefined_name(build: Build, refused: Callable[[ModelProto], str]) -> None:
    text = refused(build([relu("act", "nowhere")], [("x", [1])], ["y"]))
    assert text.startswith("model.onnx: node 'act': error: reads 'nowhere', which nothing defines")


def test_cycle(build: Build, refused: Callable[[ModelProto], str]) -> None:
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"], "first"),
        relu("second", "a", "b"),
        relu("third", "b", "c"),
        relu("last", "c", "y"),
    ]
    text = refused(build(nodes, [("x", [1])], ["y"]))
    assert "is part of a cycle: " in text
    assert {"first", "second", "third"} <= set(text.split("cycle: ")[1].split(" -> "))
    assert "last" not in text


def test_defined_twice(build: Build, refused: Callable[[ModelProto], str]) -> None:
    text = refused(build([relu("one"), relu("two")], [("x", [1])], ["y"]))
    assert text == "model.onnx: node 'two': error: defines 'y', which is defined already"


def test_redefined_input(build: Build, refused: Callable[[ModelProto], str]) -> None:
    text = refused(build([relu("one", "x", "x")], [("x", [1])], ["x"]))
    assert text == "model.onnx: node 'one': error: defines 'x', which is defined already"


def test_names_declared_twice(build: Build, refused: Callable[[ModelProto], str]) -> None:
    assert "input 'x' is declared twice" in refused(build([relu()], [("x", [1]), ("x", [1])], ["y"]))
    assert "output 'y' is declared twice" in refused(build([relu()], [("x", [1])], ["y", "y"]))
    model = build([relu("act", "w")], [], ["y"], {"w": np.ones(2, np.float32)})
    model.graph.initializer.append(model.graph.initializer[0])
    assert "initializer 'w' is given twice" in refused(model)


def test_outputs(build: Build, refused: Callable[[ModelProto], str]) -> None:
    assert "has no outputs" in refused(build([relu()], [("x", [1])], []))
    assert "output 'z' is not computed by any node" in refused(build([relu()], [("x", [1])], ["z"]))


def test_missing_input_of_node(build: Build, refused: Callable[[ModelProto], str]) -> None:
    model = build([helper.make_node("Conv", ["x"], ["y"], "conv")], [("x", [1, 1, 4, 4])], ["y"])
    assert refused(model) == "model.onnx: node 'conv': error: Conv has no input 1, which Conv needs"


def test_operands_that_do_not_fit(build: Build, refused: Callable[[ModelProto], str]) -> None:
    weights = {"w": np.ones((4, 5, 3, 3), np.float32)}
    model = build([helper.make_node("Conv", ["x", "w"], ["y"], "conv")], [("x", [1, 3, 8, 8])], ["y"], weights)
    assert refused(model).startswith("model.onnx: node 'conv': error: Conv does not fit together: input channels")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": 2}, "attribute 'strides' must be a list of integers"),
        ({"strides": [1.5, 1.5]}, "attribute 'strides' must be a list of integers"),
        ({"group": "two"}, "attribute 'group' must be an integer"),
        ({"auto_pad": "MAYBE"}, "has the unknown auto_pad 'MAYBE'"),
        ({"kernel_shape": [5, 5]}, "has kernel_shape [5, 5], its weight is of shape [4, 3, 3, 3]"),
        ({"strides": [1]}, "strides has 1 entries, expected 2"),
        ({"strides": [0, 1]}, "strides [0, 1] must be at least 1"),
        ({"group": 2}, "input channels and weight channels x groups differ: 3 and 6"),
    ],
)
def test_bad_attributes(build: Build, refused: Callable[[ModelProto], str], attributes: dict, message: str) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", **attributes)
    model = build([node], [("x", [1, 3, 8, 8])], ["y"], {"w": np.ones((4, 3, 3, 3), np.float32)})
    text = refused(model)
    assert text.startswith("model.onnx: node 'conv': error: Conv")
    assert message in text


def test_attribute_given_twice(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("Elu", ["x"], ["y"], "elu", alpha=1.0)
    node.attribute.append(node.attribute[0])
    assert (
        refused(build([node], [("x", [1])], ["y"])) == "model.onnx: node 'elu': error: attribute 'alpha' is given twice"
    )


def test_reference_to_an_attribute_outside_a_function(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("Elu", ["x"], ["y"], "elu", alpha=1.0)
    node.attribute[0].ref_attr_name = "a"
    assert "refers to a function's, outside any function" in refused(build([node], [("x", [1])], ["y"]))


# Types


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (helper.make_tensor_type_proto(TensorProto.STRING, [1]), "element type STRING is not supported"),
        (
            helper.make_tensor_type_proto(TensorProto.FLOAT8E5M2FNUZ, [1]),
            "element type FLOAT8E5M2FNUZ is not supported",
        ),
        (helper.make_tensor_type_proto(TensorProto.COMPLEX64, [1]), "element type COMPLEX64 is not supported"),
        (helper.make_tensor_type_proto(99, [1]), "element type 99 is not supported"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, None), "the rank of input 'x' is unknown"),
        (
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [1])),
            "is of a sequence type, only tensors are read",
        ),
        (None, "input 'x' is declared without a type"),
    ],
    ids=["string", "float8", "complex", "unknown", "rank", "sequence", "none"],
)
def test_input_types(build: Build, refused: Callable[[ModelProto], str], type_, message: str) -> None:
    declared = ValueInfoProto(name="x") if type_ is None else ValueInfoProto(name="x", type=type_)
    text = refused(build([relu()], [declared], ["y"]))
    assert text.startswith("model.onnx")
    assert message in text


def test_cast_to_unsupported_type(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.STRING)
    assert (
        refused(build([node], [("x", [1])], ["y"]))
        == "model.onnx: node 'cast': error: element type STRING is not supported"
    )


def test_sequence_inside(build: Build, refused: Callable[[ModelProto], str]) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"], "pair"),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], "join", axis=0),
    ]
    text = refused(build(nodes, [("x", [1])], ["y"]))
    assert (
        text
        == "model.onnx: node 'pair': error: result 0 of SequenceConstruct is of a sequence type, only tensors are read"
    )


# Initializers


def with_weight(build: Build, tensor: TensorProto) -> ModelProto:
    model = build([helper.make_node("Add", ["x", "w"], ["y"], "sum")], [("x", [2, 3])], ["y"])
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize("dims", [[2, 4], [2**40, 2**20], [2, 0]], ids=["long", "huge", "zero"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
def test_shape_and_data_differ(build: Build, refused: Callable[[ModelProto], str], dims: list[int], raw: bool) -> None:
    """Sizes are compared before anything is allocated: 2^60 elements are refused, not asked for."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    values = np.ones(6, np.float32)
    if raw:
        tensor.raw_data = values.tobytes()
    else:
        tensor.float_data.extend(values.tolist())
    text = refused(with_weight(build, tensor))
    assert text.startswith("model.onnx: initializer 'w': error: holds ")
    assert f"its shape {dims} needs" in text


def test_large_weight_with_wrong_shape(build: Build, refused: Callable[[ModelProto], str]) -> None:
    """Weights that stay in the file are held against their shape like the others."""
    tensor = numpy_helper.from_array(np.ones((100, 1000), np.float32), "w")
    tensor.dims[0] = 99
    text = refused(with_weight(build, tensor))
    assert text == "model.onnx: initializer 'w': error: holds 400000 bytes, but its shape [99, 1000] needs 396000"


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1]), "has the negative size -1"),
        (TensorProto(name="w", dims=[1]), "element type UNDEFINED is not supported"),
        (TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"]), "STRING is not supported"),
        (
            TensorProto(name="w", data_type=1, dims=[1], segment=TensorProto.Segment(begin=0, end=1), float_data=[1.0]),
            "is a segment of a larger tensor",
        ),
    ],
    ids=["negative", "undefined", "string", "segment"],
)
def test_bad_tensors(build: Build, refused: Callable[[ModelProto], str], tensor: TensorProto, message: str) -> None:
    text = refused(with_weight(build, tensor))
    assert text.startswith("model.onnx: initializer 'w'")
    assert message in text


def test_sparse_initializer(build: Build, refused: Callable[[ModelProto], str]) -> None:
    model = build([helper.make_node("Add", ["x", "w"], ["y"], "sum")], [("x", [4])], ["y"])
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "i")
    model.graph.sparse_initializer.append(SparseTensorProto(values=values, indices=indices, dims=[4]))
    assert refused(model) == "model.onnx: initializer 'w': error: sparse initializers are not supported"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "has 0 values, expected one"),
        ({"value_int": 1, "value_float": 1.0}, "has 2 values, expected one"),
        ({"value_string": "a"}, "has a value of the kind 'value_string', which is not supported"),
    ],
)
def test_constant_nodes(build: Build, refused: Callable[[ModelProto], str], attributes: dict, message: str) -> None:
    node = helper.make_node("Constant", [], ["y"], "k", **attributes)
    assert refused(build([node], [], ["y"])) == f"model.onnx: node 'k': error: Constant {message}"


def test_filled_tensor_of_absurd_size(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], "fill")
    text = refused(build([node], [], ["y"], {"s": np.array([2**20, 2**20], np.int64)}))
    assert text.startswith(f"model.onnx: node 'fill': error: ConstantOfShape makes a tensor of {2**40} elements")


# Control flow


@pytest.mark.parametrize("op_type", ["Loop", "Scan"])
def test_loops_with_too_few_inputs(build: Build, refused: Callable[[ModelProto], str], op_type: str) -> None:
    body = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "b", [], [ValueInfoProto(name="b")])
    attributes: dict[str, Any] = {"body": body, **({"num_scan_inputs": 1} if op_type == "Scan" else {})}
    node = helper.make_node(op_type, [], ["y"], "loop", **attributes)
    text = refused(build([node], [("x", [1])], ["y"]))
    assert text.startswith(f"model.onnx: node 'loop': error: {op_type} is not valid: ")


def test_a_known_condition_without_its_branch(build: Build, refused: Callable[[ModelProto], str]) -> None:
    node = helper.make_node("If", ["c"], ["y"], "branch")
    text = refused(build([node], [("x", [1])], ["y"], {"c": np.array(True)}))
    assert text == "model.onnx: node 'branch': error: If lacks the branch that it takes"


def test_a_branch_that_contradicts_itself(build: Build, refused: Callable[[ModelProto], str]) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["a"], "conv")
    same = helper.make_node("Identity", ["x"], ["b"])
    then, other = (
        helper.make_graph([node], "branch", [], [ValueInfoProto(name=node.output[0])]) for node in (conv, same)
    )
    node = helper.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other)
    flag = helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL)
    inputs = [("x", [1, 1, 4]), ("s", [])]
    text = refused(build([flag, node], inputs, ["y"], {"w": np.ones((1, 1, 2, 2), np.float32)}))
    assert text.startswith("model.onnx: node 'if': error: If gives 'y', whose rank is not known")


# Anything


def test_damage(build: Build, tmp_path: Path) -> None:
    """Random changes to a file give a located error or a module, whatever they hit: never another exception."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", strides=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["c", "to"], ["r"]),
        helper.make_node("Gemm", ["r", "v", "b"], ["g"], "fc", alpha=0.5, transB=1),
        helper.make_node("TopK", ["g", "k"], ["y", "i"], "top"),
    ]
    weights = {
        "w": np.ones((4, 3, 3, 3), np.float32),
        "b": np.ones(4, np.float32),
        "zero": np.zeros(1, np.int64),
        "rest": np.array([-1], np.int64),
        "v": np.ones((4, 64), np.float32),
        "k": np.array([2], np.int64),
    }
    data = build(nodes, [("x", ["n", 3, 8, 8])], ["y", "i"], weights).SerializeToString()
    path = tmp_path / "model.onnx"
    assert "nn.opaque" in outcome(path, data)
    for _ in range(200):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[at] = rng.integers(0, 256)
        outcome(path, bytes(damaged))
