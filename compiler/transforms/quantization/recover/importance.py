"""The importance of layers' output channels: the factor by which the layers after them amplify an error in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Use

from ....dialects.nn import (
    AddOp,
    DivOp,
    MulOp,
    NNOp,
    ObserveOp,
    SubOp,
    UnaryOp,
    WeightedOp,
    array_of,
)
from ....dialects.nn.shapes import shape_of
from ....ir.array import Array
from ...channels import Channels, carried, followed
from ..decide.sites import Site, sites
from .round_weights.integer_layers import WEIGHT

Matters = Mapping[Operation, Array]
"""Weights of the squared error of each output channel, by layer: float64 [channels], 1 on average."""


def matters_of(module: ModuleOp) -> Matters:
    """Computes these weights: the squares of all weights that read a channel, times what their outputs matter.

    All channels are alike where something else than layers with constant weights reads them: an output of the model, a
    normalization. Through additions the channels of residual networks are followed to all layers, and through products with
    computed values, which are taken to be as large for one channel as for another: hard swish, squeeze-and-excitation.
    """
    layers = {site.compute: site for site in sites(module, (WeightedOp,)) if _weight(site) is not None}
    found: dict[Operation, Array] = {}
    for op in reversed(layers):
        axis = cast(WeightedOp, op).output_axis
        found[op] = np.ones(1)
        if axis is not None:
            count = int(cast(WeightedOp, op).weight_outputs().max()) + 1
            energies = np.zeros(count)
            uses = followed(op.results[0], Channels(axis, np.arange(count)), _behind)
            known = all(_add(energies, *each, layers, found) for each in uses)
            found[op] = energies / energies.mean() if known and energies.any() else np.ones(count)
    return found


def _weight(site: Site) -> Array | None:
    """The numbers of a layer's constant weight."""
    array = None if site.multiplies_inputs else array_of(site.operand(WEIGHT))
    return array if array is not None and array.size and array.dtype.kind == "f" else None


def _behind(use: Use, channels: Channels) -> Channels | None:
    """The position of channels behind an operation that keeps them apart; None for other operations."""
    op = use.operation
    if isinstance(op, AddOp | SubOp | MulOp | DivOp) and shape_of(op.operands[use.index]) == shape_of(op.results[0]):
        return channels
    if not isinstance(op, NNOp) or use.index != 0 or len(op.results) != 1:
        return None
    return carried(op, channels) if isinstance(op, UnaryOp | ObserveOp) or op.is_homogeneous else None


def _add(energies: Array, use: Use, channels: Channels, layers: Mapping[NNOp, Site], found: Matters) -> bool:
    """Add the squares of a layer's weights for the channels that it reads, times the weights of its own outputs;
    returns whether it is a layer that reads channels.
    """
    op = use.operation
    if op not in layers or use.index != 0 or channels.axis != cast(WeightedOp, op).input_axis:
        return False
    weight = _weight(layers[cast(NNOp, op)])
    assert weight is not None, "it is among the layers"
    squares = np.square(weight, dtype=np.float64) * found[op][cast(WeightedOp, op).weight_outputs()]
    inputs = np.broadcast_to(cast(WeightedOp, op).weight_inputs(), squares.shape)
    np.add.at(energies, channels.of, np.bincount(inputs.reshape(-1), squares.reshape(-1), len(channels.of)))
    return True
