"""Ranges of activations found with float weights, or with quantized ones (`weights-first`), on trained networks.

    PYTHONPATH=benchmarks .venv/bin/python benchmarks/weights_first.py GIVEN [SAMPLES]

GIVEN is the folder of networks and images of `zoo_data.py`. Prints the rows of the table in docs/calibration.md: for each network
and profile the SQNR of the outputs in dB (and right answers in percent where there are labels) on held-out samples, which are
others than the 200 that calibrate.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import zoo_data

from amct_opt import frontends
from amct_opt.flows.network import simplify_and_fuse
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.metrics import Differences
from amct_opt.session.universe import new_session
from amct_opt.support.files import scratch
from amct_opt.transforms.quantization.options import AUTOMATIC, DataOptions, QuantizeOptions, SettingsOptions
from amct_opt.transforms.quantization.quantize import quantize
from amct_opt.transforms.quantization.request import request_of

NETWORKS = ("resnet20", "tiny-resnet8", "tiny-vww", "tiny-kws", "tiny-wake-word", "tiny-anomaly")
BATCH = 50


def quantized(model: Path, profile: str, data: Path, first: bool) -> tuple[Executable, Executable]:
    """The float model and the quantized one."""
    session = new_session()
    session.prints = ()
    session.profile = profile
    module = frontends.read(model, session)
    original = module.clone()
    request = request_of(QuantizeOptions(settings=SettingsOptions(weights_first=first)), session)
    simplify_and_fuse(request, module, session)
    quantize(module, request, DataOptions(str(data)), AUTOMATIC, session)
    return Executable(original), Executable(module)


def main(given: str, count: str = "500") -> None:
    for name in NETWORKS:
        network = zoo_data.NETWORKS[name](Path(given))
        calibration = network.make(np.random.default_rng(1), zoo_data.CALIBRATION_SAMPLES)
        held = network.make(np.random.default_rng(2), int(count))
        with scratch() as folder:
            data = folder / "calibration.npz"
            np.savez(data, **dict[str, Any](calibration.inputs))
            for profile in ("ascend", "qdq"):
                cells: list[str] = []
                for first in (False, True):
                    original, module = quantized(network.model, profile, data, first)
                    total, right = Differences(), 0
                    rows = len(next(iter(held.inputs.values())))
                    for begin in range(0, rows, BATCH):
                        part = {k: v[begin : begin + BATCH] for k, v in held.inputs.items()}
                        expected, found = (next(iter(each.run(part).values())) for each in (original, module))
                        total.add(expected, found)
                        if held.labels:
                            right += int((found.argmax(-1) == held.labels[begin : begin + BATCH]).sum())
                    answers = f"{100 * right / rows:.1f} %, " if held.labels else ""
                    cells.append(f"{answers}{total.result().sqnr:.1f} dB")
                print(
                    f"| {name} | {profile} | {zoo_data.CALIBRATION_SAMPLES} / {rows} | {' | '.join(cells)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
