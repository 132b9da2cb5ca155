"""Activation functions in graphs: one operation, or the small operations that a framework writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from math import inf, isclose, sqrt
from typing import NamedTuple

from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import shape_of, size
from ....rewriting import Roots
from ....support.diagnostics import CompileError


class Activation(NamedTuple):
    """An activation function: `kind` is the common name, `suffix`, PyTorch's name as in Horizon's kinds, its part in
    the kind of a region.
    """

    kind: str
    suffix: str
    input: SSAValue
    ops: tuple[nn.NNOp, ...]
    """Operations, each after its operands; the last gives the result."""


def single_kind(op: Operation) -> str | None:
    """The kind of an activation of one operation, `relu`; otherwise None."""
    return _kind(type(op)) if isinstance(op, nn.ActivationOp) else None


def _kind(activation: type[nn.ActivationOp]) -> str:
    return activation.name.removeprefix("nn.")


_BOUNDED: Mapping[tuple[float, float], type[nn.BoundOp]] = {(0.0, inf): nn.ReluOp, (0.0, 6.0): nn.Relu6Op}
"""Clips that have a name of their own."""

LINEAR = frozenset(map(_kind, nn.kinds(nn.BoundOp)))
"""PPQ's linear activations, which may follow any operation."""

KINDS = frozenset({*map(_kind, nn.kinds(nn.ActivationOp)), "swish"})

_ALIASES: Mapping[str, str] = {**{kind.replace("_", ""): kind for kind in KINDS}, "silu": "swish"}


def kinds_named(names: Iterable[str]) -> frozenset[str]:
    """The kinds of activations in an option: names of ONNX and PyTorch (`LeakyRelu`, `SiLU`), or ours
    (`leaky_relu`). A relu6 is a clip.

    Raises CompileError for an unknown name.
    """
    kinds: set[str] = set()
    for name in names:
        if (kind := _ALIASES.get(name.replace("_", "").lower())) is None:
            hint = f"activations are {', '.join(sorted(KINDS))}, or their ONNX operators (LeakyRelu)"
            message = f"activation-type: no activation is called '{name}'"
            raise CompileError(message, hint=hint, option="activation-type")
        kinds.add(kind)
    return frozenset(kinds | {"relu6"} if "clip" in kinds else kinds)


ROOTS: Roots = (*nn.kinds(nn.ActivationOp), nn.MulOp)
"""The classes of the last operation of an activation."""


def activation_of(op: Operation) -> Activation | None:
    """The activation function whose result is that of `op`."""
    if isinstance(op, nn.MulOp):
        return _gated(op) or _gelu(op)
    if not isinstance(op, nn.ActivationOp):
        return None
    named = _BOUNDED.get(op.bounds, type(op)) if isinstance(op, nn.BoundOp) else type(op)
    return Activation(_kind(named), named.PYTORCH, op.operands[0], (op,))


def _gated(op: nn.MulOp) -> Activation | None:
    """x * sigmoid(x), x * tanh(softplus(x)), x * hard_sigmoid(x) with slope 1/6: Swish, Mish, HardSwish."""
    for x, gate in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        match gate:
            case OpResult(op=nn.SigmoidOp() as sigmoid) if sigmoid.input is x:
                return Activation("swish", "Swish", x, (sigmoid, op))
            case OpResult(op=nn.TanhOp(input=OpResult(op=nn.SoftplusOp() as softplus)) as tanh) if softplus.input is x:
                return Activation("mish", "Mish", x, (softplus, tanh, op))
            case OpResult(op=nn.HardSigmoidOp() as hard) if hard.input is x and _is_hard_swish_gate(hard):
                return Activation("hard_swish", "Hardswish", x, (hard, op))
            case _:
                pass
    return None


def _is_hard_swish_gate(op: nn.HardSigmoidOp) -> bool:
    return isclose(op.alpha.value.data, 1 / 6, rel_tol=_FLOAT32) and op.beta.value.data == 0.5


def _gelu(op: nn.MulOp) -> Activation | None:
    """Matches 0.5 * x * (1 + erf(x / sqrt(2))), multiplied in any order: the GELU of PyTorch before opset 20, and of Keras 3."""
    for nested, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if not isinstance(nested, OpResult) or not isinstance(inner := nested.op, nn.MulOp):
            continue
        for half, x, gate in permutations((inner.lhs, inner.rhs, other)):
            if _scalar(half) == 0.5 and (parts := _erf_gate(x, gate)) is not None:
                return Activation("gelu", "GELU", x, (*parts, inner, op))
    return None


def _erf_gate(x: SSAValue, gate: SSAValue) -> tuple[nn.NNOp, ...] | None:
    """The operations of 1 + erf(x / sqrt(2)), or of 1 - erf(-x / sqrt(2)), the imported form of Keras's erfc."""
    match gate:
        case OpResult(op=nn.AddOp(lhs=lhs, rhs=rhs) as add):
            erf, one = (rhs, lhs) if _scalar(lhs) == 1 else (lhs, rhs)
            factor = sqrt(0.5)
        case OpResult(op=nn.SubOp(lhs=one, rhs=erf) as add):
            factor = -sqrt(0.5)
        case _:
            return None
    if _scalar(one) != 1 or not isinstance(erf, OpResult) or not isinstance(erf.op, nn.ErfOp):
        return None
    scale = _scaled(x, erf.op.input, factor)
    return None if scale is None else (*scale, erf.op, add)


def _scaled(x: SSAValue, value: SSAValue, factor: float) -> tuple[nn.NNOp, ...] | None:
    """The operations that multiply x by a factor, whose sign may be a separate operation."""
    match value:
        case OpResult(op=nn.MulOp(lhs=lhs, rhs=rhs) as scale):
            pairs = ((lhs, _scalar(rhs)), (rhs, _scalar(lhs)))
        case OpResult(op=nn.DivOp(lhs=lhs, rhs=rhs) as scale):
            pairs = ((lhs, 1 / (_scalar(rhs) or inf)),)
        case _:
            return None
    for scaled, constant in pairs:
        if scaled is x and isclose(constant, factor, rel_tol=_FLOAT32):
            return (scale,)
        match scaled:
            case OpResult(op=nn.NegOp() as negation) if negation.input is x:
                if isclose(-constant, factor, rel_tol=_FLOAT32):
                    return negation, scale
            case _:
                pass
    return None


_FLOAT32 = 2.0**-22
"""Constants are of float32 at best: two units in the last place."""


def _scalar(value: SSAValue) -> float:
    """The one number of a constant; otherwise NaN."""
    array = nn.array_of(value) if size(shape_of(value)) == 1 else None
    return float("nan") if array is None else float(array.reshape(()))
