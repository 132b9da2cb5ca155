"""Graphs that are damaged or contradict themselves: each is an error at its place, or means what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from amct_opt import frontends
from amct_opt.formats.tensorflow.schema import GraphDef
from amct_opt.formats.tensorflow.tensors import tensor_proto
from amct_opt.ir.functions import main_function
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

X = """node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "shape" value { shape { dim { size: -1 } dim { size: 3 } } } } }
       versions { producer: 2000 }"""
T = 'attr { key: "T" value { type: DT_FLOAT } }'


def node(name: str, op: str, *inputs: str, more: str = T) -> str:
    read = " ".join(f'input: "{i}"' for i in inputs)
    return f'node {{ name: "{name}" op: "{op}" {read} {more} }}'


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """A graph of `x` and other nodes, in a file."""

    def write(*nodes: str) -> Path:
        path = tmp_path / "graph.pb"
        path.write_bytes(text_format.Parse(X + " ".join(nodes), GraphDef()).SerializeToString())
        return path

    return write


def constant(name: str, array: Any) -> str:
    """A Const as text."""
    tensor = text_format.MessageToString(tensor_proto(np.asarray(array)), as_one_line=True)
    return node(name, "Const", more=f'attr {{ key: "value" value {{ tensor {{ {tensor} }} }} }}')


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("y", "Relu", "w")],
            "node 'y': error: reads 'w', which nothing defines\n  hint: the file may be truncated",
        ),
        ([node("y", "Relu", ":0")], "node 'y': error: reads ':0', which names no output of a node"),
        ([node("y", "Relu", "x:a:b:c")], "node 'y': error: reads 'x:a:b:c', which names no output of a node"),
        ([node("y", "Relu", "x:1")], "node 'y': error: reads output 1 of 'x', which has 1"),
        ([node("y", "Relu", "x:-1")], "node 'y': error: reads "),
        ([node("y", "Relu", "x"), node("y", "Neg", "x")], "node 'y': error: defines 'y', which is defined already"),
        ([node("", "Relu", "x")], "error: a Relu has no name"),
        ([node("y", "", "x")], "error: is not a TensorFlow model: a node names no operator"),
        ([node("y", "Relu")], "node 'y': error: Relu has no input 0, which Relu needs"),
        ([node("y", "Relu", "z"), node("z", "Neg", "y"), node("o", "Neg", "z")], "is part of a cycle: "),
        ([node("y", "Relu", "y"), node("o", "Neg", "y")], "node 'y': error: is part of a cycle: y -> y"),
        (
            [node("y", "MatMul", "x", "k"), constant("k", np.ones((4, 2), np.float32))],
            "node 'y': error: MatMul does not fit",
        ),
        (
            [node("y", "Add", "x", "k"), constant("k", np.ones(3, np.int32))],
            "node 'y': error: Add does not fit together",
        ),
        ([node("y", "Add", "x", "k"), node("k", "Const")], "node 'k': error: Const has no attribute 'value'"),
        (
            [node("y", "Add", "x", "k"), constant("k", np.ones(3, np.float32)).replace("size: 3", "size: 4")],
            "node 'k': error: holds 12 bytes, but its shape [4] needs 16",
        ),
        (
            [
                node("y", "Mul", "x", "v"),
                node("v", "VarHandleOp", more='attr { key: "dtype" value { type: DT_FLOAT } }'),
            ],
            "node 'v': error: VarHandleOp is a variable without a value\n  hint: freeze the graph",
        ),
        ([node("y", "MyOwnOp", "x")], "node 'y': error: "),
        ([node("y", "PartitionedCall", "x")], "node 'y': error: PartitionedCall has no attribute 'f'"),
        ([node("y", "Switch", "x")], "node 'y': error: Switch branches on a value of run time"),
        ([node("y", "Merge")], "error: output 'y' lies on a branch that is not taken"),
        ([node("y", "Const")], "error: has no outputs\n  hint: --outputs names them"),
    ],
    ids=lambda value: None if isinstance(value, list) else value.replace("\n", " ")[:40],
)
def test_mistakes(nodes: list[str], message: str, save: Callable[..., Path]) -> None:
    path = save(*nodes)
    with pytest.raises(CompileError) as caught:
        frontends.read(path, new_session())
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_an_operator_that_is_not_known_needs_tensorflow(save: Callable[..., Path]) -> None:
    """Only TensorFlow knows what such an operator computes; where it is missing, that is the error."""
    path = save(node("y", "Betainc", "x", "x", "x"))
    code = "import sys; sys.modules['tensorflow'] = None; from amct_opt.tools.amct_opt import run; sys.exit(run(sys.argv[1:]))"
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"{path}: node 'y': error: Betainc, which nn has no equivalent of, requires TensorFlow\n"
        "  hint: pip install 'amct-opt[tensorflow]'\n"
    )


def test_weights_that_are_no_numbers_stay(save: Callable[..., Path]) -> None:
    weights = np.array([np.nan, np.inf, -np.inf], np.float32)
    module = frontends.read(save(node("y", "Mul", "x", "k"), constant("k", weights)), new_session())
    np.testing.assert_array_equal(run(module, {"x": np.ones((1, 3), np.float32)})["y"], weights[None])


def test_arrays_without_elements(save: Callable[..., Path]) -> None:
    path = save(node("y", "MatMul", "x", "k"), constant("k", np.zeros((3, 0), np.float32)))
    module = frontends.read(path, new_session())
    assert run(module, {"x": np.ones((2, 3), np.float32)})["y"].shape == (2, 0)


def test_what_no_output_depends_on_may_be_anything(save: Callable[..., Path]) -> None:
    """Training leaves behind what cannot be read."""
    session = new_session()
    leftovers = [node("s", "Assert", "v"), node("v", "VariableV2"), node("a", "NoOp", "^s")]
    module = frontends.read(save(node("y", "Relu", "x"), *leftovers), session)
    assert [op.name for op in main_function(module).body.block.ops] == ["nn.relu", "func.return"]
    assert session.remarks[-1].reason.endswith("3 unused")


def complaint(path: Path) -> str:
    """What is wrong with a file, empty for nothing."""
    try:
        frontends.read(path, new_session())
    except CompileError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("ending", ["pb", "pbtxt"])
def test_every_truncation_is_an_error(ending: str, save: Callable[..., Path], tmp_path: Path) -> None:
    """Or, where it happens to end between two nodes, a smaller graph; never a crash."""
    whole = save(node("h", "Relu", "x"), node("y", "MatMul", "h", "k"), constant("k", np.ones((3, 4), np.float32)))
    data = whole.read_bytes()
    if ending == "pbtxt":
        data = text_format.MessageToString(GraphDef.FromString(data)).encode()
    path = tmp_path / f"cut.{ending}"
    complaints: list[str] = []
    for size in range(0, len(data), 5 if ending == "pbtxt" else 1):
        path.write_bytes(data[:size])
        complaints.append(complaint(path))
    assert all(c.startswith(str(path)) for c in complaints if c)
    assert complaints.count("") < len(complaints) / 10


def test_damaged_bytes(save: Callable[..., Path], tmp_path: Path) -> None:
    """Any byte may be any other: the result is a module or a located error."""
    data = bytearray(
        save(
            node("h", "Relu", "x"),
            node("c", "PartitionedCall", "h", more='attr { key: "f" value { func { name: "g" } } }'),
            node("y", "MatMul", "c", "k"),
            constant("k", np.ones((3, 4), np.float32)),
            """library { function { signature { name: "g" input_arg { name: "a" type: DT_FLOAT }
                                                output_arg { name: "r" type: DT_FLOAT } }
                                    node_def { name: "n" op: "Neg" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
                                    ret { key: "r" value: "n:y:0" } } }""",
        ).read_bytes()
    )
    path = tmp_path / "damaged.pb"
    rng = np.random.default_rng(0)
    for place in range(len(data)):
        for value in rng.integers(0, 256, 3):
            damaged = bytearray(data)
            damaged[place] = value
            path.write_bytes(damaged)
            said = complaint(path)
            assert not said or said.startswith(str(path)), (place, value)


def test_garbage_names_a_byte_of_the_file(tmp_path: Path) -> None:
    """Lengths that lie lead out of the file; what is named is where they stand."""
    path = tmp_path / "garbage.pb"
    rng = np.random.default_rng(1)
    named: list[int] = []
    for size in (8, 300, 3000):
        for first in (b"", b"\x0a", b"\x0a\xff\xff\xff\x7f"):
            data = first + rng.integers(0, 256, size, np.uint8).tobytes()
            path.write_bytes(data)
            said = complaint(path)
            assert said.startswith(str(path))
            for place in re.findall(r"\bbyte (\d+)", said):
                named.append(int(place))
                assert named[-1] <= len(data)
    assert len(named) > 5
