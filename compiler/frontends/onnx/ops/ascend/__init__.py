"""Deployed models: Ascend's own operators, and layers on their integers, as operations of `ascend`.

`quantization` (AscendQuant and its kin), `layers` (what computes in integers), `recurrent` (LSTM and GRU),
`integers` (which values are integers).
"""

from . import layers, quantization, recurrent
from .integers import converter_on_integers

FAMILIES = (layers, quantization, recurrent)

__all__ = ["FAMILIES", "converter_on_integers"]
