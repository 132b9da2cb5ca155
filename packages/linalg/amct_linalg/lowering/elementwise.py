"""Operations on single elements. Floats of 16 bits are computed in float32 and rounded once, as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn import NNOp
from amct_opt.dialects.nn.shapes import element_of, known, shape_of
from amct_opt.lowering.refusal import require

from .build import Body, Builder, Scalars, Size, integer_of, is_real, is_unsigned, range_of, signless
from .rules import lowers


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


# -- bodies ------------------------------------------------------------------------------------------------------------


def elements(*kinds: type[Any]) -> Callable[[Callable[..., Body]], Callable[..., Body]]:
    """Registers the function that gives the body of these operations: their scalar operations on one element of each operand."""

    def register(make: Callable[..., Body]) -> Callable[..., Body]:
        BODIES.update(dict.fromkeys(kinds, make))
        return make

    return register


BODIES: dict[type[NNOp], Callable[[Any], Body]] = {}


def body_of(op: NNOp) -> Body | None:
    """The body of an operation on single elements, its own or that of its expansion; None for other operations."""
    if (make := BODIES.get(type(op))) is not None:
        return make(op)
    if (expansion := nn.expanded(op)) is None:
        return None
    with expansion:
        bodies = {step: cast(Any, body_of(step)) for step in expansion.steps}
        if None in bodies.values() or any(each.array.size != 1 for each in expansion.constants):
            return None

    def run(s: Scalars, *xs: SSAValue) -> SSAValue:
        def number(constant: nn.ConstantOp) -> SSAValue:
            return s.number(constant.array.item(), element_of(constant.result))

        return expansion.computed(xs, number, lambda step, values: bodies[step](s, *values))[0]

    return run


# -- functions of one float --------------------------------------------------------------------------------------------


def _real(op: NNOp, function: Callable[..., SSAValue]) -> Body:
    """A function of floats, computed in float32 or wider."""
    require(is_real_tensor(op.operands[0]), "float", "linalg computes it in float")
    return widened(element_of(op.operands[0]), cast(Body, function))


_FUNCTIONS: Mapping[type[nn.UnaryOp], type[Operation]] = {
    nn.TanhOp: math.TanhOp,
    nn.ErfOp: math.ErfOp,
    nn.ExpOp: math.ExpOp,
    nn.SinOp: math.SinOp,
    nn.CosOp: math.CosOp,
    nn.LogOp: math.LogOp,
    nn.SqrtOp: math.SqrtOp,
    nn.FloorOp: math.FloorOp,
    nn.CeilOp: math.CeilOp,
    nn.RoundOp: math.RoundEvenOp,
}


@elements(*_FUNCTIONS)
def function(op: nn.UnaryOp) -> Body:
    kind: Any = _FUNCTIONS[type(op)]

    def body(s: Scalars, x: SSAValue) -> SSAValue:
        return s.add(kind(x))

    return _real(op, body)


@elements(nn.SoftplusOp)
def softplus(op: nn.SoftplusOp) -> Body:
    def body(s: Scalars, x: SSAValue) -> SSAValue:
        tail = s.add(math.Log1pOp(s.add(math.ExpOp(s.add(arith.NegfOp(s.add(math.AbsFOp(x))))))))
        return s.plus(tail, s.most(x, s.like(0, x)))

    return _real(op, body)


@elements(nn.EluOp)
def elu(op: nn.EluOp) -> Body:
    def body(s: Scalars, x: SSAValue) -> SSAValue:
        negative = s.times(s.add(math.ExpM1Op(s.least(x, s.like(0, x)))), s.like(op.alpha.value.data, x))
        return s.choose(s.compare("gt", x, s.like(0, x)), x, negative)

    return _real(op, body)


def is_real_tensor(value: SSAValue) -> bool:
    """Whether the elements are floats."""
    return isinstance(element_of(value), AnyFloat)


# -- bounds ------------------------------------------------------------------------------------------------------------


@elements(nn.ReluOp, nn.ClipOp)
def bound(op: nn.BoundOp) -> Body:
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

    return body


# -- two numbers and more ----------------------------------------------------------------------------------------------

ARITHMETIC: Mapping[type[NNOp], Body] = {
    nn.AddOp: Scalars.plus,
    nn.SubOp: Scalars.minus,
    nn.MulOp: lambda s, x, y: s.product(x, y),
}


@elements(*ARITHMETIC)
def arithmetic(op: nn.BinaryOp) -> Body:
    return widened(signless(element_of(op.lhs)), ARITHMETIC[type(op)])


@elements(nn.MinOp, nn.MaxOp)
def extreme(op: nn.BinaryOp) -> Body:
    unsigned, choose = is_unsigned(element_of(op.lhs)), Scalars.least if isinstance(op, nn.MinOp) else Scalars.most
    return lambda s, x, y: choose(s, x, y, unsigned)


@elements(nn.DivOp)
def quotient(op: nn.DivOp) -> Body:
    """Integers are divided towards zero. A division of integers by zero has no defined result there."""
    unsigned = is_unsigned(element_of(op.lhs))

    def body(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        if is_real(x):
            return s.over(x, y)
        return s.add(arith.DivUIOp(x, y) if unsigned else arith.DivSIOp(x, y))

    return widened(signless(element_of(op.lhs)), body)


@elements(nn.PowOp)
def power(op: nn.PowOp) -> Body:
    real = is_real_tensor(op.lhs) and is_real_tensor(op.rhs)
    require(real, "float", "powers of integers have no form in arith")
    exponent = nn.array_of(op.rhs)
    products = int(exponent.item()) if exponent is not None and exponent.size == 1 and exponent.item() in (2, 3) else 0

    def body(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        if not products:
            return s.add(math.PowFOp(x, y))
        square = s.times(x, x)
        return square if products == 2 else s.times(square, x)

    return widened(element_of(op.lhs), body)


@elements(nn.CompareOp)
def compare(op: nn.CompareOp) -> Body:
    name, unsigned = op.predicate.data.value, is_unsigned(element_of(op.lhs))
    return lambda s, x, y: s.compare(name, x, y, unsigned)


_PLAIN: Mapping[type[NNOp], Body] = {
    nn.AndOp: lambda s, x, y: s.add(arith.AndIOp(x, y)),
    nn.OrOp: lambda s, x, y: s.add(arith.OrIOp(x, y)),
    nn.NotOp: lambda s, x: s.add(arith.XOrIOp(x, s.like(1, x))),
    nn.NegOp: lambda s, x: s.add(arith.NegfOp(x)) if is_real(x) else s.minus(s.like(0, x), x),
    nn.WhereOp: lambda s, c, x, y: s.choose(c, x, y),
}


@elements(*_PLAIN)
def plain(op: NNOp) -> Body:
    return _PLAIN[type(op)]


@elements(nn.AbsOp)
def magnitude(op: nn.AbsOp) -> Body:
    unsigned = is_unsigned(element_of(op.input))
    return lambda s, x: x if unsigned else s.add(math.AbsFOp(x)) if is_real(x) else s.add(math.AbsIOp(x))


@elements(nn.CastOp)
def cast_elements(op: nn.CastOp) -> Body:
    """Casts floats to integers of 32 bits and more only: numpy wraps numbers that do not fit into narrow ones, arith does not."""
    source, target = element_of(op.input), element_of(op.result)
    integer = integer_of(target)
    if integer is not None and integer.width.data == 1:
        return lambda s, x: s.compare("ne", x, s.like(0, x))
    if integer is not None and isinstance(source, AnyFloat):
        fits = integer.width.data >= 32 and not is_unsigned(target)
        require(fits, "float-to-integer", f"a float that {target} does not hold wraps in nn, and is undefined in arith")
    return lambda s, x: s.convert(x, source, target)


# -- what `ascend` has next to these ------------------------------------------------------------------------------------


@lowers(ascend.IdentityOp, nn.ObserveOp)
def identity(_: Builder, __: NNOp, x: SSAValue) -> SSAValue:
    return x
