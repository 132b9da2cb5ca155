"""Operations on permuted operands, and constants for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import cast

from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import nn
from ..dialects.nn.base import rebuilt
from ..dialects.nn.permutations import Moved, Perm, permuted
from ..dialects.nn.shapes import axis_of, shape_of, static, tensor
from ..ir.dtypes import Tensor


def permuted_type(type_: Attribute, perm: Perm) -> Tensor:
    """The type of the transposed tensor."""
    declared = cast(Tensor, type_)
    return tensor(declared.element_type, permuted(declared.get_shape(), perm))


@cache
def follows(kind: type[Operation]) -> bool:
    """Whether there are permutations that operations of a class commute with."""
    return issubclass(kind, nn.NNOp) and kind.commuted is not nn.NNOp.commuted


def commute(op: Operation, perm: Perm) -> Moved | None:
    """`op` on permuted axes of its first data operand (and result); None if it cannot be computed on these."""
    return cast(nn.NNOp, op).commuted(perm) if follows(type(op)) else None


def leads(op: Operation, value: SSAValue) -> bool:
    """Whether a permutation of this operand is one of the operation."""
    return value is op.operands[0] or isinstance(op, nn.ElementwiseOp | nn.ConcatOp)


def build_moved(op: nn.NNOp, moved: Moved, operands: Sequence[SSAValue]) -> nn.NNOp:
    """The operation on permuted operands, its result types permuted."""
    types = [permuted_type(r.type, p) for r, p in zip(op.results, moved.results, strict=True)]
    if moved.kind is None:
        return rebuilt(op, operands, types, **moved.properties)
    kind = cast("type[nn.NNOp]", moved.kind)
    new = kind.make(*operands, result_types=types, origin=op.origin, location=op.location, **moved.properties)
    new.attributes.update(op.attributes)
    new.results[0].name_hint = op.results[0].name_hint
    return new


def is_constant(value: SSAValue) -> bool:
    """A constant, or the dequantized form of one."""
    owner = value.owner
    return isinstance(owner, nn.ConstantOp) or (
        isinstance(owner, nn.DequantizeOp) and nn.constant_of(owner.input) is not None
    )


def permute_constant(value: SSAValue, perm: Perm) -> list[Operation]:
    """Operations whose last one gives the transposed constant; a constant of lower rank first gets axes of size 1."""
    owner = value.owner
    if isinstance(owner, nn.DequantizeOp):
        made = permute_constant(owner.input, perm)
        shape, qparams = shape_of(value), owner.qparams.data
        lifted = len(perm) - len(shape)
        if qparams.axis is not None:
            qparams = replace(qparams, axis=axis_of(qparams.axis, len(shape)) + lifted)
            qparams = qparams.transposed(perm, (*(1,) * lifted, *shape))
        result = tensor(cast(Tensor, value.type).element_type, shape_of(made[-1].results[0]))
        return [*made, rebuilt(owner, made[-1].results, [result], qparams=nn.QParamsAttr(qparams))]
    constant = cast(nn.ConstantOp, owner)
    array = constant.array
    array = array.reshape((1,) * (len(perm) - array.ndim) + array.shape).transpose(perm)
    return [nn.ConstantOp.of(array, constant.key, constant.location)]


def is_single(value: SSAValue) -> bool:
    """Whether there is one element: it is the same under every permutation, at any rank that broadcasts."""
    shape = shape_of(value)
    return static(shape) and all(d == 1 for d in shape)
