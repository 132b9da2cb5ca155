"""Integer weights whose products with 8-bit inputs every processor adds up exactly in onnxruntime.

Its kernels multiply uint8 by int8. On x86 without VNNI they add the products of two neighbouring columns in 16 bits, which
saturate (`vpmaddubsw`: AVX2, and AVX-512 before VNNI); on Arm without dot products they add those of two columns that are 8 apart
in 16 bits, where two weights of -128 wrap. Neighbours are the columns 2 i and 2 i + 1 of a layer's matrices (`Product.matrices`).
All sums are exact if no weight is -128, and the positive numbers of no two neighbours, or the negative ones, add up to more than
`MOST`: 255 * 128 is less than 2^15. OpenVINO's kernels have other neighbours if the number of channels is odd (`channels_apart`):
scales and ranges are such that sums are exact in both.

Kernels of depthwise convolutions add single products in 32 bits on x86. On Arm, also with dot products, they subtract 128 from
the input and add two products in 16 bits, where two weights of -128 wrap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import Operation

from ...dialects.nn import ConvOp, MatMulOp, NNOp
from ...dialects.nn.shapes import shape_of
from ...ir.array import Array
from .products import product_of

MULTIPLIED = ConvOp | MatMulOp
"""The layers with kernels that multiply uint8 by int8."""
BITS = 8
"""Integers of fewer bits are small enough."""
MOST = 128
"""The largest sum of two neighbours of one sign."""
_ROUNDED = 127
"""The largest sum of two neighbours before they are rounded, by a half each; also the largest weight."""
LOWEST, HIGHEST = -(2**15), 2**15 - 1
"""The ends of 16 bits."""
AVX2 = "x86-64 with AVX2 or AVX-512 but without VNNI (AMD Zen 1 to 3, Intel Haswell to Coffee Lake)"
ARM_BEFORE_8_2 = "Arm without dot products (Cortex-A57, A72)"
ARM = "Arm"
"""Processors that add products in 16 bits (docs/measured/exactness.md)."""
_AT_A_TIME = 1 << 22
"""Approximate number of sums of two products that are computed at a time."""


def adds_singly(op: Operation) -> bool:
    """Whether a layer is a depthwise convolution with one output per channel: its kernels add no neighbours on x86."""
    return isinstance(op, ConvOp) and op.is_depthwise and shape_of(op.weight)[0] == op.group_count


def sums_of_neighbours(matrices: Array) -> Array:
    """The largest sum of two neighbours of one sign, in each row of matrices [G, M, K]: [G, M] in their type."""
    even, odd = _neighbours(matrices)
    above = np.maximum(even, 0) + np.maximum(odd, 0)
    below = np.minimum(even, 0) + np.minimum(odd, 0)
    return np.maximum(above.max(axis=2, initial=0), -below.min(axis=2, initial=0))


def least_scales(weight: Array, axis: int | None, layer: NNOp) -> Array:
    """The smallest scales, float32 of shape [] or [channels], by which nearest rounding makes integers with exact sums.

    They stay exact with larger scales, which make no integer larger.
    """
    matrices = product_of(layer).matrices(weight)
    if adds_singly(layer):
        sums = np.abs(matrices).max(axis=2, initial=0)
    else:
        sums = np.maximum(sums_of_neighbours(matrices), sums_of_neighbours(channels_apart(matrices, layer)))
    sums = sums.astype(np.float64) / _ROUNDED
    if axis is None:
        return np.asarray(sums.max(initial=0), np.float32)
    return np.asarray(sums.max(axis=0, initial=0) if isinstance(layer, MatMulOp) else sums.reshape(-1), np.float32)


def ranges_around(integers: Array, layer: NNOp) -> tuple[Array, Array]:
    """The least and the greatest integer of each weight, int16 in the shape of these matrices [G, M, K], such that all
    integers between them have exact sums: two neighbours share the rest of `MOST` equally.
    """
    if adds_singly(layer):
        return np.full(integers.shape, -_ROUNDED, np.int16), np.full(integers.shape, _ROUNDED, np.int16)
    low, high = _ranges_in_pairs(integers)
    apart = channels_apart(integers, layer)
    if apart is not integers:
        others = [_channels_together(ends, layer) for ends in _ranges_in_pairs(apart)]
        return np.maximum(low, others[0]), np.minimum(high, others[1])
    return low, high


def _ranges_in_pairs(integers: Array) -> tuple[Array, Array]:
    low, high = (np.empty(integers.shape, np.int16) for _ in range(2))
    for sign, ends in ((1, high), (-1, low)):
        even, odd = (np.maximum(sign * each, 0).astype(np.int16) for each in _neighbours(integers))
        spare = MOST - even - odd
        first = np.minimum(even + spare // 2, _ROUNDED)
        ends[:, :, 0::2] = sign * first
        ends[:, :, 1::2] = (sign * np.minimum(MOST - first, _ROUNDED))[:, :, : integers.shape[2] // 2]
    return low, high


def inexact(matrices: Array, layer: Operation) -> Array:
    """Whether sums of products may be wrong, for each row of a layer's matrices of int8 integers [G, M, K]: [G, M]."""
    return np.logical_or.reduce([*inexact_on(matrices, layer).values()])


def inexact_on(matrices: Array, layer: Operation) -> dict[str, Array]:
    """The rows for which `inexact` holds, bool [G, M], by the processors that get them wrong."""
    lowest = matrices == -MOST
    if adds_singly(layer):
        return {ARM: np.count_nonzero(lowest, axis=2) > 1}
    wraps = (lowest[:, :, 8:] & lowest[:, :, :-8]).any(axis=2)
    return {AVX2: sums_of_neighbours(matrices.astype(np.int16)) > MOST, ARM_BEFORE_8_2: wraps}


def channels_apart(matrices: Array, layer: NNOp) -> Array:
    """The matrices [G, M, K] of a layer, or its inputs [G, R, K], with the neighbours that OpenVINO's kernels add: channels of
    each position of a window, padded with a zero to an even number, so that those of two positions are never added in 16 bits.
    """
    if not isinstance(layer, ConvOp) or not (channels := shape_of(layer.weight)[1]) % 2:
        return matrices
    positions = matrices.reshape(*matrices.shape[:2], -1, channels)
    padded = np.pad(positions, ((0, 0), (0, 0), (0, 0), (0, 1)))
    return padded.reshape(*matrices.shape[:2], -1)


def _channels_together(matrices: Array, layer: NNOp) -> Array:
    """The columns that `channels_apart` was given."""
    positions = matrices.reshape(*matrices.shape[:2], -1, shape_of(layer.operands[1])[1] + 1)
    return positions[..., :-1].reshape(*matrices.shape[:2], -1)


def why_inexact(matrices: Array, layer: Operation) -> str:
    """A sentence that counts the rows of a layer's matrices, int8 [G, M, K], that may have wrong sums; empty if none."""
    wrong = inexact(matrices, layer)
    if not (count := int(np.count_nonzero(wrong))):
        return ""
    processors = "on Arm" if adds_singly(layer) else "on processors without VNNI or dot products"
    passed = f"sums of products of {count} of {wrong.size} output channels may pass 16 bits"
    return f"{passed}, which onnxruntime gets wrong {processors}"


def products_of_neighbours(rows: Array, matrices: Array) -> Iterator[Array]:
    """The sums of two neighbouring products that may pass 16 bits, for some rows at a time: int32 [rows, pairs].

    `rows` are inputs as the kernel reads them, 0 to 255: [G, R, K]; `matrices` int8 integers [G, M, K].
    """
    even, odd = _neighbours(matrices.astype(np.int32))
    for group, inputs in enumerate(rows):
        a, b = even[group], odd[group]
        apart = np.maximum(a, 0) + np.maximum(b, 0), -np.minimum(a, 0) - np.minimum(b, 0)
        channels, pairs = np.nonzero(np.maximum(*apart) > MOST)
        if not channels.size:
            continue
        left, right = (each[0] for each in _neighbours(inputs[None]))
        step = max(1, _AT_A_TIME // channels.size)
        for begin in range(0, len(inputs), step):
            part = slice(begin, begin + step)
            yield left[part, pairs] * a[channels, pairs] + right[part, pairs] * b[channels, pairs]


def _neighbours(matrices: Array) -> tuple[Array, Array]:
    """The even and the odd columns; the last one may have no neighbour. They are copies, with which numpy computes faster."""
    if matrices.shape[2] % 2:
        matrices = np.pad(matrices, ((0, 0), (0, 0), (0, 1)))
    return np.ascontiguousarray(matrices[:, :, 0::2]), np.ascontiguousarray(matrices[:, :, 1::2])
