"""An exact integer reference of `ascend`, written apart from the executor, and small quantized modules to lower.

Every element of every integer operation is computed from its definition: positions are gathered by index, products summed in
int64, so nothing can round or wrap. The float steps between (AscendQuant, AscendDequant, elementwise) are the float32
operations that the dialect's documentation names, one rounding each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import tensor_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session

from ...values import numbers_of

Array = np.ndarray[Any, np.dtype[Any]]


def int8(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def operations(module: ModuleOp) -> list[str]:
    """Those of `ascend`."""
    return [op.name.removeprefix("ascend.") for op in module.walk() if op.name.startswith("ascend.")]


i8 = IntegerType(8)


# -- the reference ----------------------------------------------------------------------------------------------------


def _property(op: Operation, name: str) -> Any:
    """An attribute whose kind the caller knows by its name."""
    return op.properties[name]


def numbers(op: Operation, name: str) -> list[int]:
    return [int(v) for v in _property(op, name).get_values()]


def integer(op: Operation, name: str) -> int:
    return int(_property(op, name).value.data)


def real(op: Operation, name: str) -> np.float32:
    return np.float32(_property(op, name).value.data)


def flag(op: Operation, name: str) -> bool:
    return bool(_property(op, name).value.data)


def text(op: Operation, name: str) -> str:
    return _property(op, name).data


def operand(op: Operation, name: str) -> int | None:
    """The index of a named operand, None when it is absent."""
    index = 0
    assert isinstance(op, IRDLOperation)
    for each, _ in op.get_irdl_definition().operands:
        value = getattr(op, each)
        if each == name:
            return None if value is None else index
        index += 0 if value is None else 1
    raise KeyError(name)


def in_int32(sums: Array) -> Array:
    assert sums.dtype == np.int64
    assert np.abs(sums).max(initial=0) < 2**31, "the accumulator does not fit into int32"
    return sums.astype(np.int32)


def gathered(x: Array, kernel: Sequence[int], out: Sequence[int], strides, begins, dilations) -> Array:
    """`[N, C, *spatial]` int64 to `[N, C, *out, *kernel]`: the element that each window position meets, 0 outside."""
    n = len(kernel)
    for axis in range(n):
        where = np.arange(out[axis])[:, None] * strides[axis] - begins[axis]
        where = where + np.arange(kernel[axis])[None, :] * dilations[axis]
        size = x.shape[2 + axis]
        inside = (where >= 0) & (where < size)
        x = np.take(x, np.clip(where, 0, size - 1), axis=2 + axis)  # axis becomes [out, kernel]
        shape = [1] * x.ndim
        shape[2 + axis : 4 + axis] = where.shape
        x = x * inside.reshape(shape)
        x = np.moveaxis(x, 3 + axis, -1)  # the kernel's axis goes to the end
    return x


def convolution(op: Operation, arrays: Sequence[Array]) -> Array:
    """Integer x and filter: sum over channels of the group and window of (x - offset_x) * w, padding 0, plus bias."""
    data_format, n = text(op, "data_format"), len(text(op, "data_format")) - 2
    last = data_format.endswith("C")
    spatial = slice(1, -1) if last else slice(2, None)
    x = arrays[0].astype(np.int64) - integer(op, "offset_x")
    x = np.moveaxis(x, -1, 1) if last else x
    w = arrays[1].astype(np.int64)
    if op.name == "ascend.DepthwiseConv2D":
        groups = w.shape[2]
        w = np.stack([w[:, :, c, m] for c in range(groups) for m in range(w.shape[3])])[:, None]
    else:
        groups = integer(op, "groups")
        w = np.stack([np.moveaxis(w[..., o], -1, 0) for o in range(w.shape[-1])]) if last else w
    strides, dilations = (numbers(op, key)[spatial] for key in ("strides", "dilations"))
    begins, ends = numbers(op, "pads")[::2], numbers(op, "pads")[1::2]
    kernel = w.shape[2:]
    rows = zip(x.shape[2:], kernel, strides, dilations, begins, ends, strict=True)
    out = [(s + b + e - (d * (k - 1) + 1)) // st + 1 for s, k, st, d, b, e in rows]
    windows = gathered(x, kernel, out, strides, begins, dilations)
    windows = windows.reshape(x.shape[0], groups, x.shape[1] // groups, *windows.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    space, taps = "hwd"[:n], "ijk"[:n]
    y = np.einsum(f"ngc{space}{taps},gmc{taps}->ngm{space}", windows, w)
    y = y.reshape(x.shape[0], -1, *out)
    if len(arrays) > 2:
        y = y + arrays[2].astype(np.int64).reshape(-1, *[1] * n)
    return in_int32(np.moveaxis(y, 1, -1) if last else y)


def transposed_convolution(op: Operation, arrays: Sequence[Array]) -> Array:
    """Every input element times the filter is added at its place; what lies outside is dropped."""
    n = {"ascend.Deconvolution": 0, "ascend.Conv2DTranspose": 1}.get(op.name)
    first, weight, *bias = arrays[n:] if n is not None else (arrays[2], arrays[1])
    last = text(op, "data_format") == "NHWC"
    spatial = slice(1, 3) if last else slice(2, 4)
    x = first.astype(np.int64) - (0 if n is None else integer(op, "offset_x"))
    x = np.moveaxis(x, -1, 1) if last else x
    w = weight.astype(np.int64)
    w = np.moveaxis(w, (3, 2), (0, 1)) if last else w  # [C, M/groups, kh, kw]
    groups = integer(op, "groups")
    sh, sw = numbers(op, "strides") if n == 0 else numbers(op, "strides")[spatial]
    top, bottom, left, right = numbers(op, "pads")
    batch, channels, height, width = x.shape
    per_group, kh, kw = w.shape[1:]
    oh, ow = sh * (height - 1) + kh - top - bottom, sw * (width - 1) + kw - left - right
    if n == 1:
        oh, ow = (size + more for size, more in zip((oh, ow), numbers(op, "output_padding")[spatial], strict=True))
    if n is None:  # the sizes of the result are an operand, 0 where they follow
        oh, ow = (wanted or size for size, wanted in zip((oh, ow), arrays[0][spatial].tolist(), strict=True))
    y = np.zeros((batch, groups * per_group, oh, ow), np.int64)
    for c in range(channels):
        outputs = slice(c // (channels // groups) * per_group, (c // (channels // groups) + 1) * per_group)
        for i in range(height):
            for j in range(width):
                for a in range(kh):
                    for b in range(kw):
                        r, s = i * sh + a - top, j * sw + b - left
                        if 0 <= r < oh and 0 <= s < ow:
                            y[:, outputs, r, s] += x[:, c, i, j, None] * w[c, :, a, b]
    if bias:
        y += bias[0].astype(np.int64).reshape(-1, 1, 1)
    return in_int32(np.moveaxis(y, 1, -1) if last else y)


def matrix_product(op: Operation, arrays: Sequence[Array]) -> Array:
    names = ("transpose_x1", "transpose_x2") if op.name == "ascend.MatMulV2" else ("adj_x1", "adj_x2")
    a = arrays[0].astype(np.int64) - integer(op, "offset_x")
    b = arrays[1].astype(np.int64)
    a = np.swapaxes(a, -1, -2) if flag(op, names[0]) else a
    b = np.swapaxes(b, -1, -2) if flag(op, names[1]) else b
    y = np.einsum("...mk,...kn->...mn", a, b)
    return in_int32(y + arrays[2].astype(np.int64) if len(arrays) > 2 else y)


def inner_product(op: Operation, arrays: Sequence[Array]) -> Array:
    """Row by row, the axes from `axis` on as one."""
    x, w = arrays[0].astype(np.int64) - integer(op, "offset_x"), arrays[1].astype(np.int64)
    x = x.reshape(*x.shape[: integer(op, "axis")], -1)
    y = np.einsum("...k,nk->...n", x, w.T if flag(op, "transpose") else w)
    return in_int32(y + arrays[2].astype(np.int64) if len(arrays) > 2 else y)


def pool_window(op: Operation, sizes: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int], bool]:
    """Kernel, strides, begins, ends, and whether sizes are rounded up."""
    if op.name == "ascend.Pooling":
        assert not flag(op, "global_pooling")
        pads = numbers(op, "pad")
        return numbers(op, "window"), numbers(op, "stride"), pads[::2], pads[1::2], integer(op, "ceil_mode") == 0
    spatial = slice(1, 3) if text(op, "data_format") == "NHWC" else slice(2, 4)
    kernel, strides = numbers(op, "ksize")[spatial], numbers(op, "strides")[spatial]
    if op.name != "ascend.AvgPool":
        assert text(op, "padding_mode") == "CALCULATED"
        assert not flag(op, "global_pooling")
        return kernel, strides, numbers(op, "pads")[::2], numbers(op, "pads")[1::2], flag(op, "ceil_mode")
    if text(op, "padding") == "VALID":
        return kernel, strides, [0, 0], [0, 0], False
    totals = [max((-(-s // st) - 1) * st + k - s, 0) for s, k, st in zip(sizes, kernel, strides, strict=True)]
    return kernel, strides, [t // 2 for t in totals], [t - t // 2 for t in totals], False


def window_sum(op: Operation, arrays: Sequence[Array]) -> Array:
    last = op.name != "ascend.Pooling" and text(op, "data_format") == "NHWC"
    x = arrays[0].astype(np.int64) - integer(op, "offset_x")
    x = np.moveaxis(x, -1, 1) if last else x
    kernel, strides, begins, ends, ceil = pool_window(op, x.shape[2:])
    out = []
    for s, k, st, b, e in zip(x.shape[2:], kernel, strides, begins, ends, strict=True):
        count = 0
        # a window counts while it fits, or rounded up while it begins before the end padding
        while count * st + k <= s + b + e or (ceil and count * st < s + b and count * st - st + k < s + b + e):
            count += 1
        out.append(count)
    y = gathered(x, kernel, out, strides, begins, (1, 1)).sum(axis=(-1, -2))
    return in_int32(np.moveaxis(y, 1, -1) if last else y)


def quant(op: Operation, arrays: Sequence[Array]) -> Array:
    assert not flag(op, "sqrt_mode")
    assert text(op, "round_mode") == "Round"
    product = arrays[0].astype(np.float32) * real(op, "scale")
    total = product + real(op, "offset")
    assert total.dtype == np.float32
    half = 1 << (8 * np.dtype(dtype := {2: np.int8, 6: np.int16}[integer(op, "dst_type")]).itemsize - 1)
    return np.clip(np.rint(total), -half, half - 1).astype(dtype)


def dequant(op: Operation, arrays: Sequence[Array]) -> Array:
    assert not flag(op, "sqrt_mode")
    x, scale = arrays
    if scale.ndim == 1 and scale.size > 1:
        scale = scale.reshape(1, -1, *[1] * (x.ndim - 2))
    y = x.astype(np.float32) * scale
    assert y.dtype == np.float32
    return np.maximum(y, np.float32(0)) if flag(op, "relu_flag") else y


def requant(op: Operation, arrays: Sequence[Array]) -> Array:
    x, scale = arrays
    if scale.ndim == 1 and scale.size > 1:
        scale = scale.reshape(1, -1, *[1] * (x.ndim - 2))
    y = x.astype(np.float32) * scale
    assert y.dtype == np.float32
    y = np.maximum(y, np.float32(0)) if flag(op, "relu_flag") else y
    return np.clip(np.rint(y).astype(np.float64) + float(real(op, "offset")), -128, 127).astype(np.int8)


def max_pool(op: Operation, arrays: Sequence[Array]) -> Array:
    x = arrays[0]
    assert text(op, "data_format") == "NCHW"
    top, bottom, left, right = numbers(op, "pads")
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    (kh, kw), (sh, sw) = numbers(op, "ksize")[2:], numbers(op, "strides")[2:]
    oh, ow = (x.shape[2] - kh) // sh + 1, (x.shape[3] - kw) // sw + 1
    rows = [
        [x[:, :, i * sh : i * sh + kh, j * sw : j * sw + kw].max(axis=(2, 3)) for j in range(ow)] for i in range(oh)
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def bias_add(op: Operation, arrays: Sequence[Array]) -> Array:
    x, bias = arrays
    return x + bias if text(op, "data_format") == "NHWC" else x + bias.reshape(-1, *[1] * (x.ndim - 2))


def softmax(op: Operation, arrays: Sequence[Array]) -> Array:
    (axis,) = numbers(op, "axes")
    powers = np.exp(arrays[0] - arrays[0].max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


REFERENCE: dict[str, Callable[[Operation, Sequence[Array]], Array]] = {
    "nn.constant": lambda op, _: numbers_of(op.results[0]),
    "ascend.AscendQuant": quant,
    "ascend.AscendDequant": dequant,
    "ascend.AscendRequant": requant,
    "ascend.Conv2D": convolution,
    "ascend.Conv3D": convolution,
    "ascend.DepthwiseConv2D": convolution,
    "ascend.Conv2DTranspose": transposed_convolution,
    "ascend.Conv2DBackpropInput": transposed_convolution,
    "ascend.Deconvolution": transposed_convolution,
    "ascend.FullyConnection": inner_product,
    "ascend.MatMulV2": matrix_product,
    "ascend.BatchMatMulV2": matrix_product,
    "ascend.AvgPoolV2": window_sum,
    "ascend.AvgPool": window_sum,
    "ascend.Pooling": window_sum,
    "ascend.MaxPoolV3": max_pool,
    "ascend.BiasAdd": bias_add,
    "ascend.Add": lambda op, a: a[0] + a[1],
    "ascend.Relu": lambda op, a: np.maximum(a[0], 0),
    "ascend.Unsqueeze": lambda op, a: np.expand_dims(a[0], tuple(numbers(op, "axes"))),
    "ascend.Squeeze": lambda op, a: np.squeeze(a[0], tuple(numbers(op, "axis"))),
    "ascend.Flatten": lambda op, a: a[0].reshape(int(np.prod(a[0].shape[: integer(op, "axis")])), -1),
    "ascend.Reshape": lambda op, a: a[0].reshape(a[1]),
    "ascend.SoftmaxV2": softmax,
    "ascend.ReduceMean": lambda op, a: a[0].mean(axis=tuple(a[1]), keepdims=flag(op, "keep_dims"), dtype=np.float32),
}


def run_reference(module: ModuleOp, *inputs: Array) -> dict[SSAValue, Array]:
    """Every value of the lowered module, operation by operation."""
    function = main_function(module)
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, inputs, strict=True))
    for op in function.body.block.ops:
        if not isinstance(op, ReturnOp):
            values[op.results[0]] = REFERENCE[op.name](op, [values[o] for o in op.operands])
    return values


class Exact:
    """Lowers a module and holds the interpreter against the reference, value by value."""

    @staticmethod
    def lowered(module: ModuleOp) -> ModuleOp:
        result, session = module.clone(), new_session()
        verify(result)
        LowerToAscendPass().apply(session, result)
        verify(result)
        return result

    @staticmethod
    def run(module: ModuleOp, *inputs: Array) -> dict[SSAValue, Array]:
        """Every value that the interpreter computes. Holds that its outputs are the same where nothing is watched."""
        watched = [r for op in module.walk() for r in op.results]
        executable = Executable(module, watched)
        seen: dict[SSAValue, Array] = {}

        def watch(value: SSAValue, array: Array) -> None:
            seen[value] = array.copy()

        feed = dict(zip(executable.inputs, inputs, strict=True))
        outputs = executable.run(feed, watch)
        for name, array in Executable(module).run(feed).items():
            assert (array.dtype, array.tobytes()) == (outputs[name].dtype, outputs[name].tobytes()), name
        return seen

    def assert_equal(self, module: ModuleOp, *inputs: Array) -> dict[SSAValue, Array]:
        """0 differing elements in every value of a module that is all `ascend`. Returns the values."""
        expected, actual = run_reference(module, *inputs), self.run(module, *inputs)
        names = [op.name for op in module.walk() if op.name.startswith("nn.") and op.name != "nn.constant"]
        assert not names, f"not lowered: {names}"
        for value, array in actual.items():
            wanted = expected[value]
            assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape), value.owner
            assert np.count_nonzero(array != wanted) == 0, value.owner
        assert len(actual) >= len([v for v in expected if not isinstance(v.owner, Block | nn.ConstantOp)])
        return actual

    def assert_integers(self, module: ModuleOp, *inputs: Array) -> Counter[str]:
        """0 differing elements in every operation from or to integers, on the operands that the interpreter saw.

        Returns how many of each kind were compared.
        """
        function = main_function(module)
        seen = {**dict(zip(function.body.block.args, inputs, strict=True)), **self.run(module, *inputs)}
        compared = Counter[str]()
        for op in function.body.block.ops:
            integers = {tensor_of(v).element_type for v in (*op.operands, *op.results)} & {i8, i32}
            if not op.name.startswith("ascend.") or not integers or op.name not in REFERENCE:
                continue
            arrays = [seen[v] if v in seen else numbers_of(v) for v in op.operands]
            wanted, found = REFERENCE[op.name](op, arrays), seen[op.results[0]]
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), op
            assert np.count_nonzero(found != wanted) == 0, op
            compared[op.name.removeprefix("ascend.")] += 1
        return compared

    def of(self, module: ModuleOp, *inputs: Array) -> ModuleOp:
        """Lower, compare, and return the lowered module."""
        result = self.lowered(module)
        self.assert_equal(result, *inputs)
        return result


@pytest.fixture(scope="session")
def exact() -> Exact:
    return Exact()


# -- small quantized modules ------------------------------------------------------------------------------------------


class Net:
    """Builds a module in the quantized form of `nn`, one operation after the other."""

    def __init__(self, *shape: int):
        self.block = Block(arg_types=[TensorType(f32, shape)])
        self.x: SSAValue = self.block.args[0]

    def add(self, op: Any) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array, key: str = "c") -> SSAValue:
        return self.add(nn.ConstantOp.of(array, key))

    def quantized(self, value: SSAValue, scale: float, zero_point: int = 0, storage: IntegerType = i8) -> SSAValue:
        """The value after quantization and back, as a calibrated point leaves it."""
        params = nn.QParamsAttr.of(storage, scale, zero_point)
        integers = self.add(nn.QuantizeOp.make(value, qparams=params))
        return self.add(nn.DequantizeOp.make(integers, qparams=params, result_types=[value.type]))

    def parameter(self, integers: Array, scales: Any, axis: int | None = None) -> SSAValue:
        """An integer constant, dequantized: a weight (int8) or a bias (int32)."""
        storage = i8 if integers.dtype == np.int8 else i32
        params = nn.QParamsAttr.of(storage, np.asarray(scales, np.float32), axis=axis)
        value = self.constant(integers, "w")
        return self.add(nn.DequantizeOp.make(value, qparams=params, result_types=[TensorType(f32, integers.shape)]))

    def module(self, *results: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*results))
        types = [r.type for r in results]
        function = FuncOp("main", ([a.type for a in self.block.args], types), Region([self.block]))
        return ModuleOp([function])


@pytest.fixture(scope="session")
def net() -> Callable[..., Net]:
    return Net


def real_of(integers: Array, scale: float, zero_point: int) -> Array:
    """float32 numbers that quantize to these integers."""
    return (integers.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)


@pytest.fixture(scope="session")
def real_numbers() -> Callable[..., Array]:
    return real_of
