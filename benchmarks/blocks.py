"""Weights rounded by each method next to activations of 8 and 4 bits: docs/measured/recovery.md, "Layers rounded together".

    AMCT_ZOO=FOLDER python benchmarks/blocks.py [WIDTH ...]

FOLDER has ResNet-20, `models/resnet20_cifar10.onnx`, and images of CIFAR-10, `data/cifar10_2200.npz`: 200 calibrate and round,
2000 others are measured in onnxruntime. WIDTH is `W4A8`, `W4A4` or `W2A8`; all layers have it, the first and the last as well.
The profile is `ascend`. Options have no weights of 2 bits next to inputs of integers: the bits in plans for 3 are replaced in the
module. `cpu` is the processor time of rounding and writing the file, with one thread (OMP_NUM_THREADS=1), over that of nearest
rounding. Files are kept under `.bench/blocks`, and made again when they are deleted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import environments
import numpy as np
import onnxruntime
import process
import zoo
from tables import Table, update

FOLDER = environments.CACHE / "blocks"
TABLE = Table(
    zoo.HERE.parent / "docs" / "measured" / "recovery.md",
    "layers rounded together",
    "blocks",
    ("width", "method", "right, %", "SQNR dB", "cpu"),
)
WIDTHS = {
    "W4A8": ("weight-bits=4", "weight i4"),
    "W4A4": ("weight-bits=4 bits=4", "weight i4"),
    "W2A8": ("weight-bits=3", "weight i2"),
}
"""Options of the observers, and the weights of the plans in place of those."""
METHODS = ("nearest", "gptq", "adaround", "mismatch", "block")
_OPT = (sys.executable, "-m", "amct_opt.tools.amct_opt")
_MEAN, _DEVIATION = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)


def normalized(images: np.ndarray) -> np.ndarray:
    """Images of bytes as the network reads them."""
    return np.ascontiguousarray(((images.astype(np.float32) / 255 - _MEAN) / _DEVIATION).transpose(0, 3, 1, 2))


def quantized(model: Path, data: Path, width: str, method: str) -> tuple[Path, float]:
    """The file, and the processor time of the last step."""
    folder = FOLDER / f"{width}-{method}"
    file, cost = folder / "model.onnx", folder / "cpu"
    if not cost.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options, weight = WIDTHS[width]
        module = folder / "calibrated.mlir"
        passes = ["--fuse-all", f"--insert-observers={options}", f"--calibrate=data={data}"]
        process.run([*_OPT, str(model), *passes, "-o", str(module)])
        module.write_text(module.read_text("utf-8").replace("weight i3", weight), "utf-8")
        rounding = [] if method == "nearest" else [f"--round-weights={method} data={data}"]
        spent = process.run([*_OPT, str(module), *rounding, "--convert-observers", "-t", "onnx", "-o", str(file)]).cpu
        cost.write_text(str(spent))
    return file, float(cost.read_text())


def main(*widths: str) -> None:
    given = Path(os.environ["AMCT_ZOO"])
    model, arrays = given / "models" / "resnet20_cifar10.onnx", np.load(given / "data" / "cifar10_2200.npz")
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = FOLDER / "calibration.npz"
    np.savez(data, allow_pickle=False, image=normalized(arrays["calibration"]))
    images, labels = normalized(arrays["images"]), arrays["labels"]

    def outputs(file: Path) -> np.ndarray:
        return np.asarray(onnxruntime.InferenceSession(file).run(None, {"image": images})[0])

    def right(scores: np.ndarray) -> str:
        return f"{100 * np.mean(scores.argmax(1) == labels):.1f}"

    exact = outputs(model)
    rows = [("float", "", right(exact), "", "")]
    for width in widths or WIDTHS:
        first = quantized(model, data, width, METHODS[0])[1]
        for method in METHODS:
            file, spent = quantized(model, data, width, method)
            found = outputs(file)
            noise = 10 * np.log10(np.square(exact).sum() / np.square(exact - found).sum())
            rows.append((width, method, right(found), f"{noise:.1f}", f"{spent / first:.1f}"))
            print(" | ".join(rows[-1]), flush=True)
    update(TABLE, rows, [(key,) for key in ("float", *WIDTHS)])


if __name__ == "__main__":
    main(*sys.argv[1:])
