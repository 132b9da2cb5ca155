"""Calibration as a whole process, ours and onnxruntime's: ResNet-50, images of 3x224x224 from a file, from one unfused model.

    python benchmarks/calibration.py [ROUNDS]

Ours is `amct-opt --profile=qdq --fuse-all --quantize=... -t onnx`, with `minmax` and with the observers of histograms; the peer
`quant_pre_process` (without symbolic shape inference, which takes sympy) and `quantize_static`, weights per channel,
MinMax and Percentile; both sides take the percentile 99.999. `float` reads the model and runs the same 100 images in
onnxruntime as it is. All take turns. Wall clock, processor time and peak memory are those of whole processes; ratios are taken
round by round, and printed as `median (least-most)`. SQNR is that of the logits of 10 further images, in onnxruntime. Linux
only.

Where the rest over float inference goes, in processor seconds of 100 images (2026-11-26, onnxruntime 1.32.0, by its profile with
one thread): the runs of float take 8.0, those of min-max 9.5. Convolutions take as long in both; 0.7 are for 70 observed values
that are reordered from the blocks of onnxruntime's convolutions (without blocks convolutions take a fifth longer), 0.5 for their
minima, maxima and sums, 0.4 for additions and Relus that are not fused into a convolution whose result is observed. 2 do not
depend on the number of images: Python and its packages, reading, fusing, the start of onnxruntime, writing. With mse the
observer takes 3.6: 2.8 to count the 16.6 million values of an image in bins (`np.bincount`), 0.5 to find minima and maxima. Whole
processes on a busy machine, of float inference with one thread in the same rounds, in processor time: min-max 1.41 (1.38-1.47),
mse 1.90 (1.84-1.96).

What was tried and is not done (2026-11-26): the maximum of a Relu by GlobalMaxPool, which reads onnxruntime's blocks, its mean by
GlobalAveragePool, and 0 for its minimum save 4 of the 15 ms that observing takes per image: min-max would be at 1.37. If
observing took no time, it would be at about 1.2, for the 2 s that do not depend on the images. Counting 2^16 values of a sample,
at an even step, in place of all saves mse 0.6 s of 20 images, but it moves scales: SQNR changes by 0.00 dB for ResNet-50 with 20
images, -0.19 with 3, +0.5 for an OCR detector with 20, -1.65 for an OCR recognizer with 30. `np.bincount` takes 1.1 to 1.6 ns a
value. Counting 64-bit numbers, counting zeros apart, or counting in four interleaved arrays is not faster overall.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import calibration_memory
import models
import numpy as np
import process

from amct_opt.support.tables import print_table

Array = np.ndarray[Any, np.dtype[Any]]

CALIBRATION, HELD_OUT, FOUR_TIMES = 100, 10, 400
OPSET = 13
ROUNDS = 3
INPUT = calibration_memory.INPUT
OBSERVERS = {"percentile": "percentile{percentile=0.99999}"}
"""With the options that the peer has as its defaults."""
HISTOGRAMS = ("percentile", "kl", "mse", "ifmr", "hfmg")
MEMORY_LIMIT = 600e6

RATIOS = ("wall", "cpu", "peak memory")
TARGETS = {"minmax": (0.55, 0.6, 0.65), "percentile": (0.15, None, None)}


class Files(NamedTuple):
    folder: Path
    model: Path
    data: Path

    def result(self, name: str) -> Path:
        return self.folder / f"{name}.onnx"


def write_model(path: Path) -> None:
    """ResNet-50 with seeded weights, up to the logits, in an opset that has DequantizeLinear per channel."""
    import onnx
    from onnx import version_converter

    calibration_memory.write_model(path)
    model = models.example("light").without_softmax(onnx.load(path))
    onnx.save(version_converter.convert_version(model, OPSET), path)


def ours(files: Files, observer: str, images: int) -> process.Cost:
    quantize = f"--quantize=data={files.data} samples={images} observer={OBSERVERS.get(observer, observer)}"
    command = ["-m", "amct_opt.tools.amct_opt", str(files.model), "--profile=qdq", "--fuse-all", quantize]
    return process.run([sys.executable, *command, "-t", "onnx", "-o", str(files.result(observer)), "--remarks=applied"])


def child(*arguments: object) -> process.Cost:
    return process.run([sys.executable, __file__, *map(str, arguments)])


def peer(method: str, model: str, data: str, result: str) -> None:
    """In a process of its own: onnxruntime's quantization."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.images = images(data, 0, CALIBRATION)

        def get_next(self) -> Any:
            return next(self.images, None)

    prepared = Path(result).with_suffix(".prepared.onnx")
    quant_pre_process(model, prepared, skip_symbolic_shape=True)
    kind = CalibrationMethod[method]
    quantize_static(
        prepared, result, Images(), per_channel=True, calibrate_method=kind, activation_type=QuantType.QInt8
    )


def images(data: str, start: int, count: int) -> Any:
    """Batches of one image."""
    rows = np.load(data, mmap_mode="r")
    return ({INPUT: np.ascontiguousarray(rows[i : i + 1])} for i in range(start, start + count))


def float_runs(model: str, data: str) -> None:
    """In a process of its own: as many inferences as calibration has images."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for batch in images(data, 0, CALIBRATION):
        session.run(None, batch)


def logits(model: Path, data: Path) -> Array:
    """Of the held-out images."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.concatenate(
        [np.asarray(session.run(None, batch)[0]) for batch in images(str(data), CALIBRATION, HELD_OUT)]
    )


def sqnr(reference: Array, values: Array) -> float:
    """In dB."""
    noise = np.square(values.astype(np.float64) - reference).sum()
    return float(10 * np.log10(np.square(reference.astype(np.float64)).sum() / noise))


def in_a_process(action: Callable[..., None], *arguments: object) -> None:
    """So that this process stays small."""
    started = get_context("spawn").Process(target=action, args=arguments)
    started.start()
    started.join()


def print_sqnr(files: Files, names: Sequence[str]) -> None:
    reference = logits(files.model, files.data)
    rows = [(name, f"{sqnr(reference, logits(files.result(name), files.data)):.2f}") for name in names]
    print_table("SQNR of the logits, held-out images", ("result", "dB"), rows)


def compare(files: Files, observer: str, method: str, rounds: int) -> None:
    """One observer next to the peer and float inference."""
    theirs = partial(child, "peer", method, files.model, files.data, files.result(method))
    runs = process.in_turn(
        rounds,
        partial(ours, files, observer, CALIBRATION),
        theirs,
        partial(child, "float", files.model, files.data),
    )
    names = (observer, f"onnxruntime {method}", f"{CALIBRATION} float inferences")
    rows = [
        (
            name,
            process.spread([c.wall for c in costs]).text(),
            process.spread([c.cpu for c in costs]).text(),
            process.spread([c.peak for c in costs]).text(1e6, 0),
        )
        for name, costs in zip(names, runs, strict=True)
    ]
    print_table(f"{observer}, {CALIBRATION} images", ("", "wall s", "cpu s", "peak MB"), rows)
    mine, peers, floats = runs
    fields = ("wall", "cpu", "peak")
    goals = TARGETS[observer]
    ratios = [
        (name, process.ratios([getattr(c, f) for c in mine], [getattr(c, f) for c in peers]).text(), _goal(goal))
        for name, f, goal in zip(RATIOS, fields, goals, strict=True)
    ]
    against_float = process.ratios([c.wall for c in mine], [c.wall for c in floats]).text()
    cpu_float = process.ratios([c.cpu for c in mine], [c.cpu for c in floats]).text()
    last = [("wall, of float inference", against_float, _goal(2.0)), ("cpu, of float inference", cpu_float, "")]
    print_table(f"{observer} / onnxruntime {method}", ("", "ratio", "goal"), [*ratios, *last])


def _goal(limit: float | None) -> str:
    return "" if limit is None else f"<= {limit:g}"


def histograms(files: Files) -> None:
    """Every observer of histograms on 100 and on 400 images, once: time, and memory that does not grow."""
    rows: list[tuple[str, ...]] = []
    for observer in HISTOGRAMS:
        few, many = (ours(files, observer, count) for count in (CALIBRATION, FOUR_TIMES))
        verdict = "" if many.peak <= MEMORY_LIMIT else "too much"
        cells = (f"{c:.2f}" for c in (few.wall, few.cpu, many.wall))
        rows.append((observer, *cells, f"{few.peak / 1e6:.0f}", f"{many.peak / 1e6:.0f}", verdict))
    headers = ("observer", "wall s", "cpu s", "wall s, 400", "peak MB", "peak MB, 400", "")
    print_table(f"observers, {CALIBRATION} and {FOUR_TIMES} images", headers, rows)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = Files(folder, folder / "resnet50.onnx", folder / "images.npy")
        in_a_process(write_model, files.model)
        calibration_memory.write_images(files.data, FOUR_TIMES + HELD_OUT)
        compare(files, "minmax", "MinMax", rounds)
        compare(files, "percentile", "Percentile", 1)
        in_a_process(print_sqnr, files, ("minmax", "MinMax", "percentile", "Percentile"))
        histograms(files)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["peer", method, model, data, result]:
            peer(method, model, data, result)
        case ["float", model, data]:
            float_runs(model, data)
        case [rounds]:
            main(int(rounds))
        case _:
            main(ROUNDS)
