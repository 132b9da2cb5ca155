"""Calibration as AMCT does it: weights are quantized first, and DMQ's factors come from the first run."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.metadata import metadata
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend.profiles import ASCEND_PYTORCH
from amct_opt.pipelines.passes import make_pass
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.decide.sites import sites
from amct_opt.transforms.quantization.recover.balance_channels import balancer_of, factors_of

from ...values import parsed

CONV = """
func.func @main(%x: tensor<?x2x1x1xf32> {nn.name = "x"}) -> (tensor<?x1x1x1xf32> {nn.name = "y"}) {
  %v = nn.constant dense<[[[[1.27]], [[0.316]]]]> : tensor<1x2x1x1xf32>
  %w = nn.constant dense<0.5> : tensor<1x1x1x1xf32>
  %1 = nn.conv %x, %v from <onnx, "Conv", "conv1"> : (tensor<?x2x1x1xf32>, tensor<1x2x1x1xf32>) -> tensor<?x1x1x1xf32>
  %y = nn.conv %1, %w from <onnx, "Conv", "conv2"> : (tensor<?x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<?x1x1x1xf32>
  func.return %y : tensor<?x1x1x1xf32>
}
"""
TRANSPOSED = (
    CONV.replace(
        'nn.conv %x, %v from <onnx, "Conv", "conv1">',
        'nn.conv_transpose %x, %v from <onnx, "ConvTranspose", "conv1", {module = "ConvTranspose2d"}>',
    )
    .replace('"conv2">', '"conv2", {module = "Conv2d"}>')
    .replace("[[[[1.27]], [[0.316]]]]> : tensor<1x2x1x1", "[[[[1.27]]], [[[0.316]]]]> : tensor<2x1x1x1")
    .replace("tensor<1x2x1x1xf32>) ->", "tensor<2x1x1x1xf32>) ->")
)
FLOAT, FIRST = 2 * 0.316 / 255, 2 * 0.32 / 255
"""The scale of conv2's input: the weight 0.316 becomes 32 times 0.01."""


@pytest.fixture
def run(tmp_path: Path):
    """Quantize with options, in which `{}` is a folder with a configuration, on two runs: (0, 2) and (0, -8)."""
    np.savez(tmp_path / "x.npz", x=np.array([[0, 2], [0, -8]], np.float32).reshape(2, 2, 1, 1))
    (tmp_path / "simple.cfg").write_text("batch_num: 2 activation_offset: true")
    (tmp_path / "dmq.cfg").write_text("batch_num: 2 common_config { dmq_balancer { migration_strength: 0.5 } }")
    (tmp_path / "config.json").write_text('{"batch_num": 2, "conv1": {}, "conv2": {}}')

    def run(options: str, text: str = CONV, pytorch: bool = False) -> ModuleOp:
        session = new_session()
        if pytorch:
            session.register_profile(ASCEND_PYTORCH)
            session.profile = ASCEND_PYTORCH.name
        module = parse_module(session, text, "net.mlir")
        make_pass("quantize", f"data={tmp_path}/x.npz {options}".replace("{}", str(tmp_path))).apply(session, module)
        verify(module)
        return module

    return run


def scale_of(module: ModuleOp) -> float:
    """The scale of conv2's input."""
    layer = [op for op in module.walk() if isinstance(op, nn.ConvOp)][-1]
    point = layer.operands[0].owner
    assert isinstance(point, nn.DequantizeOp)
    return float(point.qparams.data.scales())


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ("", FLOAT),
        ("weights-first=true", FIRST),
        ("config={}/simple.cfg", FIRST),
        ("config={}/config.json", FIRST),
        ("config={}/simple.cfg weights-first=false", FLOAT),
    ],
)
def test_weights_are_quantized_first_with_a_configuration(run, options: str, scale: float) -> None:
    """The input of conv2 is 2 * w and -8 * w: a range five times as wide as that of the first run."""
    module = run(f"observer=minmax {options}")
    assert scale_of(module) == pytest.approx(scale * 5, rel=1e-6)
    numbers = [op.array.tolist() for op in module.walk() if isinstance(op, nn.ConstantOp)]
    assert [[[[127]], [[32]]]] in numbers, "the weights become integers as before"


@pytest.mark.parametrize(("pytorch", "scale"), [(False, FIRST), (True, FLOAT)])
def test_pytorch_leaves_weights_of_transposed_convolutions(run, pytorch: bool, scale: float) -> None:
    module = run("observer=minmax config={}/simple.cfg", TRANSPOSED, pytorch)
    assert scale_of(module) == pytest.approx(scale * 5, rel=1e-6)


def test_plans_say_which_weights_come_first() -> None:
    module, session = parsed(CONV)
    make_pass("insert-observers", "weights-first=true").apply(session, module)
    module = parse_module(session, module_text(module), "net.mlir")
    plans = [nn.plan_of(op) for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert all(plan is not None and plan.weights[0].first for plan in plans)


@pytest.mark.parametrize(("options", "peak"), [("config={}/dmq.cfg", 2.0), ("dmq=0.5", 8.0)])
def test_factors_of_the_first_run(run, options: str, peak: float) -> None:
    """sqrt(a) / sqrt(w), roots in float32; the channel without values brings its weight to the largest balanced one."""
    module = run(options)
    site = sites(module, (nn.ConvOp,))[0]
    assert balancer_of(site) is not None
    factor = np.sqrt(np.float32(peak)) / np.sqrt(np.float32(0.316))
    assert factors_of(site) == (np.float32(0.316) * factor / np.float32(1.27), factor)


def test_observer_replaces_that_of_a_json_configuration(run) -> None:
    assert metadata(run("config={}/config.json"))["observer"] == "ifmr"
    assert metadata(run("config={}/config.json observer=kl{num-of-bins=1024}"))["observer"] == "kl{num-of-bins=1024}"
