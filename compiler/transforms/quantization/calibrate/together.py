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
from ....dialects.nn.shapes import known, shape_of, static
from ....ir.functions import main_function
from ....runtime.data import Samples
from .observations import Observation

MOST = 32
LARGEST = 1 << 18
"""Numbers that a value may have."""


def together(module: ModuleOp, observed: Sequence[Observation], samples: Samples) -> Samples:
    """The samples, several at a time where this changes nothing: the model computes each by itself, and batches matter to no
    observer.
    """
    if any(each.observer.batches_matter for each in observed):
        return samples
    operations = list(_operations(module))
    values = [*main_function(module).body.block.args, *(result for op in operations for result in op.results)]
    if not all(map(_counts_samples, values)) or not all(map(_acts_by_sample, operations)):
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
    """The number of elements of one sample."""
    return prod(shape_of(value)[1:])


def _acts_by_sample(op: Operation) -> bool:
    """The operations inside a region are checked themselves."""
    return isinstance(op, nn.FusedOp) or (isinstance(op, nn.NNOp) and op.acts_by_sample)
