"""Nets in the shapes of ResNet-50, MobileNet and GoogLeNet through the command line: folded, quantized, to ONNX and to Caffe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

from ...scripts import script

Array = np.ndarray[Any, np.dtype[Any]]

LOGITS = {"resnet50": "fc1000", "mobilenet": "fc7", "googlenet": "loss3/classifier"}
FAST = ("mobilenet", 64, 0.25)
SLOW = (("resnet50", 64, 0.25), ("googlenet", 64, 0.25), ("resnet50", 224, 1.0))


@pytest.fixture(scope="module")
def nets() -> ModuleType:
    """The example that generates the nets."""
    pytest.importorskip("cv2")
    return script("examples/caffe/nets")


@dataclass
class Model:
    """A generated net in a folder of its own, and what the tools make of it."""

    name: str
    folder: Path
    images: Array

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def opt(self, *arguments: str) -> None:
        assert amct_opt.run([*arguments]) == 0

    def from_caffe(self, *arguments: str) -> None:
        self.opt(self.path(f"{self.name}.prototxt"), "--weights", self.path(f"{self.name}.caffemodel"), *arguments)

    def module(self, name: str) -> ModuleOp:
        path = self.folder / name
        return parse_module(new_session(), path.read_text(), str(path))

    def opencv(self, stem: str) -> tuple[Array, Array]:
        """Logits and probabilities of the images."""
        import cv2

        net = cv2.dnn.readNetFromCaffe(self.path(f"{stem}.prototxt"), self.path(f"{stem}.caffemodel"))
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        net.enableFusion(False)
        net.enableWinograd(False)
        net.setInput(self.images, "data")
        logits, probabilities = (np.array(a) for a in net.forward([LOGITS[self.name], "prob"]))
        return logits.reshape(len(logits), -1), probabilities.reshape(len(logits), -1)


@pytest.fixture
def model(request: pytest.FixtureRequest, tmp_path: Path, nets: ModuleType) -> Model:
    name, size, width = request.param
    nets.generate(name, tmp_path, size, width)
    np.savez(tmp_path / "calib.npz", data=nets.images(16 if size < 224 else 4, size, seed=1))
    return Model(name, tmp_path, nets.images(3, size, seed=2))


every_net = pytest.mark.parametrize(
    "model",
    [FAST, *(pytest.param(net, marks=pytest.mark.slow) for net in SLOW)],
    indirect=True,
    ids=lambda v: f"{v[0]}-{v[1]}",
)


def kinds(module: ModuleOp) -> set[str]:
    return {op.name for op in main_function(module).walk()}


def spread(a: Array, b: Array) -> float:
    """How far the logits after probabilities are apart: root mean square."""
    logits = [np.log(p.reshape(-1).astype(np.float64)) for p in (a, b)]
    difference = logits[0] - logits[1]
    return float((difference - difference.mean()).std())


@pytest.mark.slow
@every_net
def test_chain(model: Model) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")

    # folded, no batch norm is left; back in Caffe it is the net that it was
    model.from_caffe("--fuse-all", "-o", model.path("fused.mlir"))
    assert not kinds(model.module("fused.mlir")) & {"nn.batch_norm", "nn.mul"}
    model.from_caffe("--fuse-all", "-t", "caffe", "-o", model.path("fused.prototxt"))
    text = (model.folder / "fused.prototxt").read_text()
    assert "BatchNorm" not in text
    assert '"Scale"' not in text
    logits, probabilities = model.opencv(model.name)
    assert logits.std() > 1
    assert len(set(probabilities.argmax(1))) > 1
    fused_logits, fused_probabilities = model.opencv("fused")
    np.testing.assert_allclose(fused_logits, logits, rtol=0, atol=1e-4 * np.abs(logits).max())
    np.testing.assert_allclose(fused_probabilities, probabilities, rtol=0, atol=1e-3)

    # quantized, every convolution and matrix product is in integers, and the ONNX file computes what the interpreter does
    calibration = f"data={model.path('calib.npz')} correct-bias=false"
    model.opt(model.path("fused.mlir"), f"--quantize={calibration}", "-o", model.path("quantized.mlir"))
    module = model.module("quantized.mlir")
    for op in main_function(module).walk():
        if isinstance(op, nn.ConvOp | nn.MatMulOp):
            assert isinstance(op.operands[0].owner, nn.DequantizeOp) or isinstance(op.parent_op(), nn.FusedOp)
    model.opt(model.path("quantized.mlir"), "-t", "onnx", "-o", model.path("quantized.onnx"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.path("quantized.onnx"), options, providers=["CPUExecutionProvider"])
    x = model.images[:1]
    (actual,) = session.run(None, {"data": x})
    wanted = run(module, {"data": x})["prob"]
    # sums of other orders round otherwise here and there, which deep nets amplify: still less than what quantization does
    rounding = spread(wanted, probabilities[:1])
    assert spread(wanted, actual) < 0.5 * rounding
    assert rounding < 0.5 * spread(probabilities[:1], probabilities[1:2])

    # the forms that AMCT writes
    for form, stem in (("deploy", "deploy"), ("fake-quant", "fake_quant")):
        model.opt(model.path("quantized.mlir"), "-t", f"caffe{{form={form}}}", "-o", model.path("net.prototxt"))
        text = (model.folder / f"net_{stem}_model.prototxt").read_text()
        layers = sum(text.count(f'type: "{kind}"') for kind in ("Convolution", "InnerProduct"))
        assert layers > 20
        assert text.count('type: "DeQuant"') >= layers
        assert "AntiQuant" not in text
    float_size, int_size = ((model.folder / f"{n}.caffemodel").stat().st_size for n in ("fused", "net_deploy_weights"))
    assert int_size < 0.3 * float_size

    # the deploy form, read again, computes what is lowered, bit for bit
    lowered = model.path("lowered.mlir")
    model.opt(model.path("quantized.mlir"), "--lower-to-ascend", "-o", lowered)
    deployed = ["--weights", model.path("net_deploy_weights.caffemodel"), "-o", model.path("deployed.mlir")]
    model.opt(model.path("net_deploy_model.prototxt"), *deployed)
    expected, actual = (run(model.module(name), {"data": x})["prob"] for name in ("lowered.mlir", "deployed.mlir"))
    assert expected.tobytes() == actual.tobytes()
