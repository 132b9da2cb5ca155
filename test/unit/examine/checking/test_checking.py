"""Passes that change numbers are caught, and the first layer is named; passes that do not are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt import CompileError
from amct_opt.data.given import samples_from
from amct_opt.dialects import nn
from amct_opt.examine.checking import bounds
from amct_opt.examine.checking.checker import Checker, Traced, compare
from amct_opt.examine.checking.following import Graph
from amct_opt.flows import measurement
from amct_opt.flows.peer import Peer
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.session import ImportOptions, Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.tools import amct_opt as amct_opt_tool
from amct_opt.transforms.canonicalization import CanonicalizePass
from amct_opt.transforms.fusion.fuse_bn import FuseBnPass
from amct_opt.transforms.quantization.convert.convert_observers import ConvertObserversPass

from ...targets.nets import Net

DIGITS = Path(__file__).parents[4] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"


def constant(module: ModuleOp, key: str) -> nn.ConstantOp:
    return next(op for op in module.walk() if isinstance(op, nn.ConstantOp) and key in op.key)


def changed(module: ModuleOp, key: str, change: Callable[[np.ndarray], Any]) -> None:
    old = constant(module, key)
    new = nn.ConstantOp.of(np.asarray(change(old.array.copy()), old.array.dtype), old.key, old.location)
    block = old.parent_block()
    assert block is not None
    block.insert_op_before(new, old)
    old.result.replace_all_uses_with(new.result)
    old.detach()
    old.erase()


def one(array: np.ndarray) -> np.ndarray:
    array.reshape(-1)[0] += 1e-3
    return array


def swapped(array: np.ndarray) -> np.ndarray:
    return array[::-1]


FAULTS: list[tuple[type, str, Callable[[ModuleOp], None], str]] = [
    (FuseBnPass, "fuse-bn", lambda m: changed(m, "conv2.weight.folded", one), "conv2"),
    (FuseBnPass, "fuse-bn", lambda m: changed(m, "conv3.bias.folded", swapped), "conv3"),
    (CanonicalizePass, "canonicalize", lambda m: changed(m, "fc1.weight", one), "fc1"),
    (ConvertObserversPass, "convert-observers", lambda m: changed(m, "conv4.weight.i8", lambda w: -w), "conv4"),
    (LowerToAscendPass, "lower-to-ascend", lambda m: changed(m, "depthwise1_deq_scale", lambda s: s * 2), "depthwise1"),
    (LowerToAscendPass, "lower-to-ascend", lambda m: changed(m, "conv3.bias.i32", lambda b: b + 100), "conv3"),
]


@pytest.mark.parametrize(("broken", "name", "fault", "layer"), FAULTS)
def test_the_pass_and_the_layer_are_named(
    broken: type, name: str, fault: Callable[[ModuleOp], None], layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = broken.apply

    def wrong(self: Any, ctx: Any, op: ModuleOp) -> None:
        apply(self, ctx, op)
        fault(op)

    monkeypatch.setattr(broken, "apply", wrong)
    module, session = amct_opt.load(MODEL)
    session.checker = Checker(None, 1)
    quantization = f'insert-observers,calibrate{{data="{DATA}" samples=2}},convert-observers'
    with pytest.raises(CompileError, match=rf"after --{name}: layer '{layer}'"):
        amct_opt.run_pipeline(module, ["canonicalize", "fuse-bn", quantization, "lower-to-ascend"], session)


def test_requantization_of_a_chip_chooses_other_numbers() -> None:
    """float16 scales are not a rounding of sums."""
    net = Net(1, 3, 4, 5)
    weight = np.random.default_rng(0).integers(-128, 128, (2, 3, 1, 1)).astype(np.int8)
    y = net.quantized(net.layer(nn.ConvOp, net.x, weight), 0.7)
    module = net.module(y)
    session = amct_opt.new_session()
    checker = session.checker = Checker(None, 1)
    amct_opt.run_pipeline(module, ["lower-to-ascend", "fuse-requant{chip=v100}"], session)
    assert checker.skipped == {"fuse-requant": "it chooses other numbers"}
    assert checker.checked == ["lower-to-ascend"]


@pytest.mark.parametrize("bits", [8, 16])
def test_a_transposed_convolution_in_integers(bits: int) -> None:
    """Its data is not its first operand, which says how large the result is."""
    net = Net(1, 3, 4, 5)
    weight = np.random.default_rng(0).integers(-128, 128, (3, 2, 3, 3)).astype(np.int8)
    module = net.module(net.layer(nn.ConvTransposeOp, net.x, weight, zero_point=-7, bits=bits, op_type="ConvTranspose"))
    session = amct_opt.new_session()
    session.checker = Checker(None, 1)
    amct_opt.run_pipeline(module, ["lower-to-ascend"], session)
    assert any(op.name == "ascend.Conv2DTranspose" for op in module.walk())


@pytest.mark.parametrize(("profile", "bits"), [("ascend", 8), ("ascend", 16), ("qdq", 8), ("ppq", 8)])
def test_right_passes_pass(profile: str, bits: int, tmp_path: Path) -> None:
    module, session = amct_opt.load(MODEL)
    session.profile = profile
    checker = session.checker = Checker(None, 1)
    checker.reading(MODEL, module)
    passes = ["canonicalize", "fuse-all", "equalize", f'quantize{{data="{DATA}" samples=2 bits={bits}}}']
    amct_opt.run_pipeline(module, passes, session)
    path = tmp_path / "q.onnx"
    amct_opt.save(module, path, session, "onnx")
    checker.writing(path, module, session.targets["onnx"](), session)
    if profile == "ascend":
        amct_opt.run_pipeline(module, "deploy", session)
    if profile == "qdq":  # flatten1 comes before the quantization of its input then
        amct_opt.run_pipeline(module, ["lower-to-ascend"], session)
    assert {"canonicalize", "fuse-all", "insert-observers", "calibrate", "convert-observers"} <= set(checker.checked)
    assert not checker.skipped
    assert checker.files == ["digits.onnx", "q.onnx"]


def test_a_layer_that_is_wrong_before_its_quantization_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """flatten1 may be quantized before or behind, but not be another number than the quantized one."""
    apply = LowerToAscendPass.apply

    def wrong(self: Any, ctx: Any, op: ModuleOp) -> None:
        apply(self, ctx, op)
        (flatten,) = (each for each in op.walk() if each.name == "ascend.Flatten")
        (use,) = flatten.results[0].uses
        scale = nn.ConstantOp.of(np.array(1.02, np.float32), "wrong", flatten.location)
        scaled = nn.MulOp.make(flatten.results[0], scale.result, result_types=[flatten.results[0].type])
        block = flatten.parent_block()
        assert block is not None
        block.insert_ops_after([scale, scaled], flatten)
        use.operation.operands[use.index] = scaled.results[0]

    monkeypatch.setattr(LowerToAscendPass, "apply", wrong)
    module, session = amct_opt.load(MODEL)
    session.profile, session.checker = "qdq", Checker(None, 1)
    with pytest.raises(CompileError, match="after --lower-to-ascend: layer '"):
        amct_opt.run_pipeline(module, ["canonicalize", "fuse-all", "quantize", "lower-to-ascend"], session)


def test_a_pass_that_changes_silently_must_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FuseBnPass, "apply", lambda self, ctx, op: changed(op, "fc1.bias", lambda b: b * (1 + 2**-23)))
    module, session = amct_opt.load(MODEL)
    session.checker = Checker(None)
    with pytest.raises(CompileError, match="after --fuse-bn: layer 'fc1'"):
        amct_opt.run_pipeline(module, "fuse-bn", session)


def test_a_kernel_that_is_wrong_is_found_beside_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    from amct_opt.runtime import kernels

    kernel = kernels.bare_kernel_for
    module, _ = amct_opt.load(MODEL)

    def wrong(op: Any) -> Any:
        run: Any = kernel(op)
        return (lambda x: run(x) * np.float32(1.0001)) if isinstance(op, nn.AveragePoolOp) else run

    monkeypatch.setattr("amct_opt.runtime.plan.bare_kernel_for", wrong)
    with pytest.raises(CompileError, match="layer 'pool1'"):
        Checker(None).reading(MODEL, module)


@pytest.mark.parametrize("terms", [9, 300])
def test_bounds_hold_and_are_sharp(terms: int) -> None:
    """Next to float64: no sum is beyond its bound, and the bound is not orders of magnitude above what worst cases reach."""
    random = np.random.default_rng(0)
    text = f"""func.func @main(%x: tensor<4x{terms}xf32>, %w: tensor<{terms}x8xf32>) -> tensor<4x8xf32> {{
      %y = nn.matmul %x, %w : (tensor<4x{terms}xf32>, tensor<{terms}x8xf32>) -> tensor<4x8xf32>
      func.return %y : tensor<4x8xf32> }}"""
    graph = Graph(amct_opt.parse(text)[0])
    (row,) = graph.program.rows
    for _ in range(20):
        x = random.standard_normal((4, terms)).astype(np.float32)
        w = random.standard_normal((terms, 8)).astype(np.float32)
        y = x @ w
        (bound,) = bounds.errors_of(row.op, [x, w], [None, None], [y])
        assert bound is not None
        error = np.abs(y - x.astype(np.float64) @ w.astype(np.float64))
        assert (error <= bound).all()
        assert (bound <= 1.1 * (terms + 2) * 2.0**-24 * (np.abs(x) @ np.abs(w))).all()


PRODUCT = """
func.func @main(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x3xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<4x3xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
"""


def test_offsets_of_a_slice_stay_constant() -> None:
    """They are exact, and only the elements move by their errors."""
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
      %o = nn.constant dense<[1]> : tensor<1xi64>
      %n = nn.constant dense<[2]> : tensor<1xi64>
      %y = ascend.Slice %x, %o, %n : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }"""
    module = parse_module(new_session(), text)
    op = next(op for op in module.walk() if op.name == "ascend.Slice")
    x, error = np.arange(4, dtype=np.float32), np.array([9, 1, 2, 9], np.float32)
    (found,) = bounds.errors_of(op, [x, np.array([1]), np.array([2])], [error, None, None], [x[1:3]])
    assert found is not None
    np.testing.assert_allclose(found, [2, 4], rtol=1e-5)


QUANTIZED = """
  %q{0} = nn.quantize %{0} by <i8, scale = 0.5, zero_point = 3> : (tensor<{1}xf32>) -> tensor<{1}xi8>
  %d{0} = nn.dequantize %q{0} by <i8, scale = 0.5, zero_point = 3> : (tensor<{1}xi8>) -> tensor<{1}xf32>"""
MOVED = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {{{before}
  %t = nn.transpose %{x} perm [1, 0] from <onnx, "Transpose", "t"> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %s = nn.shape %t : (tensor<3x2xf32>) -> tensor<2xi64>
  %n = nn.constant dense<[6]> : tensor<1xi64>
  %r = nn.reshape %t, %n from <onnx, "Reshape", "r"> : (tensor<3x2xf32>, tensor<1xi64>) -> tensor<6xf32>{after}
  %y = nn.abs %{r} from <onnx, "Abs", "y"> : tensor<6xf32>
  func.return %y : tensor<6xf32>
}}"""


@pytest.mark.parametrize("scale", ["0.5", "0.25"])
def test_a_quantization_may_move_past_several_layers(scale: str) -> None:
    """But not change: with another scale the first layer that reads the integers is wrong."""
    first, last = QUANTIZED.format("x", "2x3"), QUANTIZED.format("r", "6").replace("0.5", scale)
    before, after = (
        parse_module(new_session(), MOVED.format(before=a, x=x, after=b, r=r))
        for a, x, b, r in ((first, "dx", QUANTIZED.format("r", "6"), "dr"), ("", "x", last, "dr"))
    )
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    found = compare(Traced(before, [{"x": x}]), after, "rounded").first()
    assert (found is None) == (scale == "0.5")


def behind_a_quantization(line: str, x: np.ndarray) -> Any:
    """Compares `%y = LINE` of %x in float with the same of %x quantized."""
    before, after = (
        parse_module(
            new_session(),
            f"func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {{{points}\n{line} func.return %y : tensor<6xf32> }}",
        )
        for points, line in (("", line), (QUANTIZED.format("x", "6"), line.replace("%x", "%dx")))
    )
    return compare(Traced(before, [{"x": x}]), after, "quantized")


def test_infinite_bounds_of_infinite_numbers_are_not_those_of_carried_operators() -> None:
    """Masks of attention contain infinite numbers, and no note is about them."""
    x = np.array([-np.inf, 0.1, 0.2, 0.3, 0.4, 0.6], np.float32)
    found = behind_a_quantization('%y = nn.relu %x from <onnx, "Relu", "y"> : tensor<6xf32>', x)
    assert (found.first(), found.unbounded, found.found["y"].equal) == (None, set(), False)


def test_carried_operators_have_no_bound_for_integers() -> None:
    """Nobody knows which roundings of its inputs go together worst."""
    line = """%y = nn.opaque %x framework "onnx" op_type "LpNormalization" version 17 from <onnx, "LpNormalization", "y">
        : (tensor<6xf32>) -> tensor<6xf32>"""
    found = behind_a_quantization(line, np.linspace(-1, 1, 6, dtype=np.float32))
    assert (found.first(), found.unbounded) == (None, {"y"})


def test_a_whole_exponent_is_exact() -> None:
    """Moved by the rounding of a constant it would give NaN for negative numbers."""
    text = """
    func.func @main(%x: tensor<2xf32>, %e: tensor<f32>) -> tensor<2xf32> {
      %y = nn.pow %x, %e : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }"""
    op = next(op for op in parse_module(new_session(), text).walk() if isinstance(op, nn.PowOp))
    x, two, small = np.array([-3, 2], np.float32), np.array(2, np.float32), np.full(2, 0.01, np.float32)
    (found,) = bounds.errors_of(op, [x, two], [small, np.array(2e-7, np.float32)], [x**2])
    assert found is not None
    assert (found > 0.01 * 2 * np.abs(x)).all()
    assert (found < 0.03 * 2 * np.abs(x)).all()


def test_onnxruntime_casts_once_for_several_operations_on_float16(tmp_path: Path) -> None:
    """It multiplies by a sigmoid in float32, also where float16 has no more than a few bits."""
    x, *outputs = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [4096]) for name in "xsy")
    nodes = [onnx.helper.make_node("Sigmoid", ["x"], ["s"], "s"), onnx.helper.make_node("Mul", ["x", "s"], ["y"], "y")]
    graph = onnx.helper.make_graph(nodes, "g", [x], outputs)
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    random = np.random.default_rng(0)
    array = (random.normal(size=(1, 4096)) * 10.0 ** random.uniform(-6, 1, 4096)).astype(np.float16)
    module = amct_opt.load(path).module
    (given,) = samples_from({"x": array}, module).batches()
    sigmoid = amct_opt.execute(module, given)
    theirs = onnxruntime.InferenceSession(path).run(None, given)
    assert (sigmoid["y"] != theirs[1]).any()
    checker = Checker(samples_from({"x": array}, module))
    checker.reading(path, module)
    assert checker.files == ["m.onnx"]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX files that compute something else."""
    write = OnnxTarget.write

    def wrong(self: OnnxTarget, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        changed = module.clone()
        constant = next(op for op in changed.walk() if isinstance(op, nn.ConstantOp))
        constant.value = nn.ConstantOp.of(constant.array * 2, "w").value
        return write(self, changed, path, session)

    monkeypatch.setattr(OnnxTarget, "write", wrong)


@pytest.mark.usefixtures("broken")
def test_errors_about_written_files_name_them(tmp_path: Path) -> None:
    """Not the temporary files that they are while they are checked."""
    (tmp_path / "net.mlir").write_text(PRODUCT)
    out = tmp_path / "out"
    with pytest.raises(CompileError) as caught:
        amct_opt.quantize_file(tmp_path / "net.mlir", out, profile="qdq", skip_layers=["fc"], check=True)
    assert caught.value.where == f"{out}/net_qdq.onnx: node 'fc'"
    assert f"--check: written to {out}/net_qdq.onnx: layer 'fc'" in caught.value.message
    assert not out.exists()


@pytest.mark.usefixtures("broken")
def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.mlir").write_text(PRODUCT)
    (tmp_path / "net.onnx").write_bytes(b"another one")
    command = [str(tmp_path / "net.mlir"), "--check", "-t", "onnx", "-o", str(tmp_path / "net.onnx")]
    assert amct_opt_tool.run(command) == 1
    assert f"written to {tmp_path}/net.onnx: layer 'fc'" in capsys.readouterr().err
    assert (tmp_path / "net.onnx").read_bytes() == b"another one"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.mlir", "net.onnx"]


def test_files_are_read_without_the_options_of_the_source(tmp_path: Path) -> None:
    """The input that became a constant is none of the file's."""
    text = PRODUCT.replace("%x:", '%gain: tensor<1xf32> {nn.name = "gain"}, %x:')
    (tmp_path / "net.mlir").write_text(text)
    model, written = tmp_path / "net.onnx", tmp_path / "written.onnx"
    assert amct_opt_tool.run([str(tmp_path / "net.mlir"), "-t", "onnx", "-o", str(model)]) == 0
    assert amct_opt_tool.run([str(model), "--input-value", "gain=1", "--check", "-t", "onnx", "-o", str(written)]) == 0
    assert [each.name for each in onnx.load(written).graph.input] == ["x"]


def test_a_net_of_caffe_is_read_with_its_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also the deployable one, whose weights have another name."""
    (tmp_path / "net.mlir").write_text(PRODUCT)
    net = tmp_path / "net.prototxt"
    assert amct_opt_tool.run([str(tmp_path / "net.mlir"), "-t", "caffe", "-o", str(net)]) == 0
    session = new_session()
    session.imports = ImportOptions(weights=net.with_suffix(".caffemodel"))
    found = amct_opt.quantize_file(net, tmp_path / "out", profile="ascend", check=True, session=session)
    assert found.files["deploy"].name == "net_deploy_model.prototxt"
    assert "same numbers: net_qdq.onnx, net_deploy_model.prototxt" in capsys.readouterr().err


def test_what_onnxruntime_says_about_a_written_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: Path) -> Peer:
        return Peer("1.0", f"Load model from {path} failed")

    monkeypatch.setattr(measurement, "peer_of", refusing)
    (tmp_path / "net.mlir").write_text(PRODUCT)
    found = amct_opt.quantize_file(tmp_path / "net.mlir", tmp_path / "out", profile="qdq", weight_only=True)
    assert found.peer is not None
    assert found.peer.failure == f"Load model from {tmp_path}/out/net_qdq.onnx failed"
