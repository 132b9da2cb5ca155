"""What is printed reads back bit for bit: numbers of every element type, in the custom and the generic form."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.weights import Weight
from amct_opt.session.universe import new_session

SESSION = new_session()
BITS = {
    "float64": np.uint64, "float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16, "int64": np.uint64,
    "int32": np.uint32, "int16": np.uint16, "int8": np.uint8, "uint64": np.uint64, "uint32": np.uint32,
    "uint16": np.uint16, "uint8": np.uint8,
}  # fmt: skip
"""Each type next to the one that holds its bit patterns."""

sweep = settings(max_examples=40)
generic = pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])


def reread(op: Operation, generic: bool) -> Operation:
    """The operation after printing and parsing; the text must be a fixed point of both."""
    text = module_text(ModuleOp([op]), generic=generic)
    again = parse_module(SESSION, text)
    assert module_text(again, generic=generic) == text
    return next(iter(again.ops))


def reread_array(array: np.ndarray, generic: bool) -> np.ndarray:
    op = reread(nn.ConstantOp.of(array, "k"), generic)
    assert isinstance(op, nn.ConstantOp)
    return op.array


def dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@generic
@pytest.mark.parametrize("name", BITS)
@sweep
@given(data=st.data())
def test_any_bit_pattern(name: str, generic: bool, data: st.DataObject) -> None:
    """In the text as decimals or bytes, next to it as bytes: the size decides."""
    shape = data.draw(st.sampled_from([(), (1,), (3,), (2, 2), (64,), (65,), (5, 0, 2)]))
    bits = data.draw(arrays(BITS[name], shape))
    array = bits.view(dtype(name))
    again = reread_array(array, generic)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


@generic
@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4", "bool"])
@sweep
@given(data=st.data())
def test_small_types(name: str, generic: bool, data: st.DataObject) -> None:
    low, high = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15), "bool": (0, 1)}[name]
    values = data.draw(arrays(np.int8, array_shapes(max_dims=2, max_side=9), elements=st.integers(low, high)))
    array = values.astype(dtype(name))
    again = reread_array(array, generic)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again.astype(np.int8), values)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_numbers_that_decimals_lose(name: str) -> None:
    """Infinities, NaN, zeros of both signs (xDSL takes them for a splat), integers beyond the shown digits, subnormals."""
    info = ml_dtypes.finfo(dtype(name))
    tiny = float(info.smallest_subnormal)
    values = [
        math.inf, -math.inf, math.nan, 0.0, -0.0, float(info.max), float(info.min), tiny, 2.0**24 + 2, 1e7,
        123456790.0,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        array = np.array(values).astype(dtype(name))
    for subset in (array, array[:3], array[3:5], array[5:], array[:1], array[4:5], array[8:9]):
        assert reread_array(subset, generic=False).tobytes() == subset.tobytes()


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("dense<0x7F800000> : tensor<1xf32>", [0x7F800000]),
        ("dense<[0xff800000, 1.0]> : tensor<2xf32>", [0xFF800000, 0x3F800000]),
        ("dense<0x7C00> : tensor<2xf16>", [0x7C00, 0x7C00]),
        ("dense<[0x3F80]> : tensor<1xbf16>", [0x3F80]),
        ("dense<0x7FF0000000000000> : tensor<1xf64>", [0x7FF0000000000000]),
        ("dense<[0x10, -0x10]> : tensor<2xi8>", [0x10, 0xF0]),
    ],
)
def test_hex_numbers_are_bit_patterns_of_floats(text: str, bits: list[int]) -> None:
    """As upstream MLIR reads its own output; xDSL alone reads 0x7F800000 as 2139095040.0."""
    module = parse_module(SESSION, f"%c = nn.constant {text}")
    op = next(iter(module.ops))
    assert isinstance(op, nn.ConstantOp)
    assert op.array.view(BITS[op.array.dtype.name]).tolist() == bits


def number(bits: int, form: str) -> float:
    return struct.unpack(form, bits.to_bytes(struct.calcsize(form), "little"))[0]


def same(a: float, b: float, form: str) -> bool:
    """Bit for bit, except that all NaN are one: a property has no payload."""
    return struct.pack(form, a) == struct.pack(form, b) or (math.isnan(a) and math.isnan(b))


floats32 = st.integers(0, 2**32 - 1).map(lambda bits: number(bits, "<f"))
floats64 = st.integers(0, 2**64 - 1).map(lambda bits: number(bits, "<d"))
scales = floats32.filter(lambda v: 0 < v < math.inf)
LIMITS = (math.inf, -math.inf, math.nan, 0.0, -0.0, 3.4028234663852886e38, 1e-45, 16777216.0, 1e7)


@generic
@sweep
@given(value=floats32)
@example(math.inf)
@example(-0.0)
@example(1e-12)
def test_float32_properties(generic: bool, value: float) -> None:
    x = nn.ConstantOp.of(np.zeros((1, 3), np.float32), "x").result
    op = nn.LeakyReluOp.make(x, alpha=value)
    again = reread_with_operand(op, generic)
    assert isinstance(again, nn.LeakyReluOp)
    assert same(again.alpha.value.data, value, "<f")


@generic
@sweep
@given(low=floats64, high=floats64)
@example(-math.inf, math.inf)
@example(math.nan, 0.1)
def test_float64_properties(generic: bool, low: float, high: float) -> None:
    x = nn.ConstantOp.of(np.zeros(3, np.float32), "x").result
    again = reread_with_operand(nn.ClipOp.make(x, min=low, max=high), generic)
    assert isinstance(again, nn.ClipOp)
    assert all(same(a, b, "<d") for a, b in zip(again.bounds, (low, high), strict=True))


@generic
@sweep
@given(values=st.lists(st.one_of(floats32, st.sampled_from(LIMITS)), min_size=2, max_size=2))
def test_ranges(generic: bool, values: list[float]) -> None:
    x = nn.ConstantOp.of(np.zeros((2, 3), np.float32), "x").result
    ordered = sorted(0.0 if math.isnan(v) else v for v in values)
    op = nn.ObserveOp.make(x, point="a:0", observer="min-max", range=nn.RangeAttr((ordered[0], ordered[1])))
    again = reread_with_operand(op, generic)
    assert isinstance(again, nn.ObserveOp)
    assert again.range is not None
    assert all(same(a, b, "<f") for a, b in zip(again.range.data, ordered, strict=True))
    assert again.range == op.range


@generic
@sweep
@given(values=st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=2))
def test_lists_of_numbers(generic: bool, values: list[float]) -> None:
    """They are rounded to float32 when made, so that what is read equals what was made."""
    op = nn.ResizeOp.make(nn.ConstantOp.of(np.zeros((2, 3), np.float32), "x").result, scales=values)
    again = reread_with_operand(op, generic)
    assert isinstance(again, nn.ResizeOp)
    assert again.scales == op.scales
    assert again.scales is not None
    assert list(again.scales.data) == [float(np.float32(v)) for v in values]


@generic
@sweep
@given(data=st.data())
def test_quantization_parameters(generic: bool, data: st.DataObject) -> None:
    """Scales are float32 whatever they were made from, so that what is read equals what was made."""
    channels = data.draw(st.sampled_from([1, 2, 16, 17]))
    array = np.array(data.draw(st.lists(scales, min_size=channels, max_size=channels)))
    points = data.draw(st.lists(st.integers(-128, 127), min_size=channels, max_size=channels))
    weight = nn.ConstantOp.of(np.zeros((2, channels), np.int8), "w").result
    made = nn.QParamsAttr.of(i8, array, points, axis=1, key="w.scale")
    op = nn.DequantizeOp.make(weight, qparams=made, result_types=[TensorType(f32, (2, channels))])
    again = reread_with_operand(op, generic)
    assert isinstance(again, nn.DequantizeOp)
    read = again.qparams.data
    assert np.array_equal(read.scales(), array.astype(np.float32))
    assert np.array_equal(np.broadcast_to(read.zero_points(), channels), points)
    assert isinstance(read.scale, Weight) == (channels > 16)
    assert channels > 16 or again.qparams == made


@given(scale=st.floats(1e-30, 1e30), point=st.integers(-8, 7))
@sweep
def test_parameters_per_tensor(scale: float, point: int) -> None:
    made = nn.QParamsAttr.of(IntegerType(4), scale, point)
    x = nn.ConstantOp.of(np.zeros(3, np.float32), "x").result
    again = reread_with_operand(nn.QuantizeOp.make(x, qparams=made), generic=False)
    assert isinstance(again, nn.QuantizeOp)
    assert again.qparams == made
    assert again.qparams.data.scales() == np.float32(scale)


def test_equal_zero_points_have_one_form() -> None:
    assert nn.QParamsAttr.of(i32, np.ones(3), [5, 5, 5], axis=0) == nn.QParamsAttr.of(i32, np.ones(3), 5, axis=0)


def reread_with_operand(op: Operation, generic: bool) -> Operation:
    """As `reread`, for an operation whose operand is a constant."""
    constant = op.operands[0].owner
    assert isinstance(constant, Operation)
    text = module_text(ModuleOp([constant, op]), generic=generic)
    again = parse_module(SESSION, text)
    assert module_text(again, generic=generic) == text
    last = list(again.ops)[-1]
    last.verify_()
    return last
