"""What stands in a written file besides the numbers: names, versions, metadata, regions, observers, opaque nodes, weights."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, numpy_helper
from xdsl.dialects.builtin import TensorType, f32

from amct_opt.dialects import nn
from amct_opt.formats.onnx import file
from amct_opt.targets.onnx import OnnxTarget

CONV = """
module attributes {nn.metadata = {tool = "amct-opt 1", observer = "min-max"}} {
  func.func @main(%x: tensor<?x1x3x?xf32> {nn.name = "image", nn.dims = ["batch", "", "", "width"]})
      -> (tensor<?x2x3x?xf32> {nn.name = "conv", nn.dims = ["batch", "", "", "width"]}) {
    %w = nn.constant #nn.external<"conv1.weight", tensor<2x1x1x1xf32>, "0x0000803F00000040">
    %0 = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x1x3x?xf32>, tensor<2x1x1x1xf32>) -> tensor<?x2x3x?xf32>
    %1 = nn.relu %0 from <onnx, "Relu", "conv1"> : tensor<?x2x3x?xf32>
    func.return %1 : tensor<?x2x3x?xf32>
  }
}
"""


def shape_of(value: onnx.ValueInfoProto) -> list[int | str | None]:
    dims = value.type.tensor_type.shape.dim
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in dims]


def test_names(export: Any) -> None:
    """Inputs, outputs and weights keep their names, nodes those of their layers; a name given twice gets a number."""
    graph = export.write(CONV).graph
    assert [i.name for i in graph.initializer] == ["conv1.weight"]
    assert [n.name for n in graph.node] == ["conv1", "conv1_1"]
    assert shape_of(graph.input[0]) == ["batch", 1, 3, "width"]
    assert shape_of(graph.output[0]) == ["batch", 2, 3, "width"]
    assert (graph.input[0].name, graph.output[0].name) == ("image", "conv")
    assert graph.node[1].output == ["conv"]
    values = [v for n in graph.node for v in n.output] + ["image", "conv1.weight"]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(("opset", "ir"), [(13, 8), (17, 8), (18, 8), (19, 9), (20, 9), (21, 10)])
def test_versions(export: Any, opset: int, ir: int) -> None:
    model = export.write(CONV, opset=opset)
    assert model.ir_version == ir
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]


def test_metadata(export: Any) -> None:
    model = export.write(CONV)
    assert {p.key: p.value for p in model.metadata_props} == {
        "amct_opt.tool": "amct-opt 1",
        "amct_opt.observer": "min-max",
    }
    assert model.producer_name == "amct-opt"
    assert model.producer_version


def test_same_module_same_bytes(export: Any) -> None:
    export.write(CONV)
    first = export.path.read_bytes()
    export.write(CONV)
    assert export.path.read_bytes() == first


@pytest.mark.parametrize("name", ["a b", "größe", "层/1", 'q"uote', "new\nline", "\\", "0", "x:0", "😀"])
def test_odd_names(export: Any, name: str) -> None:
    """Whatever characters a name holds, it stays, and onnxruntime finds its tensors by it."""
    quoted = "".join(f"\\{b:02X}" for b in name.encode())
    text = f"""
    func.func @main(%x: tensor<2xf32> {{nn.name = "{quoted}"}}) -> (tensor<2xf32> {{nn.name = "{quoted}_out"}}) {{
      %w = nn.constant #nn.external<"{quoted}.weight", tensor<2xf32>, "0x0000803F00000040">
      %0 = nn.add %x, %w from <onnx, "Add", "{quoted}"> : tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }}"""
    graph = export.write(text).graph
    assert [graph.input[0].name, graph.output[0].name, graph.initializer[0].name, graph.node[0].name] == [
        name,
        f"{name}_out",
        f"{name}.weight",
        name,
    ]
    (result,) = export.run({name: np.array([1, 1], np.float32)})
    np.testing.assert_array_equal(result, [2, 3])


def test_weight_named_like_an_input(export: Any) -> None:
    """An input keeps its name, and the weight of that name, and the value, get numbers."""
    text = """
    func.func @main(%x: tensor<2xf32> {nn.name = "w"}) -> (tensor<2xf32> {nn.name = "y"}) {
      %w = nn.constant #nn.external<"w", tensor<2xf32>, "0x0000803F00000040">
      %w_1 = nn.add %x, %w : tensor<2xf32>
      %y = nn.add %w_1, %w : tensor<2xf32>
      func.return %y : tensor<2xf32>
    }"""
    graph = export.write(text).graph
    assert graph.input[0].name == "w"
    names = [graph.initializer[0].name, graph.node[0].output[0]]
    assert len({"w", "y", *names}) == 4
    (result,) = export.run({"w": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(result, [2, 4])


def test_outputs_that_no_node_computes(export: Any) -> None:
    """An input, a constant, and one value under two names: each becomes an output of its own through Identity."""
    text = """
    func.func @main(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "same"}, tensor<2xf32> {nn.name = "fixed"},
        tensor<2xf32> {nn.name = "a"}, tensor<2xf32> {nn.name = "b"}) {
      %c = nn.constant dense<[3.0, 4.0]> : tensor<2xf32>
      %0 = nn.neg %x : tensor<2xf32>
      func.return %x, %c, %0, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    }"""
    graph = export.write(text).graph
    assert [n.op_type for n in graph.node] == ["Neg", "Identity", "Identity", "Identity"]
    results = export.run({"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(results, [[1, 2], [3, 4], [-1, -2], [-1, -2]])


def test_fused_regions_are_taken_apart(export: Any) -> None:
    text = """
    func.func @main(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) {
      %c = nn.constant dense<[3.0, 4.0]> : tensor<2xf32>
      %0 = nn.fused "AddReLU" (%a = %x, %b = %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
        %s = nn.add %a, %b : tensor<2xf32>
        %r = nn.relu %s : tensor<2xf32>
        nn.yield %r : tensor<2xf32>
      }
      %1 = nn.fused "NegReLU" (%a = %0) : (tensor<2xf32>) -> tensor<2xf32> {
        %s = nn.neg %a : tensor<2xf32>
        nn.yield %s : tensor<2xf32>
      }
      func.return %1 : tensor<2xf32>
    }"""
    assert [n.op_type for n in export.write(text).graph.node] == ["Add", "Relu", "Neg"]
    (result,) = export.run({"x": np.array([-9, 1], np.float32)})
    np.testing.assert_array_equal(result, [0, -5])


def test_observers_are_left_out_with_a_remark(export: Any) -> None:
    text = """
    func.func @main(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) {
      %0 = nn.neg %x from <onnx, "Neg", "neg"> : tensor<2xf32>
      %1 = nn.observe %0 as "next:0" by "min-max" : tensor<2xf32>
      func.return %1 : tensor<2xf32>
    }"""
    graph = export.write(text).graph
    assert [(n.op_type, list(n.output)) for n in graph.node] == [("Neg", ["y"])]
    (remark,) = export.session.remarks
    assert (remark.pass_name, remark.kind, remark.rule, remark.op) == ("onnx", "analysis", "observer", "nn.observe")


def test_channels_last_become_second(export: Any) -> None:
    """Of the whole file once: transposes stand at its ends only, and the module stays as it is."""
    text = """
    func.func @main(%x: tensor<1x4x4x2xf32> {nn.name = "x"}) -> (tensor<1x1x1x2xf32> {nn.name = "y"}) {
      %0 = nn.max_pool %x layout nhwc strides [2, 2] kernel [2, 2] : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
      %1 = nn.relu %0 : tensor<1x2x2x2xf32>
      %2 = nn.max_pool %1 layout nhwc kernel [2, 2] : (tensor<1x2x2x2xf32>) -> tensor<1x1x1x2xf32>
      func.return %2 : tensor<1x1x1x2xf32>
    }"""
    types = [n.op_type for n in export.write(text).graph.node]
    assert types == ["Transpose", "MaxPool", "Relu", "MaxPool", "Transpose"]
    assert [r.layer for r in export.session.remarks if r.kind == "applied"] == ["nn.max_pool"] * 2


@pytest.mark.parametrize("weights", [["a", "a"], ["a", "b"]], ids=["shared", "equal"])
def test_a_shared_weight_is_written_once_and_equal_weights_stay_apart(export: Any, weights: list[str]) -> None:
    text = f"""
    func.func @main(%x: tensor<2xf32> {{nn.name = "x"}}) -> (tensor<2xf32> {{nn.name = "y"}}) {{
      %a = nn.constant dense<[3.0, 4.0]> : tensor<2xf32>
      %b = nn.constant dense<[3.0, 4.0]> : tensor<2xf32>
      %0 = nn.add %x, %{weights[0]} : tensor<2xf32>
      %1 = nn.mul %0, %{weights[1]} : tensor<2xf32>
      func.return %1 : tensor<2xf32>
    }}"""
    assert [i.name for i in export.write(text).graph.initializer] == sorted(set(weights))


OPAQUE = """
func.func @main(%x: tensor<2x3xf32> {{nn.name = "x"}}) -> (tensor<?xf32> {{nn.name = "y"}}) {{
  %c = nn.constant dense<[1, 0]> : tensor<2xi64>
  %0 = nn.opaque %x, %c framework "onnx" op_type "Odd" domain "com.example" version 3 present [1, 0, 1]
    attrs {{f = 0.5 : f32, fs = #nn.reals<[1.0, 2.5]>, i = 7 : i64, is = array<i64: 1, 2>, e = array<i64>, s = "text",
           ss = ["a", "b"], t = dense<[1.0, 2.0]> : tensor<2xf32>}}
    : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}}
"""


def test_opaque_node_is_written_as_it_was(export: Any) -> None:
    model = export.write(OPAQUE.format())
    (node,) = model.graph.node
    assert (node.op_type, node.domain, node.output) == ("Odd", "com.example", ["y"])
    assert [bool(name) for name in node.input] == [True, False, True]
    assert ("com.example", 3) in [(o.domain, o.version) for o in model.opset_import]
    attributes = {a.name: a for a in node.attribute}
    assert {n: a.type for n, a in attributes.items()} == {
        "e": AttributeProto.INTS,
        "f": AttributeProto.FLOAT,
        "fs": AttributeProto.FLOATS,
        "i": AttributeProto.INT,
        "is": AttributeProto.INTS,
        "s": AttributeProto.STRING,
        "ss": AttributeProto.STRINGS,
        "t": AttributeProto.TENSOR,
    }
    values = {n: onnx.helper.get_attribute_value(a) for n, a in attributes.items()}
    np.testing.assert_array_equal(numpy_helper.to_array(values.pop("t")), [1, 2])
    assert values == {"e": [], "f": 0.5, "fs": [1, 2.5], "i": 7, "is": [1, 2], "s": b"text", "ss": [b"a", b"b"]}


def test_opaque_node_of_an_older_opset_with_the_same_form(export: Any) -> None:
    """NonZero 9 and 13 differ in nothing but the types they take: opset 17 writes what opset 9 meant."""
    text = """
    func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<1x?xi64> {nn.name = "y"}) {
      %0 = nn.opaque %x framework "onnx" op_type "NonZero" version 9 : (tensor<4xf32>) -> tensor<1x?xi64>
      func.return %0 : tensor<1x?xi64>
    }"""
    export.write(text)
    (result,) = export.run({"x": np.array([0, 2, 0, 3], np.float32)})
    np.testing.assert_array_equal(result, [[1, 3]])


ADDED: dict[str, tuple[str, int]] = {
    # what the node holds, the opset that is written: the newer one only adds what the node does not use
    "attributes with defaults": ('op_type "ScatterND" version 18', 13),
    "attributes with defaults, upwards": ('op_type "ScatterND" version 11', 21),
    "types": ('op_type "ScatterND" version 13', 16),
}


@pytest.mark.parametrize("name", ADDED)
def test_opaque_node_that_uses_nothing_new(name: str, export: Any) -> None:
    head, opset = ADDED[name]
    text = f"""
    func.func @main(%x: tensor<4xf32> {{nn.name = "x"}}, %i: tensor<1x1xi64> {{nn.name = "i"}},
        %u: tensor<1xf32> {{nn.name = "u"}}) -> (tensor<4xf32> {{nn.name = "y"}}) {{
      %0 = nn.opaque %x, %i, %u framework "onnx" {head}
        : (tensor<4xf32>, tensor<1x1xi64>, tensor<1xf32>) -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }}"""
    export.write(text, opset=opset)
    feeds = {"x": np.zeros(4, np.float32), "i": np.array([[2]]), "u": np.array([5], np.float32)}
    np.testing.assert_array_equal(export.run(feeds)[0], [0, 0, 5, 0])


def test_operator_that_shape_inference_does_not_follow(export: Any) -> None:
    """onnx.shape_inference fails on the function body of MeanVarianceNormalization, in any opset: a remark, and the file."""
    text = """
    func.func @main(%x: tensor<1x2x3x3xf32> {nn.name = "x"}) -> (tensor<1x2x3x3xf32> {nn.name = "y"}) {
      %0 = nn.opaque %x framework "onnx" op_type "MeanVarianceNormalization" version 13
        : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
      func.return %0 : tensor<1x2x3x3xf32>
    }"""
    OnnxTarget().write(export.parse(text), export.path, export.session)
    assert [r.rule for r in export.session.remarks] == ["shape-inference"]
    assert export.path.exists()


def test_ceil_mode_only_where_it_changes_sizes(export: Any) -> None:
    """Before opset 22, ONNX's inference counts windows that start in the end padding (here a third one), runtimes do not."""
    text = """
    func.func @main(%x: tensor<1x1x2x2xf32> {nn.name = "x"}) -> (tensor<1x1x1x1xf32> {nn.name = "y"}) {
      %0 = nn.max_pool %x strides [3, 3] pads [1, 1, 1, 1] kernel [3, 3] ceil_mode
        : (tensor<1x1x2x2xf32>) -> tensor<1x1x1x1xf32>
      func.return %0 : tensor<1x1x1x1xf32>
    }"""
    (node,) = export.write(text).graph.node
    assert "ceil_mode" not in {a.name for a in node.attribute}
    np.testing.assert_array_equal(export.run({"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)})[0].item(), 3)


@pytest.fixture
def weighty(build_module: Any) -> Any:
    """A module with weights above and below the size that stays inline, of odd sizes and types."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(37, 41)), rng.normal(size=3), rng.normal(size=(401, 41)), rng.normal(size=(0, 41))]

    def build(x: Any) -> Any:
        weights = [nn.ConstantOp.of(a.astype(np.float32), f"w{i}").result for i, a in enumerate(arrays)]
        outputs = [nn.NegOp.make(w) for w in weights]
        quantized = nn.ConstantOp.of(rng.integers(-8, 8, (301, 7)).astype(ml_dtypes.int4), "q").result
        return (*outputs, nn.CastOp.make(quantized, result_types=[TensorType(f32, (301, 7))]), nn.NegOp.make(x))

    return build_module(build, (np.zeros(1, np.float32),))


def test_external_data_above_the_limit(export: Any, weighty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, arrays go next to the model, aligned, once each; the numbers are the same."""
    x = {"x0": np.zeros(1, np.float32)}
    export.write(weighty, opset=21)
    assert [p.name for p in export.folder.iterdir()] == ["model.onnx"]
    inline = export.run(x)
    size = export.path.stat().st_size

    monkeypatch.setattr(file, "MOST_BYTES", size - 1)
    target = OnnxTarget(opset=21)
    written = target.write(weighty, export.path, export.session)
    assert written == target.files(export.path) == [export.path, export.folder / "model.onnx.data"]
    assert sorted(p.name for p in export.folder.iterdir()) == ["model.onnx", "model.onnx.data"]

    model = onnx.load(export.path, load_external_data=False)
    outside = {i.name: i for i in model.graph.initializer if i.data_location == TensorProto.EXTERNAL}
    assert set(outside) == {"w0", "w2", "q"}
    entries = [{e.key: e.value for e in i.external_data} for i in outside.values()]
    assert all(e["location"] == "model.onnx.data" and int(e["offset"]) % 4096 == 0 for e in entries)
    assert [int(e["length"]) for e in entries] == [37 * 41 * 4, 401 * 41 * 4, (301 * 7 + 1) // 2]
    assert written[1].stat().st_size == int(entries[-1]["offset"]) + int(entries[-1]["length"])
    onnx.checker.check_model(str(export.path), full_check=True)
    for a, b in zip(export.run(x), inline, strict=True):
        np.testing.assert_array_equal(a, b)


def test_external_data_just_below_the_limit(export: Any, weighty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size that is compared with the limit is that of the file, up to 16 bytes."""
    export.write(weighty, opset=21)
    monkeypatch.setattr(file, "MOST_BYTES", export.path.stat().st_size + 16)
    export.write(weighty, opset=21)
    assert [p.name for p in export.folder.iterdir()] == ["model.onnx"]


def test_external_data_on_demand(export: Any, weighty: Any) -> None:
    export.write(weighty, opset=21, external=True)
    assert (export.folder / "model.onnx.data").exists()


def test_failure_while_writing_leaves_the_old_files(export: Any, weighty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails half way (here: a weight that cannot be stored) changes neither file nor its companion."""
    export.write(weighty, opset=21, external=True)
    before = {p.name: p.read_bytes() for p in export.folder.iterdir()}
    monkeypatch.setattr(file, "packed", lambda array: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        OnnxTarget(opset=21, external=True).write(weighty, export.path, export.session)
    assert {p.name: p.read_bytes() for p in export.folder.iterdir()} == before


def test_bfloat16_and_bool_weights(export: Any, build_module: Any) -> None:
    rows = {"bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16), "bool": np.array([True, False])}

    def build(x: Any) -> Any:
        constants = [nn.ConstantOp.of(a, key).result for key, a in rows.items()]
        return (nn.NegOp.make(x), *(nn.ReshapeOp.make(c, to=(2, 1)) for c in constants))

    graph = export.write(build_module(build, (np.zeros(1, np.float32),))).graph
    stored = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for key, array in rows.items():
        assert stored[key].dtype == array.dtype
        np.testing.assert_array_equal(stored[key], array)
