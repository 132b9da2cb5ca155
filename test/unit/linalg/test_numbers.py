"""Modules in linalg compute what the interpreter computes: compiled by IREE where it is installed, integers equal to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amct_linalg.lowering import requantization
from amct_linalg.lowering.build import Scalars
from amct_linalg.target import LinalgTarget
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FunctionType, ModuleOp, i32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

import amct_opt
from amct_opt.dialects.nn import ConstantOp, NNOp
from amct_opt.dialects.nn.shapes import element_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.transforms.inline_fused import inline_fused

from .native import called, compiled

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
# the sums of floats are rounded in another order: with these biases none of them lies next to a tie
QUANTIZED = 'fuse-all,quantize{correct-bias=false data="' + str(DIGITS / "calib.npz") + '"}'
Array = np.ndarray[Any, np.dtype[Any]]

FUNCTIONS = {
    "quant": (
        """(%x: tensor<8x512xf32>) -> tensor<8x512xi8> {
          %y = ascend.AscendQuant %x scale 12.3456 offset -37.0 : (tensor<8x512xf32>) -> tensor<8x512xi8>
          func.return %y : tensor<8x512xi8> }""",
        "ties of products",
    ),
    "quantize": (
        """(%x: tensor<8x512xf32>) -> tensor<8x512xui8> {
          %y = nn.quantize %x by <ui8, scale = 0.081, zero_point = 91> : (tensor<8x512xf32>) -> tensor<8x512xui8>
          func.return %y : tensor<8x512xui8> }""",
        "ties of quotients",
    ),
    "residual": (
        """(%x: tensor<8x512xi8>) -> tensor<8x512xi8> {
          %a = ascend.AscendAntiQuant %x scale 0.0371 offset 5.0 : (tensor<8x512xi8>) -> tensor<8x512xf32>
          %b = ascend.AscendAntiQuant %x scale 0.0193 offset -9.0 : (tensor<8x512xi8>) -> tensor<8x512xf32>
          %s = ascend.Add %a, %b : (tensor<8x512xf32>, tensor<8x512xf32>) -> tensor<8x512xf32>
          %y = ascend.AscendQuant %s scale 17.77 offset 3.0 : (tensor<8x512xf32>) -> tensor<8x512xi8>
          func.return %y : tensor<8x512xi8> }""",
        "integers",
    ),
    "sums of products": (
        """(%x: tensor<4x3x64xf32>) -> tensor<4x3x64xf32> {
          %scale = nn.constant dense<[0.3, -1.7, 2.9]> : tensor<3xf32>
          %bias = nn.constant dense<[-0.7, 0.1, 5.3]> : tensor<3xf32>
          %mean = nn.constant dense<[0.11, -0.2, 1.9]> : tensor<3xf32>
          %variance = nn.constant dense<[0.9, 3.1, 0.4]> : tensor<3xf32>
          %0 = nn.batch_norm %x, %scale, %bias, %mean, %variance
            : (tensor<4x3x64xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x64xf32>
          %1 = nn.mul %0, %0 : tensor<4x3x64xf32>
          %2 = nn.add %1, %x : tensor<4x3x64xf32>
          %3 = nn.hard_swish %2 : tensor<4x3x64xf32>
          %y = nn.sub %3, %0 : tensor<4x3x64xf32>
          func.return %y : tensor<4x3x64xf32> }""",
        "bits",
    ),
    "functions": (
        """(%x: tensor<4x3x6x5xf32>) -> tensor<4x3x6x5xf32> {
          %0 = nn.sigmoid %x : tensor<4x3x6x5xf32>
          %1 = nn.gelu %x : tensor<4x3x6x5xf32>
          %2 = nn.elu %x alpha 0.7 : tensor<4x3x6x5xf32>
          %3 = nn.leaky_relu %x alpha 0.3 : tensor<4x3x6x5xf32>
          %4 = nn.hard_swish %x : tensor<4x3x6x5xf32>
          %5 = nn.mish %x : tensor<4x3x6x5xf32>
          %6 = nn.add %0, %1 : tensor<4x3x6x5xf32>
          %7 = nn.mul %6, %2 : tensor<4x3x6x5xf32>
          %8 = nn.sub %7, %3 : tensor<4x3x6x5xf32>
          %9 = nn.max %8, %4 : tensor<4x3x6x5xf32>
          %y = nn.min %9, %5 : tensor<4x3x6x5xf32>
          func.return %y : tensor<4x3x6x5xf32> }""",
        "reals",
    ),
    "softmax": (
        """(%x: tensor<4x3x6x5xf32>) -> tensor<4x5x3x6xf32> {
          %0 = nn.softmax %x axis 2 : tensor<4x3x6x5xf32>
          %y = nn.transpose %0 perm [0, 3, 1, 2] : (tensor<4x3x6x5xf32>) -> tensor<4x5x3x6xf32>
          func.return %y : tensor<4x5x3x6xf32> }""",
        "reals",
    ),
    "pools": (
        """(%x: tensor<4x3x6x5xf32>) -> tensor<4x6x3x3xf32> {
          %0 = nn.max_pool %x kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] : (tensor<4x3x6x5xf32>) -> tensor<4x3x3x3xf32>
          %1 = nn.average_pool %x kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] : (tensor<4x3x6x5xf32>) -> tensor<4x3x3x3xf32>
          %y = nn.concat %0, %1 axis 1 : (tensor<4x3x3x3xf32>, tensor<4x3x3x3xf32>) -> tensor<4x6x3x3xf32>
          func.return %y : tensor<4x6x3x3xf32> }""",
        "reals",
    ),
    "slices": (
        """(%x: tensor<4x3x6x5xf32>) -> tensor<4x90xf32> {
          %0 = nn.slice %x starts [5] ends [-9] axes [2] steps [-1] : (tensor<4x3x6x5xf32>) -> tensor<4x3x6x5xf32>
          %y = nn.flatten %0 : (tensor<4x3x6x5xf32>) -> tensor<4x90xf32>
          func.return %y : tensor<4x90xf32> }""",
        "reals",
    ),
}
"""Modules of one function, and the kind of their input: the shapes are in the text."""

STEPS = {"ties of products": 1 / np.float32(12.3456), "ties of quotients": np.float32(0.081)}
"""The step of the integers of `FUNCTIONS`, by the kind of input."""


def test_a_module_is_linalg_alone(tmp_path: Path) -> None:
    """Every operation of the quantized digits network has a form, in `nn` and lowered, with an unknown batch."""
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    amct_opt.run_pipeline(module, QUANTIZED, session)
    for passes in ("", "lower-to-ascend", "lower-to-ascend,fuse-requant"):
        copy = module.clone()
        amct_opt.run_pipeline(copy, ",".join(filter(None, [passes, "convert-to-linalg"])), session)
        assert {op.name for op in copy.walk() if isinstance(op, NNOp)} == set()
        written = LinalgTarget().write(module, tmp_path / "m.mlir", session)
        assert [p.name for p in written] == ["m.mlir", "m.safetensors"]
        assert "nn." not in (tmp_path / "m.mlir").read_text("utf-8")


def in_iree(module: ModuleOp, session: Session, folder: Path, inputs: list[Array]) -> list[Array]:
    return called(compiled(module, session, folder).main, inputs)


def inputs_of(kind: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(3)
    if kind == "integers":
        return random.integers(-128, 128, shape).astype(np.int8)
    x = random.normal(scale=4, size=shape).astype(np.float32)
    if kind == "bits":
        x.flat[:3] = np.inf, -np.inf, np.nan
    if kind in STEPS:  # half of the numbers are next to where rounding changes, some beyond the range
        ties = random.integers(-190, 260, x[:, ::2].shape) + np.float32(0.5)
        x[:, ::2] = (ties * STEPS[kind]).astype(np.float32)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_function(name: str, tmp_path: Path) -> None:
    body, kind = FUNCTIONS[name]
    session = amct_opt.new_session()
    module = parse_module(session, f"func.func @main{body}")
    (argument,) = main_function(module).body.block.args
    x = inputs_of(kind, tuple(argument.type.get_shape()))  # pyright: ignore
    (expected,) = Executable(module).run({"x": x}).values()
    (found,) = in_iree(module, session, tmp_path, [x])
    if expected.dtype.kind in "iu" or kind == "bits":
        np.testing.assert_array_equal(found.view(expected.dtype), expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _up(s: Scalars, x: SSAValue) -> SSAValue:
    """Ties away from even: `floor(x + 0.5)`."""
    return s.add(math.FloorOp(s.plus(x, s.like(0.5, x))))


def _wrapped(s: Scalars, x: SSAValue, storage: Any, low: float | None = None) -> SSAValue:
    """No saturation: the low bits of the integer."""
    return s.convert(s.convert(x, x.type, i32), i32, storage)


def _by_reciprocal(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.times(a, s.add(arith.DivfOp(s.like(1, b), b)))


def _fast(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.add(arith.DivfOp(a, b, arith.FastMathFlagsAttr("fast")))


WRONG: dict[str, tuple[str, Any, str, Any]] = {
    "contracted products": ("quant", requantization, "product", Scalars.times),
    "contracted products of floats": ("sums of products", Scalars, "product", Scalars.times),
    "ties rounded up": ("quantize", requantization, "rounded", _up),
    "no saturation": ("quantize", requantization, "clipped", _wrapped),
    "products with the reciprocal": ("quantize", Scalars, "over", _by_reciprocal),
    "fast math": ("quantize", Scalars, "over", _fast),
}
"""What would compute other integers: the function of `FUNCTIONS` that shows it, and what replaces what."""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_be_wrong_is_seen(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers next to ties and beyond the range tell each mistake, so that none of them is made."""
    name, owner, attribute, mistake = WRONG[wrong]
    monkeypatch.setattr(owner, attribute, mistake)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        test_one_function(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["", "lower-to-ascend", "lower-to-ascend,fuse-requant"])
def test_every_integer_of_the_digits_network(passes: str, tmp_path: Path) -> None:
    """All integers between layers and the outputs, on 16 held-out images."""
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    amct_opt.run_pipeline(module, ",".join(filter(None, [QUANTIZED, passes])), session)
    show_integers(module)
    x = np.load(DIGITS / "heldout.npz")["image"][:16]
    expected = list(Executable(module).run({"image": x}).values())
    found = in_iree(module, session, tmp_path, [x])
    assert len(found) == len(expected) > 7
    for a, b in zip(found, expected, strict=True):
        sums_of_floats = not passes and b.dtype.kind == "f"  # whose order is BLAS's
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=0, atol=1e-6 * np.abs(b).max() if sums_of_floats else 0)


def show_integers(module: ModuleOp) -> None:
    """Makes every integer tensor between layers an output."""
    inline_fused(module)
    function = main_function(module)
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    layers = [op for op in block.ops if isinstance(op, NNOp) and not isinstance(op, ConstantOp)]
    integers = [r for op in layers for r in op.results if str(element_of(r)) in ("i8", "i32")]
    outputs = [*last.arguments, *(v for v in integers if v not in last.arguments)]
    last.detach()
    last.erase()
    block.add_op(ReturnOp(*outputs))
    function.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in outputs])
    function.res_attrs = None


def test_the_text_parses_upstream(tmp_path: Path) -> None:
    """IREE's opt tool verifies every operation, and the texts with resources are read by plain MLIR too."""
    tool = Path(sys.executable).with_name("iree-opt")
    if not tool.exists():
        pytest.skip("iree-opt is not installed")
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    amct_opt.run_pipeline(module, f"{QUANTIZED},lower-to-ascend", session)
    for weights in ("parameters", "resources"):
        LinalgTarget(weights=weights).write(module, tmp_path / "m.mlir", session)
        result = subprocess.run(
            [tool, tmp_path / "m.mlir", "--verify-each"], capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")
