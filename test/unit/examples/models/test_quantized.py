"""Whole models from file to int8 file: `--fuse-bn --quantize=data=... -t onnx`, and that file in onnxruntime.

**Why the file's outputs in onnxruntime are not the interpreter's, bit for bit.** Quantization itself is: given the same input,
QuantizeLinear and DequantizeLinear give the same bits on both sides (tested below on every tensor of the model). Between them
stand float32 convolutions and products, which the two sides sum in different orders. Where a sum falls within its rounding error
of a tie between two integers, one side rounds up and the other down: about one element in ten thousand of the first layers, one
step each. Each flipped step then moves all sums that it takes part in a little, so that more of them cross a tie; with a fraction
f of a layer's inputs flipped, about sqrt(f) of its outputs flip, which tends to a large part within a few layers. What arrives at
the end is a second sample of the same quantization noise, hence the bound: its power is at most twice that of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
import yaml
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp
from xdsl.ir import Operation, SSAValue

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.functions import body, main_function, return_op, value_attributes
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.runtime.kernels import kernel_for
from amct_opt.runtime.metrics import difference
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.tools import amct_opt

Array = np.ndarray[Any, np.dtype[Any]]

CALIBRATION_SAMPLES = 4


@dataclass(frozen=True)
class Quantized:
    """What the command wrote, and the module that the same passes make."""

    path: Path
    module: ModuleOp
    remarks: list[dict[str, str]]

    def layers(self, kind: str, pass_name: str) -> set[str]:
        return {r["layer"] for r in self.remarks if r["kind"] == kind and r["pass"] == pass_name}


@pytest.fixture(scope="module")
def quantized(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    folder = tmp_path_factory.mktemp(f"{model.name}_int8")
    data, out, remarks = folder / "calib.npz", folder / "out.onnx", folder / "remarks.yaml"
    np.savez(data, **{model.input: model.data(CALIBRATION_SAMPLES, seed=3)})
    passes = ["--fuse-bn", f"--quantize=data={data}"]
    assert amct_opt.run([str(model.path), *passes, "-t", "onnx", "-o", str(out), "--remarks-output", str(remarks)]) == 0
    session = new_session()
    module = frontends.read(model.path, session)
    run_passes(module, [make_pass("fuse-bn"), make_pass("quantize", f"data={data}")], session)
    return Quantized(out, module, list(yaml.safe_load_all(remarks.read_text())))


WITH_PRODUCERS = {"mobilenet": 52, "resnet50": 53, "shufflenet": 49}
"""Models whose batch norms all follow a convolution, and their number (densenet121 has them in front, after a Concat)."""


@pytest.mark.slow
def test_batch_norms_are_folded(model: Any, quantized: Quantized) -> None:
    left = [n.name for n in onnx.load(quantized.path).graph.node if n.op_type == "BatchNormalization"]
    if model.name in WITH_PRODUCERS:
        assert left == []
        assert len(quantized.layers("applied", "fuse-bn")) == WITH_PRODUCERS[model.name]
    assert set(left) == quantized.layers("missed", "fuse-bn")
    rules = {r["rule"] for r in quantized.remarks if r["kind"] == "missed" and r["pass"] == "fuse-bn"}
    # after a concat of everything before, and used by the next dense block: nothing to fold into
    assert rules <= ({"no-producer", "result-used-once"} if model.name == "densenet121" else set())


@pytest.mark.slow
def test_every_layer_with_weights_is_quantized_or_remarked(quantized: Quantized) -> None:
    """Convolutions and products take dequantized operands, or a remark says why not; weights are int8, biases int32."""
    graph = onnx.load(quantized.path).graph
    producer = {o: n for n in graph.node for o in n.output}
    stored = {i.name: i.data_type for i in graph.initializer}
    types = [onnx.TensorProto.INT8, onnx.TensorProto.INT8, onnx.TensorProto.INT32]
    refused = {r["layer"] for r in quantized.remarks if r["kind"] == "missed"}
    layers = [n for n in graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    done = [n for n in layers if all(_dequantized(producer, v) for v in n.input)]
    assert layers
    assert {n.name for n in layers if n not in done} <= refused
    for node in done:
        inputs = [producer[v].input[0] for v in node.input]
        assert all(stored.get(name, types[0]) == t for name, t in zip(inputs, types, strict=False))
        assert all(name in stored for name in inputs[1:])


def _dequantized(producer: dict[str, onnx.NodeProto], value: str) -> bool:
    return value in producer and producer[value].op_type == "DequantizeLinear"


@pytest.mark.slow
def test_file_in_onnxruntime_against_the_interpreter(
    model: Any, quantized: Quantized, onnxruntime_run: Callable[..., list[Array]], record_property: Callable[..., None]
) -> None:
    inputs = model.inputs(seed=5)
    (reference,) = onnxruntime_run(model.path, inputs)
    (interpreted,) = run(quantized.module, inputs).values()
    (written,) = onnxruntime_run(quantized.path, inputs, optimized=False)
    between, noise = difference(interpreted, written), difference(reference, interpreted)
    record_property("differing", between.differing)
    record_property("of", between.count)
    record_property("sqnr", noise.sqnr)
    assert between.sqnr >= noise.sqnr - 3
    # 8 bits over the range of a tensor give 40 dB and more per layer; the deepest networks add up 100 layers' noise (-20 dB)
    assert noise.sqnr > 10
    assert np.isfinite(onnxruntime_run(quantized.path, inputs)[0]).all(), "with onnxruntime's optimizations"


def test_every_step_from_the_same_inputs(
    model: Any, quantized: Quantized, onnxruntime_run: Callable[..., list[Array]], tmp_path: Path
) -> None:
    """Each operation of the interpreter on onnxruntime's own intermediate values, against what onnxruntime makes of them.

    Quantization: equal. Sums of products: both sides are within `terms * 2^-24` of the sum of the products' sizes, which the
    same kernel computes from the operands' sizes. Other operations: 1e-5 of the largest value.
    """
    module = quantized.module.clone()
    path = tmp_path / "steps.onnx"
    values = _expose_all(module)
    OnnxTarget().write(module, path, new_session())
    inputs = model.inputs(seed=5)
    results = onnxruntime_run(path, inputs, optimized=False)
    seen = dict(zip(values, results, strict=True)) | dict(
        zip(body(main_function(module)).args, inputs.values(), strict=True)
    )
    flips = elements = 0
    for value in values:
        op = cast(Operation, value.owner)
        actual, expected = _apply(op, seen), seen[value]
        if isinstance(op, nn.QuantizeOp | nn.DequantizeOp):
            np.testing.assert_array_equal(actual, expected, err_msg=str(op))
        elif isinstance(op, nn.ConvOp | nn.MatMulOp):
            assert (abs(actual - expected) <= _error_bound(op, seen)).all(), op
        else:
            np.testing.assert_allclose(
                actual, expected, rtol=0, atol=1e-5 * float(abs(expected).max()), err_msg=str(op)
            )
        if isinstance(op, nn.QuantizeOp) and isinstance(before := op.input.owner, Operation):
            again = cast(Array, kernel_for(op)(_apply(before, seen)))  # type: ignore[misc]
            apart = abs(again.astype(np.int32) - expected)
            assert apart.max() <= 1, "more than a flip at a tie"
            flips, elements = flips + int(apart.sum()), elements + apart.size
    # a float32 sum is off by some 1e-6 of its range, a step is 1/255 of it: 2 * 1e-6 * 255 of all sums are that near a tie
    assert flips <= 1e-3 * elements + 1


def _expose_all(module: ModuleOp) -> list[SSAValue]:
    """Make every computed value of one result a graph output, v0, v1, ...; the values in order."""
    function = main_function(module)
    values: list[SSAValue] = [
        r for op in body(function).ops if isinstance(op, nn.NNOp) and len(op.results) == 1 for r in op.results
    ]
    return_op(function).operands = values
    inputs = list(function.function_type.inputs)
    function.function_type = FunctionType.from_lists(inputs, [v.type for v in values])
    function.res_attrs = ArrayAttr([value_attributes(f"v{i}") for i in range(len(values))])
    return values


def _operands(op: Operation, seen: dict[SSAValue, Array]) -> list[Array]:
    return [seen[v] if v in seen else cast(Array, nn.array_of(v)) for v in op.operands]


def _apply(op: Operation, seen: dict[SSAValue, Array]) -> Array:
    kernel = kernel_for(op)
    assert kernel is not None
    return cast(Array, kernel(*_operands(op, seen)))


def _error_bound(op: nn.ConvOp | nn.MatMulOp, seen: dict[SSAValue, Array]) -> Array:
    """What float32 sums in two orders can be apart: each is within `terms * 2^-24` of the terms' sizes."""
    kernel = kernel_for(op)
    assert kernel is not None
    operands = _operands(op, seen)
    sizes = cast(Array, kernel(*[abs(a) for a in operands]))
    if isinstance(op, nn.ConvOp):
        terms = int(np.prod(operands[1].shape[1:]))
    else:
        terms = operands[0].shape[-1 if op.transpose_a is None else -2]
    return 2 * (terms + 1) * 2.0**-24 * sizes
