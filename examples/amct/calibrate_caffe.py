"""A script of AMCT's for Caffe, on the digits network; only its two marked lines are not AMCT's.

python examples/amct/calibrate_caffe.py NET.prototxt NET.caffemodel OUTDIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from amct_opt.amct import (
    caffe,  # import caffe
    caffe as amct,  # import amct_caffe as amct
)

DIGITS = Path(__file__).parents[1] / "digits"
CALIBRATION = np.load(DIGITS / "calib.npz")["image"]
IMAGES = np.load(DIGITS / "heldout.npz")["image"]
LABELS = np.load(DIGITS / "heldout_labels.npy")
BATCH_NUM = 4


def run_caffe_model(model_file, weights_file, batches):
    net = caffe.Net(model_file, weights_file, caffe.TEST)
    return np.concatenate([net.forward(image=batch)["logits"] for batch in batches])


def accuracy(model_file, weights_file):
    logits = run_caffe_model(model_file, weights_file, [IMAGES])
    return float((logits.argmax(1) == LABELS).mean())


class Evaluator(amct.AutoCalibrationEvaluatorBase):
    def calibration(self, model_file, weights_file):
        run_caffe_model(model_file, weights_file, CALIBRATION[:, None][:BATCH_NUM])

    def evaluate(self, model_file, weights_file):
        return accuracy(model_file, weights_file)

    def metric_eval(self, original_metric, new_metric):
        loss = original_metric - new_metric
        return loss < 0.05, loss


def main(model_file, weights_file, outputs):
    tmp = f"{outputs}/tmp"
    config_file = f"{tmp}/config.json"
    record_file = f"{tmp}/record.txt"
    modified = f"{tmp}/modified.prototxt", f"{tmp}/modified.caffemodel"
    result_path = f"{outputs}/digits"

    caffe.set_mode_cpu()
    original = accuracy(model_file, weights_file)
    amct.create_quant_config(config_file, model_file, weights_file, [], BATCH_NUM)
    graph = amct.init(config_file, model_file, weights_file, record_file)
    amct.quantize_model(graph, *modified)
    run_caffe_model(*modified, np.split(CALIBRATION, BATCH_NUM))
    amct.save_model(graph, "Both", result_path)
    quantized = accuracy(f"{result_path}_fake_quant_model.prototxt", f"{result_path}_fake_quant_weights.caffemodel")

    amct.accuracy_based_auto_calibration(
        model_file, weights_file, Evaluator(), config_file, record_file, f"{outputs}/auto"
    )
    found = f"{outputs}/auto"
    automatic = accuracy(f"{found}_fake_quant_model.prototxt", f"{found}_fake_quant_weights.caffemodel")
    print(f"float {original:.4f}, quantized {quantized:.4f}, automatically {automatic:.4f}")
    return original, quantized, automatic


if __name__ == "__main__":
    main(*sys.argv[1:])
