"""Deployed models: Ascend's own operators, and layers on their integers, as operations of `ascend`.

`quantization` (AscendQuant and its kin), `recurrent` (LSTM and GRU), `integers` (what reads integers).
"""

from . import quantization, recurrent
from .integers import converter_on_integers

FAMILIES = (quantization, recurrent)

__all__ = ["FAMILIES", "converter_on_integers"]
