"""Which integers stay in float32, which activations become bounds, and that the results are those of each operation by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from amct_opt.ir.text import parse_module
from amct_opt.runtime.ascend_plan import in_float32
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.program import Program
from amct_opt.session.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]

X = np.random.default_rng(0).normal(0, 4, (2, 3, 5, 5)).astype(np.float32)
X[0, 0, 0] = [0, -0.0, 1e30, -1e30, 6]

QUANT = "%q = ascend.AscendQuant %x scale 20.0 offset {offset} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xi8>"
WEIGHT = "%w = nn.constant dense<{weight}> : tensor<4x3x1x1xi8>\n%s = nn.constant dense<[0.01, 0.02, 0.3, 4.0]> : tensor<4xf32>"
CONV = """
  %a = ascend.Conv2D %q, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x {offset}
    : (tensor<2x3x5x5xi8>, tensor<4x3x1x1xi8>) -> tensor<2x4x5x5xi32>
"""
DEQUANT = "%d = ascend.AscendDequant %a, %s : (tensor<2x4x5x5xi32>, tensor<4xf32>) -> tensor<2x4x5x5xf32>"


def module(*lines: str, offset: int = -7, weight: object = 3, y: str = "%d", kind: str = "2x4x5x5xf32") -> ModuleOp:
    body = "\n".join(line.format(offset=offset, weight=weight) for line in lines)
    head = f'func.func @main(%x: tensor<2x3x5x5xf32> {{nn.name = "x"}}) -> (tensor<{kind}> {{nn.name = "y"}})'
    return parse_module(new_session(), f"{head} {{\n{body}\nfunc.return {y} : tensor<{kind}>\n}}\n", "net.mlir")


def planned(m: ModuleOp, watched: Sequence[SSAValue] = ()) -> Program:
    found: list[Program] = []

    def note(program: Program) -> Program:
        found.append(in_float32(program))
        return found[-1]

    Executable(m, watched, note)
    return found[0]


def rewritten(m: ModuleOp, watched: Sequence[SSAValue] = ()) -> list[str]:
    """The operations with a kernel that is not their own."""
    return [row.op.name.removeprefix("ascend.") for row in planned(m, watched).rows if row.kernel is not None]


def assert_same(m: ModuleOp, x: Array = X) -> Array:
    """The result, to the bit that of each operation by itself."""
    plain, result = (Executable(m, rewrite=rewrite).run({"x": x})["y"] for rewrite in (lambda p: p, None))
    assert result.dtype == plain.dtype
    assert result.tobytes() == plain.tobytes()
    return result


@pytest.mark.parametrize("offset", [-128, -7, 0, 127])
@pytest.mark.parametrize("weight", [0, 3, -128])
def test_a_layer_in_float32(offset: int, weight: int) -> None:
    m = module(QUANT, WEIGHT, CONV, DEQUANT, offset=offset, weight=weight)
    assert rewritten(m) == ["AscendQuant", "Conv2D"]
    result = assert_same(m)
    q = np.clip(np.rint(X * np.float32(20) + np.float32(offset)), -128, 127).astype(np.int64)
    sums = (q - offset).sum(axis=1, keepdims=True) * weight
    np.testing.assert_array_equal(
        result, sums.astype(np.float32) * np.array([0.01, 0.02, 0.3, 4], np.float32).reshape(4, 1, 1)
    )
    assert not np.signbit(result[sums.repeat(4, axis=1) == 0]).any(), "integers have no -0"


def kernel_result(m: ModuleOp, name: str, *arrays: Array) -> Array:
    (row,) = (row for row in planned(m).rows if row.op.name == name)
    assert row.kernel is not None
    result = row.kernel(*arrays)
    assert isinstance(result, np.ndarray)
    return result


def test_accumulators_beyond_float32_are_int32() -> None:
    """2^24 is the largest; weights of 127 over 1033 channels make more."""
    for channels, dtype in ((1032, np.float32), (1033, np.int32)):
        x, w = f"2x{channels}x1x1", f"4x{channels}x1x1"
        lines = [line.replace("2x3x5x5", x).replace("4x3x1x1", w) for line in (QUANT, WEIGHT, CONV)]
        lines = [line.replace("2x4x5x5", "2x4x1x1") for line in (*lines, DEQUANT)]
        text = "\n".join(lines).format(offset=0, weight=127)
        head = f'func.func @main(%x: tensor<{x}xf32> {{nn.name = "x"}}) -> (tensor<2x4x1x1xf32> {{nn.name = "y"}})'
        m = parse_module(new_session(), f"{head} {{\n{text}\nfunc.return %d : tensor<2x4x1x1xf32>\n}}\n", "net.mlir")
        lowest = np.full((2, channels, 1, 1), -128, np.int8)
        sums = kernel_result(m, "ascend.Conv2D", lowest, np.empty(0))
        assert sums.dtype == dtype
        assert (sums == -128 * 127 * channels).all()
        assert_same(m, np.full((2, channels, 1, 1), -7, np.float32))


SHIFTED = DEQUANT.replace("%s :", "%s shift_n [3, 0, 5, 1] :")
REQUANT = "%d = ascend.AscendRequant %a, %s : (tensor<2x4x5x5xi32>, tensor<4xf32>) -> tensor<2x4x5x5xi8>"
AGAIN = "%e = ascend.AscendDequant %a, %s : (tensor<2x4x5x5xi32>, tensor<4xf32>) -> tensor<2x4x5x5xf32>\n"
RAW = "%e = ascend.Cast %a dst_type 0 : (tensor<2x4x5x5xi32>) -> tensor<2x4x5x5xf32>\n"
SUM = "%y = ascend.Add %d, %e : (tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>"


@pytest.mark.parametrize(
    ("lines", "y", "kind", "expected"),
    [
        ((REQUANT,), "%d", "2x4x5x5xi8", ["AscendQuant", "Conv2D"]),
        ((DEQUANT, AGAIN, SUM), "%y", "2x4x5x5xf32", ["AscendQuant", "Conv2D"]),
        ((DEQUANT, RAW, SUM), "%y", "2x4x5x5xf32", ["AscendQuant"]),
        ((SHIFTED,), "%d", "2x4x5x5xf32", ["AscendQuant"]),
        ((), "%a", "2x4x5x5xi32", ["AscendQuant"]),
    ],
    ids=["requant", "two", "other", "shift", "output"],
)
def test_who_may_read_accumulators(lines: Sequence[str], y: str, kind: str, expected: Sequence[str]) -> None:
    m = module(QUANT, WEIGHT, CONV, *lines, y=y, kind=kind)
    assert rewritten(m) == expected
    assert_same(m)


@pytest.mark.parametrize("relu", ["", "relu_flag true "])
@pytest.mark.parametrize("offset", [-128, -7, 100])
def test_requantized_integers_in_float32(relu: str, offset: int) -> None:
    second = """
      %r = ascend.AscendRequant %a, %s {relu}offset {offset} : (tensor<2x4x5x5xi32>, tensor<4xf32>) -> tensor<2x4x5x5xi8>
      %v = nn.constant dense<-5> : tensor<1x4x3x3xi8>
      %y = ascend.Conv2D %r, %v strides [1, 1, 1, 1] pads [1, 1, 1, 1] data_format "NCHW" offset_x {offset}
        : (tensor<2x4x5x5xi8>, tensor<1x4x3x3xi8>) -> tensor<2x1x5x5xi32>
    """
    second = second.replace("{relu}", relu)
    m = module(QUANT, WEIGHT, CONV, second, offset=offset, y="%y", kind="2x1x5x5xi32")
    assert rewritten(m) == ["AscendQuant", "Conv2D", "AscendRequant"]
    result = assert_same(m)
    assert len(np.unique(result)) > 5


def test_what_is_watched_is_of_its_type() -> None:
    m = module(QUANT, WEIGHT, CONV, DEQUANT)
    values = [r for op in m.walk() if op.name in ("ascend.AscendQuant", "ascend.Conv2D") for r in op.results]
    assert "Conv2D" not in rewritten(m, values)
    seen: list[Array] = []
    Executable(m, values).run({"x": X}, lambda _, a: seen.append(a))
    assert [a.dtype for a in seen] == [np.int8, np.int32]


RELU6 = "%r = ascend.Relu6 %x : tensor<2x3x5x5xf32>"
CLIP = """
  %low = nn.constant dense<-1.5> : tensor<f32>
  %high = nn.constant dense<3.3> : tensor<f32>
  %r = ascend.ClipByValue %x, %low, %high : (tensor<2x3x5x5xf32>, tensor<f32>, tensor<f32>) -> tensor<2x3x5x5xf32>
"""
RELU = "%r = ascend.Relu %x : tensor<2x3x5x5xf32>"
OF_RELU = QUANT.replace("%x", "%r")


@pytest.mark.parametrize("offset", [-128, -7, 0, 127])
@pytest.mark.parametrize("activation", [RELU, RELU6, CLIP])
def test_activations_become_bounds(activation: str, offset: int) -> None:
    m = module(activation, OF_RELU, WEIGHT, CONV, DEQUANT, offset=offset)
    assert [row.op.name for row in planned(m).rows] == ["ascend.AscendQuant", "ascend.Conv2D", "ascend.AscendDequant"]
    assert_same(m)


def test_an_activation_with_another_reader_stays() -> None:
    double = "%z = ascend.Add %r, %r : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>"
    types = "(tensor<2x4x5x5xf32>, tensor<2x3x5x5xf32>, tensor<i64>) -> tensor<2x7x5x5xf32>"
    both = f"%y = ascend.ConcatV2 %d, %z, %axis N 2 : {types}"
    axis = "%axis = nn.constant dense<1> : tensor<i64>"
    m = module(RELU6, OF_RELU, WEIGHT, CONV, DEQUANT, double, axis, both, y="%y", kind="2x7x5x5xf32")
    assert "ascend.Relu6" in [row.op.name for row in planned(m).rows]
    assert_same(m)
