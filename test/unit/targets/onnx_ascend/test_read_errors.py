"""Deployed files that are malformed, or ask for what the interpreter does not do, end in one located line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import ascend, nn
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Change = Callable[[ModelProto], object]


def deployed() -> ModelProto:
    """AscendQuant, Conv and AscendDequant, as AMCT writes them."""
    weights = {
        "conv.weight": np.ones((4, 3, 3, 3), np.int8),
        "conv.bias": np.arange(4, dtype=np.int32),
        "conv.dequant.param": np.full(4, 0x3A83126F, np.uint64),
    }
    nodes = [
        helper.make_node("AscendQuant", ["x"], ["q"], "conv.quant", scale=50.0, offset=-3.0, dst_type="INT8"),
        helper.make_node("Conv", ["q", "conv.weight", "conv.bias"], ["acc"], "conv"),
        helper.make_node("AscendDequant", ["acc", "conv.dequant.param"], ["y"], "conv.dequant", dtype=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 3, 3])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def node(model: ModelProto, name: str) -> NodeProto:
    return next(n for n in model.graph.node if n.name == name)


def attribute(name: str, **values: Any) -> Change:
    """Sets attributes of a node; None takes one away."""

    def change(model: ModelProto) -> None:
        found = node(model, name)
        kept = [a for a in found.attribute if a.name not in values]
        added = [helper.make_attribute(k, v) for k, v in values.items() if v is not None]
        del found.attribute[:]
        found.attribute.extend([*kept, *added])

    return change


def tensor(name: str, array: Any) -> Change:
    def change(model: ModelProto) -> None:
        (found,) = (i for i in model.graph.initializer if i.name == name)
        found.CopyFrom(numpy_helper.from_array(array, name))

    return change


def without_parameter(model: ModelProto) -> None:
    del node(model, "conv.dequant").input[1]


def unquantized(model: ModelProto) -> None:
    """int8 that comes as an input."""
    del model.graph.node[0]
    model.graph.node[0].input[0] = "x"
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8


def through(op_type: str, value: str, **attributes: Any) -> Change:
    """Puts an operator after a value."""

    def change(model: ModelProto) -> None:
        index = next(i for i, n in enumerate(model.graph.node) if value in n.output)
        for each in model.graph.node:
            each.input[:] = ["between" if v == value else v for v in each.input]
        model.graph.node.insert(index + 1, helper.make_node(op_type, [value], ["between"], "odd", **attributes))

    return change


def not_dequantized(model: ModelProto) -> None:
    model.graph.node[2].CopyFrom(helper.make_node("Relu", ["acc"], ["y"], "relu"))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32


def dequantized_float(model: ModelProto) -> None:
    node(model, "conv.dequant").input[0] = "x"


CASES: dict[str, tuple[Change, str, str]] = {
    "bits of msmodelslim": (attribute("conv.quant", dst_type=None, quant_bit=4), "conv.quant", "has quant_bit = 4"),
    "no parameter": (without_parameter, "conv.dequant", "AscendDequant has no input 1"),
    "float parameter": (
        tensor("conv.dequant.param", np.ones(4, np.float32)),
        "conv.dequant",
        "has a parameter of float32, but it must be uint64",
    ),
    "matrix": (tensor("conv.dequant.param", np.ones((4, 1), np.uint64)), "conv.dequant", r"of shape \[4, 1\]"),
    "wrong length": (tensor("conv.dequant.param", np.full(3, 0x3A83126F, np.uint64)), "conv.dequant", "4 and 3"),
    "large shift": (
        tensor("conv.dequant.param", np.full(4, 0x113A83126F, np.uint64)),
        "conv.dequant",
        r"not in \[0, 16\]: \[17\]",
    ),
    "weight offset": (
        tensor("conv.dequant.param", np.full(4, 0xFF003A83126F, np.uint64)),
        "conv.dequant",
        "a weight with an offset",
    ),
    "scale 0": (tensor("conv.dequant.param", np.zeros(4, np.uint64)), "conv.dequant", "not positive and finite"),
    "NaN": (tensor("conv.dequant.param", np.full(4, 0x7FC00000, np.uint64)), "conv.dequant", "not positive and finite"),
    "dequantized float": (dequantized_float, "conv.dequant", "the int32 result of a layer, not float32"),
    "dtype": (attribute("conv.dequant", dtype=7), "conv.dequant", "neither 0"),
    "no scale": (attribute("conv.quant", scale=None), "conv.quant", "has no attribute 'scale'"),
    "negative scale": (attribute("conv.quant", scale=-1.0), "conv.quant", "positive and finite"),
    "infinite scale": (attribute("conv.quant", scale=float("inf")), "conv.quant", "the scale inf"),
    "integer scale": (attribute("conv.quant", scale=1), "conv.quant", "must be a number"),
    "offset": (attribute("conv.quant", offset=200.0), "conv.quant", r"200 is not in \[-128, 127\]"),
    "half an offset": (attribute("conv.quant", offset=0.5), "conv.quant", "0.5, but it must be an integer"),
    "UINT8": (attribute("conv.quant", dst_type="UINT8"), "conv.quant", "gives UINT8"),
    "offset of INT16": (
        attribute("conv.quant", dst_type="INT16", offset=-32769.0),
        "conv.quant",
        r"-32769 is not in \[-32768, 32767\]",
    ),
    "rounding": (attribute("conv.quant", round_mode="Odd"), "conv.quant", "'Odd'"),
    "float weight": (tensor("conv.weight", np.ones((4, 3, 3, 3), np.float32)), "conv", "a weight of float32"),
    "float bias": (tensor("conv.bias", np.ones(4, np.float32)), "conv", "a bias of float32, but it must be int32"),
    "bias of a matrix": (tensor("conv.bias", np.ones((4, 4), np.int32)), "conv", "bias must be of rank 1"),
    "strides": (attribute("conv", strides=[1]), "conv", "strides has 1 entries, expected 2"),
    "pads": (attribute("conv", pads=[1, 1]), "conv", "pads has 2 entries, expected 4"),
    "dilations": (attribute("conv", dilations=[1, 1, 1]), "conv", "dilations has 3 entries, expected 2"),
    "groups": (attribute("conv", group=2), "conv", "does not fit together"),
    "another kernel": (attribute("conv", kernel_shape=[5, 5]), "conv", r"kernel_shape \[5, 5\]"),
    "no zero point": (unquantized, "conv", "come from no AscendQuant"),
    "float operator": (through("Relu", "q"), "odd", "computes in float, and takes the integers of AscendQuant"),
    "unknown operator": (through("Odd", "q"), "odd", "takes the integers of AscendQuant"),
    "between": (through("Relu", "acc"), "conv", "AscendDequant must follow"),
    "not dequantized": (not_dequantized, "conv", "AscendDequant must follow"),
}


@pytest.mark.parametrize("case", CASES)
def test_located(case: str, tmp_path: Path) -> None:
    change, where, message = CASES[case]
    model = deployed()
    change(model)
    path = tmp_path / "bad.onnx"
    onnx.save(model, path)
    with pytest.raises(CompileError, match=message) as caught:
        verify(frontends.read(path, new_session()))
    assert caught.value.where == f"{path}: node '{where}'"


def test_the_model_itself_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "good.onnx"
    onnx.save(deployed(), path)
    verify(frontends.read(path, new_session()))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "has no attribute 'kernel_shape'"),
        ({"kernel_shape": [3]}, "rank 4 and a kernel of 1 axes"),
        ({"kernel_shape": [3, 3], "dilations": [2, 2]}, "with dilations"),
    ],
)
def test_pools(attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = deployed()
    node(model, "conv").CopyFrom(helper.make_node("AveragePool", ["q"], ["acc"], "pool", **attributes))
    path = tmp_path / "bad.onnx"
    onnx.save(model, path)
    with pytest.raises(CompileError, match=message) as caught:
        frontends.read(path, new_session())
    assert caught.value.where == f"{path}: node 'pool'"


@pytest.mark.parametrize(
    ("attributes", "bias", "message"),
    [
        ({"alpha": 2.0}, np.zeros(4, np.int32), "computes in integers with alpha = 2, but it must be 1"),
        ({}, np.ones((2, 4), np.int32), "computes in integers, and is more than a layer and its bias"),
    ],
)
def test_products(attributes: dict[str, Any], bias: Any, message: str, tmp_path: Path) -> None:
    """What float Gemm computes by operations around the product has no place in integers."""
    model = deployed()
    tensor("conv.weight", np.ones((3, 4), np.int8))(model)
    tensor("conv.bias", bias)(model)
    node(model, "conv").CopyFrom(
        helper.make_node("Gemm", ["q", "conv.weight", "conv.bias"], ["acc"], "fc", **attributes)
    )
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]))
    onnx.save(model, path := tmp_path / "bad.onnx")
    with pytest.raises(CompileError, match=message) as caught:
        frontends.read(path, new_session())
    assert caught.value.where == f"{path}: node 'fc'"


def test_pool_that_counts_differently(tmp_path: Path) -> None:
    """Windows at the border count fewer elements: no one scale of sums gives their averages."""
    model = deployed()
    node(model, "conv").CopyFrom(
        helper.make_node("AveragePool", ["q"], ["acc"], "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    )
    tensor("conv.dequant.param", np.full(1, 0x3A83126F, np.uint64))(model)
    path = tmp_path / "bad.onnx"
    onnx.save(model, path)
    with pytest.raises(CompileError, match="do not all count the same number"):
        frontends.read(path, new_session())


def weight_quantized(weight: int, offset: int, path: Path) -> ModuleOp:
    """Read with AscendWeightQuant, which asymmetric graphs have between a weight and its layer."""
    model = deployed()
    tensor("conv.weight", np.full((4, 3, 3, 3), weight, np.int8))(model)
    model.graph.initializer.append(numpy_helper.from_array(np.full(1, offset, np.int8), "o"))
    model.graph.node.insert(0, helper.make_node("AscendWeightQuant", ["conv.weight", "o"], ["w"], "weight_quant"))
    node(model, "conv").input[1] = "w"
    onnx.save(model, path)
    module = frontends.read(path, new_session())
    verify(module)
    return module


@pytest.mark.parametrize("offset", [0, 1])
def test_weight_quant(offset: int, tmp_path: Path) -> None:
    """A weight and its offset are constants: the layer gets the difference."""
    module = weight_quantized(3 + offset, offset, tmp_path / "model.onnx")
    assert not any(isinstance(op, ascend.AscendWeightQuantOp) for op in module.walk())
    (conv,) = (op for op in module.walk() if isinstance(op, ascend.Conv2DOp))
    weight = nn.array_of(conv.filter)
    assert weight is not None
    assert weight.dtype == np.int8
    assert (weight == 3).all()


def test_weight_quant_out_of_range(tmp_path: Path) -> None:
    """What int8 cannot hold is not computed at import: the operation stays, and says so at run time."""
    module = weight_quantized(-128, 1, tmp_path / "model.onnx")
    assert any(isinstance(op, ascend.AscendWeightQuantOp) for op in module.walk())
    with pytest.raises(CompileError, match="weights from -129 to -129 without their offsets do not fit into i8"):
        Executable(module).run({"x": np.zeros((1, 3, 5, 5), np.float32)})


def test_a_file_of_msmodelslim(tmp_path: Path) -> None:
    """Its names, `quant_bit` for dst_type, integers as offsets, no dtype, and MatMul, Add, AscendDequant: AMCT's numbers."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
        "bias_node_0": np.arange(4, dtype=np.int32),
        "c_x_scale": np.full(4, 0x3A83126F, np.uint64),
        "m": rng.integers(-128, 128, (4, 2)).astype(np.int8),
        "b_node_1": np.array([-700, 900], np.int32),
        "a_x_scale": np.full(1, 0x3B83126F, np.uint64),
    }
    nodes = [
        helper.make_node("AscendQuant", ["x"], ["q"], "Conv_0_quant0", scale=50.0, offset=-3, quant_bit=8),
        helper.make_node("Conv", ["q", "w", "bias_node_0"], ["c"], "Conv_0"),
        helper.make_node("AscendDequant", ["c", "c_x_scale"], ["r"], "Conv_0_dequant1"),
        helper.make_node("ReduceMax", ["r"], ["g"], "max", axes=[2, 3], keepdims=0),
        helper.make_node("AscendQuant", ["g"], ["gq"], "MatMul_1_quant1", scale=20.0, offset=0, quant_bit=8),
        helper.make_node("MatMul", ["gq", "m"], ["mm"], "MatMul_1"),
        helper.make_node("Add", ["mm", "b_node_1"], ["a"], "Add_2"),
        helper.make_node("AscendDequant", ["a", "a_x_scale"], ["y"], "MatMul_1_dequant2"),
    ]
    model = deployed()
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2]))
    x, results = rng.normal(size=(1, 3, 5, 5)).astype(np.float32), []
    for amct in (False, True):
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
        for name, offset in (("Conv_0_quant0", -3.0), ("MatMul_1_quant1", 0.0)) if amct else ():
            attribute(name, quant_bit=None, offset=offset, dst_type="INT8")(model)
        onnx.save(model, tmp_path / "model.onnx")
        module = frontends.read(tmp_path / "model.onnx", session := new_session())
        make_pass("lower-to-ascend").apply(session, module)
        make_pass("legalize-ascend").apply(session, module)
        results.append(Executable(module).run({"x": x})["y"])
    assert np.ptp(results[0]) > 0
    np.testing.assert_array_equal(results[0], results[1])


def test_same_padding_with_dilations(tmp_path: Path) -> None:
    """auto_pad SAME_UPPER keeps the sizes, whatever the dilations."""
    model = deployed()
    attribute("conv", auto_pad="SAME_UPPER", dilations=[2, 1])(model)
    model.graph.output[0].type.tensor_type.shape.Clear()
    for size in (1, 4, 5, 5):
        model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=size)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    module = frontends.read(path, new_session())
    verify(module)
    (conv,) = (op for op in module.walk() if isinstance(op, ascend.Conv2DOp))
    assert conv.pad_list == ((2, 2), (1, 1))


def test_convolution_of_one_axis(tmp_path: Path) -> None:
    """As AMCT writes one, without Unsqueeze and Squeeze: the same numbers as a convolution of a row."""
    rng = np.random.default_rng(0)
    weight, bias = rng.integers(-128, 128, (4, 2, 3)).astype(np.int8), np.arange(4, dtype=np.int32)
    x = rng.normal(size=(2, 3, 9)).astype(np.float32)
    x = np.concatenate([x, x[:, :1]], axis=1)
    results = []
    for rows in ((), (1,)):
        model = deployed()
        tensor("conv.weight", weight.reshape(4, 2, *rows, 3))(model)
        tensor("conv.bias", bias)(model)
        axes = 1 + len(rows)
        first = [1] * len(rows)
        pads = [0] * len(rows) + [2] + [0] * len(rows) + [1]
        attribute("conv", group=2, strides=[*first, 2], pads=pads, dilations=[*first, 2])(model)
        for value, channels, size in ((model.graph.input[0], 4, 9), (model.graph.output[0], 4, 4)):
            shape = value.type.tensor_type.shape
            shape.Clear()
            for d in (2, channels, *rows, size):
                shape.dim.add(dim_value=d)
        path = tmp_path / f"model{axes}.onnx"
        onnx.save(model, path)
        module = frontends.read(path, new_session())
        verify(module)
        results.append(Executable(module).run({"x": x.reshape(2, 4, *rows, 9)})["y"])
    assert results[0].shape == (2, 4, 4)
    np.testing.assert_array_equal(results[0], results[1].reshape(2, 4, 4))
