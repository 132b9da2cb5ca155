"""Random ONNX files, with names, opsets and forms as exporters write them, and what every stage makes of each.

    python test/unit/flows/random_files.py SEED [FOLDER]

checks one of them, and leaves its files in FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends
from amct_opt.diagnostics import CompileError
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]

BATCH = 2
IR_VERSIONS = {
    9: 3,
    10: 4,
    11: 4,
    12: 6,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 9,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
}
"""The IR version that exporters wrote with each opset; version 3 lists initializers among the inputs."""
STYLES: Mapping[str, Callable[[int, str], str]] = {
    "numbers": lambda n, _: str(n + 1),
    "paths": lambda n, kind: f"/layer{n // 4}/layer{n // 4}.{n % 4}/{kind.lower()}/{kind}_output_0",
    "dynamo": lambda n, kind: f"{kind.lower()}_{n}" if n % 3 else f"val_{n}",
    "tensorflow": lambda n, kind: f"StatefulPartitionedCall/model/{kind.lower()}_{n}/{kind}:0",
    "paddle": lambda n, kind: f"{kind.lower()}_{n}.tmp_0",
}
NODES: Mapping[str, Callable[[int, str], str]] = {
    "unnamed": lambda _, __: "",
    "counted": lambda n, kind: f"{kind}_{n}",
    "dynamo": lambda n, kind: f"node_{kind}_{n}",
    "paths": lambda n, kind: f"/layer{n // 4}/layer{n // 4}.{n % 4}/{kind}",
}


@dataclass
class File:
    """A model under construction. Values are known by name, with their shapes for a batch of two."""

    random: np.random.Generator
    opset: int
    style: str
    nodes_style: str
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"{len(self.constants) + 1000}" if self.style == "numbers" else f"layer{len(self.constants)}.weight"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def op(self, kind: str, inputs: list[str], *shapes: Shape, **attributes: Any) -> list[str]:
        n = len(self.nodes)
        names = [STYLES[self.style](len(self.shapes) + i, kind) for i in range(len(shapes))]
        self.nodes.append(helper.make_node(kind, inputs, names, NODES[self.nodes_style](n, kind), **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def one(self, kind: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        return self.op(kind, inputs, shape, **attributes)[0]

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.random.normal(0, scale, shape))

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def like(self, x: str) -> str:
        """A value of the same shape, x itself among them."""
        return self.pick(*(name for name, shape in self.shapes.items() if shape == self.shapes[x]))


def convolution(f: File, x: str) -> str:
    n, c, *space = f.shapes[x]
    groups = f.pick(1, 1, 2 if c % 2 == 0 else 1, c)
    out, kernel = groups * f.pick(1, 2, 4 // groups or 1), f.pick(1, 3)
    if kernel > min(space):
        kernel = 1
    weight = f.normal(out, c // groups, *[kernel] * len(space), scale=(kernel ** len(space) * c / groups) ** -0.5)
    inputs = [x, weight, *([f.normal(out, scale=0.1)] if f.random.random() < 0.6 else [])]
    stride = f.pick(1, 1, 2)
    if f.random.random() < 0.3:
        sizes = [-(-size // stride) for size in space]
        auto = f.pick("SAME_UPPER", "SAME_LOWER")
        return f.one("Conv", inputs, (n, out, *sizes), auto_pad=auto, strides=[stride] * len(space), group=groups)
    dilation = 2 if kernel == 3 and min(space) >= 5 and f.random.random() < 0.3 else 1
    reach, pads = dilation * (kernel - 1) + 1, [int(f.random.integers(0, kernel)) for _ in range(2 * len(space))]
    sizes = [(s + a + b - reach) // stride + 1 for s, a, b in zip(space, pads, pads[len(space) :], strict=False)]
    strides, dilations = [stride] * len(space), [dilation] * len(space)
    return f.one("Conv", inputs, (n, out, *sizes), pads=pads, strides=strides, dilations=dilations, group=groups)


def shared(f: File, x: str) -> str:
    """Two convolutions with one weight, added."""
    _, c, *space = f.shapes[x]
    weight = f.normal(c, c, *[1] * len(space), scale=c**-0.5)
    first = f.one("Conv", [x, weight], f.shapes[x])
    return f.one("Add", [first, f.one("Conv", [f.like(x), weight], f.shapes[x])], f.shapes[x])


def transposed(f: File, x: str) -> str:
    n, c, *space = f.shapes[x]
    out, kernel, stride = f.pick(2, 4), f.pick(2, 3), f.pick(1, 2)
    if max(space) > 10:
        stride = 1
    inputs = [x, f.normal(c, out, *[kernel] * len(space), scale=c**-0.5)]
    if f.random.random() < 0.5:
        inputs.append(f.normal(out, scale=0.1))
    sizes = [(s - 1) * stride + kernel for s in space]
    return f.one("ConvTranspose", inputs, (n, out, *sizes), strides=[stride] * len(space))


def normalized(f: File, x: str) -> str:
    c = f.shapes[x][1]
    statistics = [f.constant(f.random.uniform(0.5, 1.5, c)) for _ in range(4)]
    return f.one("BatchNormalization", [x, *statistics], f.shapes[x], epsilon=f.pick(1e-5, 1e-3))


def activation(f: File, x: str) -> str:
    kind = f.pick("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "Elu", "PRelu", "Softplus")
    if kind == "Clip":
        low, high = f.pick((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0))
        if f.opset < 11:
            return f.one(kind, [x], f.shapes[x], min=low, max=high)
        return f.one(kind, [x, f.constant(low), f.constant(high)], f.shapes[x])
    if kind == "PRelu":
        return f.one(kind, [x, f.normal(f.shapes[x][1], *[1] * (len(f.shapes[x]) - 2))], f.shapes[x])
    return f.one(kind, [x], f.shapes[x])


def arithmetic(f: File, x: str) -> str:
    kind = f.pick("Add", "Add", "Mul", "Sub")
    channels = (f.shapes[x][1], *[1] * (len(f.shapes[x]) - 2))
    other = f.like(x) if f.random.random() < 0.7 else f.normal(*channels)
    inputs = [x, other] if f.random.random() < 0.7 or kind == "Sub" else [other, x]
    return f.one(kind, inputs, f.shapes[x])


def concatenation(f: File, x: str) -> str:
    n, c, *rest = f.shapes[x]
    if c > 8:
        return activation(f, x)
    return f.one("Concat", [x, f.like(x)], (n, 2 * c, *rest), axis=f.pick(1, 1 - len(f.shapes[x])))


def split(f: File, x: str) -> str:
    n, c, *rest = f.shapes[x]
    if c < 2:
        return activation(f, x)
    sizes = [c // 2, c - c // 2]
    parts = [(n, size, *rest) for size in sizes]
    if f.opset < 13:
        first, second = f.op("Split", [x], *parts, axis=1, split=sizes)
    else:
        first, second = f.op("Split", [x, f.integers(*sizes)], *parts, axis=1)
    return f.pick(first, second)


def cut(f: File, x: str) -> str:
    n, c, size, *rest = f.shapes[x]
    if size < 3:
        return activation(f, x)
    begin = int(f.random.integers(0, 2))
    shape = (n, c, size - 1 - begin, *rest)
    if f.opset < 10:
        return f.one("Slice", [x], shape, starts=[begin], ends=[-1], axes=[2])
    return f.one("Slice", [x, f.integers(begin), f.integers(-1), f.integers(2)], shape)


def pool(f: File, x: str) -> str:
    n, c, *space = f.shapes[x]
    kind = f.pick("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    if kind.startswith("Global") or min(space) < 3:
        kind = kind if kind.startswith("Global") else "GlobalAveragePool"
        return f.one(kind, [x], (n, c, *[1] * len(space)))
    kernel, stride = f.pick(2, 3), f.pick(1, 2)
    pads = [int(f.random.integers(0, 2)) for _ in range(2 * len(space))]
    sizes = [(s + a + b - kernel) // stride + 1 for s, a, b in zip(space, pads, pads[len(space) :], strict=False)]
    more = {"count_include_pad": f.pick(0, 1)} if kind == "AveragePool" else {}
    return f.one(
        kind, [x], (n, c, *sizes), kernel_shape=[kernel] * len(space), strides=[stride] * len(space), pads=pads, **more
    )


def resize(f: File, x: str) -> str:
    n, c, *space = f.shapes[x]
    if f.opset < 11 or max(space) > 10:
        return activation(f, x)
    mode = f.pick("nearest", "linear")
    roi = "" if f.opset >= 13 else f.constant([])
    attributes = {"mode": mode, "coordinate_transformation_mode": f.pick("half_pixel", "asymmetric")}
    scales = f.constant([1, 1, *[2] * len(space)])
    return f.one("Resize", [x, roi, scales], (n, c, *(2 * s for s in space)), **attributes)


def pad(f: File, x: str) -> str:
    n, c, *space = f.shapes[x]
    pads = [0, 0, *[1] * len(space), 0, 0, *[0] * len(space)]
    shape = (n, c, *(s + 1 for s in space))
    return f.one("Pad", [x], shape, pads=pads) if f.opset < 11 else f.one("Pad", [x, f.integers(*pads)], shape)


def reduced(f: File, x: str) -> str:
    shape, axis = f.shapes[x], int(f.random.integers(1, len(f.shapes[x])))
    kept = tuple(1 if i == axis else s for i, s in enumerate(shape))
    if f.opset < 18:
        return f.one("ReduceMean", [x], kept, axes=[axis], keepdims=1)
    return f.one("ReduceMean", [x, f.integers(axis)], kept, keepdims=1)


def softmax(f: File, x: str) -> str:
    axis = len(f.shapes[x]) - 1
    return f.one("Softmax", [x], f.shapes[x], axis=axis if f.opset < 13 else f.pick(axis, -1))


def layer_norm(f: File, x: str) -> str:
    if f.opset < 17:
        return softmax(f, x)
    size = f.shapes[x][-1]
    parts = [x, f.constant(f.random.uniform(0.5, 1.5, size)), f.normal(size, scale=0.1)]
    return f.one("LayerNormalization", parts, f.shapes[x], axis=-1)


def product(f: File, x: str) -> str:
    *front, k = f.shapes[x]
    out = f.pick(3, 4, 8)
    made = f.one("MatMul", [x, f.normal(k, out, scale=k**-0.5)], (*front, out))
    return f.one("Add", [f.normal(out, scale=0.1), made], (*front, out)) if f.random.random() < 0.6 else made


def gemm(f: File, x: str) -> str:
    n, k = f.shapes[x]
    out, turned = f.pick(3, 4, 8), f.pick(0, 1)
    weight = f.normal(*((out, k) if turned else (k, out)), scale=k**-0.5)
    bias = [f.normal(out, scale=0.1)] if f.opset < 11 or f.random.random() < 0.7 else []
    return f.one("Gemm", [x, weight, *bias], (n, out), transB=turned)


def scores(f: File, x: str) -> str:
    """A product of two values, as attention has it."""
    n, rows, k = f.shapes[x]
    if rows > 32:
        return product(f, x)
    other = f.like(x)
    turned = f.one("Transpose", [other], (n, k, rows), perm=[0, 2, 1])
    return f.one("MatMul", [x, turned], (n, rows, rows))


def turned(f: File, x: str) -> str:
    order = [0, *(1 + f.random.permutation(len(f.shapes[x]) - 1)).tolist()]
    return f.one("Transpose", [x], tuple(f.shapes[x][i] for i in order), perm=order)


def reshaped(f: File, x: str) -> str:
    n, *rest = f.shapes[x]
    count = int(np.prod(rest))
    if len(rest) == 1:
        shape = (rest[0] // 2, 2) if rest[0] % 2 == 0 else (rest[0], 1)
        return f.one("Reshape", [x, f.integers(-1, *shape)], (n, *shape))
    if f.random.random() < 0.5:
        return f.one("Flatten", [x], (n, count), axis=1)
    shape = (rest[0], count // rest[0])
    return f.one("Reshape", [x, f.integers(0, *shape)], (n, *shape))


STEPS: Mapping[int, tuple[Callable[[File, str], str], ...]] = {
    4: (convolution, convolution, convolution, shared, transposed, normalized, normalized, activation, activation, activation,
        arithmetic, arithmetic, concatenation, split, cut, pool, resize, pad, reduced, softmax, turned, reshaped),
    3: (convolution, product, product, normalized, activation, activation, arithmetic, concatenation, split, cut, pool, reduced,
        softmax, layer_norm, scores, turned, reshaped),
    2: (gemm, gemm, product, activation, arithmetic, softmax, layer_norm, reshaped),
}  # fmt: skip
"""What may follow, by rank."""


def random_file(seed: int) -> tuple[onnx.ModelProto, Shape]:
    """A valid model, and the shape of its input."""
    random = np.random.default_rng(seed)
    opset = int(random.choice(list(IR_VERSIONS)))
    f = File(random, opset, str(random.choice(list(STYLES))), str(random.choice(list(NODES))))
    start: Shape = f.pick((BATCH, 4, 8, 8), (BATCH, 3, 9, 7), (BATCH, 4, 12), (BATCH, 16))
    given = {"numbers": f.pick("0", "input.1"), "tensorflow": "serving_default_input:0"}.get(f.style, "x")
    f.shapes[given] = start
    x = given
    for _ in range(int(random.integers(2, 12))):
        if random.random() < 0.15:  # a branch
            x = f.pick(*f.shapes)
        steps = STEPS[len(f.shapes[x])]
        x = steps[int(random.integers(len(steps)))](f, x)
        assert min(f.shapes[x]) > 0
    made = [name for name in f.shapes if name != given]
    outputs = {x, *(random.choice(made, int(random.integers(0, 2))).tolist())}
    read = {name for node in f.nodes for name in node.input}
    outputs |= {name for name in made if name not in read}
    batch = f.pick("N", "batch_size", None, BATCH)
    inputs = [helper.make_tensor_value_info(given, TensorProto.FLOAT, [batch, *start[1:]])]
    version = IR_VERSIONS[opset]
    if version == 3:
        inputs += [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in f.constants.items()
        ]
    graph = helper.make_graph(
        f.nodes,
        "main_graph",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made if name in outputs],
        [numpy_helper.from_array(array, name) for name, array in f.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version), start


def check(seed: int, folder: Path) -> None:
    """Raises AssertionError with a one-line repro where a stage crashes or computes something else than onnxruntime."""
    try:
        _check(seed, folder)
    except Exception as e:
        text = " ".join(str(e).split())[:400]
        raise AssertionError(f"{type(e).__name__}: {text}\nrepro: python {__file__} {seed} out") from e


def _check(seed: int, folder: Path) -> None:
    model, shape = random_file(seed)
    path = folder / f"model{seed}.onnx"
    onnx.save(model, path)
    random = np.random.default_rng(seed)
    name, profile = model.graph.input[0].name, str(random.choice(["ascend", "qdq", "ppq"]))
    x = random.normal(0, 1, shape).astype(np.float32)
    inputs = {name: x}
    expected = _onnxruntime(path, inputs, optimized=False)

    session = new_session()
    session.profile = profile
    module = frontends.read(path, session)
    verify(module)
    _near("import", Executable(module).run(inputs), expected)
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], session)
    _near("fuse-all", Executable(module).run(inputs), expected)

    data = folder / f"data{seed}.npz"
    samples = np.concatenate([x, random.normal(0, 1, (3 * BATCH, *shape[1:])).astype(np.float32)])
    np.savez(data, **inputs | {name: samples})
    run_passes(module, [make_pass("quantize", f"data={data}")], session)
    simulated = Executable(module).run(inputs)
    _close("quantized simulation", simulated, expected, 3.0)

    file = folder / f"qdq{seed}.onnx"
    OnnxTarget().write(module, file, session)
    _close("exported file", _onnxruntime(file, inputs, optimized=False), simulated, 30.0)
    by_default = _onnxruntime(file, inputs, optimized=True)
    _close("exported file, default options", by_default, simulated, 25.0)
    if profile != "ascend":
        try:
            integers = Executable(module, rewrite=in_integers).run(inputs)
        except CompileError:  # nothing in it computes in integers
            integers = simulated
        _close("--integers", integers, by_default, 30.0)
        return
    run_passes(module, [LowerToAscendPass()], session)
    lowered = Executable(module).run(inputs)
    _close("ascend", lowered, simulated, 25.0)
    deployed = folder / f"deploy{seed}.onnx"
    try:
        OnnxAscendTarget().write(module, deployed, session)
    except CompileError:  # what Ascend has no operator for
        return
    again = Executable(frontends.read(deployed, new_session())).run(inputs)
    for output, array in lowered.items():
        assert np.array_equal(again[output], array), f"read back: {output} differs"


def _onnxruntime(path: Path, inputs: Mapping[str, Array], *, optimized: bool) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, dict(inputs)), strict=True))


def _near(stage: str, found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert list(found) == list(expected), f"{stage}: outputs {list(found)}, not {list(expected)}"
    for name, array in expected.items():
        assert found[name].shape == array.shape, f"{stage}: {name} is {found[name].shape}, not {array.shape}"
        error = float(np.abs(found[name] - array).max(initial=0))
        assert error <= 1e-4 * max(1.0, float(np.abs(array).max(initial=0))), f"{stage}: {name} is off by {error:g}"


def _close(stage: str, found: Mapping[str, Array], expected: Mapping[str, Array], least: float) -> None:
    """Energy of the error at least so many dB below the signal's. Where steps are as large as the signal, nothing is said."""
    assert list(found) == list(expected), f"{stage}: outputs {list(found)}, not {list(expected)}"
    for name, array in expected.items():
        assert found[name].shape == array.shape, f"{stage}: {name} is {found[name].shape}, not {array.shape}"
        signal = float(np.square(array, dtype=np.float64).sum())
        noise = float(np.square(found[name].astype(np.float64) - array).sum())
        assert noise <= signal * 10 ** (-least / 10) + 1e-9, (
            f"{stage}: {name} has {10 * np.log10(signal / noise) if signal else -np.inf:.1f} dB, not {least}"
        )


if __name__ == "__main__":
    target = Path(sys.argv[2] if len(sys.argv) > 2 else "out")
    target.mkdir(parents=True, exist_ok=True)
    check(int(sys.argv[1]), target)
