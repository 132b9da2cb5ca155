"""Shift-N: the operation in integers, the search against brute force on a model's own sums, records, the exported file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends, quantize
from amct_opt.dialects import ascend, nn
from amct_opt.ir.text import module_text
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import Executable, run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.record import RecordTarget
from amct_opt.targets.tensorflow import TfFakequantTarget

from ...values import dense, normal, parsed


def shifted(number: int, bits: int) -> int:
    """Python's shift is the floor of the quotient."""
    return min(max(number >> bits, -32768), 32767) << bits


def operation(scales: Sequence[float], shifts: Sequence[int], type_: str = "f32", axis: int = 1) -> str:
    listed = f"[{', '.join(map(str, scales))}], axis = {axis}" if len(scales) > 1 else str(scales[0])
    return f"""
func.func @main(%x: tensor<?x3x?x{type_}> {{nn.name = "x"}}) -> (tensor<?x3x?x{type_}> {{nn.name = "y"}}) {{
  %y = nn.shift_accumulator %x of <i32, scale = {listed}> by {list(shifts)} : tensor<?x3x?x{type_}>
  func.return %y : tensor<?x3x?x{type_}>
}}
"""


@pytest.mark.parametrize("shifts", [(1, 4, 16), (3,), (16,)])
def test_the_operation_in_integers(shifts: Sequence[int], rng: np.random.Generator) -> None:
    """Scales that are powers of 2 leave the sums exact: halves, both signs, saturation among them."""
    scales = (0.5, 2.0, 0.125)
    sums = rng.integers(-(2**22), 2**22, (4, 3, 50))
    sums[0, :, :6] = [-1, 0, 1, -32769, 32768, -(2**22)]
    steps = np.reshape(scales, (3, 1))
    module, _ = parsed(operation(scales, shifts))
    y = run(module, {"x": (sums * steps).astype(np.float32)})["y"]
    each = [*shifts] * 3 if len(shifts) == 1 else shifts
    expected = [
        [[shifted(int(v), bits) for v in line] for line, bits in zip(s, each, strict=True)] for s in sums.tolist()
    ]
    np.testing.assert_array_equal(y, (np.array(expected) * steps).astype(np.float32))


def test_rounding_before_the_shift() -> None:
    """Halves of a sum go to the even side, the shift goes down."""
    module, _ = parsed(operation((1.0,), (1,)))
    x = np.array([2.5, 3.5, -2.5, -3.5, 1.4, -0.6], np.float32).reshape(1, 3, 2)
    assert run(module, {"x": x})["y"].reshape(-1).tolist() == [2, 4, -2, -4, 0, -2]


@pytest.mark.parametrize(("framework", "type_"), [("onnx", "f32"), ("onnx", "f16"), ("tensorflow", "f32")])
@pytest.mark.parametrize("scales", [(0.0123,), (0.0123, 0.4, 0.07)])
@pytest.mark.parametrize("shifts", [(2,), (1, 2, 9)])
def test_frameworks_compute_the_same_bits(
    framework: str, type_: str, scales: Sequence[float], shifts: Sequence[int], tmp_path: Path, rng: np.random.Generator
) -> None:
    if len(shifts) > len(scales):
        scales = [*scales] * len(shifts)
    module, session = parsed(operation(scales, shifts, type_))
    x = (rng.normal(size=(5, 3, 200)) * 10 ** rng.uniform(0, 4, (5, 1, 1))).astype({"f32": "f4", "f16": "f2"}[type_])
    if framework == "onnx":
        OnnxTarget().write(module, tmp_path / "y.onnx", session)
        (found,) = onnxruntime.InferenceSession(tmp_path / "y.onnx").run(None, {"x": x})
    else:
        TfFakequantTarget().write(module, tmp_path / "y.pb", session)
        (found,) = run(frontends.read(tmp_path / "y.pb", new_session()), {"x": x}).values()
    np.testing.assert_array_equal(found, run(module, {"x": x})["y"])


KERNEL = (normal(3, 2, 2, 2) * np.array([0.1, 1, 9]).reshape(3, 1, 1, 1)).astype(np.float32)
COLUMNS = normal(27, 4)


NET = f"""
func.func @main(%x: tensor<1x2x4x4xf32> {{nn.name = "x"}}) -> (tensor<1x4xf32> {{nn.name = "y"}}) {{
  %w = nn.constant {dense(KERNEL)}
  %b = nn.constant dense<[0.5, -40.0, 900.0]> : tensor<3xf32>
  %f = nn.constant {dense(COLUMNS)}
  %1 = nn.fused "ConvReLU2d" (%i = %x, %k = %w, %c = %b) :
      (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>) -> tensor<1x3x3x3xf32> {{
    %r = nn.conv %i, %k, %c from <onnx, "Conv", "conv"> :
      (tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>) -> tensor<1x3x3x3xf32>
    %s = nn.relu %r : tensor<1x3x3x3xf32>
    nn.yield %s : tensor<1x3x3x3xf32>
  }}
  %2 = nn.flatten %1 : (tensor<1x3x3x3xf32>) -> tensor<1x27xf32>
  %y = nn.matmul %2, %f from <onnx, "Gemm", "fc"> : (tensor<1x27xf32>, tensor<27x4xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}}
"""


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> Path:
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(6, 2, 4, 4)).astype(np.float32) * 5)
    return tmp_path / "x.npz"


def prepared(data: Path) -> tuple[ModuleOp, Session]:
    """Quantized, not shifted. Its biases are those of the model, as records leave them."""
    module, session = parsed(NET)
    make_pass("quantize", f"data={data} correct-bias=false").apply(session, module)
    return module, session


def shifts_in(module: ModuleOp) -> list[tuple[int, ...]]:
    return [op.shift_list for op in module.walk() if isinstance(op, nn.ShiftAccumulatorOp)]


def own_sums(module: ModuleOp, session: Session, samples: np.ndarray) -> list[list[np.ndarray]]:
    """The int32 sums of the layers, from Ascend's integer operations, for each sample."""
    lowered = module.clone()
    make_pass("lower-to-ascend").apply(session, lowered)
    sums = [op.operands[0] for op in lowered.walk() if isinstance(op, ascend.AscendDequantOp)]
    found: list[list[np.ndarray]] = [[] for _ in sums]
    executable = Executable(lowered, sums)
    for sample in samples:
        executable.run({"x": sample[None]}, lambda value, array: found[sums.index(value)].append(array.copy()))
    return found


def least_error(sums: Sequence[int]) -> int:
    errors = [sum((shifted(v, n) - v) ** 2 for v in sums) for n in range(1, 17)]
    return errors.index(min(errors)) + 1


def shift(module: ModuleOp, session: Session, data: Path) -> None:
    """Plan shifts in a module that is quantized already, and make them."""
    make_pass("insert-observers", "joint-quant=true shift=true").apply(session, module)
    make_pass("shift-accumulators", f"data={data}").apply(session, module)


def test_search(data: Path) -> None:
    """A shift for each channel of the convolution, one for the product, of least error over all samples."""
    module, session = prepared(data)
    conv, fc = own_sums(module, session, np.load(data)["x"])
    channels = np.moveaxis(np.concatenate(conv), 1, 0).reshape(3, -1).tolist()
    expected = [tuple(map(least_error, channels)), (least_error(np.concatenate(fc).reshape(-1).tolist()),)]
    shift(module, session, data)
    verify(module)
    assert shifts_in(module) == expected
    assert len(set(expected[0])) > 1, "the channels differ"
    shift(module, session, data)
    assert len(shifts_in(module)) == 2


def test_the_shifted_model(data: Path) -> None:
    """It computes nearly what it did, and its text means the same."""
    module, session = prepared(data)
    x = np.load(data)["x"][:1]
    before = run(module, {"x": x})["y"]
    shift(module, session, data)
    after = run(module, {"x": x})["y"]
    assert 20 < sqnr(before, after) < np.inf
    np.testing.assert_array_equal(run(parsed(module_text(module))[0], {"x": x})["y"], after)
    make_pass("lower-to-ascend").apply(session, module)
    assert sqnr(after, run(module, {"x": x})["y"]) > 30


def test_record(data: Path, tmp_path: Path) -> None:
    """Written where sums are shifted, and applied without data."""
    module, session = prepared(data)
    shift(module, session, data)
    RecordTarget().write(module, tmp_path / "record.txt", session)
    again, session = parsed(NET)
    options = f"record={tmp_path}/record.txt joint-quant=true"
    for each, given in (("insert-observers", options), ("convert-observers", ""), ("shift-accumulators", "")):
        make_pass(each, given).apply(session, again)
    assert shifts_in(again) == shifts_in(module)
    x = np.load(data)["x"][:1]
    np.testing.assert_array_equal(run(again, {"x": x})["y"], run(module, {"x": x})["y"])


def test_an_overflow_is_located(tmp_path: Path) -> None:
    """An input within range, and results that are not."""
    module, session = parsed("""
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> (tensor<1x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<100> : tensor<2x2xi8>
  %v = nn.dequantize %w by <i8, scale = 1.0e+30> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %q = nn.quantize %x by <i8, scale = 1.0e+08> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %d = nn.dequantize %q by <i8, scale = 1.0e+08> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %y = nn.matmul %d, %v from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
""")
    np.savez(tmp_path / "x.npz", x=np.full((1, 2), 1e10, np.float32))
    with pytest.raises(CompileError, match=r"net\.mlir:7:3.*has NaN or Inf among its results"):
        shift(module, session, tmp_path / "x.npz")


@pytest.mark.parametrize(
    "way",
    [
        "data={data} joint-quant=true",
        "data={data} config={folder}/simple.cfg",
        "data={data} shift=true config={folder}/off.cfg joint-quant=true",
    ],
)
def test_the_whole_of_quantization(way: str, data: Path, tmp_path: Path) -> None:
    """With joint_quant `--quantize` shifts as its last step (AMCT); a record needs no option."""
    (tmp_path / "simple.cfg").write_text("joint_quant: true common_config { hfmg_quantize { } }")
    (tmp_path / "off.cfg").write_text("joint_quant: false")
    module, session = parsed(NET)
    make_pass("quantize", way.format(data=data, folder=tmp_path)).apply(session, module)
    assert len(shifts_in(module)) == 2
    RecordTarget().write(module, tmp_path / "record.txt", session)
    again, session = parsed(NET)
    make_pass("quantize", f"record={tmp_path}/record.txt").apply(session, again)
    assert shifts_in(again) == shifts_in(module)
    again, session = parsed(NET)
    quantize(again, session, record=tmp_path / "record.txt")
    assert shifts_in(again) == shifts_in(module)


@pytest.mark.parametrize(("profile", "options"), [("ascend", "shift=false"), ("qdq", ""), ("ppq", "")])
def test_whole_sums(profile: str, options: str, data: Path) -> None:
    """Where they are asked for, and in profiles that are not AMCT's."""
    module, session = parsed(NET)
    session.profile = profile
    make_pass("quantize", f"data={data} joint-quant=true {options}").apply(session, module)
    assert shifts_in(module) == []


def test_shifts_belong_to_joint_quant(data: Path) -> None:
    module, session = parsed(NET)
    with pytest.raises(CompileError, match="shift requires joint_quant"):
        make_pass("quantize", f"data={data} shift=true").apply(session, module)
