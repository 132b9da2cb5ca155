"""Fifty faults in kernels, folds, scales, layouts and axes, and networks to inject them into.

`python test/unit/examine/checking/faults.py 50 5` injects every fifth of them into ResNet-50 (20: ResNet-20), names step and
layer, reduces the model, and prints the seconds of each.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import amct_opt
from amct_opt import CompileError
from amct_opt.dialects import nn
from amct_opt.dialects.nn.properties import attribute_of
from amct_opt.examine.checking.checker import Checker
from amct_opt.ir.functions import main_function
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.runtime.kernels import bare_kernel_for
from amct_opt.transforms.canonicalization import CanonicalizePass
from amct_opt.transforms.convert_layout import ConvertLayoutPass
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass
from amct_opt.transforms.quantization.convert.convert_observers import ConvertObserversPass

SECONDS, MOST = 60.0, 10
"""Seconds of a processor within which a fault is found, and a model is reduced; operations that are left at most."""
PATIENCE = 600.0
"""Seconds after which a reduction ends on a machine that is busy."""
BLOCKS = {8: ([1, 1], 8, 8), 20: ([3, 3, 3], 16, 32), 50: ([3, 4, 6, 3], 64, 224)}
"""Blocks per stage, width of the first, and size of the image, by depth."""


def network(depth: int) -> ModelProto:
    """A seeded residual network with batch norms, for 2 samples; 50 is ResNet-50, for one."""
    samples = 1 if depth == 50 else 2
    random = np.random.default_rng(depth)
    stages, width, size = BLOCKS[depth]
    nodes: list[onnx.NodeProto] = []
    weights: list[TensorProto] = []

    def weight(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(name: str, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, relu: bool = True) -> str:
        w = random.standard_normal((outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel / 2)
        attributes: dict[str, Any] = {"strides": [stride] * 2, "pads": [kernel // 2] * 4}
        nodes.append(helper.make_node("Conv", [x, weight(f"{name}.w", w)], [name], name, **attributes))
        numbers = [random.uniform(0.5, 1.5, outputs), *random.standard_normal((2, outputs)) / 4]
        parameters = [weight(f"{name}.{k}", a) for k, a in zip(("s", "b", "m"), numbers, strict=True)]
        parameters.append(weight(f"{name}.v", random.uniform(0.5, 2, outputs)))
        nodes.append(helper.make_node("BatchNormalization", [name, *parameters], [f"{name}_bn"], f"{name}_bn"))
        if not relu:
            return f"{name}_bn"
        nodes.append(helper.make_node("Relu", [f"{name}_bn"], [f"{name}_relu"], f"{name}_relu"))
        return f"{name}_relu"

    x, channels = conv("stem", "x", 3, width, 7 if depth == 50 else 3, 2 if depth == 50 else 1), width
    if depth == 50:
        window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("MaxPool", [x], ["pooled"], "pooled", **window))
        x = "pooled"
    for stage, count in enumerate(stages):
        inner = width << stage
        outer = inner * (4 if depth == 50 else 1)
        for block in range(count):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            if depth == 50:
                y = conv(f"{name}c1", x, channels, inner, 1)
                y = conv(f"{name}c2", y, inner, inner, 3, stride)
                y = conv(f"{name}c3", y, inner, outer, 1, relu=False)
            else:
                y = conv(f"{name}c1", x, channels, inner, 3, stride)
                y = conv(f"{name}c2", y, inner, outer, 3, relu=False)
            if channels != outer or stride > 1:
                x = conv(f"{name}short", x, channels, outer, 1, stride, relu=False)
            nodes.append(helper.make_node("Add", [x, y], [f"{name}_add"], f"{name}_add"))
            nodes.append(helper.make_node("Relu", [f"{name}_add"], [f"{name}_out"], f"{name}_out"))
            x, channels = f"{name}_out", outer
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pool"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], "flat"))
    fc = random.standard_normal((channels, 10)) / np.sqrt(channels)
    nodes.append(helper.make_node("Gemm", ["flat", weight("fc.w", fc), weight("fc.b", fc[0])], ["fc"], "fc"))
    nodes.append(helper.make_node("Softmax", ["fc"], ["y"], "softmax", axis=1))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [samples, 3, size, size])],
        [value("y", TensorProto.FLOAT, [samples, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@dataclass(frozen=True)
class Fault:
    """A fault in one step: `inject` makes it, `named` is what the error must say."""

    kind: str
    inject: Callable[[], Any]
    passes: tuple[str, ...]
    """The passes that run; none for a fault in a kernel, which shows next to onnxruntime."""
    named: str

    def error(self, model: ModelProto, folder: Path) -> str:
        """What the check says about a model; empty if nothing is wrong, or if the model is not fit for the passes."""
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        with self.inject():
            try:
                module, session = amct_opt.load(path)
                session.on_remark = None
                checker = session.checker = Checker(None, 1)
                if not self.passes:
                    checker.reading(path, module)
                amct_opt.run_pipeline(module, self.passes, session)
            except CompileError as e:
                return e.message
        return ""


def constants(module: ModuleOp, key: str) -> Iterator[nn.ConstantOp]:
    return (op for op in list(module.walk()) if isinstance(op, nn.ConstantOp) and op.key == key)


def change(key: str, of: Callable[[np.ndarray], Any]) -> Callable[[ModuleOp], None]:
    """Changes a constant, if the module has it."""

    def fault(module: ModuleOp) -> None:
        for old in constants(module, key):
            array = np.ascontiguousarray(np.asarray(of(old.array.copy())).astype(old.array.dtype))
            new = nn.ConstantOp.of(array, old.key, old.location)
            block = old.parent
            assert block is not None
            block.insert_op_before(new, old)
            old.result.replace_all_uses_with(new.result)
            old.detach()
            old.erase()

    return fault


def operation(layer: str, edit: Callable[[Operation], None]) -> Callable[[ModuleOp], None]:
    """Changes the operations of a layer."""

    def fault(module: ModuleOp) -> None:
        for op in list(main_function(module).body.walk()):
            origin = op.properties.get("origin")
            if isinstance(origin, nn.OriginAttr) and origin.layer.data == layer:
                edit(op)

    return fault


def behind(broken: type, fault: Callable[[ModuleOp], object]) -> Callable[[], Any]:
    """The pass, with the fault after it."""
    apply = broken.apply  # type: ignore[attr-defined]

    def wrong(self: Any, ctx: Any, op: ModuleOp) -> None:
        apply(self, ctx, op)
        fault(op)

    return lambda: patch.object(broken, "apply", wrong)


def kernel(kind: type[Operation], of: Callable[..., Any]) -> Callable[[], Any]:
    """The kernel of a class of operations, with its result changed."""

    def wrong(op: Operation) -> Any:
        run = bare_kernel_for(op)
        return (lambda *arrays: of(run(*arrays))) if isinstance(op, kind) and run is not None else run

    return lambda: patch("amct_opt.runtime.plan.bare_kernel_for", wrong)


def put(op: Operation, name: str, value: Any) -> None:
    """Gives an operation another property."""
    assert isinstance(op, nn.NNOp)
    attribute = attribute_of(type(op), name, value)
    assert attribute is not None
    op.properties[name] = attribute


def shift(op: Operation) -> None:
    """All padding of a convolution after its input, none before it."""
    if isinstance(op, nn.ConvOp) and (pads := nn.ints(op.pads)):
        rank = len(pads) // 2
        behind = [before + after for before, after in zip(pads[:rank], pads[rank:], strict=True)]
        put(op, "pads", (*[0] * rank, *behind))


def double(op: Operation) -> None:
    """The first operand of a sum in place of the second."""
    if isinstance(op, nn.AddOp):
        op.operands[1] = op.operands[0]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda y: y * np.float32(1.001),
    "moved": lambda y: np.roll(y, 1, -1),
    "negated": lambda y: -y,
    "shifted": lambda y: y + np.float32(0.01),
    "turned": lambda y: np.flip(y, -1).copy(),
}
LAYERS = ("stem", "s0b0c1", "s0b0c2", "s1b0c1", "s1b0short")
QUANTIZED = ("fuse-bn", "insert-observers", "calibrate", "convert-observers")


def faults() -> list[Fault]:
    """The fifty."""
    found: list[Fault] = []
    kernels = (nn.ConvOp, nn.GlobalAveragePoolOp)
    for kind, layer in zip(kernels, ("stem", "pool"), strict=True):
        for name, of in CHANGES.items():
            if kind is nn.GlobalAveragePoolOp and name in ("moved", "turned"):
                continue
            found.append(Fault(f"kernel {kind.name} {name}", kernel(kind, of), (), f"layer '{layer}'"))
    found.append(Fault("kernel matmul", kernel(nn.MatMulOp, CHANGES["moved"]), (), "layer 'fc'"))
    found.append(Fault("kernel softmax", kernel(nn.SoftmaxOp, CHANGES["scaled"]), (), "layer 'softmax'"))
    after = "after --fuse-bn: layer '{}'"
    for layer in LAYERS:
        fold = change(f"{layer}.w.folded", lambda w: w * 1.01)
        found.append(Fault(f"fold weight {layer}", behind(FuseBnPass, fold), ("fuse-bn",), after.format(layer)))
        bias = change(f"{layer}_bn.bias.folded", lambda b: b + 0.1)
        bias_named = change(f"{layer}.b.folded", lambda b: b + 0.1)
        both = lambda m, a=bias, b=bias_named: (a(m), b(m))  # noqa: E731
        found.append(Fault(f"fold bias {layer}", behind(FuseBnPass, both), ("fuse-bn",), after.format(layer)))
    for layer in LAYERS:
        scale = change(f"{layer}.w.i8", lambda w: w // 2)
        named = f"after --convert-observers: layer '{layer}'"
        found.append(Fault(f"scale {layer}", behind(ConvertObserversPass, scale), QUANTIZED, named))
        scale = change(f"{layer}_deq_scale", lambda s: s * 1.01)
        named = f"after --lower-to-ascend: layer '{layer}'"
        lowered = (*QUANTIZED, "lower-to-ascend")
        found.append(Fault(f"deq scale {layer}", behind(LowerToAscendPass, scale), lowered, named))
    to_nhwc = "convert-layout{to=nhwc}"
    for layer in LAYERS:
        turned = change(f"{layer}.w", lambda w: w[:, ::-1] if w.shape[2] == 1 else w.transpose(0, 1, 3, 2))
        named = f"after --convert-layout: layer '{layer}'"
        found.append(Fault(f"layout {layer}", behind(ConvertLayoutPass, turned), (to_nhwc,), named))
        mixed = change(f"{layer}.w", lambda w: np.roll(w, 1, 0))
        found.append(Fault(f"layout channels {layer}", behind(ConvertLayoutPass, mixed), (to_nhwc,), named))
    edits = [(layer, "pads", shift) for layer in ("stem", "s0b0c2", "s1b0c2")] + [("s0b0_add", "operand", double)]
    for layer, name, edit in edits:
        named = f"after --canonicalize: layer '{layer}'"
        wrong = behind(CanonicalizePass, operation(layer, edit))
        found.append(Fault(f"{name} {layer}", wrong, ("canonicalize",), named))
    for layer in LAYERS[:4]:
        moved = change(f"{layer}_bn.s", lambda s: np.roll(s, 1))
        moved_too = change(f"{layer}.s", lambda s: np.roll(s, 1))
        both = lambda m, a=moved, b=moved_too: (a(m), b(m))  # noqa: E731
        named = f"after --canonicalize: layer '{layer}_bn'"
        found.append(Fault(f"axis bn {layer}", behind(CanonicalizePass, both), ("canonicalize",), named))
    axis = operation("softmax", lambda op: put(op, "axis", 0))
    found.append(Fault("axis softmax", behind(CanonicalizePass, axis), ("canonicalize",), "layer 'softmax'"))
    rolled = change("fc.w", lambda w: np.roll(w, 1, 1))
    found.append(Fault("axis fc", behind(CanonicalizePass, rolled), ("canonicalize",), "layer 'fc'"))
    return found


def operations(model: ModelProto) -> int:
    return sum(node.op_type != "Constant" for node in model.graph.node)


def reduced(fault: Fault, model: ModelProto, folder: Path, seconds: float) -> ModelProto:
    """The smallest model on which the same step is wrong, whatever the layer."""
    step = re.sub(r"layer '.*", "", fault.named)
    return amct_opt.reduce(model, lambda m: step in fault.error(m, folder) != "", seconds=seconds)


@dataclass(frozen=True)
class Trial:
    """What came of one fault, in seconds of a processor."""

    fault: Fault
    message: str
    left: int
    """Operations of the reduced model; 0 if nothing was found."""
    finding: float
    reducing: float

    @property
    def failed(self) -> bool:
        """Whether it is not as promised."""
        late = max(self.finding, self.reducing) > SECONDS
        return late or self.fault.named not in self.message or not 0 < self.left <= MOST

    def __str__(self) -> str:
        named = "named" if self.fault.named in self.message else f"not named: {self.message[:200] or 'nothing found'}"
        return (
            f"{self.fault.kind}: {named} in {self.finding:.1f} s, {self.left} operations left in {self.reducing:.1f} s"
        )


def trials(depth: int, chosen: Sequence[Fault]) -> Iterator[Trial]:
    """Injects faults into a network, one after the other."""
    model = network(depth)
    with tempfile.TemporaryDirectory() as temporary:
        for fault in chosen:
            begin = time.process_time()
            message = fault.error(model, Path(temporary))
            middle = time.process_time()
            small = reduced(fault, model, Path(temporary), PATIENCE) if message else None
            left = 0 if small is None else operations(small)
            yield Trial(fault, message, left, middle - begin, time.process_time() - middle)


def main(depth: int, every: int) -> int:
    failed = 0
    for trial in trials(depth, faults()[::every]):
        print("FAILED" if trial.failed else "ok", trial, flush=True)
        failed += trial.failed
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
