"""Names of values as files have them: in module text, through copies, and in models whose names no syntax foresaw."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block

import amct_opt
from amct_opt.dialects import nn
from amct_opt.ir.functions import input_names, main_function
from amct_opt.ir.text import module_text
from amct_opt.tools import amct

NAMES = [
    *("0", "1", "387", "0387", "1_2", "_1", "__1", "_0_1", "x_1", "x_1_2", "x__1", "x_1_", "_", "__", "1x", "12a_3"),
    *("input.1", "a.b-c$d", ".", "-", "$", "$1", "-1", ".5", "-_1", "onnx::Conv_497", "/features/0/Conv_output_0"),
    *("conv1/weight:0", "层", "x层", "层_1", "é1", "²", "٣", "name with blanks", "tab\there", "two\nlines"),
    *('"quoted"', "back\\slash", "\\22", "%0", "%x", "#x", "@main", "^bb0", "x#1", "x:1", "a" * 300, "_" * 300 + "1"),
    *("true", "loc", "func.func", "constant", "arg0", "null\0"),
]


@pytest.mark.parametrize("name", NAMES)
def test_hints_stay_as_they_are(name: str) -> None:
    """xDSL takes a hint, keeps all of it, and takes it again from a copy."""
    hint = nn.name_hint(name)
    value = Block(arg_types=[f32]).args[0]
    for _ in range(3):
        value.name_hint = hint
        assert value.name_hint == hint
    assert hint is None or nn.name_hint(hint) == hint


def _chain(names: list[str]) -> ModuleOp:
    """A module whose values bear these names in order, each the result of an operation on the one before."""
    lines = ["func.func @main(%in: tensor<2xf32>) -> tensor<2xf32> {"]
    values = ["in", *(f"{i}" for i in range(len(names)))]
    lines += [f"  %{b} = nn.relu %{a} : tensor<2xf32>" for a, b in pairwise(values)]
    module, _ = amct_opt.parse("\n".join([*lines, f"  func.return %{values[-1]} : tensor<2xf32>", "}"]))
    for op, name in zip((o for o in module.walk() if isinstance(o, nn.ReluOp)), names, strict=True):
        op.result.name_hint = nn.name_hint(name)
    return module


def test_text_of_copies() -> None:
    """Names that become equal get different numbers, the same in a copy of a module and after its text is parsed."""
    module = _chain([*NAMES, *reversed(NAMES)])
    text = module_text(module)
    assert "%v387 =" in text
    assert module_text(module.clone()) == text
    assert module_text(module.clone().clone()) == text
    assert module_text(amct_opt.parse(text).module) == text
    generic = module_text(module, generic=True)
    assert module_text(amct_opt.parse(generic).module, generic=True) == generic


@pytest.mark.parametrize("written", ["_1", "_387", "__1", "_1_2", "-_1", "x_1", "x_1_2", "x_", "_", "._1", "v1"])
def test_names_in_text(written: str) -> None:
    """Whatever the syntax of MLIR allows can be read, copied and written."""
    text = f"""func.func @main(%{written}: tensor<2xf32>) -> tensor<2xf32> {{
  %{written}0:2 = nn.split %{written} axis 0 sizes [1, 1] : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  %{written}_1 = nn.concat %{written}0#1, %{written}0#0 axis 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  func.return %{written}_1 : tensor<2xf32>
}}"""
    module, _ = amct_opt.parse(text)
    copy = module_text(module.clone())
    assert copy == module_text(module) == module_text(amct_opt.parse(copy).module)
    (name,) = input_names(main_function(module))
    assert amct_opt.execute(module, {name: np.array([1, 2], np.float32)})["result0"].tolist() == [2, 1]


def _network(path: Path, names: list[str], layers: list[str]) -> None:
    """Two convolutions with biases, a batch norm and an addition; `names` are of input, output, and everything between."""
    rng = np.random.default_rng(0)
    x, y, w1, b1, w2, s, o, m, v, a, b, c, d = names
    nodes = [
        helper.make_node("Conv", [x, w1, b1], [a], layers[0], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", [a, s, o, m, v], [b], layers[1]),
        helper.make_node("Relu", [b], [c], layers[2]),
        helper.make_node("Conv", [c, w2], [d], layers[3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", [d, c], [y], layers[4]),
    ]
    arrays = {w1: rng.normal(size=(4, 2, 3, 3)), w2: rng.normal(size=(4, 4, 3, 3)), b1: rng.normal(size=4)}
    arrays |= {s: rng.normal(size=4), o: rng.normal(size=4), m: rng.normal(size=4), v: rng.uniform(1, 2, 4)}
    graph = helper.make_graph(
        nodes,
        "torch-jit-export",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 4, 6, 6])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.save(model, path)


HOSTILE = [n for n in NAMES if "\0" not in n]
"""Names that a file can have: onnxruntime, the other reader, ends them at a NUL."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(HOSTILE), 13))
def test_commands_on_models_of_any_names(first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quantized and read back; inputs, outputs and layers are called as they were, nodes without names by their kind."""
    import onnxruntime

    names = (HOSTILE + HOSTILE)[first : first + 13]
    layers = ["", *names[1:4], ""]
    model, out = tmp_path / "old.onnx", tmp_path / "out"
    _network(model, names, layers)
    rng = np.random.default_rng(1)
    np.save(tmp_path / "d.npy", rng.normal(size=(4, 2, 6, 6)).astype(np.float32))

    assert amct.run(["support", str(model)]) == 0
    assert amct.run(["quantize", str(model), "--data", str(tmp_path / "d.npy"), "--also", "nn", "-o", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert [row["layer"] for row in summary["layers"]["quantized"]] == ["Conv_0", layers[3]]
    assert [row["layer"] for row in summary["layers"]["fused"]][:1] == [layers[1]]
    assert list(summary["accuracy"]["fake_quantized"]) == [names[1]]

    written = onnxruntime.InferenceSession(out / "old_qdq.onnx", providers=["CPUExecutionProvider"])
    assert ([i.name for i in written.get_inputs()], [o.name for o in written.get_outputs()]) == ([names[0]], [names[1]])
    module, session = amct_opt.load(out / "old_nn.mlir")
    assert module_text(module.clone()) == module_text(module)
    amct_opt.run_pipeline(module, "canonicalize", session)
    x = rng.normal(size=(1, 2, 6, 6)).astype(np.float32)
    ours, theirs = amct_opt.execute(module, {names[0]: x})[names[1]], written.run(None, {names[0]: x})[0]
    np.testing.assert_allclose(ours, np.asarray(theirs), atol=0.2)
