"""Slices and lookups against TensorFlow: every mask, negative strides, bounds from shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from ...frameworks import later, tf

Agrees = Callable[..., Any]
raw = later("tensorflow.raw_ops")

X = np.arange(3 * 4 * 5 * 6, dtype=np.float32).reshape(3, 4, 5, 6)
MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")

Spec = dict[str, Any]


def specs(seed: int) -> Iterator[Spec]:
    """Random slices that TensorFlow takes."""
    rng = np.random.default_rng(seed)
    while True:
        n = int(rng.integers(1, 7))
        spec: Spec = {name: int(rng.integers(0, 1 << n)) for name in MASKS}
        spec["ellipsis_mask"] = int(rng.choice([0, 1 << int(rng.integers(0, n))]))
        spec["new_axis_mask"] &= int(rng.integers(0, 1 << n))
        spec |= {k: rng.integers(-7, 8, n).tolist() for k in ("begin", "end")}
        spec["strides"] = rng.choice([1, 1, 1, 2, -1, -2], n).tolist()
        try:
            raw.StridedSlice(input=X, **spec)
        except (tf.errors.InvalidArgumentError, ValueError):
            continue
        yield spec


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("seed", range(3))
def test_strided_slices(seed: int, sizes: str, agrees: Agrees) -> None:
    """Forty in one graph: each stands in the text of a failure as the attributes of y0, y1, ..."""
    signature = [tf.TensorSpec([None] * 4, tf.float32)] if sizes == "unknown" else None
    chosen = list(islice(specs(seed), 40))
    agrees(lambda x: [raw.StridedSlice(input=x, **s) for s in chosen], X, signature=signature)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_more_strided_slices(seed: int, agrees: Agrees) -> None:
    chosen = list(islice(specs(seed), 40))
    agrees(lambda x: [raw.StridedSlice(input=x, **s) for s in chosen], X)


TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)
PLACES = np.array([[0, 3], [4, 1]], np.int32)
EACH = np.array([[0, 3], [2, 1], [1, 1]], np.int32)

CASES: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray]]] = {
    "first": (lambda x: x[0], [X]),
    "last": (lambda x: x[..., -1], [X]),
    "backwards": (lambda x: x[:, ::-1], [X]),
    "channels": (lambda x: x[..., 1:3], [X]),
    "new axes": (lambda x: x[:, tf.newaxis, ..., tf.newaxis], [X]),
    "all but one": (lambda x: x[:, :-1, 1:], [X]),
    "up to its own size": (lambda x: x[: tf.shape(x)[0], :, 1 : tf.shape(x)[2]], [X]),
    "crop": (lambda x: x[:, 1 : tf.shape(x)[1] - 1, : tf.shape(x)[2] - 2], [X]),
    "last three": (lambda x: x[:, tf.shape(x)[1] - 3 :, tf.shape(x)[2] - 1], [X]),
    "backwards from its own size": (lambda x: x[tf.shape(x)[0] :: -1], [X]),
    "slice crop": (lambda x: tf.slice(x, [0, 1, 2, 0], [-1, tf.shape(x)[1] - 2, tf.shape(x)[2] - 2, 6]), [X]),
    "slice of the last": (lambda x: tf.slice(x, [0, tf.shape(x)[1] - 3, 0, 0], [-1, 2, -1, -1]), [X]),
    "size times value": (lambda x: x * tf.cast(tf.shape(x)[1], tf.float32), [X]),
    "sizes times values": (lambda x: x[0, 0, 0, :2] * tf.cast(tf.shape(x)[1:3], tf.float32), [X]),
    "slice": (lambda x: tf.slice(x, [0, 1, 2, 0], [3, 2, -1, 6]), [X]),
    "slice to the end": (lambda x: tf.slice(x, [1, 0, 0, 2], [-1, -1, -1, -1]), [X]),
    "slice of its own size": (lambda x: tf.slice(x, [0, 0, 0, 1], [tf.shape(x)[0], -1, 2, 3]), [X]),
    "reverse": (lambda x: tf.reverse(x, [1, -1]), [X]),
    "reverse none": (lambda x: tf.nn.relu(tf.reverse(x, tf.constant([], tf.int32))), [X]),
    "reverse, first version": (lambda x: raw.Reverse(tensor=x, dims=[False, True, False, True]), [X]),
    "gather": (lambda x: tf.gather(x, [2, 0, 2]), [X]),
    "gather one": (lambda x: tf.gather(x, 1, axis=-1), [X]),
    "gather axis": (lambda x: tf.gather(x, PLACES, axis=2), [X]),
    "gather, first version": (lambda x, i: raw.Gather(params=x, indices=i), [TABLE, PLACES]),
    "embedding": (lambda i: tf.nn.embedding_lookup(TABLE, i), [PLACES]),
    "gather each batch": (lambda x, i: tf.gather(x, i, batch_dims=1), [X, EACH]),
    "gather each batch after": (lambda x, i: tf.gather(x, i, axis=-1, batch_dims=-1), [X, EACH]),
    "gather_nd": (lambda x: tf.gather_nd(x, [[2], [0]]), [X]),
    "one_hot": (lambda i: tf.one_hot(i, 4), [np.array([[0, 3], [4, -1]], np.int32)]),
    "one_hot-axis": (lambda i: tf.one_hot(i, 4, on_value=5, off_value=-1, axis=0), [PLACES]),
    "one_hot-middle": (lambda i: tf.one_hot(i, 5, axis=1), [PLACES.astype(np.int64)]),
}


@pytest.mark.parametrize("name", CASES)
def test_indexing(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    agrees(function, *arrays)


@pytest.mark.parametrize("name", CASES)
def test_unknown_sizes(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    module = agrees(function, *arrays, signature=[tf.TensorSpec([None] * a.ndim, a.dtype) for a in arrays])
    assert not [op for op in module.walk() if op.name == "nn.opaque"]


def test_resource_gather(agrees: Agrees) -> None:
    agrees(lambda i, table: tf.gather(table, i), PLACES, variables=[TABLE])
