"""Rounds weights block by block, as the networks come to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....rewriting import Remarks, layer_of
from .blocks import blocks_of
from .folds import Folds
from .integer_layers import IntegerLayer
from .networks import Networks, Step, layer_by_layer

if TYPE_CHECKING:
    from .reconstruction import Found


def round_blocks(
    module: ModuleOp,
    layers: Sequence[IntegerLayer],
    rounding: Collection[Operation],
    otherwise: Step,
    folds: Folds,
    remarks: Remarks,
) -> None:
    """Round the weights of these layers block by block; `otherwise` is the step of all others, and of layers in blocks with an
    operation that PyTorch does not compute.

    Raises CompileError, located in the data, and at a layer for NaN and Inf.
    """
    from .reconstruction import Reconstruction, lacking  # imports torch

    alone = {
        layer.compute for layer in layers if layer.plan.weights[0].rounding is not None or layer.second is not None
    }
    program, blocks = blocks_of(module, [op for op in rounding if op not in alone])
    lacks = {op: lack for block in blocks if (lack := lacking(block)) is not None for op in block.layers}
    whole = [block for block in blocks if lacks.keys().isdisjoint(block.layers)]
    place = {row.op: i for i, row in enumerate(program.rows)}
    current: dict[Operation, IntegerLayer] = {layer.compute: layer for layer in layers}
    solved: dict[Operation, Found] = {}

    def learn(until: Operation, networks: Networks) -> None:
        """Solve the blocks that begin before a layer: afterwards the networks do not have what these read."""
        for block in whole:
            if place[block.first] <= place[until] and solved.keys().isdisjoint(block.layers):
                runs, fit = networks.read_by(block.first)
                found = Reconstruction(block, program.constants, current, runs, fit).solved()
                solved.update(dict.fromkeys(block.layers, found))

    def step(layer: IntegerLayer, networks: Networks, remarks: Remarks) -> IntegerLayer:
        op = layer.compute
        if layer is layers[0]:  # of this turn
            solved.clear()
            current.update({each.compute: each for each in layers})
        learn(op, networks)
        if op in solved:
            current[op] = _changed(layer, solved[op], networks, remarks)
        else:
            current[op] = otherwise(layer, networks, remarks)
        if op in lacks:
            what = f"its block has {lacks[op].name} '{layer_of(lacks[op])}', which PyTorch does not compute here"
            remarks.note(op, "block", f"{what}: it is rounded by mismatch")
        return current[op]

    stops = [block.first for block in whole]
    layer_by_layer(module, layers, step, folds, remarks, work="round-weights block", beside=True, stops=stops)


def _changed(layer: IntegerLayer, found: Found, networks: Networks, remarks: Remarks) -> IntegerLayer:
    """The layer with its part of a block's solution; as it is, if the block's output is no closer to the float network's then."""
    gain, size = networks.gain(layer, lambda: (found.before, found.after)), len(found.solutions)
    output = "its output" if size == 1 else f"the output of its block of {size} layers"
    numbers = f"{gain.after:.1f} dB by {found.method}, {gain.before:.1f} dB by nearest rounding"
    if not gain.after > gain.before:
        remarks.missed(layer.compute, "improves", f"{output} has {numbers}, which stays{networks.measured}", gain)
        return layer.with_nearest()
    remarks.applied(layer.compute, "rounded", f"SQNR of {output} {numbers}{networks.measured}", gain)
    return layer.with_integers(*found.solutions[layer.compute])
