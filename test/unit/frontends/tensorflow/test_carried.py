"""Forms of operators that `nn` has no equivalent of are carried, with the reason, and run as TensorFlow runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.support.diagnostics import CompileError

from ...frameworks import tf

X = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)
SMALL = X[:, :2, :3]
WHOLE = np.arange(24, dtype=np.int32).reshape(2, 12)

CASES: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray], str]] = {
    "tangent": (lambda x: tf.tan(x), [X], "input 0 is computed at run time"),
    "sums so far": (lambda x: tf.cumsum(x, 1), [X], "input 0 is computed at run time"),
    "remainder of floats": (lambda x, y: tf.math.floormod(x, y), [X, X + 1], "the remainder of floats is exact"),
    "mean of integers": (lambda x: tf.reduce_mean(x, 1), [WHOLE], "the mean of integers is rounded"),
    "indices of two axes": (lambda x: tf.gather_nd(x, [[0, 1], [1, 2]]), [X], "its indices are of several axes"),
    "crop to another": (
        lambda x, y: x[:, : tf.shape(y)[1], : tf.shape(y)[2]],
        [X, SMALL],
        "where it starts or ends is computed at run time",
    ),
    "half": (lambda x: x[:, : tf.shape(x)[1] // 2], [X], "where it starts or ends is computed at run time"),
    "resized like another": (
        lambda x, y: tf.image.resize(x, tf.shape(y)[1:3]),
        [X, SMALL],
        "its sizes are computed at run time",
    ),
    "unknown parts": (lambda x: tf.split(x, 2, 1), [X], "it splits an axis of unknown size"),
    "copies of what is not known": (
        lambda x, y: tf.tile(x, [1, tf.shape(y)[1], 1, 1]),
        [X, SMALL],
        "input 1 is computed at run time",
    ),
    "range to a size": (lambda x: tf.range(tf.shape(x)[1]), [X], "input 1 is computed at run time"),
    "padded by a size": (
        lambda x: tf.pad(x, [[0, 0], [0, tf.shape(x)[1]], [0, 0], [0, 0]]),
        [X],
        "input 1 is computed at run time",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_carried(name: str, frozen: Callable[..., Any]) -> None:
    function, arrays, reason = CASES[name]
    graph = frozen(function, *arrays, signature=[tf.TensorSpec([None] * a.ndim, a.dtype) for a in arrays])
    session = graph.session()
    module = frontends.read(graph.path, session)
    assert any(op.name == "nn.opaque" for op in module.walk())
    assert any(reason in remark.reason for remark in session.remarks)


def test_squeezed_where_sizes_are_not_known(frozen: Callable[..., Any]) -> None:
    """Not even the rank of the result is known: an error that says what helps."""
    graph = frozen(tf.squeeze, X[:1], signature=[tf.TensorSpec([None] * 4, tf.float32)])
    with pytest.raises(CompileError, match="not all sizes are known") as caught:
        graph.read()
    assert "--input-shape" in caught.value.hint
