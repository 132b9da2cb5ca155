"""Post-training quantization as a whole process, from the same unfused file, with the same images: each peer and ours.

    python benchmarks/peers.py [ROUNDS [PEER ...]]

Each peer runs in an environment of its own (`environments.py`), by the script that is named after it, with min-max where
it has a choice. Ours is `amct-opt MODEL --profile=... --fuse-all --quantize=observer=minmax -t onnx`, and the same without an
observer, by default: profile `qdq` quantizes every value, as PPQ does, profile `ascend` what convolutions and matrix products
read. All take turns; ratios are ours over the
peer's, round by round, `median (least-most)`. `SQNR` is that of the results for ten samples that calibrated none, of the
quantized file against the float one, both in onnxruntime: none of the speed may be bought with accuracy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import environments
import models
import numpy as np
import process

from amct_opt.support.tables import print_table

ROUNDS = {"onnxruntime": 3, "nncf": 3, "ppq": 1}
MIN_MAX = {"ppq": ("minmax",)}
"""Arguments of the scripts that have a choice."""
NETWORKS = ("resnet50", "mobilenet", "transformer")
HERE = Path(__file__).parent
RESULTS = environments.CACHE / "results"

OURS = {
    "ours, qdq": ("qdq", "observer=minmax"),
    "ours, ascend": ("ascend", "observer=minmax"),
    "ours, qdq by default": ("qdq", ""),
}
"""Profiles and further options of `--quantize`."""
RATIOS = ("wall", "cpu", "peak")
HEADERS = ("model", "of", "wall s", "cpu s", "peak MB", "SQNR dB", "wall, ratio", "cpu, ratio", "peak, ratio")


def ours(profile: str, options: str, model: Path, data: Path, out: Path) -> process.Cost:
    quantize = f"--quantize=data={data} samples={models.CALIBRATION} {options}"
    command = ["-m", "amct_opt.tools.amct_opt", str(model), f"--profile={profile}", "--fuse-all", quantize]
    return process.run([sys.executable, *command, "-t", "onnx", "-o", str(out)])


def theirs(peer: str, python: Path, model: Path, data: Path, out: Path) -> process.Cost:
    script = HERE / f"peer_{peer}.py"
    command = [str(python), str(script), str(model), str(data), str(out), str(models.CALIBRATION)]
    return process.run([*command, *MIN_MAX.get(peer, ())])


def sqnr(model: Path, quantized: Path, data: Path) -> float:
    """In dB, of the held-out images' outputs."""
    reference, values = _outputs(model, data), _outputs(quantized, data)
    return float(10 * np.log10(np.square(reference).sum() / np.square(values - reference).sum()))


def _outputs(model: Path, data: Path) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    rows = np.load(data, mmap_mode="r")
    held_out = (np.ascontiguousarray(rows[i : i + 1]) for i in range(models.CALIBRATION, models.SAMPLES))
    return np.concatenate([np.ravel(np.asarray(session.run(None, {"data": row})[0])) for row in held_out]).astype(
        np.float64
    )


def in_a_process(model: Path, quantized: Path, data: Path) -> str:
    """SQNR as text, or that the file does not run; a process of its own, so that this one stays small."""
    with get_context("spawn").Pool(1) as pool:
        try:
            return f"{pool.apply(sqnr, (model, quantized, data)):.2f}"
        except Exception as e:  # onnxruntime's have no other base
            print(f"{quantized.name} does not run: {str(e).splitlines()[0][:200]}\n")
            return "does not run"


def rows(network: str, peer: str, python: Path, rounds: int) -> list[tuple[str, ...]]:
    """Rows of the table: the peer, and ours with the ratios."""
    model, data = models.network(network), models.samples(network)
    RESULTS.mkdir(exist_ok=True)
    made = [RESULTS / f"{network}.{i}.onnx" for i in range(1 + len(OURS))]
    runs = [partial(theirs, peer, python), *(partial(ours, *options) for options in OURS.values())]
    costs = process.in_turn(rounds, *(partial(run, model, data, out) for run, out in zip(runs, made, strict=True)))
    names = (environments.version_of(peer, python), *OURS)
    shown = [
        (network, name, *_figures(each), in_a_process(model, out, data), *_ratios(each, costs[0]))
        for name, out, each in zip(names, made, costs, strict=True)
    ]
    return [(*shown[0][: -len(RATIOS)], *("" for _ in RATIOS)), *shown[1:]]


def _figures(costs: Sequence[process.Cost]) -> Iterator[str]:
    yield process.spread([c.wall for c in costs]).text()
    yield process.spread([c.cpu for c in costs]).text()
    yield process.spread([c.peak for c in costs]).text(1e6, 0)


def _ratios(costs: Sequence[process.Cost], others: Sequence[process.Cost]) -> Iterator[str]:
    for field in RATIOS:
        yield process.ratios([getattr(c, field) for c in costs], [getattr(c, field) for c in others]).text()


def compare(peer: str, rounds: int) -> None:
    """Every network next to one peer."""
    try:
        python = environments.python_of(peer)
    except environments.NotInstalledError as e:
        print(f"{peer} cannot be installed here: {e}\n", flush=True)
        return
    table: list[tuple[str, ...]] = []
    for network in NETWORKS:
        try:
            table += rows(network, peer, python, rounds)
        except process.FailedError as e:
            print(f"{peer} fails on {network}: {str(e).splitlines()[-1][:120]}\n")
    print_table(f"{peer}, {models.CALIBRATION} samples, {rounds} rounds", HEADERS, table)
    sys.stdout.flush()


def main(rounds: int | None = None, *peers: str) -> None:
    for peer in peers or ROUNDS:
        compare(peer, rounds or ROUNDS[peer])


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else None, *sys.argv[2:])
