"""Activations of 16 bits: the layers that can have them, and the cost at the outputs of rounding them to 8 and to 16 bits.

In profiles that quantize inputs of layers they are the inputs, and a layer is measured by itself in both forms. In profiles that
quantize values they are the values whose points have the layer's settings: its result, and what it reads that no quantized layer
computes. Rounding is measured there, value by value.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ..dialects.nn import ObserveOp
from ..rewriting import layer_of
from ..session import Session
from ..transforms.inline_fused import inline_fused
from ..transforms.quantization.place.insert_observers import insert_observers
from ..transforms.quantization.recover.layer_effects import layer_values
from ..transforms.quantization.request import Request, Resolved

WIDE = 16
"""Bits of the widest activations."""


def can_widen(request: Resolved) -> list[str]:
    """The layers whose activations have fewer than 16 bits and can have 16, except those that `layer_bits` names. None
    with a record, which has the parameters, and where values share parameters, and therefore bits (profile ppq).
    """
    aligned = request.points.modes(request.profile, request.settings.joint_quant).values()
    if request.record is not None or (request.profile.points == "values" and {*aligned} != {"none"}):
        return []
    held = [(each.layer, request.layers.held[each.site.compute]) for each in request.layers.able]
    return [
        layer.name
        for layer, own in held
        if layer.wide
        and own.quantize
        and own.bits < WIDE
        and not own.weight_compress_only
        and layer.name not in request.settings.bits
    ]


def own_values(fused: ModuleOp, request: Request, session: Session) -> dict[str, list[int]]:
    """The values whose points have the settings of a layer, by layer name: their places in `layer_values` of the module
    without regions.
    """
    observed = fused.clone()
    insert_observers(observed, request, session.silent())
    inline_fused(observed)
    found: dict[str, list[int]] = {}
    for i, value in enumerate(layer_values(observed)):
        for point in (use.operation for use in value.uses if isinstance(use.operation, ObserveOp)):
            found.setdefault(layer_of(point), []).append(i)
    return found
