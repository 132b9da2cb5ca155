"""`amct sensitivity`, against quantizing the network with only one layer, and without it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.data import load_samples
from amct_opt.flows.sensitivity import ranked_at_outputs, sensitivity_of
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.metrics import Divergences, Measure, Parts
from amct_opt.transforms.quantization.options import (
    NO_RECOVERY,
    DataOptions,
    QuantizeOptions,
    SettingsOptions,
)

from ..values import normal

M = TypeVar("M", bound=Measure)
DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"
BARE, NEAREST = QuantizeOptions(recovery=NO_RECOVERY), "correct-bias=false round-weights=nearest"


def quantized(profile: str, options: str, total: M) -> M:
    """The digits network quantized by `--quantize`, on the samples that `amct sensitivity` holds back, added to a measure."""
    float_module, session = amct_opt.load(MODEL)
    session.profile = profile
    samples = load_samples(DATA, main_function(float_module))
    held = samples.count // 10
    module = float_module.clone()
    passes = ["fuse", make_pass("quantize", f"data={DATA} samples={samples.count - held} {options}")]
    amct_opt.run_pipeline(module, passes, session)
    for batch in samples.tail(held).batches():
        total.add(amct_opt.execute(float_module, batch), amct_opt.execute(module, batch))
    return total


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_each_layer_is_measured_as_if_it_were_alone(profile: str) -> None:
    session = amct_opt.new_session()
    session.profile = profile
    found = sensitivity_of(MODEL, BARE, DataOptions(str(DATA)), session)
    assert found.held_back
    layers = {layer.name: layer for layer in found.layers}
    assert [layer.alone for layer in found.layers] == sorted(layer.alone for layer in found.layers)
    assert found.quantized == pytest.approx(quantized(profile, NEAREST, Parts()).worst[1], abs=1e-3)
    assert found.spread is not None
    assert found.spread[0] < found.quantized < found.spread[1]
    assert f"dB: {found.spread[0]:.1f} to {found.spread[1]:.1f} dB in single runs" in found.tables()[1].rows[0][1]
    if profile == "qdq":  # there a layer's result has a point of its own, which is its reader's here
        return
    for name in ("conv2", "pool1", "fc1"):
        assert layers[name].alone == pytest.approx(
            quantized(profile, f"{NEAREST} only-layers={name}", Parts()).worst[1], abs=1e-3
        )
        assert layers[name].spared == pytest.approx(
            quantized(profile, f"{NEAREST} skip-layers={name}", Parts()).worst[1], abs=1e-3
        )


def test_weights_of_4_bits_are_rounded_by_data() -> None:
    """A layer is measured near to what it costs when `--quantize` quantizes nothing else."""
    options = QuantizeOptions(settings=SettingsOptions(weight_bits=4))
    found = sensitivity_of(MODEL, options, DataOptions(str(DATA)), amct_opt.new_session())
    assert found.quantized == pytest.approx(quantized("ascend", "weight-bits=4", Parts()).worst[1], abs=1e-3)
    assert found.layers[0].name == "conv1"
    for layer in found.layers[:5:4]:
        alone = quantized("ascend", f"weight-bits=4 only-layers={layer.name}", Parts()).worst[1]
        assert layer.alone == pytest.approx(alone, abs=4)  # of a bias that is corrected


def test_each_layer_is_measured_by_divergence() -> None:
    """Smaller is better; the layer whose quantization costs most comes first, and sparing a layer may gain."""
    found = sensitivity_of(MODEL, BARE, DataOptions(str(DATA)), amct_opt.new_session(), measure="kl")
    costs = [layer.alone for layer in found.layers]
    assert costs == sorted(costs, reverse=True)
    assert found.quantized == pytest.approx(quantized("ascend", NEAREST, Divergences()).noise, rel=1e-3)
    worst = found.layers[0]
    alone = quantized("ascend", f"{NEAREST} only-layers={worst.name}", Divergences()).noise
    spared = quantized("ascend", f"{NEAREST} skip-layers={worst.name}", Divergences()).noise
    assert (worst.alone, worst.spared) == (pytest.approx(alone, rel=1e-3), pytest.approx(spared, rel=1e-3))
    assert worst.gain == pytest.approx(found.quantized - worst.spared)


TWO_OUTPUTS = """
func.func @main(%x: tensor<1x16xf32> {nn.name = "x"})
    -> (tensor<1x16xf32> {nn.name = "loud"}, tensor<1x16xf32> {nn.name = "quiet"}) {
  %w = nn.constant dense<EVEN> : tensor<16x16xf32>
  %v = nn.constant dense<OUTLIER> : tensor<16x16xf32>
  %a = nn.matmul %x, %w from <onnx, "MatMul", "even"> : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  %b = nn.matmul %x, %v from <onnx, "MatMul", "outlier"> : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  func.return %a, %b : tensor<1x16xf32>, tensor<1x16xf32>
}
"""


@pytest.fixture
def two_outputs(tmp_path: Path) -> tuple[Path, Path]:
    """A network with a loud output that is fine and a quiet one that becomes zero, by a weight that no sample needs; its data."""
    weight, x = normal(16, 16) / 1000, normal(64, 16)
    weight[0, 0], x[:, 0] = 2, 0
    text = TWO_OUTPUTS.replace("OUTLIER", str(weight.tolist())).replace("EVEN", str((normal(16, 16) * 10).tolist()))
    (tmp_path / "net.mlir").write_text(text)
    np.save(tmp_path / "x.npy", x)
    return tmp_path / "net.mlir", tmp_path / "x.npy"


@pytest.mark.parametrize(
    ("measure", "worst", "layers"), [("sqnr", "quiet", ["outlier", "even"]), ("kl", "loud", ["even", "outlier"])]
)
def test_the_worst_output_counts(measure: str, worst: str, layers: list[str], two_outputs: tuple[Path, Path]) -> None:
    """By SQNR the quiet output, whose probabilities are all alike."""
    model, data = two_outputs
    found = sensitivity_of(model, QuantizeOptions(), DataOptions(str(data)), amct_opt.new_session(), measure=measure)
    assert (found.output, [layer.name for layer in found.layers]) == (worst, layers)
    assert f"(output '{worst}', the worst)" in str(found.tables()[1].rows[0])
    assert measure == "kl" or found.quantized < 1 < 30 < found.layers[1].alone


def test_boxes_do_not_hide_scores(tmp_path: Path) -> None:
    """They share an output: numbers in the thousands, and scores that are lost by a weight that no sample needs."""
    boxes, scores, x = normal(16, 16) * 1000, normal(16, 16), normal(64, 2, 16).astype(np.float32)
    scores[0, 0], x[:, :, 0] = 2000, 0
    weights = {"boxes": boxes, "scores": scores}
    nodes = [helper.make_node("MatMul", ["x", f"{name}.w"], [name], name) for name in weights]
    nodes += [
        helper.make_node("Sigmoid", ["scores"], ["sure"], "sure"),
        helper.make_node("Concat", ["boxes", "sure"], ["y"], "y", axis=1),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", c, 16]) for n, c in (("x", 2), ("y", 4))]
    constants = [numpy_helper.from_array(each.astype(np.float32), f"{name}.w") for name, each in weights.items()]
    graph = helper.make_graph(nodes, "detector", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "d.onnx")
    np.savez(tmp_path / "data.npz", x=x)
    found = sensitivity_of(
        tmp_path / "d.onnx", QuantizeOptions(), DataOptions(str(tmp_path / "data.npz")), amct_opt.new_session()
    )
    assert (found.output, found.layers[0].name) == ("y (scores)", "scores")
    whole, session = amct_opt.load(tmp_path / "d.onnx")
    module = whole.clone()
    amct_opt.quantize(module, session, data={"x": x})
    ranking = ranked_at_outputs(whole, module, load_samples(tmp_path / "data.npz", main_function(whole)), session)
    assert next(iter(ranking)) == "scores"
    assert ranking["scores"] < 15 < 35 < ranking["boxes"]


def test_a_goal_is_for_the_worst_output(two_outputs: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = two_outputs
    found = amct_opt.tune(model, tmp_path / "out", data, sqnr=25)
    assert not found.trials[0].reached
    assert (found.best.reached, found.best.changes["skip_layers"]) == (True, ("outlier",))
