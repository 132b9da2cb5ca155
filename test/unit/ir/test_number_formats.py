"""Floats of 8 and 4 bits against tables that are written here from the specifications, not from the library that casts."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import get_args, get_type_hints

import numpy as np
import pytest
from xdsl.dialects.builtin import Float8E8M0FNUType, ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.dtypes import dtype_named, numpy_dtype
from amct_opt.ir.number_formats import NUMBER_FORMATS, in_hif8, largest, saturated_to
from amct_opt.ir.text import module_text, parse_module
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.options import SettingsOptions

Array = np.ndarray


def decoded(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    """`(-1)^S * 2^(E - bias) * (1 + M)`, subnormal for E = 0; the special codes are the formats' own."""
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (code >> mantissa_bits) & (2**exponent_bits - 1)
    mantissa = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    return sign * (2.0 ** (1 - bias) * mantissa if exponent == 0 else 2.0 ** (exponent - bias) * (1 + mantissa))


def e4m3(code: int) -> float:
    """OFP8 1.0: bias 7, no infinities, NaN is S.1111.111."""
    return nan if code & 0x7F == 0x7F else decoded(code, 4, 3, 7)


def e5m2(code: int) -> float:
    """OFP8 1.0: bias 15, infinities and NaN as in IEEE 754."""
    if code & 0x7C == 0x7C:
        return nan if code & 3 else (-inf if code & 0x80 else inf)
    return decoded(code, 5, 2, 15)


def e2m1(code: int) -> float:
    """MX 1.0: bias 1, only numbers."""
    return decoded(code, 2, 1, 1)


def e8m0(code: int) -> float:
    """MX 1.0: a power of two, `2^(E - 127)`; NaN is 255."""
    return nan if code == 255 else 2.0 ** (code - 127)


def hif8(code: int) -> float:
    """HiFloat8: sign, a dot field of 2 to 4 bits with the width of the exponent, the exponent as sign and magnitude without its
    leading 1, and the mantissa; 0000 in place of the dot field gives the powers of two `2^(M - 23)`.
    """
    sign, rest = (-1.0 if code & 0x80 else 1.0), f"{code & 0x7F:07b}"
    if code & 0x7F == 0x6F:
        return sign * inf
    if rest.startswith("0000"):
        small = int(rest[4:], 2)
        return sign * 2.0 ** (small - 23) if small else (nan if code & 0x80 else 0.0)
    dot, width = next(
        (dot, width)
        for dot, width in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0))
        if rest.startswith(dot)
    )
    field, mantissa = rest[len(dot) :][:width], rest[len(dot) + width :]
    exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1) if width else 0
    return sign * 2.0**exponent * (1 + int(mantissa, 2) / 2 ** len(mantissa))


HIF8 = [hif8(code) for code in range(256)]
TABLES = {
    "float8_e4m3fn": [e4m3(code) for code in range(256)],
    "float8_e5m2": [e5m2(code) for code in range(256)],
    "float4_e2m1fn": [e2m1(code) for code in range(16)],
    "float8_e8m0fnu": [e8m0(code) for code in range(256)],
}
SIGNED = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float4_e2m1fn": 6.0, "float8_e8m0fnu": 2.0**127}


def nearest(value: float, table: list[float], *, away: bool = False) -> float:
    """The nearest number of a table; of two that are equally near, the one with an even code, or the one away from zero."""
    numbers = [
        (abs(number - value), -abs(number) if away else code % 2, number)
        for code, number in enumerate(table)
        if isfinite(number)
    ]
    return min(numbers)[2]


@pytest.mark.parametrize("name", TABLES)
def test_every_code(name: str) -> None:
    table = np.array(TABLES[name], np.float64)
    codes = np.arange(len(table), dtype=np.uint8)
    numbers = codes.view(dtype_named(name)).astype(np.float64)
    np.testing.assert_array_equal(numbers, table)
    some = ~np.isnan(table)  # the sign of NaN means nothing
    np.testing.assert_array_equal(np.signbit(numbers[some]), np.signbit(table[some]))
    assert largest(dtype_named(name)) == LARGEST[name] == np.nanmax(table[np.isfinite(table)])


@pytest.mark.parametrize("name", TABLES)
def test_every_code_in_text(name: str) -> None:
    """Small constants stand in the text as numbers, or as bytes; both read back as the same bytes."""
    codes = np.arange(len(TABLES[name]), dtype=np.uint8).view(dtype_named(name))
    constants = [nn.ConstantOp.of(np.array([code, other]), "c") for code in codes for other in (code, codes[1])]
    text = module_text(ModuleOp(constants))
    again = [op for op in parse_module(new_session(), text, "net.mlir").walk() if isinstance(op, nn.ConstantOp)]
    assert [op.array.tobytes() for op in again] == [op.array.tobytes() for op in constants]
    assert {op.array.dtype.name for op in again} == {name}


@pytest.mark.parametrize("name", SIGNED)
def test_casts_round_to_nearest_even_and_saturate(name: str) -> None:
    """Numbers themselves, ties between neighbours, and what float32 has next to these."""
    table = TABLES[name]
    numbers = np.unique([number for number in table if isfinite(number)]).astype(np.float32)
    ties = (numbers[1:] + numbers[:-1]) / 2
    places = np.concatenate([numbers, ties, np.nextafter(ties, np.float32(inf)), np.nextafter(ties, np.float32(-inf))])
    expected = [nearest(float(value), table) for value in places]
    np.testing.assert_array_equal(saturated_to(places, dtype_named(name)).astype(np.float32), expected)
    beyond = np.array([LARGEST[name] * 1.01, 1e30, inf, -inf, -LARGEST[name] * 2], np.float32)
    most = LARGEST[name]
    found = saturated_to(beyond, dtype_named(name)).astype(np.float32)
    np.testing.assert_array_equal(found, [most, most, most, -most, -most])


@pytest.mark.parametrize("name", SIGNED)
def test_casts_of_any_numbers(name: str) -> None:
    generator = np.random.default_rng(3)
    values = (generator.normal(size=2000) * 2.0 ** generator.integers(-18, 17, 2000)).astype(np.float32)
    expected = [nearest(float(value), TABLES[name]) for value in values]
    np.testing.assert_array_equal(saturated_to(values, dtype_named(name)).astype(np.float32), expected)


def test_hif8_is_cast_to_the_nearest_number_ties_away_from_zero() -> None:
    """All of its numbers are numbers of float16."""
    numbers = np.unique([number for number in HIF8 if isfinite(number)]).astype(np.float32)
    assert (len(numbers), numbers[-1], numbers[numbers > 0][0]) == (253, 2.0**15, 2.0**-22)
    np.testing.assert_array_equal(in_hif8(numbers), numbers)
    ties = (numbers[1:] + numbers[:-1]) / 2
    lower, upper = numbers[:-1], numbers[1:]
    np.testing.assert_array_equal(in_hif8(ties), np.where(ties > 0, upper, lower))
    np.testing.assert_array_equal(in_hif8(np.nextafter(ties, np.float32(inf))), upper)
    np.testing.assert_array_equal(in_hif8(np.nextafter(ties, np.float32(-inf))), lower)
    np.testing.assert_array_equal(in_hif8(np.array([5e4, 1e30, -inf])), [2.0**15, 2.0**15, -(2.0**15)])
    assert not np.signbit(in_hif8(np.array([-0.0, -1e-9]))).any()


def test_the_table() -> None:
    """Options list the formats; scales that are powers of two belong to blocks of 32 (MX 1.0), NVFP4's blocks have 16 numbers."""
    options = get_args(get_args(get_type_hints(SettingsOptions)["weight_format"])[0])
    assert options == tuple(NUMBER_FORMATS)
    for each in NUMBER_FORMATS.values():
        assert isinstance(each.scale, Float8E8M0FNUType) == (each.block == 32)
        assert each.has_tensor_scale == (each.block == 16)
        assert each.is_tapered == (numpy_dtype(each.element).name == "float16")
        assert each.is_tapered or each.reach == LARGEST[numpy_dtype(each.element).name]
