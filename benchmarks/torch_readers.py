"""Two roads from PyTorch to `nn`, for the table of docs/pytorch.md: torch's exporter to ONNX, and core ATen.

    python benchmarks/torch_readers.py

The networks are those of the tests. The first road is `amct_opt.load`. The second road takes the program apart into core ATen
(`run_decompositions`) first. The exporter then translates one operator at a time, as a reader of core ATen would do. Each cell
has the figures of both roads, the exporter first. Seconds are the least of three runs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tables import Row, Table, update
from torch import nn

import amct_opt
from amct_opt.dialects.nn import ConstantOp, MovingOp, NNOp, OpaqueOp
from amct_opt.ir.functions import input_names, main_function

ROOT = Path(__file__).resolve().parents[1]
ROADS = Table(
    ROOT / "docs" / "pytorch.md",
    "roads from PyTorch",
    Path(__file__).stem,
    ("network", "operators", "kinds", "layers", "taken apart", "difference", "seconds"),
)
RUNS = 3


class Road(NamedTuple):
    """What one road makes of a network."""

    operators: Counter[str]
    """Operators in the program, which the road has to translate."""
    layers: Counter[str]
    """Operations of the fused module by kind, except those that only move elements."""
    difference: float
    """The largest difference from torch's output, relative to the largest output."""
    seconds: float
    """Time from the traced program to the module in `nn`."""


def road(program: Callable[[], Any], model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Road:
    """Imports a program, compares its output with that of its model, and fuses it."""
    start = time.perf_counter()
    prepared = program()
    module, session = amct_opt.load(prepared)
    seconds = time.perf_counter() - start
    given = {name: x.numpy() for name, x in zip(input_names(main_function(module)), inputs, strict=True)}
    found = amct_opt.execute(module, given)["output"]
    with torch.no_grad():
        expected = model(*inputs).numpy()
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    operators = Counter(str(node.target) for node in prepared.graph.nodes if node.op == "call_function")
    session.profile = "qdq"
    amct_opt.run_pipeline(module, "fuse", session)
    kinds = Counter(map(kind, layers(module)))
    return Road(operators, kinds, difference, seconds)


def layers(module: Any) -> Iterator[NNOp]:
    for op in module.walk():
        if isinstance(op, NNOp) and not isinstance(op, ConstantOp | MovingOp):
            yield op


def kind(op: NNOp) -> str:
    return op.op_type.data if isinstance(op, OpaqueOp) else op.name.removeprefix("nn.")


def both(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Road, Road]:
    """The exporter, and core ATen."""
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    return fastest(lambda: program, model, inputs), fastest(program.run_decompositions, model, inputs)


def fastest(program: Callable[[], Any], model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Road:
    return min((road(program, model, inputs) for _ in range(RUNS)), key=lambda each: each.seconds)


def row(name: str, exporter: Road, core: Road) -> Row:
    apart = exporter.layers - core.layers
    return (
        name,
        f"{exporter.operators.total()} / {core.operators.total()}",
        f"{len(exporter.operators)} / {len(core.operators)}",
        f"{exporter.layers.total()} / {core.layers.total()}",
        ", ".join(f"{count} {kind}" for kind, count in apart.items()) or "none",
        f"{exporter.difference:.0e} / {core.difference:.0e}",
        f"{exporter.seconds:.1f} / {core.seconds:.1f}",
    )


def together(roads: list[Road]) -> Road:
    """The figures of all networks: sums, and the largest difference."""
    operators, kinds = Counter[str](), Counter[str]()
    for each in roads:
        operators += each.operators
        kinds += each.layers
    difference, seconds = max(each.difference for each in roads), sum(each.seconds for each in roads)
    return Road(operators, kinds, difference, seconds)


def main() -> None:
    sys.path.insert(0, str(ROOT / "test" / "unit" / "frontends" / "torch"))
    from networks import NETWORKS, network  # pyright: ignore[reportMissingImports]

    order = [(name,) for name in (*NETWORKS, "all")]
    roads: list[tuple[Road, Road]] = []
    for name in NETWORKS:
        roads.append(both(*network(name)))
        print(" | ".join(row(name, *roads[-1])), flush=True)
        update(ROADS, [row(name, *roads[-1])], order)
    update(ROADS, [row("all", *map(together, map(list, zip(*roads, strict=True))))], order)


if __name__ == "__main__":
    main()
