"""Random networks of operations that fold: `--fuse-all` and its neighbours change no output beyond float32 rounding.

Tolerance, by forward error analysis. Every output is a sum of products of inputs and constants (relu and selection do not
enlarge errors), and `size` is the same sum with all terms positive. A float32 evaluation in any order with n roundings on the
way of each term is within `n * 2^-24 * size` of the exact value. A sum of t products counts t + 4 roundings (one for the product,
t for the sums, one for a weight that is rounded after folding, one for the bias, one spare), an elementwise operation 4. Folding
merges terms but adds none, so both sides obey the same bound, and differ by twice of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import module_text, print_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting.driver import keep_location
from amct_opt.runtime.executor import RunError, run
from amct_opt.runtime.kernels import kernel_for
from amct_opt.session.universe import new_session

Array = np.ndarray
Draw = Callable[[st.SearchStrategy[Any]], Any]
UNIT = 2.0**-24


class Case:
    """A module and an input for it. Its representation is the module's text, without which hypothesis prints every field."""

    def __init__(self, module: ModuleOp, x: Array):
        self.module = module
        self.x = x
        stream = StringIO()
        print_module(module, stream)
        self.text = stream.getvalue()

    def __repr__(self) -> str:
        return f"input {self.x.shape} for\n{self.text}"


@dataclass
class Network:
    """Builds a network whose every step is drawn. All values have their channels on the same side."""

    draw: Draw
    block: Block
    layout: str
    values: list[SSAValue] = field(default_factory=list)
    weights: list[SSAValue] = field(default_factory=list)

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def add(self, op: nn.NNOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, shape: Sequence[int], low: float = -2, high: float = 2) -> SSAValue:
        rng = np.random.default_rng(self.draw(st.integers(0, 2**16)))
        op = nn.ConstantOp.of(np.asarray(rng.uniform(low, high, shape), np.float32), "k")
        self.block.add_op(op)
        return op.result

    def weight(self, *shape: int) -> SSAValue:
        """A new constant, or one of that shape that another layer has."""
        shared = [w for w in self.weights if shape_of(w) == shape]
        if shared and self.pick(False, True):
            return self.pick(*shared)
        self.weights.append(self.constant(shape))
        return self.weights[-1]

    def axis(self, x: SSAValue) -> int:
        return len(shape_of(x)) - 1 if self.layout == "nhwc" or len(shape_of(x)) == 2 else 1

    def channels(self, x: SSAValue) -> int:
        return shape_of(x)[self.axis(x)]

    def per_channel(self, x: SSAValue, low: float = -2, high: float = 2) -> SSAValue:
        """A constant for the channels of x: a scalar, or one number per channel."""
        behind = (1,) * (len(shape_of(x)) - 1 - self.axis(x))
        full = (1,) * self.axis(x)
        c = self.channels(x)
        return self.constant(self.pick((), (1,), (c, *behind), (*full, c, *behind)), low, high)


def convolution(net: Network, x: SSAValue) -> SSAValue:
    rank = len(shape_of(x)) - 2
    c = net.channels(x)
    groups = net.pick(*[g for g in (1, 2, 3, 4) if c % g == 0])
    kernel, out = net.pick(1, 2, 3), groups * net.pick(1, 2)
    transposed = net.pick(False, False, True)
    kind = nn.ConvTransposeOp if transposed else nn.ConvOp
    shape = (c, out // groups) if transposed else (out, c // groups)
    weight = net.weight(*shape, *(kernel,) * rank)
    bias = net.pick(None, net.constant((out,)))
    pads = (net.pick(0, 0, kernel // 2),) * (2 * rank)
    strides = (net.pick(1, 1, 2),) * rank
    return net.add(kind.make(x, weight, bias, groups=groups, pads=pads, strides=strides, layout=net.layout))


def matmul(net: Network, x: SSAValue) -> SSAValue:
    if net.axis(x) != len(shape_of(x)) - 1:
        raise VerifyException("the channels are not the columns")
    k, n = net.channels(x), net.pick(1, 2, 3)
    transposed = net.pick(False, True)
    weight = net.weight(*((n, k) if transposed else (k, n)))
    return net.add(nn.MatMulOp.make(x, weight, net.pick(None, net.constant((n,))), transpose_b=transposed))


def batch_norm(net: Network, x: SSAValue) -> SSAValue:
    """Statistics that are hard on a fold: negative and zero scales, zero shifts, variances from tiny to large."""
    c = net.channels(x)
    rng = np.random.default_rng(net.draw(st.integers(0, 2**16)))
    scale = rng.uniform(-2, 2, c) * net.pick(1, 1, rng.integers(0, 2, c))
    mean, offset = rng.normal(size=(2, c)) * net.pick(1, 1, 0)
    variance = 10.0 ** rng.uniform(-6, 2, c)
    parameters = [nn.ConstantOp.of(a.astype(np.float32), "p") for a in (scale, offset, mean, variance)]
    net.block.add_ops(parameters)
    layout = net.layout if len(shape_of(x)) > 2 else net.pick("nchw", "nhwc")
    return net.add(nn.BatchNormOp.make(x, *(p.result for p in parameters), epsilon=1e-3, layout=layout))


def norm_before(net: Network, x: SSAValue) -> SSAValue:
    """After a relu, so that the norm can only go forward."""
    return convolution(net, batch_norm(net, relu(net, x)))


def small_batch_norm(net: Network, x: SSAValue) -> SSAValue:
    """As Keras leaves one."""
    behind = (1,) * (len(shape_of(x)) - 1 - net.axis(x))
    mean, scale, offset = (net.constant((net.channels(x), *behind)) for _ in range(3))
    variance, epsilon = net.constant((net.channels(x), *behind), 0.01, 4), net.constant((), 1e-3, 2e-3)
    r = net.add(nn.RsqrtOp.make(net.add(nn.AddOp.make(variance, epsilon))))
    r = net.add(nn.MulOp.make(r, scale))
    shift = net.add(nn.SubOp.make(offset, net.add(nn.MulOp.make(mean, r))))
    return net.add(nn.AddOp.make(net.add(nn.MulOp.make(x, r)), shift))


def bias_add(net: Network, x: SSAValue) -> SSAValue:
    return net.add(nn.BiasAddOp.make(x, net.constant((net.channels(x),)), layout=net.layout))


def arithmetic(net: Network, x: SSAValue) -> SSAValue:
    kind = net.pick(nn.MulOp, nn.DivOp, nn.AddOp, nn.SubOp)
    constant = net.per_channel(x, *net.pick((0.25, 2), (-2, -0.25)))
    swapped = kind in (nn.MulOp, nn.AddOp) and net.pick(False, True)
    return net.add(kind.make(constant, x) if swapped else kind.make(x, constant))


def other_constant(net: Network, x: SSAValue) -> SSAValue:
    """A constant that varies along some other axis, too."""
    return net.add(net.pick(nn.MulOp, nn.AddOp).make(x, net.constant(shape_of(x)[1:])))


def relu(net: Network, x: SSAValue) -> SSAValue:
    return net.add(nn.ReluOp.make(x))


def residual(net: Network, x: SSAValue) -> SSAValue:
    return net.add(nn.AddOp.make(x, net.pick(*[v for v in net.values if v.type == x.type])))


def batch_to_space(net: Network, x: SSAValue) -> SSAValue:
    spatial = len(shape_of(x)) - 2
    block = (2, *(1,) * (spatial - 1))
    crops = (net.pick(0, 1), *(0,) * (2 * spatial - 1))
    return net.add(nn.BatchToSpaceOp.make(x, block=block, crops=crops, layout=net.layout))


def through_image(net: Network, x: SSAValue) -> SSAValue:
    """Matrix product, reshape to an image, norm, reshape back."""
    if len(shape_of(x)) != 2:
        raise VerifyException("no matrix")
    y = matmul(net, x)
    n = shape_of(y)[1]
    image = net.add(nn.ReshapeOp.make(y, to=(-1, 1, 1, n) if net.layout == "nhwc" else (-1, n, 1, 1)))
    normed = batch_norm(net, image)
    return net.add(nn.ReshapeOp.make(normed, to=(-1, n)))


def branches(net: Network, x: SSAValue) -> SSAValue:
    """A grouped convolution as Split, convolutions and Concat."""
    axis, c, spatial = net.axis(x), net.channels(x), len(shape_of(x)) - 2
    count = net.pick(*[g for g in (2, 3, 4) if c % g == 0] or [1])
    if count == 1 or spatial < 1:
        raise VerifyException("nothing to split")
    split = nn.SplitOp.make(x, axis=axis, sizes=(c // count,) * count)
    net.block.add_op(split)
    outs, kernel = net.pick(1, 2), (net.pick(1, 2),) * spatial
    results: list[SSAValue] = []
    for part in split.parts:
        weight, bias = net.weight(outs, c // count, *kernel), net.pick(None, net.constant((outs,)))
        results.append(net.add(nn.ConvOp.make(part, weight, bias, layout=net.layout)))
        if net.pick(False, True):
            results[-1] = bias_add(net, results[-1])
    if net.pick(False, False, True):
        net.values.append(results[0])
    return net.add(nn.ConcatOp.make(results, axis=axis))


STEPS = (
    convolution, convolution, convolution, matmul, through_image, branches, batch_norm, batch_norm, batch_norm,
    norm_before, small_batch_norm, bias_add, arithmetic, arithmetic, other_constant, relu, residual,
    batch_to_space,
)  # fmt: skip
SHAPES = {
    "nchw": ((3, 4), (2, 4, 5), (4, 4, 5, 4), (2, 2, 3, 4, 3)),
    "nhwc": ((3, 4), (2, 5, 4), (4, 5, 4, 4), (2, 3, 4, 3, 2)),
}
MOST_ELEMENTS = 1024
"""Of one sample."""


@st.composite
def networks(draw: Draw) -> Case:
    """A module of up to ten steps with one to three outputs, in half of them of unknown batch size, and an input for it."""
    layout = draw(st.sampled_from(sorted(SHAPES)))
    shape = draw(st.sampled_from(SHAPES[layout]))
    batch = draw(st.sampled_from([shape[0], DYNAMIC]))
    block = Block(arg_types=[TensorType(f32, (batch, *shape[1:]))])
    net = Network(draw, block, layout, [block.args[0]])
    for _ in range(draw(st.integers(2, 10))):
        # mostly a chain; sometimes a value is used again
        value = net.values[-min(net.pick(1, 1, 1, 1, 2, 3), len(net.values))]
        step = net.pick(*STEPS)
        if prod(shape_of(value)[1:]) > MOST_ELEMENTS or 0 in shape_of(value):
            continue
        try:
            net.values.append(step(net, value))
        except VerifyException:
            continue  # a step that does not fit the sizes
    outputs = [net.values[-1]]
    if net.pick(False, False, True):
        outputs += [net.pick(*net.values), net.pick(*net.values)]
    block.add_op(ReturnOp(*outputs))
    module = ModuleOp([FuncOp("main", ([a.type for a in block.args], [v.type for v in outputs]), Region(block))])
    verify(module)
    x = np.random.default_rng(draw(st.integers(0, 2**16))).normal(size=shape).astype(np.float32)
    try:
        run(module, {"arg0": x})
    except RunError:
        reject()  # a batch that was not known turned out not to be divisible by a block, or two of them to differ
    return Case(module, x)


def error_bounds(module: ModuleOp, x: Array) -> list[Array]:
    """How far each output may be from its exact value, element by element."""
    sizes: dict[SSAValue, Array] = {main_function(module).body.block.args[0]: np.abs(x.astype(np.float64))}
    roundings: dict[SSAValue, int] = dict.fromkeys(sizes, 0)
    for op in main_function(module).body.block.ops:
        if isinstance(op, ReturnOp):
            return [roundings[v] * UNIT * sizes[v] for v in op.operands]
        size = _size(op, [sizes[v] for v in op.operands])
        count = max((roundings[v] for v in op.operands), default=0) + _roundings(op)
        several = zip(op.results, size if isinstance(size, list | tuple) else [size], strict=True)
        for result, each in several:
            sizes[result], roundings[result] = each, count
    raise AssertionError("no return")


def _size(op: Operation, operands: list[Array]) -> Any:
    """An operation with all its terms positive."""
    match op:
        case nn.ConstantOp():
            return np.abs(op.array.astype(np.float64))
        case nn.BatchNormOp():
            x, scale, offset, mean, variance = operands
            k = scale / np.sqrt(variance + op.epsilon.value.data)
            behind = (1,) * (x.ndim - 1 - op.channel_axis(x.ndim))
            return x * k.reshape(-1, *behind) + (offset + mean * k).reshape(-1, *behind)
        case nn.SubOp():
            return operands[0] + operands[1]
        case nn.ReluOp() | nn.NegOp():
            return operands[0]
        case _:
            return kernel_for(op)(*operands)  # type: ignore[misc]


def _roundings(op: Operation) -> int:
    match op:
        case nn.ConstantOp():
            return 0
        case nn.ConvOp():
            return prod(shape_of(op.weight)[1:]) + 4
        case nn.ConvTransposeOp():
            return prod(shape_of(op.weight)) // shape_of(op.weight)[1] + 4
        case nn.MatMulOp():
            return op.lhs_shape[-1] + 4
        case _:
            return 4


def check(case: Case, *passes: str) -> None:
    module, x = case.module, case.x
    before = list(run(module, {"arg0": x}).values())
    bounds = error_bounds(module, x)
    session = new_session()
    for name in passes:
        make_pass(name).apply(session, module)
        verify(module)
    after = list(run(module, {"arg0": x}).values())
    for a, b, bound in zip(after, before, bounds, strict=True):
        assert a.shape == b.shape
        assert (np.abs(a.astype(np.float64) - b) <= 2 * bound).all(), np.max(np.abs(a - b) / (bound + 1e-300))


@settings(max_examples=80)
@given(networks())
def test_fuse_all(case: Case) -> None:
    check(case, "fuse-all")


@settings(max_examples=50)
@given(
    networks(),
    st.permutations(["fold-constants", "fuse-small-bn", "fuse-bn", "fuse-mul", "fuse-bias", "merge-group-conv"]),
)
def test_in_any_order(case: Case, order: list[str]) -> None:
    """Each pass on its own, one after the other, and what is left of the norms as products and sums."""
    check(case, *order, "lower-bn")


class Rooted(RewritePattern):
    """A pattern that is asked about its roots only."""

    def __init__(self, pattern: Any):
        self.pattern = pattern

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, self.pattern.roots):
            self.pattern.match_and_rewrite(op, rewriter)


def rewrite_by_xdsl(module: ModuleOp, patterns: Sequence[RewritePattern], erase_dead: bool) -> bool:
    """What our driver must agree with."""
    applier = GreedyRewritePatternApplier([Rooted(p) for p in patterns], dce_enabled=erase_dead)
    listener = PatternRewriterListener(operation_replacement_handler=[keep_location])
    return PatternRewriteWalker(applier, listener=listener).rewrite_module(module)


@pytest.mark.slow
@settings(max_examples=50)
@given(networks())
def test_the_driver_agrees_with_the_walker_of_xdsl(case: Case) -> None:
    ours, theirs = case.module.clone(), case.module.clone()
    make_pass("fuse-all").apply(new_session(), ours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amct_opt.rewriting.apply_patterns", rewrite_by_xdsl)
        make_pass("fuse-all").apply(new_session(), theirs)
    assert module_text(ours) == module_text(theirs)
