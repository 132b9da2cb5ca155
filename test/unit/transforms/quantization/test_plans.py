"""One pass decides: the passes after `--insert-observers` follow plans and points, and are given no decision again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import amct_opt
from amct_opt.dialects import nn
from amct_opt.dialects.nn.fused import outside
from amct_opt.flows.support import layers_of
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.profiles import Profile

from .random_networks import random_network

NET = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x3xf32> {nn.name = "y"}) {
  %w1 = nn.constant #nn.external<"w1", tensor<4x2x3x3xf32>, "0xCONV1">
  %w2 = nn.constant #nn.external<"w2", tensor<4x4x1x1xf32>, "0xCONV2">
  %v = nn.constant #nn.external<"v", tensor<64x3xf32>, "0xFC">
  %a = nn.conv %x, %w1 pads [1, 1, 1, 1] from <onnx, "Conv", "conv1"> :
    (tensor<?x2x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<?x4x4x4xf32>
  %r = nn.relu %a from <onnx, "Relu", "relu1"> : tensor<?x4x4x4xf32>
  %b = nn.conv %r, %w2 from <onnx, "Conv", "conv2"> : (tensor<?x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x4x4xf32>
  %f = nn.flatten %b axis 1 : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>
  %y = nn.matmul %f, %v from <onnx, "Gemm", "fc"> : (tensor<?x64xf32>, tensor<64x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""
WEIGHTS = {"CONV1": (4, 2, 3, 3), "CONV2": (4, 4, 1, 1), "FC": (64, 3)}


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    np.savez("x.npz", x=rng.normal(size=(4, 2, 4, 4)).astype(np.float32))
    text = NET
    for name, shape in WEIGHTS.items():
        text = text.replace(f"0x{name}", f"0x{rng.normal(size=shape).astype(np.float32).tobytes().hex()}")
    return text


RECOVERY = {
    "round-weights=nearest correct-bias=false": (),
    "round-weights=gptq": (("round-weights", "gptq data=x.npz"),),
    "round-weights=nearest fit-ranges=true correct-bias=false": (("fit-ranges", "data=x.npz"),),
    "round-weights=nearest correct-bias=true": (("correct-bias", "data=x.npz"),),
    "round-weights=mismatch correct-bias=true": (
        ("round-weights", "mismatch data=x.npz"),
        ("correct-bias", "data=x.npz"),
    ),
}
"""Options of `--quantize`, and the passes that they stand for."""


def in_steps(
    text: str, session: Session, options: str, recovery: str = "round-weights=nearest correct-bias=false"
) -> str:
    """The passes of `--quantize` one by one, printed and parsed between any two; only the first is given the options."""
    data = "data=x.npz"
    for name, given in (
        ("insert-observers", options),
        ("balance-channels", data),
        ("calibrate", data),
        *RECOVERY[recovery],
        ("convert-observers", ""),
        ("shift-accumulators", data),
    ):
        module, _ = amct_opt.parse(text, session, name="net.mlir")
        make_pass(name, given).apply(session, module)
        text = amct_opt.to_text(module)
    return text


OPTIONS = {
    "ascend": (
        *("weight-bits=4", "weight-only=true weight-asymmetric=true", "skip-layers=conv2", "only-layers=fc bits=16"),
        *("dmq=0.5 joint-quant=true", "joint-quant=true shift=true", "fakequant-precision-mode=FORCE_FP16_QUANT"),
    ),
    "qdq": ("weight-bits=4", "weight-only=true", "skip-layers=conv2", "activation-offset=false channel-wise=false"),
    "ppq": ("skip-layers=fc observer=minmax", "align-concat=large fuse-activation=false"),
}


@pytest.mark.parametrize(("profile", "options"), [(p, text) for p, texts in OPTIONS.items() for text in texts])
def test_the_whole_is_its_steps(net: str, profile: str, options: str) -> None:
    """Every option changes the module; the whole changes it as the steps do, and no remark contradicts the result."""
    whole = {}
    for given in ("", options):
        session = new_session()
        session.profile = profile
        module, _ = amct_opt.parse(net, session, name="net.mlir")
        make_pass("quantize", f"data=x.npz {given} correct-bias=false").apply(session, module)
        whole[given] = amct_opt.to_text(module)
    assert whole[options] != whole[""]
    quantized = {
        op.origin.layer.data
        for op in module.walk()
        if isinstance(op, nn.ConvOp | nn.MatMulOp)
        and isinstance(op.origin, nn.OriginAttr)
        and isinstance(op.operands[1].owner, nn.DequantizeOp)
    }
    applied = {r.layer for r in session.remarks if r.rule == "quantized"} & {"conv1", "conv2", "fc"}
    missed = {r.layer for r in session.remarks if r.pass_name == "insert-observers" and r.kind == "missed"}
    assert applied == quantized
    assert not missed & quantized
    session = new_session()
    session.profile = profile
    assert in_steps(net, session, options) == whole[options]


def random_options(random: np.random.Generator, profile: str, layers: list[str]) -> str:
    """Two options that the profile takes."""
    some = ",".join(sorted({str(name) for name in random.choice(layers, 2)}))
    anywhere = (
        *("weight-bits=4", "weight-bits=7", "bits=16", "observer=minmax", "activation-offset=false"),
        *(
            "channel-wise=false",
            "fakequant-precision-mode=FORCE_FP16_QUANT",
            f"skip-layers={some}",
            f"only-layers={some}",
        ),
    )
    own = {
        "ascend": ("dmq=0.5", "dmq=0.2", "joint-quant=true", "joint-quant=true shift=false"),
        "ppq": ("align-elementwise=output", "align-concat=none", "fuse-passive-op=false", "fuse-activation=false"),
        "qdq": ("align-elementwise=large", "align-concat=large", "force-alignment-overlap=false"),
    }
    chosen = [str(each) for each in random.choice((*anywhere, *own[profile]), 2, replace=False)]
    return " ".join({each.partition("=")[0]: each for each in chosen}.values())


def check_random(seed: int, folder: Path) -> None:
    """On a random network, by random options: the whole is its steps, twice is once, and what is said is what is done."""
    graph, outputs = random_network(seed)
    profile = ("ascend", "ppq", "qdq")[seed % 3]
    session = new_session()
    session.profile = profile
    module, _ = amct_opt.load(graph.save(folder / "net.onnx", *outputs), session)
    make_pass("fuse-all").apply(session, module)
    layers = [layer_of(op) for op in module.walk() if isinstance(op, nn.ConvOp)]
    options, recovery = random_options(graph.random, profile, layers), list(RECOVERY)[seed % 7 % 5]
    always = "" if profile == "ascend" else "portable=strict"  # no step compares with plain weights
    options = f"{options} {always}"
    text = amct_opt.to_text(module)
    session.remarks.clear()
    make_pass("quantize", f"data=x.npz {options} {recovery}").apply(session, module)
    whole = amct_opt.to_text(module)
    convs = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    integer = {layer_of(op) for op in convs if isinstance(outside(op.operands[1]).owner, nn.DequantizeOp)}
    applied = {r.layer for r in session.remarks if r.rule == "quantized"} & {layer_of(op) for op in convs}
    assert applied == integer, f"seed {seed}: {profile} {options}"
    again = new_session()
    again.profile = profile
    assert in_steps(text, again, options, recovery) == whole, f"seed {seed}: {profile} {options} {recovery}"
    make_pass("quantize", f"data=x.npz {options} {recovery}").apply(again, module)
    assert amct_opt.to_text(module) == whole, f"seed {seed}: {profile} {options} {recovery} twice is not once"
    plain = new_session()
    plain.profile = profile
    unasked, _ = amct_opt.parse(text, plain, name="net.mlir")
    make_pass("quantize", f"data=x.npz {always} {recovery}").apply(plain, unasked)
    said = [str(r) for r in session.remarks] != [str(r) for r in plain.remarks]
    assert amct_opt.to_text(unasked) != whole or said, f"seed {seed}: {profile} {options} changes nothing"


FAST, SLOW = range(6), (range(6, 12), *(range(i, i + 20) for i in (12, 32, 52)))


@pytest.mark.parametrize("seeds", [FAST, *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in SLOW)], ids=str)
def test_random_networks(seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.random.default_rng(7).standard_normal((4, 4, 8, 8)).astype(np.float32))
    for seed in seeds:
        check_random(seed, tmp_path)


def test_what_is_decided_stays(net: str) -> None:
    """A second pass that decides completes the plan of the first; `--quantize` is one."""
    session = new_session()
    module, _ = amct_opt.parse(net, session, name="net.mlir")
    make_pass("insert-observers", "weight-bits=4 skip-layers=fc").apply(session, module)
    make_pass("quantize", "data=x.npz").apply(session, module)
    again, _ = amct_opt.parse(net, session, name="net.mlir")
    make_pass("quantize", "data=x.npz weight-bits=4 skip-layers=fc").apply(session, again)
    assert amct_opt.to_text(module) == amct_opt.to_text(again)


def test_what_is_not_carried_out_is_said_or_stays(net: str) -> None:
    """Conversion without calibration leaves the plans; without `--balance-channels` it says so."""
    session = new_session()
    module, _ = amct_opt.parse(net, session, name="net.mlir")
    for name, given in (
        ("insert-observers", "weight-bits=4 dmq=0.5"),
        ("convert-observers", ""),
        ("calibrate", "data=x.npz"),
        ("convert-observers", ""),
    ):
        make_pass(name, given).apply(session, module)
    said = {r.layer for r in session.remarks if r.rule == "balance"}
    assert said == {"conv1", "conv2", "fc"}
    widths = {op.qparams.data.storage.width.data for op in module.walk() if isinstance(op, nn.DequantizeOp)}
    assert 4 in widths, "the plan of 4 bits has outlived the first conversion"
    assert not any(nn.plan_of(op) for op in module.walk())


BAD = {
    "input, weight i8 axis 7": "axis 7 is out of range for a weight of rank 2",
    'input, operand 5 i8 observer "mse"': "nn.plan has operand 5, but the operation has 2",
    'input, result 1 i8 observer "mse"': "nn.plan has result 1, but the operation has 1",
    "input, operand derived": "integer expected",
    "input, aligned both": "'input', 'joint', 'large', 'output'",
    "input, weight i8, weight i8": "nn.plan has 2 weights, which is more than the operation has",
    "input, weight i16": "bits must lie in [2, 8], not 16",
    "input, weight i8 levels 0": "0 levels of 8 bits: there are 1 to 256",
    "input, weight i8 levels [300]": "levels must be numbers in",
    "input, weight i8, balance 7.0": "balance must lie between 0 and 1, not 7.0",
    "input, weight i8, balance []": "balance needs factors that are positive and finite",
    "input, weight i8, balance [0.0, 1.0]": "balance needs factors that are positive and finite",
    "input, weight i8, shift [99]": "shift needs numbers in",
    "input, weight by <i8, scale = [0.1, 0.2, 0.3], axis = 1>": "has a plan with 3 scales for a weight of 2 channels",
    "input, weight i8, balance [2.0]": "has a plan with 1 factors for 2 input channels",
    'input, weight i8 rounding "up"': "has a plan with the rounding 'up'",
    'input, weight i8 rounding "adaround{reg=1}"': "has a plan with a bad rounding: adaround has no option 'reg'",
    "input, weight i8, shift [3, 4, 5]": "has a plan with 3 shifts for 2 channels",
}
PLANNED = """
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %o = nn.observe %x as "a:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2xf32>
  %a = nn.matmul %o, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<PLAN>} :
    (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}
"""


@pytest.mark.parametrize("plan", BAD)
def test_plans_that_do_not_fit(plan: str) -> None:
    """Plans can be written by hand: each that does not fit is an error at its place, not in the middle of a pass."""
    session = new_session()

    def follow() -> None:
        module, _ = amct_opt.parse(PLANNED.replace("PLAN", plan), session, name="net.mlir")
        for name in ("balance-channels", "round-weights", "convert-observers", "shift-accumulators"):
            make_pass(name, "").apply(session, module)

    with pytest.raises(amct_opt.CompileError, match=re.escape(BAD[plan])) as error:
        follow()
    assert "net.mlir:5:" in str(error.value)


def test_passes_that_nothing_is_planned_for_say_so(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = new_session()
    module, _ = amct_opt.parse(net, session, name="net.mlir")
    for name in ("balance-channels", "shift-accumulators"):
        make_pass(name, "").apply(session, module)
        assert f"warning: --{name} has nothing to do: --insert-observers=" in capsys.readouterr().err


def test_shifts_that_are_left_are_said(net: str) -> None:
    session = new_session()
    module, _ = amct_opt.parse(net, session, name="net.mlir")
    for name, given in (
        ("insert-observers", "joint-quant=true"),
        ("calibrate", "data=x.npz"),
        ("convert-observers", ""),
    ):
        make_pass(name, given).apply(session, module)
    assert {r.layer for r in session.remarks if r.rule == "shift"} == {"conv1", "conv2", "fc"}


def test_support_says_what_is_done_without_a_table(net: str) -> None:
    """A profile of its own without AMCT's tables: `amct support` and `--quantize` judge by the same rules."""
    session = new_session()
    session.register_profile(Profile("own", dict(ASCEND.rows), table=()))
    session.profile = "own"
    module, _ = amct_opt.parse(net.replace('"Gemm"', '"Unheard"'), session, name="net.mlir")
    judged = {each.name: each.quantizable for each in layers_of(module, session)}
    make_pass("quantize", "data=x.npz").apply(session, module)
    done = {r.layer for r in session.remarks if r.rule == "quantized"}
    assert {name for name, how in judged.items() if how == "fully"} == done == {"conv1", "conv2", "fc"}
    assert not [r for r in session.remarks if r.rule == "not-in-table"]
