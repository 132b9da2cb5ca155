"""Rotation: the same floats, less noise of outlier channels, and a reason for each network that cannot be rotated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.transforms.quantization.recover.rotate import can_rotate, hadamard
from amct_opt.universe import new_session

from ...targets.operations import const, module_of

Array = np.ndarray[Any, np.dtype[Any]]
WORDS, SIZE, HEADS = 20, 32, 4
OUTLIERS = np.ones(SIZE, np.float32)
OUTLIERS[[3, 17]] = 40
EXACT = -20 * np.log10(2.0**-24 * OUTLIERS.max() * np.sqrt(40))
"""dB of sums of 40 products in float32, each rounded in the last bit of the largest channel, which rotation spreads."""


def numbers(*shape: int, seed: int = 0) -> Array:
    array = np.random.default_rng([seed, *shape]).normal(size=shape) / np.sqrt(shape[0])
    return array.astype(np.float32)


def linear(x: Any, *shape: int, seed: int = 0, bias: Any = None, **options: Any) -> Any:
    return nn.MatMulOp.make(x, const(numbers(*shape, seed=seed)), bias, **options)


def norm(x: Any, inverse: bool = True) -> Any:
    """An RMS norm in its simple operations, with large channels in its scale."""
    mean = nn.ReduceMeanOp.make(nn.PowOp.make(x, const(np.float32(2))), axes=(-1,), keepdims=True)
    root = nn.SqrtOp.make(nn.AddOp.make(mean, const(np.float32(1e-5))))
    unit = nn.MulOp.make(x, nn.ReciprocalOp.make(root)) if inverse else nn.DivOp.make(x, root)
    return nn.MulOp.make(const(OUTLIERS), unit)


def attention(y: Any, cache: bool = False) -> Any:
    """The values of heads go through split, transpose and repetition (grouped queries: two heads share their values)."""
    rows = nn.TransposeOp.make(nn.ReshapeOp.make(linear(y, SIZE, SIZE, seed=5), to=(0, 0, HEADS, 8)), perm=(0, 2, 1, 3))
    values = nn.ReshapeOp.make(linear(y, SIZE, SIZE // 2, seed=6, bias=const(numbers(SIZE // 2))), to=(0, 0, 2, 8))
    values = nn.UnsqueezeOp.make(nn.TransposeOp.make(values, perm=(0, 2, 1, 3)), axes=(2,))
    shared = nn.ReshapeOp.make(nn.ExpandOp.make(values, to=(1, 2, 2, 1, 8)), to=(0, HEADS, -1, 8))
    scores = nn.SoftmaxOp.make(nn.MatMulOp.make(rows, rows, transpose_b=True))
    mixed = nn.TransposeOp.make(nn.MatMulOp.make(scores, shared), perm=(0, 2, 1, 3))
    written = linear(nn.ReshapeOp.make(mixed, to=(0, 0, SIZE)), SIZE, SIZE, seed=7)
    return (written, values) if cache else written


def decoder(ids: Any) -> Any:
    """An embedding, attention, a gated layer with weights both ways around and a bias, and a head."""
    x = nn.GatherOp.make(const(numbers(WORDS, SIZE) * 5), ids)
    x = nn.AddOp.make(x, attention(norm(x)))
    y = norm(x, inverse=False)
    hidden = nn.MulOp.make(
        nn.SigmoidOp.make(linear(y, SIZE, 40, seed=1)), linear(y, 40, SIZE, seed=2, transpose_b=True)
    )
    down = nn.MatMulOp.make(hidden, const(numbers(SIZE, 40, seed=3)), const(numbers(SIZE)), transpose_b=True)
    return linear(norm(nn.AddOp.make(down, x)), SIZE, WORDS, seed=4)


IDS = np.random.default_rng(3).integers(0, WORDS, (32, 10))


def rotated(module: Any, folder: Path, data: Array = IDS) -> Session:
    np.savez(folder / "data.npz", x0=data)
    session = new_session()
    session.profile = "qdq"
    make_pass("rotate", f"data={folder / 'data.npz'}").apply(session, module)
    verify(module)
    return session


def test_floats_are_the_same_and_outliers_cost_less(tmp_path: Path) -> None:
    """Within the rounding of float32 sums of 40 products; weights that others read as well keep their numbers."""
    module = module_of(decoder, [IDS])
    assert can_rotate(module, new_session())
    after = module.clone()
    session = rotated(after, tmp_path)
    applied = [r for r in session.remarks if r.kind == "applied"]
    assert applied, session.remarks
    assert applied[0].reason.startswith(
        "a stream of 32 channels, which 3 layers write and 5 read; on samples that did not"
    )
    given = {"x0": IDS}
    exact, found = run(module, given)["y0"], run(after, given)["y0"]
    assert sqnr(exact, found) > EXACT
    assert not any(
        np.array_equal(op.array.reshape(-1), OUTLIERS) for op in after.walk() if isinstance(op, nn.ConstantOp)
    )
    noise: list[float] = []
    for each in (module, after):
        copy, session = each.clone(), new_session()
        session.profile = "qdq"
        make_pass("quantize", f"data={tmp_path / 'data.npz'} equalize=false").apply(session, copy)
        noise.append(sqnr(exact, run(copy, given)["y0"]))
    assert noise[1] > noise[0] + 4, noise


def test_what_does_not_win_is_undone(tmp_path: Path) -> None:
    """Values that are even already: nothing changes but the remark."""
    x = np.random.default_rng(1).normal(size=(32, 10, SIZE)).astype(np.float32)
    module = module_of(attention, [x])
    after = module.clone()
    session = rotated(after, tmp_path, x)
    (remark,) = (r for r in session.remarks if r.pass_name == "rotate")
    assert (remark.kind, remark.rule) == ("missed", "outputs")
    assert str(after) == str(module)


def head(x: Any) -> Any:
    return linear(norm(x), SIZE, 4)


def embedded(ids: Any) -> Any:
    return nn.GatherOp.make(const(numbers(WORDS, SIZE)), ids)


def offset(x: Any) -> Any:
    return nn.AddOp.make(x, const(numbers(SIZE)))


def unknown_size(ids: Any) -> Any:
    x = nn.GatherOp.make(const(numbers(WORDS, 14)), ids)
    mean = nn.ReduceMeanOp.make(nn.MulOp.make(x, x), axes=(-1,), keepdims=True)
    return linear(nn.DivOp.make(x, nn.SqrtOp.make(mean)), 14, 4)


def read_by_tanh(ids: Any) -> Any:
    y = norm(embedded(ids))
    return linear(y, SIZE, 4), nn.TanhOp.make(y)


def half(ids: Any) -> Any:
    x = nn.GatherOp.make(const(numbers(WORDS, SIZE), np.float16), ids)
    mean = nn.ReduceMeanOp.make(nn.MulOp.make(x, x), axes=(-1,), keepdims=True)
    unit = nn.DivOp.make(x, nn.SqrtOp.make(mean))
    return nn.MatMulOp.make(unit, const(numbers(SIZE, 4), np.float16))


REFUSED: Mapping[str, tuple[Callable[[Any], Any], str, str]] = {
    "an output": (lambda i: (head(x := embedded(i)), x), "graph-output", "it is an output of the model"),
    "a reader": (
        lambda i: (head(x := embedded(i)), nn.TanhOp.make(x)),
        "reader",
        "reads it, which is not a linear layer",
    ),
    "a reader of the norm": (read_by_tanh, "reader", "'nn.tanh'"),
    "a writer": (lambda i: head(nn.TanhOp.make(embedded(i))), "writer", "'nn.tanh'"),
    "an offset": (lambda i: head(offset(embedded(i))), "stream", "adds something of another shape to it"),
    "a size": (unknown_size, "size", "no Hadamard matrix of 14 channels is known"),
    "a type": (half, "float32", "f16 would round what is rotated"),
    "a cache": (lambda i: attention(embedded(i), cache=True), "reader", "are read elsewhere as well"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_rotated(name: str, tmp_path: Path) -> None:
    build, rule, reason = REFUSED[name]
    module = module_of(build, [IDS])
    before = str(module)
    (remark,) = (r for r in rotated(module, tmp_path).remarks if r.pass_name == "rotate")
    assert (remark.kind, remark.rule) == ("missed", rule)
    assert reason in remark.reason
    assert str(module) == before


@pytest.mark.parametrize("size", [2, 12, 20, 24, 28, 32, 36, 128, 576, 896])
def test_matrices_are_orthogonal_and_of_equal_magnitudes(size: int) -> None:
    matrix = hadamard(size)
    assert matrix is not None
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(abs(matrix), size**-0.5, rtol=1e-12)


def test_sizes_without_a_known_matrix() -> None:
    assert [hadamard(size) for size in (3, 5, 6, 14, 50)] == [None] * 5
