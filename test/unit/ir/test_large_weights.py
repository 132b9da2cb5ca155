"""Weights that are mapped from a file do not stay in memory once they were looked at; those that a pass replaces go at once."""

import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt.dialects import nn
from amct_opt.dialects.ascend.base import i8
from amct_opt.dialects.nn import QParamsAttr
from amct_opt.ir.text import parse_module, write_side_file
from amct_opt.ir.weights import is_finite, open_side_file, release
from amct_opt.lowering.ascend.trial_lowering import integer_refusal
from amct_opt.pipelines.passes import make_pass
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.numbers.parameters import quantized

MEGABYTE = 1 << 20

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident(kind: str) -> int:
    """Bytes of this process in memory that are of a file (`RssFile`) or not (`RssAnon`)."""
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@linux
def test_a_mapped_array_is_let_go_of_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_side_file(path, {"a": np.arange(8 * MEGABYTE, dtype=np.float32), "b": np.ones(7, np.float32)})
    array = open_side_file(path).array("a").reshape(4, -1).T
    before = resident("RssFile")
    total = array.sum(dtype=np.float64)
    assert resident("RssFile") - before > 24 * MEGABYTE
    release(array)
    assert resident("RssFile") - before < 8 * MEGABYTE
    assert array.sum(dtype=np.float64) == total


def test_an_array_that_can_be_written_to_keeps_its_numbers(tmp_path: Path) -> None:
    np.zeros(MEGABYTE, np.float32).tofile(tmp_path / "f")
    for array in (np.memmap(tmp_path / "f", np.float32, "c"), np.zeros(MEGABYTE, np.float32)):
        array[:] = 3
        release(array)
        assert (array == 3).all()


@pytest.mark.parametrize("place", [0, 70_000, 199_999])
def test_one_bad_number_anywhere(place: int) -> None:
    array = np.ones((2, 100_000), np.float32)
    assert is_finite(array)
    assert is_finite(array.T)
    array.reshape(-1)[place] = np.nan
    assert not is_finite(array)
    assert not is_finite(array.T)


def multiplied(count: int, size: int) -> ModuleOp:
    """A chain of matrix products, each by its own weight `[size, size]`."""
    type_, rng = TensorType(f32, (1, size)), np.random.default_rng(0)
    block = Block(arg_types=[type_])
    value: SSAValue = block.args[0]
    for i in range(count):
        weight = nn.ConstantOp.of(rng.standard_normal((size, size), np.float32), f"w{i}")
        product = nn.MatMulOp.make(value, weight.result)
        block.add_ops([weight, product])
        value = product.result
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("main", ([type_], [type_]), Region(block))])


def test_float_weights_go_while_integers_are_made() -> None:
    """Sixteen weights of 4 MB become integers of 1 MB each: one of both at a time is more than there was, not all."""
    quantize = make_pass("quantize", "weight-only=true")
    quantize.apply(new_session(), multiplied(1, 8))  # the modules that it imports are not counted
    tracemalloc.start()
    module = multiplied(16, 1024)
    before = tracemalloc.get_traced_memory()[0]
    quantize.apply(new_session(), module)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert before > 64 * MEGABYTE
    assert peak - before < 8 * MEGABYTE
    assert after < 24 * MEGABYTE
    assert [op.array.dtype for op in module.walk() if isinstance(op, nn.ConstantOp)] == [np.int8] * 16


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("order", ["C", "F"])
def test_quantizing_by_pieces(axis: int | None, offset: int, order: str) -> None:
    """More numbers than one piece, next to the formula on all at once."""
    rng = np.random.default_rng(1)
    values = np.asarray(rng.standard_normal((7, 150, 67)), np.float32, order="F" if order == "F" else "C")
    sizes = () if axis is None else (values.shape[axis],)
    scales = rng.uniform(0.005, 0.02, sizes).astype(np.float32)
    points = np.full(sizes, offset, np.int32)
    spread = [1 if i != axis else -1 for i in range(3)]
    steps = np.rint(values / scales.reshape(spread)) + offset
    result = quantized(values, scales, 8, axis, points)
    assert result.dtype == np.int8
    assert result.flags.c_contiguous
    assert np.array_equal(result, np.clip(steps, -128, 127))


LARGE = {
    "in one dimension": ("conv", "1x64x16", "2048x64x128", "1x2048x1", "pads [56, 56]", '<onnx, "Conv", "c">'),
    "channels last": ("conv", "1x8x8x64", "2048x64x8x8", "1x1x1x2048", "layout nhwc", '<tensorflow, "Conv2D", "c">'),
    "depthwise": (
        "conv",
        "1x64x64x2048",
        "2048x1x64x64",
        "1x1x1x2048",
        "groups 2048 layout nhwc",
        '<tensorflow, "DepthwiseConv2dNative", "c">',
    ),
    "matrix": ("matmul", "1x2048", "4096x2048", "1x4096", "transpose_b", '<onnx, "Gemm", "c">'),
}
"""Operation, input, weight of 8 million elements or more, result, attributes, origin."""


@pytest.mark.parametrize("form", LARGE)
def test_asking_the_lowering_takes_no_memory(form: str) -> None:
    """Whether a layer would compute in integers is asked with a stand-in for its weight, in any order of its axes."""
    kind, x, weight, result, attributes, origin = LARGE[form]
    types = f"(tensor<{x}xf32>, tensor<{weight}xf32>) -> tensor<{result}xf32>"
    text = f"func.func @main(%x: tensor<{x}xf32>, %w: tensor<{weight}xf32>) -> tensor<{result}xf32> {{\n"
    text += f"  %y = nn.{kind} %x, %w {attributes} from {origin} : {types}\n"
    text += f"  func.return %y : tensor<{result}xf32>\n}}\n"
    (op,) = [op for op in parse_module(new_session(), text).walk() if isinstance(op, nn.ConvOp | nn.MatMulOp)]
    assert integer_refusal(op) is None
    tracemalloc.start()
    integer_refusal(op, QParamsAttr.of(i8, 0.5))  # asked anew: the answer for unknown parameters is kept
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTE
