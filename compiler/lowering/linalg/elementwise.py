"""Operations on single elements. Floats of 16 bits are computed in float32 and rounded once, as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import pi, sqrt
from typing import cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import ascend, nn
from ...dialects.nn import NNOp
from ...dialects.nn.attributes import Predicate
from ...dialects.nn.shapes import element_of, known, shape_of
from ...ir.dtypes import numpy_dtype
from ..refusal import require
from .build import Body, Builder, Scalars, Size, integer_of, is_real, is_unsigned, range_of, reshaped, signless
from .rules import lowers

Function = Callable[[Scalars, SSAValue], SSAValue]


def wide(element: Attribute) -> Attribute:
    """The type that functions of a float type are computed in."""
    return element if element == f64 or not isinstance(element, AnyFloat) else f32


def widened(element: Attribute, function: Body) -> Body:
    """A body on elements of a float type, computed in float32 or wider."""
    compute = cast(Callable[..., SSAValue], function)

    def body(s: Scalars, *xs: SSAValue) -> SSAValue:
        y = compute(s, *(s.convert(x, x.type, wide(element)) for x in xs))
        return s.convert(y, y.type, element)

    return cast(Body, body)


def result_sizes(build: Builder, op: NNOp, values: Sequence[SSAValue]) -> list[Size]:
    """The sizes that operands broadcast to. Raises NotLowered if an unknown size may be 1 in one operand and not in another."""
    declared = shape_of(op.results[0])
    sizes: list[Size] = []
    for axis, size in enumerate(declared):
        if known(size):
            sizes.append(size)
            continue
        rows = [(v, axis - len(declared) + len(shape_of(v))) for v in values]
        open_ = [(v, i) for v, i in rows if i >= 0 and shape_of(v)[i] != 1]
        same = len({build.root(v, i) for v, i in open_}) == 1
        require(same, "broadcast", f"the unknown sizes of axis {axis} may differ, and broadcast")
        sizes.append(build.size(*open_[0]))
    return sizes


def by_element(build: Builder, op: NNOp, values: Sequence[SSAValue], body: Body) -> SSAValue:
    """The result of an operation whose operands broadcast, in its declared element type."""
    element = signless(element_of(op.results[0]))
    return build.elementwise(values, element, body, result_sizes(build, op, values))


# -- functions of one float --------------------------------------------------------------------------------------------


def _plain(kind: type[Operation]) -> Function:
    return lambda s, x: s.add(kind(x))  # pyright: ignore[reportCallIssue]


def _one_plus(s: Scalars, x: SSAValue) -> SSAValue:
    return s.plus(x, s.like(1, x))


def _sigmoid(s: Scalars, x: SSAValue) -> SSAValue:
    return s.over(s.like(1, x), _one_plus(s, s.add(math.ExpOp(s.add(arith.NegfOp(x))))))


def _softplus(s: Scalars, x: SSAValue) -> SSAValue:
    tail = s.add(math.Log1pOp(s.add(math.ExpOp(s.add(arith.NegfOp(s.add(math.AbsFOp(x))))))))
    return s.plus(tail, s.most(x, s.like(0, x)))


def _softsign(s: Scalars, x: SSAValue) -> SSAValue:
    return s.over(x, _one_plus(s, s.add(math.AbsFOp(x))))


def _mish(s: Scalars, x: SSAValue) -> SSAValue:
    return s.times(x, s.add(math.TanhOp(_softplus(s, x))))


def _reciprocal(s: Scalars, x: SSAValue) -> SSAValue:
    return s.over(s.like(1, x), x)


def _rsqrt(s: Scalars, x: SSAValue) -> SSAValue:
    return _reciprocal(s, s.add(math.SqrtOp(x)))


def _gelu(s: Scalars, x: SSAValue) -> SSAValue:
    y = _one_plus(s, s.add(math.ErfOp(s.times(x, s.like(1 / sqrt(2), x)))))
    return s.times(s.times(y, x), s.like(0.5, x))


def _gelu_tanh(s: Scalars, x: SSAValue) -> SSAValue:
    y = s.times(_one_plus(s, s.times(s.times(x, x), s.like(0.044715, x))), x)
    y = s.times(_one_plus(s, s.add(math.TanhOp(s.times(y, s.like(sqrt(2 / pi), y))))), x)
    return s.times(y, s.like(0.5, x))


def _hard_sigmoid(alpha: float, beta: float) -> Function:
    def body(s: Scalars, x: SSAValue) -> SSAValue:
        return s.between(s.plus(s.product(x, s.like(alpha, x)), s.like(beta, x)), 0, 1)

    return body


def _hard_swish(s: Scalars, x: SSAValue) -> SSAValue:
    return s.product(_hard_sigmoid(1 / 6, 0.5)(s, x), x)


def _elu(alpha: float, gamma: float = 1.0) -> Function:
    def body(s: Scalars, x: SSAValue) -> SSAValue:
        negative = s.times(s.add(math.ExpM1Op(s.least(x, s.like(0, x)))), s.like(alpha, x))
        y = s.choose(s.compare("gt", x, s.like(0, x)), x, negative)
        return y if gamma == 1.0 else s.times(y, s.like(gamma, y))

    return body


def _leaky(s: Scalars, x: SSAValue, slope: SSAValue) -> SSAValue:
    return s.choose(s.compare("lt", x, s.like(0, x)), s.times(x, slope), x)


FUNCTIONS: Mapping[type[nn.UnaryOp], Function] = {
    nn.SigmoidOp: _sigmoid,
    nn.TanhOp: _plain(math.TanhOp),
    nn.SoftplusOp: _softplus,
    nn.SoftsignOp: _softsign,
    nn.MishOp: _mish,
    nn.ErfOp: _plain(math.ErfOp),
    nn.ExpOp: _plain(math.ExpOp),
    nn.SinOp: _plain(math.SinOp),
    nn.CosOp: _plain(math.CosOp),
    nn.LogOp: _plain(math.LogOp),
    nn.SqrtOp: _plain(math.SqrtOp),
    nn.RsqrtOp: _rsqrt,
    nn.ReciprocalOp: _reciprocal,
    nn.FloorOp: _plain(math.FloorOp),
    nn.CeilOp: _plain(math.CeilOp),
    nn.RoundOp: _plain(math.RoundEvenOp),
    nn.HardSwishOp: _hard_swish,
}


@lowers(*FUNCTIONS)
def function(build: Builder, op: nn.UnaryOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, FUNCTIONS[type(op)])


@lowers(nn.GeluOp)
def gelu(build: Builder, op: nn.GeluOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, _gelu if op.tanh_approximation is None else _gelu_tanh)


@lowers(nn.HardSigmoidOp)
def hard_sigmoid(build: Builder, op: nn.HardSigmoidOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, _hard_sigmoid(op.alpha.value.data, op.beta.value.data))


@lowers(nn.EluOp)
def elu(build: Builder, op: nn.EluOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, _elu(op.alpha.value.data))


@lowers(nn.SeluOp)
def selu(build: Builder, op: nn.SeluOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, _elu(op.alpha.value.data, op.gamma.value.data))


@lowers(nn.LeakyReluOp)
def leaky_relu(build: Builder, op: nn.LeakyReluOp, x: SSAValue) -> SSAValue:
    return _real_function(build, op, x, lambda s, x: _leaky(s, x, s.like(op.alpha.value.data, x)))


@lowers(nn.PReluOp)
def prelu(build: Builder, op: nn.PReluOp, x: SSAValue, slope: SSAValue) -> SSAValue:
    return by_element(build, op, [x, slope], widened(element_of(x), _leaky))


@lowers(ascend.PReluOp)
def prelu_by_channel(build: Builder, op: ascend.PReluOp, x: SSAValue, slope: SSAValue) -> SSAValue:
    after = (1,) * max(len(shape_of(x)) - 2, 0)
    slope = reshaped(build, slope, [*build.sizes(slope), *after])
    return by_element(build, op, [x, slope], widened(element_of(x), _leaky))


def _real_function(build: Builder, op: NNOp, x: SSAValue, function: Function) -> SSAValue:
    require(is_real_tensor(x), "float", "linalg computes it in float")
    return by_element(build, op, [x], widened(element_of(x), function))


def is_real_tensor(value: SSAValue) -> bool:
    """Whether the elements are floats."""
    return isinstance(element_of(value), AnyFloat)


# -- bounds ------------------------------------------------------------------------------------------------------------


@lowers(nn.ReluOp, nn.Relu6Op, nn.ClipOp)
def bound(build: Builder, op: nn.BoundOp, x: SSAValue) -> SSAValue:
    """`min(max(x, low), high)` in the type of x, whose bounds are rounded to it."""
    low, high = op.bounds
    element = element_of(op.input)
    unsigned = is_unsigned(element)
    if not isinstance(element, AnyFloat):
        least, most = range_of(element)
        low, high = (min(max(each, least), most) for each in (low, high))

    def body(s: Scalars, x: SSAValue) -> SSAValue:
        y = x if low == float("-inf") else s.most(x, s.like(low, x), unsigned)
        return y if high == float("inf") else s.least(y, s.like(high, x), unsigned)

    return by_element(build, op, [x], body)


# -- two numbers and more ----------------------------------------------------------------------------------------------

ARITHMETIC: Mapping[type[NNOp], Body] = {
    nn.AddOp: Scalars.plus,
    nn.SubOp: Scalars.minus,
    nn.MulOp: Scalars.product,
}


@lowers(*ARITHMETIC)
def arithmetic(build: Builder, op: nn.BinaryOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return by_element(build, op, [a, b], widened(element_of(a), ARITHMETIC[type(op)]))


@lowers(nn.MinOp, nn.MaxOp)
def extreme(build: Builder, op: nn.BinaryOp, a: SSAValue, b: SSAValue) -> SSAValue:
    unsigned, choose = is_unsigned(element_of(op.lhs)), Scalars.least if isinstance(op, nn.MinOp) else Scalars.most
    return by_element(build, op, [a, b], lambda s, x, y: choose(s, x, y, unsigned))


@lowers(nn.DivOp)
def quotient(build: Builder, op: nn.DivOp, a: SSAValue, b: SSAValue) -> SSAValue:
    """Integers are divided towards zero. A division of integers by zero has no defined result there."""
    unsigned = is_unsigned(element_of(op.lhs))

    def body(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        if is_real(x):
            return s.over(x, y)
        return s.add(arith.DivUIOp(x, y) if unsigned else arith.DivSIOp(x, y))

    return by_element(build, op, [a, b], widened(element_of(a), body))


@lowers(nn.PowOp)
def power(build: Builder, op: nn.PowOp, a: SSAValue, b: SSAValue) -> SSAValue:
    require(is_real_tensor(a) and is_real_tensor(b), "float", "powers of integers have no form in arith")
    element = element_of(a)
    exponent = nn.array_of(b)
    products = int(exponent.item()) if exponent is not None and exponent.size == 1 and exponent.item() in (2, 3) else 0

    def body(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        if not products:
            return s.add(math.PowFOp(x, y))
        square = s.times(x, x)
        return square if products == 2 else s.times(square, x)

    return by_element(build, op, [a, b], widened(element, body))


_PREDICATES: Mapping[Predicate, str] = {
    Predicate.EQ: "eq",
    Predicate.NE: "ne",
    Predicate.LT: "lt",
    Predicate.LE: "le",
    Predicate.GT: "gt",
    Predicate.GE: "ge",
}


@lowers(nn.CompareOp)
def compare(build: Builder, op: nn.CompareOp, a: SSAValue, b: SSAValue) -> SSAValue:
    name, unsigned = _PREDICATES[op.predicate.data], is_unsigned(element_of(op.lhs))
    return by_element(build, op, [a, b], lambda s, x, y: s.compare(name, x, y, unsigned))


@lowers(nn.AndOp, nn.OrOp)
def logic(build: Builder, op: nn.AndOp | nn.OrOp, a: SSAValue, b: SSAValue) -> SSAValue:
    kind = arith.AndIOp if isinstance(op, nn.AndOp) else arith.OrIOp
    return by_element(build, op, [a, b], lambda s, x, y: s.add(kind(x, y)))


@lowers(nn.NotOp)
def negation(build: Builder, op: nn.NotOp, x: SSAValue) -> SSAValue:
    return by_element(build, op, [x], lambda s, x: s.add(arith.XOrIOp(x, s.like(1, x))))


@lowers(nn.NegOp)
def negative(build: Builder, op: nn.NegOp, x: SSAValue) -> SSAValue:
    return by_element(build, op, [x], lambda s, x: s.add(arith.NegfOp(x)) if is_real(x) else s.minus(s.like(0, x), x))


@lowers(nn.AbsOp)
def magnitude(build: Builder, op: nn.AbsOp, x: SSAValue) -> SSAValue:
    def body(s: Scalars, x: SSAValue) -> SSAValue:
        return s.add(math.AbsFOp(x)) if is_real(x) else s.add(math.AbsIOp(x))

    return x if is_unsigned(element_of(op.input)) else by_element(build, op, [x], body)


@lowers(nn.WhereOp)
def where(build: Builder, op: nn.WhereOp, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    return by_element(build, op, [condition, a, b], lambda s, c, x, y: s.choose(c, x, y))


@lowers(nn.CastOp)
def cast_elements(build: Builder, op: nn.CastOp, x: SSAValue) -> SSAValue:
    """Floats to integers of 32 bits and more only: numpy wraps what does not fit into narrow ones, arith does not."""
    source, target = element_of(op.input), element_of(op.result)
    integer = integer_of(target)
    if integer is not None and integer.width.data == 1:
        return by_element(build, op, [x], lambda s, x: s.compare("ne", x, s.like(0, x)))
    if integer is not None and isinstance(source, AnyFloat):
        fits = integer.width.data >= 32 and not is_unsigned(target)
        require(fits, "float-to-integer", f"a float that {target} does not hold wraps in nn, and is undefined in arith")
    return by_element(build, op, [x], lambda s, x: s.convert(x, source, target))


# -- what `ascend` has beside these ------------------------------------------------------------------------------------


@lowers(ascend.IdentityOp, nn.ObserveOp)
def identity(_: Builder, __: NNOp, x: SSAValue) -> SSAValue:
    return x


@lowers(ascend.SquareOp)
def square(build: Builder, op: ascend.SquareOp, x: SSAValue) -> SSAValue:
    return by_element(build, op, [x], widened(element_of(x), lambda s, x: s.times(x, x)))


@lowers(ascend.AddsOp, ascend.MulsOp)
def by_number(build: Builder, op: ascend.ByNumberOp, x: SSAValue) -> SSAValue:
    """The number is rounded to the type of x."""
    number = np.array(op.value.value.data).astype(numpy_dtype(element_of(op.x))).item()
    combine = Scalars.plus if isinstance(op, ascend.AddsOp) else Scalars.product
    return by_element(build, op, [x], widened(element_of(x), lambda s, x: combine(s, x, s.like(number, x))))


@lowers(ascend.SwishOp, ascend.FastGeluOp)
def gated(build: Builder, op: ascend.SwishOp | ascend.FastGeluOp, x: SSAValue) -> SSAValue:
    """`x * sigmoid(scale * x)`."""
    scale = op.scale.value.data if isinstance(op, ascend.SwishOp) else 1.702
    return _real_function(build, op, x, lambda s, x: s.times(x, _sigmoid(s, s.times(x, s.like(scale, x)))))


@lowers(ascend.AddNOp)
def sum_of_many(build: Builder, op: ascend.AddNOp, *xs: SSAValue) -> SSAValue:
    return _folded(build, op, Scalars.plus, xs)


@lowers(ascend.EltwiseOp)
def combination(build: Builder, op: ascend.EltwiseOp, *xs: SSAValue) -> SSAValue:
    """Weighted sums are computed in float32."""
    mode, factors, element = op.mode.value.data, op.factors, element_of(xs[0])
    if mode != 1 or not factors:
        return _folded(build, op, (Scalars.product, Scalars.plus, Scalars.most)[mode], xs)

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        terms = [
            s.product(s.convert(x, element, f32), s.number(f, f32)) for x, f in zip(elements, factors, strict=True)
        ]
        return s.convert(reduce(s.plus, terms), f32, element)

    return by_element(build, op, xs, cast(Body, body))


def _folded(build: Builder, op: NNOp, combine: Body, xs: Sequence[SSAValue]) -> SSAValue:
    """Operands combined one after the other; each result is rounded to their type."""
    body = widened(element_of(xs[0]), combine)
    return reduce(lambda a, b: by_element(build, op, [a, b], body), xs)


@lowers(ascend.ClipByValueV2Op)
def clip(build: Builder, op: ascend.ClipByValueV2Op, x: SSAValue, low: SSAValue, high: SSAValue) -> SSAValue:
    unsigned = is_unsigned(element_of(op.x))

    def body(s: Scalars, x: SSAValue, low: SSAValue, high: SSAValue) -> SSAValue:
        return s.least(s.most(x, low, unsigned), high, unsigned)

    return by_element(build, op, [x, *(reshaped(build, bound, []) for bound in (low, high))], body)


@lowers(ascend.ScaleOp, ascend.BiasOp)
def scale(build: Builder, op: ascend.ScaleOp | ascend.BiasOp, x: SSAValue, *parameters: SSAValue) -> SSAValue:
    """`x * scale + bias`; the product is rounded to the type of x."""
    shape = op.parameter_shape
    steps = (Scalars.product, Scalars.plus) if isinstance(op, ascend.ScaleOp) else (Scalars.plus,)
    for step, parameter in zip(steps, parameters, strict=False):
        body = widened(element_of(x), step)
        x = by_element(build, op, [x, reshaped(build, parameter, shape)], body)
    return x
