"""A script of AMCT's for PyTorch, on the digits network; only its marked line is not AMCT's.

python examples/amct/calibrate_pytorch.py OUTDIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from amct_opt.amct import pytorch as amct  # import amct_pytorch as amct

DIGITS = Path(__file__).parents[1] / "digits"
CALIBRATION = torch.from_numpy(np.load(DIGITS / "calib.npz")["image"])
IMAGES = torch.from_numpy(np.load(DIGITS / "heldout.npz")["image"])
LABELS = np.load(DIGITS / "heldout_labels.npy")
BATCH_NUM = 4
NORMS = {"weight": "scale", "bias": "bias", "running_mean": "mean", "running_var": "variance"}


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.bn3 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.pool1 = nn.AvgPool2d(2)
        self.depthwise1, self.bn4 = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False), nn.BatchNorm2d(32)
        self.conv4, self.bn5 = nn.Conv2d(32, 64, 1, bias=False), nn.BatchNorm2d(64)
        self.fc1 = nn.Linear(64, 10)

    def forward(self, image):
        x = torch.relu(self.bn1(self.conv1(image)))
        x = torch.relu(x + self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(x))))))
        x = torch.relu(self.bn4(self.depthwise1(self.pool1(x))))
        x = torch.relu(self.bn5(self.conv4(x)))
        return self.fc1(x.mean((2, 3)))


def trained():
    """The network with the weights of the ONNX file."""
    model = Digits().eval()
    weights = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in stored()}
    weights["fc1.weight"] = weights["fc1.weight"].T
    for key, tensor in model.state_dict().items():
        layer, _, kind = key.rpartition(".")
        if kind != "num_batches_tracked":
            tensor.copy_(weights[f"{layer}.{NORMS[kind]}" if layer.startswith("bn") else key])
    return model


def stored():
    return onnx.load(DIGITS / "digits.onnx").graph.initializer


def torch_forward(model, batches):
    with torch.no_grad():
        return np.concatenate([model(batch).numpy() for batch in batches])


def accuracy(model):
    return float((torch_forward(model, [IMAGES]).argmax(1) == LABELS).mean())


def onnx_accuracy(model_file):
    session = onnxruntime.InferenceSession(model_file)
    return float((np.argmax(np.asarray(session.run(None, {"image": IMAGES.numpy()})[0]), 1) == LABELS).mean())


class Evaluator(amct.AutoCalibrationEvaluatorBase):
    def calibration(self, model):
        torch_forward(model, CALIBRATION.chunk(BATCH_NUM))

    def evaluate(self, model):
        return accuracy(model)

    def metric_eval(self, original_metric, new_metric):
        loss = original_metric - new_metric
        return loss < 0.01, loss


def main(outputs):
    tmp = f"{outputs}/tmp"
    config_file = f"{tmp}/config.json"
    record_file = f"{tmp}/record.txt"
    modified_model = f"{tmp}/modified_model.onnx"
    result_path = f"{outputs}/digits"
    model, input_data = trained(), (CALIBRATION[:1],)
    names = {"input_names": ["image"], "output_names": ["logits"], "dynamic_axes": {"image": {0: "batch"}}}

    original = accuracy(model)
    amct.create_quant_config(
        config_file=config_file,
        model=model,
        input_data=input_data,
        skip_layers=[],
        batch_num=BATCH_NUM,
        activation_offset=True,
        config_defination=None,
    )
    calibrating = amct.quantize_model(
        config_file=config_file,
        modfied_onnx_file=modified_model,
        record_file=record_file,
        model=model,
        input_data=input_data,
        **names,
    )
    torch_forward(calibrating, CALIBRATION.chunk(BATCH_NUM))
    amct.save_model(modfied_onnx_file=modified_model, record_file=record_file, save_path=result_path)
    quantized = onnx_accuracy(f"{result_path}_fake_quant_model.onnx")

    amct.accuracy_based_auto_calibration(
        model=model,
        model_evaluator=Evaluator(),
        config_file=config_file,
        record_file=record_file,
        save_dir=f"{outputs}/auto",
        input_data=input_data,
        strategy="BinarySearch",
        sensitivity="CosineSimilarity",
        **names,
    )
    automatic = onnx_accuracy(f"{outputs}/auto_fake_quant_model.onnx")
    print(f"float {original:.4f}, quantized {quantized:.4f}, automatically {automatic:.4f}")
    return original, quantized, automatic


if __name__ == "__main__":
    main(*sys.argv[1:])
