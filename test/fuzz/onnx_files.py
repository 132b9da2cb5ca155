"""Random ONNX files, with names, opsets and forms as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import case
from .graph import IR_VERSIONS, NODES, VALUES, Array, File, Refused, run
from .onnx_steps import STEPS

BATCH = 2
_STARTS = (
    (4, 8, 8), (3, 9, 7), (4, 12), (16,), (6, 8), (4, 4, 5, 3), (1, 8, 8), (8, 6, 6), (4, 1, 6), (2, 5, 4, 4), (5,), (1,),
)  # fmt: skip
_WILD = ("outliers", "outliers", "outliers", "zeros", "zeros", "tiny", "huge", "nan", "inf")


def onnx_file(seed: int, path: Path) -> case.Case:
    """Writes a valid model to `path`. Raises Refused if onnxruntime runs each node, but not all of them."""
    random = np.random.default_rng(seed)
    f = File(random, int(random.choice(list(IR_VERSIONS))))
    f.style, f.nodes_style = f.pick(*VALUES), f.pick(*NODES)
    f.dtype = f.pick(*[np.float32] * 23, np.float16, np.float64)
    f.wild = f.pick(*[""] * 40, *_WILD)
    if f.dtype == np.float16:  # sums of large numbers leave its range in one order only
        f.wild = ""
    inputs = _inputs(f)
    x = inputs[0]
    for _ in range(int(random.integers(2, 12))):
        if f.chance(0.15):  # a branch
            x = f.pick(*(name for name, array in f.values.items() if array.dtype.kind == "f"))
        x = _step(f, x)
    model = _model(f, x, inputs)
    path.write_bytes(model.SerializeToString())
    arrays = {name: f.values[name] for name in inputs}
    try:
        expected = run(model, arrays, optimized=False)
    except Exception as e:  # onnxruntime infers another size for the whole graph than it computes for one node
        raise Refused(str(e)) from e
    kinds = (f"op {kind}" for kind in sorted({n.op_type for n in f.nodes}))
    made = (
        *kinds,
        f"opset {f.opset}",
        f"names {f.style}",
        f"type {np.dtype(f.dtype)}",
        *([f"weights {f.wild}"] if f.wild else []),
        *(["divides"] if f.divides else []),
    )
    return case.Case("onnx", path, arrays, expected, traits=made, exact=f.dtype == np.float32 and _exact(f))


def _exact(f: File) -> bool:
    """Whether nothing is in float16, which onnxruntime rounds less often than the graph says."""
    return not any(a.dtype == np.float16 for a in (*f.values.values(), *f.computed.values()))


def _inputs(f: File) -> list[str]:
    """One input, seldom two; their values are drawn here."""
    given = {"numbers": f.pick("0", "input.1"), "tensorflow": "serving_default_input:0", "unicode": "вход"}.get(
        f.style, "x"
    )
    start = f.pick(*_STARTS)
    if f.chance(0.01):
        start = (*start[:-1], 0)
    names = [given, *(["second/input"] if f.chance(0.15) else [])]
    for name in names:
        f.values[name] = f.random.normal(0, 1, (BATCH, *start)).astype(f.dtype)
    return names


def _step(f: File, x: str) -> str:
    for _ in range(8):
        steps = STEPS[len(f.shape(x))] if f.values[x].dtype == f.dtype else STEPS[0][:1]
        mark = f.mark()
        try:
            return steps[int(f.random.integers(len(steps)))](f, x)
        except (Refused, ValueError, ZeroDivisionError, IndexError):
            f.undo(mark)
    return x


def _model(f: File, last: str, inputs: list[str]) -> onnx.ModelProto:
    """The model with its outputs: what nothing reads, and some values that others read."""
    if last in inputs:
        last = f.one("Identity", [last])
    made = [name for name in f.values if name not in inputs]
    read = {name for node in f.nodes for name in node.input}
    inner = [name for name in made if f.values[name].dtype.kind == "f"] or [last]
    outputs = {last, *(f.pick(*inner) for _ in range(f.pick(0, 0, 1, 2)))}
    outputs |= {name for name in made if name not in read}
    batch = f.pick("N", "batch_size", None, BATCH, BATCH, BATCH)
    open_sizes = f.chance(0.15)

    def model(batch: Any) -> onnx.ModelProto:
        declared = [_declared(f, name, batch, open_sizes) for name in inputs]
        if IR_VERSIONS[f.opset] == 3:
            declared += [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in f.constants.items()
            ]
        results = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(f.values[n].dtype), None)
            for n in made
            if n in outputs
        ]
        initializers = [numpy_helper.from_array(array, name) for name, array in f.constants.items()]
        return f.model_of(helper.make_graph(f.nodes, "main_graph", declared, results, initializers))

    if batch != BATCH and not _any_batch(model(batch), f.values, inputs):
        batch = BATCH
    return model(batch)


def _declared(f: File, name: str, batch: Any, open_sizes: bool) -> onnx.ValueInfoProto:
    sizes: list[Any] = [batch, *f.shape(name)[1:]]
    if open_sizes and batch != BATCH:
        channels = 1 if len(sizes) != 3 else 2 if any(node.op_type == "Conv" for node in f.nodes) else 0
        sizes = [batch, *(s if i <= channels else f"d{i}" for i, s in enumerate(f.shape(name)[1:], 1))]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(f.values[name].dtype), sizes)


def _any_batch(model: onnx.ModelProto, values: Mapping[str, Array], inputs: list[str]) -> bool:
    """Whether the model runs for batches of other sizes, each output one longer or shorter with its batch."""
    try:
        whole = run(model, {n: values[n] for n in inputs}, optimized=False)
        for size in (1, 3):
            given = {n: np.resize(values[n], (size, *values[n].shape[1:])) for n in inputs}
            for name, array in run(model, given, optimized=False).items():
                if array.shape != (size, *whole[name].shape[1:]):
                    return False
    except Exception:  # onnxruntime raises classes of its own
        return False
    return True
