"""Keras files, and objects of a running program: what is imported computes what TensorFlow computes.

Tolerance: sums of at most 150 products of numbers of about 1, rounded in another order: 1e-5 of the largest output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.frontends.tensorflow import from_function, from_graph, from_keras
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions, Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...frameworks import keras, tf, tf_keras
from ...values import layer_of, normal

pytestmark = [  # what Keras meets while it saves
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

IMAGE, EXTRA = normal(2, 6, 6, 3), normal(2, 4)


@pytest.fixture
def session() -> Session:
    return new_session()


LIBRARIES = {"keras": keras, "tf_keras": tf_keras}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def network(rng: np.random.Generator, library: Any) -> Any:
    """Two inputs and two outputs, neither in the order of the alphabet; a layer that only training uses; random weights."""
    layers = library.layers
    image, extra = library.Input((6, 6, 3), name="image"), library.Input((4,), name="extra")
    x = layers.Conv2D(4, 3, name="conv")(image)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.Dropout(0.5, name="drop")(layers.ReLU(name="relu")(x))
    x = layers.Concatenate(name="join")([layers.Flatten(name="flat")(x), extra])
    outputs = [layers.Dense(5, name="logits")(x), layers.Dense(2, activation="sigmoid", name="aux")(x)]
    model = library.Model([image, extra], outputs, name="net")
    for weight in model.weights:
        weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    return model


def check(module: Any, expected: Sequence[Any]) -> None:
    assert input_names(main_function(module)) == ["image", "extra"]
    assert output_names(main_function(module)) == ["logits", "aux"]
    assert [shape_of(a)[0] for a in main_function(module).body.block.args] == [DYNAMIC] * 2
    for actual, reference in zip(run(module, {"image": IMAGE, "extra": EXTRA}).values(), expected, strict=True):
        np.testing.assert_allclose(actual, reference.numpy(), rtol=0, atol=1e-5 * np.abs(reference).max())


def test_from_keras(library: Any, session: Session, rng: np.random.Generator) -> None:
    model = network(rng, library)
    module = from_keras(model, session)
    check(module, model([IMAGE, EXTRA], training=False))
    (conv,) = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert "conv" in layer_of(conv).split("/")[-2], "layers are called as Keras calls them"
    assert not [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]


@pytest.mark.parametrize(
    ("library_of", "ending"), [("keras", "keras"), ("keras", "h5"), ("keras", "hdf5"), ("tf_keras", "h5")]
)
def test_files(library_of: str, ending: str, tmp_path: Path, session: Session, rng: np.random.Generator) -> None:
    model = network(rng, LIBRARIES[library_of])
    path = tmp_path / f"model.{ending}"
    model.save(path)
    check(frontends.read(path, session), model([IMAGE, EXTRA], training=False))


def test_keras_files_of_keras_2(tmp_path: Path, session: Session, rng: np.random.Generator) -> None:
    network(rng, tf_keras).save(tmp_path / "model.keras")
    with pytest.raises(CompileError, match=r"Keras cannot load it: Keras 2 wrote it\n  hint: save it as .h5"):
        frontends.read(tmp_path / "model.keras", session)


def test_sequential(library: Any, session: Session) -> None:
    model = library.Sequential([library.layers.Input((3,), name="x"), library.layers.Dense(2, name="fc")])
    module = from_keras(model, session)
    (name,) = input_names(main_function(module))
    assert output_names(main_function(module)) == ["fc"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run(module, {name: x})["fc"], model(x).numpy(), rtol=1e-6)


def test_inputs_and_outputs_by_name(library: Any, session: Session) -> None:
    """A model whose inputs and outputs are dictionaries."""
    a, b = library.Input((3,), name="a"), library.Input((3,), name="b")
    model = library.Model({"b": b, "a": a}, {"z": a - b, "y": a + b})
    module = from_keras(model, session)
    x = {"a": np.array([[1, 2, 3]], np.float32), "b": np.array([[5, 5, 5]], np.float32)}
    outputs = run(module, x)
    assert set(outputs) == {"y", "z"}
    np.testing.assert_array_equal(outputs["y"], x["a"] + x["b"])
    np.testing.assert_array_equal(outputs["z"], x["a"] - x["b"])


def test_a_model_that_needs_known_sizes(session: Session) -> None:
    x = keras.Input((None, None, 3), name="x")
    y = keras.layers.UpSampling2D(2, interpolation="bilinear")(x)
    with pytest.raises(CompileError, match=r"up: error: cannot be traced: Using a symbolic .*\n  hint: its layers may"):
        from_keras(keras.Model(x, y, name="up"), session)


def test_weights_that_layers_share_are_shared(session: Session) -> None:
    x = keras.Input((40,), name="x")
    layer = keras.layers.Dense(40, use_bias=False)
    module = from_keras(keras.Model(x, layer(layer(x))), session)
    first, second = (op for op in module.walk() if isinstance(op, nn.MatMulOp))
    assert first.operands[1] is second.operands[1]


def test_options_hold(session: Session, rng: np.random.Generator) -> None:
    model = network(rng, keras)
    session.imports = ImportOptions(outputs=("aux",), shapes={"image": (1, 6, 6, 3)})
    module = from_keras(model, session)
    assert output_names(main_function(module)) == ["aux"]
    assert shape_of(main_function(module).body.block.args[0]) == (1, 6, 6, 3)


def test_a_model_without_known_inputs(session: Session) -> None:
    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x * 2

    model = Own(name="own")
    with pytest.raises(
        CompileError, match=r"own: error: the model does not say what its inputs are\n  hint: from_function"
    ):
        from_keras(model, session)
    module = from_function(lambda x: model(x), session, tf.TensorSpec([None, 3], tf.float32, "x"))
    np.testing.assert_array_equal(run(module, {"x": EXTRA[:, :3]})["output_0"], EXTRA[:, :3] * 2)


# Functions and graphs


def test_functions(session: Session, rng: np.random.Generator) -> None:
    """With a signature of their own, with one given, traced; results in a dictionary have its keys."""
    weight = tf.Variable(rng.normal(size=(4, 3)).astype(np.float32))
    offset = tf.constant(np.array([1, 2, 3], np.float32))

    def function(first: Any, second: Any) -> Any:
        return {"sum": first @ weight + offset, "difference": first - second}

    spec = tf.TensorSpec([None, 4], tf.float32)
    signed = tf.function(function, input_signature=[spec, spec])
    expected = function(EXTRA, IMAGE[:, 0, 0, :1])
    modules = [
        from_function(signed, session),
        from_function(signed.get_concrete_function(), session),
        from_function(function, session, spec, spec),
        from_function(tf.function(function), session, spec, spec),
    ]
    for module in modules:
        assert input_names(main_function(module)) == ["first", "second"]
        outputs = run(module, {"first": EXTRA, "second": np.broadcast_to(IMAGE[:, 0, 0, :1], (2, 4))})
        assert set(outputs) == {"sum", "difference"}
        np.testing.assert_allclose(outputs["sum"], expected["sum"], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(outputs["difference"], expected["difference"])


def test_a_function_without_a_signature(session: Session) -> None:
    with pytest.raises(CompileError, match=r"cannot be traced: .*\n  hint: give a tf.TensorSpec for each argument"):
        from_function(tf.function(lambda x: x + 1), session)


def test_graphs(session: Session) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        tf.nn.relu(x @ np.eye(4, dtype=np.float32), name="y")
    for given in (graph, graph.as_graph_def()):
        np.testing.assert_array_equal(run(from_graph(given, session), {"x": EXTRA})["y"], np.maximum(EXTRA, 0))


def test_graphs_that_are_not_frozen(session: Session) -> None:
    with tf.Graph().as_default() as graph:
        v = tf.compat.v1.get_variable("v", [4], use_resource=False)
        tf.multiply(tf.compat.v1.placeholder(tf.float32, [None, 4], "x"), v, name="y")
    with pytest.raises(
        CompileError, match=r"graph: error: is not an inference graph: 'v/Assign' sets .*\n  hint: freeze"
    ):
        from_graph(graph, session)
    session.imports = ImportOptions(outputs=("y",))
    with pytest.raises(CompileError, match="graph: node 'v': error: VariableV2 is a variable without a value"):
        from_graph(graph, session)
    module = from_graph(graph, session, {"v": np.array([1, 2, 3, 4], np.float32)})
    np.testing.assert_array_equal(run(module, {"x": EXTRA})["y"], EXTRA * np.array([1, 2, 3, 4], np.float32))


# Files that are none, or bring code along


def lambdas(library: Any) -> Any:
    x = library.Input((3,), name="x")
    return library.Model(x, library.layers.Lambda(lambda v: v + 1, output_shape=(3,), name="own")(x))


@pytest.mark.parametrize(("library_of", "ending"), [("keras", "keras"), ("keras", "h5"), ("tf_keras", "h5")])
def test_code_in_files_is_not_run(library_of: str, ending: str, tmp_path: Path, session: Session) -> None:
    path = tmp_path / f"model.{ending}"
    lambdas(LIBRARIES[library_of]).save(path)
    with pytest.raises(CompileError, match=r"(?i)lambda") as caught:
        frontends.read(path, session)
    assert str(caught.value).startswith(f"{path}: error: ")


def test_layers_of_a_program(tmp_path: Path, session: Session) -> None:
    """The layer is named, and what to do: Keras itself begins with its models."""

    class Own(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x + 1

    x = keras.Input((3,), name="x")
    keras.Model(x, Own()(x)).save(tmp_path / "model.keras")
    with pytest.raises(CompileError) as caught:
        frontends.read(tmp_path / "model.keras", session)
    assert str(caught.value) == (
        f"{tmp_path / 'model.keras'}: error: Keras cannot load it: Could not locate class 'Own'\n"
        "  hint: a model with code of its own is read as a SavedModel, which model.export writes"
    )


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 no zip"], ids=["empty", "text", "zip"])
def test_no_model(ending: str, content: bytes, tmp_path: Path, session: Session) -> None:
    path = tmp_path / f"model.{ending}"
    with pytest.raises(CompileError, match="cannot be read: No such file or directory"):
        frontends.read(path, session)
    path.write_bytes(content)
    with pytest.raises(CompileError) as caught:
        frontends.read(path, session)
    assert str(caught.value).startswith(f"{path}: error: ")


def test_weights_without_a_model(tmp_path: Path, session: Session, rng: np.random.Generator) -> None:
    path = tmp_path / "model.h5"
    network(rng, tf_keras).save_weights(path)
    with pytest.raises(CompileError, match="holds no model, only weights or other data\n  hint: save the whole model"):
        frontends.read(path, session)


@pytest.mark.parametrize("option", [{"signature": "serving_default"}, {"weights": Path("w")}])
def test_options_without_meaning(option: dict[str, Any], tmp_path: Path, session: Session) -> None:
    session.imports = ImportOptions(**option)
    (tmp_path / "model.keras").touch()
    with pytest.raises(CompileError, match="has no meaning for a model of this kind"):
        frontends.read(tmp_path / "model.keras", session)


def test_without_tensorflow(tmp_path: Path) -> None:
    """One line that says what to install; nothing is written to stderr next to it."""
    (tmp_path / "model.keras").write_bytes(b"PK")
    code = "import sys; sys.modules['tensorflow'] = None; from amct_opt.tools.amct_opt import run; sys.exit(run(sys.argv[1:]))"
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.keras")], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"{tmp_path / 'model.keras'}: error: a Keras file requires TensorFlow\n  hint: pip install 'amct-opt[tensorflow]'\n"
    )


@pytest.mark.slow
def test_quiet(tmp_path: Path) -> None:
    """Nothing of what TensorFlow says reaches the user."""
    keras.Sequential([keras.layers.Input((3,), name="x"), keras.layers.Dense(2, name="fc")]).save(tmp_path / "m.keras")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "KERAS_", "CUDA_"))}
    argv = [sys.executable, "-m", "amct_opt.tools.amct_opt", str(tmp_path / "m.keras")]
    result = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**environment, "KERAS_BACKEND": "jax"}
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "nn.matmul" in result.stdout


def test_the_reason_is_of_the_keras_that_wrote_the_file(tmp_path: Path, session: Session) -> None:
    """tf_keras knows no file of Keras 3, whatever is wrong with it."""
    h5py, path = pytest.importorskip("h5py"), tmp_path / "model.h5"
    keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, name="fc")]).save(path)
    with h5py.File(path, "a") as file:
        del file["model_weights/fc"]
    with pytest.raises(CompileError, match=r"Keras cannot load it: .*'fc'"):
        frontends.read(path, session)


def test_config_that_is_no_json(tmp_path: Path, session: Session) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "model.h5"
    for config, message in (
        ("{", "its model is not described in JSON"),
        (json.dumps({"a": []}), "Keras cannot load it"),
    ):
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = config
        with pytest.raises(CompileError, match=message):
            frontends.read(path, session)
