"""What a session is given next to what comes with the compiler, and what text alone never reaches."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import onnx
import pytest
from extra import CountPass, CountTarget, DoubledObserver, read_twice
from onnx import TensorProto, helper
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import Operand, irdl_op_definition, operand_def, result_def
from xdsl.pattern_rewriter import PatternRewriter

import amct_opt
from amct_opt import CompileError, ElementwiseOp, NNOp, Observer, Profile, Row, Session
from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.base import Result
from amct_opt.ir.dtypes import Tensor
from amct_opt.observers.minmax import MinMaxObserver
from amct_opt.rewriting import Remarks, rewrites
from amct_opt.transforms.fusion.fuse_bias import FuseComputeAdd

from ..scripts import ROOT, installed

NET = """
func.func @main(%x: tensor<?x3xf32> {nn.name = "x"}) -> tensor<?x2xf32> {
  %w = nn.constant dense<[[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]]> : tensor<3x2xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""
X = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)


@pytest.fixture
def session() -> Session:
    return amct_opt.new_session()


def observed(observer: str, session: Session) -> list[float]:
    """The ranges of a calibrated module."""
    module, _ = amct_opt.parse(NET, session)
    settings = amct_opt.Settings(common=amct_opt.Calibration(amct_opt.Activation(observer)))
    amct_opt.quantize(module, session, settings, X)
    return [float(op.properties["qparams"].data.scales()) for op in module.walk() if op.name == "nn.quantize"]  # pyright: ignore


def test_an_observer(session: Session) -> None:
    session.register_observer("doubled", DoubledObserver)
    (usual,), (doubled,), (thrice,) = (observed(o, session) for o in ("minmax", "doubled", "doubled{times=3}"))
    assert doubled == pytest.approx(2 * usual, rel=1e-6)
    assert thrice == pytest.approx(3 * usual, rel=1e-6)
    with pytest.raises(CompileError, match="observer doubled has no option 'time'\n  hint: options are times"):
        observed("doubled{time=3}", session)


def test_an_observer_in_every_place_that_names_one(session: Session, tmp_path: Path) -> None:
    """Options of passes, text, and states of calibration."""
    session.register_observer("doubled", DoubledObserver)
    module, _ = amct_opt.parse(NET, session)
    np.savez(tmp_path / "x.npz", x=X)
    amct_opt.run_pipeline(module, 'insert-observers{observer="doubled"}', session)
    text = amct_opt.to_text(module)
    assert 'by "doubled"' in text
    state = tmp_path / "s.state"
    amct_opt.run_pipeline(module, f'calibrate{{data="{tmp_path / "x.npz"}" save-state="{state}"}}', session)
    amct_opt.run_pipeline(module, f'calibrate{{load-state="{state}"}}', session)
    amct_opt.run_pipeline(module, "convert-observers", session)
    (scale,) = [float(op.properties["qparams"].data.scales()) for op in module.walk() if op.name == "nn.quantize"]  # pyright: ignore
    assert scale == observed("doubled", session)[0]
    for source in (text, text.replace("doubled", "os{system=ls}")):
        other, stranger = amct_opt.parse(source)
        with pytest.raises(CompileError, match=r"no observer is called '(doubled|os)'"):
            amct_opt.run_pipeline(other, f'calibrate{{data="{tmp_path / "x.npz"}"}}', stranger)


def test_a_profile(session: Session) -> None:
    session.register_profile(Profile("nothing", rows={}))
    session.profile = "nothing"
    assert observed("minmax", session) == []
    session.profile = "nothin"
    with pytest.raises(CompileError, match=r"no profile is called 'nothin'\n  hint: did you mean 'nothing'"):
        observed("minmax", session)


def test_a_profile_without_zero_points(session: Session) -> None:
    from amct_opt.dialects.nn import MatMulOp

    session.register_profile(Profile("device", {MatMulOp: amct_opt.Row(1, 2, per_channel=True, symmetric=True)}))
    session.profile = "device"
    module, _ = amct_opt.parse(NET, session)
    amct_opt.quantize(module, session, data=X)
    (params,) = [op.properties["qparams"].data for op in module.walk() if op.name == "nn.quantize"]  # pyright: ignore
    assert params.zero_point == (0,)
    assert float(params.scales()) == pytest.approx(max(X.max() / 127, -X.min() / 128), rel=1e-6)


def test_a_pass_a_target_and_a_frontend(session: Session, tmp_path: Path) -> None:
    session.register_pass(CountPass)
    session.register_target(CountTarget)
    session.register_frontend(".twice", read_twice)
    module, _ = amct_opt.parse(NET, session)
    amct_opt.run_pipeline(module, 'count,count{kind="func"}', session)
    assert [r.reason for r in session.remarks] == ["2", "2"]
    amct_opt.save(module, tmp_path / "n.txt", session, "count", unit="ops")
    assert (tmp_path / "n.txt").read_text() == "5 ops"
    (tmp_path / "net.twice").write_text("func.func private @f()\n")
    loaded, _ = amct_opt.load(tmp_path / "net.twice", session)
    assert [op.name for op in loaded.ops] == ["func.func", "func.func"]
    with pytest.raises(CompileError, match="unknown file ending"):
        amct_opt.load(tmp_path / "net.twice")


@pytest.mark.parametrize("again", [False, True])
def test_names_that_are_taken(again: bool, session: Session) -> None:
    """By ours, and by what was registered before."""
    names = ("canonicalize", "mlir", ".onnx", "ascend", "minmax")
    if again:
        session.register_pass(CountPass)
        session.register_target(CountTarget)
        session.register_frontend(".twice", read_twice)
        session.register_profile(Profile("device", {}))
        session.register_observer("doubled", DoubledObserver)
        names = ("count", "count", ".twice", "device", "doubled")
    calls = [
        lambda: session.register_pass(type("P", (CountPass,), {"name": names[0]})),
        lambda: session.register_target(type("T", (CountTarget,), {"name": names[1]})),
        lambda: session.register_frontend(names[2], read_twice),
        lambda: session.register_profile(Profile(names[3], {})),
        lambda: session.register_observer(names[4], MinMaxObserver),
    ]
    for call, name in zip(calls, names, strict=True):
        with pytest.raises(CompileError, match=f"'{name}' exists already"):
            call()
    for ending in ("toy", ".TOY", ""):
        with pytest.raises(CompileError, match="is not a file ending"):
            session.register_frontend(ending, read_twice)


def test_observers_must_be_complete(session: Session) -> None:
    session.register_observer("abstract", Observer)
    with pytest.raises(TypeError, match="abstract"):
        observed("abstract", session)


@irdl_op_definition
class SquaredOp(nn.UnaryOp):
    """`x * x`."""

    name = "acme.squared"


@amct_opt.kernel(SquaredOp)
def squared(_: SquaredOp) -> Any:
    return lambda x: np.square(x)


def test_operators_of_other_packages(session: Session, tmp_path: Path) -> None:
    """Read from ONNX and from TensorFlow, and written to both, by this session and its clones alone."""
    x, y = ends("x", "y")
    net = helper.make_graph([helper.make_node("Squared", ["x"], ["y"], "s", domain="acme")], "net", x, y)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(net, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    session.register_dialect("acme", lambda: Dialect("acme", [SquaredOp]))
    session.register_reader("onnx", "acme::Squared", lambda node: node.emit(SquaredOp, node.value(0)).result)
    session.register_reader("tensorflow", "Square", lambda node: node.emit(SquaredOp, node.value(0)).result)
    session.register_writer("onnx", SquaredOp, lambda op, layer: layer.node("Mul", op.input, op.input))
    session.register_writer("tf-fakequant", SquaredOp, lambda op, layer: layer.node("Square", op.input))
    module, _ = amct_opt.load(tmp_path / "net.onnx", session.clone())
    for file, target in (("again.onnx", "onnx"), ("again.pb", "tf-fakequant")):
        amct_opt.save(module, tmp_path / file, session, target)
    frozen, _ = amct_opt.load(tmp_path / "again.pb", session)
    written, _ = amct_opt.load(tmp_path / "again.onnx", session)
    assert [amct_opt.to_text(m).count("acme.squared") for m in (module, frozen, written)] == [1, 1, 0]
    for each in (module, frozen, written):
        np.testing.assert_array_equal(amct_opt.execute(each, {"x": X})["y"], X * X)
    other, unaware = amct_opt.load(tmp_path / "net.onnx")
    assert "acme.squared" not in amct_opt.to_text(other)
    with pytest.raises(CompileError, match="has no form in ONNX"):
        amct_opt.save(module, tmp_path / "n.onnx", unaware, "onnx")


def ends(*names: str) -> Iterator[list[onnx.ValueInfoProto]]:
    return ([helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])] for name in names)


def test_operators_registered_twice(session: Session) -> None:
    session.register_reader("onnx", "acme::Squared", list)
    session.register_writer("onnx", SquaredOp, max)
    for call, message in (
        (
            lambda: session.register_reader("onnx", "acme::Squared", list),
            "operator 'acme::Squared' is registered already",
        ),
        (lambda: session.register_writer("onnx", SquaredOp, max), "'acme.squared' is registered already"),
        (lambda: session.register_reader("caffe", "Squared", list), "no framework is called 'caffe'"),
        (lambda: session.register_writer("mlir", SquaredOp, max), "target 'mlir' takes no converters"),
    ):
        with pytest.raises(CompileError, match=message):
            call()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the plugin is installed."""
    return installed(ROOT / "test" / "plugin", tmp_path_factory.mktemp("site"))


def tool(name: str, *arguments: str, site: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", f"from amct_opt.tools.entry import {name}; {name}()", *arguments]
    env = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_line_knows_what_installed_plugins_bring(site: Path, tmp_path: Path) -> None:
    call = partial(tool, site=site, cwd=tmp_path)
    (tmp_path / "net.mlir").write_text(NET)
    (tmp_path / "net.twice").write_text("func.func private @f()\n")
    np.savez(tmp_path / "x.npz", x=X)
    assert "Count operations, 100 % of them." in " ".join(call("amct_opt", "--help").stdout.split())
    options = ["--count=kind=nn", "--quantize=data=x.npz observer=doubled", "--remarks=all", "-t", "count{unit=things}"]
    done = call("amct_opt", "net.mlir", *options, "-o", "n.txt")
    assert done.returncode == 0, done.stderr
    assert '[count analysis count] "w": 2' in done.stderr
    assert (tmp_path / "n.txt").read_text().endswith(" things")
    assert call("amct_opt", "net.twice").stdout.count("func.func") == 2
    (own,) = json.loads(call("amct", "support", "net.mlir", "--json", "--profile=nothing").stdout)["layers"]
    assert (own["quantizable"], own["rule"]) == ("no", "imported-as")
    done = call("amct", "quantize", "net.mlir", "--data=x.npz", "--observer=doubled", "-v", "-o", "out")
    assert "15 samples; observer doubled" in done.stdout, done.stderr
    assert call("amct", "greet", "you").stdout == "hello, you\n"
    for engine in ("numpy", "negated"):
        done = call("amct", "run", "net.mlir", "--inputs=x.npz", f"--engine={engine}", "-o", f"{engine}.npz")
        assert done.returncode == 0, done.stderr
    ours, theirs = (np.load(tmp_path / f"{engine}.npz") for engine in ("numpy", "negated"))
    assert all(np.array_equal(ours[name], -theirs[name]) for name in ours)
    done = call("amct", "run", "net.mlir", "--inputs=x.npz", "--engine=negate", "-o", "z.npz")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "  hint: did you mean negated?")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("raise ValueError('broken')", "add_parser"),
        ("raise SystemExit('broken')", "add_parser"),
        ("add_parser = str\ndef register(session): raise ValueError('broken')", "register"),
    ],
)
def test_a_plugin_that_fails_is_named(code: str, command: str, site: Path, tmp_path: Path) -> None:
    """`amct` asks for commands before it makes a session."""
    broken = shutil.copytree(site, tmp_path / "site")
    (broken / "extra.py").write_text(code)
    (tmp_path / "net.mlir").write_text(NET)
    for name, failing, arguments in (
        ("amct_opt", "register", ["net.mlir"]),
        ("amct", command, ["support", "net.mlir"]),
    ):
        done = tool(name, *arguments, site=broken, cwd=tmp_path)
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()
        assert error == f"error: plugin 'extra' (extra:{failing}) fails: broken"
        assert hint == "  hint: repair or uninstall the package extra, which brings it"


@pytest.mark.slow
def test_a_plugin_that_fails_later_is_named(site: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(site, tmp_path / "site")
    code = "add_parser = str\ndef read(*_): raise ValueError('broken')\n"
    code += "def register(session): session.register_frontend('.twice', read)"
    (broken / "extra.py").write_text(code)
    (tmp_path / "net.twice").touch()
    done = tool("amct_opt", "net.twice", site=broken, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            f"{broken}/extra.py:2: error: plugin 'extra' (extra:register) fails: broken",
            "  hint: repair or uninstall the package extra, which brings it",
        ],
    )


def test_text_imports_nothing_by_name(tmp_path: Path) -> None:
    """Whatever a module's text names, modules of Python or files elsewhere, it is text."""
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')")
    texts = [
        'func.func @main(%x: tensor<2xf32>) { %y = nn.observe %x as "a" by "evil" : tensor<2xf32> func.return }',
        'func.func @main(%x: tensor<2xf32>) { %y = nn.observe %x as "a" by "evil:register" : tensor<2xf32> func.return }',
        "func.func @main(%x: tensor<2xf32>) { %y = evil.op %x : tensor<2xf32> func.return }",
        '%y = nn.constant #nn.external<"evil.py#x", tensor<2xf32>>',
        '"evil.op"() {a = #evil.attr<1>} : () -> !evil.type',
    ]
    code = """
import sys, amct_opt
for text in sys.argv[1:]:
    try:
        amct_opt.parse(text, name="net.mlir")
    except amct_opt.CompileError:
        pass
print("evil" in sys.modules)
"""
    argv = [sys.executable, "-c", code, *texts]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
    assert not marker.exists()


@irdl_op_definition
class PairOp(ElementwiseOp):
    """`a * b`, an operation of another package."""

    name = "acme.pair"

    a: Operand = operand_def(TensorType)
    b: Operand = operand_def(TensorType)
    result: Result = result_def(TensorType)

    def infer(self) -> Sequence[Tensor]:
        return [cast(Tensor, self.a.type)]


@amct_opt.kernel(PairOp)
def pair(_: PairOp) -> amct_opt.Kernel:
    return np.multiply


@pytest.fixture
def acme(session: Session) -> Session:
    """A session with a dialect of its own, whose operations are no operations of `nn`."""
    session.register_dialect("acme", lambda: Dialect("acme", [PairOp]))
    return session


PAIR = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {{
  {}
  %r = acme.pair %x, {} : tensor<4xf32>
  func.return %r : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("row", "second", "quantized", "missed"),
    [
        (Row(two_inputs=True), "%y", 2, []),
        (Row(weight=1), "%w", 2, []),
        (Row(weight=1), "%y", 1, ["weight-computed"]),
        (Row(), "%y", 1, []),
    ],
)
def test_rows_of_any_operation(row: Row, second: str, quantized: int, missed: list[str], acme: Session) -> None:
    """A row's second operand is quantized as input or weight, whatever the operation, or a remark says why not."""
    acme.register_profile(Profile(name="pairs", rows={PairOp: row}, activations=frozenset(), table=()))
    acme.profile = "pairs"
    weight = "%w = nn.constant dense<[1.0, 2.0, -1.0, 0.5]> : tensor<4xf32>" if second == "%w" else ""
    module, _ = amct_opt.parse(PAIR.format(weight, second), acme)
    amct_opt.quantize(module, acme, data=[dict.fromkeys(("x", "y"), X.reshape(-1)[:4])])
    (op,) = (op for op in module.walk() if isinstance(op, PairOp))
    assert sum(isinstance(value.owner, nn.DequantizeOp) for value in op.operands) == quantized
    assert [r.rule for r in acme.remarks if r.kind == "missed" and r.pass_name == "insert-observers"] == missed


def in_place(kind: type[NNOp]) -> type[Any]:
    """A pattern that makes another operation of a pair."""

    @rewrites(PairOp)
    def replace_pair(op: PairOp, rewriter: PatternRewriter, _: Remarks) -> None:
        """another operation in its place"""
        rewriter.replace(op, kind.make(op.a, op.b, location=op.location))

    return replace_pair


@pytest.mark.parametrize("name", ["canonicalize", "fuse-requant", "convert-to-linalg", "legalize-ascend"])
def test_passes_take_patterns(name: str, acme: Session) -> None:
    module, _ = amct_opt.parse(PAIR.format("", "%y"), acme)
    acme.register_pattern(name, in_place(ascend.MulOp if name == "legalize-ascend" else nn.MulOp))
    amct_opt.run_pipeline(module, name, acme)
    assert "acme.pair" not in amct_opt.to_text(module)


def test_fuse_all_takes_patterns(acme: Session) -> None:
    """Next to those of the passes that it runs: here the one of fuse-bias, under another name, before it."""

    class Other(FuseComputeAdd):
        """a sum, first"""

        name: ClassVar[str] = "other"

    module, _ = amct_opt.parse(
        NET.replace(
            "func.return %y",
            "%b = nn.constant dense<1.0> : tensor<2xf32>\n  %z = nn.add %y, %b : "
            "(tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>\n  func.return %z",
        ),
        acme,
    )
    acme.register_pattern("fuse-all", Other)
    amct_opt.run_pipeline(module, "fuse-all", acme)
    assert [r.pass_name for r in acme.remarks if r.kind == "applied"] == ["fuse-all"]


def test_foreign_operations_that_nothing_lowers(acme: Session, tmp_path: Path) -> None:
    """The hint is one that helps: a pattern, and no pass that has run already."""
    module, _ = amct_opt.parse(
        PAIR.format("", "%y")
        .replace("acme.pair", '"acme.unknown"')
        .replace("%x, %y : tensor<4xf32>", "(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
        unregistered(acme),
    )
    with pytest.raises(CompileError, match="is not of the ascend dialect") as refused:
        amct_opt.run_pipeline(module.clone(), "deploy", acme)
    assert "register_pattern('legalize-ascend'" in str(refused.value)
    with pytest.raises(CompileError, match="has no form in linalg") as unwritten:
        amct_opt.save(module, tmp_path / "n.mlir", acme, "linalg")
    assert "register_pattern('convert-to-linalg'" in str(unwritten.value)
    assert not (tmp_path / "n.mlir").exists()


def unregistered(session: Session) -> Session:
    session.allow_unregistered = True
    return session


def test_functions_of_nested_modules_leave_a_remark(session: Session) -> None:
    inner = NET.replace("@main", "@inner")
    module, _ = amct_opt.parse(f"{NET}\nmodule @nested {{ {inner} }}", session)
    amct_opt.quantize(module, session, data=X)
    assert [(r.kind, r.rule) for r in session.remarks if "@main" in r.reason] == [("missed", "graph")]
