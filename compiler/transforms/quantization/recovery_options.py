"""Options of `--quantize` that recover accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["gptq", "mismatch", "adaround"]
"""How weights are rounded, other than to the nearest number."""


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """Each option runs a separate pass; by default none runs."""

    equalize: bool = False
    """Even out channels by powers of two that cancel out, where data shows that it helps (`--equalize`)."""
    fit_ranges: bool = False
    """Choose ranges of activations by the outputs of the layers that read them (`--fit-ranges`)."""
    round_weights: Method | None = None
    """`gptq`, `mismatch` or `adaround`: choose the integers of weights by layers' outputs (`--round-weights`)."""
    correct_bias: bool = False
    """Correct biases for the mean shift of layers' outputs by quantization (`--correct-bias`)."""


NO_RECOVERY = RecoveryOptions()
