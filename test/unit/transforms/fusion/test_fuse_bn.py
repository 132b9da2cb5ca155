"""Folding batch norm changes no numbers: random graphs, before and after, in the interpreter.

Tolerance: a fold rounds each weight once (2^-24 relative) and reorders a float32 sum of `terms` products, whose error is
bounded by `terms * 2^-24` times the sum of the products' sizes; both sides make that error.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from amct_opt import run_pipeline
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass

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
    """Fuse, and compare; `size` bounds the sum of the absolute products after one output."""
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


Move = Callable[[SSAValue, np.random.Generator], nn.NNOp]


def drawn(rng: np.random.Generator, *choices: str) -> str:
    return str(rng.choice(choices))


def reshape(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    """The prime factors of the sizes, in order, grouped anew; sizes of 1 are strewn in."""
    factors = [f for size in shape_of(x) for f in prime_factors(size)]
    cuts = sorted(rng.choice(len(factors) + 1, size=int(rng.integers(0, 4))))
    groups = np.split(np.array(factors, np.int64), cuts)
    return nn.ReshapeOp.make(x, to=[int(np.prod(g)) for g in groups])


def prime_factors(size: int) -> list[int]:
    return [] if size == 1 else next([p, *prime_factors(size // p)] for p in range(2, size + 1) if size % p == 0)


def transpose(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.TransposeOp.make(x, perm=[int(i) for i in rng.permutation(len(shape_of(x)))])


def squeeze(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.SqueezeOp.make(x)


def unsqueeze(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.UnsqueezeOp.make(x, axes=[int(rng.integers(-1, len(shape_of(x)) + 1))])


def flatten(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.FlattenOp.make(x, axis=int(rng.integers(0, len(shape_of(x)) + 1)))


def batch_to_space(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    block = [int(b) for b in rng.choice([1, 2], size=max(len(shape_of(x)) - 2, 1))]
    crops = [int(rng.integers(0, 2)), *[0] * (2 * len(block) - 1)]
    return nn.BatchToSpaceOp.make(x, block=block, crops=crops, layout=drawn(rng, "nchw", "nhwc"))


def space_to_batch(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.SpaceToBatchOp.make(x, block=[2], pads=[0, 0], layout=drawn(rng, "nchw", "nhwc"))


def depth_to_space(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    return nn.DepthToSpaceOp.make(x, block=2, mode=drawn(rng, "dcr", "crd"), layout=drawn(rng, "nchw", "nhwc"))


def cut(x: SSAValue, rng: np.random.Generator) -> nn.NNOp:
    axis = int(rng.integers(0, len(shape_of(x))))
    return nn.SliceOp.make(x, axes=[axis], starts=[0], ends=[max(shape_of(x)[axis] - 1, 1)])


MOVES: tuple[Move, ...] = (
    reshape, reshape, reshape, transpose, transpose, squeeze, unsqueeze, flatten,
    batch_to_space, space_to_batch, depth_to_space, cut,
)  # fmt: skip
FORMS = ("norm", "mul", "add", "bias")


def moved(block: Block, value: SSAValue, moves: list[Move], seed: int) -> SSAValue:
    """A value after moves; those that do not fit its shape are left out. Equal seeds give equal moves."""
    for i, move in enumerate(moves):
        try:
            op = move(value, np.random.default_rng([seed, i]))
        except VerifyException:
            continue
        if 0 in shape_of(op.results[0]):
            op.drop_all_references()
            continue
        block.add_op(op)
        value = op.results[0]
    return value


def channels_behind(shape: tuple[int, ...], axis: int, moves: list[Move], seed: int) -> Array:
    """The output channel of each element after the moves, as the interpreter moves them."""
    block = Block(arg_types=[TensorType(f32, shape)])
    behind = (1,) * (len(shape) - 1 - axis)
    numbers = np.broadcast_to(np.arange(shape[axis], dtype=np.float32).reshape(-1, *behind), shape)
    end = nn.ReshapeOp.make(moved(block, block.args[0], moves, seed), to=[-1])
    block.add_op(end)
    result = next(iter(run(module_of(block, end.result), {"arg0": np.ascontiguousarray(numbers)}).values()))
    return result.reshape(shape_of(end.input))


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    compute=st.sampled_from(["matmul", "nchw", "nhwc"]),
    moves=st.lists(st.sampled_from(MOVES), max_size=3),
    form=st.sampled_from(FORMS),
)
def test_behind_moves(seed: int, compute: str, moves: list[Move], form: str) -> None:
    """A parameter is folded if and only if it is a function of the output channel, which is counted element by element."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([3, 4, 8]))
    others = [int(n) for n in rng.choice([1, 2, 3, 4], size=int(rng.integers(1, 3)) if compute == "matmul" else 3)]
    block = Block(arg_types=[TensorType(f32, (*others, 2) if compute != "nchw" else (others[0], 2, *others[1:]))])
    weight = rng.uniform(0.5, 1.5, size=(2, channels) if compute == "matmul" else (channels, 2, 1, 1))
    bias = constant(block, rng.normal(size=channels), "b") if rng.integers(2) else None
    x, w = block.args[0], constant(block, weight, "w")
    op = nn.MatMulOp.make(x, w, bias) if compute == "matmul" else nn.ConvOp.make(x, w, bias, layout=compute)
    block.add_op(op)
    product = shape_of(op.results[0])
    value = moved(block, op.results[0], moves, seed)
    shape = shape_of(value)
    if len(shape) < 2:
        reject()
    layout = drawn(rng, "nchw", "nhwc")
    axis = 1 if layout == "nchw" else len(shape) - 1
    numbers = rng.uniform(0.5, 1.5, size=(4, shape[axis])).astype(np.float32)
    behind = (1,) * (len(shape) - 1 - axis)
    match form:
        case "norm":
            last = nn.BatchNormOp.make(value, *(constant(block, n, "p") for n in numbers), layout=layout)
        case "bias":
            last = nn.BiasAddOp.make(value, constant(block, numbers[0], "p"), layout=layout)
        case _:
            kind = nn.MulOp if form == "mul" else nn.AddOp
            last = kind.make(value, constant(block, numbers[0].reshape(-1, *behind), "p"))
    block.add_op(last)
    module = module_of(block, last.results[0])

    axis_of_channels = 1 if compute == "nchw" else len(product) - 1
    of_element = channels_behind(product, axis_of_channels, moves, seed)
    along = np.broadcast_to(np.arange(shape[axis]).reshape(-1, *behind), shape)
    pairs = {(c, p) for c, p in zip(of_element.ravel(), along.ravel(), strict=True)}
    legal = len(pairs) == len({c for c, _ in pairs})

    data = rng.normal(size=shape_of(x)).astype(np.float32)
    (before,) = run(module, {"arg0": data}).values()
    session = new_session()
    run_pipeline(module, ["fuse-bn", "fuse-mul", "fuse-bias"], session)
    (after,) = run(module, {"arg0": data}).values()
    np.testing.assert_allclose(after, before, rtol=0, atol=2e-5)
    left = [each for each in module.walk() if each.name == last.name]
    missed = {r.rule for r in session.remarks if r.kind == "missed"}
    if not left:
        assert legal
    elif legal:
        assert missed == {"channels-followed"}
    else:
        assert missed & {"channels-followed", "normalizes-channels", "runs-along-channels"}
