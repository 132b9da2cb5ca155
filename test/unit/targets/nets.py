"""Small quantized modules, one operation after the other, their numbers, and small networks as ONNX models, quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import run_passes
from amct_opt.session.universe import new_session
from amct_opt.transforms.canonicalization import CanonicalizePass
from amct_opt.transforms.fusion.fuse_all import FuseAllPass
from amct_opt.transforms.quantization.quantize import QuantizePass

Array = np.ndarray[Any, np.dtype[Any]]
EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits"

i8 = IntegerType(8)


def real(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 2


def int8(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def scales(count: int) -> Array:
    return np.random.default_rng(3).uniform(0.001, 0.1, count)


def quantized(path: Path, data: Path | None = None) -> ModuleOp:
    """The network of a file; without data, calibrated on synthetic inputs, with a warning."""
    session = new_session()
    module = frontends.read(path, session)
    passes = [CanonicalizePass(), FuseAllPass(), QuantizePass(data=None if data is None else str(data))]
    run_passes(module, passes, session)
    return module


def digits() -> tuple[ModuleOp, dict[str, Array]]:
    """The network of the digits example, calibrated on its data, and other inputs."""
    return quantized(DIGITS / "digits.onnx", DIGITS / "calib.npz"), dict(np.load(DIGITS / "heldout.npz"))


class Net:
    """A module in the quantized form of `nn`."""

    def __init__(self, *shape: int, element: Any = f32, framework: str = "onnx"):
        self.framework = framework
        self.block = Block(arg_types=[TensorType(element, shape)])
        self.x: SSAValue = self.block.args[0]
        self.x.name_hint = "x"

    def add(self, kind: Any, *operands: Any, layer: str = "", op_type: str = "", **properties: Any) -> SSAValue:
        if layer:
            properties["origin"] = nn.OriginAttr.of(self.framework, op_type or "Op", layer)
        op = kind.make(*operands, **properties)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array, key: str) -> SSAValue:
        op = nn.ConstantOp.of(array, key)
        self.block.add_op(op)
        return op.result

    def quantized(self, value: SSAValue, scale: float, zero_point: int = 0, bits: int = 8) -> SSAValue:
        """The value after quantization and back, as a calibrated point leaves it."""
        params = nn.QParamsAttr.of(IntegerType(bits), scale, zero_point)
        integers = self.add(nn.QuantizeOp, value, qparams=params)
        return self.add(nn.DequantizeOp, integers, qparams=params, result_types=[value.type])

    def parameter(self, integers: Array, scales: Any, axis: int | None, key: str) -> SSAValue:
        """An integer constant, dequantized: a weight (int8) or a bias (int32)."""
        storage = i8 if integers.dtype == np.int8 else i32
        params = nn.QParamsAttr.of(storage, np.asarray(scales, np.float32), axis=axis)
        value = self.constant(integers, key)
        element = self.x.type.element_type  # type: ignore[attr-defined]
        return self.add(nn.DequantizeOp, value, qparams=params, result_types=[TensorType(element, integers.shape)])

    def layer(
        self,
        kind: Any,
        x: SSAValue,
        weight: Array,
        *,
        scales: Any = 0.01,
        axis: int = 0,
        bias: Array | None = None,
        zero_point: int = 0,
        bits: int = 8,
        name: str = "conv",
        op_type: str = "Conv",
        **properties: Any,
    ) -> SSAValue:
        """A quantized layer on x, which is quantized by 0.03."""
        scales = np.asarray(scales, np.float32)
        per_channel = axis if scales.ndim else None
        operands = [
            self.quantized(x, 0.03, zero_point, bits),
            self.parameter(weight, scales, per_channel, f"{name}.weight.i8"),
        ]
        if bias is not None:
            bias_axis = 0 if scales.ndim else None
            operands.append(self.parameter(bias, np.float32(0.03) * scales, bias_axis, f"{name}.bias.i32"))
        return self.add(kind, *operands, layer=name, op_type=op_type, **properties)

    def module(self, *results: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*results))
        types = [r.type for r in results]
        return ModuleOp([FuncOp("main", ([a.type for a in self.block.args], types), Region([self.block]))])


def residual_network() -> ModelProto:
    """Convolutions with bias, a residual with a strided shortcut, average pools, and a classifier."""
    rng = np.random.default_rng(5)
    shapes = {
        "conv0": (8, 3, 3, 3),
        "conv1": (16, 8, 3, 3),
        "conv2": (16, 16, 3, 3),
        "short": (16, 8, 1, 1),
        "fc": (10, 16),
    }
    weights = {}
    for name, shape in shapes.items():
        fan = int(np.prod(shape[1:]))
        weights[f"{name}.weight"] = (rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32)
        weights[f"{name}.bias"] = (rng.normal(size=shape[0]) * 0.1).astype(np.float32)

    def conv(name: str, x: str, y: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [y], name, **attributes)

    nodes = [
        conv("conv0", "x", "a0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a0"], ["a1"], "relu0"),
        conv("conv1", "a1", "b0", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Clip", ["b0", "zero", "six"], ["b1"], "relu6"),
        conv("conv2", "b1", "b2", pads=[1, 1, 1, 1]),
        conv("short", "a1", "s0", strides=[2, 2]),
        helper.make_node("Add", ["b2", "s0"], ["c0"], "add"),
        helper.make_node("Relu", ["c0"], ["c1"], "relu1"),
        helper.make_node("AveragePool", ["c1"], ["d0"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["d0"], ["d1"], "gap"),
        helper.make_node("Flatten", ["d1"], ["d2"], "flatten"),
        helper.make_node("Gemm", ["d2", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    weights |= {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def separable_network() -> ModelProto:
    """Depthwise and pointwise convolutions with HardSwish, a gate from a global pool, and a residual."""
    rng = np.random.default_rng(6)
    shapes = {
        "stem": (8, 3, 3, 3),
        "deep": (8, 1, 3, 3),
        "squeeze": (4, 8, 1, 1),
        "excite": (8, 4, 1, 1),
        "point": (8, 8, 1, 1),
    }
    weights = {}
    for name, shape in shapes.items():
        weights[f"{name}.weight"] = (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        weights[f"{name}.bias"] = (rng.normal(size=shape[0]) * 0.1).astype(np.float32)

    def conv(name: str, x: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [f"{name}.y"], name, **attributes)

    nodes = [
        conv("stem", "x", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("HardSwish", ["stem.y"], ["a"], "act0"),
        conv("deep", "a", pads=[1, 1, 1, 1], group=8),
        helper.make_node("HardSwish", ["deep.y"], ["b"], "act1"),
        helper.make_node("GlobalAveragePool", ["b"], ["g"], "pool"),
        conv("squeeze", "g"),
        helper.make_node("Relu", ["squeeze.y"], ["r"], "act2"),
        conv("excite", "r"),
        helper.make_node("HardSigmoid", ["excite.y"], ["s"], "gate", alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", ["b", "s"], ["m"], "scale"),
        conv("point", "m"),
        helper.make_node("Add", ["point.y", "a"], ["y"], "add"),
    ]
    graph = helper.make_graph(
        nodes,
        "separable",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 6, 6])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
