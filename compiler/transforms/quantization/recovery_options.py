"""Options of `--quantize` that win back accuracy once ranges are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["gptq", "mismatch", "adaround"]
"""How weights are rounded where it is not to the nearest number."""


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """Each is a pass of its own; none of them runs when not given."""

    round_weights: Method | None = None
    """`gptq`, `mismatch` or `adaround`: choose the integers of weights by layers' outputs (`--round-weights`)."""
    correct_bias: bool = False
    """Add to biases what quantization shifts layers' outputs by (`--correct-bias`)."""


NO_RECOVERY = RecoveryOptions()
