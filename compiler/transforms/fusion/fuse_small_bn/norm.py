"""The common parts of all forms of a batch norm in small operations: the match, its conditions, and the batch norm it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, known, shape_of, text
from ....ir.dtypes import is_float, numpy_dtype
from ....rewriting import Array, Folded, FusionPattern, Guard, Remarks, condition, layer_of, other_uses
from ..amct_rules import amct
from .expressions import is_expression, operations

_ONE_NUMBER = 1


_RANKS = {"tf1.15": (4,)}
"""The ranks of inputs that AMCT accepts under a version of TensorFlow; otherwise 4 and 5."""


class Statistics(NamedTuple):
    """The parameters of a batch norm, float64, each of one number or one per channel."""

    scale: Array
    offset: Array
    mean: Array
    variance: Array


class Step(NamedTuple):
    """An operation of a batch norm on a value: sum, difference, product or quotient with a parameter."""

    op: nn.ArithmeticOp
    value: SSAValue
    parameter: SSAValue

    @property
    def size(self) -> int:
        """The number of elements of the parameter."""
        return prod(shape_of(self.parameter))


def step_of(op: Operation) -> Step | None:
    """An operation as a step; None unless its operands are a value and an expression of constants."""
    if not isinstance(op, nn.ArithmeticOp) or not is_float(element_of(op.result)):
        return None
    left, right = map(is_expression, op.operands)
    if left == right or (left and isinstance(op, nn.SubOp | nn.DivOp)):
        return None
    return Step(op, op.rhs, op.lhs) if left else Step(op, op.lhs, op.rhs)


_REFUSED = 16
"""The most steps of a run that cannot be used because others read a result inside it: such steps only give the reason."""


def steps_to(op: Operation, limit: int | None = None) -> list[Step]:
    """The longest run of steps that ends in `op`, in order; at most `limit`."""
    steps: list[Step] = []
    current: Operation | None = op
    while current is not None and len(steps) != limit and (step := step_of(current)) is not None:
        steps.append(step)
        if limit is None and not step.value.has_one_use():
            limit = max(_REFUSED, len(steps) + 1)
        current = step.value.op if isinstance(step.value, OpResult) else None
    return steps[::-1]


def followed_by(op: Operation, *kinds: type[Operation]) -> bool:
    """Whether the only use of an operation is a step of one of these kinds on its result."""
    result = op.results[0]
    if not result.has_one_use():
        return False
    user = next(iter(result.uses)).operation
    step = step_of(user) if isinstance(user, kinds) else None
    return step is not None and step.value is result


@dataclass(frozen=True)
class SmallNorm:
    """A batch norm written as small operations."""

    steps: tuple[Step, ...]
    """The steps from the input to the root."""
    arithmetic: tuple[Operation, ...]
    """The operations that compute the parameters from constants."""

    @property
    def input(self) -> SSAValue:
        return self.steps[0].value

    @property
    def root(self) -> Operation:
        return self.steps[-1].op

    @staticmethod
    def of(steps: Sequence[Step]) -> SmallNorm:
        return SmallNorm(tuple(steps), tuple(operations(*(step.parameter for step in steps))))


def channel_axis(m: SmallNorm) -> int | str:
    """The axis of the parameters in the input: 1 or the last. A string is the reason why there is none."""
    shape = shape_of(m.input)
    rank = len(shape)
    varied: set[int] = set()
    for parameter in [shape_of(step.parameter) for step in m.steps]:
        if len(parameter) > rank:
            return f"a parameter {text(parameter)} is of higher rank than the input {text(shape)}"
        first = rank - len(parameter)
        varied |= {first + i for i, size in enumerate(parameter) if size != _ONE_NUMBER}
        if any(size not in (_ONE_NUMBER, shape[first + i]) for i, size in enumerate(parameter)):
            return f"a parameter {text(parameter)} does not fit the channels of {text(shape)}"
    candidates = [axis for axis in (rank - 1, 1) if varied <= {axis} and known(shape[axis])]
    if not varied:  # single numbers are a batch norm of one channel
        candidates = [axis for axis in candidates if shape[axis] == _ONE_NUMBER]
    if not candidates:
        return f"its parameters run along the axes {sorted(varied)} of {text(shape)}"
    return candidates[0]


class SmallNormPattern(FusionPattern[SmallNorm]):
    """The pattern of a batch norm in small operations on a value and constants."""

    def __init__(self, remarks: Remarks, guards: Sequence[Guard] = (), qat: str = ""):
        super().__init__(remarks, guards)
        self.qat = qat
        """The operation that shows that the module was trained with quantization; empty if there is none."""

    @amct
    def not_trained_with_quantization(self, m: SmallNorm) -> str | None:
        """the module has no quantization nodes, neither FakeQuant nor quantize and dequantize (PTQ only)"""
        return f"the module holds {self.qat}" if self.qat else None

    @condition
    def inner_used_once(self, m: SmallNorm) -> str | None:
        """the results between input and output are used once (a graph output is a use)"""
        for step in m.steps[:-1]:
            if (reason := other_uses(step.op.result, layer_of(step.op))) is not None:
                return reason
        return None

    @condition
    def input_rank(self, m: SmallNorm) -> str | None:
        """the input is of rank 2 or more"""
        return "its input has no channels" if len(shape_of(m.input)) < 2 else None

    @amct
    def rank_of_amct(self, m: SmallNorm) -> str | None:
        """the input is of rank 4 or, except for tf1.15, of rank 5"""
        rules = self.remarks.session.rules
        rank, ranks = len(shape_of(m.input)), _RANKS.get(rules or "", (4, 5))
        return (
            None
            if rank in ranks
            else f"its input is of rank {rank}, rules {rules} allow {' and '.join(map(str, ranks))}"
        )

    @amct
    def behind_convolution(self, m: SmallNorm) -> str | None:
        """the input comes from a convolution, directly or through a BiasAdd; of rank 5, from a three-dimensional one"""
        value = m.input
        if isinstance(value, OpResult) and isinstance(value.op, nn.BiasAddOp):
            value = value.op.input
        if isinstance(value, OpResult) and isinstance(value.op, nn.ConvOp):
            return None
        return "its input does not come from a convolution [+ BiasAdd]"

    @condition
    def along_channels(self, m: SmallNorm) -> str | None:
        """the parameters run along the channels only, axis 1 or the last one, whose number is known"""
        axis = channel_axis(m)
        return axis if isinstance(axis, str) else None

    def statistics(self, m: SmallNorm) -> Statistics:
        """The parameters of the batch norm, in float64."""
        raise NotImplementedError

    def epsilon(self, m: SmallNorm) -> float:
        """The number added to the variance."""
        return 0.0

    def fold(self, m: SmallNorm) -> Sequence[Folded]:
        axis = channel_axis(m)
        assert isinstance(axis, int)
        channels = (shape_of(m.input)[axis],)
        dtype = numpy_dtype(element_of(m.input))
        wide = np.dtype(np.float32) if dtype.itemsize < np.dtype(np.float32).itemsize else dtype
        return [
            Folded(f"{layer_of(m.root)}.{name}", wide, np.broadcast_to(values.reshape(-1), channels))
            for name, values in self.statistics(m)._asdict().items()
        ]

    def rewrite(self, m: SmallNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        norm = nn.BatchNormOp.make(
            m.input,
            *folded,
            layout="nhwc" if channel_axis(m) == len(shape_of(m.input)) - 1 else "nchw",
            epsilon=self.epsilon(m),
            origin=m.root.properties.get("origin"),
            result_types=[m.root.results[0].type],
        )
        return [norm]

    def outcome(self, built: Operation) -> str:
        return "its small operations are one batch norm"
