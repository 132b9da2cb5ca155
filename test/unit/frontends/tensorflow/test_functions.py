"""Calls of functions are followed: nested, repeated, with attributes of their own, by branches, and to no end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.formats.tensorflow.schema import DATA_TYPES, GraphDef
from amct_opt.ir.functions import body, main_function
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.support.files import read_text
from amct_opt.targets.mlir import MlirTarget

from ...frameworks import tf

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Any], Path]:
    """The graph of a traced function, its calls as they are, in a file. Its input is `x`, its output `Identity`."""

    def write(function: Any) -> Path:
        traced = tf.function(function, input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
        path = tmp_path / "graph.pb"
        path.write_bytes(traced.get_concrete_function().graph.as_graph_def().SerializeToString())
        return path

    return write


@pytest.fixture
def agrees(save: Callable[[Any], Path]) -> Callable[[Any], Any]:
    """Imports the graph of a function and compares with TensorFlow; the module."""

    def check(function: Any) -> Any:
        module = frontends.read(save(function), new_session())
        np.testing.assert_allclose(run(module, {"x": X})["Identity"], function(tf.constant(X)).numpy(), rtol=1e-6)
        return module

    return check


def ops(module: Any, kind: type[Any]) -> list[Any]:
    return [op for op in body(main_function(module)).ops if isinstance(op, kind)]


def test_calls_inside_calls(agrees: Callable[[Any], Any]) -> None:
    inner = tf.function(lambda x: tf.nn.relu(x) + 1.0)
    middle = tf.function(lambda x: inner(x) * 2.0)
    assert len(ops(agrees(lambda x: middle(x) - inner(-x)), nn.ReluOp)) == 2


def test_layers_of_two_calls_have_names_of_their_own(agrees: Callable[[Any], Any]) -> None:
    inner = tf.function(lambda x, w: tf.nn.relu(x, name="act") * w)
    module = agrees(lambda x: inner(x, 2.0) + inner(-x, 3.0))
    names = [op.origin.layer.data for op in ops(module, nn.ReluOp)]
    assert len(set(names)) == 2
    assert all(name.startswith("act") for name in names)


def test_weights_of_a_function_are_shared_by_its_calls(agrees: Callable[[Any], Any]) -> None:
    """As in the model: one constant, however often it is called."""
    w = np.arange(9, dtype=np.float32).reshape(3, 3)
    inner = tf.function(lambda x: x @ tf.constant(w))
    module = agrees(lambda x: inner(inner(x)))
    first, second = ops(module, nn.MatMulOp)
    assert first.operands[1] is second.operands[1]


def test_constants_of_one_name_in_two_functions(agrees: Callable[[Any], Any], tmp_path: Path, session: Session) -> None:
    """They are different constants, also after a round trip through files."""
    w, v = (np.random.default_rng(i).normal(size=(3, 8)).astype(np.float32) for i in range(2))
    first = tf.function(lambda x: x @ tf.constant(w, name="w"))
    second = tf.function(lambda x: x @ tf.constant(v, name="w"))
    module = agrees(lambda x: first(x) - second(x))
    MlirTarget().write(module, tmp_path / "m.mlir", session)
    again = parse_module(new_session(), read_text(tmp_path / "m.mlir"), str(tmp_path / "m.mlir"))
    np.testing.assert_allclose(run(again, {"x": X})["Identity"], X @ w - X @ v, rtol=1e-5, atol=1e-5)


@pytest.fixture
def session() -> Session:
    return new_session()


def test_several_results(agrees: Callable[[Any], Any]) -> None:
    """Results that nobody reads are not computed, though nn might have no word for them."""
    inner = tf.function(lambda x: (tf.nn.relu(x), tf.linalg.det(x @ tf.transpose(x)), -x))

    def function(x: Any) -> Any:
        a, _, b = inner(x)
        return a * b

    assert not ops(agrees(function), nn.OpaqueOp)


@pytest.mark.parametrize("index", [0, 1, 2, 7])
def test_case(agrees: Callable[[Any], Any], index: int) -> None:
    """A number out of range takes the last branch."""
    branches = [lambda x=x: x for x in (1.0, 2.0, 3.0)]
    agrees(lambda x: x * tf.switch_case(tf.constant(index), branches))


def test_case_of_run_time(save: Callable[[Any], Path]) -> None:
    def function(x: Any) -> Any:
        return tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x, lambda: -x], name="choice")

    with pytest.raises(CompileError, match=r"node 'choice.*: error: .* branches on a value of run time"):
        frontends.read(save(function), new_session())


# Graphs written by hand: forms that TensorFlow's tracing does not make, or not any more

FLOAT = DATA_TYPES["DT_FLOAT"]


def graph_with(*functions: str) -> Any:
    """A graph `y = call(x)`, and its functions as text."""
    from google.protobuf import text_format

    text = """
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
               attr { key: "shape" value { shape { dim { size: 3 } } } } }
        versions { producer: 2000 }
    """
    return text_format.Parse(text + f"library {{ {' '.join(f'function {{ {f} }}' for f in functions)} }}", GraphDef())


def arrays(graph: Any, tmp_path: Path) -> dict[str, np.ndarray]:
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    return dict(run(frontends.read(path, new_session()), {"x": X[0]}))


UNARY = """
    signature {{ name: "{name}" input_arg {{ name: "a" type: DT_FLOAT }} output_arg {{ name: "r" type: DT_FLOAT }}
                 {attributes} }}
    {nodes}
    ret {{ key: "r" value: "{result}" }}
"""


def test_a_function_called_as_an_operator_with_attributes(tmp_path: Path) -> None:
    """What the call gives stands in the place of the body's attribute, each time anew, also through another call."""
    scaled = UNARY.format(
        name="scaled",
        attributes='attr { name: "factor" type: "tensor" }',
        nodes="""
            node_def { name: "c" op: "Const" attr { key: "value" value { placeholder: "factor" } }
                       attr { key: "dtype" value { type: DT_FLOAT } } }
            node_def { name: "m" op: "Mul" input: "a" input: "c:output:0" attr { key: "T" value { type: DT_FLOAT } } }
        """,
        result="m:z:0",
    )
    passed = UNARY.format(
        name="passed",
        attributes='attr { name: "f" type: "tensor" }',
        nodes="""node_def { name: "s" op: "PartitionedCall" input: "a" attr { key: "f" value { func { name: "scaled"
                            attr { key: "factor" value { placeholder: "f" } } } } } }""",
        result="s:output:0",
    )
    graph = graph_with(scaled, passed)
    calls = (("y", "scaled", "factor", 2.0), ("z", "scaled", "factor", 3.0), ("w", "passed", "f", 5.0))
    for name, op, attribute, factor in calls:
        node = graph.node.add(name=name, op=op, input=["x"])
        node.attr[attribute].tensor.dtype = FLOAT
        node.attr[attribute].tensor.float_val.append(factor)
    outputs = arrays(graph, tmp_path)
    for name, _, _, factor in calls:
        np.testing.assert_array_equal(outputs[name], X[0] * factor)


def test_results_by_name(tmp_path: Path) -> None:
    """Inside a body, results of a call are named as the called function names them."""
    pair = """
        signature { name: "pair" input_arg { name: "a" type: DT_FLOAT }
                    output_arg { name: "plus" type: DT_FLOAT } output_arg { name: "minus" type: DT_FLOAT } }
        node_def { name: "n" op: "Neg" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
        ret { key: "plus" value: "a" } ret { key: "minus" value: "n:y:0" }
    """
    outer = UNARY.format(
        name="outer", attributes="", nodes='node_def { name: "p" op: "pair" input: "a" }', result="p:minus:0"
    )
    graph = graph_with(pair, outer)
    graph.node.add(name="y", op="outer", input=["x"])
    np.testing.assert_array_equal(arrays(graph, tmp_path)["y"], -X[0])


TRUE = """node_def { name: "k" op: "Const" attr { key: "value" value { tensor {
          dtype: DT_BOOL tensor_shape { } bool_val: true } } } }"""
CALL = 'node_def {{ name: "c" op: "{}" input: "a" }}'


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([("f", CALL.format("f"), "c:r:0")], "function 'f': node 'c': error: f calls function 'f', which calls itself"),
        ([("f", CALL.format("g"), "c:r:0"), ("g", CALL.format("f"), "c:r:0")], "which calls itself"),
        (
            [("f", 'node_def { name: "c" op: "PartitionedCall" input: "a" }', "c:output:0")],
            "function 'f': node 'c': error: PartitionedCall has no attribute 'f'",
        ),
        (
            [
                (
                    "f",
                    'node_def { name: "c" op: "PartitionedCall" attr { key: "f" value { func { name: "g" } } } }',
                    "c:output:0",
                )
            ],
            "function 'f': node 'c': error: PartitionedCall calls function 'g', which the model does not hold",
        ),
        (
            [("f", 'node_def { name: "c" op: "g" }', "c:r:0"), ("g", "", "a")],
            "function 'f': node 'c': error: g gives function 'g' 0 arguments, but it takes 1",
        ),
        ([("f", "", "b")], "function 'f': node 'return': error: reads 'b', which nothing defines"),
        ([("f", "", "")], "function 'f': node 'return': error: reads '', which names no output of a node"),
        ([("f", CALL.format("g"), "c:s:0"), ("g", "", "a")], "function 'f': error: reads output s of 'c', which has 1"),
        (
            [("f", CALL.format("Neg") * 2, "c:y:0")],
            "function 'f': node 'c': error: defines 'c', which is defined already",
        ),
        (
            [("f", CALL.format("Neg").replace('"c"', '"a"'), "a:y:0")],
            "function 'f': node 'a': error: defines 'a', which is defined already",
        ),
        (
            [
                (
                    "f",
                    'node_def { name: "c" op: "Neg" input: "d:y:0" } node_def { name: "d" op: "Neg" input: "c:y:0" }',
                    "c:y:0",
                )
            ],
            "is part of a cycle",
        ),
        (
            [("f", 'node_def { name: "c" op: "If" input: "k:output:0" input: "a" } ' + TRUE, "c:output:0")],
            "function 'f': node 'c': error: If has no attribute 'then_branch'",
        ),
    ],
)
def test_bad_functions(functions: list[tuple[str, str, str]], message: str, tmp_path: Path) -> None:
    written = [UNARY.format(name=n, attributes="", nodes=nodes, result=result) for n, nodes, result in functions]
    graph = graph_with(*written)
    graph.node.add(name="y", op="f", input=["x"])
    with pytest.raises(CompileError) as caught:
        arrays(graph, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'graph.pb'}: ")
    assert message in str(caught.value)


def test_calls_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of forty functions calls the next twice: small as a file, without end as a graph."""
    monkeypatch.setattr("amct_opt.frontends.tensorflow.importer._MOST", 1000)
    functions = [
        UNARY.format(
            name=f"f{i}",
            attributes="",
            nodes=f'node_def {{ name: "c" op: "f{i + 1}" input: "a" }} node_def {{ name: "d" op: "f{i + 1}" input: "c:r:0" }}',
            result="d:r:0",
        )
        for i in range(40)
    ]
    graph = graph_with(*functions, UNARY.format(name="f40", attributes="", nodes="", result="a"))
    graph.node.add(name="y", op="f0", input=["x"])
    with pytest.raises(CompileError, match="holds more than 1000 nodes"):
        arrays(graph, tmp_path)
