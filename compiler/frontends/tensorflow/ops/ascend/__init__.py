"""Deployed models: Ascend's own operators, and layers on their integers, as operations of `ascend`.

`quantization` (AscendQuant and its kin), `integers` (what reads integers).
"""

from . import quantization
from .integers import converter_on_integers

FAMILIES = (quantization,)

__all__ = ["FAMILIES", "converter_on_integers"]
