"""What becomes an integer kernel, and what stays float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, f16
from xdsl.ir import SSAValue

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import shape_of, tensor
from amct_opt.runtime.executor import Executable, RunError
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.runtime.program import Program
from amct_opt.support.diagnostics import CompileError

from ...values import made_by
from .nets import Chain, Point

IN, OUT = Point(0.5, 3), Point(1.0)


def integer_rows(module: ModuleOp, watched: Sequence[SSAValue] = ()) -> list[str]:
    """The rows with a kernel that is not their operation's own."""
    found: list[str] = []

    def note(program: Program) -> Program:
        rewritten = in_integers(program)
        found.extend(row.op.name for row in rewritten.rows if row.kernel is not None)
        return rewritten

    Executable(module, watched, note)
    return found


def layer(net: Chain, **properties: Any) -> SSAValue:
    return net.weighted(nn.ConvOp, net.at(net.x, IN), IN, (3, 2, 1, 1), [0.25, 0.5, 1.0], **properties)


def test_numbers_by_hand() -> None:
    """x = 2 and -1 are 7 and 1 at zero point 3; sums (7-3) * w0 + (1-3) * w1 + b, times 0.5 * sw, half to even."""
    net = Chain(1, 2, 1, 1)
    weight = np.array([[5, 3], [-128, 127], [1, 2]], np.int8).reshape(3, 2, 1, 1)
    y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, weight.shape, [0.25, 0.5, 1.0], weight=weight, bias=False)
    module = net.module(net.at(y, Point(1.0, -20)))
    assert integer_rows(module) == ["nn.quantize"]
    executable = Executable(module, rewrite=in_integers)
    (result,) = executable.run({executable.inputs[0]: np.array([2, -1], np.float32).reshape(1, 2, 1, 1)}).values()
    # 14 / 8 = 1.75; -766 / 4 = -191.5, beyond -128 + 20; 0
    assert result.ravel().tolist() == [2, -108, 0]


def test_a_second_reader_keeps_a_layer_float() -> None:
    net = Chain(1, 2, 4, 4)
    y = layer(net)
    with pytest.raises(CompileError, match="takes and gives integers"):
        integer_rows(net.module(net.at(y, OUT), y))


def test_a_watched_value_keeps_its_layer_float() -> None:
    net = Chain(1, 2, 4, 4)
    first = layer(net)
    second = net.weighted(nn.ConvOp, net.at(first, OUT), OUT, (2, 3, 1, 1), 0.5)
    module = net.module(net.at(second, OUT))
    assert integer_rows(module) == ["nn.quantize", "nn.quantize"]
    assert integer_rows(module, [first]) == ["nn.quantize"]


def test_what_is_watched_inside_a_layer_is_told() -> None:
    """Quantized values are between kernels: watching them changes nothing."""
    net = Chain(1, 2, 1, 1)
    y = layer(net)
    dequantized = net.at(y, OUT)
    module = net.module(dequantized)
    integers = made_by(dequantized, nn.DequantizeOp).input
    seen: list[np.ndarray] = []
    executable = Executable(module, [integers], in_integers)
    executable.run({executable.inputs[0]: np.ones((1, 2, 1, 1), np.float32)}, lambda _, a: seen.append(a.copy()))
    assert integer_rows(module, [integers]) == ["nn.quantize"]
    assert [a.dtype for a in seen] == [np.int8]


def bias_of_another_scale(net: Chain) -> SSAValue:
    weight = net.parameter(np.ones((3, 2, 1, 1), np.int8), [0.25, 0.5, 1.0], 0, "w")
    bias = net.parameter(np.ones(3, np.int32), [0.125, 0.25, 0.51], 0, "b")
    return net.at(net.add(nn.ConvOp, net.at(net.x, IN), weight, bias), OUT)


def weight_with_zero_point(net: Chain) -> SSAValue:
    params = nn.QParamsAttr.of(IntegerType(8), 0.5, 1)
    weight = net.add(nn.DequantizeOp, net.constant(np.ones((3, 2, 1, 1), np.int8), "w"), qparams=params)
    return net.at(net.add(nn.ConvOp, net.at(net.x, IN), weight), OUT)


def weight_of_4_bits(net: Chain) -> SSAValue:
    import ml_dtypes

    params = nn.QParamsAttr.of(IntegerType(4), 0.5)
    weight = net.add(nn.DequantizeOp, net.constant(np.ones((3, 2, 1, 1), ml_dtypes.int4), "w"), qparams=params)
    return net.at(net.add(nn.ConvOp, net.at(net.x, IN), weight), OUT)


def activations_of_16_bits(net: Chain) -> SSAValue:
    params = nn.QParamsAttr.of(IntegerType(16), 0.5)
    integers = net.add(nn.QuantizeOp, net.x, qparams=params)
    x = net.add(nn.DequantizeOp, integers, qparams=params)
    return net.at(net.weighted(nn.ConvOp, x, IN, (3, 2, 1, 1), 0.5), OUT)


def result_of_16_bits(net: Chain) -> SSAValue:
    return net.add(nn.QuantizeOp, layer(net), qparams=nn.QParamsAttr.of(IntegerType(16), 0.5))


def half_floats(net: Chain) -> SSAValue:
    params = nn.QParamsAttr.of(IntegerType(8), 0.5)
    types = [tensor(f16, shape_of(net.x))]
    x = net.add(nn.DequantizeOp, net.add(nn.QuantizeOp, net.x, qparams=params), qparams=params, result_types=types)
    return net.add(nn.QuantizeOp, net.add(nn.AddOp, x, x), qparams=params)


def float_operand(net: Chain) -> SSAValue:
    return net.at(net.add(nn.AddOp, net.at(net.x, IN), net.x), OUT)


def padded_with_ones(net: Chain) -> SSAValue:
    y = net.add(nn.PadOp, net.at(net.x, IN), pads=(0, 0, 1, 0, 0, 0, 0, 0), value=1.0)
    return net.at(net.weighted(nn.ConvOp, y, IN, (3, 2, 1, 1), 0.5), OUT)


@pytest.mark.parametrize(
    "build",
    [
        bias_of_another_scale,
        weight_with_zero_point,
        weight_of_4_bits,
        activations_of_16_bits,
        result_of_16_bits,
        half_floats,
        float_operand,
        padded_with_ones,
    ],
)
def test_no_chain(build: Callable[[Chain], SSAValue]) -> None:
    net = Chain(1, 2, 4, 4)
    with pytest.raises(CompileError, match="takes and gives integers"):
        integer_rows(net.module(build(net)))


def test_sums_beyond_int32_are_an_error() -> None:
    """onnxruntime wraps around."""
    net = Chain(1, 70000)
    weight = np.full((70000, 1), -128, np.int8)
    y = net.weighted(nn.MatMulOp, net.at(net.x, Point(1.0, 127)), IN, weight.shape, 0.5, weight=weight, bias=False)
    executable = Executable(net.module(net.at(y, OUT)), rewrite=in_integers)
    with pytest.raises(RunError, match="do not fit into int32"):
        executable.run({executable.inputs[0]: np.full((1, 70000), -255, np.float32)})


def test_channels_last() -> None:
    """The numbers of channels second, moved."""
    results = []
    for layout in ("nchw", "nhwc"):
        net = Chain(*((1, 2, 5, 4) if layout == "nchw" else (1, 5, 4, 2)))
        x = np.random.default_rng(1).normal(size=(1, 2, 5, 4)).astype(np.float32)
        y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, (3, 2, 3, 3), 0.01, pads=(1, 1, 1, 1), layout=layout)
        y = net.add(nn.AveragePoolOp, net.at(y, Point(0.1)), kernel=(2, 2), layout=layout)
        module = net.module(net.at(y, Point(0.1)))
        assert integer_rows(module) == ["nn.quantize"] * 2
        executable = Executable(module, rewrite=in_integers)
        given = x if layout == "nchw" else np.moveaxis(x, 1, -1)
        (result,) = executable.run({executable.inputs[0]: given}).values()
        results.append(result if layout == "nchw" else np.moveaxis(result, -1, 1))
    np.testing.assert_array_equal(*results)
    assert len(np.unique(results[0])) > 3
