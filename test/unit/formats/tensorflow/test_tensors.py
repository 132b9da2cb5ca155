"""TensorProto to arrays and back, against TensorFlow's own reader (the ParseTensor operator)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from amct_opt.formats.tensorflow.schema import DATA_TYPES, TensorProto
from amct_opt.formats.tensorflow.tensors import Array, array_of, dtype_of, tensor_proto
from amct_opt.ir.dtypes import ELEMENT_TYPES, as_stored, dtype_named, is_narrow_float
from amct_opt.support.diagnostics import CompileError

from ...frameworks import tf

DTYPES = [dtype_named(row.numpy) for row in ELEMENT_TYPES if not is_narrow_float(row.mlir)]


def parsed(tensor: Any) -> Array:
    """What TensorFlow reads."""
    return tf.io.parse_tensor(tensor.SerializeToString(), tf.as_dtype(tensor.dtype % 100)).numpy()


def tensor_of(dtype: np.dtype[Any], shape: list[int], **lists: Any) -> Any:
    tensor = TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum, **lists)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def assert_same(actual: Array, expected: Array) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert as_stored(actual).tobytes() == as_stored(expected).tobytes()


def some(dtype: np.dtype[Any], *shape: int) -> Array:
    values = np.random.default_rng(0).integers(-8 if dtype.kind in "if" or dtype.name == "int4" else 0, 8, shape)
    return (values % 2 if dtype == np.bool_ else values).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3, 4), (2, 0)], ids=str)
def test_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    array = some(dtype, *shape)
    tensor = TensorProto.FromString(tensor_proto(array).SerializeToString())
    assert_same(parsed(tensor), array)
    assert_same(array_of(tensor, ""), array)
    content = np.frombuffer(tensor.tensor_content, np.uint8)
    tensor.ClearField("tensor_content")
    assert_same(array_of(tensor, "", content), array)


LISTS = {
    "float_val": ("float32", [1.5, -0.0, np.inf, 0.1]),
    "double_val": ("float64", [1.5, -0.0, np.inf, 0.1]),
    "half_val": ("float16", [0x3C00, 0xBC00, 0x7C00, 0x0001]),
    "half_val-bfloat16": ("bfloat16", [0x3F80, 0xBF80, 0x7F80, 0x0001]),
    "int_val": ("int32", [1, -2, 2**31 - 1, -(2**31)]),
    "int_val-int8": ("int8", [1, -2, 127, -128]),
    "int_val-uint8": ("uint8", [1, 2, 255, 0]),
    "int_val-int16": ("int16", [1, -2, 2**15 - 1, -(2**15)]),
    "int_val-uint16": ("uint16", [1, 2, 2**16 - 1, 0]),
    "int_val-int4": ("int4", [1, -2, 7, -8]),
    "int_val-uint4": ("uint4", [1, 2, 15, 0]),
    "int64_val": ("int64", [1, -2, 2**63 - 1, -(2**63)]),
    "uint32_val": ("uint32", [1, 2, 2**32 - 1, 0]),
    "uint64_val": ("uint64", [1, 2**64 - 1, 2**63, 0]),
    "bool_val": ("bool", [True, False, False, True]),
}


@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize("given", [0, 1, 3, 4])
@pytest.mark.parametrize("shape", [[4], [2, 2], [0]], ids=str)
def test_lists(case: str, given: int, shape: list[int]) -> None:
    """As TensorFlow reads them, also when they end early."""
    name, values = LISTS[case]
    tensor = tensor_of(dtype_named(name), shape, **{case.partition("-")[0]: values[:given]})
    assert_same(array_of(tensor, ""), parsed(tensor))


@pytest.mark.parametrize("values", [[], [0.5]], ids=["none", "one"])
def test_one_number_takes_no_memory(values: list[float]) -> None:
    array = array_of(tensor_of(np.dtype(np.float32), [1000, 1000], float_val=values), "")
    assert array.shape == (1000, 1000)
    assert array.strides == (0, 0)


def test_as_python_writes_them() -> None:
    for array in (np.float32(3), np.arange(6, dtype=np.int64).reshape(2, 3), np.ones(3, ml_dtypes.bfloat16)):
        theirs = tf.make_tensor_proto(array)
        assert_same(array_of(TensorProto.FromString(theirs.SerializeToString()), ""), np.asarray(array))


def test_references_are_of_the_type_that_they_refer_to() -> None:
    assert dtype_of(DATA_TYPES["DT_HALF_REF"], "") == np.float16


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "too few bytes": (
        partial(tensor_of, np.dtype("f4"), [2], tensor_content=b"1234567"),
        "holds 7 bytes, but its shape [2] needs 8",
    ),
    "too many bytes": (
        partial(tensor_of, np.dtype("f4"), [1], tensor_content=b"12345678"),
        "holds 8 bytes, but its shape [1] needs 4",
    ),
    "too many numbers": (
        partial(tensor_of, np.dtype("i4"), [1], int_val=[1, 2]),
        "lists 2 numbers, but its shape [1] has 1",
    ),
    "unknown size": (partial(tensor_of, np.dtype("f4"), [2, -1]), "has a value, but no known shape"),
    "unknown rank": (
        partial(TensorProto, dtype=1, tensor_shape={"unknown_rank": True}),
        "has a value, but no known shape",
    ),
    "many axes": (partial(tensor_of, np.dtype("f4"), [1] * 65), "has 65 axes, at most 64 are supported"),
    "huge": (partial(tensor_of, np.dtype("f4"), [2**40, 2**40]), f"is too large: its shape is [{2**40}, {2**40}]"),
    "huge, with an empty axis": (
        partial(tensor_of, np.dtype("f4"), [2**62, 0, 2**62]),
        f"is too large: its shape is [{2**62}, 0, {2**62}]",
    ),
    "large and short": (
        partial(tensor_of, np.dtype("f4"), [2**34], float_val=[1, 2]),
        f"would take {2**36} bytes, but lists 2 numbers only",
    ),
    "strings": (partial(TensorProto, dtype=7, string_val=[b"a"]), "element type DT_STRING is not supported"),
    "complex": (partial(TensorProto, dtype=8), "element type DT_COMPLEX64 is not supported"),
    "no such type": (partial(TensorProto, dtype=77), "element type 77 is not supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, message = REFUSED[case]
    tensor = make()
    with pytest.raises(CompileError) as caught:
        array_of(tensor, "net.pb: node 'w'")
    assert str(caught.value).partition("\n")[0] == f"net.pb: node 'w': error: {message}"
