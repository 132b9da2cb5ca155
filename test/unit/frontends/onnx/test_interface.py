"""Options of import on ONNX models: other inputs, outputs and shapes; a part computes what the whole computes there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, shape_inference
from onnx.utils import Extractor

from amct_opt import frontends
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import dimension_names, input_names, main_function, output_names, return_op
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions, Session
from amct_opt.support.diagnostics import CompileError

from ...values import normal

Build = Callable[..., ModelProto]
Load = Callable[..., Any]
W, V = normal(4, 5), normal(5, 3)
X, S = normal(2, 4), normal(2, 5)


@pytest.fixture
def model(build: Build) -> ModelProto:
    """`y = relu(x @ w + s) @ v`, `z = -h`: h is relu's result; types of values in the middle are not declared."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Add", ["a", "s"], ["b"], "shift"),
        helper.make_node("Relu", ["b"], ["h"], "act"),
        helper.make_node("MatMul", ["h", "v"], ["y"], "second"),
        helper.make_node("Neg", ["h"], ["z"], "minus"),
    ]
    return build(nodes, [("x", ["n", 4]), ("s", ["n", 5])], [("y", ["n", 3]), "z"], {"w": W, "v": V})


@pytest.fixture
def load(save: Callable[[ModelProto], Path], session: Session) -> Load:
    def read(model: ModelProto, **options: Any) -> Any:
        session.imports = ImportOptions(**options)
        return frontends.read(save(model), session)

    return read


def ports(module: Any) -> tuple[list[str], list[str]]:
    return input_names(main_function(module)), output_names(main_function(module))


def shapes(module: Any) -> list[tuple[int, ...]]:
    return [shape_of(a) for a in main_function(module).body.block.args]


def reference(model: ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, inputs)), strict=True))


def test_outputs(model: ModelProto, load: Load) -> None:
    """In the order given; values in the middle, too."""
    module = load(model, outputs=("h", "y"))
    assert ports(module) == (["x", "s"], ["h", "y"])
    outputs = run(module, {"x": X, "s": S})
    expected = reference(model, {"x": X, "s": S})
    np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(outputs["h"], -expected["z"], rtol=1e-5, atol=1e-5)


def test_inputs_that_no_output_needs_are_gone(model: ModelProto, load: Load) -> None:
    module = load(model, outputs=("a",))
    assert ports(module) == (["x"], ["a"])
    np.testing.assert_allclose(run(module, {"x": X})["a"], X @ W, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), [(("h",), ("y", "z")), (("s", "a"), ("z",)), (("b",), ("h",))])
def test_a_part_of_the_graph(model: ModelProto, load: Load, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """The same part as onnx itself cuts out, with types that onnx infers."""
    module = load(model, inputs=inputs, outputs=outputs)
    assert ports(module) == (list(inputs), list(outputs))
    assert shapes(module) == [(DYNAMIC, 5)] * len(inputs)
    arrays = {name: S + i for i, name in enumerate(inputs)}
    part = Extractor(shape_inference.infer_shapes(model)).extract_model(list(inputs), list(outputs))
    expected = reference(part, arrays)
    for name, actual in run(module, arrays).items():
        np.testing.assert_allclose(actual, expected[name], rtol=1e-5, atol=1e-5)


def test_inputs_are_ordered(model: ModelProto, load: Load) -> None:
    assert ports(load(model, inputs=("s", "x"))) == (["s", "x"], ["y", "z"])


def test_a_weight_as_an_input(model: ModelProto, load: Load) -> None:
    module = load(model, inputs=("x", "s", "v"))
    v = V + 1
    np.testing.assert_allclose(
        run(module, {"x": X, "s": S, "v": v})["y"], np.maximum(X @ W + S, 0) @ v, rtol=1e-5, atol=1e-5
    )


def test_shapes(model: ModelProto, load: Load) -> None:
    """A dimension of one name has one size, whichever input it is given for; names of unknown sizes stay."""
    assert shapes(load(model)) == [(DYNAMIC, 4), (DYNAMIC, 5)]
    module = load(model, shapes={"s": (2, 5)})
    assert shapes(module) == [(2, 4), (2, 5)]
    assert [shape_of(v) for v in return_op(main_function(module)).operands] == [(2, 3), (2, 5)]
    module = load(model, shapes={"s": (-1, 5)})
    assert shapes(module) == [(DYNAMIC, 4), (DYNAMIC, 5)]
    attributes = main_function(module).arg_attrs
    assert attributes is not None
    assert dimension_names(attributes.data[1]) == ["n", ""]


def test_a_fixed_size_that_becomes_unknown(build: Build, load: Load) -> None:
    """What the model declares after it does not hold any more, and is not held against what is computed."""
    middle = helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 4])
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("TopK", ["h", "k"], ["y", "i"])]
    model = build(nodes, [("x", [1, 4])], [("y", [1, 2])], {"k": np.array([2], np.int64)})
    model.graph.value_info.append(middle)
    module = load(model, shapes={"x": (-1, 4)})
    assert shapes(module) == [(DYNAMIC, 4)]
    np.testing.assert_array_equal(run(module, {"x": X})["y"], -np.sort(-np.maximum(X, 0), axis=1)[:, :2])


def test_a_rank_that_is_not_declared(build: Build, load: Load) -> None:
    model = build([helper.make_node("Relu", ["x"], ["y"])], [("x", None)], ["y"])
    with pytest.raises(CompileError, match="the rank of input 'x' is unknown"):
        load(model)
    assert shapes(load(model, shapes={"": (2, -1)})) == [(2, DYNAMIC)]
    assert shapes(load(model, shapes={"x": ()})) == [()]


def test_shapes_of_inputs_in_the_middle(model: ModelProto, load: Load) -> None:
    assert shapes(load(model, inputs=("h",), shapes={"h": (7, 5)})) == [(7, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ("Y",)}, "has no value 'Y'\n  hint: there are y"),
        ({"inputs": ("q",)}, "has no value 'q'"),
        ({"outputs": ("y", "y")}, "output 'y' is declared twice"),
        ({"inputs": ("x", "s", "x")}, "input 'x' is declared twice"),
        (
            {"inputs": ("a",)},
            "an output depends on 's', which is not an input\n  hint: --inputs takes every input, 's' among them",
        ),
        ({"shapes": {"h": (2, 5)}}, "the model has no input h\n  hint: the inputs are x, s"),
        ({"shapes": {"": (2, 5)}}, "a shape is given without the name of its input"),
        ({"shapes": {"x": (2, 5)}}, "--input-shape gives [2, 5] for input 'x', the model declares [?, 4]"),
        ({"shapes": {"x": (2,)}}, "--input-shape gives [2] for input 'x', the model declares [?, 4]"),
        ({"shapes": {"x": (2, 4), "s": (3, 5)}}, "--input-shape gives dimension 'n' the sizes 2 and 3"),
        ({"values": {"q": 1.0}}, "the model has no input q\n  hint: the inputs are x, s"),
        ({"carried": ("Attention",)}, "has no operator Attention\n  hint: it has "),
        ({"signature": "a"}, "--signature has no meaning for a model of this kind"),
        ({"weights": Path("w")}, "--weights has no meaning for a model of this kind"),
    ],
)
def test_mistakes(model: ModelProto, load: Load, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        load(model, **options)
    assert str(caught.value).startswith(f"{tmp_path / 'model.onnx'}: error: ")
    assert message in str(caught.value)


def test_a_value_for_an_input(build: Build, load: Load) -> None:
    """The input is a constant from then on, and is gone; its type and shape must be able to hold the number."""
    nodes = [helper.make_node("Where", ["flag", "x", "s"], ["y"])]
    flag, s = (
        helper.make_tensor_value_info(name, kind, [1])
        for name, kind in (("flag", TensorProto.BOOL), ("s", TensorProto.INT8))
    )
    x = helper.make_tensor_value_info("x", TensorProto.INT8, ["n"])
    model = build(nodes, [flag, x, s], ["y"])
    module = load(model, values={"flag": 1.0, "s": 5.0})
    assert shapes(module) == [(DYNAMIC,)]
    for values, message in (
        ({"s": 300.0}, "input 's': error: is of int8, which cannot be 300"),
        ({"flag": 0.5}, "input 'flag': error: is of bool, which cannot be 0.5"),
        (
            {"x": 1.0},
            "input 'x': error: is given a value, and its shape is not known\n  hint: --input-shape 'x:1' gives",
        ),
    ):
        with pytest.raises(CompileError) as caught:
            load(model, values=values)
        assert message in str(caught.value)


def test_an_input_of_unknown_type(build: Build, load: Load) -> None:
    """Nothing is known of what an operator of an unknown domain computes."""
    nodes = [helper.make_node("Own", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = build(nodes, [("x", [2])], ["y"], opset_imports=imports)
    with pytest.raises(CompileError, match=r"input 'h': error: its type is not known\n  hint: declare it"):
        load(model, inputs=("h",))
    model.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [2]))
    assert shapes(load(model, inputs=("h",))) == [(2,)]
