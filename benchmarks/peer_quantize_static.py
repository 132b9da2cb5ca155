"""Run by the interpreter of onnxruntime's environment: MODEL DATA OUT COUNT [Percentile]. Min-max, or another method. Weights get
a scale per channel, or one scale where quantize_static fails with channels.

Models of opsets below 13, whose quantization has no channels, are converted to 17 as its
documentation advises.
"""

import sys
from pathlib import Path
from typing import Any

import onnx
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from peer_samples import reader


class Samples(CalibrationDataReader):
    def __init__(self) -> None:
        self.samples = map(reader(source, data), range(int(count)))

    def get_next(self) -> Any:
        return next(self.samples, None)


model, data, out, count, *method = sys.argv[1:]
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
            Samples(),
            per_channel=per_channel,
            activation_type=QuantType.QUInt8,
            calibrate_method=CalibrationMethod[next(iter(method), "MinMax")],
        )
        break
    except ValueError:  # of its adjustment of biases, for some scales per channel
        if not per_channel:
            raise
