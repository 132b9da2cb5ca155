"""The data that a layer's parameters are fitted to: sums over rows of its inputs in the quantized and in the float network,
and some rows of held-back samples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, chain, islice
from math import inf, isnan
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....backends import HERE, Runner
from .....backends.sharing import shares_of
from .....diagnostics import op_error
from .....dialects.nn import NNOp, QParams
from .....ir.dtypes import integer_range
from .....ir.weights import return_freed_memory
from .....runtime.data import Samples
from .....runtime.kernels import Kernel
from .....runtime.layerwise import Layerwise
from .....runtime.metrics import Differences
from .....session import Session
from ...calibrate.observing import in_batches
from ...decide.sites import graph_points
from .integer_layers import WEIGHT, IntegerLayer
from .rounding import WIDE

Array = np.ndarray[Any, np.dtype[Any]]
Operands = Mapping[int, Array]
"""The operands that a layer reads in place of those of the module, by index."""
Solution = Mapping[str, Array]
"""What is found from the sums of a layer."""
S = TypeVar("S", bound="Summed")

HELD_BACK = 8
"""One run in this many is held back; of fewer, but more than one, the last."""
_ROWS = 1 << 14
"""About how many rows of a layer are summed, but at least `_ROWS_PER_COLUMN` for each column of its weight."""
_ROWS_PER_COLUMN = 8
_ENOUGH = 1 << 11
"""So many rows are summed at once, fewer in layers with fewer columns."""
_FEW = 7
"""Layers of which data has fewer rows per column are fitted to chance."""
_ROWS_HELD = 1 << 11
"""About how many rows of the held-back samples are kept."""
_SHARES = 8
"""Parts of the samples whose sums are added in order, whoever computes them: their number decides how the sums round."""
_TERMS = 64
"""Products over rows have a multiple of so many terms: OpenBLAS cuts others at places that depend on the number of threads."""


class Summed(Protocol):
    """What is added up over the rows of a layer's inputs."""

    def add(self, q: Array, f: Array) -> None:
        """Add rows [G, R, K] of the quantized network, and the same rows of the float network."""
        ...

    def merge(self, other: Self) -> None:
        """Add the sums of other rows."""
        ...


@dataclass
class Sums:
    """Sums over rows of inputs in the quantized network (xq) and, for `matched`, of outputs in the float one (yf). Sums over
    parts of the rows merge.
    """

    h: Array
    """Sums of `xq xqᵀ`: [G, K, K], float64, or float32 for the many columns of wide layers."""
    c: Array | None = None
    """Sums of `xq yfᵀ`: [G, K, M], float64."""
    weights: Array | None = None
    """The float layer's matrices, [G, M, K]: `yf = W xf`."""
    rows: int = 0
    """How many they are."""

    @staticmethod
    def of_inputs(layer: IntegerLayer) -> Sums:
        """Sums of no rows, of the layer's inputs in the quantized network only."""
        groups, _, columns = layer.product.matrices(layer.float_weight).shape
        return Sums.of_none(groups, columns)

    @staticmethod
    def of_both(layer: IntegerLayer) -> Sums:
        """Sums of no rows, of the layer's inputs and of its outputs in the float network."""
        weights = layer.product.matrices(layer.float_weight)
        return Sums.of_none(weights.shape[0], weights.shape[2], weights)

    @staticmethod
    def of_none(groups: int, columns: int, weights: Array | None = None) -> Sums:
        """Sums of no rows; without `weights` those of the quantized network only."""
        h = np.zeros((groups, columns, columns), np.float32 if columns >= WIDE else np.float64)
        if weights is None:
            return Sums(h)
        return Sums(h, np.zeros((groups, columns, weights.shape[1])), weights.astype(np.float32))

    def add(self, q: Array, f: Array) -> None:
        """Products are computed in float32, because there are few rows at a time."""
        before = self.rows
        self.rows += q.shape[1]
        q, f = _filled(q), f if f is q else _filled(f)
        turned = q.swapaxes(1, 2)
        h = turned @ q
        if before or h.shape != self.h.shape:  # the directions of a recurrent layer have the same input
            self.h += h
        else:  # zeros take memory only when something is added to them
            self.h = h.astype(self.h.dtype, copy=False)
        if self.weights is not None:
            self.c += turned @ (f @ self.weights.swapaxes(1, 2))

    @property
    def are_few(self) -> bool:
        """Whether weights that fit these rows may not fit others."""
        return self.rows < _FEW * self.h.shape[-1]

    @contextmanager
    def damped(self, share: float) -> Generator[Sums]:
        """With this share of the diagonal's mean added to it, as if by rows of independent inputs that both networks share. Until
        the end of the context these sums have it as well: a copy of `h` may be large.
        """
        diagonal = np.einsum("gkk->gk", self.h)
        before = diagonal.copy()
        added = share * diagonal.mean(axis=1, dtype=np.float64, keepdims=True)
        diagonal += added
        c = self.c
        if share and c is not None and self.weights is not None:
            c = c + added[..., None] * self.weights.swapaxes(1, 2)
        try:
            yield replace(self, c=c)
        finally:
            diagonal[:] = before

    def of_channels(self, step: int) -> Sums:
        """The sums for every `step`th output channel."""
        if self.c is None or self.weights is None:
            return self
        return replace(self, c=self.c[:, :, ::step], weights=self.weights[:, ::step])

    def merge(self, other: Sums) -> None:
        """Add the sums of other rows."""
        self.rows += other.rows
        self.h += other.h
        if other.c is not None:
            self.c += other.c


@dataclass
class Means:
    """Sums of rows in both networks, whose difference quantization makes. Sums over parts of the rows merge."""

    q: Array
    """Sums of `xq`: float64 [G, K]."""
    f: Array
    """Sums of `xf`: float64 [G, K]."""
    count: int = 0

    @staticmethod
    def of_layer(layer: IntegerLayer) -> Means:
        """Sums of no rows of a layer's inputs."""
        groups, _, columns = layer.product.matrices(layer.float_weight).shape
        return Means.of_none(groups, columns)

    @staticmethod
    def of_none(groups: int, columns: int) -> Means:
        """Sums of no rows."""
        return Means(np.zeros((groups, columns)), np.zeros((groups, columns)))

    def add(self, q: Array, f: Array) -> None:
        self.merge(Means(q.sum(axis=1, dtype=np.float64), f.sum(axis=1, dtype=np.float64), q.shape[1]))

    def merge(self, other: Means) -> None:
        """Add the sums of other rows."""
        self.q += other.q
        self.f += other.f
        self.count += other.count


@dataclass
class Rows:
    """Rows of inputs in the quantized network, and of the layer's outputs in the float one, in parts."""

    q: list[Array]
    """Inputs, float32 [G, R, K]."""
    y: list[Array]
    """Outputs without the bias, float32 [G, R, M]."""

    @staticmethod
    def of(parts: Iterable[tuple[Array, Array]], weights: Array) -> Rows:
        """These parts of inputs in both networks, of which the float one has the weights [G, M, K]."""
        turned, rows = weights.astype(np.float32).swapaxes(1, 2), Rows([], [])
        for q, f in parts:
            rows.q.append(q)
            rows.y.append(f @ turned)
        return rows

    def of_channels(self, step: int) -> Rows:
        """The rows for every `step`th output channel."""
        return Rows(self.q, [y[:, :, ::step] for y in self.y])

    def sqnr(self, weights: Array, shift: Array | float = 0.0) -> float:
        """SQNR in dB of the output of these weights [G, M, K] plus `shift` [G, 1, M] in the quantized network against that of the
        float network; inf if they are equal.
        """
        turned, moved = weights.astype(np.float32).swapaxes(1, 2), np.asarray(shift, np.float32)
        signal = noise = 0.0
        for q, y in zip(self.q, self.y, strict=True):
            difference = y - q @ turned - moved
            signal += float(np.einsum("grm,grm->", y, y, dtype=np.float64))
            noise += float(np.einsum("grm,grm->", difference, difference, dtype=np.float64))
        return decibels(signal, noise)


def decibels(signal: float, noise: float) -> float:
    """The ratio of two energies in dB; inf without noise."""
    if not noise:
        return inf
    return 10 * float(np.log10(signal / noise)) if signal else -inf


class Twins:
    """The quantized network and the float network beside it, over the same batches; both stop before each layer."""

    def __init__(
        self, module: ModuleOp, layers: Iterable[NNOp], parts: Sequence[Samples], folder: Path, *, beside: bool
    ):
        """`layers` in the order of the module. Without `beside` the quantized network is used for both. Large values that wait
        between layers are stored in `folder`.
        """
        layers = list(layers)
        self.quantized: Layerwise = network(module, layers, parts, folder / "quantized", points_of(module))
        """The network whose points round."""
        self.float: Layerwise | None = network(module, layers, parts, folder / "float") if beside else None
        """The network in float."""

    def inputs(self, layer: NNOp) -> Iterator[tuple[Array, Array]]:
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
    layers: Iterable[NNOp],
    parts: Sequence[Samples],
    folder: Path,
    kernels: Mapping[Operation, Kernel] | None = None,
) -> Layerwise:
    """A network that stops before each layer, over all runs of these samples."""
    folder.mkdir()
    return Layerwise(module, layers, chain.from_iterable(part.batches() for part in parts), folder, kernels)


class Wish(NamedTuple):
    """What is summed of the inputs of a layer."""

    make: Callable[[IntegerLayer], Summed]
    """Sums of no rows of the layer."""
    rows: float
    """About how many rows are chosen of each run."""

    def sums(self, inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, first: int) -> Summed:
        """The sums of these inputs, which are those of the runs from number `first` on.

        Raises CompileError, located at the layer, for NaN and Inf.
        """
        sums = self.make(layer)
        waiting: list[tuple[Array, Array]] = []
        for each in rows_of(inputs, layer, self.rows, first):
            waiting.append(each)
            if sum(q.shape[1] for q, _ in waiting) >= min(each[0].shape[2], _ENOUGH):
                _add(waiting, sums)
        _add(waiting, sums)
        return sums


class Elsewhere(Protocol):
    """Workers that run the networks over the samples that are summed."""

    def solved(
        self, number: int, wish: Wish, changed: Callable[[int], Operands], solve: Callable[[Any], Solution]
    ) -> Solution:
        """What `solve` makes of the sums of the layer with this number; `changed` gives the operands of those before it."""
        ...


class Networks:
    """The quantized network and the float network beside it; both stop before each layer."""

    def __init__(
        self,
        module: ModuleOp,
        layers: Sequence[IntegerLayer],
        samples: Samples,
        folder: Path,
        session: Session,
        runner: Runner = HERE,
        *,
        work: str,
        beside: bool,
    ):
        """`layers` in the order of the module. `work` names what is solved. `beside` is false if the float network is not needed:
        then the quantized one is used for both. A cluster of `runner` runs the networks over the samples that are not held back.
        """
        fit, held = split(samples)
        self.held_back: int = 0 if held is None else held.count
        """The number of samples that are held back from the sums."""
        self._numbers = {layer.compute: i for i, layer in enumerate(layers)}
        self._shares = shares_of(in_batches(module, [], fit), fewest=1, most=_SHARES)
        self._fit = sum(share.runs for share in self._shares)
        self._held = None if held is None else in_batches(module, [], held)
        self._elsewhere: Elsewhere | None = None
        self._changes: dict[int, Operands] = {}  # for workers that begin anew
        here = [*self._shares, *([] if self._held is None else [self._held])]
        if runner.cluster is not None and self._held is not None:
            from .....backends.data_hash import digest_of
            from .shared_sums import SharedSums

            here = here[-1:]
            key = lambda: (work, digest_of(fit, session, runner.cluster), self._shares[0].batch_size)  # noqa: E731
            self._elsewhere = SharedSums(runner, module, self._shares, session, len(layers), key, beside=beside)
        self._runs = sum(part.runs for part in here)
        computes = list(self._numbers)
        self._twins = Twins(module, computes, here, folder, beside=beside)
        self._exact = self._twins.float or network(module, computes, here[-1:], folder / "exact")
        self._before = network(module, computes, here[-1:], folder / "before", points_of(module))
        for layer in layers:
            self._exact.operands[layer.compute][WEIGHT] = layer.float_weight

    def change(self, layer: IntegerLayer, operands: Operands) -> None:
        """From here on the quantized network reads these operands of the layer in place of the module's."""
        self._twins.quantized.operands[layer.compute].update(operands)
        if self._elsewhere is not None:
            self._changes[self._numbers[layer.compute]] = operands

    def solved(
        self,
        layer: IntegerLayer,
        weights: Array,
        make: Callable[[IntegerLayer], S],
        solve: Callable[[S, Rows], Solution],
    ) -> tuple[Solution, Rows]:
        """What `solve` makes of the sums of the inputs of a layer, beginning with those that `make` gives, and of rows of samples
        that are not in the sums or, of a single run, of those that are. `weights` are the layer's matrices in the float network.
        Layers must be requested in order. A checkpoint of the cluster's work keeps what is solved.

        Also returns these rows. Raises CompileError, located at the layer, for NaN and Inf.
        """
        inputs = self._twins.inputs(layer.compute)
        wish = Wish(make, max(_ROWS, _ROWS_PER_COLUMN * weights.shape[2]) / self._fit)
        for _ in self._before.inputs(layer.compute):  # what it reads of the layers before is not kept until the end
            pass
        if self._held is None:
            kept = list(inputs)
            held = Rows.of(rows_of(kept, layer, wish.rows, 0), weights)
            return solve(merged_sums([wish.sums(kept, layer, 0)]), held), held
        wanted = _ROWS_HELD / self._held.runs
        if self._elsewhere is not None:
            held = Rows.of(rows_of(inputs, layer, wanted, self._fit), weights)
            number = self._numbers[layer.compute]
            changed = self._changes.__getitem__
            return self._elsewhere.solved(number, wish, changed, lambda sums: solve(sums, held)), held
        firsts = accumulated(self._shares)
        sums = merged_sums(
            wish.sums(islice(inputs, share.runs), layer, first)
            for share, first in zip(self._shares, firsts, strict=True)
        )
        held = Rows.of(rows_of(inputs, layer, wanted, self._fit), weights)
        return_freed_memory()  # of the networks and the sums
        return solve(sums, held), held

    @property
    def unchanged(self) -> Mapping[Operation, dict[int, Array]]:
        """The operands that the quantized network would read if no layer changed."""
        return self._before.operands

    def lost(self) -> str | None:
        """The reason why the layers are not to change: on average the outputs of the quantized network come no closer to those of
        the float network, on the same samples as `summed` returns; None if they do. Comes behind the last layer.
        """
        held = self._runs - self._before.batches
        before, after = dict[str, Differences](), dict[str, Differences]()
        each = (self._exact.outputs(held if self._exact is self._twins.float else 0), self._before.outputs())
        for exact, old, new in zip(*each, self._twins.quantized.outputs(held), strict=True):
            for name, array in exact.items():
                if array.dtype.kind not in "iub":
                    before.setdefault(name, Differences()).add(array, old[name])
                    after.setdefault(name, Differences()).add(array, new[name])
        gains = {name: after[name].sqnr - old.sqnr for name, old in before.items()}
        gains = {name: gain for name, gain in gains.items() if not isnan(gain)}
        if not gains or sum(gains.values()) >= 0:
            return None
        worst = min(gains, key=lambda name: gains[name])
        sqnr = f"{after[worst].sqnr:.2f} dB, without it {before[worst].sqnr:.2f} dB"
        return f"with it output {worst} of the quantized model has {sqnr}{self.measured}"

    @property
    def measured(self) -> str:
        """The data that errors are measured on, as the last words of a remark."""
        return measured_on(self.held_back)


def accumulated(shares: Sequence[Samples]) -> list[int]:
    """The number of the first run of each share."""
    return [0, *accumulate(share.runs for share in shares[:-1])]


def rows_of(
    inputs: Iterable[tuple[Array, Array]], layer: IntegerLayer, wanted: float, first: int
) -> Iterator[tuple[Array, Array]]:
    """About so many rows of each run's inputs in both networks. `first` is the number of the first run, by which rows are chosen.

    Raises CompileError, located at the layer, for NaN and Inf.
    """
    product = layer.product
    for i, (q, f) in enumerate(inputs, first):
        places, rows_each = product.places(q)
        chosen = some_of(places, wanted / rows_each, i)
        rows = product.rows(q, chosen)
        beside = rows if f is q else product.rows(f, chosen)
        if not (np.isfinite(rows).all() and np.isfinite(beside).all()):
            message = "has NaN or Inf in its input"
            raise op_error(layer.compute, message, "look for an overflow in the model or its data")
        yield rows, beside


def merged_sums(parts: Iterable[Any]) -> Any:
    """The sums of all parts, added in their order to the first."""

    def added(total: Summed, part: Summed) -> Summed:
        total.merge(part)
        return total

    return reduce(added, parts)


def _filled(rows: Array) -> Array:
    """Rows with zeros behind them, up to a multiple of `_TERMS`."""
    missing = -rows.shape[1] % _TERMS
    return np.pad(rows, ((0, 0), (0, missing), (0, 0))) if missing else rows


def _add(waiting: list[tuple[Array, Array]], sums: Summed) -> None:
    """Add rows that waited until they are as many as columns, or many: their product costs more than adding it to the sums."""
    if waiting:
        q = np.concatenate([each for each, _ in waiting], axis=1)
        same = all(f is each for each, f in waiting)
        sums.add(q, q if same else np.concatenate([f for _, f in waiting], axis=1))
        waiting.clear()


def measured_on(count: int) -> str:
    """The last words of a remark with errors that are measured on so many samples held back, if there are any."""
    return f" (on {count} sample{'' if count == 1 else 's'} held back)" if count else ""


def split(samples: Samples) -> tuple[Samples, Samples | None]:
    """The samples to sum, and those to hold back."""
    back = max(samples.runs // HELD_BACK, int(samples.runs > 1)) * samples.batch_size
    return (samples.head(samples.count - back), samples.tail(back)) if back else (samples, None)


def some_of(places: int, wanted: float, seed: int) -> Array:
    """About as many places as wanted, in any order: random, but the same ones each time."""
    count = min(places, max(1, round(wanted)))
    if count == places:
        return np.arange(places)
    return np.random.default_rng(seed).choice(places, count, replace=False)


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
