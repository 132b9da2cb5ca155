"""The checksum is that of the definition, for bytes of any number."""

import numpy as np
import pytest

from amct_opt.formats.tensorflow import crc32c
from amct_opt.formats.tensorflow.crc32c import masked_crc32c


def by_bits(data: bytes) -> int:
    """CRC-32C as RFC 3720 defines it, masked as LevelDB does."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_reference_is_that_of_the_rfc() -> None:
    unmasked = (by_bits(b"\0" * 32) - 0xA282EAD8) & 0xFFFFFFFF
    assert (unmasked << 15 | unmasked >> 17) & 0xFFFFFFFF == 0x8A9136AA


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 12, 63, 64, 257])
def test_numbers_of_bytes(count: int) -> None:
    data = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    assert masked_crc32c(data) == by_bits(data.tobytes())


def test_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc32c, "_PIECE", 8)
    data = np.random.default_rng(0).integers(0, 256, 101, np.uint8)
    assert masked_crc32c(data) == by_bits(data.tobytes())
