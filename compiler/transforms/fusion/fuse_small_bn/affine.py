"""The rest of a batch norm after constant folding: products and sums with constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, OpResult

from ....dialects import nn
from ....rewriting import Guard, Remarks, Roots, condition, layer_of
from ..computing import TrainedLayers
from .expressions import is_expression, numbers
from .norm import RULES, Rules, SmallNorm, SmallNormPattern, Statistics, channel_axis, followed_by, steps_to

_SUMS = (nn.AddOp, nn.SubOp)
_PRODUCTS = (nn.MulOp, nn.DivOp)
_NORMALIZATIONS = (nn.LayerNormOp, nn.InstanceNormOp, nn.GroupNormOp)


class FuseAffineNorm(SmallNormPattern):
    """x * k + c and (x - c1) * k + c2, and every longer run of products, quotients, sums and differences with constants of one
    number per channel, are batch norms with mean 0, variance 1, epsilon 0 (what grappler and --fold-constants leave of one;
    beyond AMCT)
    """

    name = "affine-batch-norm"
    roots: ClassVar[Roots] = nn.kinds(nn.ArithmeticOp)

    def __init__(self, remarks: Remarks, guards: Sequence[Guard] = (), rules: Rules = RULES["extended"], qat: str = ""):
        super().__init__(remarks, guards, rules, qat)
        self._trained = TrainedLayers()

    @condition
    def no_layer_norm(self, m: SmallNorm) -> str | None:
        """the input is not standardized at run time: then these are the scale and offset of a layer or instance norm"""
        if not isinstance(m.input, OpResult):
            return None
        producer = m.input.op
        standardizing = isinstance(producer, _PRODUCTS) and not any(map(is_expression, producer.operands))
        if standardizing or isinstance(producer, _NORMALIZATIONS):
            return f"its input is standardized at run time by '{producer.name}' {layer_of(producer)}"
        return None

    def match(self, op: Operation) -> SmallNorm | None:
        if not isinstance(op, _SUMS + _PRODUCTS) or followed_by(op, *_SUMS, *_PRODUCTS):
            return None
        steps = steps_to(op)
        kinds = [type(step.op) for step in steps]
        if not any(issubclass(k, _SUMS) for k in kinds) or not any(issubclass(k, _PRODUCTS) for k in kinds):
            return None
        found = SmallNorm.of(steps)
        if self._trained.behind(found.input) is not None:
            return None  # adapt-qat makes these factors and shifts part of scales and biases
        # numbers that are not a batch norm's are not a missed batch norm either
        runs_along_channels = any(step.size > 1 for step in steps) and isinstance(channel_axis(found), int)
        return found if runs_along_channels else None

    def statistics(self, m: SmallNorm) -> Statistics:
        factor, shift = np.ones(1), np.zeros(1)
        for step in m.steps:
            number = numbers(step.parameter).reshape(-1)
            match step.op:
                case nn.AddOp():
                    shift = shift + number
                case nn.SubOp():
                    shift = shift - number
                case nn.MulOp():
                    factor, shift = factor * number, shift * number
                case _:
                    factor, shift = factor / number, shift / number
        return Statistics(factor, shift, np.zeros(1), np.ones(1))
