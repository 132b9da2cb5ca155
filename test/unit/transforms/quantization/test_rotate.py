"""Rotation: the same floats, less noise of outlier channels, and a reason for each network that cannot be rotated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import Remarks
from amct_opt.rewriting.driver import apply_once
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.recover.equalize.scaling import undo
from amct_opt.transforms.quantization.recover.rotate import RotatePass, RotateStream, hadamard, matched

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


def norm(x: Any, factor: Callable[[Any], Any] | None = lambda y: nn.ReciprocalOp.make(nn.SqrtOp.make(y))) -> Any:
    """An RMS norm in its simple operations, with large channels in its scale; without a factor it divides."""
    mean = nn.ReduceMeanOp.make(nn.PowOp.make(x, const(np.float32(2))), axes=(-1,), keepdims=True)
    total = nn.AddOp.make(mean, const(np.float32(1e-5)))
    unit = nn.MulOp.make(x, factor(total)) if factor else nn.DivOp.make(x, nn.SqrtOp.make(total))
    return nn.MulOp.make(const(OUTLIERS), unit)


def over_root(y: Any) -> Any:
    """As PyTorch writes rsqrt for ONNX."""
    return nn.DivOp.make(const(np.float32(1)), nn.SqrtOp.make(y))


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
    x = nn.AddOp.make(x, attention(norm(x, over_root)))
    y = norm(x, None)
    hidden = nn.MulOp.make(
        nn.SigmoidOp.make(linear(y, SIZE, 40, seed=1)), linear(y, 40, SIZE, seed=2, transpose_b=True)
    )
    down = nn.MatMulOp.make(hidden, const(numbers(SIZE, 40, seed=3)), const(numbers(SIZE)), transpose_b=True)
    return linear(norm(nn.AddOp.make(down, x), nn.RsqrtOp.make), SIZE, WORDS, seed=4)


IDS = np.random.default_rng(3).integers(0, WORDS, (32, 10))


def rotated(module: Any, folder: Path, data: Array = IDS, profile: str = "qdq") -> Session:
    np.savez(folder / "data.npz", x0=data)
    session = new_session()
    session.profile = profile
    make_pass("rotate", f"data={folder / 'data.npz'}").apply(session, module)
    verify(module)
    return session


@pytest.mark.parametrize(("profile", "regions"), [("ascend", 2), ("qdq", 0)])
def test_floats_are_the_same_and_outliers_cost_less(
    profile: str, regions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within the rounding of float32 sums of 40 products; weights that others read as well keep their numbers. Where the target
    adds inside of layers, these are in regions.
    """
    module, session = module_of(decoder, [IDS]), new_session()
    session.profile = profile
    make_pass("fuse-all").apply(session, module)
    assert sum(isinstance(op, nn.FusedOp) for op in module.walk()) == regions
    assert RotatePass.applies(module, new_session())
    after = module.clone()
    session = rotated(after, tmp_path, profile=profile)
    applied = [r for r in session.remarks if r.kind == "applied"]
    assert applied, session.remarks
    assert "equalization does not run by itself" in capsys.readouterr().err
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
        session.profile = profile
        make_pass("quantize", f"data={tmp_path / 'data.npz'} equalize=false").apply(session, copy)
        noise.append(sqnr(exact, run(copy, given)["y0"]))
    assert noise[1] > noise[0] + 4, noise


SHARED = """
func.func @main(%x0: tensor<2xi64>, %x1: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %t = nn.constant dense<[[0.3, -0.8], [0.1, -0.2], [-0.9, 0.4]]> : tensor<3x2xf32>
  %w = nn.constant dense<[[1.0, 30.0], [3.0, 0.1]]> : tensor<2x2xf32>
  %x = nn.gather %t, %x0 : (tensor<3x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  %s = nn.mul %x, %x : tensor<2x2xf32>
  %m = nn.reduce_mean %s axes [-1] keepdims : (tensor<2x2xf32>) -> tensor<2x1xf32>
  %n = nn.div %x, %m from <onnx, "Div", "norm"> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %r = nn.fused "LinearsAdd" (%a = %n, %b = %w, %c = %x1)
      : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> {
    %d = nn.matmul %a, %b : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %e = nn.matmul %c, %b : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %f = nn.add %d, %e : tensor<2x2xf32>
    nn.yield %f : tensor<2x2xf32>
  }
  %z = nn.add %x, %r : tensor<2x2xf32>
  %y = nn.matmul %z, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
"""


def test_layers_of_a_region_share_a_weight() -> None:
    """One reads and writes the stream, the other one only writes it: the region gets a constant for each."""
    module = parse_module(new_session(), SHARED)
    after = module.clone()
    pattern = RotateStream(Remarks(new_session(), "rotate"), after, set())
    apply_once(after, [pattern])
    (found,) = pattern.found
    changes = pattern.rotate(found)
    verify(after)
    given = {"x0": np.array([2, 1]), "x1": numbers(2, 2)}
    exact = run(module, given)["result0"]
    assert sqnr(exact, run(after, given)["result0"]) > EXACT
    undo(changes)
    np.testing.assert_array_equal(run(after, given)["result0"], exact)


class RotateTables(RotateStream):
    """streams that begin with a table"""

    name: ClassVar[str] = "tables"


def test_patterns_of_a_plugin_are_first() -> None:
    """What they match is not rotated once more."""
    session = new_session()
    session.register_pattern("rotate", RotateTables)
    (pattern,) = matched(module_of(lambda ids: head(embedded(ids)), [IDS]), Remarks(session, "rotate"))
    assert type(pattern) is RotateTables
    assert len(pattern.found) == 1


def test_what_asks_for_a_shape_reads_nothing() -> None:
    module = module_of(lambda ids: (head(x := embedded(ids)), nn.ShapeOp.make(x)), [IDS])
    assert RotatePass.applies(module, new_session())


def test_what_does_not_win_is_undone(tmp_path: Path) -> None:
    """Values that are even already: nothing changes but the remark."""
    x = np.random.default_rng(1).normal(size=(32, 10, SIZE)).astype(np.float32)
    module = module_of(attention, [x])
    after = module.clone()
    session = rotated(after, tmp_path, x)
    (remark,) = (r for r in session.remarks if r.pass_name == "rotate")
    assert (remark.kind, remark.rule) == ("missed", "outputs")
    assert str(after) == str(module)


def test_a_network_without_anything_to_rotate_is_warned_of(tmp_path: Path) -> None:
    session = rotated(module_of(lambda ids: nn.TanhOp.make(embedded(ids)), [IDS]), tmp_path)
    why = "the network has neither RMS norms nor heads of attention"
    assert f"--rotate: nothing is rotated; {why}" in session.warnings


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
    session = rotated(module, tmp_path)
    (remark,) = (r for r in session.remarks if r.pass_name == "rotate")
    assert (remark.kind, remark.rule) == ("missed", rule)
    assert reason in remark.reason
    assert f"--rotate: nothing is rotated; '{remark.layer}' because {remark.reason}" in session.warnings
    assert str(module) == before


@pytest.mark.parametrize("size", [2, 12, 20, 24, 28, 32, 36, 128, 576, 896])
def test_matrices_are_orthogonal_and_of_equal_magnitudes(size: int) -> None:
    matrix = hadamard(size)
    assert matrix is not None
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(abs(matrix), size**-0.5, rtol=1e-12)


def test_sizes_without_a_known_matrix() -> None:
    assert [hadamard(size) for size in (3, 5, 6, 14, 50)] == [None] * 5
