"""Shapes and data movement against TensorFlow, with sizes known and not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from amct_opt.runtime.executor import run

from ...frameworks import later, tf
from .conftest import kinds

Agrees = Callable[..., Any]
raw = later("tensorflow.raw_ops")

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.arange(2 * 4 * 6 * 8, dtype=np.float32).reshape(2, 4, 6, 8)
ROW = np.arange(4, dtype=np.float32)
EMPTY = np.zeros((0, 3), np.float32)


def _broadcast(x: Any, shape: list[int]) -> Any:
    return tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x), shape))


Case = tuple[Callable[..., Any], Sequence[np.ndarray]]

SIZES: dict[str, Case] = {
    "shape": (lambda x: tf.shape(x), [X]),
    "shape-int64": (lambda x: tf.shape(x, tf.int64), [X]),
    "shape_n": (lambda x, y: tf.shape_n([x, y]), [X, IMAGE]),
    "size": (lambda x: tf.size(x), [X]),
    "rank": (lambda x: tf.cast(tf.rank(x), tf.float32) * x, [X]),
}

RESHAPES: dict[str, Case] = {
    "reshape": (lambda x: tf.reshape(x, [4, 6]), [X]),
    "reshape-rest": (lambda x: tf.reshape(x, [-1, 4]), [X]),
    "reshape-scalar": (lambda x: tf.reshape(x[:1, :1, :1], []), [X]),
    "reshape-empty": (lambda x: tf.reshape(x, [0, 7]), [EMPTY]),
    "reshape-empty-batch": (lambda x: tf.reshape(x, [tf.shape(x)[0], 7, 0]), [np.zeros((2, 1, 0), np.float32)]),
    "reshape-batch": (lambda x: tf.reshape(x, [tf.shape(x)[0], -1, 2]), [X]),
    "reshape-other-batch": (lambda x: tf.reshape(tf.nn.relu(x), [tf.shape(x)[0], 2, 6]), [X]),
    "reshape-two": (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, 2]), [X]),
    "reshape-swapped": (lambda x: tf.reshape(x, [tf.shape(x)[1], tf.shape(x)[0], 4]), [X]),
    "reshape-product": (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] * tf.shape(x)[2], 8]), [IMAGE]),
    "reshape-halves": (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] // 2, -1]), [IMAGE]),
    "reshape-halves-twice": (
        lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] // 2, 2, tf.shape(x)[2] // 3, 3, 8]),
        [IMAGE],
    ),
    "flatten": (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.reduce_prod(x.shape[1:])]), [IMAGE]),
    "flatten-runtime": (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.reduce_prod(tf.shape(x)[1:])]), [IMAGE]),
    "like-another": (lambda x, y: tf.reshape(x, tf.shape(y)), [X, X.reshape(3, 2, 4)]),
    "tensordot": (lambda x: tf.tensordot(x, np.ones((4, 5), np.float32), 1), [X]),
    "squeeze": (lambda x: tf.squeeze(x[:, :1], [1]), [X]),
    "squeeze-two": (lambda x: tf.squeeze(x[:, :1, :1], [1, -1]), [X]),
    "expand_dims": (lambda x: tf.expand_dims(x, 1), [X]),
    "expand_dims-last": (lambda x: tf.expand_dims(x, -1), [X]),
    "transpose": (lambda x: tf.transpose(x, [0, 2, 1]), [X]),
    "transpose-all": (lambda x: tf.transpose(x), [X]),
    "broadcast_to": (lambda x: tf.broadcast_to(x[:, :1], [2, 3, 4]), [X]),
    "broadcast_to-batch": (lambda x: tf.broadcast_to(ROW, [tf.shape(x)[0], 1, 4]) + x, [X]),
    "broadcast_args": (lambda x: _broadcast(x[:, :1], [3, 4]), [X]),
    "broadcast_args-both": (lambda x: tf.broadcast_to(ROW, tf.broadcast_dynamic_shape(tf.shape(x), [4])) + x, [X]),
    "broadcast_args-of-two": (
        lambda x, y: tf.zeros(tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))) + x + y,
        [X, X[:1, 0]],
    ),
}

JOINS: dict[str, Case] = {
    "concat": (lambda x, y: tf.concat([x, y], 1), [X, X[:, :2]]),
    "concat-last": (lambda x, y: tf.concat([x, y, x], -1), [X, X]),
    "concat-first-version": (lambda x, y: raw.Concat(concat_dim=2, values=[x, y]), [X, X]),
    "stack": (lambda x, y: tf.stack([x, y]), [X, X]),
    "stack-last": (lambda x, y: tf.stack([x, y, np.ones_like(X)], -1), [X, X]),
    "stack-one": (lambda x: tf.stack([x], 1), [X]),
    "unstack": (lambda x: tf.unstack(x, 3, 1), [X]),
    "unstack-last": (lambda x: tf.unstack(x, 4, -1), [X]),
    "split": (lambda x: tf.split(x, 2, -1), [X]),
    "split-sizes": (lambda x: tf.split(x, [1, 3], 2), [X]),
    "split-rest": (lambda x: tf.split(x, [1, -1, 1], 2), [X]),
}

MORE: dict[str, Case] = {
    "tile": (lambda x: tf.tile(x, [1, 2, 3]), [X]),
    "tile-ones": (lambda x: tf.tile(x[:, :1], [1, 5, 1]), [X]),
    "tile-both": (lambda x: tf.tile(x[:, :1], [2, 5, 1]), [X]),
    "tile-none": (lambda x: tf.tile(x, [1, 0, 2]), [X]),
    "tile-batch": (lambda x: tf.tile(tf.constant(ROW)[None, None], tf.stack([tf.shape(x)[0], 3, 1])) + x, [X]),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3]]), [X]),
    "pad-value": (lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3]], constant_values=-7.5), [X]),
    "pad-int": (lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3]], constant_values=9), [X.astype(np.int32)]),
    "pad-bool": (lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3]]), [X > 3]),
    "pad-reflect": (lambda x: tf.pad(x, [[0, 0], [1, 2], [3, 0]], "REFLECT"), [X]),
    "pad-symmetric": (lambda x: tf.pad(x, [[0, 0], [3, 2], [1, 4]], "SYMMETRIC"), [X]),
    "pad-symmetric-one-side": (lambda x: tf.pad(x, [[0, 0], [0, 2], [1, 0]], "SYMMETRIC"), [X]),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), [IMAGE]),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), [IMAGE]),
    "fill": (lambda x: tf.fill([2, 3, 1], 1.5) + x, [X]),
    "fill-batch": (lambda x: tf.fill([tf.shape(x)[0], 3, 1], 1.5) + x, [X]),
    "fill-scalar": (lambda x: x * tf.fill([], 2.0), [X]),
}

CASES = SIZES | RESHAPES | JOINS | MORE


RUNTIME = {*SIZES, "broadcast_to-batch", "broadcast_args-both", "broadcast_args-of-two", "tile-batch", "fill-batch"} - {
    "rank"
}
"""What needs sizes at run time as soon as the batch is not known: it gives them to a value that does not have them, or out."""


@pytest.mark.parametrize("name", [n for n in CASES if n not in {*SIZES, "like-another"}])
def test_known_sizes(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    assert "shape" not in kinds(agrees(function, *arrays))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_unknown_batch(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    module = agrees(function, *arrays, signature=[tf.TensorSpec([None, *a.shape[1:]], a.dtype) for a in arrays])
    assert ("shape" in kinds(module)) == (name in RUNTIME)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n != "flatten"])
def test_unknown_sizes(name: str, agrees: Agrees) -> None:
    """Only the last axis is known; `flatten` asks Python for more."""
    function, arrays = CASES[name]
    signature = [tf.TensorSpec([None] * (a.ndim - 1) + [a.shape[-1]], a.dtype) for a in arrays]
    assert "opaque" not in kinds(agrees(function, *arrays, signature=signature))


@pytest.mark.parametrize("op_type", ["DepthToSpace", "SpaceToDepth"])
def test_channels_first_blocks(op_type: str, frozen: Callable[..., Any]) -> None:
    """TensorFlow runs these with channels last only: with channels first they are the same between transpositions."""
    graph = frozen(lambda x: getattr(raw, op_type)(input=x, block_size=2), IMAGE)
    model = tf.compat.v1.GraphDef.FromString(graph.path.read_bytes())
    x = IMAGE.transpose(0, 3, 1, 2)
    for node in model.node:
        if node.op == op_type:
            node.attr["data_format"].s = b"NCHW"
        if node.op == "Placeholder":
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(x.shape).as_proto())
            node.attr.pop("_output_shapes", None)
    graph.path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(run(graph.read(), {"x0": x})["y0"], graph.outputs["y0"].transpose(0, 3, 1, 2))
