"""How many samples run at a time, where a model takes any number of them.

A run of a small model is mostly what calling its operations costs: several samples together take a fraction. A large one gains
nothing, and its values fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....dialects import nn
from ....dialects.nn.elementwise import BinaryOp, UnaryOp
from ....dialects.nn.normalization import SoftmaxLikeOp
from ....dialects.nn.reduction import ArgOp, ReduceOp
from ....dialects.nn.shapes import known, shape_of, static
from ....dialects.nn.window import LayoutOp
from ....functions import main_function
from ....runtime.data import Samples
from .observations import Observation

MOST = 32
LARGEST = 1 << 18
"""Numbers that a value may have."""

_SAMPLE_BY_SAMPLE = (
    UnaryOp,
    BinaryOp,
    nn.PReluOp,
    nn.PowOp,
    nn.CompareOp,
    nn.WhereOp,
    nn.CastOp,
    nn.FusedOp,
    nn.ObserveOp,
    nn.QuantizeOp,
    nn.DequantizeOp,
)
"""Operations that work on each sample by itself where the first axes of operands and result count samples."""
_ALONG_AN_AXIS = (nn.LayerNormOp, SoftmaxLikeOp, nn.ConcatOp, nn.SplitOp, nn.GatherOp, ArgOp)
_REARRANGING = (nn.ReshapingOp, nn.TransposeOp)


def together(module: ModuleOp, observed: Sequence[Observation], samples: Samples) -> Samples:
    """The samples, several at a time where this changes nothing: the model computes each by itself, and batches matter to no
    observer.
    """
    if any(each.observer.batches_matter for each in observed):
        return samples
    operations = list(_operations(module))
    values = [*main_function(module).body.block.args, *(result for op in operations for result in op.results)]
    if not all(map(_counts_samples, values)) or not all(map(_is_sample_by_sample, operations)):
        return samples
    return replace(samples, at_a_time=max(1, min(MOST, LARGEST // max(map(_numbers, values)))))


def _operations(module: ModuleOp) -> Iterator[Operation]:
    """All that compute a value."""
    return (op for op in main_function(module).body.walk() if op.results and not isinstance(op, nn.ConstantOp))


def _counts_samples(value: SSAValue) -> bool:
    """Whether the first size alone is open."""
    first, *rest = shape_of(value) or (0,)
    return not known(first) and static(rest)


def _numbers(value: SSAValue) -> int:
    """Of one sample."""
    return prod(shape_of(value)[1:])


def _is_sample_by_sample(op: Operation) -> bool:
    if isinstance(op, nn.MatMulOp):
        return _ranks_agree(op) and (nn.constant_of(op.rhs) is not None or len(op.rhs_shape) > 2)
    if isinstance(op, LayoutOp):
        return all(nn.constant_of(v) is not None for v in op.operands[1:])
    if isinstance(op, _SAMPLE_BY_SAMPLE):
        return _ranks_agree(op)
    if isinstance(op, _REARRANGING):
        return _numbers(op.operands[0]) == _numbers(op.results[0])
    if isinstance(op, ReduceOp):
        return 0 not in op.axis_list()
    if isinstance(op, nn.GatherOp) and nn.constant_of(op.input) is not None:
        return True
    return isinstance(op, _ALONG_AN_AXIS) and op.axis.value.data % len(shape_of(op.operands[0])) != 0


def _ranks_agree(op: Operation) -> bool:
    """So that broadcasting matches samples with samples."""
    rank = len(shape_of(op.results[0]))
    return isinstance(op, nn.FusedOp) or all(len(shape_of(v)) == rank for v in op.operands if nn.constant_of(v) is None)
