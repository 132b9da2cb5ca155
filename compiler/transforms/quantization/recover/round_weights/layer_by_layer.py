"""Changes layers one after the other, each for the inputs that the changed layers before it produce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp

from .....backends import HERE, Runner
from .....files import scratch
from .....ir.weights import return_freed_memory
from .....rewriting import Remarks
from .....runtime.data import Samples
from .integer_layers import IntegerLayer
from .networks import Networks

Step = Callable[[IntegerLayer, Networks], IntegerLayer]
"""Maps a layer, with the networks before it, to the changed layer."""


def layer_by_layer(
    module: ModuleOp,
    layers: Sequence[IntegerLayer],
    step: Step,
    samples: Samples,
    remarks: Remarks,
    runner: Runner = HERE,
    *,
    work: str,
    beside: bool,
) -> None:
    """Take a step for each layer, in the order of the module; undo all, with remarks, if the outputs of the network lose by them.
    `work` names what the steps do; `beside` is false if they do not use the float network. The cluster of `runner` computes what
    they sum.

    Raises CompileError, located in the data, and at a layer for NaN and Inf.
    """
    undo: list[tuple[IntegerLayer, Callable[[], None]]] = []
    with scratch() as folder:
        networks = Networks(module, layers, samples, folder, remarks.session, runner, work=work, beside=beside)
        for i, layer in enumerate(layers):
            networks.unchanged[layer.compute].update(layer.operands())
            back, given = _back(layer), tuple(layer.site.owner.operands)
            networks.change(layer, step(layer, networks).operands())
            if tuple(layer.site.owner.operands) != given:
                undo.append((layer, back))
            return_freed_memory()
            remarks.session.progress("layers", i + 1, len(layers))
        lost = networks.lost() if undo else None
    if lost is not None:
        for layer, back in reversed(undo):
            back()
            remarks.forget(layer.compute)
            remarks.missed(layer.compute, "outputs", lost)


def _back(layer: IntegerLayer) -> Callable[[], None]:
    """Gives the layer back the operands and attributes that it has now."""
    compute, owner = layer.site.compute, layer.site.owner
    attributes, operands = dict(compute.attributes), tuple(owner.operands)

    def back() -> None:
        compute.attributes.clear()
        compute.attributes.update(attributes)
        owner.operands = operands

    return back
