"""Random small networks whose numbers are exact in float32, so that before and after must be equal to the last bit.

Inputs and constants are small integers, at most three convolutions sum at most 32 products each: every intermediate number is
an integer (a quarter after an average pooling) far below 2^24, so no order of summation rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import reject, strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, known, shape_of, static
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import RunError, run

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Network:
    """Builds a network step by step, each step drawn."""

    draw: Draw
    block: Block
    values: list[SSAValue] = field(default_factory=list)
    convolutions: int = 0

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        self.values.extend(op.results)
        return op.results[0]

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def constant(self, shape: Sequence[int], low: int = -1, high: int = 1) -> SSAValue:
        if not static(shape):
            raise VerifyException("a constant has no unknown sizes")
        rng = np.random.default_rng(self.draw(st.integers(0, 255)))
        op = nn.ConstantOp.of(rng.integers(low, high + 1, shape).astype(np.float32), "k")
        self.block.add_op(op)
        return op.result

    def perm(self, rank: int) -> list[int]:
        known = {4: [[0, 3, 1, 2], [0, 2, 3, 1], [0, 1, 3, 2]], 3: [[0, 2, 1], [1, 2, 0]], 2: [[1, 0], [0, 1]]}
        return self.pick(known[rank])


def convolution(net: Network, x: SSAValue) -> SSAValue | None:
    layout = net.pick(["nchw", "nhwc"])
    channels = shape_of(x)[1 if layout == "nchw" else 3] if len(shape_of(x)) == 4 else 0
    if not 1 <= channels <= 8 or net.convolutions == 3:
        return None
    net.convolutions += 1
    weight = net.constant((net.pick([2, 4]), channels, 2, 2))
    bias = net.pick([None, net.constant(shape_of(weight)[:1])])
    pads = net.pick([[0, 0, 0, 0], [1, 0, 1, 1]])
    return net.add(nn.ConvOp.make(x, weight, bias, pads=pads, strides=net.pick([(1, 1), (2, 1)]), layout=layout))


def dilated(net: Network, x: SSAValue) -> SSAValue | None:
    """space_to_batch, convolution, batch_to_space, with pads that fill up the blocks."""
    layout = net.pick(["nchw", "nhwc"])
    shape = shape_of(x)
    channels = shape[1 if layout == "nchw" else 3] if len(shape) == 4 else 0
    if not 1 <= channels <= 8 or net.convolutions == 3:
        return None
    net.convolutions += 1
    spatial = shape[2:] if layout == "nchw" else shape[1:3]
    if not static(spatial):
        return None
    begin = net.pick([1, 2])
    ends = [2 - (s + begin) % 2 for s in spatial]
    s = net.add(nn.SpaceToBatchOp.make(x, block=[2, 2], pads=[begin, begin, *ends], layout=layout))
    c = net.add(nn.ConvOp.make(s, net.constant((2, channels, 2, 2)), layout=layout))
    return net.add(nn.BatchToSpaceOp.make(c, block=[2, 2], crops=[net.pick([0, 1]), 0, 0, 1], layout=layout))


def pooling(net: Network, x: SSAValue) -> SSAValue | None:
    if len(shape_of(x)) != 4:
        return None
    kind, flags = net.pick(
        [
            (nn.MaxPoolOp, {}),
            (nn.MaxPoolOp, {"pads": [1, 0, 0, 1]}),
            (nn.AveragePoolOp, {"count_include_pad": True, "pads": [1, 0, 0, 1]}),
            (nn.AveragePoolOp, {}),
        ]
    )
    if kind is nn.AveragePoolOp and any(isinstance(op, nn.AveragePoolOp) for op in net.block.ops):
        return None
    return net.add(kind.make(x, kernel=[2, 2], layout=net.pick(["nchw", "nhwc"]), **flags))


def channels(net: Network, x: SSAValue) -> SSAValue | None:
    layout = net.pick(["nchw", "nhwc"])
    shape = shape_of(x)
    if len(shape) < 3:
        return None
    bias = net.constant([shape[1 if layout == "nchw" else -1]])
    return net.add(nn.BiasAddOp.make(x, bias, layout=layout))


def activation(net: Network, x: SSAValue) -> SSAValue:
    kind, properties = net.pick(
        [
            (nn.ReluOp, {}),
            (nn.Relu6Op, {}),
            (nn.ClipOp, {"min": 0.0, "max": 6.0}),
            (nn.ClipOp, {"min": -2.0}),
            (nn.NegOp, {}),
            (nn.AbsOp, {}),
        ]
    )
    return net.add(kind.make(x, **properties))


def pad(net: Network, x: SSAValue) -> SSAValue:
    """Of any axis, or of those that are space in one of the layouts."""
    n = len(shape_of(x))
    axes = net.pick([range(n), range(1, n - 1), range(2, n)])
    pads = [net.pick([0, 1, 1]) if i % n in axes else 0 for i in range(2 * n)]
    return net.add(nn.PadOp.make(x, pads=pads, value=net.pick([0.0, 0.0, float("-inf"), 1.0])))


def transpose(net: Network, x: SSAValue) -> SSAValue | None:
    rank = len(shape_of(x))
    return net.add(nn.TransposeOp.make(x, perm=net.perm(rank))) if 2 <= rank <= 4 else None


def arithmetic(net: Network, x: SSAValue) -> SSAValue:
    shape = shape_of(x)
    other = net.constant(
        [d if known(d) and net.draw(st.booleans()) else 1 for d in shape][net.pick([0, -1]) :],
        *net.pick([(1, 1), (-1, 1)]),
    )
    operands = net.pick([(x, other), (other, x)])
    return net.add(net.pick([nn.AddOp, nn.SubOp, nn.MulOp, nn.MaxOp]).make(*operands))


def join(net: Network, x: SSAValue) -> SSAValue:
    same = [v for v in net.values if v.type == x.type]
    other = net.pick(same)
    if net.draw(st.booleans()):
        return net.add(net.pick([nn.AddOp, nn.SubOp, nn.MinOp]).make(x, other))
    return net.add(nn.ConcatOp.make([x, other], axis=net.draw(st.integers(0, len(shape_of(x)) - 1))))


def cut(net: Network, x: SSAValue) -> SSAValue:
    shape = shape_of(x)
    axis = net.draw(st.integers(0, len(shape) - 1))
    if shape[axis] < 2 or net.draw(st.booleans()):
        return net.add(nn.SliceOp.make(x, starts=[0], ends=[net.pick([2**63 - 1, 2])], axes=[axis]))
    return net.add(nn.SplitOp.make(x, axis=axis, sizes=[1, shape[axis] - 1]))


def reshape(net: Network, x: SSAValue) -> SSAValue:
    shape = shape_of(x)
    kind = net.pick(["flatten", "unsqueeze", "squeeze", "reshape"])
    if kind == "flatten":
        return net.add(nn.FlattenOp.make(x, axis=net.draw(st.integers(0, len(shape)))))
    if kind == "unsqueeze" and len(shape) < 5:
        return net.add(nn.UnsqueezeOp.make(x, axes=[net.draw(st.integers(0, len(shape)))]))
    if kind == "squeeze":
        return net.add(nn.SqueezeOp.make(x, axes=[i for i, d in enumerate(shape) if d == 1][:1]))
    if not static(shape):
        rest = prod(filter(known, shape))
        return net.add(nn.ReshapeOp.make(x, to=net.pick([[-1, rest], [rest, -1], [0, -1, rest], [0, 1, -1]])))
    size = prod(shape)
    front = net.pick([d for d in (1, 2, 3, 4, 6) if size % d == 0])
    return net.add(nn.ReshapeOp.make(x, to=[front, -1] if net.draw(st.booleans()) else [1, size // front, front, 1]))


def reduce(net: Network, x: SSAValue) -> SSAValue | None:
    rank = len(shape_of(x))
    if rank < 3:
        return None
    axes = net.pick([[1, 2], [rank - 2, rank - 1]])
    return net.add(nn.ReduceMaxOp.make(x, axes=axes, keepdims=net.draw(st.booleans())))


def quantization(net: Network, x: SSAValue) -> SSAValue:
    from xdsl.dialects.builtin import i8

    shape = shape_of(x)
    axis = net.pick([i for i, d in enumerate(shape) if known(d)])
    scale = 2.0 ** (np.arange(shape[axis]) % 2)
    params = net.pick([nn.QParamsAttr.of(i8, 1.0), nn.QParamsAttr.of(i8, scale.astype(np.float32), axis=axis)])
    quantized = net.add(nn.QuantizeOp.make(x, qparams=params))
    net.values.pop()
    return net.add(nn.DequantizeOp.make(quantized, qparams=params, result_types=[x.type]))


def fused(net: Network, x: SSAValue) -> SSAValue | None:
    """A max pooling with an activation, and a constant that comes in, as one operation."""
    shape = shape_of(x)
    if len(shape) != 4:
        return None
    other = net.constant([shape[3]])
    inner = Block(arg_types=[x.type, other.type])
    pool = nn.MaxPoolOp.make(inner.args[0], kernel=[1, 1], layout=net.pick(["nchw", "nhwc"]))
    add = nn.AddOp.make(pool.result, inner.args[1])
    relu = nn.ReluOp.make(add.result)
    inner.add_ops([pool, add, relu, nn.YieldOp(relu.result)])
    return net.add(nn.FusedOp.of("PoolAddReLU", [x, other], Region(inner)))


STEPS = (
    convolution, convolution, dilated, pooling, channels, activation, activation, pad, transpose, transpose,
    arithmetic, join, cut, reshape, reduce, quantization, fused,
)  # fmt: skip


SHAPE = (2, 4, 5, 4)


@st.composite
def networks(draw: Draw) -> tuple[ModuleOp, np.ndarray]:
    """A module of up to twelve steps, in half of them of unknown batch size, and an input for it."""
    batch = draw(st.sampled_from([SHAPE[0], DYNAMIC]))
    block = Block(arg_types=[TensorType(f32, (batch, *SHAPE[1:]))])
    net = Network(draw, block)
    net.values.append(block.args[0])
    for _ in range(draw(st.integers(2, 12))):
        step = net.pick(STEPS)
        value = net.values[-min(net.pick([1, 1, 1, 2, 3]), len(net.values))]
        if not any(map(known, shape_of(value))) or not 0 < prod(filter(known, shape_of(value))) <= 4096:
            continue
        try:
            step(net, value)
        except VerifyException:
            continue  # a step that does not fit the sizes
    outputs = [net.values[-1], net.pick(net.values)]
    block.add_op(ReturnOp(*outputs))
    module = ModuleOp([FuncOp("main", ([a.type for a in block.args], [v.type for v in outputs]), Region(block))])
    verify(module)
    x = np.random.default_rng(draw(st.integers(0, 2**16))).integers(-4, 5, SHAPE).astype(np.float32)
    try:
        run(module, {"arg0": x})
    except RunError:
        reject()  # sizes that were not known turned out not to fit
    return module, x


@pytest.fixture(scope="session")
def random_networks() -> st.SearchStrategy[tuple[ModuleOp, np.ndarray]]:
    return networks()
