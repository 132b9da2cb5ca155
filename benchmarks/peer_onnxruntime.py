"""Run by the interpreter of onnxruntime's environment: MODEL DATA OUT COUNT. Min-max, weights per channel."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class Samples(CalibrationDataReader):
    def __init__(self, data: str, count: int):
        rows = np.load(data, mmap_mode="r")
        self.samples = ({"data": np.ascontiguousarray(rows[i : i + 1])} for i in range(count))

    def get_next(self) -> Any:
        return next(self.samples, None)


model, data, out, count = sys.argv[1:]
prepared = Path(out).with_suffix(".prepared.onnx")
quant_pre_process(model, prepared)
quantize_static(prepared, out, Samples(data, int(count)), per_channel=True, activation_type=QuantType.QInt8)
