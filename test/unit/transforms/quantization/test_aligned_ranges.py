"""A range may not clip a reader that it does not belong to: alignment and activations, on cases and on random networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from amct_opt import frontends
from amct_opt.data import load_samples
from amct_opt.dialects import nn
from amct_opt.engines import Runner
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.calibrate import calibrate_points

from .random_networks import Graph, random_network

Array = np.ndarray[Any, np.dtype[Any]]


def data() -> Array:
    return np.random.default_rng(7).standard_normal((4, 4, 8, 8)).astype(np.float32)


def observed(model: Path, profile: str, options: str = "", *, fuse: bool = True) -> ModuleOp:
    """The model with calibrated points, of minimum and maximum."""
    session = new_session()
    session.profile = profile
    module = frontends.read(model, session)
    run_passes(
        module,
        [*([make_pass("fuse-all")] if fuse else []), make_pass("insert-observers", f"observer=minmax {options}")],
        session,
    )
    file = model.with_suffix(".npz")
    np.savez(file, x=data())
    calibrate_points(module, lambda: load_samples(file, main_function(module)), session, Runner())
    return module


def with_clips(module: ModuleOp) -> ModuleOp:
    """A copy in which each point lets through what lies within its range, and rounds nothing."""
    copy = module.clone()
    for point in [o for o in copy.walk() if isinstance(o, nn.ObserveOp)]:
        assert point.range is not None
        low, high = (float(np.float32(limit)) for limit in point.range.data)
        Rewriter.replace_op(point, nn.ClipOp.make(point.input, min=low, max=high, location=point.location))
    return copy


def assert_nothing_clipped(module: ModuleOp) -> None:
    inputs = {"x": data()}
    for clipped, free in zip(run(with_clips(module), inputs).values(), run(module, inputs).values(), strict=True):
        np.testing.assert_allclose(clipped, free, rtol=1e-6, atol=1e-6 * float(np.abs(free).max()))


def add_of_concat(g: Graph) -> list[str]:
    """A large residual stream, and a concat of small values next to it."""
    large, a, b = g.conv("x", scale=10), g.conv("x", outputs=2, scale=0.1), g.conv("x", outputs=2, scale=0.1)
    return [g.conv(g.op("Add", large, g.op("Concat", a, b, axis=1)))]


def add_of_sliced_concat(g: Graph) -> list[str]:
    large, small = g.conv("x", scale=10), g.conv("x", scale=0.1)
    return [g.conv(g.op("Add", large, g.slice(g.op("Concat", small, small, axis=1), 1, 4)))]


def add_of_resize(g: Graph) -> list[str]:
    large, small = g.conv("x", scale=10), g.conv("x", scale=0.1)
    return [g.conv(g.op("Add", large, g.resize(small, 1, "linear")))]


def concat_and_relu(g: Graph) -> list[str]:
    """A skip connection of a U-Net: the relu belongs to the concat, the convolution reads what is before it."""
    skip = g.conv("x")
    return [g.conv(g.op("Relu", g.op("Concat", g.conv(skip), skip, axis=1)), inputs=8)]


def pooled_concat_and_relu(g: Graph) -> list[str]:
    skip = g.conv("x")
    pooled = g.op("MaxPool", skip, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return [g.op("Relu", g.op("Concat", pooled, "x", axis=1)), skip]


def resize_and_relu(g: Graph) -> list[str]:
    skip = g.conv("x")
    return [g.conv(g.op("Relu", g.resize(skip, 2, "linear"))), g.conv(skip)]


def interpolated_and_relu(g: Graph) -> list[str]:
    """No other reader, yet negative elements have a part in what lies between them and positive ones."""
    return [g.conv(g.op("Relu", g.resize(g.conv("x"), 2, "linear")))]


def resized_and_clipped_above_zero(g: Graph) -> list[str]:
    return [g.conv(g.clip(g.resize(g.conv("x", scale=0.1), 2, "nearest"), 3, 4))]


CASES = (
    add_of_concat,
    add_of_sliced_concat,
    add_of_resize,
    concat_and_relu,
    pooled_concat_and_relu,
    resize_and_relu,
    interpolated_and_relu,
    resized_and_clipped_above_zero,
)


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("options", ["", "align-resize=input align-pooling=input", "force-alignment-overlap=false"])
def test_nothing_is_clipped(build: Any, options: str, tmp_path: Path) -> None:
    g = Graph()
    model = g.save(tmp_path / "model.onnx", *build(g))
    assert_nothing_clipped(observed(model, "ppq", options))


OPTIONS = ("", "align-resize=input align-pooling=input", "align-concat=large", "force-alignment-overlap=false")


def check_network(seed: int, folder: Path) -> None:
    g, outputs = random_network(seed)
    model = g.save(folder / "model.onnx", *outputs)
    profile, options = ("qdq", "") if seed % 4 == 0 else ("ppq", OPTIONS[seed // 4 % len(OPTIONS)])
    module = observed(model, profile, options, fuse=seed % 2 == 0)
    assert_nothing_clipped(module)
    groups: dict[str, set[object]] = {}
    for point in module.walk():
        if isinstance(point, nn.ObserveOp) and point.group is not None:
            groups.setdefault(point.group.data, set()).add(point.qparams)
    assert all(len(parameters) == 1 for parameters in groups.values())


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_no_reader_sees_a_range_that_is_not_its_own(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 6):
        check_network(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_no_reader_of_many_networks(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        check_network(seed, tmp_path)


def _maker(value: SSAValue) -> Operation | Block:
    """What makes a value, seen from outside of fused regions and through max pools, which hand integers on."""
    fused = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if isinstance(value, BlockArgument) and isinstance(fused, nn.FusedOp):
        return _maker(fused.operands[value.index])
    owner = value.owner
    return _maker(owner.operands[0]) if isinstance(owner, nn.MaxPoolOp | nn.GlobalMaxPoolOp) else owner


@pytest.mark.parametrize("kind", ["MaxPool", "GlobalMaxPool", "Pad", "Slice", "AveragePool"])
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "apart"])
def test_behind_a_pool_and_an_activation_convolutions_are_quantized(
    kind: str, activation: str, fuse: bool, tmp_path: Path
) -> None:
    g = Graph()
    attributes = {"MaxPool": {"kernel_shape": [2, 2]}, "AveragePool": {"kernel_shape": [2, 2]}}
    first = g.conv("x")
    if kind == "Slice":
        moved = g.slice(first, 2, 4)
    elif kind == "Pad":
        moved = g.op("Pad", first, g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    else:
        moved = g.op(kind, first, **attributes.get(kind, {}))
    activated = g.op("Relu", moved) if activation == "Relu" else g.clip(moved, 0, 6)
    model = g.save(tmp_path / "model.onnx", g.conv(activated))
    for profile in ("qdq", "ppq"):
        module = observed(model, profile, fuse=fuse)
        assert_nothing_clipped(module)
        convolutions = [o for o in module.walk() if isinstance(o, nn.ConvOp)]
        assert [type(_maker(o.operands[0])) for o in convolutions] == [nn.ObserveOp] * 2
