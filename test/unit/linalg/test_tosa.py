"""`-t tosa`: `iree-opt` verifies the text, and IREE computes the integers that the specification's arithmetic gives in numpy."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amct_linalg.iree import COMPILE_OPTIONS
from amct_linalg.tosa import TosaTarget, converted, multiplier_and_shift
from amct_linalg.tosa_numbers import apply_scale, run

from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Array = np.ndarray[Any, np.dtype[Any]]

SCALES = {"x": "<i8, scale = 0.05, zero_point = 3>", "y": "<i8, scale = 0.0731, zero_point = -9>"}


def text(shape: str, layers: str, results: str, constants: str = "") -> str:
    """A function of a quantized input `%x` of this shape; `%r` are the reals that it returns as `results`, quantized."""
    return f"""func.func @main(%x: tensor<{shape}xf32>) -> tensor<{results}xf32> {{
      %x.q = nn.quantize %x by {SCALES["x"]} : (tensor<{shape}xf32>) -> tensor<{shape}xi8>
      %x.r = nn.dequantize %x.q by {SCALES["x"]} : (tensor<{shape}xi8>) -> tensor<{shape}xf32>
      {constants}
      {layers}
      %r.q = nn.quantize %r by {SCALES["y"]} : (tensor<{results}xf32>) -> tensor<{results}xi8>
      %y = nn.dequantize %r.q by {SCALES["y"]} : (tensor<{results}xi8>) -> tensor<{results}xf32>
      func.return %y : tensor<{results}xf32> }}"""


def weight(name: str, shape: str, element: str, array: Array, params: str) -> str:
    """A quantized constant, `%name`."""
    return f"""%{name}.i = nn.constant #nn.external<"{name}", tensor<{shape}x{element}>, "0x{array.tobytes().hex().upper()}">
      %{name} = nn.dequantize %{name}.i by <{element}, {params}> : (tensor<{shape}x{element}>) -> tensor<{shape}xf32>"""


def spread(*shape: int) -> Array:
    """int8 of all sizes, in no order."""
    return (np.arange(np.prod(shape)) * 97 % 255 - 127).astype(np.int8).reshape(shape)


KERNEL = weight(
    "w",
    "4x6x3x3",
    "i8",
    spread(4, 6, 3, 3),
    "scale = [0.001, 0.002, 0.000003, 0.007], axis = 0",
)
BIAS = weight(
    "b",
    "4",
    "i32",
    np.array([900, -700, 5000, 3], np.int32),
    "scale = [0.00005, 0.0001, 0.00000015, 0.00035], axis = 0",
)
DEPTHWISE = weight("w", "6x1x3x3", "i8", spread(6, 1, 3, 3), "scale = 0.004")
MATRIX = weight("w", "10x6", "i8", spread(10, 6), "scale = 0.004")
IMAGE, HALF = "tensor<1x6x8x8xf32>", "tensor<1x6x4x4xf32>"

NETWORKS = {
    "convolution with a stride": text(
        "1x6x8x8",
        """%c = nn.conv %x.r, %w, %b strides [2, 2] pads [1, 1, 1, 1]
             : (tensor<1x6x8x8xf32>, tensor<4x6x3x3xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
           %r = nn.relu %c : tensor<1x4x4x4xf32>""",
        "1x4x4x4",
        KERNEL + BIAS,
    ),
    "depthwise convolution that leaves rows out": text(
        "1x6x8x8",
        "%r = nn.conv %x.r, %w strides [2, 2] groups 6 : (tensor<1x6x8x8xf32>, tensor<6x1x3x3xf32>) -> tensor<1x6x3x3xf32>",
        "1x6x3x3",
        DEPTHWISE,
    ),
    "sum of a bounded layer and its input": text(
        "1x6x8x8",
        f"""%c = nn.conv %x.r, %w pads [1, 1, 1, 1] groups 6 : ({IMAGE}, tensor<6x1x3x3xf32>) -> {IMAGE}
           %s = nn.relu %c : {IMAGE}
           %r = nn.add %s, %x.r : {IMAGE}""",
        "1x6x8x8",
        DEPTHWISE,
    ),
    "product with a transposed weight": text(
        "5x6",
        "%r = nn.matmul %x.r, %w transpose_b : (tensor<5x6xf32>, tensor<10x6xf32>) -> tensor<5x10xf32>",
        "5x10",
        MATRIX,
    ),
    "products of activations": text(
        "2x5x6",
        "%r = nn.matmul %x.r, %x.r transpose_b : (tensor<2x5x6xf32>, tensor<2x5x6xf32>) -> tensor<2x5x5xf32>",
        "2x5x5",
    ),
    "a function of one value as a table": text(
        "5x6",
        """%s = nn.sigmoid %x.r : tensor<5x6xf32>
           %r = nn.mul %s, %x.r : tensor<5x6xf32>""",
        "5x6",
    ),
    "largest of windows": text(
        "1x6x8x8",
        f"%r = nn.max_pool %x.r kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : ({IMAGE}) -> {HALF}",
        "1x6x4x4",
    ),
    "mean without padding": text(
        "1x6x8x8",
        f"%r = nn.average_pool %x.r kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : ({IMAGE}) -> {HALF}",
        "1x6x4x4",
    ),
    "mean with padding": text(
        "1x6x8x8",
        f"%r = nn.average_pool %x.r kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] count_include_pad : ({IMAGE}) -> {HALF}",
        "1x6x4x4",
    ),
    "mean of all": text("1x6x8x8", f"%r = nn.global_average_pool %x.r : ({IMAGE}) -> tensor<1x6x1x1xf32>", "1x6x1x1"),
    "a step over rows and columns, padded": text(
        "1x8x8x6",
        """%s = nn.slice %x.r starts [1, 0] ends [8, 8] axes [1, 2] steps [2, 2] : (tensor<1x8x8x6xf32>) -> tensor<1x4x4x6xf32>
           %r = nn.pad %s pads [0, 0, 0, 1, 0, 0, 0, 1] : (tensor<1x4x4x6xf32>) -> tensor<1x4x4x8xf32>""",
        "1x4x4x8",
    ),
    "joined after a bound": text(
        "5x6",
        """%s = nn.relu6 %x.r : tensor<5x6xf32>
           %r = nn.concat %s, %x.r axis 1 : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x12xf32>""",
        "5x12",
    ),
}


@pytest.fixture
def session() -> Session:
    return new_session()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_integers_are_those_of_the_interpreter(name: str, session: Session, rng: np.random.Generator) -> None:
    """Next to the reals before the last quantization, by half a step and by what the notes say that multipliers lose."""
    module = parse_module(session, NETWORKS[name].replace("return %y", "return %r"))
    argument = main_function(module).body.block.args[0]
    q = rng.integers(-128, 128, shape_of(argument)).astype(np.int8)
    reals = (q.astype(np.float32) - np.float32(3)) * np.float32(0.05)
    (expected,) = Executable(module).run({"x": reals}).values()
    for bits in (31, 15):
        made, notes = converted(parse_module(session, NETWORKS[name]), session, bits)
        (found,) = run(made, [q])
        assert found.dtype == np.int8
        assert len(np.unique(found)) > 5
        loss = 0.0 if "table" in name else float(notes[-1].removeprefix("  r: "))
        assert np.abs(np.clip(expected / 0.0731 - 9, -128, 127) - found).max() <= 0.5 + 1.05 * loss + 1e-4


@pytest.mark.slow
def test_iree_verifies_the_text_and_computes_the_same_integers(
    session: Session, tmp_path: Path, rng: np.random.Generator
) -> None:
    """All networks as functions of one module. Not by vmvx, which in version 3.13 takes -32 for more than -9 in int8."""
    compiler: Any = pytest.importorskip("iree.compiler")
    runtime: Any = pytest.importorskip("iree.runtime")
    texts, cases = list[str](), list(product(NETWORKS.values(), (31, 15)))
    for i, (network, bits) in enumerate(cases):
        TosaTarget(scale32=bits == 31).write(parse_module(session, network), tmp_path / "m.mlir", session)
        lines = (tmp_path / "m.mlir").read_text().replace("@main", f"@f{i}").split("\n")
        texts += [line for line in lines if line not in ("builtin.module {", "}")]
    code = compiler.compile_str("\n".join(texts), input_type="tosa", extra_args=COMPILE_OPTIONS)
    config = runtime.Config("local-task")
    program = runtime.load_vm_modules(runtime.VmModule.copy_buffer(config.vm_instance, code), config=config)[-1]
    for i, (network, bits) in enumerate(cases):
        made, _ = converted(parse_module(session, network), session, bits)
        q = rng.integers(-128, 128, shape_of(main_function(made).body.block.args[0])).astype(np.int8)
        np.testing.assert_array_equal(np.asarray(program[f"f{i}"](q)), run(made, [q])[0])


def test_multiplier_and_shift_are_within_their_bound() -> None:
    for bits, most in (31, 2.0**28), (15, 2.0**12):
        for scale in (2.0**-32, 1e-6, 0.3, 1 - 2.0**-33, 1.0, 77.7, most):
            multiplier, shift = multiplier_and_shift(scale, bits)
            assert 2 ** (bits - 1) <= multiplier < 2**bits
            assert 2 <= shift <= 62
            assert abs(multiplier * 2.0**-shift / scale - 1) <= 2.0**-bits
        with pytest.raises(ValueError, match=f"too large for a multiplier of {bits} bits"):
            multiplier_and_shift(2 * most, bits)


def test_ties_go_up() -> None:
    half = np.array([[m, s] for m, s in [multiplier_and_shift(0.5)]])[0]
    assert apply_scale(np.array([-3, -1, 1, 3]), half[:1], half[1:]).tolist() == [-1, 0, 1, 2]


def test_the_last_softmax_is_left_to_the_reader_with_a_warning(session: Session, tmp_path: Path) -> None:
    network = text("5x6", "%r = nn.relu %x.r : tensor<5x6xf32>", "5x6").replace("func.return %y", "func.return %p")
    network = network.replace("func.return", "%p = nn.softmax %y axis 1 : tensor<5x6xf32>\nfunc.return")
    TosaTarget().write(parse_module(session, network), tmp_path / "m.mlir", session)
    assert [str(w) for w in session.warnings] == [
        "output 'result0' of the file is the operand of the last nn.softmax, which is left to its reader"
    ]
    assert f": {SCALES['y']}, without nn.softmax over axis 1\n" in (tmp_path / "m.mlir").read_text()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (NETWORKS["mean of all"].replace("1x6x", "?x6x"), r"unknown size\n  hint: --infer-shapes"),
        (
            NETWORKS["convolution with a stride"]
            .replace("%w, %b", "%w.f, %b")
            .replace("%c =", "%w.f = nn.constant dense<1.0> : tensor<4x6x3x3xf32>\n%c ="),
            r"'nn.conv' op .* its weight is not a quantized constant\n  hint: quantize",
        ),
        (
            NETWORKS["mean of all"]
            .replace("<i8, scale = 0.05, zero_point = 3>", "<i8, scale = 0.05>")
            .replace(
                "%r = nn.global_average_pool %x.r",
                "%s = nn.softmax %x.r axis 1 : tensor<1x6x8x8xf32>\n%r = nn.global_average_pool %s",
            ),
            r"'nn.softmax' op has no form in TOSA: .*\n  hint: -t linalg",
        ),
    ],
)
def test_what_has_no_form_is_an_error_with_its_place(
    network: str, message: str, session: Session, tmp_path: Path
) -> None:
    with pytest.raises(CompileError, match=rf"^net.mlir:\d+:\d+: error: .*{message}"):
        TosaTarget().write(parse_module(session, network, "net.mlir"), tmp_path / "m.mlir", session)
    assert list(tmp_path.iterdir()) == []
