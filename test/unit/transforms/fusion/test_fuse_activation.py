"""Regions change no number at any stage, leave nothing unexplained, and keep 8-bit steps out.

A region holds the operations that stood in the graph, so results must be equal to the last bit.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings, strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from amct_opt import frontends
from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.shapes import shape_of, tensor_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import module_text
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.rewriting import Remarks, layer_of, rewrite
from amct_opt.runtime.comparison import compare
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import sqnr
from amct_opt.session.universe import new_session
from amct_opt.targets import target_named
from amct_opt.transforms.fusion.fuse_activation import FuseActivationPass
from amct_opt.transforms.fusion.fuse_activation.activations import KINDS
from amct_opt.transforms.fusion.fuse_activation.pattern import Rules

from ...values import parsed

Array = np.ndarray[Any, np.dtype[Any]]

ROOT = Path(__file__).parents[4]
SHAPE = (2, 4, 6, 6)
EVERYTHING = f"fuse-activation=activation-type={','.join(sorted(KINDS))}"


class Network:
    """A random network in which every value has one shape, so that anything can be added to anything."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.block = Block(arg_types=[TensorType(f32, SHAPE)])
        self.values: list[SSAValue] = [self.block.args[0]]

    def add(self, op: nn.NNOp) -> SSAValue:
        op.results[0].name_hint = f"v{len(self.values)}"
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def constant(self, array: Array | float) -> SSAValue:
        op = nn.ConstantOp.of(np.asarray(array, np.float32), "k")
        self.block.add_op(op)
        return op.result

    def weights(self, *shape: int) -> SSAValue:
        return self.constant(self.rng.normal(size=shape) / 4)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def compute(self, x: SSAValue) -> SSAValue:
        bias = self.pick(None, self.weights(4))
        kernel = self.pick(1, 3)
        window: dict[str, Any] = {"pads": [kernel // 2] * 4}
        match self.pick("conv", "conv", "depthwise", "transposed", "matmul"):
            case "conv":
                return self.add(nn.ConvOp.make(x, self.weights(4, 4, kernel, kernel), bias, **window))
            case "depthwise":
                return self.add(nn.ConvOp.make(x, self.weights(4, 1, kernel, kernel), bias, groups=4, **window))
            case "transposed":
                return self.add(nn.ConvTransposeOp.make(x, self.weights(4, 4, kernel, kernel), bias, **window))
            case _:
                return self.add(nn.MatMulOp.make(x, self.weights(6, 6), self.pick(None, self.weights(6))))

    def other(self, x: SSAValue) -> SSAValue:
        """Something without weights."""
        match self.pick("pool", "average", "mul", "bias"):
            case "pool":
                return self.add(nn.MaxPoolOp.make(x, kernel=[3, 3], pads=[1] * 4))
            case "average":
                return self.add(nn.AveragePoolOp.make(x, kernel=[3, 3], pads=[1] * 4, count_include_pad=True))
            case "bias":
                return self.add(nn.BiasAddOp.make(x, self.weights(4)))
            case _:
                return self.add(nn.MulOp.make(x, self.pick(*self.values)))

    def residual(self, x: SSAValue) -> SSAValue:
        other = self.pick(*self.values)
        return self.add(nn.AddOp.make(*self.pick((x, other), (other, x))))

    def activation(self, x: SSAValue) -> SSAValue:
        match self.pick("single", "single", "swish", "mish", "gelu", "none"):
            case "single":
                return self.add(self.single(x))
            case "swish":
                return self.add(nn.MulOp.make(x, self.add(nn.SigmoidOp.make(x))))
            case "mish":
                return self.add(nn.MulOp.make(self.add(nn.TanhOp.make(self.add(nn.SoftplusOp.make(x)))), x))
            case "gelu":
                erf = self.add(nn.ErfOp.make(self.add(nn.DivOp.make(x, self.constant(np.sqrt(2))))))
                product = self.add(nn.MulOp.make(x, self.add(nn.AddOp.make(erf, self.constant(1.0)))))
                return self.add(nn.MulOp.make(product, self.constant(0.5)))
            case _:
                return x

    def single(self, x: SSAValue) -> nn.NNOp:
        kind = self.pick(*nn.kinds(nn.ActivationOp), nn.ReluOp, nn.Relu6Op)
        if kind is nn.PReluOp:
            return kind.make(x, self.weights(4, 1, 1))
        if kind is nn.ClipOp:
            return kind.make(x, min=self.pick(None, 0.0, -0.5), max=self.pick(None, 6.0, 0.5))
        return kind.make(x)

    def step(self) -> None:
        x = self.pick(self.values[-1], self.values[-1], *self.values)
        y = self.pick(self.compute, self.compute, self.other)(x)
        if self.rng.random() < 0.4:
            y = self.residual(y)
        self.activation(y)

    def module(self) -> ModuleOp:
        """Outputs are what nothing else uses, and sometimes a value that is used."""
        outputs = [v for v in self.values[1:] if not v.uses.get_length()]
        if self.rng.random() < 0.3:
            outputs.append(self.pick(*self.values))
        self.block.add_op(ReturnOp(*outputs))
        function = FuncOp("main", ([TensorType(f32, SHAPE)], [v.type for v in outputs]), Region(self.block))
        module = ModuleOp([function])
        verify(module)
        return module


def network(seed: int, steps: int = 5) -> ModuleOp:
    net = Network(np.random.default_rng(seed))
    for _ in range(steps):
        net.step()
    return net.module()


def regions(module: ModuleOp) -> list[nn.FusedOp]:
    return [op for op in module.walk() if isinstance(op, nn.FusedOp)]


def outputs(module: ModuleOp, x: Array) -> list[Array]:
    runner = Executable(module)
    return [*runner.run({runner.inputs[0]: x}).values()]


def assert_equal(actual: list[Array], expected: list[Array]) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def samples(seed: int, count: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=(count * SHAPE[0], *SHAPE[1:])).astype(np.float32)


# -- the same numbers ---------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), everything=st.booleans())
def test_random_networks(equivalence: Any, seed: int, everything: bool) -> None:
    """Equal outputs; every activation in a region or explained; nothing is left for a second run."""
    before = network(seed)
    session = new_session()
    after = equivalence.after(before, EVERYTHING if everything else "fuse-activation", session=session)
    x = samples(seed)
    assert_equal(outputs(after, x), outputs(before, x))
    missed = {r.layer for r in session.remarks if r.kind == "missed"}
    for op in main_function(after).body.block.ops:
        assert not isinstance(op, nn.ActivationOp) or layer_of(op) in missed
        assert not _is_residual_add(op) or layer_of(op) in missed
    assert Counter(op.name for op in _flat(after)) == Counter(op.name for op in _flat(before))
    assert module_text(equivalence.after(after, EVERYTHING)) == module_text(
        equivalence.after(after, EVERYTHING, EVERYTHING)
    )


def _is_residual_add(op: Operation) -> bool:
    return isinstance(op, nn.AddOp) and any(isinstance(v.owner, nn.ConvolutionOp | nn.MatMulOp) for v in op.operands)


def _flat(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if not isinstance(op, nn.FusedOp | nn.YieldOp | nn.ConstantOp)]


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_after_takes_regions(equivalence: Any, seed: int, tmp_path: Path) -> None:
    """Preparation, quantization, lowering and export give the same numbers with regions as without."""
    before = network(seed)
    after = equivalence.after(before, EVERYTHING)
    assert regions(after)
    np.savez(tmp_path / "calib.npz", arg0=samples(1, 3))
    x = samples(seed)
    for passes in (
        ("infer-shapes", "fold-constants", "canonicalize"),
        ("insert-observers",),
        (f"quantize=data={tmp_path / 'calib.npz'}",),
        (f"quantize=data={tmp_path / 'calib.npz'}", "lower-to-ascend"),
    ):
        plain, fused = equivalence.after(before, *passes), equivalence.after(after, *passes)
        assert_equal(outputs(fused, x), outputs(plain, x))
    assert not regions(fused), "the lowering takes them apart"
    nhwc = equivalence.after(after, "convert-layout=nhwc")
    for a, b in zip(outputs(nhwc, x), outputs(before, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)  # sums in another order


@pytest.mark.parametrize("seed", range(3))
def test_export_takes_regions_apart(equivalence: Any, seed: int, tmp_path: Path) -> None:
    before = network(seed)
    after = equivalence.after(before, EVERYTHING)
    results: list[list[Array]] = []
    for name, module in (("plain", before), ("fused", after)):
        path = tmp_path / f"{name}.onnx"
        session = new_session()
        target_named("onnx")().write(module, path, session)
        runner = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        given = {runner.get_inputs()[0].name: samples(seed)}
        results.append([np.asarray(each) for each in runner.run(None, given)])
    assert_equal(results[1], results[0])
    nodes = [Counter(n.op_type for n in onnx.load(tmp_path / f"{name}.onnx").graph.node) for name in ("plain", "fused")]
    assert nodes[0] == nodes[1]


def test_layers_inside_regions_are_compared(equivalence: Any) -> None:
    """`amct compare --layers` on a model with and without regions finds every layer, and no difference."""
    digits = frontends.read(ROOT / "examples" / "digits" / "digits.onnx", new_session())
    folded = equivalence.after(digits, "fuse-bn")
    fused = equivalence.after(folded, "fuse-activation")
    image = np.load(ROOT / "examples" / "digits" / "heldout.npz")["image"]
    batch = shape_of(main_function(digits).body.block.args[0])[0]
    result = compare(folded, fused, [{"image": image[: max(batch, 1)]}], layers=True)
    assert {"conv3", "add1", "relu3", "conv4", "relu5"} <= set(result.layers)
    assert not result.not_compared
    assert {d.differing for d in result.layers.values()} == {0}


def test_values_inside_and_at_the_border_of_a_region_are_watched(equivalence: Any) -> None:
    module = equivalence.after(_residual_network(0), "fuse-activation")
    region = regions(module)[0]
    watched = [region.inputs[0], region.body.block.args[0], region.terminator.value, region.result]
    seen: dict[SSAValue, Array] = {}
    x = samples(0)
    Executable(module, watched).run({"arg0": x}, lambda value, array: seen.update({value: array.copy()}))
    assert set(seen) == set(watched)
    np.testing.assert_array_equal(seen[watched[1]], x)
    np.testing.assert_array_equal(seen[watched[2]], seen[watched[3]])


# -- the two claims about fusion ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> ModuleOp:
    """The trained network of the example, batch norms folded."""
    module = frontends.read(ROOT / "examples" / "digits" / "digits.onnx", new_session())
    make_pass("fuse-bn").apply(new_session(), module)
    return module


CALIBRATION = f"data={ROOT / 'examples' / 'digits' / 'calib.npz'}"


def test_no_8_bit_step_inside_a_region(digits: ModuleOp, equivalence: Any) -> None:
    """Inside, values stay in float; as integers, the accumulator stays 32-bit up to the end of the region."""
    quantized = equivalence.after(digits, "fuse-activation", f"quantize={CALIBRATION}")
    assert Counter(op.kind.data for op in regions(quantized)) == {"ConvReLU2d": 4, "ConvAddReLU2d": 1}
    for op in regions(quantized):
        assert all(tensor_of(v).element_type == f32 for each in op.body.block.ops for v in each.results)
        assert isinstance(op.inputs[0].owner, nn.DequantizeOp), "its input is quantized"
    lowered = equivalence.after(quantized, "lower-to-ascend")
    convolutions = [op for op in lowered.walk() if isinstance(op, ascend.Conv2DOp | ascend.DepthwiseConv2DOp)]
    assert len(convolutions) == 5
    chains = Counter(_until_quantized(op) for op in convolutions)
    assert chains == {
        ("ascend.AscendDequant", "ascend.Relu"): 4,
        ("ascend.AscendDequant", "ascend.Add", "ascend.Relu"): 1,
    }
    assert all(tensor_of(op.results[0]).element_type == i32 for op in convolutions)


def _until_quantized(op: Operation) -> tuple[str, ...]:
    """What a result goes through before the next 8-bit value, as long as one operation takes it."""
    names: list[str] = []
    while True:
        users = {use.operation for use in op.results[0].uses}
        if len(users) != 1 or isinstance(op := users.pop(), ascend.AscendQuantOp) or op.name == "ascend.Relu":
            return (*names, op.name) if op.name == "ascend.Relu" else tuple(names)
        names.append(op.name)


def test_fused_is_not_less_accurate(digits: ModuleOp, equivalence: Any) -> None:
    """Where every operation that stands alone gives 8 bits, regions have fewer such steps, and less noise.

    Uniform quantization of the sum and of the convolution before it costs each its own rounding error; the relu throws half
    of a range away that was given to negative numbers.
    """
    images = np.load(ROOT / "examples" / "digits" / "heldout.npz")["image"]
    plain = _with_8_bits_behind_everything(digits, CALIBRATION)
    fused = _with_8_bits_behind_everything(equivalence.after(digits, "fuse-activation"), CALIBRATION)
    steps = [sum(isinstance(op, nn.QuantizeOp) for op in module.walk()) for module in (plain, fused)]
    assert steps[0] - steps[1] == 6, "four relus, an add and a relu"
    expected = _run_all(digits, images)
    assert sqnr(expected, _run_all(fused, images)) >= sqnr(expected, _run_all(plain, images)) + 1


@pytest.mark.parametrize("seed", range(2))
def test_fused_is_not_less_accurate_on_residual_networks(equivalence: Any, seed: int, tmp_path: Path) -> None:
    before = _residual_network(seed)
    np.savez(tmp_path / "calib.npz", arg0=samples(1, 8))
    data = f"data={tmp_path / 'calib.npz'}"
    plain = _with_8_bits_behind_everything(before, data)
    fused = _with_8_bits_behind_everything(equivalence.after(before, "fuse-activation"), data)
    x = samples(2, 8)
    expected = _run_all(before, x)
    assert sqnr(expected, _run_all(fused, x)) >= sqnr(expected, _run_all(plain, x))


def _residual_network(seed: int) -> ModuleOp:
    net = Network(np.random.default_rng(seed))
    for _ in range(4):
        x = net.values[-1]
        r = net.add(nn.ReluOp.make(net.add(nn.ConvOp.make(x, net.weights(4, 4, 3, 3), pads=[1] * 4))))
        c = net.add(nn.ConvOp.make(r, net.weights(4, 4, 3, 3), pads=[1] * 4))
        net.add(nn.ReluOp.make(net.add(nn.AddOp.make(c, x))))
    return net.module()


def _with_8_bits_behind_everything(module: ModuleOp, data: str) -> ModuleOp:
    """A copy with a quantization point on every value between the operations of the graph."""
    module = module.clone()
    block = main_function(module).body.block
    values = [*block.args, *(v for op in block.ops if isinstance(op, nn.NNOp | nn.FusedOp) for v in op.results)]
    for i, value in enumerate(values):
        point = nn.ObserveOp.make(value, point=f"v{i}", observer="minmax", bits=8)
        value.replace_uses_with_if(point.result, lambda use, point=point: use.operation is not point)
        at = InsertPoint.at_start(block) if value in block.args else InsertPoint.after(value.owner)
        Rewriter.insert_op(point, at)
    verify(module)
    session = new_session()
    for name, options in (("calibrate", data), ("convert-observers", "")):
        make_pass(name, options).apply(session, module)
    verify(module)
    return module


def _run_all(module: ModuleOp, x: Array) -> Array:
    """The first output for samples on the first axis, in batches that the model takes."""
    runner = Executable(module)
    (argument,) = runner.function.body.block.args
    batch = shape_of(argument)[0]
    size = batch if batch > 0 else len(x)
    runs = [runner.run({runner.inputs[0]: x[i : i + size]}) for i in range(0, len(x) - size + 1, size)]
    return np.concatenate([run[runner.outputs[0]] for run in runs])


# -- conditions that no profile shows yet ---------------------------------------------------------------------------------


def test_a_target_that_adds_no_residual() -> None:
    """The add stays outside; the relu goes with it (as for targets that run an add in 8 bits)."""
    module = _residual_network(0)
    session = new_session()
    remarks = Remarks(session, "fuse-activation")
    rules = Rules.of("profile other", {"relu"}, add=False)
    for pattern in FuseActivationPass.PATTERNS:
        rewrite(module, pattern(remarks, rules))
    verify(module)
    remarks.flush()
    assert Counter(op.kind.data for op in regions(module)) == {"ConvReLU2d": 4, "AddReLU": 4}
    missed = {(r.rule, r.reason) for r in session.remarks if r.kind == "missed"}
    assert missed == {("add-of-target", "profile other adds no residual inside a computing operation")}


# -- an activation after a max pool ---------------------------------------------------------------------------------------

POOLED = """
func.func @main(%x: tensor<2x2x6x6xf32>) -> tensor<2x3x3x3xf32> {{
  %w = nn.constant dense<[[[[1.0]], [[-2.0]]], [[[0.5]], [[1.5]]], [[[-1.0]], [[-1.0]]]]> : tensor<3x2x1x1xf32>
  %c = nn.conv %x, %w : (tensor<2x2x6x6xf32>, tensor<3x2x1x1xf32>) -> tensor<2x3x6x6xf32>
  %p = nn.max_pool %c kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (tensor<2x3x6x6xf32>) -> tensor<2x3x3x3xf32>
  %y = nn.{} : tensor<2x3x3x3xf32>
  func.return %y : tensor<2x3x3x3xf32>
}}
"""


@pytest.mark.parametrize("activation", ["relu %p", "relu6 %p", "clip %p min -1.0 max 1.5"])
def test_an_activation_goes_before_the_pool(activation: str) -> None:
    """The numbers stay the same to the bit, and the convolution's result needs no levels for what is cut off."""
    module, session = parsed(POOLED.format(activation), profile="qdq")
    x = np.random.default_rng(0).normal(0, 2, (2, 2, 6, 6)).astype(np.float32)
    before = Executable(module).run({"x": x})
    run_passes(module, [FuseActivationPass()], session)
    assert [type(op) for op in main_function(module).body.block.ops][1:3] == [nn.FusedOp, nn.MaxPoolOp]
    after = Executable(module).run({"x": x})
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    run_passes(module, [make_pass("quantize", "observer=minmax")], session)
    _, point, *_ = [op.qparams.data for op in module.walk() if isinstance(op, nn.QuantizeOp)]
    lowest = (-128 - point.zero_points().item()) * point.scales().item()
    assert lowest == pytest.approx(-1 if activation.startswith("clip") else 0, abs=0.02)
