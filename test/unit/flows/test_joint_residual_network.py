"""`amct quantize` on a residual network whose configuration asks for joint and tensor quantization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from amct_opt.configuration.record import Record, read_record
from amct_opt.dialects import ascend, nn
from amct_opt.frontends.mlir import read
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.tools import amct

Array = np.ndarray[Any, np.dtype[Any]]
CHANNELS = 8
ALSO = "--also", "nn,ascend,record"

CONFIG = """
joint_quant: true
tensor_quantize { layer_name: "pool" input_index: 0 }
tensor_quantize { layer_name: "sum1" input_index: 0 }
tensor_quantize { layer_name: "sum2" input_index: 1 hfmg_quantize { num_of_bins: 1024 } }
"""
"""The first input of sum1 comes from a convolution, the second of sum2 from the sum before it."""


def network(path: Path) -> None:
    """A stem with pooling, two residual blocks, a classifier; names as people give them."""
    rng = np.random.default_rng(5)
    weights: dict[str, Array] = {}
    nodes: list[NodeProto] = []

    def node(op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, list(inputs), [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def parameter(name: str, array: Array) -> str:
        weights[name] = array.astype(np.float32)
        return name

    def conv(name: str, x: str, inputs: int) -> str:
        w = parameter(f"{name}.w", rng.normal(size=(CHANNELS, inputs, 3, 3)) * np.sqrt(2 / (9 * inputs)))
        y = node("Conv", name, x, w, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        statistics = (rng.uniform(0.5, 1.5, CHANNELS), rng.normal(size=CHANNELS), rng.normal(size=CHANNELS) / 4)
        parts = [parameter(f"{name}.{i}", a) for i, a in enumerate((*statistics, rng.uniform(0.5, 1.5, CHANNELS)))]
        return node("BatchNormalization", f"{name}.bn", y, *parts)

    x = node("Relu", "relu0", conv("conv0", "x", 3))
    x = node("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    for i in (1, 2):
        y = conv(f"conv{i}b", node("Relu", f"relu{i}a", conv(f"conv{i}a", x, CHANNELS)), CHANNELS)
        x = node("Relu", f"relu{i}", node("Add", f"sum{i}", y, x))
    x = node("Flatten", "flat", node("GlobalAveragePool", "mean", x))
    node("Gemm", "fc", x, parameter("fc.w", rng.normal(size=(CHANNELS, 4))))
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
        [helper.make_tensor_value_info("fc_out", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def samples(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(count, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("residual")
    network(folder / "net.onnx")
    np.savez(folder / "calib.npz", x=samples(8, 1))
    (folder / "net.cfg").write_text(CONFIG, "utf-8")
    given = [str(folder / name) for name in ("net.onnx", "calib.npz", "net.cfg")]
    assert (
        amct.run(["quantize", given[0], "--data", given[1], "--config", given[2], "-o", str(folder / "out"), *ALSO])
        == 0
    )
    return folder / "out"


def module_in(path: Path) -> Any:
    return read(path, new_session())


def test_the_residual_chain_shares_its_parameters(out: Path) -> None:
    """The pooled value, the first sum after its relu, and its input that is quantized by itself are one group."""
    grouped = [
        op for op in module_in(out / "net_nn.mlir").walk() if isinstance(op, nn.QuantizeOp) and op.group is not None
    ]
    assert len(grouped) == 4  # before conv1a, at sum1's first input, and on relu1 by conv2a's algorithm and by sum2's
    assert len({op.qparams for op in grouped}) == 1
    assert {op.group.data for op in grouped if op.group is not None} == {"sum1"}


def test_the_record(out: Path) -> None:
    record = read_record(out / "net_record.txt")
    assert isinstance(record, Record)
    tensors = {name for name, layer in record.layers.items() if layer.is_tensor_quantize}
    assert tensors == {"pool:0", "sum1:0", "sum2:1"}
    assert record.layers["sum1:0"].scale_d == record.layers["conv1a"].scale_d == record.layers["conv2a"].scale_d
    assert record.layers["pool:0"].scale_d != record.layers["conv1a"].scale_d


def test_the_record_alone_gives_the_same_parameters(out: Path) -> None:
    folder = out.parent
    given = ["--record", str(out / "net_record.txt"), "-o", str(folder / "again"), *ALSO]
    assert amct.run(["quantize", str(folder / "net.onnx"), *given]) == 0
    found = [
        {op.qparams for op in module_in(path).walk() if isinstance(op, nn.QuantizeOp)}
        for path in (out / "net_nn.mlir", folder / "again" / "net_nn.mlir")
    ]
    assert found[0] == found[1]


def test_nothing_of_nn_is_left_but_constants(out: Path) -> None:
    operations = [op for op in module_in(out / "net_ascend.mlir").walk() if isinstance(op, nn.NNOp)]
    assert {type(op).name for op in operations if not isinstance(op, ascend.AscendOp)} <= {"nn.constant"}
    assert sum(isinstance(op, ascend.AscendAntiQuantOp) for op in operations) == 3


def test_onnxruntime_computes_what_the_interpreter_does(out: Path) -> None:
    inputs = {"x": samples(4, 2)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runner = onnxruntime.InferenceSession(str(out / "net_qdq.onnx"), options, providers=["CPUExecutionProvider"])
    theirs = np.asarray(runner.run(None, inputs)[0])
    ours = Executable(module_in(out / "net_nn.mlir")).run(inputs)["fc_out"]
    assert np.corrcoef(theirs.ravel(), ours.ravel())[0, 1] > 0.9999
    assert np.abs(theirs - ours).max() < 0.02 * np.abs(ours).max()
