"""The rules for quantizing a single input of a layer."""

from __future__ import annotations

from .....dialects.nn import array_of
from .....dialects.nn.shapes import element_of
from .....ir.dtypes import is_float
from ...tables import LayerRow
from ..layer_inputs import inputs_of
from ..legality import row_of
from ..sites import Site
from .layer_rules import input_is_computed, input_is_float, tensor_only
from .mask_rules import feeds_more_than_softmax


def tensor_broken(site: Site, index: int) -> tuple[str, str] | None:
    """The first rule, by its name, that keeps input `index` of a layer from it, and the reason.

    `site` is the layer's last operation. The layer has to be one that AMCT's table 1 has for its input tensors only.
    """
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return tensor_only.name, "only inputs of max pooling and addition are quantized by themselves"
    if (broken := _row_broken(site, row)) is not None:
        return broken
    inputs = inputs_of(site)
    if not 0 <= index < len(inputs):
        return "input-index", f"it has {len(inputs)} input{'s' if len(inputs) > 1 else ''}, counted from 0"
    if (value := inputs[index].value) is None:
        return input_is_computed.name, f"its input {index} is computed inside a fused region"
    if not is_float(element_of(value)):
        return input_is_float.name, f"its input {index} is of {element_of(value)}"
    return None if array_of(value) is None else (input_is_computed.name, f"its input {index} is a constant")


def sum_broken(site: Site) -> str | None:
    """Why the values around a sum are not quantized jointly."""
    row = row_of(site.compute)
    if row is None or not row.tensor_only:
        return "it is not one of the sums that AMCT quantizes"
    return broken[1] if (broken := _row_broken(site, row)) is not None else None


def _row_broken(site: Site, row: LayerRow) -> tuple[str, str] | None:
    """The first rule of the layer's row, or of masks, that does not hold."""
    rules = (*row.rules, feeds_more_than_softmax)
    reasons = ((rule.name, rule.check(site)) for rule in rules if rule is not tensor_only)
    return next(((name, reason) for name, reason in reasons if reason is not None), None)
