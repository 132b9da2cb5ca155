"""Batch norm in small operations becomes one operation with the same numbers, whoever wrote it and however.

Tolerance: the small operations round to float32 seven times before the last sum (reshape and cast do not), the batch norm
twice; every rounding is at most 2^-24 of the terms, which are bounded by the sizes of the factor and the shift.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import element_of, shape_of
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session

Array = np.ndarray
CHANNELS = 3
EPSILON = 1e-3


class Graph:
    """A block that grows; parameters are drawn from a seed, with negative scales and tiny variances."""

    def __init__(self, shape: tuple[int, ...], element: Any = f32):
        self.block = Block(arg_types=[TensorType(element, shape)])
        self.x: SSAValue = self.block.args[0]
        self.swap = False
        rng = np.random.default_rng(0)
        numbers = {
            "scale": rng.normal(size=CHANNELS) - 1,
            "offset": rng.normal(size=CHANNELS),
            "mean": rng.normal(size=CHANNELS),
            "variance": np.array([1e-4, 1.0, 30.0]),
            "epsilon": np.array(EPSILON),
        }
        self.numbers = {name: array.astype(np.float32) for name, array in numbers.items()}

    def add(self, op: nn.NNOp | nn.ConstantOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def both(self, kind: type[nn.NNOp], a: SSAValue, b: SSAValue) -> SSAValue:
        """A sum or product, in one order or the other."""
        return self.add(kind.make(b, a) if self.swap else kind.make(a, b))

    def finish(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        module = ModuleOp([FuncOp("main", ([a.type for a in self.block.args], [result.type]), Region(self.block))])
        verify(module)
        return module

    def expected(self, x: Array, channel: int, center: bool, scale: bool) -> Array:
        p = {k: v.astype(np.float64) for k, v in self.numbers.items()}
        shape = [1] * x.ndim
        shape[channel] = CHANNELS
        k = (p["scale"] if scale else 1) / np.sqrt(p["variance"] + p["epsilon"])
        shift = (p["offset"] if center else 0) - p["mean"] * k
        return x.astype(np.float64) * k.reshape(shape) + shift.reshape(shape)


Parameter = Callable[[str], SSAValue]


def plain(g: Graph) -> Parameter:
    """Constants `[C]`, for channels that are last."""
    return lambda name: g.add(nn.ConstantOp.of(g.numbers[name], name))


def shaped(g: Graph) -> Parameter:
    """Constants `[1, C, 1, ...]`."""
    shape = (1, CHANNELS, *[1] * (len(shape_of(g.x)) - 2))

    def make(name: str) -> SSAValue:
        array = g.numbers[name]
        return g.add(nn.ConstantOp.of(array.reshape(shape) if array.ndim else array, name))

    return make


def reshaped(g: Graph) -> Parameter:
    """Constants `[C]` after a reshape, as Keras writes channels first."""
    shape = (1, CHANNELS, *[1] * (len(shape_of(g.x)) - 2))

    def make(name: str) -> SSAValue:
        value = g.add(nn.ConstantOp.of(g.numbers[name], name))
        if not g.numbers[name].ndim:
            return value
        target = g.add(nn.ConstantOp.of(np.array(shape), "shape"))
        return g.add(nn.ReshapeOp.make(value, target, result_types=[TensorType(f32, shape)]))

    return make


FORMS: dict[str, tuple[Callable[[Graph], Parameter], int]] = {
    "last": (plain, -1),
    "shaped": (shaped, 1),
    "reshaped": (reshaped, 1),
}


def keras(g: Graph, p: Parameter, center: bool, scale: bool) -> SSAValue:
    def narrow(value: SSAValue) -> SSAValue:
        element = element_of(g.x)
        return (
            value
            if element == f32
            else g.add(nn.CastOp.make(value, result_types=[TensorType(element, shape_of(value))]))
        )

    r = g.add(nn.RsqrtOp.make(g.both(nn.AddOp, p("variance"), p("epsilon"))))
    if scale:
        r = g.both(nn.MulOp, r, p("scale"))
    product = g.both(nn.MulOp, g.x, narrow(r))
    if center:
        shift = g.add(nn.SubOp.make(p("offset"), g.both(nn.MulOp, p("mean"), r)))
    else:
        shift = g.both(nn.MulOp, g.add(nn.NegOp.make(p("mean"))), r)
    return g.both(nn.AddOp, product, narrow(shift))


def by_hand(g: Graph, p: Parameter, center: bool, scale: bool) -> SSAValue:
    deviation = g.add(nn.SqrtOp.make(g.both(nn.AddOp, p("variance"), p("epsilon"))))
    y = g.add(nn.DivOp.make(g.add(nn.SubOp.make(g.x, p("mean"))), deviation))
    if scale:
        y = g.both(nn.MulOp, y, p("scale"))
    return g.both(nn.AddOp, y, p("offset")) if center else y


def by_hand_rsqrt(g: Graph, p: Parameter, center: bool, scale: bool) -> SSAValue:
    r = g.add(nn.RsqrtOp.make(g.both(nn.AddOp, p("variance"), p("epsilon"))))
    y = g.both(nn.MulOp, g.add(nn.SubOp.make(g.x, p("mean"))), r)
    if scale:
        y = g.both(nn.MulOp, y, p("scale"))
    return g.both(nn.AddOp, y, p("offset")) if center else y


def input_shape(rank: int, axis: int) -> tuple[int, ...]:
    shape = [2, 4, 5, 4, 2][:rank]
    shape[axis] = CHANNELS
    return tuple(shape)


def fuse(module: ModuleOp, *names: str) -> list[str]:
    """Run passes; the remarks' rules of what was applied."""
    session = new_session()
    for name in names:
        make_pass(name).apply(session, module)
        verify(module)
    return [r.rule for r in session.remarks if r.kind == "applied" and r.pass_name == "fuse-small-bn"]


def norms(module: ModuleOp) -> list[nn.BatchNormOp]:
    return [op for op in module.walk() if isinstance(op, nn.BatchNormOp)]


@pytest.mark.parametrize("folded", [False, True], ids=["parameters", "folded"])
@pytest.mark.parametrize(
    ("rank", "center", "scale", "swap"),
    [
        *((4, center, scale, False) for center in (True, False) for scale in (True, False)),
        (4, True, True, True),
        (4, False, True, True),
        *((rank, True, True, False) for rank in (2, 3, 5)),
    ],
)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("write", [keras, by_hand, by_hand_rsqrt])
def test_forms(write: Any, rank: int, form: str, center: bool, scale: bool, folded: bool, swap: bool) -> None:
    parameter, axis = FORMS[form]
    g = Graph(input_shape(rank, axis))
    g.swap = swap
    module = g.finish(write(g, parameter(g), center, scale))
    x = np.random.default_rng(1).normal(size=shape_of(g.x)).astype(np.float32)
    expected = g.expected(x, axis, center, scale)
    rules = fuse(module, *(["fold-constants"] if folded else []), "fuse-small-bn")

    (norm,) = norms(module)
    assert not [op for op in module.walk() if isinstance(op, nn.BinaryOp)], "nothing of the small operations is left"
    assert norm.channel_axis(rank) == axis % rank
    structured = {keras: "keras-batch-norm", by_hand: "written-batch-norm", by_hand_rsqrt: "written-batch-norm"}
    assert rules == (["affine-batch-norm"] if folded else [structured[write]])
    if not folded:
        names = {"scale": scale, "offset": center, "mean": True, "variance": True}
        absent = {"scale": np.ones(CHANNELS), "offset": np.zeros(CHANNELS)}
        for name, there in names.items():
            np.testing.assert_array_equal(nn.array_of(getattr(norm, name)), g.numbers[name] if there else absent[name])
        assert norm.epsilon.value.data == pytest.approx(EPSILON, rel=2**-23)
    (actual,) = run(module, {"arg0": x}).values()
    k = 4.5 / np.sqrt(1e-4 + EPSILON)  # scales are drawn within -1 +- 3.5
    np.testing.assert_allclose(actual, expected, rtol=0, atol=9 * 2**-24 * k * (float(abs(x).max()) + 3))


@pytest.mark.parametrize(("center", "scale"), [(True, True), (True, False), (False, True), (False, False)])
def test_half(center: bool, scale: bool) -> None:
    """Parameters stay float32 next to a float16 input; the casts vanish."""
    g = Graph((2, 4, 4, CHANNELS), f16)
    g.numbers["variance"] = np.array([0.5, 1, 2], np.float32)
    module = g.finish(keras(g, plain(g), center, scale))
    x = np.random.default_rng(1).normal(size=(2, 4, 4, CHANNELS)).astype(np.float16)
    assert fuse(module, "fuse-small-bn") == ["keras-batch-norm"]
    (norm,) = norms(module)
    assert element_of(norm.scale) == f32
    assert not [op for op in module.walk() if isinstance(op, nn.CastOp)]
    (actual,) = run(module, {"arg0": x}).values()
    expected = g.expected(x, -1, center, scale)
    # one rounding to half of a result below 16
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2**-11 * 16)


def test_one_channel() -> None:
    """Single numbers are a batch norm where the input has one channel."""
    g = Graph((2, 4, 4, 1))
    g.numbers = {name: array[:1] if array.ndim else array for name, array in g.numbers.items()}
    module = g.finish(keras(g, plain(g), True, True))
    assert fuse(module, "fuse-small-bn") == ["keras-batch-norm"]
    assert norms(module)[0].channels_last


def test_single_numbers_are_no_norm() -> None:
    """Preprocessing, `x * 2 + 1`: neither turned into a norm nor missed."""
    g = Graph((2, 4, 4, 3))
    two = g.add(nn.ConstantOp.of(np.array(2, np.float32), "two"))
    module = g.finish(g.add(nn.AddOp.make(g.add(nn.MulOp.make(g.x, two)), two)))
    session = new_session()
    make_pass("fuse-small-bn").apply(session, module)
    assert not norms(module)
    assert not session.remarks


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("write", [keras, by_hand])
def test_into_the_convolution(write: Any, folded: bool) -> None:
    """`--fuse-all` folds what was written in small operations like any batch norm."""
    g = Graph((2, 5, 5, 2))
    rng = np.random.default_rng(2)
    weight = g.add(nn.ConstantOp.of(rng.normal(size=(CHANNELS, 2, 3, 3)).astype(np.float32), "conv.weight"))
    g.x = g.add(nn.ConvOp.make(g.x, weight, layout="nhwc"))
    module = g.finish(write(g, plain(g), True, True))
    x = rng.normal(size=(2, 5, 5, 2)).astype(np.float32)
    (before,) = run(module, {"arg0": x}).values()
    fuse(module, *(["fold-constants"] if folded else []), "fuse-all")
    assert [type(op) for op in module.walk() if isinstance(op, nn.NNOp)] == [nn.ConvOp]
    (after,) = run(module, {"arg0": x}).values()
    # 18 products of at most 4 * 4 after a factor of at most 4.5 / sqrt(0.0011) = 136
    np.testing.assert_allclose(after, before, rtol=0, atol=2 * (18 + 8) * 2**-24 * 136 * 18 * 16)
