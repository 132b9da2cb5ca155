"""Number formats of weights: floats of 8 and 4 bits with a scale for each channel or block. One table, and the cast to them.

Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for E4M3 and E5M2; OCP Microscaling Formats (MX) Specification 1.0 for
E2M1, E8M0, MXFP8 and MXFP4; NVIDIA's NVFP4: E2M1, a scale of E4M3 for each 16, one float32 for the tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    f32,
)
from xdsl.ir import TypeAttribute

if TYPE_CHECKING:
    import numpy as np

    from .array import Array


class NumberFormat(NamedTuple):
    """How numbers are stored: an element and a scale, whose product is the number."""

    name: str
    element: TypeAttribute
    scale: TypeAttribute = f32
    block: int | None = None
    """The number of input channels that share a scale, for each output channel; None for a scale per output channel."""
    has_tensor_scale: bool = False
    """Whether one float32 number multiplies all scales of a tensor."""


NUMBER_FORMATS = {
    row.name: row
    for row in (
        NumberFormat("fp8-e4m3", Float8E4M3FNType()),
        NumberFormat("fp8-e5m2", Float8E5M2Type()),
        NumberFormat("mxfp8", Float8E4M3FNType(), Float8E8M0FNUType(), block=32),
        NumberFormat("mxfp4", Float4E2M1FNType(), Float8E8M0FNUType(), block=32),
        NumberFormat("nvfp4", Float4E2M1FNType(), Float8E4M3FNType(), block=16, has_tensor_scale=True),
    )
}
"""By name."""


def largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a float type: 448 of E4M3, 57344 of E5M2, 6 of E2M1, 2^127 of E8M0."""
    import ml_dtypes

    return float(cast(Any, ml_dtypes.finfo(dtype)).max)


def saturated_to(values: Array, dtype: np.dtype[Any]) -> Array:
    """float32 values as the nearest numbers of a narrow float type, ties to even; beyond its range, the largest ones."""
    import numpy as np

    limit = np.float32(largest(dtype))
    return np.clip(np.asarray(values, np.float32), -limit, limit).astype(dtype)
