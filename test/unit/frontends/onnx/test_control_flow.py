"""If, Loop and Scan whose way is known at run time only: carried whole, run, written to text and to files, and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt import api
from amct_opt.dialects import nn
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]
node = helper.make_node


def graph(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    inputs: Sequence[ValueInfoProto] = (),
    weights: Mapping[str, np.ndarray] | None = None,
) -> GraphProto:
    infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    given = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    return helper.make_graph(nodes, "inner", inputs, infos, given)


def scalar(name: str, kind: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [])


def in_onnxruntime(model: ModelProto | Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source)
    return dict(
        zip([o.name for o in session.get_outputs()], map(np.asarray, session.run(None, dict(feeds))), strict=True)
    )


def hold(model: ModelProto, module: ModuleOp, feeds: Mapping[str, np.ndarray], folder: Path) -> nn.OpaqueOp:
    """The module computes what onnxruntime computes from the model; so does its text, and the file that it becomes.

    Returns the one carried operation.
    """
    wanted = in_onnxruntime(model, feeds)
    session = new_session()
    api.save(module, folder / "text.mlir", session, "mlir")
    api.save(module, folder / "written.onnx", session, "onnx", opset=model.opset_import[0].version)
    text = api.load(folder / "text.mlir").module
    again = api.load(folder / "written.onnx").module
    for found in (
        run(module, feeds),
        run(text, feeds),
        in_onnxruntime(folder / "written.onnx", feeds),
        run(again, feeds),
    ):
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    assert api.to_text(text) == api.to_text(api.load(folder / "text.mlir").module)
    (op,) = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    return op


def branches(rng: np.random.Generator, build: Build) -> ModelProto:
    """A layer, then one of two: a convolution with weights of its own, or the sum of the first layer's result with itself."""
    then = graph(
        [node("Conv", ["h", "w"], ["y"], "conv2"), node("Relu", ["y"], ["r"])],
        ["r"],
        weights={"w": rng.normal(size=(2, 2, 3, 3)).astype(np.float32)},
    )
    other = graph([node("AveragePool", ["h"], ["y"], kernel_shape=[3, 3]), node("Add", ["y", "y"], ["r"])], ["r"])
    nodes = [
        node("Conv", ["x", "first"], ["h"], "conv1"),
        node("ReduceMean", ["h"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["c"]),
        node("If", ["c"], ["r"], "branch", then_branch=then, else_branch=other),
        node("Mul", ["r", "r"], ["out"], "square"),
    ]
    weights = {"first": rng.normal(size=(2, 3, 1, 1)).astype(np.float32), "zero": np.zeros((), np.float32)}
    return build(nodes, [("x", [1, 3, 6, 6])], [("out", [1, 2, 4, 4])], weights)


def test_branches(build: Build, load: Load, session: Session, tmp_path: Path, rng: np.random.Generator) -> None:
    """Both branches call their values alike, and as the graph around them."""
    model = branches(rng, build)
    module = load(model)
    x = rng.normal(size=(1, 3, 6, 6)).astype(np.float32)
    taken = set[bool]()
    for sign in (1, -1):
        op = hold(model, module, {"x": sign * x}, tmp_path)
        taken.add(bool(np.mean(run(module, {"x": sign * x})["out"]) > 0))
    assert op.op_type.data == "If"
    assert [str(t) for t in op.result_types] == ["tensor<1x2x4x4xf32>"]
    (remark,) = [r for r in session.remarks if r.layer == "branch"]
    assert remark.reason == (
        "carried as opaque: what runs is known at run time only; of 5 nodes inside, 1 AveragePool, 1 Conv stay float"
    )


def test_weights_of_branches_are_weights_of_the_module(
    build: Build, load: Load, tmp_path: Path, rng: np.random.Generator
) -> None:
    """They stand in the file next to the text, and are initializers of the graph that is written."""
    module = load(branches(rng, build))
    api.save(module, tmp_path / "m.mlir", new_session(), "mlir")
    api.save(module, tmp_path / "m.onnx", new_session(), "onnx")
    assert '"w", tensor<2x2x3x3xf32>' in (tmp_path / "m.mlir").read_text()
    assert (2, 2, 3, 3) in [tuple(t.dims) for t in onnx.load(tmp_path / "m.onnx").graph.initializer]


def loop(rng: np.random.Generator, build: Build) -> ModelProto:
    """`x = x @ w` with an If inside, as many times as an input says, collecting the sums."""
    float_x = helper.make_tensor_value_info("x_in", TensorProto.FLOAT, [2, 5])
    inner = [
        node("MatMul", ["x_in", "w"], ["p"]),
        node("ReduceSum", ["p"], ["s"], keepdims=0),
        node("Less", ["s", "zero"], ["negative"]),
        node(
            "If",
            ["negative"],
            ["x_out"],
            then_branch=graph([node("Neg", ["p"], ["b"])], ["b"]),
            else_branch=graph([node("Tanh", ["p"], ["b"])], ["b"]),
        ),
        node("Identity", ["go_in"], ["go_out"]),
    ]
    body = graph(
        inner, ["go_out", "x_out", "s"], [scalar("i", TensorProto.INT64), scalar("go_in", TensorProto.BOOL), float_x]
    )
    body.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    nodes = [node("Loop", ["n", "", "x"], ["y", "sums"], "loop", body=body)]
    weights = {"w": rng.normal(size=(5, 5)).astype(np.float32), "zero": np.zeros((), np.float32)}
    inputs = [scalar("n", TensorProto.INT64), ("x", [2, 5])]
    return build(nodes, inputs, [("y", [2, 5]), ("sums", ["n"])], weights)


def test_loop(build: Build, load: Load, tmp_path: Path, rng: np.random.Generator) -> None:
    model = loop(rng, build)
    feeds = {"n": np.array(4), "x": rng.normal(size=(2, 5)).astype(np.float32)}
    op = hold(model, load(model), feeds, tmp_path)
    assert [str(t) for t in op.result_types] == ["tensor<2x5xf32>", "tensor<?xf32>"]


def test_scan(build: Build, load: Load, tmp_path: Path, rng: np.random.Generator) -> None:
    state = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("sum_in", "row")]
    body = graph(
        [node("Add", ["sum_in", "row"], ["sum_out"]), node("Mul", ["sum_out", "k"], ["o"])], ["sum_out", "o"], state
    )
    scan = node("Scan", ["start", "x"], ["last", "all"], "scan", body=body, num_scan_inputs=1)
    model = build([scan], [("start", [3]), ("x", [4, 3]), ("k", [])], [("last", [3]), ("all", [4, 3])])
    feeds = {n: rng.normal(size=s).astype(np.float32) for n, s in {"start": (3,), "x": (4, 3), "k": ()}.items()}
    hold(model, load(model), feeds, tmp_path)


def squeezed(build: Build) -> ModelProto:
    """As TorchScript exports `if x.size(1) == 1: x = x.squeeze(1)`: what the branches give differs in rank."""
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("Shape", ["h"], ["shape"]),
        node("Gather", ["shape", "one"], ["d"]),
        node("Equal", ["d", "one"], ["c"]),
        node(
            "If",
            ["c"],
            ["s"],
            "squeeze",
            then_branch=graph([node("Squeeze", ["h", "axes"], ["b"])], ["b"]),
            else_branch=graph([node("Identity", ["h"], ["b"])], ["b"]),
        ),
        node("Neg", ["s"], ["n"]),
        node("Abs", ["x"], ["a"]),
        node("Add", ["n", "offset"], ["t"]),
        node("Reshape", ["t", "flat"], ["f"]),
        node("ReduceSum", ["a"], ["u"], keepdims=0),
        node("Mul", ["f", "u"], ["y"], "scaled"),
    ]
    weights = {"one": np.array(1), "axes": np.array([1]), "flat": np.array([-1]), "offset": np.ones(4, np.float32)}
    return build(nodes, [("x", [2, "k", 4])], [("y", ["m"])], weights)


@pytest.mark.parametrize("size", [1, 3])
def test_results_without_a_rank(build: Build, load: Load, tmp_path: Path, size: int, rng: np.random.Generator) -> None:
    """They are carried with what reads them, up to where ranks are known again; the rest is imported."""
    model = squeezed(build)
    op = hold(model, load(model), {"x": rng.normal(size=(2, size, 4)).astype(np.float32)}, tmp_path)
    assert [str(t) for t in op.result_types] == ["tensor<?xf32>"]
    names = [op.origin and op.origin.op_type.data for op in load(model).walk() if isinstance(op, nn.NNOp)]
    assert names == ["Relu", "Shape", "Gather", "Equal", "If", "Abs", "ReduceSum", "Mul"]


def test_two_results_without_a_rank_meet(build: Build, load: Load, tmp_path: Path, rng: np.random.Generator) -> None:
    """Each of the two waits for the other's: they are one operation."""
    nodes = [
        node("Squeeze", ["x"], ["a"]),
        node("Squeeze", ["y"], ["b"]),
        node("Shape", ["b"], ["size"]),
        node("Expand", ["a", "size"], ["c"]),
        node("Add", ["b", "c"], ["d"]),
        node("Reshape", ["d", "flat"], ["z"]),
    ]
    inputs = [(name, ["n", "m", 4]) for name in "xy"]
    model = build(nodes, inputs, [("z", ["k"])], {"flat": np.array([-1])})
    hold(model, load(model), {n: rng.normal(size=(1, 3, 4)).astype(np.float32) for n in "xy"}, tmp_path)


def test_a_branch_without_a_rank(build: Build, load: Load, tmp_path: Path, rng: np.random.Generator) -> None:
    """The branch that a constant decides on gives a result without a rank: the If is carried with what reads it."""
    branches: dict[str, Any] = {f"{b}_branch": graph([node("Squeeze", ["x"], ["b"])], ["b"]) for b in ("then", "else")}
    nodes = [node("If", ["yes"], ["s"], "branch", **branches), node("Reshape", ["s", "flat"], ["y"])]
    model = build(nodes, [("x", ["n", "m", 4])], [("y", ["k"])], {"yes": np.array(True), "flat": np.array([-1])})
    hold(model, load(model), {"x": rng.normal(size=(1, 3, 4)).astype(np.float32)}, tmp_path)


def test_a_known_size_decides(build: Build, load: Load) -> None:
    model = squeezed(build)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    assert not any(isinstance(op, nn.OpaqueOp) for op in load(model).walk())


def one_branch(build: Build, nodes: Sequence[NodeProto], outputs: Sequence[Any]) -> ModelProto:
    branch = node("If", ["c"], ["r"], "branch", then_branch=graph(nodes, ["b"]), else_branch=graph(nodes, ["b"]))
    return build([branch], [scalar("c", TensorProto.BOOL), ("x", [2])], outputs)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Identity", ["nowhere"], ["b"])], "reads 'nowhere', which nothing defines"),
        ([node("Relu", ["x", "x"], ["b"])], "Relu is not valid: Node"),
        (
            [node("SequenceConstruct", ["x"], ["b"])],
            "'r', which If gives, is of a sequence type, only tensors are read",
        ),
        ([node("Unheard", ["x"], ["b"], domain="my.ops")], "If gives 'r', whose rank is not known"),
    ],
)
def test_what_cannot_be_carried(build: Build, load: Load, nodes: Sequence[NodeProto], message: str) -> None:
    model = one_branch(build, nodes, ["r"])
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    if nodes[0].op_type == "SequenceConstruct":
        for inner in model.graph.node[0].attribute:
            inner.g.output[0].ClearField("type")
    with pytest.raises(CompileError) as error:
        load(model)
    assert str(error.value.where).endswith("model.onnx: node 'branch'")
    assert error.value.message.startswith(message)


def test_a_damaged_graph(build: Build, load: Load, tmp_path: Path) -> None:
    """Text that was edited by hand; the error names the operation."""
    module = load(one_branch(build, [node("Neg", ["x"], ["b"])], [("r", [2])]))
    (op,) = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    op.graph = nn.GraphAttr(nn.ConstantOp.of(np.full(40, 255, np.uint8), "g").value)
    with pytest.raises(CompileError, match="its graph is not a model of ONNX") as error:
        run(module, {"c": np.array(True), "x": np.zeros(2, np.float32)})
    assert error.value.where.endswith("node 'branch'")
    with pytest.raises(CompileError, match="cannot be written: its graph is not a model of ONNX"):
        api.save(module, tmp_path / "m.onnx", new_session(), "onnx")


def test_quantize(build: Build, save: Callable[[ModelProto], Path], tmp_path: Path, rng: np.random.Generator) -> None:
    """The command without options: layers outside of the branches compute in integers."""
    samples = rng.normal(size=(8, 3, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=samples)
    path = save(branches(rng, build))
    arguments = ["quantize", path, "--data", tmp_path / "d.npz", "-o", tmp_path / "out"]
    assert amct.run([str(a) for a in arguments]) == 0
    written = onnx.load(tmp_path / "out" / "model_qdq.onnx")
    assert "QuantizeLinear" in [n.op_type for n in written.graph.node]
    feeds = {"x": samples[:1]}  # within the ranges
    wanted = in_onnxruntime(path, feeds)["out"]
    found = in_onnxruntime(tmp_path / "out" / "model_qdq.onnx", feeds)["out"]
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()
