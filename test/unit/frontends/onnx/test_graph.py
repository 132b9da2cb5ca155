"""What the importer makes of a graph: order, names, places, inputs and outputs, what is folded, removed or carried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.ir.functions import body, dimension_names, input_names, main_function, output_names
from amct_opt.ir.text import module_text
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import Executable, run
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError, describe

from ...frameworks import ReferenceEvaluator

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]


def values(module: ModuleOp) -> list[nn.NNOp]:
    return [op for op in module.walk() if isinstance(op, nn.NNOp)]


def kinds(module: ModuleOp) -> list[str]:
    return [op.name for op in values(module)]


def layers(module: ModuleOp) -> list[str]:
    return [op.origin.layer.data for op in values(module) if op.origin is not None]


def relu(x: str, y: str, name: str = ""):
    return helper.make_node("Relu", [x], [y], name)


# Declared sizes


@pytest.mark.parametrize("unset", [-1, -3, -(2**63), "?"])
def test_sizes_that_are_not_set(unset: int | str, build: Build, load: Load) -> None:
    """Unknown, as to onnxruntime, and without a name: two of them are not the same size."""
    nodes = [relu("x", "h"), helper.make_node("Transpose", ["h"], ["y"], perm=[1, 0])]
    declared = helper.make_tensor_value_info("h", 1, [unset, 2])
    model = build(nodes, [("x", [unset, 2])], [("y", [2, unset])])
    model.graph.value_info.append(declared)
    module = load(model)
    text = module_text(module)
    assert "%x: tensor<?x2xf32>" in text
    assert "-> (tensor<2x?xf32>" in text
    x = np.array([[1, -2], [3, 4], [-5, 6]], np.float32)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], np.maximum(x, 0).T)


# Names and places


def test_layer_names(build: Build, load: Load) -> None:
    """The source's name where it is unique; OpType_index where it is empty, shared, or where that would be taken."""
    nodes = [
        relu("x", "a", "first"),
        relu("a", "b", "twice"),
        relu("b", "c", "twice"),
        relu("c", "d", ""),
        relu("d", "e", "Relu_3"),
        relu("e", "y", "Faltung/größe"),
    ]
    module = load(build(nodes, [("x", [1])], ["y"]))
    assert layers(module) == ["first", "Relu_1", "Relu_2", "Relu_3_1", "Relu_3", "Faltung/größe"]
    assert layers(load(build(nodes, [("x", [1])], ["y"]))) == layers(module)


def test_locations(build: Build, load: Load, tmp_path) -> None:
    module = load(build([relu("x", "y", "act")], [("x", [1])], ["y"]))
    assert describe(values(module)[0].location) == f"{tmp_path}/model.onnx: node 'act'"
    assert describe(main_function(module).location) == f"{tmp_path}/model.onnx"


def test_provenance(build: Build, load: Load) -> None:
    """Attributes of the source, without those at their default and those that the operation states itself."""
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "v": np.ones((5, 100), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], dilations=[1, 1], strides=[2, 2], group=1, auto_pad="SAME_UPPER"),
        helper.make_node("Flatten", ["a"], ["b"], axis=1),
        helper.make_node("Gemm", ["b", "v"], ["y"], transB=1, transA=0, alpha=0.5, beta=1.0),
    ]
    conv, _, gemm = values(load(build(nodes, [("x", [1, 3, 10, 10])], ["y"], weights)))
    assert conv.origin is not None
    assert gemm.origin is not None
    assert set(conv.origin.attributes.data) == {"auto_pad"}
    assert str(conv.origin.attributes.data["auto_pad"]) == '"SAME_UPPER"'
    assert {k: str(v) for k, v in gemm.origin.attributes.data.items()} == {
        "alpha": "5.000000e-01 : f32",
        "transB": "1 : i64",
    }


def test_metadata(build: Build, load: Load) -> None:
    model = build([relu("x", "y")], [("x", [1])], ["y"], producer_name="somebody", producer_version="1.2")
    metadata = load(model).attributes["nn.metadata"]
    assert isinstance(metadata, DictionaryAttr)
    found = {k: v.data for k, v in metadata.data.items() if isinstance(v, StringAttr)}
    assert found == {"framework": "onnx", "source": "model.onnx", "opset": "17", "producer": "somebody 1.2"}


# Inputs and outputs


def test_dimension_names(build: Build, load: Load) -> None:
    inputs = [("x", ["batch", 3, None])]
    function = main_function(load(build([relu("x", "y")], inputs, [("y", ["batch", 3, "length"])])))
    assert function.arg_attrs is not None
    assert function.res_attrs is not None
    assert str(body(function).args[0].type) == "tensor<?x3x?xf32>"
    assert dimension_names(function.arg_attrs.data[0]) == ["batch", "", ""]
    assert dimension_names(function.res_attrs.data[0]) == ["batch", "", "length"]


def test_unused_input_stays(build: Build, load: Load) -> None:
    module = load(build([relu("x", "y")], [("unused", [2]), ("x", [1])], ["y"]))
    assert input_names(main_function(module)) == ["unused", "x"]


def test_outputs_that_are_inputs_or_weights(build: Build, load: Load) -> None:
    weights = {"w": np.arange(3, dtype=np.float32), "unused": np.ones(2, np.float32)}
    nodes = [helper.make_node("Identity", ["x"], ["copy"]), relu("x", "y")]
    module = load(build(nodes, [("x", [2])], ["x", "w", "copy", "y"], weights))
    assert output_names(main_function(module)) == ["x", "w", "copy", "y"]
    results = run(module, {"x": np.array([-1, 2], np.float32)})
    assert [results[n].tolist() for n in ("x", "w", "copy", "y")] == [[-1, 2], [0, 1, 2], [-1, 2], [0, 2]]


@pytest.mark.parametrize(("ir_version", "rules"), [(3, ["summary"]), (8, ["default", "summary"])])
def test_initializers_listed_as_inputs(
    build: Build, load: Load, session: Session, ir_version: int, rules: list[str]
) -> None:
    """IR version 3 lists every initializer as an input; since version 4 such an input has a default, which is taken."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    inputs = [("x", [2]), ("w", [2])]
    module = load(build([node], inputs, ["y"], {"w": np.ones(2, np.float32)}, ir_version=ir_version))
    assert input_names(main_function(module)) == ["x"]
    assert [r.rule for r in session.remarks] == rules


def test_declared_output_that_is_wrong(build: Build, load: Load, session: Session) -> None:
    module = load(build([relu("x", "y")], [("x", [1, 3])], [("y", [1, 4])]))
    assert str(main_function(module).function_type.outputs.data[0]) == "tensor<1x3xf32>"
    (note,) = [r for r in session.remarks if r.rule == "declared-type"]
    assert note.reason == "the model declares tensor<1x4xf32> and computes tensor<1x3xf32>"


def test_scalars_and_no_elements(build: Build, load: Load) -> None:
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=0)
    module = load(
        build([node, relu("s", "t")], [("x", [2, 3]), ("s", [])], ["y", "t"], {"w": np.zeros((0, 3), np.float32)})
    )
    results = run(
        module, {"x": np.ones((2, 3), np.float32), "s": np.array(-1, np.float32)[()] * np.ones((), np.float32)}
    )
    assert results["y"].shape == (2, 3)
    assert results["t"].shape == ()


# Order, sharing, removal


def test_nodes_out_of_order(build: Build, load: Load) -> None:
    nodes = [relu("b", "y", "third"), relu("a", "b", "second"), relu("x", "a", "first")]
    module = load(build(nodes, [("x", [1])], ["y"]))
    verify(module)
    assert layers(module) == ["first", "second", "third"]


def test_weights_are_shared(build: Build, load: Load) -> None:
    """One initializer used twice, once through an Identity as torch writes shared parameters, is one constant."""
    nodes = [
        helper.make_node("Identity", ["w"], ["same"]),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "same"], ["y"]),
    ]
    module = load(build(nodes, [("x", [10, 10])], ["y"], {"w": np.ones((10, 10), np.float32)}))
    first, second = (op for op in module.walk() if isinstance(op, nn.MatMulOp))
    assert first.rhs is second.rhs


def test_unused_nodes_are_left_out(build: Build, load: Load, session: Session) -> None:
    """Also those that could not be represented: nothing asks for them."""
    nodes = [relu("x", "y"), relu("x", "dead"), helper.make_node("StringNormalizer", ["dead"], ["text"])]
    module = load(build(nodes, [("x", [1])], ["y"]))
    assert kinds(module) == ["nn.relu"]
    assert session.remarks[-1].reason == "3 nodes: 1 mapped to nn, 0 carried as opaque, 0 folded, 0 removed, 2 unused"


def test_constant_computing_is_folded(build: Build, load: Load, session: Session) -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        helper.make_node("Mul", ["ones", "two"], ["twos"]),
        helper.make_node("TopK", ["twos", "k"], ["top", "indices"]),
        helper.make_node("Add", ["x", "top"], ["y"]),
    ]
    weights = {"shape": np.array([4], np.int64), "k": np.array([2], np.int64)}
    module = load(build(nodes, [("x", [2])], ["y"], weights))
    assert kinds(module) == ["nn.add"]
    assert run(module, {"x": np.ones(2, np.float32)})["y"].tolist() == [3, 3]
    assert session.remarks[-1].reason == "5 nodes: 1 mapped to nn, 0 carried as opaque, 4 folded, 0 removed, 0 unused"


def test_a_node_that_names_a_constant_twice_is_folded(build: Build, load: Load) -> None:
    nodes = [helper.make_node("Mul", ["c", "c"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])]
    module = load(build(nodes, [("x", [2])], ["y"], {"c": np.array([2, 3], np.float32)}))
    assert kinds(module) == ["nn.add"]
    (result,) = run(module, {"x": np.zeros(2, np.float32)}).values()
    np.testing.assert_array_equal(result, [4, 9])


def test_large_results_are_not_folded(build: Build, load: Load) -> None:
    node = helper.make_node("Expand", ["w", "shape"], ["y"])
    weights = {"w": np.ones(1, np.float32), "shape": np.array([2**40], np.int64)}
    assert kinds(load(build([node], [], ["y"], weights))) == ["nn.expand"]


def test_filled_tensors_take_no_memory(build: Build, load: Load) -> None:
    """A gigabyte of equal weights, as the light models of onnx have them, is a view of one number."""
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    module = load(build(nodes, [("x", [1, 2**14])], ["y"], {"shape": np.array([2**14, 2**14], np.int64)}))
    (constant,) = [op for op in module.walk() if isinstance(op, nn.ConstantOp)]
    assert constant.array.shape == (2**14, 2**14)
    assert constant.array.strides == (0, 0)


def test_random_numbers_are_not_folded(build: Build, load: Load) -> None:
    node = helper.make_node("RandomNormalLike", ["w"], ["y"])
    module = load(build([node], [], ["y"], {"w": np.ones(3, np.float32)}))
    assert kinds(module) == ["nn.opaque"]


def test_quantized_weights_stay_quantized(build: Build, load: Load) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"], axis=0),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    weights = {"w": np.ones((2, 2), np.int8), "s": np.array([0.5, 0.25], np.float32), "z": np.zeros(2, np.int8)}
    module = load(build(nodes, [("x", [1, 2])], ["y"], weights))
    assert kinds(module) == ["nn.dequantize", "nn.matmul"]
    assert run(module, {"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[0.75, 0.75]]


# Types


@pytest.mark.parametrize("dtype", [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16), np.dtype("float64")])
def test_float_types_are_kept(build: Build, load: Load, dtype: np.dtype) -> None:
    code = helper.np_dtype_to_tensor_dtype(dtype)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("x", code, [2, 100])
    module = load(build(nodes, [x], ["y"], {"w": np.eye(100).astype(dtype)}))
    assert [str(op.results[0].type).split("x")[-1][:-1] for op in values(module)[:2]] == [
        {"float16": "f16", "bfloat16": "bf16", "float64": "f64"}[dtype.name]
    ] * 2
    x_values = np.linspace(-1, 1, 200).reshape(2, 100).astype(dtype)
    result = run(module, {"x": x_values})["y"]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.maximum(x_values.astype(np.float32), 0))


def test_mixed_types(build: Build, load: Load) -> None:
    """A batch norm with float32 parameters next to a float16 input, as mixed-precision exporters write it."""
    weights = {n: np.full(3, v, np.float32) for n, v in (("s", 2), ("b", 1), ("m", 0.5), ("v", 4))}
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.0)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 3, 2])
    module = load(build([node], [x], ["y"], weights))
    result = run(module, {"x": np.ones((1, 3, 2), np.float16)})["y"]
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.full((1, 3, 2), 1.5, np.float16))


# Opaque operations


def opaque_of(module: ModuleOp) -> nn.OpaqueOp:
    (op,) = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    return op


def test_opaque(build: Build, load: Load, session: Session) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], "top", axis=-1, largest=0)
    module = load(build([node], [("x", ["n", 5])], ["v", "i"], {"k": np.array([2], np.int64)}))
    op = opaque_of(module)
    assert [str(t) for t in op.result_types] == ["tensor<?x2xf32>", "tensor<?x2xi64>"]
    assert op.version is not None
    assert (op.framework.data, op.op_type.data, op.domain, op.version.value.data) == ("onnx", "TopK", None, 17)
    assert op.attrs is not None
    assert {k: str(v) for k, v in op.attrs.data.items()} == {"axis": "-1 : i64", "largest": "0 : i64"}
    remark, summary = session.remarks
    assert (remark.kind, remark.pass_name, remark.layer) == ("missed", "import", "top")
    assert remark.reason == "carried as opaque: nn has no equivalent of TopK"
    assert summary.kind == "analysis"
    assert summary.reason == "1 nodes: 0 mapped to nn, 1 carried as opaque (1 TopK), 0 folded, 0 removed, 0 unused"
    results = run(module, {"x": np.array([[3, 1, 2, 5, 4]], np.float32)})
    assert results["v"].tolist() == [[1, 2]]
    assert results["i"].tolist() == [[1, 2]]


def test_absent_inputs_and_outputs(build: Build, load: Load) -> None:
    """An LSTM with an initial state but no sequence lengths, of which only the last state is used."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(1, 16, 3)).astype(np.float32),
        "r": rng.normal(size=(1, 16, 4)).astype(np.float32),
        "h": rng.normal(size=(1, 2, 4)).astype(np.float32),
    }
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["", "y"], "lstm", hidden_size=4)
    model = build([node], [("x", [5, 2, 3])], ["y"], weights)
    op = opaque_of(load(model))
    assert nn.ints(op.present) == (1, 1, 1, 0, 0, 1)
    assert [str(t) for t in op.result_types] == ["tensor<5x1x2x4xf32>", "tensor<1x2x4xf32>"]
    x = rng.normal(size=(5, 2, 3)).astype(np.float32)
    (wanted,) = map(np.asarray, ReferenceEvaluator(model).run(None, {"x": x}))
    np.testing.assert_allclose(run(load(model), {"x": x})["y"], wanted, rtol=1e-5)


def test_opaque_attributes(build: Build, load: Load) -> None:
    """Numbers, texts, lists and tensors, typed by what the model declares; running it is the located error."""
    attributes = {
        "number": 0.1,
        "text": "größe",
        "ints": [1, 2],
        "floats": [0.1, 1e-30],
        "texts": ["a", "b"],
        "tensor": numpy_helper.from_array(np.arange(3, dtype=np.int8), "t"),
    }
    node = helper.make_node("Fast", ["x"], ["y"], "fast", domain="my.ops", **attributes)
    model = build(
        [node],
        [("x", [2])],
        [("y", [2, "k"])],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 3)],
    )
    module = load(model)
    op = opaque_of(module)
    assert op.domain is not None
    assert op.version is not None
    assert (op.domain.data, op.version.value.data) == ("my.ops", 3)
    assert str(op.result_types[0]) == "tensor<2x?xf32>"
    assert op.attrs is not None
    assert sorted(op.attrs.data) == sorted(attributes)
    assert op.attrs.data["floats"] == nn.RealsAttr((np.float32(0.1).item(), np.float32(1e-30).item()))
    tensor: Any = op.attrs.data["tensor"]
    assert nn.ConstantOp(tensor).array.tolist() == [0, 1, 2]
    with pytest.raises(CompileError, match=r"node 'fast': error: .*Fast"):
        Executable(module).run({"x": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), "its indices are used"),
        (
            helper.make_node("BatchNormalization", ["x", "c", "c", "c", "c"], ["y", "i", "v"], training_mode=1),
            "it computes the statistics of training",
        ),
        (helper.make_node("Dropout", ["x", "", "t"], ["y", "i"]), "its mask is used"),
        (helper.make_node("Dropout", ["x", "", "t"], ["y"]), "it is in training mode"),
    ],
    ids=["pool", "batch norm", "mask", "dropout"],
)
def test_forms_that_are_carried(build: Build, load: Load, session: Session, node, reason: str) -> None:
    weights = {"c": np.ones(3, np.float32), "t": np.array(True)}
    module = load(build([node], [("x", [1, 3, 4, 4])], ["y", "i"][: len(node.output)], weights))
    assert opaque_of(module).op_type.data == node.op_type
    assert session.remarks[0].reason == f"carried as opaque: {reason}"


def test_unused_extra_outputs_do_not_matter(build: Build, load: Load) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a", "indices"], kernel_shape=[2, 2]),
        helper.make_node("Dropout", ["a"], ["y", "mask"]),
    ]
    assert kinds(load(build(nodes, [("x", [1, 3, 4, 4])], ["y"]))) == ["nn.max_pool"]


# Control flow and functions


def branch(constant: float, result: str):
    nodes = [
        helper.make_node("Constant", [], [f"{result}_k"], "k", value_float=constant),
        helper.make_node("Mul", ["h", f"{result}_k"], [result], "scale"),
    ]
    return helper.make_graph(nodes, result, [], [ValueInfoProto(name=result)])


@pytest.mark.parametrize(("condition", "wanted"), [(True, 2.0), (False, 3.0)])
def test_if_with_known_condition(build: Build, load: Load, condition: bool, wanted: float) -> None:
    """The branch that is taken stands in the If's place; it reads values of the graph around it, wherever they come."""
    nodes = [
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch(2.0, "t"), else_branch=branch(3.0, "e")),
        relu("x", "h", "scale"),
    ]
    module = load(build(nodes, [("x", [2])], ["y"], {"c": np.array(condition)}))
    verify(module)
    assert kinds(module) == ["nn.relu", "nn.mul"]
    assert layers(module) == ["Relu_1", "Mul_1"]
    assert run(module, {"x": np.array([1, -1], np.float32)})["y"].tolist() == [wanted, 0]


def test_nested_if(build: Build, load: Load) -> None:
    inner = helper.make_node("If", ["c"], ["o"], then_branch=branch(2.0, "t"), else_branch=branch(3.0, "e"))
    outer = helper.make_graph([inner, relu("o", "p")], "outer", [], [ValueInfoProto(name="p")])
    nodes = [relu("x", "h"), helper.make_node("If", ["d"], ["y"], then_branch=branch(5.0, "u"), else_branch=outer)]
    module = load(build(nodes, [("x", [1])], ["y"], {"c": np.array(True), "d": np.array(False)}))
    assert run(module, {"x": np.ones(1, np.float32)})["y"].tolist() == [2]


def test_functions_of_the_model_are_inlined(build: Build, load: Load) -> None:
    function = helper.make_function(
        "my.ops",
        "Leaky",
        ["a"],
        ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["c"]), helper.make_node("Neg", ["c"], ["b"])],
        [helper.make_opsetid("", 17)],
        ["alpha"],
    )
    attribute = function.node[0].attribute.add(name="alpha", type=1)
    attribute.ref_attr_name = "alpha"
    nodes = [
        helper.make_node("Leaky", ["x"], ["h"], "first", domain="my.ops", alpha=0.5),
        helper.make_node("Leaky", ["h"], ["y"], "second", domain="my.ops", alpha=0.25),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    module = load(build(nodes, [("x", [2])], ["y"], functions=[function], opset_imports=imports))
    assert kinds(module) == ["nn.leaky_relu", "nn.neg"] * 2
    assert len(set(layers(module))) == 4
    assert run(module, {"x": np.array([4, -8], np.float32)})["y"].tolist() == [1, -4]


# Unknown sizes


def arithmetic(module: ModuleOp) -> set[str]:
    """Which of the operations that shape arithmetic is made of are left."""
    return {"nn.shape", "nn.gather", "nn.concat", "nn.unsqueeze", "nn.slice", "nn.cast"} & set(kinds(module))


def sizes(module: ModuleOp) -> list[str]:
    return [str(op.result.type) for op in values(module) if isinstance(op, nn.ReshapeOp | nn.ExpandOp)]


def test_flattening_with_unknown_batch(build: Build, load: Load) -> None:
    """`x.view(x.size(0), -1)` as torch exports it."""
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Shape", ["h"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["h", "to"], ["y"]),
    ]
    weights = {"zero": np.array(0, np.int64), "axes": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    module = load(build(nodes, [("x", ["n", 3, 2, 2])], ["y"], weights))
    assert kinds(module) == ["nn.relu", "nn.reshape"]
    assert sizes(module) == ["tensor<?x12xf32>"]
    assert run(module, {"x": np.ones((5, 3, 2, 2), np.float32)})["y"].shape == (5, 12)


def heads(named: bool) -> tuple[list, list, dict]:
    """Splitting into attention heads by the sizes of another value: `q.view(x.size(0), x.size(1), 2, 4)`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["bs"]),
        helper.make_node("Concat", ["bs", "heads"], ["to"], axis=0),
        helper.make_node("Reshape", ["q", "to"], ["y"]),
    ]
    weights = {
        "w": np.ones((8, 8), np.float32),
        "zero": np.array([0], np.int64),
        "two": np.array([2], np.int64),
        "heads": np.array([2, 4], np.int64),
    }
    return nodes, [("x", ["batch", "length", 8] if named else [None, None, 8])], weights


@pytest.mark.parametrize("named", [True, False])
def test_sizes_of_another_value(build: Build, load: Load, named: bool) -> None:
    """Two sizes that are not known, of a value with the same sizes: onnx's inference carries their names through."""
    nodes, inputs, weights = heads(named)
    module = load(build(nodes, inputs, ["y"], weights))
    assert kinds(module) == ["nn.matmul", "nn.reshape"]
    (reshape,) = [op for op in module.walk() if isinstance(op, nn.ReshapeOp)]
    assert nn.ints(reshape.to) == (0, 0, 2, 4)
    assert run(module, {"x": np.ones((3, 5, 8), np.float32)})["y"].shape == (3, 5, 2, 4)


def test_shape_that_is_not_known(build: Build, load: Load) -> None:
    """A shape given as an input keeps its operand; its length is the rank of the result."""
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [3])
    module = load(build([helper.make_node("Reshape", ["x", "s"], ["y"])], [("x", [None, 6]), shape], ["y"]))
    assert sizes(module) == ["tensor<?x?x?xf32>"]
    result = run(module, {"x": np.ones((2, 6), np.float32), "s": np.array([0, -1, 2], np.int64)})
    assert result["y"].shape == (2, 3, 2)


def test_shape_of_unknown_length(build: Build, load: Load) -> None:
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, ["k"])
    with pytest.raises(CompileError, match="node 'r': error: Reshape has a result of unknown rank"):
        load(build([helper.make_node("Reshape", ["x", "s"], ["y"], "r")], [("x", [4]), shape], ["y"]))


def test_known_sizes_of_unknown_shapes_are_folded(build: Build, load: Load) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    module = load(build(nodes, [("x", ["n", 2])], ["y"]))
    assert kinds(module) == ["nn.add"]
    assert run(module, {"x": np.zeros((1, 2), np.float32)})["y"].tolist() == [[2, 2]]


def test_expand_keeps_unknown_sizes(build: Build, load: Load) -> None:
    """A class token expanded to the batch of another value needs it at run time; one expanded to its own does not."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Expand", ["x", "s"], ["same"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Expand", ["token", "to"], ["y"]),
    ]
    weights = {
        "first": np.array([0], np.int64),
        "rest": np.array([1, 4], np.int64),
        "token": np.ones((1, 1, 4), np.float32),
    }
    module = load(build(nodes, [("x", ["n", 4])], ["same", "y"], weights))
    own, other = (op for op in module.walk() if isinstance(op, nn.ExpandOp))
    assert own.shape is None
    assert other.shape is not None
    assert str(other.result.type) == "tensor<?x?x4xf32>" or str(other.result.type) == "tensor<?x1x4xf32>"
    assert run(module, {"x": np.ones((3, 4), np.float32)})["y"].shape == (3, 1, 4)


def upsampling(target: list[int]) -> list:
    """`interpolate(x, size=...)` as torch exports it: batch and channels from the input, the others given."""
    return [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["nc"]),
        helper.make_node("Constant", [], ["hw"], value_ints=target),
        helper.make_node("Concat", ["nc", "hw"], ["to"], axis=0),
        helper.make_node("Resize", ["x", "", "", "to"], ["y"], "up", mode="linear"),
    ]


@pytest.mark.parametrize("target", [[8, 12], [7, 7]])
def test_resize_beside_unknown_sizes(build: Build, load: Load, target: list[int]) -> None:
    """A batch that is not known stays what it is, whether the scale is exact in float32 (7 / 4) or not (7 / 6)."""
    weights = {"zero": np.array([0], np.int64), "two": np.array([2], np.int64)}
    model = build(upsampling(target), [("x", ["n", 3, 4, 6 if target == [7, 7] else 4])], ["y"], weights)
    module = load(model)
    assert kinds(module) == ["nn.resize"]
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6 if target == [7, 7] else 4)).astype(np.float32)
    (wanted,) = map(np.asarray, ReferenceEvaluator(model).run(None, {"x": x}))
    np.testing.assert_allclose(run(module, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)


def test_shape_arithmetic_counts_as_folded(build: Build, load: Load, session: Session) -> None:
    nodes, inputs, weights = heads(named=True)
    load(build(nodes, inputs, ["y"], weights))
    assert session.remarks[-1].reason == "5 nodes: 2 mapped to nn, 0 carried as opaque, 3 folded, 0 removed, 0 unused"


# Text


def test_text(build: Build, load: Load) -> None:
    weights = {"w": np.ones((2, 3, 7, 7), np.float32), "b": np.array([1, -1], np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "stem.conv", strides=[2, 2], pads=[3, 3, 3, 3]),
        helper.make_node("Clip", ["c", "lo", "hi"], ["y"], "stem.act"),
    ]
    weights |= {"lo": np.array(0, np.float32), "hi": np.array(6, np.float32)}
    module = load(build(nodes, [("x", ["batch", 3, 8, 8])], ["y"], weights))
    lines = [line.strip() for line in module_text(module).splitlines() if "#nn.external" not in line]
    assert lines == [
        'builtin.module attributes {nn.metadata = {framework = "onnx", source = "model.onnx", opset = "17"}} {',
        'func.func @main(%x: tensor<?x3x8x8xf32> {nn.name = "x", nn.dims = ["batch", "", "", ""]}) -> '
        '(tensor<?x2x4x4xf32> {nn.name = "y"}) {',
        "%b = nn.constant dense<[1.000000e+00, -1.000000e+00]> : tensor<2xf32>",
        '%stem.conv = nn.conv %x, %w, %b strides [2, 2] pads [3, 3, 3, 3] from <onnx, "Conv", "stem.conv"> : '
        "(tensor<?x3x8x8xf32>, tensor<2x3x7x7xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>",
        '%stem.act = nn.relu6 %stem.conv from <onnx, "Clip", "stem.act"> : tensor<?x2x4x4xf32>',
        "func.return %stem.act : tensor<?x2x4x4xf32>",
        "}",
        "}",
    ]


def test_operations_of_one_node_are_erased_together(build: Build, load: Load) -> None:
    """What a converter emitted before it gave up leaves no trace; the function that defines the operator is read instead."""
    nodes = [helper.make_node("GroupNormalization", ["x", "s", "t"], ["y"], num_groups=2)]
    inputs = [("x", [1, 4, 3]), ("s", [2]), ("t", [2])]
    module = load(build(nodes, inputs, ["y"], opset=18))
    uses: list[Operation] = [use.operation for a in body(main_function(module)).args for use in a.uses]
    assert all(op.parent is not None for op in uses)
    assert not any(op.name == "nn.opaque" for op in uses)
