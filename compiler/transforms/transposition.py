"""Permutations of axes, and how operations commute with them.

`transpose(x, p)` has axis `p[i]` of x as its axis i, as in numpy and ONNX. An operation commutes with p if it computes the
transposed result from transposed operands, its properties mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import nn
from ..dialects.nn.shapes import DYNAMIC, Shape, axes_of, axis_of, shape_of, static, tensor
from ..ir.dtypes import Tensor
from .rebuild import rebuilt

Perm = tuple[int, ...]


def identity(rank: int) -> Perm:
    """The identity permutation of this many axes."""
    return tuple(range(rank))


def inverse(perm: Perm) -> Perm:
    """The inverse of `perm`."""
    return tuple(perm.index(i) for i in range(len(perm)))


def compose(outer: Perm, inner: Perm) -> Perm:
    """The composed permutation: `transpose(transpose(x, inner), outer)`."""
    return tuple(inner[i] for i in outer)


def permuted(shape: Sequence[int], perm: Perm) -> Shape:
    """The transposed sizes."""
    return tuple(shape[i] for i in perm)


def permuted_type(type_: Attribute, perm: Perm) -> Tensor:
    """The type of the transposed tensor."""
    declared = cast(Tensor, type_)
    return tensor(declared.element_type, permuted(declared.get_shape(), perm))


def keeps_order(shape: Shape, perm: Perm) -> bool:
    """Whether the elements stay in order: only axes of size 1 move."""
    moving = [axis for axis in perm if shape[axis] != 1]
    return moving == sorted(moving)


class Moved(NamedTuple):
    """How an operation computes on permuted operands."""

    operands: tuple[Perm | None, ...]
    """For each operand its permutation, None if unchanged; longer than its rank if it broadcasts."""
    properties: dict[str, Any]
    """Changed properties, as Python values or attributes."""
    results: tuple[Perm, ...]
    kind: type[nn.NNOp] | None = None
    """The class that computes it, if it differs."""


Rule = Callable[[Any, Perm], Moved | None]


def commute(op: Operation, perm: Perm) -> Moved | None:
    """How `op` computes if the axes of its first data operand (and result) are permuted; None if it cannot."""
    rule = RULES.get(type(op))
    return None if rule is None else rule(op, perm)


def _elementwise(op: Operation, perm: Perm) -> Moved | None:
    if any(len(shape_of(r)) != len(perm) for r in op.results):
        return None
    return Moved((perm,) * len(op.operands), {}, (perm,))


def _along_axis(op: nn.ConcatOp | nn.SplitOp | nn.SoftmaxOp | nn.LogSoftmaxOp, perm: Perm) -> Moved:
    axis = perm.index(axis_of(op.axis.value.data, len(perm)))
    return Moved((perm,) * len(op.operands), {"axis": axis}, (perm,) * len(op.results))


def _pad(op: nn.PadOp, perm: Perm) -> Moved:
    n, pads = len(perm), nn.ints(op.pads)
    return Moved((perm,), {"pads": (*permuted(pads[:n], perm), *permuted(pads[n:], perm))}, (perm,))


def _slice(op: nn.SliceOp, perm: Perm) -> Moved:
    axes = axes_of(nn.ints(op.axes, range(len(nn.ints(op.starts)))), len(perm))
    return Moved((perm,), {"axes": [perm.index(a) for a in axes]}, (perm,))


def _without(perm: Perm, dropped: Sequence[int]) -> Perm:
    """The permutation of the remaining axes after these (old) axes are removed."""
    left = sorted(a for a in perm if a not in dropped)
    return tuple(left.index(a) for a in perm if a not in dropped)


def _reduce(op: nn.ReduceOp, perm: Perm) -> Moved:
    axes = op.axis_list()
    result = perm if op.keepdims is not None else _without(perm, axes)
    if op.axes is None:
        return Moved((perm,), {}, (result,))
    return Moved((perm,), {"axes": sorted(perm.index(a) for a in axes)}, (result,))


def _arg(op: nn.ArgMaxOp | nn.ArgMinOp, perm: Perm) -> Moved:
    axis = axis_of(op.axis.value.data, len(perm))
    result = perm if op.keepdims is not None else _without(perm, [axis])
    return Moved((perm,), {"axis": perm.index(axis)}, (result,))


def _squeeze(op: nn.SqueezeOp, perm: Perm) -> Moved:
    shape = shape_of(op.input)
    axes = axes_of(nn.ints(op.axes, [i for i, d in enumerate(shape) if d == 1]), len(shape))
    return Moved((perm,), {"axes": sorted(perm.index(a) for a in axes)}, (_without(perm, axes),))


def _resize(op: nn.ResizeOp, perm: Perm) -> Moved:
    if op.scales is not None:
        return Moved((perm,), {"scales": [op.scales.data[i] for i in perm]}, (perm,))
    return Moved((perm,), {"sizes": permuted(nn.ints(op.sizes), perm)}, (perm,))


def _gather(op: nn.GatherOp, perm: Perm) -> Moved | None:
    axis = axis_of(op.axis.value.data, len(perm))
    rank = len(shape_of(op.indices))
    if rank > 1 or op.batch_count:
        return None
    return Moved((perm, None), {"axis": perm.index(axis)}, (perm if rank else _without(perm, [axis]),))


def _quantization(op: nn.PointOp, perm: Perm) -> Moved:
    qparams = op.properties.get("qparams")
    if not isinstance(qparams, nn.QParamsAttr) or qparams.data.axis is None:
        return Moved((perm,), {}, (perm,))
    moved = qparams.data.transposed(perm, shape_of(op.operands[0]))
    return Moved((perm,), {"qparams": nn.QParamsAttr(moved)}, (perm,))


def _layer_norm(op: nn.LayerNormOp, perm: Perm) -> Moved | None:
    """Commutes if the normalized axes, and with them scale and bias, stay in place."""
    axis = axis_of(op.axis.value.data, len(perm))
    fixed = all(perm[i] == i for i in range(axis, len(perm)))
    if not fixed or any(len(shape_of(v)) > len(perm) - axis for v in op.operands[1:]):
        return None
    return Moved((perm, *(None for _ in op.operands[1:])), {"axis": axis}, (perm,))


def _reshape(op: nn.ReshapeOp | nn.FlattenOp, perm: Perm) -> Moved | None:
    """Commutes if the permutation keeps the elements in order: the result is the same."""
    target = tuple(-1 if d == DYNAMIC else d for d in shape_of(op.result))
    if len(op.operands) > 1 or not keeps_order(shape_of(op.input), perm) or target.count(-1) > 1 or 0 in target:
        return None
    return Moved((perm,), {"to": target}, (identity(len(target)),), nn.ReshapeOp)


RULES: Mapping[type[Operation], Rule] = {
    **dict.fromkeys(nn.kinds(nn.ElementwiseOp), _elementwise),
    **dict.fromkeys((nn.ConcatOp, nn.SplitOp, nn.SoftmaxOp, nn.LogSoftmaxOp), _along_axis),
    **dict.fromkeys(nn.kinds(nn.ReduceOp), _reduce),
    **dict.fromkeys(nn.kinds(nn.ArgOp), _arg),
    **dict.fromkeys(nn.kinds(nn.PointOp), _quantization),
    **dict.fromkeys((nn.ReshapeOp, nn.FlattenOp), _reshape),
    nn.PadOp: _pad,
    nn.SliceOp: _slice,
    nn.SqueezeOp: _squeeze,
    nn.ResizeOp: _resize,
    nn.GatherOp: _gather,
    nn.LayerNormOp: _layer_norm,
}
"""The operations that commute with permutations, with their rules."""


def leads(op: Operation, value: SSAValue) -> bool:
    """Whether a permutation of this operand is one of the operation."""
    return value is op.operands[0] or isinstance(op, nn.ElementwiseOp | nn.ConcatOp)


def build_moved(op: nn.NNOp, moved: Moved, operands: Sequence[SSAValue]) -> nn.NNOp:
    """The operation on permuted operands, its result types permuted."""
    types = [permuted_type(r.type, p) for r, p in zip(op.results, moved.results, strict=True)]
    if moved.kind is None:
        return rebuilt(op, operands, types, **moved.properties)
    new = moved.kind.make(*operands, result_types=types, origin=op.origin, location=op.location, **moved.properties)
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
