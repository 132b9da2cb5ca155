"""SavedModels from folder to numbers: equal to what TensorFlow computes with the same signature.

Tolerance: sums of at most 100 products of numbers of about 1, rounded in another order: 1e-5 of the largest output.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...frameworks import keras, later, tf

tf1 = later("tensorflow.compat.v1")

Array = np.ndarray[Any, np.dtype[Any]]


def some(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(0.5, 1.5, shape).astype(np.float32)


def read(path: Path, **options: Any) -> Any:
    session = new_session()
    session.imports = ImportOptions(**options)
    return frontends.read(path, session)


def check(module: Any, inputs: Mapping[str, Array], expected: Mapping[str, Any]) -> None:
    assert set(input_names(main_function(module))) == set(inputs)
    assert output_names(main_function(module)) == sorted(expected), "signatures have no order of their own"
    for name, actual in run(module, inputs).items():
        reference = np.asarray(expected[name])
        np.testing.assert_allclose(actual, reference, rtol=0, atol=1e-5 * np.abs(reference).max(), err_msg=name)


def restored(folder: Path, inputs: Mapping[str, Array], signature: str = "serving_default") -> Mapping[str, Any]:
    """What TensorFlow's own loader computes."""
    loaded = tf.saved_model.load(str(folder))
    return loaded.signatures[signature](**{name: tf.constant(array) for name, array in inputs.items()})


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_tensorflow_1(resource: bool, tmp_path: Path) -> None:
    """A network with a training flag, variables of both kinds, and leftovers of training in the graph."""
    folder = tmp_path / "model"
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        x = tf1.placeholder(tf.float32, [None, 8, 8, 3], "images")
        training = tf1.placeholder(tf.bool, [], "training")
        w = tf1.get_variable("w", initializer=some(3, 3, 3, 4), use_resource=resource)
        b = tf1.get_variable("b", initializer=some(4), use_resource=resource)
        h = tf1.cond(training, lambda: x + tf.random.normal([3]), lambda: tf.identity(x))
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, 1, "SAME"), b))
        tf1.train.AdamOptimizer().minimize(tf.reduce_sum(y), var_list=[w])
        session.run(tf1.global_variables_initializer())
        tf1.saved_model.simple_save(session, str(folder), {"in": x}, {"out": y})
        array = some(2, 8, 8, 3)
        expected = session.run(y, {x: array, training: False})
    module = read(folder)
    assert shape_of(main_function(module).body.block.args[0]) == (DYNAMIC, 8, 8, 3)
    check(module, {"in": array}, {"out": expected})


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel of two signatures, none of them for serving."""

    class _Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(some(6, 4))
            self.v = tf.Variable(some(4, 4))

        @tf.function
        def _twice(self, x: Any) -> Any:
            return tf.nn.relu(x @ self.v) @ self.v

        @tf.function(input_signature=[tf.TensorSpec([None, 6]), tf.TensorSpec([4])])
        def forward(self, x: Any, bias: Any) -> Any:
            h = self._twice(x @ self.w) + self._twice(-(x @ self.w))
            return {"scores": h + bias, "largest": tf.reduce_max(h, axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([None, 6])])
        def embed(self, x: Any) -> Any:
            return {"embedding": x @ self.w}

    folder = tmp_path_factory.mktemp("two")
    module = _Module()
    tf.saved_model.save(module, str(folder), {"forward": module.forward, "embed": module.embed})
    return folder


def test_signatures(two: Path) -> None:
    inputs = {"x": some(3, 6) - 1, "bias": some(4)}
    check(read(two, signature="forward"), inputs, restored(two, inputs, "forward"))
    check(read(two, signature="embed"), {"x": inputs["x"]}, restored(two, {"x": inputs["x"]}, "embed"))


def test_a_signature_must_be_chosen(two: Path) -> None:
    with pytest.raises(
        CompileError, match=r"has several signatures\n  hint: --signature chooses one of embed, forward"
    ):
        read(two)
    with pytest.raises(CompileError, match=r"has no signature 'fwd'\n  hint: signatures are embed, forward"):
        read(two, signature="fwd")


def test_what_names_there_are(two: Path) -> None:
    """Those of the signature, not of the graph."""
    with pytest.raises(CompileError, match=r"has no node 'nothing' to be an output\n  hint: there are largest, scores"):
        read(two, signature="forward", outputs=("nothing",))
    with pytest.raises(CompileError, match=r"node 'forward_bias': error: .*\n  hint: .*, 'bias' among them"):
        read(two, signature="forward", inputs=("x",))


def test_assignments_are_left_out_with_a_remark(tmp_path: Path) -> None:

    class _Counting(tf.Module):
        def __init__(self) -> None:
            self.count = tf.Variable(3.0)

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "x")])
        def forward(self, x: Any) -> Any:
            y = x * self.count
            self.count.assign_add(1.0)
            return y

    module, session = _Counting(), new_session()
    tf.saved_model.save(module, str(tmp_path), module.forward)
    imported = frontends.read(tmp_path, session)
    for _ in range(2):
        np.testing.assert_array_equal(next(iter(run(imported, {"x": some(2) * 0 + 1}).values())), [3, 3])
    assert [(r.rule, r.layer) for r in session.remarks][:-1] == [("assignment", "AssignAddVariableOp")]


def test_a_folder_without_a_signature(tmp_path: Path) -> None:
    """Its graph says nothing: functions are called from outside, and what nothing reads saves and restores."""
    tf.saved_model.save(tf.Module(), str(tmp_path / "none"))
    with pytest.raises(CompileError, match=r"none: error: is a SavedModel without a signature\n  hint: .*--outputs"):
        read(tmp_path / "none")


def test_names_of_a_signature_in_options(two: Path) -> None:
    """They order inputs and choose outputs; shapes override."""
    options = {"signature": "forward", "inputs": ("x", "bias"), "outputs": ("scores",), "shapes": {"x": (5, 6)}}
    module = read(two, **options)
    assert input_names(main_function(module)) == ["x", "bias"]
    assert output_names(main_function(module)) == ["scores"]
    assert [shape_of(a) for a in main_function(module).body.block.args] == [(5, 6), (4,)]


@pytest.fixture(params=["save", "export"])
def keras_folder(request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator) -> tuple[Path, Any]:
    x = keras.Input((8, 8, 3), name="image")
    y = keras.layers.DepthwiseConv2D(3, dilation_rate=2)(keras.layers.ReLU()(keras.layers.Conv2D(4, 3)(x)))
    y = keras.layers.GlobalAveragePooling2D()(keras.layers.BatchNormalization()(y))
    model = keras.Model(x, keras.layers.Dense(5, name="scores")(keras.layers.Dropout(0.5)(y)))
    for weight in model.weights:
        weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    folder = tmp_path / "model"
    if request.param == "export":
        model.export(folder, verbose=False)
    else:
        tf.saved_model.save(model, str(folder))
    return folder, model


@pytest.mark.parametrize("inside", [".", "saved_model.pb"])
def test_keras(keras_folder: tuple[Path, Any], inside: str) -> None:
    folder, model = keras_folder
    module = read(folder / inside)
    (name,) = input_names(main_function(module))
    array = some(2, 8, 8, 3)
    (actual,) = run(module, {name: array}).values()
    np.testing.assert_allclose(actual, model(array, training=False).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "saved_model.pb").unlink(), "is a folder, but not a SavedModel"),
        (lambda f: (f / "variables" / "variables.index").unlink(), "the values of its variables are missing"),
        (lambda f: next((f / "variables").glob("*.data*")).unlink(), "the file that holds it is missing"),
        (lambda f: next((f / "variables").glob("*.data*")).write_bytes(b"no"), "the file is truncated"),
        (lambda f: _halve(f / "saved_model.pb"), "is not a TensorFlow model"),
    ],
    ids=["graph", "index", "shard", "truncated shard", "truncated graph"],
)
def test_damaged_folders(two: Path, tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(two, folder)
    damage(folder)
    with pytest.raises(CompileError, match=message) as caught:
        read(folder, signature="embed")
    assert str(caught.value).startswith(str(folder))


def _halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
