"""What goes into a TensorFlow model and what comes out: found in the graph, said by options, pruned of training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import body, input_names, main_function, output_names
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...frameworks import later, tf

tf1 = later("tensorflow.compat.v1")

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """The graph that a function builds, in a file."""

    def write(build: Callable[[], object]) -> Path:
        with tf1.Graph().as_default() as graph:
            build()
        path = tmp_path / "graph.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return path

    return write


def read(path: Path, **options: Any) -> tuple[Any, list[Any]]:
    """The module, and what import remarked."""
    session = new_session()
    session.imports = ImportOptions(**options)
    return frontends.read(path, session), session.remarks


def ports(module: Any) -> tuple[list[str], list[str]]:
    return input_names(main_function(module)), output_names(main_function(module))


def shapes(module: Any) -> list[tuple[int, ...]]:
    return [shape_of(a) for a in main_function(module).body.block.args]


def chain() -> None:
    """`b` comes before `a` in the file; `unused` reaches no output. Outputs: `y` and `z`, in the order of the file."""
    b = tf1.placeholder(tf.float32, [None, 4], "b")
    tf1.placeholder(tf.float32, [3], "unused")
    a = tf1.placeholder(tf.float32, [None, 4], "a")
    middle = tf.add(a, b, name="middle")
    tf.nn.relu(middle, "y")
    tf.negative(middle, "z")


A, B = np.array([[1, -2, 3, -4]], np.float32), np.array([[-5, 6, -7, 8]], np.float32)


def test_inputs_and_outputs_are_found_in_the_order_of_the_file(save: Save) -> None:
    module, _ = read(save(chain))
    assert ports(module) == (["b", "a"], ["y", "z"])
    assert shapes(module) == [(DYNAMIC, 4)] * 2


@pytest.mark.parametrize("zero", ["", ":0"])
def test_options_choose_and_order_them(save: Save, zero: str) -> None:
    """`x` and `x:0` are the same, and called `x`."""
    module, _ = read(save(chain), inputs=(f"a{zero}", f"b{zero}"), outputs=(f"z{zero}", f"middle{zero}"))
    assert ports(module) == (["a", "b"], ["z", "middle"])
    outputs = run(module, {"a": A, "b": B})
    np.testing.assert_array_equal(outputs["z"], -(A + B))
    np.testing.assert_array_equal(outputs["middle"], A + B)


def test_an_input_in_the_middle(save: Save) -> None:
    """What comes before it is not needed any more."""
    module, _ = read(save(chain), inputs=("middle",), shapes={"middle": (-1, 4)})
    assert ports(module) == (["middle"], ["y", "z"])
    np.testing.assert_array_equal(run(module, {"middle": A})["y"], np.maximum(A, 0))


def test_the_type_of_an_input_in_the_middle(save: Save) -> None:
    """Of a comparison it is bool, though its attribute says float32."""

    def build() -> None:
        x = tf1.placeholder(tf.float32, [2], "x")
        large = tf.greater(x, 0.0, name="large")
        count = tf.cast(x, tf.int32, name="count")
        tf.where(large, count, -count, name="y")

    module, _ = read(save(build), inputs=("large", "count"), shapes={"large": (2,), "count": (2,)})
    outputs = run(module, {"large": np.array([True, False]), "count": np.array([3, 4], np.int32)})
    np.testing.assert_array_equal(outputs["y"], [3, -4])


def test_an_output_other_than_the_first(save: Save) -> None:
    def build() -> None:
        tf.split(tf1.placeholder(tf.float32, [2, 6], "x"), 3, axis=1, name="parts")

    module, _ = read(save(build), outputs=("parts:2", "parts"))
    assert ports(module) == (["x"], ["parts:2", "parts"])
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(module, {"x": x})["parts:2"], x[:, 4:])

    module, remarks = read(save(build))
    assert ports(module) == (["x"], ["parts"])
    assert [r.layer for r in remarks if r.rule == "first-result"] == ["parts"]


def test_shapes(save: Save) -> None:
    """Given sizes take the place of those that the model declares; -1 makes a fixed size unknown."""

    def build() -> None:
        tf.nn.relu(tf1.placeholder(tf.float32, [1, None, 3], "x"), "y")

    path = save(build)
    assert shapes(read(path)[0]) == [(1, DYNAMIC, 3)]
    assert shapes(read(path, shapes={"x": (1, 7, 3)})[0]) == [(1, 7, 3)]
    assert shapes(read(path, shapes={"x:0": (-1, 7, 3)})[0]) == [(DYNAMIC, 7, 3)]
    assert shapes(read(path, shapes={"": (1, 7, -1)})[0]) == [(1, 7, DYNAMIC)]


def test_a_rank_that_is_not_known_must_be_given(save: Save) -> None:
    path = save(lambda: tf.nn.relu(tf1.placeholder(tf.float32, None, "x"), "y"))
    with pytest.raises(CompileError, match="input 'x': error: its rank is unknown\n  hint: --input-shape='x:"):
        read(path)
    assert shapes(read(path, shapes={"x": (-1, 5)})[0]) == [(DYNAMIC, 5)]


def test_rank_0_means_nothing_in_old_graphs(tmp_path: Path) -> None:
    """TensorFlow takes a placeholder of rank 0 for one of any shape in graphs up to version 21."""
    with tf1.Graph().as_default() as graph:
        tf.nn.relu(tf1.placeholder(tf.float32, [], "x"), "y")
    message = graph.as_graph_def()
    path = tmp_path / "graph.pb"
    for version, known in ((21, False), (22, True)):
        message.versions.producer = version
        path.write_bytes(message.SerializeToString())
        if known:
            assert shapes(read(path)[0]) == [()]
        else:
            with pytest.raises(CompileError, match="its rank is unknown"):
                read(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ("w",)}, "has no node 'w' to be an output"),
        ({"outputs": ("y:x:y:z",)}, "'y:x:y:z' names no output"),
        ({"outputs": ("y", "y:0")}, "output 'y' is named twice"),
        ({"outputs": ("y:1",)}, "reads output 1 of 'y', which has 1"),
        ({"inputs": ("bb", "a")}, "has no node 'bb' to be an input"),
        ({"inputs": ("a", "a:0")}, "input 'a' is named twice"),
        ({"inputs": ("a:1", "b")}, "input 'a:1': error: is output 1 of a node, only 0 can be given"),
        ({"inputs": ("a",)}, "node 'b': error: Placeholder is not an input of the model, but an output depends on it"),
        ({"inputs": ("middle",)}, "input 'middle': error: its rank is unknown"),
        ({"shapes": {"x": (1, 4)}}, "the model has no input x"),
        ({"shapes": {"": (1, 4)}}, "a shape is given without the name of its input"),
        ({"shapes": {"a": (1, 5)}}, "--input-shape gives [1, 5] for input 'a', the model declares [?, 4]"),
        ({"shapes": {"a": (1, 4, 1)}}, "--input-shape gives [1, 4, 1] for input 'a', the model declares [?, 4]"),
        ({"signature": "serve"}, "has no signature 'serve'\n  hint: the model has none"),
        ({"weights": Path("w")}, "--weights has no meaning for a model of this kind"),
    ],
)
def test_mistakes(save: Save, options: dict[str, Any], message: str) -> None:
    path = save(chain)
    with pytest.raises(CompileError) as caught:
        read(path, **options)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_an_input_of_strings(save: Save) -> None:
    path = save(lambda: tf.strings.length(tf1.placeholder(tf.string, [2], "x"), name="y"))
    with pytest.raises(CompileError, match="input 'x': error: element type DT_STRING is not supported"):
        read(path)


def test_defaults_are_taken(save: Save) -> None:
    def build() -> None:
        scale = tf1.placeholder_with_default(np.float32(2), [], "scale")
        tf.multiply(tf1.placeholder(tf.float32, [2], "x"), scale, name="y")

    path = save(build)
    module, remarks = read(path)
    assert [(r.rule, r.layer) for r in remarks if r.layer == "scale"] == [("default", "scale")]
    np.testing.assert_array_equal(run(module, {"x": np.array([1, 2], np.float32)})["y"], [2, 4])

    module, _ = read(path, inputs=("x", "scale"))
    np.testing.assert_array_equal(
        run(module, {"x": np.array([1, 2], np.float32), "scale": np.array(3, np.float32)})["y"], [3, 6]
    )


# Training


FLAGS = {
    "default": lambda: tf1.placeholder_with_default(False, [], "training"),
    "scalar": lambda: tf1.placeholder(tf.bool, [], "training"),
    "unknown rank": lambda: tf1.placeholder(tf.bool, None, "training"),
}


@pytest.fixture(params=["Switch and Merge", "If"])
def control_flow(request: pytest.FixtureRequest) -> Any:
    """Conditionals as TensorFlow 1 and as TensorFlow 2 writes them."""
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param == "If" else tf1.disable_control_flow_v2)()
    yield request.param
    (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


@pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "small"])
@pytest.mark.parametrize("flag", FLAGS)
def test_nothing_of_training_is_left(control_flow: str, flag: str, fused: bool, tmp_path: Path) -> None:
    """Batch norms that a placeholder switches: the branch of inference remains, whole, and nothing of the other."""
    layers = pytest.importorskip("tf_keras.src.legacy_tf_layers.normalization")
    uniform = tf1.random_uniform_initializer
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        x = tf1.placeholder(tf.float32, [None, 4, 5, 3], "x")
        training = FLAGS[flag]()
        y = layers.batch_normalization(
            x,
            fused=fused,
            training=training,
            gamma_initializer=uniform(0.5, 2, 1),
            beta_initializer=uniform(-1, 1, 2),
            moving_mean_initializer=uniform(-1, 1, 3),
            moving_variance_initializer=uniform(0.5, 2, 4),
        )
        y = tf.identity(y, "y")
        session.run(tf1.global_variables_initializer())
        array = np.random.default_rng(0).normal(size=(2, 4, 5, 3)).astype(np.float32)
        expected = session.run(y, {x: array, training: False})
        frozen = tf1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    kinds = {node.op for node in frozen.node}
    assert kinds & ({"Switch", "Merge"} if control_flow == "Switch and Merge" else {"If", "StatelessIf"})
    path = tmp_path / "graph.pb"
    path.write_bytes(frozen.SerializeToString())
    module, remarks = read(path)
    operations = [type(op) for op in body(main_function(module)).ops if not isinstance(op, nn.ConstantOp)]
    assert operations[:-1] == ([nn.BatchNormOp] if fused else [nn.MulOp, nn.AddOp])
    assert [(r.rule, r.layer) for r in remarks] == [("training-flag", "training"), ("summary", "main")]
    # a product and a sum per element, of numbers of about 10
    np.testing.assert_allclose(run(module, {"x": array})["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_flag_that_is_named_is_an_input(save: Save) -> None:
    def build() -> None:
        x, flag = tf1.placeholder(tf.float32, [2], "x"), tf1.placeholder(tf.bool, [], "flag")
        tf.where(flag, x, -x, name="y")

    path = save(build)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(read(path)[0], {"x": x})["y"], -x)
    module, _ = read(path, inputs=("x", "flag"))
    np.testing.assert_array_equal(run(module, {"x": x, "flag": np.array(True)})["y"], x)


def test_a_branch_that_data_decides(save: Save, control_flow: str) -> None:
    def build() -> None:
        x = tf1.placeholder(tf.float32, [2], "x")
        tf1.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0, name="cond")

    with pytest.raises(CompileError, match=r"node 'cond.*: error: .* branches on a value of run time"):
        read(save(build))


def test_loops(save: Save, control_flow: str) -> None:
    def build() -> None:
        x = tf1.placeholder(tf.float32, [2], "x")
        _, y = tf1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2.0), (0, x), name="loop")
        tf.identity(y, "y")

    with pytest.raises(CompileError, match=r"node 'loop.*: error: .*is part of a loop: loops are not supported"):
        read(save(build))


def test_lists_of_tensors(save: Save) -> None:
    """They come before the loop, which is what the error is about."""

    def build() -> None:
        x = tf1.placeholder(tf.float32, [3, 2], "x")
        tf.identity(tf.scan(lambda a, v: a + v, x, name="scan"), "y")

    with pytest.raises(CompileError, match=r"is part of a loop: loops are not supported\n  hint: .* unroll=True"):
        read(save(build))


def test_what_asserts_and_conditions_leave_behind_is_no_output(tmp_path: Path) -> None:
    """Freezing makes switches and merges of both, some of which nothing reads."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def function(x: Any, training: Any) -> Any:
        tf.debugging.Assert(tf.reduce_max(x) < 10, [x])
        return tf.cond(training, lambda: x * 2.0, lambda: x - 1.0)

    signature = [tf.TensorSpec([2], tf.float32, "x"), tf.TensorSpec([], tf.bool, "training")]
    traced = tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
    frozen = convert_variables_to_constants_v2(traced).graph.as_graph_def()
    assert {"Switch", "Merge", "Assert"} <= {node.op for node in frozen.node}
    (tmp_path / "graph.pb").write_bytes(frozen.SerializeToString())
    module, _ = read(tmp_path / "graph.pb")
    assert ports(module) == (["x"], ["Identity"])
    np.testing.assert_array_equal(run(module, {"x": np.array([1, 2], np.float32)})["Identity"], [0, 1])


def test_a_branch_that_is_not_taken_may_hold_anything(save: Save, control_flow: str) -> None:
    """Known conditions prune: also what could not be read, here a loop (TensorFlow 2) or random numbers (1)."""

    def build() -> None:
        x, training = tf1.placeholder(tf.float32, [2], "x"), tf1.placeholder(tf.bool, [], "training")
        noisy = (lambda: x + tf.random.normal([2])) if control_flow != "If" else lambda: _doubled(x)
        tf.identity(tf1.cond(training, noisy, lambda: tf.negative(x)), "y")

    module, _ = read(save(build))
    operations = [type(op) for op in body(main_function(module)).ops]
    assert operations[:-1] == [nn.NegOp]


def _doubled(x: Any) -> Any:
    return tf1.while_loop(lambda v: tf.reduce_sum(v) < 9, lambda v: (v * 2.0,), (x,))
