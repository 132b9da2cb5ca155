"""Takes weights whose sums of products are exact on every processor (`portable` in plans) back if they cost accuracy."""

from __future__ import annotations

from collections import deque
from itertools import chain

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from ....data import Samples
from ....dialects.nn import ConstantOp, constant_of, set_plan
from ....ir.array import Array
from ....rewriting import Remarks, erase_dead_constants
from ....session import Session
from ....support.files import scratch
from ..decide.sites import ROUNDED_FROM
from ..portable import HIGHEST, LOWEST, channels_apart, products_of_neighbours
from ..profiles import profile_of
from .outputs import few
from .round_weights.integer_layers import WEIGHT, IntegerLayer, integer_layers
from .round_weights.networks import Rivals
from .round_weights.prefixes import network, points_of
from .round_weights.sums import some_of

RULE = "portable-weights"
RISK = 0.75
"""A layer whose largest sum of two products on data is this part of 16 bits keeps portable weights in any case."""
_SUMMED = 8
"""The largest number of samples that show how large sums are, unless one run takes more."""
_PLACES = 1 << 12
"""The most places of a run that show it."""


def plain_forms(module: ModuleOp, session: Session) -> dict[Operation, IntegerLayer]:
    """The layers with portable weights for which plain ones are not exact, in their plain form."""
    layers = integer_layers(module, profile_of(session))
    return {layer.compute: plain for layer in layers if (plain := layer.plain) is not None}


def take_back(module: ModuleOp, plain: Rivals, loss: str, samples: Samples, session: Session) -> None:
    """Give layers these plain weights, except layers whose sums of two products come near 16 bits on data, with a remark on each.

    `loss` is the reason. Raises CompileError, located at a layer or in the data.
    """
    remarks, judging = Remarks(session, RULE), few(samples, _SUMMED)
    layers = integer_layers(module, profile_of(session))
    with scratch() as folder:
        computes = [layer.compute for layer in layers]
        before = network(module, computes, [judging], folder / "plain", points_of(module))
        for layer in layers:
            other, inputs = plain.get(layer.compute), before.inputs(layer.compute)
            if other is None:
                deque(inputs, maxlen=0)
                before.operands[layer.compute].update(layer.operands())
                continue
            share = max(_largest_sum(other, array) for array in inputs)
            before.operands[layer.compute].update(other.operands())
            largest = f"its largest sum of two products takes {100 * share:.0f} % of 16 bits ({judging.count} samples)"
            if share >= RISK:
                remarks.note(layer.compute, "at-risk", f"its weights are exact on every processor: {largest}")
            else:
                _put(layer, other)
                remarks.missed(layer.compute, "accuracy", f"its weights are plain, otherwise {loss}; {largest}")
    erase_dead_constants(module)
    remarks.flush()


def _put(layer: IntegerLayer, plain: IntegerLayer) -> None:
    """Give a layer the weight of another form of it, which rounding may have replaced."""
    set_plan(layer.compute, plain.plan)
    if layer.compute.attributes.pop(ROUNDED_FROM, None) is None:
        return
    old = constant_of(layer.weight.value)
    assert old is not None, "a weight that is planned is constant"
    constant = ConstantOp.of(plain.weight.array, old.key.removesuffix(".rounded"), old.location)
    Rewriter.insert_op(constant, InsertPoint.after(old))
    layer.site.set_operand(WEIGHT, constant.result)


def _largest_sum(layer: IntegerLayer, inputs: Array) -> float:
    """The largest share of 16 bits that a sum of two neighbouring products takes."""
    params, product = layer.params, layer.product
    assert params is not None, "its input is quantized"
    rows = product.rows(inputs, some_of(product.places(inputs)[0], _PLACES, 0))
    integers = (np.rint(rows / params.scales()) + params.zero_point[0] + 128).astype(np.int32)
    matrices = layer.integers
    sums = products_of_neighbours(integers, matrices)
    if (apart := channels_apart(matrices, layer.compute)) is not matrices:
        sums = chain(sums, products_of_neighbours(channels_apart(integers, layer.compute), apart))
    return max((float(max(each.max() / HIGHEST, each.min() / LOWEST)) for each in sums), default=0.0)
