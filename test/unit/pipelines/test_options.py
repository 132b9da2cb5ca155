"""Options as typed, pipelines, and sessions."""

from dataclasses import dataclass, replace
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import PassFailedException

from amct_opt.ir.text import parse_module
from amct_opt.ir.weights import WeightError
from amct_opt.pipelines.options import build, composed, from_keywords, split, values_of
from amct_opt.pipelines.passes import BrokenPass, make_pass, parse_pipeline, run_passes
from amct_opt.session import Session, session_of
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError, Remark
from amct_opt.tools import amct
from amct_opt.transforms.quantization.options import EngineOptions, engine_named
from amct_opt.transforms.quantization.quantize import QuantizePass


@dataclass(frozen=True)
class Options:
    bits: int = 8
    ratio: float = 0.5
    fast: bool = False
    data: str | None = None
    skip: tuple[str, ...] = ()
    sizes: tuple[int, ...] | None = None
    scheme: Literal["symmetric", "asymmetric"] = "symmetric"
    only_constant: bool = False


@dataclass(frozen=True)
class Needy:
    data: str


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Options()),
        ("bits=4", Options(bits=4)),
        ("  bits=-4   ratio=1e-3 ", Options(bits=-4, ratio=1e-3)),
        ("fast", Options(fast=True)),
        ("fast=no only-constant=ON", Options(only_constant=True)),
        ("only_constant=1", Options(only_constant=True)),
        ("data=a/b=c.npz", Options(data="a/b=c.npz")),
        ("data='with blank.npz' skip=a,b", Options(data="with blank.npz", skip=("a", "b"))),
        ('data="it\'s"', Options(data="it's")),
        ("data=", Options(data="")),
        ("skip=a,,b,", Options(skip=("a", "b"))),
        ("sizes=1,2,3", Options(sizes=(1, 2, 3))),
        ("scheme=asymmetric", Options(scheme="asymmetric")),
        ("data=层.npz", Options(data="层.npz")),
    ],
)
def test_options(text: str, expected: Options) -> None:
    assert build(Options, text, "--pass") == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "bit=4",
            "--pass has no option 'bit'",
            "options are bits, ratio, fast, data, skip, sizes, scheme, only-constant",
        ),
        ("bits=four", "--pass: bits: 'four' is not an integer", ""),
        ("bits=1.5", "--pass: bits: '1.5' is not an integer", ""),
        ("ratio=half", "--pass: ratio: 'half' is not a number", ""),
        ("fast=maybe", "--pass: fast: 'maybe' is neither true nor false", ""),
        ("bits=4 bits=5", "--pass: option 'bits' is given twice", ""),
        ("sizes=1,x", "--pass: sizes: 'x' is not an integer", ""),
        ("scheme=odd", "--pass: scheme: 'odd' is not one of symmetric, asymmetric", ""),
        ("data='open", "option text ends inside ': data='open", ""),
    ],
)
def test_mistakes(text: str, message: str, hint: str) -> None:
    with pytest.raises(CompileError) as e:
        build(Options, text, "--pass")
    assert (e.value.message, e.value.hint) == (message, hint)


def test_required_options() -> None:
    with pytest.raises(CompileError, match="--pass needs the option 'data'"):
        build(Needy, "", "--pass")


def test_split_keeps_what_is_quoted() -> None:
    assert split(" a='b c'd  '' \"x'y\"") == ["a=b cd", "", "x'y"]


def test_unknown_passes() -> None:
    with pytest.raises(CompileError, match="no pass is called 'fuse-bm'\n  hint: did you mean 'fuse-bn'"):
        make_pass("fuse-bm")
    with pytest.raises(CompileError, match="no pass is called 'dance'\n  hint: passes are infer-shapes, "):
        parse_pipeline("cse,dance")


@pytest.mark.parametrize("text", ["cse{", "cse,,dce", "cse{unknown=1}", "{}", "cse{x=}"])
def test_malformed_pipelines(text: str) -> None:
    """xDSL's error derives from BaseException and takes several lines."""
    with pytest.raises(CompileError) as e:
        parse_pipeline(text)
    assert e.value.message.startswith(f"pipeline '{text}': ")
    assert "\n" not in e.value.message


def test_pipelines_hold_passes_of_both() -> None:
    assert [p.name for p in parse_pipeline("cse,fuse-bn,dce")] == ["cse", "fuse-bn", "dce"]


@dataclass(frozen=True)
class Raises(ModulePass):
    name = "raises"
    error: Exception

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PassFailedException("cannot\nmore"), "error: --raises: cannot"),
        (WeightError("a.safetensors: no array 'w'"), "error: a.safetensors: no array 'w'"),
        (CompileError("odd", where="net.mlir:1:1"), "net.mlir:1:1: error: odd"),
    ],
)
def test_what_a_pass_says_of_the_input(error: Exception, message: str) -> None:
    with pytest.raises(CompileError) as e:
        run_passes(ModuleOp([]), [Raises(error)], Session())
    assert str(e.value) == message


def test_a_bug_stays_a_bug() -> None:
    with pytest.raises(KeyError):
        run_passes(ModuleOp([]), [Raises(KeyError("x"))], Session())


@dataclass(frozen=True)
class Breaks(ModulePass):
    name = "breaks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        first = next(iter(op.ops))
        first.regions[0].block.erase_op(next(iter(first.regions[0].block.ops)))


def test_a_pass_that_leaves_an_invalid_module() -> None:
    module = parse_module(new_session(), "func.func @main() { func.return }")
    with pytest.raises(BrokenPass, match=r"does not verify after --breaks: .*does not end in a terminator"):
        run_passes(module, [Breaks()], new_session())


@dataclass(frozen=True)
class Marks(ModulePass):
    name = "print-quant-points"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["seen"] = UnitAttr()


def test_a_pass_that_changes_what_it_promises_to_keep() -> None:
    module = parse_module(new_session(), "func.func @main() { func.return }")
    with pytest.raises(BrokenPass, match="--print-quant-points has changed the module"):
        run_passes(module, [Marks()], new_session())


@dataclass(frozen=True)
class Leaves(ModulePass):
    """Leaves a remark, and a mark on the module."""

    name = "leaves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session_of(ctx).remark(Remark("missed", "leaves", "rule", "layer", "nn.relu", "because", "net.mlir:1:1"))
        op.attributes["mark"] = StringAttr("x")


def test_sessions_share_nothing() -> None:
    one, two = new_session(), new_session()
    parse_module(one, "%c = nn.constant dense<1> : tensor<i8>")
    Leaves().apply(one, ModuleOp([]))
    assert "nn" in [d.name for d in one.loaded_dialects]
    assert "nn" not in [d.name for d in two.loaded_dialects]
    assert (len(one.remarks), len(two.remarks)) == (1, 0)


def test_a_clone_knows_the_same_and_keeps_its_own_remarks() -> None:
    """What xDSL's `apply_to_clone` needs: the pass finds a session, and neither module nor session changes."""
    told: list[Remark] = []
    session = new_session()
    session.skip_fusion, session.profile, session.allow_unregistered = frozenset({"a"}), "qdq", True
    session.on_remark = told.append
    module = parse_module(session, "%c = nn.constant dense<1> : tensor<i8>")

    clone, changed = Leaves().apply_to_clone(session, module)
    assert isinstance(clone, Session)
    assert (clone.skip_fusion, clone.profile, clone.allow_unregistered) == (frozenset({"a"}), "qdq", True)
    assert (len(session.remarks), len(clone.remarks), len(told)) == (0, 1, 1)
    assert "mark" in changed.attributes
    assert "mark" not in module.attributes
    parse_module(clone, "%c = arith.constant 1 : i8")
    assert "arith" not in [d.name for d in session.loaded_dialects]


def test_plain_contexts_get_a_session_that_prints_missed_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    Leaves().apply(Context(), ModuleOp([]))
    assert capsys.readouterr().err == 'net.mlir:1:1: remark: [leaves missed rule] "layer": because\n'


def test_options_of_parts_are_options_of_the_pass() -> None:
    """In our text, in xDSL's, and in what xDSL prints."""
    options = "bits=8 round-weights=gptq align-concat=none skip-layers=a,b"
    made = make_pass("quantize", options)
    assert isinstance(made, QuantizePass)
    assert made.quantization.settings.bits == 8
    assert (made.round_weights, made.align_concat, made.bits) == ("gptq", "none", 8)
    text = 'quantize{bits=8 skip_layers="a","b" align_concat="none" round_weights="gptq"}'
    assert (str(made.spec()), QuantizePass.from_spec(parse_spec(text))) == (text, made)
    assert composed(QuantizePass, values_of(made)) == made
    assert QuantizePass(bits=8, round_weights="gptq", align_concat="none", skip_layers=("a", "b")) == made
    with pytest.raises(TypeError, match="QuantizePass has no option bit"):
        QuantizePass(bit=8)
    assert replace(made, weight_bits=4, data="x.npz") == make_pass("quantize", f"{options} weight-bits=4 data=x.npz")


def test_an_old_name_works_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    said = "called {} now; the old name is removed in the next release"
    assert build(EngineOptions, "backend=numpy", "--quantize").engine == "numpy"
    assert f"backend is {said.format('engine')}" in capsys.readouterr().err
    assert from_keywords(EngineOptions, "quantization", {"backend": "numpy"}).engine == "numpy"
    assert f"backend is {said.format('engine')}" in capsys.readouterr().err
    quantize = amct.parser().commands()["quantize"]
    assert quantize.parse_args(["m.onnx", "-o", "out", "--backend", "numpy"]).engine == "numpy"
    assert f"--backend is {said.format('--engine')}" in capsys.readouterr().err
    assert "--backend" not in quantize.format_help()
    assert engine_named("interpreter") == "numpy"
    assert f"the engine interpreter is {said.format('numpy')}" in capsys.readouterr().err
