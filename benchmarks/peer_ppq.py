"""Run by the interpreter of PPQ's environment: MODEL DATA OUT COUNT. Its defaults for onnxruntime, with min-max."""

import sys

import numpy as np
import torch
from ppq import QuantizationSettingFactory, TargetPlatform  # pyright: ignore[reportMissingImports]
from ppq.api import export_ppq_graph, quantize_onnx_model  # pyright: ignore[reportMissingImports]

model, data, out, count = sys.argv[1:]
rows = np.load(data, mmap_mode="r")
samples = [torch.from_numpy(np.array(rows[i : i + 1])) for i in range(int(count))]
setting = QuantizationSettingFactory.default_setting()
setting.quantize_activation_setting.calib_algorithm = "minmax"
graph = quantize_onnx_model(
    onnx_import_file=model,
    calib_dataloader=samples,
    calib_steps=int(count),
    input_shape=list(samples[0].shape),
    platform=TargetPlatform.ONNXRUNTIME,
    setting=setting,
    device="cpu",
    verbose=0,
)
export_ppq_graph(graph, TargetPlatform.ONNXRUNTIME, graph_save_to=out)
