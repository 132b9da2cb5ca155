"""Budgets: their text, and what a network costs."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

import amct_opt
from amct_opt.data import synthetic_samples
from amct_opt.flows.tune.budget import Budget, Costs, Work, bits_read, costs_of, work_of
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.decide.sites import sites
from amct_opt.transforms.quantization.profiles import profile_of

DIGITS = Path(__file__).parents[4] / "examples" / "digits"


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("bytes=150k", Budget(bytes=150_000)),
        ("MACs=1.5M,int8-layers=20", Budget(macs=1_500_000, int8_layers=20)),
        ("ms=1.5", Budget(ms=1.5)),
        (" bytes=2G , MACs=0", Budget(bytes=2_000_000_000, macs=0)),
    ],
)
def test_text(text: str, budget: Budget) -> None:
    assert Budget.of(text) == budget


@pytest.mark.parametrize(
    "text", ["", "150k", "bytes", "bytes=150K", "macs=1M", "bytes=1,bytes=2", "bytes=-1", "MACs=1k5"]
)
def test_text_that_is_not_a_budget(text: str) -> None:
    with pytest.raises(CompileError, match="is not a budget\n  hint: write --budget bytes=150k"):
        Budget.of(text)


def test_which_costs_keep_a_budget() -> None:
    budget = Budget(bytes=10, macs=20, int8_layers=3, ms=1.5)
    assert budget.holds(Costs(10, 20, 3, 99))
    assert not any(budget.holds(Costs(*each, 0)) for each in ((11, 20, 3), (10, 21, 3), (10, 20, 2)))
    assert not budget.holds(Costs(10, 20, 3, 99, 1.6))
    for costs, message in (
        (Costs(1234, 0, 9, 0), "budget of 10 bytes: the least is 1,234"),
        (Costs(0, 2100, 9, 0), "budget of 20 MACs in float: 2,100 cannot be in integers"),
        (Costs(0, 0, 9, 0, 2.5), "budget of 1.5 ms: the least is about 2.5 ms on this machine"),
        (Costs(0, 0, 2, 0), "the budget wants 3 layers in int8: only 2 can be"),
    ):
        with pytest.raises(CompileError, match=message):
            budget.check(costs)


NETWORK = """
func.func @main(%x: tensor<?x4x6x6xf32> {nn.name = "x"}, %m: tensor<?x3x5xf32> {nn.name = "m"}) {
  %w = nn.constant dense<1.0> : tensor<8x2x3x3xf32>
  %a = nn.conv %x, %w groups 2 strides [2, 2] from <onnx, "Conv", "grouped">
    : (tensor<?x4x6x6xf32>, tensor<8x2x3x3xf32>) -> tensor<?x8x2x2xf32>
  %v = nn.constant dense<1.0> : tensor<4x7x2x2xf32>
  %b = nn.conv_transpose %x, %v from <onnx, "ConvTranspose", "transposed">
    : (tensor<?x4x6x6xf32>, tensor<4x7x2x2xf32>) -> tensor<?x7x7x7xf32>
  %k = nn.constant dense<1.0> : tensor<5x2xf32>
  %c = nn.matmul %m, %k from <onnx, "MatMul", "product"> : (tensor<?x3x5xf32>, tensor<5x2xf32>) -> tensor<?x3x2xf32>
  %d = nn.matmul %m, %m transpose_a from <onnx, "MatMul", "scores"> : (tensor<?x3x5xf32>, tensor<?x3x5xf32>)
    -> tensor<?x5x5xf32>
  func.return
}
"""


def test_work_of_layers() -> None:
    """Results times the products that each sums; of a transposed convolution inputs times the sums that each adds to. A layer
    that reads a value twice counts it once.
    """
    module, session = amct_opt.parse(NETWORK)
    session.profile = "ascend-a2"
    samples = synthetic_samples(main_function(module))
    macs = {
        "grouped": prod((8, 2, 2)) * prod((2, 3, 3)),
        "transposed": prod((4, 6, 6)) * prod((7, 2, 2)),
        "product": prod((3, 2)) * 5,
        "scores": prod((5, 5)) * 3,
    }
    inputs = {"grouped": 4 * 6 * 6, "transposed": 4 * 6 * 6, "product": 3 * 5, "scores": 3 * 5}
    for at_a_time in (1, 3, 10 * samples.count):
        assert work_of(module, replace(samples, at_a_time=at_a_time), session) == Work(macs, inputs)


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_costs_are_those_of_the_file(profile: str, tmp_path: Path) -> None:
    """Bytes are those of all initializers, packed; float multiply-accumulates those of the layer that is left in float. Bits that
    are read are those of weights and inputs, of which the file has no say.
    """
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    session.profile = profile
    options = f"data={DIGITS / 'calib.npz'} layer-weight-bits=conv2:3,conv3:4 layer-bits=fc1:16 skip-layers=conv1"
    work = work_of(module, synthetic_samples(main_function(module)), session)
    amct_opt.run_pipeline(module, ["fuse", make_pass("quantize", options)], session)
    costs = costs_of(module, work, session)
    amct_opt.save(module, tmp_path / "m.onnx", session, "onnx")
    model = onnx.load(tmp_path / "m.onnx")
    stored = [len(each.raw_data) or numpy_helper.to_array(each).nbytes for each in model.graph.initializer]
    assert costs.bytes == sum(stored)
    assert any(each.data_type == onnx.TensorProto.INT4 for each in model.graph.initializer)
    assert costs.macs == work.macs["conv1"] == 8 * 8 * 32 * 9
    assert costs.int8_layers == len(work.macs) - 1 == 5
    found = {layer_of(site.compute): bits_read(site, work) for site in sites(module, profile_of(session).rows)}
    assert found["conv1"] == 32 * (work.inputs["conv1"] + 32 * 9)
    assert found["conv2"] == 8 * work.inputs["conv2"] + 3 * 32 * 32 * 9
    assert found["conv3"] == 8 * work.inputs["conv3"] + 4 * 32 * 32 * 9
    assert found["fc1"] == (16 if profile == "ascend" else 8) * work.inputs["fc1"] + 8 * 64 * 10
    assert costs.read == sum(found.values())
