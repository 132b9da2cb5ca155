"""Pairs of networks that stop before each layer: the quantized one and the float one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....data import Samples
from .....dialects.nn import QParams
from .....ir.array import Array
from .....ir.dtypes import integer_range
from .....runtime.kernels import Kernel
from .....runtime.layerwise import Layerwise
from ...decide.sites import graph_points

Operands = Mapping[int, Array]
"""The operands that a layer reads in place of those of the module, by index."""
Solution = Mapping[str, Array]
"""The solution of a layer from its sums: arrays by name."""


class Twins:
    """The quantized network and the float network, over the same batches; both stop before each layer."""

    def __init__(
        self, module: ModuleOp, layers: Iterable[Operation], parts: Sequence[Samples], folder: Path, *, beside: bool
    ):
        """`layers` in the order of the module. Without `beside` the quantized network is used for both. Large values that wait
        between layers are stored in `folder`.
        """
        layers = list(layers)
        self.quantized: Layerwise = network(module, layers, parts, folder / "quantized", points_of(module))
        """The network whose points round."""
        self.float: Layerwise | None = network(module, layers, parts, folder / "float") if beside else None
        """The network in float."""

    def inputs(self, layer: Operation) -> Iterator[tuple[Array, Array]]:
        """The inputs of each batch in both networks; the float one computes its next batch meanwhile, in a thread."""
        if self.float is None:
            yield from ((q, q) for q in self.quantized.inputs(layer))
            return
        exact = self.float.inputs(layer)
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(next, exact, None)
            for q in self.quantized.inputs(layer):
                f = coming.result()
                assert f is not None, "both networks read the same batches"
                coming = ahead.submit(next, exact, None)
                yield q, f


def network(
    module: ModuleOp,
    layers: Iterable[Operation],
    parts: Sequence[Samples],
    folder: Path,
    kernels: Mapping[Operation, Kernel] | None = None,
) -> Layerwise:
    """A network that stops before each layer, over all runs of these samples."""
    folder.mkdir()
    return Layerwise(module, layers, chain.from_iterable(part.batches() for part in parts), folder, kernels)


def accumulated(shares: Sequence[Samples]) -> list[int]:
    """The number of the first run of each share."""
    return [0, *accumulate(share.runs for share in shares[:-1])]


def points_of(module: ModuleOp) -> Mapping[Operation, Kernel]:
    """Kernels that make points round as the later quantize and dequantize will."""
    return {op: rounding_by(op.qparams.data) for op in graph_points(module) if op.qparams is not None}


def rounding_by(params: QParams) -> Callable[[Array], Array]:
    """A kernel that rounds to the numbers of a point."""
    scale, zero_point = params.scales(), np.float32(params.zero_points())
    low, high = (np.float32(end) - zero_point for end in integer_range(params.storage))

    def run(x: Array) -> Array:
        y = np.asarray(np.divide(x.astype(np.float32, copy=False), scale))
        np.rint(y, out=y)
        np.clip(y, low, high, out=y)
        y *= scale
        return y.astype(x.dtype, copy=False)

    return run
