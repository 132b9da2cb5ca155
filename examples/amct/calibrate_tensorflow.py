"""A script of AMCT's for TensorFlow, on the digits network; only its marked lines are not AMCT's.

python examples/amct/calibrate_tensorflow.py FROZEN.pb OUTDIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from amct_opt.amct import tensorflow as amct  # import amct_tensorflow as amct

DIGITS = Path(__file__).parents[1] / "digits"
CALIBRATION = np.load(DIGITS / "calib.npz")["image"]
IMAGES = np.load(DIGITS / "heldout.npz")["image"]
LABELS = np.load(DIGITS / "heldout_labels.npy")
BATCH_NUM = 4
INPUT, OUTPUT = "image", "logits"


def load_graph(model_file):
    with tf.io.gfile.GFile(model_file, mode="rb") as model:
        graph_def = tf.compat.v1.GraphDef()
        graph_def.ParseFromString(model.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph


def calibrate(graph):
    with tf.compat.v1.Session(graph=graph) as session:
        for batch in np.split(CALIBRATION, BATCH_NUM):
            session.run(f"{OUTPUT}:0", feed_dict={f"{INPUT}:0": batch})


def accuracy(graph):
    with tf.compat.v1.Session(graph=graph) as session:
        logits = session.run(f"{OUTPUT}:0", feed_dict={f"{INPUT}:0": IMAGES})
    return float((logits.argmax(1) == LABELS).mean())


class Evaluator(amct.AutoCalibrationEvaluatorBase):
    def calibration(self, graph, outputs):
        calibrate(graph)

    def evaluate(self, graph, outputs):
        return accuracy(graph)

    def metric_eval(self, original_metric, new_metric):
        loss = original_metric - new_metric
        return loss < 0.01, loss


def main(model_file, outputs):
    config_file = f"{outputs}/config.json"
    record_file = f"{outputs}/record.txt"
    result_path = f"{outputs}/digits"

    graph = load_graph(model_file)
    original = accuracy(graph)
    amct.create_quant_config(config_file=config_file, graph=graph, skip_layers=[], batch_num=BATCH_NUM)
    amct.quantize_model(graph=graph, config_file=config_file, record_file=record_file)
    calibrate(graph)
    amct.save_model(pb_model=model_file, outputs=[OUTPUT], record_file=record_file, save_path=result_path)
    quantized = accuracy(load_graph(f"{result_path}_fake_quant_model.pb"))  # digits_quantized.pb

    amct.accuracy_based_auto_calibration(model_file, [OUTPUT], record_file, config_file, f"{outputs}/auto", Evaluator())
    automatic = accuracy(load_graph(f"{outputs}/auto_fake_quant_model.pb"))  # auto_quantized.pb
    print(f"float {original:.4f}, quantized {quantized:.4f}, automatically {automatic:.4f}")
    return original, quantized, automatic


if __name__ == "__main__":
    main(*sys.argv[1:])
