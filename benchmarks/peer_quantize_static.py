"""Run by the interpreter of the zoo's environment: MODEL DATA OUT METHOD RUNS. Weights get a scale per channel, or one scale
where quantize_static fails with channels.

METHOD is MinMax or Percentile; RUNS is 1 where a row of DATA is all that a run takes, else 0: a row is a sample. Models of opsets
below 13, whose quantization has no channels, are converted to 17 as its documentation advises.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class Samples(CalibrationDataReader):
    def __init__(self, data: str, runs: bool):
        arrays = dict(np.load(data))
        self.samples = self._samples(arrays, runs)

    def _samples(self, arrays: dict[str, np.ndarray], runs: bool) -> Iterator[dict[str, np.ndarray]]:
        for i in range(len(next(iter(arrays.values())))):
            yield {name: np.asarray(rows[i]) if runs else rows[i : i + 1] for name, rows in arrays.items()}

    def get_next(self) -> Any:
        return next(self.samples, None)


model, data, out, method, runs = sys.argv[1:]
newer, prepared = Path(out).with_suffix(".opset.onnx"), Path(out).with_suffix(".prepared.onnx")
source = onnx.load(model)
versions = {opset.domain: opset.version for opset in source.opset_import}
onnx.save(version_converter.convert_version(source, 17) if versions[""] < 13 else source, newer)
quant_pre_process(newer, prepared, skip_symbolic_shape=True)
for per_channel in (True, False):
    try:
        quantize_static(
            prepared,
            out,
            Samples(data, runs == "1"),
            per_channel=per_channel,
            activation_type=QuantType.QUInt8,
            calibrate_method=CalibrationMethod[method],
        )
        break
    except ValueError:  # of its adjustment of biases, for some scales per channel
        if not per_channel:
            raise
