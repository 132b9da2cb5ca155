"""SavedModels of every manner, against what TensorFlow's own loader restores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from amct_opt.formats.tensorflow.tensors import Array
from amct_opt.frontends.tensorflow.source import Signature, TensorInfo, load
from amct_opt.support.diagnostics import CompileError

from ...frameworks import keras, later, tf

tf1 = later("tensorflow.compat.v1")


def _tf1(rng: np.random.Generator, folder: Path) -> None:
    """Variables by reference, resource variables, and both in parts."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 4], "x")
        held = [
            tf1.get_variable("ref", initializer=some(rng, 4, 6), use_resource=False),
            tf1.get_variable("scope/resource", initializer=some(rng, 6), use_resource=True),
            tf1.get_variable("whole", initializer=np.int64(7), use_resource=False),
        ]
        for name, resource in (("ref_parts", False), ("resource_parts", True)):
            split = tf1.fixed_size_partitioner(3)
            initializer = tf1.random_normal_initializer()
            tf1.get_variable(name, [9, 2], initializer=initializer, partitioner=split, use_resource=resource)
        y = tf.identity(tf.matmul(x, held[0]) + held[1], "y")
        session.run(tf1.global_variables_initializer())
        builder = tf1.saved_model.Builder(str(folder))
        signature = tf1.saved_model.predict_signature_def({"in": x}, {"out": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


def _network(rng: np.random.Generator) -> Any:
    """With a branch that shares weights, and numbers in them that differ."""
    x = keras.Input((8, 8, 3))
    conv = keras.layers.Conv2D(3, 3, padding="same")
    y = keras.layers.BatchNormalization()(conv(conv(x)))
    model = keras.Model(x, keras.layers.Dense(5)(keras.layers.Dropout(0.5)(y)))
    for weight in model.weights:
        weight.assign(some(rng, *weight.shape))
    return model


def _saved_keras(rng: np.random.Generator, folder: Path) -> None:
    model = _network(rng)
    model.compile("adam", "mse")
    model.fit(some(rng, 2, 8, 8, 3), some(rng, 2, 8, 8, 5), verbose=0)  # an optimizer has variables, too
    tf.saved_model.save(model, str(folder))


def _exported_keras(rng: np.random.Generator, folder: Path) -> None:
    _network(rng).export(folder, verbose=False)


def _module(rng: np.random.Generator, folder: Path) -> None:

    class _Module(tf.Module):
        """Variables of several types, one never read, a table of strings, and a function that is called twice."""

        def __init__(self, rng: np.random.Generator, vocabulary: Path):
            super().__init__()
            self.weight = tf.Variable(some(rng, 4, 3))
            self.half = tf.Variable(tf.cast(some(rng, 3), tf.bfloat16))
            self.steps = tf.Variable(np.int64(12))
            self.flag = tf.Variable(True)
            self.text = tf.Variable("abc")
            self.more = [tf.Variable(some(rng, 2)), {"inner": tf.Variable(some(rng, 3, 1))}]
            initializer = tf.lookup.TextFileInitializer(
                str(vocabulary),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )
            self.table = tf.lookup.StaticHashTable(initializer, -1)

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
        def dense(self, x: Any) -> Any:
            return tf.matmul(x, self.weight) + tf.cast(self.half, tf.float32)

        @tf.function(
            input_signature=[tf.TensorSpec([2, 4], tf.float32, "left"), tf.TensorSpec(None, tf.float32, "right")]
        )
        def both(self, left: Any, right: Any) -> Any:
            return {"sum": self.dense(left) + self.dense(tf.ensure_shape(right, [2, 4])), "steps": self.steps + 1}

    vocabulary = folder.with_suffix(".txt")
    vocabulary.write_text("a\nb\n")
    module = _Module(rng, vocabulary)
    tf.saved_model.save(module, str(folder), {"both": module.both, "dense": module.dense})


MANNERS = {"tf1": _tf1, "saved keras": _saved_keras, "exported keras": _exported_keras, "module": _module}


def some(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that are never given twice."""
    return rng.normal(size=shape).astype(np.float32)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a SavedModel of some manner."""
    folders: dict[str, Path] = {}

    def folder(manner: str) -> Path:
        if manner not in folders:
            folders[manner] = tmp_path_factory.mktemp("saved") / "model"
            MANNERS[manner](np.random.default_rng(0), folders[manner])
        return folders[manner]

    return folder


@pytest.fixture
def copied(saved: Callable[[str], Path], tmp_path: Path) -> Path:
    """The TF1 model, to be changed."""
    return Path(shutil.copytree(saved("tf1"), tmp_path / "model"))


def restored(folder: Path) -> dict[str, Array]:
    """All variables that TensorFlow's loader restores, but those of strings, by their nodes."""
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        tf1.saved_model.load(session, ["serve"], str(folder))
        read: dict[str, Any] = {}
        for op in graph.get_operations():
            if op.type not in ("VarHandleOp", "VariableV2") or op.get_attr("dtype") == tf.string:
                continue
            (held,), dtype = op.outputs, op.get_attr("dtype")
            if op.type == "VariableV2":
                read[op.name] = held
            elif session.run(tf.raw_ops.VarIsInitializedOp(resource=held)):
                read[op.name] = tf.raw_ops.ReadVariableOp(resource=held, dtype=dtype)
        return session.run(read)


@pytest.mark.slow
@pytest.mark.parametrize(("manner", "count"), [("tf1", 9), ("saved keras", 8), ("exported keras", 8), ("module", 6)])
def test_restored_variables(manner: str, count: int, saved: Callable[[str], Path]) -> None:
    actual, expected = load(saved(manner)).variables, restored(saved(manner))
    assert len(expected) >= count
    assert set(actual) >= set(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name
        np.testing.assert_array_equal(actual[name], array, name)


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["saved keras", "exported keras", "module"])
def test_variables_that_signatures_read(manner: str, saved: Callable[[str], Path]) -> None:
    """A signature is a call whose last arguments are handles: TensorFlow's function has the same, with values."""
    source = load(saved(manner))
    nodes = {node.name: node for node in source.graph.node}
    signatures = tf.saved_model.load(str(saved(manner))).signatures
    assert source.signatures is not None
    for key, signature in source.signatures.items():
        call = nodes[next(iter(signature.outputs.values())).name.partition(":")[0]]
        handles = signatures[key].captured_inputs
        names = [i for i in call.input if not i.startswith("^")][-len(handles) :]
        assert len(handles) >= 2
        for name, handle in zip(names, handles, strict=True):
            dtype = nodes[name].attr["dtype"].type
            expected = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()
            np.testing.assert_array_equal(source.variables[name], expected, name)


def test_variables_are_views_of_the_file(saved: Callable[[str], Path], is_mapped: Callable[[Array], bool]) -> None:
    assert all(is_mapped(array) for array in load(saved("saved keras")).variables.values())


def test_signatures(saved: Callable[[str], Path]) -> None:
    source = load(saved("module"))
    assert source.signatures == {
        "dense": Signature(
            {"x": TensorInfo("dense_x:0", 1, (-1, 4))},
            {"output_0": TensorInfo(name_of(saved("module"), "dense", "output_0"), 1, (-1, 3))},
        ),
        "both": Signature(
            {"left": TensorInfo("both_left:0", 1, (2, 4)), "right": TensorInfo("both_right:0", 1, None)},
            {
                "sum": TensorInfo(name_of(saved("module"), "both", "sum"), 1, (2, 3)),
                "steps": TensorInfo(name_of(saved("module"), "both", "steps"), 9, ()),
            },
        ),
    }
    assert load(saved("tf1")).signatures == {
        "serving_default": Signature({"in": TensorInfo("x:0", 1, (-1, 4))}, {"out": TensorInfo("y:0", 1, (-1, 6))})
    }


def name_of(folder: Path, signature: str, output: str) -> str:
    """Of the tensor of an output, as TensorFlow reads it."""
    return message(folder).meta_graphs[0].signature_def[signature].outputs[output].name


def message(folder: Path) -> Any:
    return later("tensorflow.core.protobuf.saved_model_pb2.SavedModel").FromString(
        (folder / "saved_model.pb").read_bytes()
    )


def write(folder: Path, model: Any) -> None:
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())


def test_producer_and_library(saved: Callable[[str], Path]) -> None:
    source = load(saved("module"))
    assert source.producer == f"tensorflow {tf.version.VERSION}"
    theirs = message(saved("module")).meta_graphs[0].graph_def
    assert {f.signature.name for f in source.graph.library.function} == {
        f.signature.name for f in theirs.library.function
    }
    assert source.graph.versions.producer == theirs.versions.producer


@pytest.mark.parametrize("manner", ["tf1", "module"])
def test_as_text(manner: str, saved: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved(manner), tmp_path / "model"))
    (folder / "saved_model.pbtxt").write_text(text_format.MessageToString(message(folder)))
    (folder / "saved_model.pb").unlink()
    binary, text = load(saved(manner)), load(folder)
    for source in (binary, text):
        source.graph.DiscardUnknownFields()
    assert text.graph == binary.graph
    assert text.signatures == binary.signatures
    for name, array in binary.variables.items():
        np.testing.assert_array_equal(text.variables[name], array)


def test_by_the_file_inside(saved: Callable[[str], Path]) -> None:
    assert load(saved("tf1") / "saved_model.pb").variables.keys() == load(saved("tf1")).variables.keys()


@pytest.mark.parametrize("tags", [[["train"], ["serve"]], [["serve", "tpu"], ["serve"]], [["train"]], [[]]], ids=str)
def test_the_graph_to_serve(tags: list[list[str]], copied: Path) -> None:
    model = message(copied)
    graph = model.meta_graphs[0]
    del model.meta_graphs[:]
    for i, each in enumerate(tags):
        added = model.meta_graphs.add()
        added.CopyFrom(graph)
        added.meta_info_def.tags[:] = each
        added.meta_info_def.tensorflow_version = str(i)
    write(copied, model)
    assert load(copied).producer == f"tensorflow {len(tags) - 1}"


def test_large_constants_of_several_graphs(copied: Path) -> None:
    """Nodes of one name in two graphs keep their own values."""
    model = message(copied)
    model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
    for i, (graph, tag) in enumerate(zip(model.meta_graphs, ["train", "serve"], strict=True)):
        graph.meta_info_def.tags[:] = [tag]
        node = graph.graph_def.node.add(name="large", op="Const")
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.full(5000, i, np.float32)))
    write(copied, model)
    source = load(copied)
    node = next(n for n in source.graph.node if n.name == "large")
    assert node.attr["value"].tensor.tensor_content == np.full(5000, 1, np.float32).tobytes()


# What cannot be read


def error_of(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        load(path)
    return str(caught.value).replace(f"{path}", "model")


def test_several_graphs(copied: Path) -> None:
    model = message(copied)
    model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
    for graph, tags in zip(model.meta_graphs, [["serve", "gpu"], ["serve", "tpu"]], strict=True):
        graph.meta_info_def.tags[:] = tags
    write(copied, model)
    assert error_of(copied).startswith(
        "model/saved_model.pb: error: holds 2 graphs, with the tags gpu, serve; serve, tpu\n  hint: "
    )


def test_folder_without_a_model(tmp_path: Path) -> None:
    assert error_of(tmp_path).startswith("model: error: is a folder, but not a SavedModel\n  hint: ")


def test_without_variables(copied: Path) -> None:
    shutil.rmtree(copied / "variables")
    assert error_of(copied) == (
        "model: error: the values of its variables are missing: there is no file variables/variables.index\n"
        "  hint: a SavedModel is a whole folder"
    )


def test_without_a_file_of_variables(copied: Path) -> None:
    (copied / "variables" / "variables.data-00000-of-00001").unlink()
    error = error_of(copied)
    assert error.startswith("model: node '")
    assert error.endswith("the file that holds it is missing: model/variables/variables.data-00000-of-00001")


def test_variables_of_another_model(copied: Path, saved: Callable[[str], Path]) -> None:
    shutil.rmtree(copied / "variables")
    shutil.copytree(saved("module") / "variables", copied / "variables")
    assert "is not saved\n  hint: model/variables/variables.index belongs to another model" in error_of(copied)


def test_variables_of_another_shape(copied: Path) -> None:
    model = message(copied)
    node = next(n for n in model.meta_graphs[0].graph_def.node if n.name == "ref")
    node.attr["shape"].shape.dim[1].size = 5
    write(copied, model)
    assert "node 'ref': error: is of shape [4, 5], its saved value of [4, 6]" in error_of(copied)


@pytest.mark.parametrize("text", ["9 2 0,99:-", "9 2 x"])
def test_no_such_part(text: str, copied: Path) -> None:
    model = message(copied)
    for node in model.meta_graphs[0].graph_def.node:
        if node.name == "save/RestoreV2/shape_and_slices":
            node.attr["value"].tensor.string_val[:] = [text.encode()] * len(node.attr["value"].tensor.string_val)
    write(copied, model)
    assert "part" in error_of(copied)


@pytest.mark.parametrize("cycle", ["identities", "functions"])
def test_endless_restore_graphs(cycle: str, copied: Path) -> None:
    """Following them comes to an end; their variables are without value."""
    model = message(copied)
    graph = model.meta_graphs[0].graph_def
    if cycle == "identities":
        for node in graph.node:
            if node.op == "Identity":
                node.input[0] = node.name
    else:
        restore = next(n for n in graph.node if n.name == model.meta_graphs[0].saver_def.restore_op_name)
        restore.op = "PartitionedCall"
        restore.attr["f"].func.name = "again"
        del restore.input[:]
        graph.library.function.add().signature.name = "again"
        graph.library.function[0].node_def.add().CopyFrom(restore)
    write(copied, model)
    assert "resource" not in load(copied).variables
