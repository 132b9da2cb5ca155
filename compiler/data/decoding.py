"""The inputs of language models, by their names: caches, masks and positions, and how these follow from the tokens."""

from __future__ import annotations

import re

import numpy as np

from ..ir.array import Array

CACHED = re.compile(r"(past|present)(_key_values?)?[._]")
"""Part of a name that only caches have: past_key_values.0.key and present.0.key, past_key_0 and present_key_0."""
LENGTH_AXIS = 2
"""The axis of tokens in a cache [batch, heads, tokens, size], as transformers and onnxruntime have it."""
_CROSS = "encoder"
"""Part of the names of inputs for another sequence, with tokens of its own: past_key_values.0.encoder.key,
encoder_attention_mask.
"""


def is_cache(name: str) -> bool:
    """Whether an input is a cache that the tokens of a run are added to."""
    return CACHED.search(name) is not None and _CROSS not in name


def follows_tokens(name: str) -> bool:
    """Whether an input is a mask or positions, and not of another sequence."""
    return ("mask" in name or "position" in name) and _CROSS not in name


def following(name: str, rows: int, past: int, tokens: int) -> Array:
    """The mask int64 [rows, past + tokens] or else the positions int64 [rows, tokens] of tokens that come after `past` others."""
    if "mask" in name:
        return np.ones((rows, past + tokens), np.int64)
    return np.tile(np.arange(past, past + tokens, dtype=np.int64), (rows, 1))
