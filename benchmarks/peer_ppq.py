"""Run by the interpreter of PPQ's environment: MODEL DATA OUT COUNT [minmax]. Its defaults for onnxruntime, or with min-max."""

import sys

import onnx
import torch
from peer_samples import reader
from ppq import QuantizationSettingFactory, TargetPlatform  # pyright: ignore[reportMissingImports]
from ppq.api import export_ppq_graph, quantize_onnx_model  # pyright: ignore[reportMissingImports]

model, data, out, count, *observer = sys.argv[1:]
rows = map(reader(onnx.load(model, load_external_data=False), data), range(int(count)))
samples = [{name: torch.from_numpy(array) for name, array in row.items()} for row in rows]
setting = QuantizationSettingFactory.default_setting()
setting.quantize_activation_setting.calib_algorithm = next(iter(observer), None)
graph = quantize_onnx_model(
    onnx_import_file=model,
    calib_dataloader=samples,
    calib_steps=int(count),
    input_shape=None,
    inputs=samples[0],
    platform=TargetPlatform.ONNXRUNTIME,
    setting=setting,
    device="cpu",
    verbose=0,
)
export_ppq_graph(graph, TargetPlatform.ONNXRUNTIME, graph_save_to=out)
