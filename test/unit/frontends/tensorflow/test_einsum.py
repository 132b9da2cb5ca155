"""Einsum against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ...frameworks import tf
from .conftest import kinds

Agrees = Callable[..., ModuleOp]

SIZES = dict(zip("abcdefgh", (2, 3, 4, 5, 6, 2, 3, 4), strict=True))
_PAIRS: dict[str | None, str] = {
    "matmul": "ab,bc->ac ab,cb->ac ba,bc->ac abc,cd->abd abc,acd->abd abc,adc->abd ...b,bc->...c ...ab,...bc->...ac",
    "matmul transpose": "ba,cb->ca",
    "matmul reshape": "abc,cde->abde",
    "reshape matmul": "abcd,cde->abe abcd,ecd->abe",
    None: (
        "aecd,abcd->acbe acbe,aecd->abcd abcd,aed->abce abcd,ade->abce abc,acde->abde ab,ab->a ab,b->a "
        "b,bc->c a,a-> ab,cd-> abc,bd->d cde,abc->abde ...ab,b->...a b...,bc->c... ab...,bc...->ac..."
    ),
    "reshape mul": "a,b->ab",
    "mul": "ab,ab->ab",
    "transpose mul": "abc,ca->bca",
}
"""Equations by the operations that they become, in any order; None is not said."""
PAIRS = {equation: become for become, equations in _PAIRS.items() for equation in equations.split()}
"""The second operand of two letters may be a weight."""
SINGLE = {
    "ab->ba": "transpose",
    "abc->b": "reduce_sum",
    "abc->cb": "reduce_sum transpose",
    "a...->...a": "transpose",
    "abc->": None,
}


def array(labels: str) -> np.ndarray:
    """With the sizes that the letters stand for; an ellipsis is two axes."""
    sizes = [SIZES[c] for c in labels.replace("...", "gh")]
    return np.random.default_rng(sizes).normal(size=sizes).astype(np.float32)


def written(equation: str) -> Callable[..., Any]:
    return lambda *operands: tf.raw_ops.Einsum(inputs=operands, equation=equation)


@pytest.mark.parametrize("equation", SINGLE)
def test_one_operand(agrees: Agrees, equation: str) -> None:
    x = array(equation.partition("->")[0])
    module = agrees(written(equation), x, atol=1e-5)
    assert kinds(module) == (SINGLE[equation] or " ".join(kinds(module))).split()
    agrees(written(equation), x, signature=[tf.TensorSpec([None] * x.ndim)], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("equation", PAIRS)
def test_two_operands(agrees: Agrees, equation: str) -> None:
    """Both are inputs, or one is a weight."""
    left, right = (array(labels) for labels in equation.partition("->")[0].split(","))
    agrees(written(equation), left, right, atol=1e-5)
    agrees(lambda y, x: written(equation)(x, y), right, variables=[left], atol=1e-5)
    module = agrees(written(equation), left, variables=[right], atol=1e-5)
    if become := PAIRS[equation]:
        assert sorted(kinds(module)) == sorted(become.split())


@pytest.mark.parametrize("equation", PAIRS)
def test_unknown_batch(agrees: Agrees, equation: str) -> None:
    left, right = (array(labels) for labels in equation.partition("->")[0].split(","))
    signature = [tf.TensorSpec([None, *left.shape[1:]])]
    agrees(written(equation), left, variables=[right], signature=signature, atol=1e-5)


ATTENTION = ["aecd,abcd->acbe", "acbe,aecd->abcd", "abc,cde->abde", "abcd,cde->abe"]


@pytest.mark.parametrize("equation", ATTENTION)
def test_attention_of_unknown_batch_and_length(agrees: Agrees, equation: str) -> None:
    left, right = (array(labels) for labels in equation.partition("->")[0].split(","))
    specs = [tf.TensorSpec([None, None, *left.shape[2:]])]
    if "a" in equation.partition(",")[2].partition("->")[0]:
        other = tf.TensorSpec([None, None, *right.shape[2:]])
        agrees(written(equation), left, right, signature=[*specs, other], atol=1e-5)
    else:
        agrees(written(equation), left, variables=[right], signature=specs, atol=1e-5)


def test_an_ellipsis_broadcasts(agrees: Agrees) -> None:
    x, y = (np.random.default_rng(s).normal(size=s).astype(np.float32) for s in ((3, 1, 2, 4), (5, 4, 3)))
    agrees(written("...ab,...bc->...ac"), x, y, atol=1e-5)
    agrees(written("...ab,...bc->a...c"), y.swapaxes(1, 2), x.swapaxes(2, 3), atol=1e-5)


@pytest.mark.parametrize("equation", ["aa->a", "aab,ab->b"])
def test_diagonals_are_carried(frozen: Callable[..., Any], equation: str) -> None:
    graph = frozen(written(equation), *(array(labels) for labels in equation.partition("->")[0].split(",")))
    assert kinds(graph.read()) == ["opaque"]
