"""Folding batch norm changes no numbers: random graphs, before and after, in the interpreter.

Tolerance: a fold rounds each weight once (2^-24 relative) and reorders a float32 sum of `terms` products, whose error is
bounded by `terms * 2^-24` times the sum of the products' sizes; both sides make that error.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt.dialects import nn
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass
from amct_opt.universe import new_session

Array = np.ndarray


@dataclass
class Norm:
    scale: Array
    offset: Array
    mean: Array
    variance: Array

    @staticmethod
    def random(rng: np.random.Generator, channels: int) -> "Norm":
        """Statistics that are hard on a fold: negative and zero scales, variances from tiny to large."""
        scale = rng.normal(size=channels)
        scale[0] = -abs(scale[0])
        if channels > 2:
            scale[1] = 0
        variance = 10.0 ** rng.uniform(-6, 2, channels)
        numbers = (scale, rng.normal(size=channels), rng.normal(size=channels), variance)
        return Norm(*(n.astype(np.float32) for n in numbers))

    def apply(self, x: SSAValue, block: Block, layout: str, epsilon: float) -> SSAValue:
        operands = [constant(block, getattr(self, n), n) for n in ("scale", "offset", "mean", "variance")]
        norm = nn.BatchNormOp.make(x, *operands, layout=layout, epsilon=epsilon)
        block.add_op(norm)
        return norm.result


def constant(block: Block, array: Array, key: str) -> SSAValue:
    op = nn.ConstantOp.of(array.astype(np.float32), key)
    block.add_op(op)
    return op.result


def module_of(block: Block, result: SSAValue) -> ModuleOp:
    block.add_op(ReturnOp(result))
    types = ([a.type for a in block.args], [result.type])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    verify(module)
    return module


def check(module: ModuleOp, x: Array, terms: int, size: float) -> None:
    """Fuse, and compare; `size` bounds the sum of the absolute products behind one output."""
    (before,) = run(module, {"arg0": x}).values()
    FuseBnPass().apply(new_session(), module)
    verify(module)
    assert not any(isinstance(op, nn.BatchNormOp) for op in module.walk())
    (after,) = run(module, {"arg0": x}).values()
    np.testing.assert_allclose(after, before, rtol=0, atol=2 * (terms + 8) * 2**-24 * size)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rank=st.integers(1, 3),
    groups=st.sampled_from([1, 2, 3]),
    per_group=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    layout=st.sampled_from(["nchw", "nhwc"]),
    bias=st.booleans(),
    transposed=st.booleans(),
    norms=st.integers(1, 2),
)
def test_convolutions(
    seed: int,
    rank: int,
    groups: int,
    per_group: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int,
    layout: str,
    bias: bool,
    transposed: bool,
    norms: int,
) -> None:
    rng = np.random.default_rng(seed)
    cin, cout = per_group[0] * groups, per_group[1] * groups
    spatial = (4,) * rank
    shape = (2, *spatial, cin) if layout == "nhwc" else (2, cin, *spatial)
    block = Block(arg_types=[TensorType(f32, shape)])
    kernels = (kernel,) * rank
    weight = rng.normal(size=(cin, cout // groups, *kernels) if transposed else (cout, cin // groups, *kernels))
    biases = constant(block, rng.normal(size=cout), "conv.bias") if bias else None
    op = (nn.ConvTransposeOp if transposed else nn.ConvOp).make(
        block.args[0],
        constant(block, weight, "conv.weight"),
        biases,
        strides=(stride,) * rank,
        pads=(min(pad, kernel // 2),) * (2 * rank),
        groups=groups,
        layout=layout,
    )
    block.add_op(op)
    value, gain = op.result, 1.0
    for _ in range(norms):
        norm = Norm.random(rng, cout)
        value = norm.apply(value, block, layout, 1e-3)
        gain = gain * float(np.max(np.abs(norm.scale) / np.sqrt(norm.variance + 1e-3))) + float(
            np.abs(norm.offset).max()
        )
        gain += float(np.max(np.abs(norm.mean * norm.scale) / np.sqrt(norm.variance + 1e-3)))
    x = rng.normal(size=shape).astype(np.float32)
    terms = (cin // groups) * kernel**rank
    check(module_of(block, value), x, terms, gain * (terms * float(np.abs(x).max() * np.abs(weight).max()) + 4))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9)),
    bias=st.booleans(),
    transposed=st.booleans(),
    rank=st.integers(2, 3),
)
def test_matmul(seed: int, sizes: tuple[int, int, int], bias: bool, transposed: bool, rank: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    shape = (m, k) if rank == 2 else (2, m, k)
    block = Block(arg_types=[TensorType(f32, shape)])
    weight = rng.normal(size=(n, k) if transposed else (k, n))
    biases = constant(block, rng.normal(size=n), "fc.bias") if bias else None
    op = nn.MatMulOp.make(block.args[0], constant(block, weight, "fc.weight"), biases, transpose_b=transposed)
    block.add_op(op)
    norm = Norm.random(rng, n)
    value = norm.apply(op.result, block, "nhwc", 1e-3)
    gain = float(np.max((np.abs(norm.scale) * (1 + np.abs(norm.mean))) / np.sqrt(norm.variance + 1e-3)))
    x = rng.normal(size=shape).astype(np.float32)
    size = gain * (k * float(np.abs(x).max() * np.abs(weight).max()) + 4) + float(np.abs(norm.offset).max())
    check(module_of(block, value), x, k, size)


@pytest.mark.parametrize("transposed", [False, True])
def test_shared_weight_is_copied(transposed: bool) -> None:
    """Two convolutions share a weight, one has a norm: the other must not change."""
    rng = np.random.default_rng(0)
    block = Block(arg_types=[TensorType(f32, (1, 2, 4, 4))])
    weight = constant(block, rng.normal(size=(2, 2, 1, 1)), "weight")
    kind = nn.ConvTransposeOp if transposed else nn.ConvOp
    plain, normed = (kind.make(block.args[0], weight) for _ in range(2))
    block.add_ops([plain, normed])
    value = Norm.random(rng, 2).apply(normed.result, block, "nchw", 1e-3)
    total = nn.AddOp.make(plain.result, value)
    block.add_op(total)
    check(module_of(block, total.result), rng.normal(size=(1, 2, 4, 4)).astype(np.float32), 2, 200.0)
