"""Bounds on the errors of one operation's results: running error analysis.

Every array has an array of bounds next to it, `|computed - exact| <= error` element by element; None means exact. A rule gives
the errors of results from operands and their errors. With `u` the unit roundoff of the type (2^-24 for float32) and
`gamma_n = n u / (1 - n u)` (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1):

- A sum of products `y = sum a b` of n terms, in any order: `gamma_n sum |a||b|` is what rounding adds; errors of operands give
  `sum |a| e_b + e_a (|b| + e_b)`. Both are what the operation's own kernel gives for absolute values.
- Operations that move elements, and linear ones without products, move the errors.
- Rectifiers, bounds, maxima and minima do not enlarge errors: they are exact, and 1-Lipschitz.
- Monotone functions, rounding to integers among them: the values at both ends of `x +- e`; the function itself is computed
  within `FUNCTION` units. A real that lies within its error of a tie may therefore become either of two integers, and no other.
- What has an expansion, of steps with rules: what the steps pass on, one after the other.
- Everything else: the largest change for operands moved by their errors, up, down and by alternating signs, twice (it is exact to
  first order only), and the rounding of a sum over the longest axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Block, Operation

from ...dialects import nn
from ...dialects.ascend import AscendOp
from ...dialects.ascend.cube import DATA, CubeOp
from ...dialects.ascend.quantization import AscendAntiQuantOp, AscendDequantOp, AscendQuantOp, AscendRequantOp
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import integer_range
from ...ir.number_formats import largest, rounding
from ...ir.precision import FORCE_FP16
from ...runtime.kernels import Array, Kernel, bare_kernel_for

Errors = Sequence[Array | None]
"""An array of bounds for each operand, float32; None for an exact operand."""

FUNCTION = 8.0
"""Largest error of a function such as exp, or of a formula of several functions, in units of roundoff."""

_UNITS = {2: 2.0**-11, 4: 2.0**-24, 8: 2.0**-53}
"""Unit roundoff by bytes of a float."""


def unit(dtype: np.dtype[Any]) -> float:
    """The unit roundoff of a type: 0 for integers. bfloat16 has 8 bits."""
    if dtype.name == "bfloat16":
        return 2.0**-8
    return _UNITS.get(dtype.itemsize, 0.0) if np.issubdtype(dtype, np.floating) else 0.0


def gamma(terms: float, roundoff: float) -> float:
    """`n u / (1 - n u)`: the relative error of a sum of n products, in any order."""
    product = terms * roundoff
    return product / (1 - product) if product < 1 else float("inf")


def errors_of(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> list[Array | None]:
    """The bounds for the results of an operation; None where a result is exact."""
    if isinstance(op, AscendOp) and type(op) not in _RULES:
        data = list(op.operands).index(op.data_operand) if isinstance(op, CubeOp) else 0
        integers = np.issubdtype(results[0].dtype, np.integer) and operands[data].dtype.name in ("int8", "int16")
        if integers and all(e is None for e in errors):
            return [None] * len(results)
        if not op.has_meaning():
            return _by_steps(op, operands, errors, results)
        meaning = (_as_real(op) if integers else op).meaning()
        if integers and (offset := getattr(op, "offset_x", None)) is not None:
            operands = [a.astype(np.float32) - offset.value.data if i == data else a for i, a in enumerate(operands)]
        if (arrange := meaning.arrange) is not None:
            zeros = [_zeros(a) if e is None else e for a, e in zip(operands, errors, strict=True)]
            operands, errors = arrange(operands), [e if e.any() else None for e in arrange(zeros)]
        count = len(meaning.op.operands)
        found = errors_of(meaning.op, operands[:count], errors[:count], results)
        if integers and isinstance(meaning.op, nn.AveragePoolOp):  # in integers it is the sum
            found = [None if e is None else e * prod(meaning.op.kernel.get_values()) for e in found]
        return found
    if all(e is None for e in errors) and _is_exact(op):
        return [None] * len(results)
    for kind in type(op).__mro__:
        if (rule := _RULES.get(kind)) is not None:
            with np.errstate(all="ignore"):
                found = rule(op, operands, errors, results)
            return [None if e is None else np.asarray(e, np.float32) for e in found]
    return _by_steps(op, operands, errors, results)


def _as_real(op: AscendOp) -> AscendOp:
    """An operation on integers as one on floats: their sums have the same errors."""
    copy = op.clone()
    types = [TensorType(f32, shape_of(v)) if element_of(v) in (*DATA, i32) else v.type for v in op.operands]
    copy.operands = Block(arg_types=types).args
    return copy


Rule = Callable[[Any, Sequence[Array], Errors, Sequence[Array]], Sequence[Any]]
_RULES: dict[type[Operation], Rule] = {}


def _rule(*kinds: type[Operation]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


_EXACT = (
    nn.BoundOp,
    nn.NegOp,
    nn.AbsOp,
    nn.MinOp,
    nn.MaxOp,
    nn.FloorOp,
    nn.CeilOp,
    nn.RoundOp,
    nn.NotOp,
    nn.AndOp,
    nn.OrOp,
    nn.CompareOp,
    nn.WhereOp,
    nn.MaxPoolOp,
    nn.GlobalMaxPoolOp,
    nn.ReduceMaxOp,
    nn.ReduceMinOp,
    nn.ArgMaxOp,
    nn.ArgMinOp,
    nn.ShapeOp,
    nn.ObserveOp,
)


def _is_exact(op: Operation) -> bool:
    """Whether the results are the exact ones for exact operands."""
    return isinstance(op, _EXACT) or (isinstance(op, nn.MovingOp) and op.only_moves)


def _open_kernel(op: Operation, exact: Sequence[bool] = ()) -> Kernel:
    """The kernel of a copy whose operands are not constants, because kernels may keep results of constants; `exact`
    ones stay, as offsets of a slice must.
    """
    copy = op.clone()
    free = Block(arg_types=op.operand_types).args
    if exact:
        free = [operand if kept else each for operand, each, kept in zip(op.operands, free, exact, strict=True)]
    copy.operands = free
    return cast(Kernel, bare_kernel_for(copy))


def _run(op: Operation, *operands: Array) -> list[Array]:
    return _results(_open_kernel(op)(*operands))


def _results(made: Array | Sequence[Array]) -> list[Array]:
    return list(cast("Sequence[Array]", made)) if isinstance(made, list | tuple) else [cast(Array, made)]


def _magnitudes(array: Array) -> Array:
    """Absolute values as float32: integers become floats first, because -128 has no absolute value in 8 bits."""
    return np.abs(array.astype(np.float32, copy=False))


def _zeros(array: Array) -> Array:
    return np.zeros(array.shape, np.float32)


def _terms(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> float:
    """The number of products in a sum, and two more for a bias and a factor."""
    if isinstance(op, nn.ConvTransposeOp):
        return operands[1].shape[0] * prod(operands[1].shape[2:]) / op.group_count + 2
    if isinstance(op, nn.ConvolutionOp):
        return prod(operands[1].shape[1:]) + 2
    if isinstance(op, nn.MatMulOp):
        return max(operands[0].shape[-1], operands[0].shape[-2] if operands[0].ndim > 1 else 1) + 2
    if isinstance(op, nn.PoolOp):
        return prod(op.kernel.get_values()) + 2
    return max(1.0, operands[0].size / max(1, results[0].size)) + 2


@_rule(nn.ConvolutionOp, nn.MatMulOp)
def _products(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """The errors of `y = sum x w + b`, of which x or w may be a weight; rounding and errors go through one product."""
    x, w, *rest = map(_magnitudes, operands)
    e_x, e_w, *e_rest = errors
    relative = np.float32(gamma(_terms(op, operands, results), unit(results[0].dtype)))
    added = [relative * a if e is None else relative * a + e for a, e in zip(rest, e_rest, strict=True)]
    if e_w is None:
        total = _run(op, relative * x if e_x is None else relative * x + e_x, w, *added)[0]
    else:
        total = _run(op, x, relative * w + e_w, *added)[0]
        if e_x is not None:
            total = total + _run(op, e_x, w + e_w, *map(_zeros, rest))[0]
    return [total * np.float32(1 + 2.0**-10)]


@_rule(nn.AveragePoolOp, nn.GlobalAveragePoolOp, nn.ReduceMeanOp, nn.ReduceSumOp)
def _sums(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """Sums without products, of nonnegative factors."""
    factor = np.float32(gamma(_terms(op, operands, results), unit(results[0].dtype)))
    total = factor * _run(op, _magnitudes(operands[0]), *operands[1:])[0]
    return [total if errors[0] is None else total + _run(op, errors[0], *operands[1:])[0]]


@_rule(nn.MovingOp)
def _moved(op: nn.MovingOp, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """Moves the errors to the places of their values; filled numbers have none. Other results are sums of a few products."""
    moved = {i for i, value in enumerate(op.operands) if value in op.moved}
    given = [
        (_zeros(a) if e is None else e) if i in moved else a
        for i, (a, e) in enumerate(zip(operands, errors, strict=True))
    ]
    found = [np.abs(each) for each in _run(op, *given)]
    if op.fill:
        filled = _run(op, *(np.zeros_like(a) if i in moved else a for i, a in enumerate(given)))
        found = [np.abs(each - fill) for each, fill in zip(_run(op, *given), filled, strict=True)]
    if op.fill is None and not op.only_moves:
        factor = np.float32(gamma(16, unit(results[0].dtype)))
        found = [2 * found[0] + factor * np.float32(np.max(np.abs(operands[0]), initial=0))]
    return found


@_rule(nn.BoundOp, nn.NegOp, nn.AbsOp, nn.ObserveOp)
def _passed(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    return [errors[0]]


@_rule(nn.MinOp, nn.MaxOp)
def _larger(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    first, second = (_error(a, e) for a, e in zip(operands, errors, strict=True))
    return [np.broadcast_to(np.maximum(first, second), results[0].shape)]


@_rule(nn.MaxPoolOp, nn.GlobalMaxPoolOp, nn.ReduceMaxOp)
def _largest(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    e = _error(operands[0], errors[0])
    return [np.maximum(_run(op, np.broadcast_to(e, operands[0].shape), *operands[1:])[0], 0)] + [None] * (
        len(results) - 1
    )


@_rule(nn.AddOp, nn.SubOp, nn.BiasAddOp)
def _added(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    y = _magnitudes(results[0]) * np.float32(unit(results[0].dtype) * 1.001)
    for array, error in zip(operands, errors, strict=True):
        if error is not None:
            plus = nn.AddOp if not isinstance(op, nn.BiasAddOp) else None
            y = y + (error if plus or array.ndim == results[0].ndim else _run(op, _zeros(operands[0]), error)[0])
    return [y]


@_rule(nn.MulOp)
def _multiplied(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    a, b = map(_magnitudes, operands)
    e_a, e_b = (_error(x, e) for x, e in zip(operands, errors, strict=True))
    return [a * e_b + e_a * (b + e_b) + _magnitudes(results[0]) * np.float32(unit(results[0].dtype) * 1.001)]


@_rule(nn.PowOp)
def _power(op: nn.PowOp, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """A whole exponent is exact: moved, it would give NaN for negative numbers."""
    whole = bool(np.all(operands[1] == np.rint(operands[1])))
    return _by_steps(op, operands, [errors[0], None] if whole else errors, results)


@_rule(nn.DivOp)
def _divided(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    y, b = map(_magnitudes, (results[0], operands[1]))
    e_a, e_b = (_error(x, e) for x, e in zip(operands, errors, strict=True))
    least = b - e_b
    return [np.where(least > 0, (e_a + y * e_b) / least, np.inf) + y * np.float32(unit(results[0].dtype) * 1.001)]


@_rule(nn.BatchNormOp)
def _normalized(
    op: nn.BatchNormOp, operands: Sequence[Array], errors: Errors, results: Sequence[Array]
) -> Sequence[Any]:
    """`(x - mean) s + bias`, s = scale / sqrt(variance + epsilon): the kernel gives it for magnitudes."""
    x, scale, bias, mean, variance = operands
    plain = np.abs(scale), _zeros(bias), _zeros(mean), variance
    total = _run(op, _magnitudes(x), np.abs(scale), np.abs(bias), -np.abs(mean), variance)[0]
    total = total * np.float32(FUNCTION * unit(results[0].dtype))
    if errors[0] is not None:
        total = total + _run(op, errors[0], *plain)[0]
    if any(e is not None for e in errors[1:]):
        total = total * np.float32(2)  # parameters are rounded once
    return [total]


def _error(array: Array, error: Array | None) -> Array:
    return np.zeros((), np.float32) if error is None else error


def _ends(op: Operation, operands: Sequence[Array], error: Array, result: Array) -> Array:
    """The larger change of a monotone function of the first operand at the ends of `x +- e`."""
    x, rest = operands[0], operands[1:]
    whole = not np.issubdtype(x.dtype, np.floating)
    wide = x.astype(np.float32, copy=False) if whole else x
    middle = _run(op, wide, *rest)[0] if whole else result
    low, high = (_run(op, np.asarray(each, wide.dtype), *rest)[0] for each in (wide - error, wide + error))
    return np.maximum(np.abs(high.astype(np.float64) - middle), np.abs(low.astype(np.float64) - middle))


@_rule(nn.UnaryOp, nn.PReluOp)
def _function(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """The errors of a monotone function; gelu, swish and sin are monotone except where they hardly change."""
    x, y = _magnitudes(operands[0]), _magnitudes(results[0])
    own = (y + x if isinstance(op, nn.ActivationOp) else y) * np.float32(FUNCTION * unit(results[0].dtype))
    if isinstance(op, nn.SinOp | nn.CosOp):
        own = own + _error(x, errors[0])
        return [own]
    return [own if errors[0] is None else own + 2 * _ends(op, operands, errors[0], results[0])]


@_rule(nn.QuantizeOp, nn.QuantizeFloatOp, AscendQuantOp, AscendRequantOp)
def _integers(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """The errors of quantization: reals within their error, and that of quotient or product, of a tie may become the
    other integer.
    """
    x = operands[0]
    offset = 0.0
    if isinstance(op, AscendQuantOp):  # the sum with the offset is rounded, too: by at most half a unit of 2^8, or 2^16
        offset = 2.0 ** (op.storage.width.data - 24) / abs(float(op.scale.value.data) or 1.0)
    own = _magnitudes(x) * np.float32(4 * 2.0**-24) + np.float32(offset)
    if (
        isinstance(op, AscendQuantOp) and op.fakequant_precision_mode.data == FORCE_FP16
    ):  # x, scale, product, sum: 11 bits each
        point = np.float32(abs(op.offset.value.data) / op.scale.value.data)
        own = (_magnitudes(x) * np.float32(5) + point) * np.float32(2.0**-11)
    return [_ends(op, operands, own if errors[0] is None else own + errors[0], results[0])]


@_rule(nn.DequantizeOp, nn.DequantizeFloatOp, nn.ShiftAccumulatorOp, AscendDequantOp, AscendAntiQuantOp)
def _reals(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> Sequence[Any]:
    """A product with the scale, rounded; integers above 2^24 are rounded before."""
    own = _magnitudes(results[0]) * np.float32(4 * 2.0**-24)
    if (
        isinstance(op, AscendDequantOp) and op.fakequant_precision_mode.data == FORCE_FP16
    ):  # the cut scale, the rounded product
        own = _magnitudes(results[0]) * np.float32(2.0**-9)
    if errors[0] is None and not isinstance(op, nn.ShiftAccumulatorOp):
        return [own]
    if isinstance(op, AscendDequantOp) and op.shifts:
        return _probed(op, operands, errors, results)
    error = _error(operands[0], errors[0])
    if isinstance(op, nn.ShiftAccumulatorOp):
        error = error + _magnitudes(operands[0]) * np.float32(2.0**-22)
    return [own + _ends(op, operands, error, results[0])]


def _by_steps(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> list[Array | None]:
    """The errors that the steps of an expansion pass on, twice: another implementation rounds in other places.

    Worst cases of steps may not occur together, so that the changes of `_probed` are taken where they are smaller. Runtimes take
    the variance of a normalization as the mean of squares less the squared mean, which rounds otherwise than its steps.
    """
    probed = _probed(op, operands, errors, results)
    if isinstance(op, nn.MomentsOp) or (expansion := nn.expanded(op)) is None:
        return probed

    def step(each: nn.NNOp, given: Sequence[_Bounded]) -> _Bounded:
        arrays, bounds = [g.array for g in given], [g.error for g in given]
        (y,) = _run(each, *arrays)
        return _Bounded(y, errors_of(each, arrays, bounds, [y])[0])

    with expansion, np.errstate(all="ignore"):
        given = [_Bounded(a, e) for a, e in zip(operands, errors, strict=True)]
        found = expansion.computed(given, lambda constant: _Bounded(constant.array, None), step)
        return [
            np.fmin(2 * _error(y, each.error) + _magnitudes(each.array - y), _error(y, other)).astype(np.float32)
            for each, y, other in zip(found, results, probed, strict=True)
        ]


class _Bounded(NamedTuple):
    """A value and how far it may be from the exact one."""

    array: Array
    error: Array | None


def _probed(op: Operation, operands: Sequence[Array], errors: Errors, results: Sequence[Array]) -> list[Array | None]:
    """Twice the largest change for operands moved by their errors, and the rounding of a sum over the longest axis."""
    longest = max((n for a in operands for n in a.shape), default=1)
    found: list[Array | None] = []
    moves: list[Array] = [np.zeros(r.shape) for r in results]
    exact = [e is None for e in errors]
    with np.errstate(all="ignore"):
        for signs in (1, -1, 0) if any(e is not None for e in errors) else ():
            moved = [a if e is None else _shifted(a, e, signs) for a, e in zip(operands, errors, strict=True)]
            for i, each in enumerate(_results(_open_kernel(op, exact)(*moved))):
                moves[i] = np.maximum(moves[i], np.abs(each.astype(np.float64) - results[i].astype(np.float64)))
        for move, y in zip(moves, results, strict=True):
            roundoff = unit(y.dtype)
            own = gamma(FUNCTION * (longest + 2), roundoff) if roundoff else 0.0
            scale = np.float32(np.max(np.abs(y[np.isfinite(y)]), initial=0)) if roundoff and y.size else np.float32(0)
            found.append(np.asarray(2 * move + own * (np.abs(y) + scale), np.float32))
    return found


def _shifted(array: Array, error: Array, signs: int) -> Array:
    """An operand moved by its error: up, down, or by turns."""
    turns = np.resize(np.array([-1, 1]), array.shape)
    moved = array + (signs if signs else turns) * error
    if np.issubdtype(array.dtype, np.integer):
        info = np.iinfo(array.dtype)
        moved = np.clip(np.rint(moved), info.min, info.max)
    return moved.astype(array.dtype)


def intended(op: Operation, operands: Sequence[Array], errors: Errors) -> Array | None:
    """The largest distance of integers from the reals that they stand for, in steps: half a step, more where the integers end,
    and the errors of the reals. Floats of 8 bits in units of their scale. None for operations other than quantization.
    """
    with np.errstate(all="ignore"):
        if isinstance(op, nn.QuantizeFloatOp):
            x, scale = (each.astype(np.float32) for each in operands)
            elements = _run(op, *operands)[0]
            beyond = np.maximum(0, np.abs(x / scale) - np.float32(largest(elements.dtype)))
            return np.asarray(rounding(elements) + beyond + _error(x, errors[0]) / scale, np.float32)
        if (found := place_of(op, operands[0])) is None:
            return None
        place, factor, (low, high) = found
        beyond = np.maximum(0, np.maximum(low - place, place - high))
        own = 0 if errors[0] is None else errors[0] * np.abs(factor)
        return np.asarray((0.5 + beyond + own) * (1 + 2.0**-10), np.float32)


def place_of(op: Operation, reals: Array) -> tuple[Array, Any, tuple[int, int]] | None:
    """The position of reals among the integers of a quantization before they are rounded, float64; the number of
    integers in a unit; and the first and the last integer. None for other operations.
    """
    factor: Any
    if isinstance(op, nn.QuantizeOp):
        scale, points = op.qparams.data.broadcastable(shape_of(op.input))
        factor, ends = 1 / scale.astype(np.float64), integer_range(op.qparams.data.storage)
    elif isinstance(op, AscendQuantOp):
        factor = float(op.scale.value.data) ** (2 if op.sqrt_mode.value.data else 1)
        points, ends = float(op.offset.value.data), integer_range(op.storage)
    else:
        return None
    return reals.astype(np.float64) * factor + points, factor, ends
