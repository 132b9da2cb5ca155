"""What stands in a written GraphDef besides the numbers: names, versions, regions, observers, carried nodes, weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.formats.tensorflow import file
from amct_opt.formats.tensorflow.operators import OPERATORS
from amct_opt.formats.tensorflow.schema import GraphDef
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.tensorflow import TfFakequantTarget

from ..operations import Array, const, module_of, nhwc, real


def parse(text: str, session: Session | None = None) -> ModuleOp:
    module = parse_module(session or new_session(), text, "net.mlir")
    verify(module)
    return module


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Any]:
    """`written(module, session=None)`: the graph in the file of a module, or of module text; the file is `written.path`."""
    path = tmp_path / "model.pb"

    def write(module: ModuleOp | str, session: Session | None = None) -> Any:
        TfFakequantTarget().write(parse(module) if isinstance(module, str) else module, path, session or new_session())
        return GraphDef.FromString(path.read_bytes())

    write.path = path  # type: ignore[attr-defined]
    return write


def line(body: str, inputs: str = "x", outputs: str = "y", type_: str = "tensor<2x3xf32>") -> str:
    """A function of one type throughout; `%r` is what it returns."""
    given = ", ".join(f'%{chr(97 + i)}: {type_} {{nn.name = "{n}"}}' for i, n in enumerate(inputs.split()))
    taken = ", ".join(f'{type_} {{nn.name = "{n}"}}' for n in outputs.split())
    count = len(outputs.split())
    results, types = ", ".join(["%r"] * count), ", ".join([type_] * count)
    return f"func.func @main({given}) -> ({taken}) {{\n{body}\nfunc.return {results} : {types}\n}}"


def names(graph: Any) -> dict[str, str]:
    return {n.name: n.op for n in graph.node}


def test_names(written: Any) -> None:
    """Inputs, outputs, layers and weights keep their names; of two layers of one name, one gets a number."""
    graph = written("""
      func.func @main(%x: tensor<?x1x3x?xf32> {nn.name = "image"}) -> (tensor<?x2x3x?xf32> {nn.name = "top"}) {
        %w = nn.constant #nn.external<"conv1.weight", tensor<2x1x1x1xf32>, "0x0000803F00000040">
        %0 = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x1x3x?xf32>, tensor<2x1x1x1xf32>) -> tensor<?x2x3x?xf32>
        %1 = nn.relu %0 from <onnx, "Relu", "conv1"> : tensor<?x2x3x?xf32>
        func.return %1 : tensor<?x2x3x?xf32>
      }""")
    found = names(graph)
    assert len(found) == len(graph.node)
    assert {k: v for k, v in found.items() if "/" not in k and v != "Transpose"} == {
        "image": "Placeholder",
        "conv1.weight": "Const",
        "conv1": "Conv2D",
        "conv1_1": "Relu",
        "top": "Identity",
    }
    shape = next(n for n in graph.node if n.name == "image").attr["shape"].shape
    assert [d.size for d in shape.dim] == [-1, 1, 3, -1]


NAMES = {
    # input and output as they are, as they are written
    "number of an output": ("x", "y:1", "x", "y_1"),
    "first output": ("x:0", "y:0", "x", "y"),
    "leading slash": ("/in/x", "/out/y", "in/x", "out/y"),
    "blanks and letters": ("input image", "größe", "input_image", "gr__e"),
    "all that is legal": ("a.B/c>d-e_f", "9", "a.B/c>d-e_f", "9"),
    "what becomes one name": ("a b", "a?b", "a_b", "a_b_1"),
    "nothing that is legal": ("___", "//", "unnamed", "unnamed_1"),
    "start": (".x", "-y", ".x", "y"),
}


@pytest.mark.parametrize("name", NAMES)
def test_legal_names(name: str, written: Any, run_graph: Any) -> None:
    """Where a name is changed, a remark says so, and TensorFlow takes the new one."""
    given, taken, placeholder, identity = NAMES[name]
    session = new_session()
    text = line('%r = nn.neg %a from <onnx, "Neg", "/layer:0"> : tensor<2x3xf32>').replace('"x"', f'"{given}"')
    found = names(written(parse(text.replace('"y"', f'"{taken}"')), session))
    assert found == {placeholder: "Placeholder", "layer": "Neg", identity: "Identity"}
    x = real(2, 3)
    np.testing.assert_array_equal(run_graph(written.path, {placeholder: x}, [identity])[0], -x)
    changed = [old for old, new in ((given, placeholder), (taken, identity)) if old != new]
    assert [r.reason for r in session.remarks if "is written as" in r.reason] == [
        f"{'input' if old == given else 'output'} '{old}' is written as '{placeholder if old == given else identity}'"
        for old in changed
    ]


def test_a_layer_called_as_its_output_is_the_output(written: Any) -> None:
    graph = written(line('%r = nn.neg %a from <tensorflow, "Neg", "y"> : tensor<2x3xf32>'))
    assert names(graph) == {"x": "Placeholder", "y": "Neg"}


def test_another_layer_called_as_an_output_makes_way(written: Any) -> None:
    body = """%0 = nn.neg %a from <tensorflow, "Neg", "y"> : tensor<2x3xf32>
      %r = nn.abs %0 from <tensorflow, "Abs", "z"> : tensor<2x3xf32>"""
    assert names(written(line(body))) == {"x": "Placeholder", "y_1": "Neg", "z": "Abs", "y": "Identity"}


def test_outputs_that_nothing_computes(written: Any, run_graph: Any) -> None:
    """Inputs and constants as outputs, one value as two, and an output that is the input of its name."""
    graph = written("""
      func.func @main(%x: tensor<2xf32> {nn.name = "x"})
          -> (tensor<2xf32> {nn.name = "x"}, tensor<2xf32> {nn.name = "same"}, tensor<2xf32> {nn.name = "c"},
              tensor<2xf32> {nn.name = "w"}, tensor<2xf32> {nn.name = "a"}, tensor<2xf32> {nn.name = "b"}) {
        %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
        %q = nn.constant dense<[1, 2]> : tensor<2xi8>
        %w = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2xi8>) -> tensor<2xf32>
        %0 = nn.neg %x : tensor<2xf32>
        func.return %x, %x, %c, %w, %0, %0
          : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
      }""")
    assert [n.op for n in graph.node if n.name in ("x", "same", "c", "w", "a", "b")].count("Identity") == 5
    x = np.array([3, 4], np.float32)
    results = run_graph(written.path, {"x": x}, ["x", "same", "c", "w", "a", "b"])
    for actual, expected in zip(results, ([3, 4], [3, 4], [1, 2], [0.5, 1], [-3, -4], [-3, -4]), strict=True):
        assert actual.tolist() == expected


def test_regions_and_observers(written: Any, run_graph: Any) -> None:
    """Regions are taken apart; an observer is the identity that it is, with a remark."""
    session = new_session()
    body = """%o = nn.observe %a as "l:input" by "minmax" : tensor<2x3xf32>
      %r = nn.fused "NegReLU" (%i = %o) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
        %0 = nn.neg %i from <onnx, "Neg", "n"> : tensor<2x3xf32>
        %1 = nn.relu %0 from <onnx, "Relu", "r"> : tensor<2x3xf32>
        nn.yield %1 : tensor<2x3xf32>
      }"""
    graph = written(parse(line(body), session), session)
    assert names(graph) == {"x": "Placeholder", "n": "Neg", "r": "Relu", "y": "Identity"}
    assert any(r.rule == "observer" for r in session.remarks)


def test_carried(written: Any, run_graph: Any) -> None:
    """What came from TensorFlow goes back with all of its attributes, several results among them."""
    graph = written("""
      func.func @main(%x: tensor<5xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}, tensor<2xi32> {nn.name = "i"}) {
        %k = nn.constant dense<2> : tensor<i32>
        %0, %1 = nn.opaque %x, %k framework "tensorflow" op_type "TopKV2" attrs {T = f32, index_type = i32, sorted = true}
          from <tensorflow, "TopKV2", "best"> : (tensor<5xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
        %2 = nn.neg %0 : tensor<2xf32>
        func.return %2, %1 : tensor<2xf32>, tensor<2xi32>
      }""")
    node = next(n for n in graph.node if n.name == "best")
    assert (node.op, node.attr["sorted"].b, node.attr["T"].type) == ("TopKV2", True, 1)
    values, indices = run_graph(written.path, {"x": np.array([3, 9, 1, 8, 2], np.float32)}, ["y", "i"])
    assert (values.tolist(), indices.tolist()) == ([-9, -8], [1, 3])


def test_element_types(written: Any, run_graph: Any) -> None:
    """Constants of every type, scalars and empty ones; 4-bit integers take a byte."""
    types = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.bool_, np.int8, np.int16, np.int32, np.int64)
    types += (np.uint8, np.uint16, np.uint32, np.uint64, ml_dtypes.int4, ml_dtypes.uint4)
    arrays = [np.array([[1, 0, 1], [0, 1, 1]]).astype(t) for t in types]
    arrays += [np.float32(7).reshape(()), np.zeros((0, 3), np.int32), np.full((2, 3), -8, ml_dtypes.int4)]

    def build(x: Any) -> Any:
        return (*(const(a, a.dtype, "c") for a in arrays),)

    written(module_of(build, [real(1)]))
    for actual, array in zip(run_graph(written.path, {}, [f"y{i}" for i in range(len(arrays))]), arrays, strict=True):
        held = {"int4": "int8", "uint4": "uint8"}.get(array.dtype.name, array.dtype.name)
        assert (actual.dtype.name, actual.shape) == (held, array.shape)
        np.testing.assert_array_equal(actual.astype(np.float64), array.astype(np.float64))


def test_versions(written: Any, run_graph: Any) -> None:
    versions = written(line("%r = nn.neg %a : tensor<2x3xf32>")).versions
    assert (versions.producer, versions.min_consumer) == (1087, 12)


def weighted() -> ModuleOp:
    return module_of(lambda x: nn.MatMulOp.make(x, const(np.ones((3, 5000)), key="w")), [np.ones((2, 3), np.float32)])


def test_the_same_bytes(written: Any) -> None:
    written(weighted())
    first = written.path.read_bytes()
    written(weighted())
    assert written.path.read_bytes() == first


def test_all_in_one_file_or_nothing(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GraphDef has its weights inside; one that would be too large for protobuf is an error, and the file stays as it was."""
    written(weighted())
    before = written.path.read_bytes()
    monkeypatch.setattr(file, "MOST_BYTES", len(before))
    written(weighted())
    monkeypatch.setattr(file, "MOST_BYTES", len(before) - 1)
    written.path.write_bytes(b"what was there before")
    with pytest.raises(CompileError, match="a GraphDef holds its weights") as caught:
        written(weighted())
    assert caught.value.where == str(written.path)
    assert "-t onnx" in caught.value.hint
    assert [p.name for p in written.path.parent.iterdir()] == ["model.pb"]
    assert written.path.read_bytes() == b"what was there before"


@pytest.mark.slow
def test_no_tensorflow_is_needed(tmp_path: Path) -> None:
    """Neither to write nor to know that the target is there."""
    (tmp_path / "net.mlir").write_text(line("%r = nn.neg %a : tensor<2x3xf32>"))
    script = (
        "import sys; from amct_opt.tools.amct_opt import run;"
        f"assert run([r'{tmp_path / 'net.mlir'}', '-t', 'tf-fakequant', '-o', r'{tmp_path / 'net.pb'}']) == 0;"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "net.pb").exists()


def test_table_of_operators(run_graph: Any) -> None:
    """The signatures are those that TensorFlow registers, and each type has a kernel for CPUs."""
    import tensorflow as tf
    from tensorflow.python.framework import kernels, op_def_registry

    for name, operator in OPERATORS.items():
        definition = op_def_registry.get(name)
        assert definition is not None, name

        def of(arg: Any) -> str:
            return (arg.type_attr or tf.as_dtype(arg.type).name) + ("*" if arg.number_attr else "")

        assert list(operator.inputs) == [of(a) for a in definition.input_arg], name
        assert operator.output == of(definition.output_arg[0]).rstrip("*"), name
        if not operator.inputs or not operator.types:
            continue
        variable = next(a.type_attr for a in definition.input_arg if a.type_attr)
        taken: set[str] = set()
        for kernel in kernels.get_registered_kernels_for_op(name).kernel:
            constraints = {c.name: c.allowed_values.list.type for c in kernel.constraint}
            if kernel.device_type in ("CPU", "DEFAULT"):
                taken |= {tf.as_dtype(t).name for t in constraints.get(variable, [])} or set(operator.types)
        assert operator.types <= taken, f"{name}: {operator.types - taken}"


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_to_tensorflow_and_back(layout: str, written: Any) -> None:
    """A file is a model that can be read: it computes the same."""

    def build(x: Any) -> Any:
        y = nn.ConvOp.make(x, const(real(8, 4, 3, 3)), const(real(8), key="b"), pads=(1, 1, 1, 1), layout=layout)
        y = nn.MaxPoolOp.make(nn.ReluOp.make(y), kernel=(2, 2), strides=(2, 2), layout=layout)
        y = nn.ConvOp.make(y, const(real(8, 1, 3, 3)), groups=8, auto_pad="same_upper", layout=layout)
        return nn.SoftmaxOp.make(nn.FlattenOp.make(nn.GlobalAveragePoolOp.make(y, layout=layout)))

    image: Array = real(2, 4, 8, 8)
    x = nhwc(image) if layout == "nhwc" else image
    module = module_of(build, [x])
    written(module)
    read = frontends.read(written.path, new_session())
    (expected,), (actual,) = run(module, {"x0": x}).values(), run(read, {"x0": x}).values()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("stored", ["constant", "integers"])
def test_transposed_weights_are_turned(stored: str, written: Any) -> None:
    """A product of another framework is read back as a layer that AMCT quantizes: without transpose_b."""
    integers = """%q = nn.constant dense<[[1, 2, 3], [4, 5, -6]]> : tensor<2x3xi8>
      %w = nn.dequantize %q by <i8, scale = [0.5, 0.25], axis = 0> : (tensor<2x3xi8>) -> tensor<2x3xf32>"""
    constant = "%w = nn.constant dense<[[0.5, 1.0, 1.5], [1.0, 1.25, -1.5]]> : tensor<2x3xf32>"
    module = parse(f"""
      func.func @main(%x: tensor<4x3xf32> {{nn.name = "x"}}) -> (tensor<4x2xf32> {{nn.name = "fc"}}) {{
        {integers if stored == "integers" else constant}
        %y = nn.matmul %x, %w transpose_b from <onnx, "Gemm", "fc", {{transB = 1 : i64}}>
          : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
        func.return %y : tensor<4x2xf32>
      }}""")
    assert [n.attr["transpose_b"].b for n in written(module).node if n.op == "MatMul"] == [False]
    session = new_session()
    back = frontends.read(written.path, session)
    x = {"x": real(4, 3)}
    np.testing.assert_array_equal(run(back, x)["fc"], run(module, x)["fc"])
    if stored == "constant":
        make_pass("insert-observers").apply(session, back)
        assert any(isinstance(op, nn.ObserveOp) for op in back.walk()), session.remarks
