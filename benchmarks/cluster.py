"""Calibration on clusters: measured with one and two workers, simulated for up to 1,000; writes the tables of docs/cluster.md.

    python benchmarks/cluster.py [IMAGES]

The network is ResNet-50 with seeded weights, the data are shards of images of 3x224x224, the observer is mse, in one pass.
Measured are the costs, in processor time, of one image, of the states of a share and their merging, of the model and its sending,
and of the hash of the data, which workers compute before the pass. One pass over IMAGES (default 64) by one and by two
processes, without the hash, is below.

The simulation hands out the shares to workers that are free; their states wait in a queue for the process that asks, which
receives and merges one after the other. The model goes from worker to worker, so that their number doubles each time. With a tree
of merges workers merge states in pairs, and only the last one is received. `NETWORK` and `PRICE` are assumptions.
"""

from __future__ import annotations

import heapq
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from typing import Any

import calibration_memory
import numpy as np
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.data import Samples, load_samples
from amct_opt.data.samples import BLOCK
from amct_opt.engines import Runner
from amct_opt.engines.cluster import client
from amct_opt.engines.sharing import packed, shares_of
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass
from amct_opt.session import Session
from amct_opt.transforms.quantization.calibrate import calibrate, points_to_calibrate
from amct_opt.transforms.quantization.calibrate.observing import observations
from amct_opt.transforms.quantization.calibrate.shares import Model, merge_states, states_seen

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cluster.md"
IMAGES, PER_SHARD = 64, 16
MILLIONS = 10_000_000
NETWORK = 1.25e9
"""Bytes per second of one connection: 10 Gbit/s."""
PRICE = 0.05
"""Of a core for an hour, in dollars."""
WORKERS = (1, 2, 10, 30, 100, 200, 300, 500, 1000)


@dataclass(frozen=True)
class Costs:
    """Processor seconds and bytes."""

    image: float
    image_bytes: int
    hashed: float
    """Reading and hashing one image."""
    model_bytes: int
    load: float
    """Loading the model in a worker."""
    state_bytes: int
    merge: float
    """Receiving, unpacking and merging the states of a share, without the network."""


def main(images: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        module, session, samples = prepared(Path(folder), images)
        costs = measured(module, session, samples)
        seconds = {workers: pass_by(workers, module, session, samples) for workers in (1, 2)}
    text = "\n".join([*measurements(costs, seconds, images), "", *table(costs), "", *on_paper(costs)])
    print(text)
    write(text)


def write(text: str) -> None:
    """Put the tables into the page."""
    head, begin, rest = PAGE.read_text("utf-8").partition("<!-- begin simulation (generated) -->\n")
    _, end, tail = rest.partition("<!-- end simulation -->")
    PAGE.write_text(f"{head}{begin}{text}\n{end}{tail}", "utf-8")


def prepared(folder: Path, images: int) -> tuple[ModuleOp, Session, Samples]:
    """The fused network with observers, and its samples in shards."""
    calibration_memory.write_model(folder / "model.onnx")
    rng = np.random.default_rng(0)
    (folder / "shards").mkdir()
    for i in range(0, images, PER_SHARD):
        batch = rng.normal(size=(min(PER_SHARD, images - i), 3, 224, 224)).astype(np.float32)
        named: Any = {calibration_memory.INPUT: batch}
        np.savez(folder / "shards" / f"{i:06}.npz", **named)
    module, session = amct_opt.load(folder / "model.onnx")
    amct_opt.run_pipeline(module, ["fuse", make_pass("insert-observers", "observer=mse")], session)
    return module, session, load_samples(folder / "shards", main_function(module))


def measured(module: ModuleOp, session: Session, samples: Samples) -> Costs:
    start = time.process_time()
    samples.digest()
    hashed = (time.process_time() - start) / samples.count
    share = shares_of(samples)[0]
    model = Model(packed(module, session, "local:1"), 0, [], Runner("onnxruntime", threads=1))
    one, whole = (timed(model, replace(share, count=count)) for count in (1, share.count))
    image = (whole - one) / (share.count - 1)
    states = states_seen(model, share)
    sent = pickle.dumps(states)
    observed = observations(points_to_calibrate(module.clone()), session)
    start = time.process_time()
    for _ in range(20):
        merge_states(observed, 0, pickle.loads(sent))
    merge = (time.process_time() - start) / 20
    size = sum(array.nbytes for array in share.arrays().values()) // share.count
    assert isinstance(model.module.arrays, bytes)
    model_bytes = len(model.module.text) + len(model.module.arrays)
    return Costs(image, size, hashed, model_bytes, max(one - image, 0), len(sent), merge)


def timed(model: Model, share: Samples) -> float:
    """Processor seconds of a share in a worker that has read the module; onnxruntime loads it for each share."""
    states_seen(model, replace(share, count=1))
    start = time.process_time()
    states_seen(model, share)
    return time.process_time() - start


def pass_by(workers: int, module: ModuleOp, session: Session, samples: Samples) -> float:
    """Seconds of a pass by this many processes, which are running and have loaded the module before."""
    name = f"local:{workers}"
    client(name)
    runner = Runner("onnxruntime", cluster=name)
    first = replace(samples, count=shares_of(samples)[0].count)
    for part in (first, samples):
        copy = module.clone()
        start = time.perf_counter()
        calibrate(copy, points_to_calibrate(copy), part, session, runner)
    seconds = time.perf_counter() - start
    client(name).cluster.close()
    return seconds


def simulated(costs: Costs, workers: int, images: int, share: int, *, tree: bool) -> float:
    """Seconds of a pass, without the hash of the data."""
    begun = (1 + ceil(log2(workers)) if workers > 1 else 1) * costs.model_bytes / NETWORK + costs.load
    free = [begun] * workers
    sizes = [min(share, images - i) for i in range(0, images, share)]
    received, ends = 0.0, list[float]()
    for size in sizes:
        end = heapq.heappop(free) + costs.load + size * (costs.image + costs.image_bytes / NETWORK)
        heapq.heappush(free, end)
        ends.append(end)
    one = costs.state_bytes / NETWORK + costs.merge
    if tree:
        return max(ends) + (ceil(log2(workers)) + 1) * one
    for end in sorted(ends):
        received = max(received, end) + one
    return received


def measurements(costs: Costs, seconds: dict[int, float], images: int) -> list[str]:
    rows = [
        ("an image, in one thread of onnxruntime", f"{costs.image * 1e3:.0f} ms, {costs.image_bytes / 1e3:,.0f} kB"),
        ("reading and hashing an image", f"{costs.hashed * 1e3:.2f} ms"),
        ("the model", f"{costs.model_bytes / 1e6:.0f} MB; {costs.load:.1f} s until it runs"),
        ("the states of a share", f"{costs.state_bytes / 1e3:.0f} kB; {costs.merge * 1e3:.1f} ms to unpack and merge"),
        (f"a pass over {images} images, 1 worker", f"{seconds[1]:.1f} s"),
        (f"a pass over {images} images, 2 workers", f"{seconds[2]:.1f} s, {seconds[1] / seconds[2]:.2f} times as fast"),
        ("the machine meanwhile", f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.0f}"),
    ]
    return ["| measured | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)]


def table(costs: Costs) -> list[str]:
    """A pass over ten million images."""
    share = ceil(MILLIONS / 1000)
    alone = simulated(costs, 1, MILLIONS, share, tree=False)
    lines = [
        "| workers | hours | speed-up | with a tree of merges | with 10 times as many shares | and the hash of the data |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for workers in WORKERS:
        plain, tree = (simulated(costs, workers, MILLIONS, share, tree=each) for each in (False, True))
        fine = simulated(costs, workers, MILLIONS, ceil(share / 10), tree=False)
        hashed = fine + ceil(1000 / workers) * share * (costs.hashed + costs.image_bytes / NETWORK)
        hours = (f"{each / 3600:,.2f}" for each in (tree, fine, hashed))
        lines.append(f"| {workers:,} | {plain / 3600:,.2f} | {alone / plain:,.0f} | {' | '.join(hours)} |")
    return lines


def on_paper(costs: Costs) -> Sequence[str]:
    cores = MILLIONS * costs.image / 3600
    read = MILLIONS * costs.image_bytes / 1e12
    states = 1000 * costs.state_bytes / 1e6
    models = 1000 * costs.model_bytes / 1e9
    hashing = MILLIONS * (costs.hashed + costs.image_bytes / NETWORK) / 3600
    hashes = MILLIONS / BLOCK * 32 / 1e6
    merging = 1000 * (costs.state_bytes / NETWORK + costs.merge) / 3600
    return [
        f"Ten million images are {cores:,.0f} core hours ({cores * PRICE:,.0f} dollars at {PRICE} an hour).",
        f"Workers read {read:.1f} TB of data, and once more before that for the hash, which takes {hashing:.1f} worker hours;",
        f"{hashes:.0f} MB of hashes come back.",
        f"To 1,000 workers the model is {models:.0f} GB, and {states:,.0f} MB of states of 1,000 shares come back. To merge",
        f"them takes {merging * 3600:.0f} s, while workers compute: as long as the pass at {cores / merging:,.0f} workers.",
        "A tree of merges saves the wait for the last ones only. Where speed-ups are below the number of workers, that number",
        "does not divide that of the shares.",
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
