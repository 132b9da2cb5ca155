"""Keras's recurrent layers, whose steps are a loop, are ONNX's operators and compute what TensorFlow computes.

Tolerance: five steps of sums of at most 16 products of numbers of about 1, rounded in another order, by which states differ:
1e-5, as activations are at most 1 steep.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.frontends.tensorflow import from_function, from_keras
from amct_opt.ir.functions import input_names, main_function
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.transforms.quantization.decide.recurrent import recurrent_layers

from ...frameworks import keras, later, tf, tf_keras

pytestmark = [  # what Keras meets while it saves
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

saved_model_pb2 = later("tensorflow.core.protobuf.saved_model_pb2")
LIBRARIES = {"keras": keras, "tf_keras": tf_keras}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def network(library: Any, made: list[Any], rng: np.random.Generator, time: int | None = 5) -> Any:
    model = library.Sequential([library.Input((time, 8), name="x"), *made])
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape).astype(np.float32) / 2)
    return model


def types_of(module: ModuleOp) -> list[str]:
    return [each.op.op_type.data for each in recurrent_layers(module)]


def assert_equal_to_keras(module: ModuleOp, model: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 5, 8)).astype(np.float32)
    (actual,) = run(module, dict.fromkeys(input_names(main_function(module)), x)).values()
    np.testing.assert_allclose(actual, np.asarray(model(x)), rtol=0, atol=1e-5)


LAYERS: dict[str, tuple[Callable[[Any], list[Any]], list[str]]] = {
    "lstm": (lambda of: [of.LSTM(6)], ["LSTM"]),
    "all-states": (lambda of: [of.LSTM(6, return_sequences=True), of.Dense(4)], ["LSTM"]),
    "backwards": (lambda of: [of.LSTM(6, go_backwards=True, return_sequences=True)], ["LSTM"]),
    "without-bias": (lambda of: [of.LSTM(6, use_bias=False)], ["LSTM"]),
    "other-activation": (lambda of: [of.LSTM(6, activation="relu")], ["LSTM"]),
    "by-gate": (lambda of: [of.LSTM(6, implementation=1)], ["LSTM"]),
    "gru": (lambda of: [of.GRU(5, return_sequences=True), of.GRU(6)], ["GRU", "GRU"]),
    "gru-reset-before": (lambda of: [of.GRU(5, reset_after=False)], ["GRU"]),
    "gru-without-bias": (lambda of: [of.GRU(5, use_bias=False)], ["GRU"]),
    "gru-by-gate": (lambda of: [of.GRU(5, implementation=1)], ["GRU"]),
    "simple": (lambda of: [of.SimpleRNN(7), of.Dense(3)], ["RNN"]),
    "simple-relu": (lambda of: [of.SimpleRNN(7, activation="relu", return_sequences=True)], ["RNN"]),
    "cell": (lambda of: [of.RNN(of.LSTMCell(6))], ["LSTM"]),
    "both-ways": (
        lambda of: [of.Bidirectional(of.LSTM(6, return_sequences=True)), of.Bidirectional(of.GRU(4))],
        ["LSTM", "LSTM", "GRU", "GRU"],
    ),
}


@pytest.mark.parametrize("time", [5, None])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, time: int | None, library: Any, rng: np.random.Generator) -> None:
    made, types = LAYERS[name]
    model = network(library, made(library.layers), rng, time)
    module = from_keras(model, new_session())
    assert types_of(module) == types
    assert_equal_to_keras(module, model, rng)


@pytest.mark.parametrize("name", ["net.h5", "net.keras", "net"])
def test_files(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """The layer has its name, a remark says what it is, and onnxruntime runs what is written."""
    of = keras.layers
    model = network(keras, [of.LSTM(6, return_sequences=True, name="memory"), of.Dense(4)], rng)
    path = tmp_path / name
    if path.suffix:
        model.save(path)
    else:
        model.export(path, verbose=False)
    session = new_session()
    module = frontends.read(path, session)
    assert types_of(module) == ["LSTM"]
    assert_equal_to_keras(module, model, rng)
    (carried,) = [r for r in session.remarks if r.rule == "native"]
    assert "memory" in carried.layer
    assert carried.reason == "carried as opaque: the loop of a recurrent layer is ONNX's LSTM"
    OnnxTarget().write(module, tmp_path / "written.onnx", session)
    x = rng.normal(size=(2, 5, 8)).astype(np.float32)
    written: Any = onnxruntime.InferenceSession(tmp_path / "written.onnx", providers=["CPUExecutionProvider"])
    (actual,) = written.run(None, dict.fromkeys(input_names(main_function(module)), x))
    np.testing.assert_allclose(actual, np.asarray(model(x)), rtol=0, atol=1e-5)


def test_an_initial_state_that_is_an_input(library: Any, rng: np.random.Generator) -> None:
    of = library.layers
    x, h, c = (library.Input(shape, name=name) for name, shape in (("x", (5, 8)), ("h", (6,)), ("c", (6,))))
    model = library.Model([x, h, c], of.LSTM(6, return_state=True)(x, initial_state=[h, c]))
    module = from_keras(model, new_session())
    inputs = {
        name: rng.normal(size=(3, *size)).astype(np.float32) for name, size in (("x", (5, 8)), ("h", (6,)), ("c", (6,)))
    }
    expected = model([*inputs.values()])
    for actual, wanted in zip(run(module, inputs).values(), expected, strict=True):
        np.testing.assert_allclose(actual, np.asarray(wanted), rtol=0, atol=1e-5)


def test_weights_are_quantized_on_request(rng: np.random.Generator) -> None:
    model = network(keras, [keras.layers.LSTM(16), keras.layers.Dense(4)], rng)
    session = new_session()
    session.profile = "qdq"
    module = from_keras(model, session)
    run_passes(module, [make_pass("quantize", "weight-only=true")], session)
    (layer,) = recurrent_layers(module)
    assert layer.is_quantized
    x = rng.normal(size=(3, 5, 8)).astype(np.float32)
    (actual,) = run(module, dict.fromkeys(input_names(main_function(module)), x)).values()
    expected = np.asarray(model(x))
    assert np.square(expected).sum() > 10**2.5 * np.square(actual - expected).sum()


REFUSED = {
    "several sequences, as with a mask": lambda of: [of.Masking(), of.LSTM(6)],
    "computes something else": lambda of: [of.LSTM(6, recurrent_activation="hard_sigmoid")],
    "computes something else ": lambda of: [of.RNN([of.LSTMCell(6), of.LSTMCell(5)])],
    "computes something else  ": lambda of: [of.GRU(6, activation="linear")],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_other_layers(reason: str, library: Any, rng: np.random.Generator) -> None:
    with pytest.raises(CompileError, match=rf"but for .* this one .*{reason.strip()}\n  hint: .*unroll=True"):
        from_keras(network(library, REFUSED[reason](library.layers), rng), new_session())


def scan(
    begin: int = 0, end: int = 3, step: int = 1, keep: Callable[[Any], Any] = lambda t: t, factor: float | None = None
) -> Any:
    """A loop of a simple layer over a sequence `[3, 2, 4]`, written in TensorFlow."""
    rng = np.random.default_rng(0)
    weight, recurrent = (tf.constant(rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(2))

    def function(x: Any) -> Any:
        read = tf.TensorArray(tf.float32, 3, element_shape=(2, 4)).unstack(x)
        kept = tf.TensorArray(tf.float32, 3, element_shape=(2, 4))

        def body(t: Any, h: Any, kept: Any) -> Any:
            new = tf.tanh(read.read(t) @ weight + h @ recurrent)
            return t + step, new, kept.write(keep(t), new if factor is None else new * factor)

        first = tf.constant(begin), tf.zeros((2, 4)), kept
        return tf.while_loop(lambda t, h, kept: t < end, body, first)[2].stack()

    return from_function(function, new_session(), tf.TensorSpec((3, 2, 4), tf.float32, name="x"))


def test_a_loop_written_in_tensorflow() -> None:
    assert types_of(scan()) == ["RNN"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"begin": 1}, "one after the other"),
        ({"end": 2}, "one after the other"),
        ({"step": 2}, "one after the other"),
        ({"keep": lambda t: 2 - t}, "keeps the states of some steps"),
        ({"factor": 2.0}, "computes something else"),
    ],
)
def test_loops_that_go_otherwise(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(CompileError, match=f"this one .*{reason}"):
        scan(**change)


def test_a_step_that_reads_itself(rng: np.random.Generator, tmp_path: Path) -> None:
    """Only a file can hold that: it ends with an error."""
    network(keras, [keras.layers.LSTM(6)], rng).export(tmp_path / "net", verbose=False)
    path = tmp_path / "net" / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for function in saved.meta_graphs[0].graph_def.library.function:
        for node in function.node_def if "while_body" in function.signature.name else ():
            if node.op == "Identity":
                node.input[0] = f"{node.name}:output:0"
    path.write_bytes(saved.SerializeToString())
    with pytest.raises(CompileError, match="is part of a cycle"):
        frontends.read(tmp_path / "net", new_session())
