"""What onnxruntime runs of a quantized file after its own fusions, compared with `quantize_static`: nodes, and latency in turns.

    python benchmarks/fused_nodes.py

The networks are the digits' and, from the folder that AMCT_ZOO names, ResNet-20 and two of MLPerf Tiny. The peer is prepared by
`quant_pre_process` and has weights per channel and activations of uint8. All calibrate by min-max on the same 32 samples, and run
with one thread, one sample at a time. Nodes are those of the model that onnxruntime saves after all of its optimizations.
`faster` is `--faster-than-float`: where it ends with an error, no file with a layer in int8 is faster than float.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import amct_opt
from amct_opt.flows.latency import side_by_side
from amct_opt.support.tables import print_table

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "examples" / "digits"
SAMPLES, TURNS = 32, 500


def networks(folder: Path) -> list[tuple[str, Path, str, Any]]:
    """Names, float ONNX files, their input and its samples."""
    found = [("digits", DIGITS / "digits.onnx", "image", np.load(DIGITS / "calib.npz")["image"][:SAMPLES])]
    if (given := os.environ.get("AMCT_ZOO")) is not None:
        images = np.load(Path(given, "data", "cifar10_2200.npz"))["calibration"][:SAMPLES]
        scaled = (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
        normalized = np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)).astype(np.float32)
        found.append(("ResNet-20", Path(given, "models", "resnet20_cifar10.onnx"), "image", normalized))
        module, session = amct_opt.load(Path(given, "models", "mlperf_tiny", "pretrainedResnet.h5"))
        amct_opt.save(module, folder / "resnet8.onnx", session, "onnx")
        found.append(("ResNet-8", folder / "resnet8.onnx", "input_1", images.astype(np.float32)))
        module, session = amct_opt.load(Path(given, "models", "mlperf_tiny", "vww_96.h5"))
        amct_opt.save(module, folder / "vww.onnx", session, "onnx")
        large = images.repeat(3, 1).repeat(3, 2) / np.float32(255)
        found.append(("visual wake words", folder / "vww.onnx", "input_1", large.astype(np.float32)))
    return found


def theirs(model: Path, name: str, samples: Any, result: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Batches(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> Any:
            sample = next(self.rest, None)
            return None if sample is None else {name: sample[None]}

    prepared = result.with_suffix(".prepared.onnx")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantize_static(str(prepared), str(result), Batches(), per_channel=True, activation_type=QuantType.QUInt8)


def nodes(file: Path, folder: Path) -> Counter[str]:
    """By operator, after all optimizations of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(folder / "fused.onnx"), 3
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "fused.onnx").graph.node)


def main() -> None:
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for title, model, name, samples in networks(folder):
            np.savez(folder / "data.npz", **{name: samples})
            files = {"float": model, "quantize_static": folder / "theirs.onnx"}
            theirs(model, name, samples, files["quantize_static"])
            for profile, faster in (("qdq", False), ("qdq", True), ("ascend", False), ("ascend", True)):
                label = f"ours, {profile}{', faster' if faster else ''}"
                options: dict[str, Any] = {"profile": profile, "observer": "minmax", "faster_than_float": faster}
                try:
                    amct_opt.quantize_file(model, folder / label, folder / "data.npz", **options)
                    files[label] = folder / label / f"{model.stem}_qdq.onnx"
                except amct_opt.CompileError as e:
                    rows.append((title, label, "-", "-", f"error: {e.message.partition(':')[0]}"))
            times = side_by_side({file: {name: samples[:1]} for file in files.values()}, TURNS).models
            for label, file in files.items():
                kinds = nodes(file, folder)
                some = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(4))
                rows.append((title, label, str(sum(kinds.values())), f"{times[file].median * 1e3:.4f}", some))
    print_table("nodes that onnxruntime runs", ("network", "file", "nodes", "median ms", "most of them"), rows)


if __name__ == "__main__":
    main()
