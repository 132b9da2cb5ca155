"""A script of AMCT's for ONNX, on the digits network; only its marked line is not AMCT's.

python examples/amct/calibrate_onnx.py MODEL.onnx OUTDIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

from amct_opt.amct import onnx as amct  # import amct_onnx as amct

DIGITS = Path(__file__).parents[1] / "digits"
CALIBRATION = np.load(DIGITS / "calib.npz")["image"]
IMAGES = np.load(DIGITS / "heldout.npz")["image"]
LABELS = np.load(DIGITS / "heldout_labels.npy")
BATCH_NUM = 4


def onnx_forward(model_file, batches):
    session = ort.InferenceSession(model_file, amct.AMCT_SO)
    return np.concatenate([np.asarray(session.run(None, {"image": batch})[0]) for batch in batches])


def accuracy(model_file):
    logits = onnx_forward(model_file, [IMAGES])
    return float((logits.argmax(1) == LABELS).mean())


class Evaluator(amct.AutoCalibrationEvaluatorBase):
    def calibration(self, model_file):
        onnx_forward(model_file, np.split(CALIBRATION, BATCH_NUM))

    def evaluate(self, model_file):
        return accuracy(model_file)

    def metric_eval(self, original_metric, new_metric):
        loss = original_metric - new_metric
        return loss < 0.01, loss


def main(model_file, outputs):
    tmp = f"{outputs}/tmp"
    config_file = f"{tmp}/config.json"
    record_file = f"{tmp}/record.txt"
    modified_model = f"{tmp}/modified_model.onnx"
    result_path = f"{outputs}/digits"

    original = accuracy(model_file)
    amct.create_quant_config(
        config_file=config_file,
        model_file=model_file,
        skip_layers=[],
        batch_num=BATCH_NUM,
        activation_offset=True,
        config_defination=None,
    )
    amct.quantize_model(
        config_file=config_file, model_file=model_file, modified_onnx_file=modified_model, record_file=record_file
    )
    onnx_forward(modified_model, np.split(CALIBRATION, BATCH_NUM))
    amct.save_model(modified_model, record_file, result_path)
    quantized = accuracy(f"{result_path}_fake_quant_model.onnx")

    amct.accuracy_based_auto_calibration(
        model_file=model_file,
        model_evaluator=Evaluator(),
        config_file=config_file,
        record_file=record_file,
        save_dir=f"{outputs}/auto",
        strategy="BinarySearch",
        sensitivity="CosineSimilarity",
    )
    automatic = accuracy(f"{outputs}/auto_fake_quant_model.onnx")
    print(f"float {original:.4f}, quantized {quantized:.4f}, automatically {automatic:.4f}")
    return original, quantized, automatic


if __name__ == "__main__":
    main(*sys.argv[1:])
