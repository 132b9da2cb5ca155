"""Number formats of weights: floats of 8 and 4 bits with a scale for each channel or block. One table, and the cast to them.

Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for E4M3 and E5M2; OCP Microscaling Formats (MX) Specification 1.0 for
E2M1, E8M0, MXFP8 and MXFP4; NVIDIA's NVFP4: E2M1, a scale of E4M3 for each 16, one float32 for the tensor; for HiF8 "Ascend
HiFloat8 Format for Deep Learning" (arXiv 2409.16626).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    f16,
    f32,
)
from xdsl.ir import TypeAttribute

from .dtypes import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

    from .array import Array


class NumberFormat(NamedTuple):
    """A way to store numbers: an element and a scale, whose product is the number."""

    name: str
    element: TypeAttribute
    scale: TypeAttribute = f32
    block: int | None = None
    """The number of input channels that share a scale, for each output channel; None for a scale per output channel."""
    has_tensor_scale: bool = False
    """Whether one float32 number multiplies all scales of a tensor."""
    reach: float = 0.0
    """The element that the largest magnitude under a scale becomes."""
    is_tapered: bool = False
    """Whether elements are those of HiF8, stored in a type that contains them all: MLIR, numpy and ONNX have no type for them."""

    def elements(self, values: Array) -> Array:
        """float32 values as the nearest elements; beyond their range, the largest ones."""
        return in_hif8(values) if self.is_tapered else saturated_to(values, numpy_dtype(self.element))


NUMBER_FORMATS = {
    row.name: row
    for row in (
        NumberFormat("fp8-e4m3", Float8E4M3FNType(), reach=448.0),
        NumberFormat("fp8-e5m2", Float8E5M2Type(), reach=57344.0),
        NumberFormat("hif8", f16, reach=15.0, is_tapered=True),
        NumberFormat("mxfp8", Float8E4M3FNType(), Float8E8M0FNUType(), block=32, reach=448.0),
        NumberFormat("mxfp4", Float4E2M1FNType(), Float8E8M0FNUType(), block=32, reach=6.0),
        NumberFormat("nvfp4", Float4E2M1FNType(), Float8E4M3FNType(), block=16, has_tensor_scale=True, reach=6.0),
    )
}
"""Number formats by name. Elements of HiF8 up to 15 have 3 bits of mantissa, larger ones fewer."""
ACTIVATION_FORMATS = {name: NUMBER_FORMATS[name] for name in ("fp8-e4m3", "fp8-e5m2")}
"""Number formats to which ONNX quantizes values at run time, with one scale for a tensor."""


def largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a float type: 448 of E4M3, 57344 of E5M2, 6 of E2M1, 2^127 of E8M0."""
    import ml_dtypes

    return float(cast(Any, ml_dtypes.finfo(dtype)).max)


def saturated_to(values: Array, dtype: np.dtype[Any]) -> Array:
    """Rounds float32 values to the nearest numbers of a narrow float type, ties to even; beyond its range, to the largest
    ones.
    """
    import numpy as np

    limit = np.float32(largest(dtype))
    return np.clip(np.asarray(values, np.float32), -limit, limit).astype(dtype)


def rounding(elements: Array) -> Array:
    """The largest distance of numbers from the elements that they become, float32: half a step, and at the ends of the
    range what scales leave beyond it. Those of MX leave a third; a search takes half of them, too.
    """
    import ml_dtypes
    import numpy as np

    size = np.abs(elements.astype(np.float32))
    if elements.dtype == np.float16:
        exponents = np.abs(np.frexp(size)[1] - 1)
        steps = np.select([exponents <= 3, exponents <= 7, exponents <= 15], [2.0**-4, 2.0**-3, 2.0**-2], 0.5)
        return np.asarray((size * steps + HIF8_LEAST) * (1 + 2.0**-9), np.float32)
    info = cast(Any, ml_dtypes.finfo(elements.dtype))
    half = size * (float(info.eps) / 2) + float(info.smallest_subnormal) / 2
    return np.asarray(np.where(size == float(info.max), size * (5 / 3), half) * (1 + 2.0**-9), np.float32)


HIF8_LARGEST, HIF8_LEAST = 2.0**15, 2.0**-22


def in_hif8(values: Array) -> Array:
    """Rounds float32 values to the nearest numbers of HiF8, ties away from zero, in float16; beyond the range, to the
    largest ones.

    The mantissa has 3 bits for exponents from -3 to 3, 2 to 7, 1 to 15; below -15 only powers of two are left, down to 2^-22.
    """
    import numpy as np

    sizes = np.abs(np.arange(256) - 127)  # of exponents, in the order of float32's codes
    dropped = (23 - np.select([sizes <= 3, sizes <= 7, sizes <= 15], [3, 2, 1], 0)).astype(np.uint32)
    exact = np.asarray(values, np.float32)
    bits = exact.view(np.uint32)
    drop = dropped[(bits >> 23) & 0xFF]
    rounded = ((bits + (np.uint32(1) << (drop - 1))) >> drop << drop).view(np.float32)
    size = np.abs(exact)
    small = np.where(size < HIF8_LEAST / 2, np.float32(0), np.copysign(np.float32(HIF8_LEAST), exact))
    return np.where(size < HIF8_LEAST, small, np.clip(rounded, -HIF8_LARGEST, HIF8_LARGEST)).astype(np.float16)
