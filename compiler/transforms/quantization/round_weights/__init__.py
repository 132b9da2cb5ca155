"""`--round-weights`: weights on their grid so that a layer's output changes least, instead of each to its nearest number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....dialects.nn import plan_of
from ....rewriting import Remarks, erase_dead_constants
from ....runtime.data import Samples
from ....session import Session, session_of
from ..data_options import DataOptions
from ..layers import channel_axis
from ..profiles import profile_of
from ..recovery_options import Method
from ..recurrent import recurrent_layers
from .adaround import adaround
from .integer_layers import IntegerLayer, integer_layers
from .layer_by_layer import layer_by_layer
from .layer_data import Networks
from .rounding import gptq, matched, with_least_error


@dataclass(frozen=True)
class RoundWeightsPass(DataOptions, ModulePass):
    """Choose the integers of weights by what they make of the layers' outputs, one layer after the other. Stands between
    `--calibrate` and `--convert-observers`. Weights then hold numbers of their grid, and plans the scales.
    """

    name = "round-weights"
    positional: ClassVar[str] = "method"

    method: Method = "mismatch"
    """`gptq`: the weights that are rounded later make up for the errors of those before. `mismatch`: the same, after all of them
    have moved to where they make up for what rounding in earlier layers does to the input. `adaround`: each weight up or down, by
    gradient (AMCT's ADA).
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        round_weights(op, self.method, lambda: self.load(op, session), session)


def round_weights(module: ModuleOp, method: Method, samples: Callable[[], Samples], session: Session) -> None:
    """Round the weights of the layers whose plans have integer ones. Raises CompileError, located at a layer or in the data."""
    remarks = Remarks(session, RoundWeightsPass.name)
    layers = list(integer_layers(module, profile_of(session)))
    broken = {layer.compute: found for layer in layers if (found := _broken(layer)) is not None}
    for compute, reason in broken.items():
        remarks.missed(compute, *reason)
    for each in recurrent_layers(module):
        if (plan := plan_of(each.op)) is not None and plan.weights:
            remarks.missed(each.op, "recurrent", "the weights of recurrent layers are rounded to the nearest numbers")

    def step(layer: IntegerLayer, networks: Networks) -> IntegerLayer:
        return layer if layer.compute in broken else _rounded(layer, method, networks, remarks)

    if len(broken) < len(layers):
        layer_by_layer(module, layers, step, samples(), session, beside=method == "mismatch")
    erase_dead_constants(module)
    remarks.flush()


def _broken(layer: IntegerLayer) -> tuple[str, str] | None:
    """The condition that does not hold, and the reason."""
    if layer.plan.input and layer.input_scale is None:
        return "calibrated", "its input has no parameters: --calibrate comes before --round-weights"
    if layer.product is None:
        which = "transposed convolutions and batches of matrices"
        return "one-matrix", f"the weights of {which} are rounded to the nearest numbers"
    if layer.weight.levels is not None:
        return "all-levels", "its weight has few levels, which are chosen by their values"
    if layer.weight.axis not in (None, channel_axis(layer.compute)):
        return "channel-axis", "the scales of its weight are not those of output channels"
    return None


def _rounded(layer: IntegerLayer, method: Method, networks: Networks, remarks: Remarks) -> IntegerLayer:
    """The layer with the integers that are found, or as it is, where these are no better than the nearest."""
    assert layer.product is not None, "a condition"
    weights = layer.product.matrices(layer.float_weight)
    groups, channels, columns = weights.shape
    data, grid = networks.data(layer.compute, layer.product, groups, columns), layer.grid(groups, channels)
    target = matched(weights, data.sums) if method == "mismatch" else weights
    round_to = adaround if method == "adaround" else gptq
    per_tensor = layer.weight.axis is None
    found = grid if layer.weight.fixed else with_least_error(target, data.sums.h, grid, per_tensor)
    nearest, integers = grid.nearest(weights), round_to(target, data.sums.h, found)
    before, after = (data.sqnr(weights, each) for each in (nearest, integers * found.scale))
    if not after > before:
        reason = f"its output has {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding, which stays"
        remarks.missed(layer.compute, "improves", f"{reason}{networks.measured}")
        return layer
    reason = f"SQNR of its output {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding"
    remarks.applied(layer.compute, "rounded", f"{reason}{networks.measured}")
    scales = np.asarray(found.scale, np.float32).reshape(-1)[0 if per_tensor else slice(None), ...]
    return layer.with_integers(layer.product.weight(integers), scales)
