"""Changes layers one after the other, each for the inputs that the changed layers before it produce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp

from ....files import scratch
from ....runtime.data import Samples
from ....session import Session
from .integer_layers import WEIGHT, IntegerLayer
from .layer_data import Networks

Step = Callable[[IntegerLayer, Networks], IntegerLayer]
"""Maps a layer, with the networks before it, to the changed layer."""


def layer_by_layer(
    module: ModuleOp, layers: Sequence[IntegerLayer], step: Step, samples: Samples, session: Session, *, beside: bool
) -> None:
    """Take a step for each layer, in the order of the module. `beside` is false if the steps do not use the float network.

    Raises CompileError, located in the data, and at a layer for NaN and Inf.
    """
    with scratch() as folder:
        originals = {layer.compute: {WEIGHT: layer.float_weight} for layer in layers}
        networks = Networks(module, originals, samples, folder, beside=beside)
        for i, layer in enumerate(layers):
            networks.operands[layer.compute].update(step(layer, networks).operands())
            session.progress("layers", i + 1, len(layers))
