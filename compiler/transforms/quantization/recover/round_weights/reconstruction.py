"""Rounds the weights of a block together, each up or down, so that the block's output in the quantized network comes closest to
the float network's: by gradient, in PyTorch. Importing it imports torch.

Li et al., "BRECQ: Pushing the Limit of Post-Training Quantization by Block Reconstruction" (2021). Half of the values, chosen by
chance in each step, are not quantized meanwhile: Wei et al., "QDrop" (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from math import cos, pi
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from .....dialects.nn import ObserveOp, OpaqueOp, QParams
from .....engines.in_torch import torch_function
from .....ir.array import Array
from .....ir.dtypes import integer_range
from .blocks import Block
from .integer_layers import WEIGHT, IntegerLayer
from .rounding import factored, matched, rounded, with_least_error
from .sums import Energies, Sums, Wish

torch: Any = import_module("torch")
Tensor = Any
Values = Mapping[int, Tensor]
Change = Callable[[Tensor], Tensor]

STEPS = 300
"""The number of steps."""
BATCH = 32
"""Approximate number of samples in a step."""
_RATE, _SCALE_RATE = 0.05, 0.005
"""Adam's rates, of the variables of rounding and of the logarithms of scales; the latter falls to 0."""
_DROPPED = 0.5
"""The share of values that are not quantized in a step."""
_DECIDING = 100.0
"""The weight of the term that drives each rounding to one of its ends, next to the error relative to the first one."""
_WARM_UP = 0.2
"""The share of steps before that term."""
_BETA = 20.0, 2.0
"""Its exponent at the beginning and in the end."""
_STRETCH = 1.2
"""The sigmoid is stretched to [-0.1, 1.1] and cut to [0, 1], so that it reaches both ends."""
_BEGIN = 0.1
"""How far from its end each rounding begins."""
_DAMPING = 0.3
"""The share of further damping where rows are few: no samples choose it."""
_SUMMED = 1 << 14
"""Approximate number of rows of a layer by which its first scales are chosen."""


def lacking(block: Block) -> Operation | None:
    """The first operation of a block that PyTorch does not compute in float32, or that `nn` carries."""
    return next((row.op for row in block.rows if isinstance(row.op, OpaqueOp) or torch_function(row.op) is None), None)


class Reconstruction:
    """A block, and what it reads and computes in both networks."""

    def __init__(
        self,
        block: Block,
        constants: Mapping[int, Array],
        layers: Mapping[Operation, IntegerLayer],
        runs: Iterable[tuple[Array, Array]],
        fit: int,
    ):
        """`layers` are all layers with integer weights; those that the block does not list stay as they are. `runs` are what it
        reads in the quantized and in the float network. The first `fit` of them choose integers, the others judge; if there are
        no others, all do.
        """
        inside = [layers[row.op] for row in block.rows if row.op in layers]
        read = {slot for row in block.rows for slot in row.operands}
        self._block = block
        self._functions: dict[Operation, Any] = {row.op: torch_function(row.op) for row in block.rows}
        self._constants = {slot: torch.from_numpy(np.array(constants[slot])) for slot in read if slot in constants}
        self._own = [layer for layer in inside if layer.compute in block.layers]
        points = (row.op for row in block.rows if isinstance(row.op, ObserveOp))
        self._points: dict[Operation, Change] = {
            op: _rounding(op.qparams.data) for op in points if op.qparams is not None
        }
        self._weights: dict[Operation, Tensor] = {layer.compute: _tensor(layer.operands()[WEIGHT]) for layer in inside}
        """The weights in the quantized network."""
        self._float: dict[Operation, Tensor] = {layer.compute: _tensor(layer.float_weight) for layer in inside}
        with torch.no_grad():
            read_by = [(_tensor(q), _tensor(f)) for q, f in runs]
            made = [_Run(q, f, self._output(f, self._float, {})) for q, f in read_by]
            self._rows = self._has_rows(made)
        parts = (made[:fit], made[fit:] or made)
        self._fitted, self._held = map(_together, parts) if self._rows else parts

    def solved(self) -> Found:
        """Rounds the layers one after the other by `mismatch`, then all of them together from there on."""
        before = self._energies(self._held)
        roundings: dict[Operation, _Rounding] = {}
        for layer in self._own:
            roundings[layer.compute] = each = _Rounding(layer, self._sums(layer))
            self._weights[layer.compute] = each.start
        first = {op: each.solution for op, each in roundings.items()}
        start, noise = self._energies(self._held), self._energies(self._fitted).noise
        if noise:
            self._descend(roundings, noise / sum(run.target.numel() for run in self._fitted))
            self._weights.update({op: each.decided for op, each in roundings.items()})
        after = self._energies(self._held)
        if not after.noise < start.noise:
            return Found(first, before, start, "mismatch")
        return Found({op: each.solution for op, each in roundings.items()}, before, after, "block")

    def _values(self, x: Tensor, weights: Mapping[Operation, Tensor], points: Mapping[Operation, Change]) -> Values:
        """All values inside, by slot."""
        values = {**self._constants, self._block.input: x}
        for row in self._block.rows:
            operands = [values[slot] for slot in row.operands]
            if row.op in weights:
                operands[WEIGHT] = weights[row.op]
            change = points.get(row.op)
            found = self._functions[row.op](*operands) if change is None else change(*operands)
            values.update(zip(row.results, [found] if isinstance(found, torch.Tensor) else found, strict=True))
        return values

    def _output(self, x: Tensor, weights: Mapping[Operation, Tensor], points: Mapping[Operation, Change]) -> Tensor:
        return self._values(x, weights, points)[self._block.output]

    def _has_rows(self, runs: Sequence[_Run]) -> bool:
        """Whether the first axis is that of samples, so that some of all runs can be computed together."""
        shapes = {(run.f.shape[1:], run.target.shape[1:]) for run in runs if run.f.ndim and run.target.ndim}
        if len(shapes) != 1 or any(run.f.shape[:1] != run.target.shape[:1] for run in runs):
            return False
        ends = runs[0], runs[-1]
        try:
            together = self._output(torch.cat([run.f[:1] for run in ends]), self._float, {})
        except (RuntimeError, ValueError, VerifyException):  # the size of one sample is written into an operation
            return False
        alone = torch.cat([run.target[:1] for run in ends])
        return together.shape == alone.shape and torch.allclose(together, alone, 1e-3, 1e-4 * float(alone.abs().max()))

    @torch.no_grad()
    def _energies(self, runs: Sequence[_Run]) -> Energies:
        """Those of the output in the quantized network."""
        found = Energies()
        for run in runs:
            error = self._output(run.q, self._weights, self._points) - run.target
            found.merge(Energies(*(float(x.double().square().sum()) for x in (run.target, error))))
        return found

    def _sums(self, layer: IntegerLayer) -> Sums:
        """Sums of what a layer reads in the quantized network."""
        row = next(row for row in self._block.rows if row.op is layer.compute)

        @torch.no_grad()
        def inputs() -> Iterator[tuple[Array, Array]]:
            for run in self._fitted:
                q = self._values(run.q, self._weights, self._points)[row.operands[0]].numpy()
                yield q, self._values(run.f, self._float, {})[row.operands[0]].numpy()

        summed = Wish(Sums.of_both, _SUMMED / len(self._fitted)).sums(inputs(), layer, 0)
        assert isinstance(summed, Sums)
        return summed

    def _descend(self, roundings: Mapping[Operation, _Rounding], unit: float) -> None:
        """Change roundings and scales by the gradient of the output's error, relative to this one of a number."""
        chance = torch.Generator().manual_seed(0)
        each = list(roundings.values())
        scales = [one.factor for one in each if one.factor.requires_grad]
        groups = [{"params": [one.up for one in each], "lr": _RATE}, {"params": scales, "lr": _SCALE_RATE}]
        adam = torch.optim.Adam([group for group in groups if group["params"]])
        points: dict[Operation, Change] = {op: _dropping(change, chance) for op, change in self._points.items()}
        for step in range(STEPS):
            weights = {**self._weights, **{op: one.weight(one.share) for op, one in roundings.items()}}
            drawn = self._drawn(chance)
            total: Tensor = torch.zeros(())
            for run in drawn:
                error = (self._output(run.q, weights, points) - run.target).square().mean()
                total = total + error / (unit * len(drawn))
            progress = (step / STEPS - _WARM_UP) / (1 - _WARM_UP)
            if progress > 0:
                beta = _BETA[1] + (_BETA[0] - _BETA[1]) * 0.5 * (1 + cos(pi * progress))
                undecided = torch.cat([(1 - (2 * one.share - 1).abs() ** beta).reshape(-1) for one in each])
                total = total + _DECIDING * undecided.mean()
            adam.zero_grad()
            total.backward()
            adam.param_groups[-1]["lr"] = _SCALE_RATE * 0.5 * (1 + cos(pi * step / STEPS)) if scales else _RATE
            adam.step()

    def _drawn(self, chance: Any) -> list[_Run]:
        """Some samples, as one run if they can be computed together."""
        if not self._rows:
            count = max(1, BATCH // max(len(run.target) if run.target.ndim else 1 for run in self._fitted))
            numbers: list[int] = torch.randint(len(self._fitted), (count,), generator=chance).tolist()
            return [self._fitted[i] for i in numbers]
        every = [(run, row) for run in self._fitted for row in range(len(run.target))]
        chosen: list[int] = torch.randint(len(every), (BATCH,), generator=chance).tolist()
        some = [every[i] for i in chosen]
        return [_Run(*(torch.stack([run[part][row] for run, row in some]) for part in range(3)))]


class Solution(NamedTuple):
    """The weight of a layer."""

    integers: Array
    """In its shape."""
    scales: Array
    """In the form of its plan's."""


class Found(NamedTuple):
    """The solution of a block."""

    solutions: Mapping[Operation, Solution]
    before: Energies
    """Of the output with nearest rounding."""
    after: Energies
    method: str
    """`mismatch` where the layers together do no better, on the samples that judge, than one after the other."""


class _Run(NamedTuple):
    """What a block reads in both networks, and its output in the float one."""

    q: Tensor
    f: Tensor
    target: Tensor


def _together(runs: Sequence[_Run]) -> list[_Run]:
    """The runs with about `BATCH` samples each."""
    some = max(1, BATCH // len(runs[0].target))
    parts = (runs[i : i + some] for i in range(0, len(runs), some))
    return [_Run(*map(torch.cat, zip(*part, strict=True))) for part in parts]


class _Rounding:
    """The rounding of a layer's weight, each number up or down, and the scales, as variables of a gradient."""

    def __init__(self, layer: IntegerLayer, sums: Sums):
        """They begin at the integers and scales of `mismatch`, and each number may go towards what these were rounded from."""
        self._layer, product = layer, layer.product
        weights: Array = product.matrices(layer.float_weight).astype(np.float64)
        grid = layer.grid(*weights.shape[:2])
        fixed = layer.weight.fixed or layer.plan.weights[0].scaled_by_divergence
        with sums.damped(_DAMPING if sums.are_few else 0.0) as damped:
            factor = factored(damped.h)
            target = weights if damped.c is None else matched(weights, damped.c, factor)
            if not fixed:
                grid = with_least_error(target, damped.h, grid, layer.shared)
            integers, grid = rounded(target, damped.h, factor, grid, layer.shared, fixed=fixed)
        self._grid = grid
        down = target / grid.scale < integers
        begin = (np.where(down, 1 - _BEGIN, _BEGIN) + (_STRETCH - 1) / 2) / _STRETCH
        self._low, self._scale, self._smallest = map(_tensor, (integers - down, grid.scale, np.asarray(grid.smallest)))
        self._ends = _tensor(grid.low), _tensor(grid.high)
        self.up = _tensor(np.log(begin / (1 - begin))).requires_grad_()
        """Before the sigmoid, as matrices [G, M, K]."""
        shape = [1 if i in layer.shared else size for i, size in enumerate(weights.shape[:2])]
        self.factor = torch.zeros(*shape, 1, requires_grad=not fixed)
        """The logarithms of factors on the scales."""
        numbers: Array = np.arange(weights.size)
        places = product.weight(numbers.reshape(weights.shape))
        self._places, self._shape = torch.from_numpy(places.reshape(-1).copy()), places.shape
        self.start = self.decided

    @property
    def share(self) -> Tensor:
        """How much of a step each number goes up, from 0 to 1."""
        return (torch.sigmoid(self.up) * _STRETCH - (_STRETCH - 1) / 2).clamp(0, 1)

    @property
    def decided(self) -> Tensor:
        """The weight with all numbers at one of their ends."""
        return self.weight(self._ended()).detach()

    def _ended(self) -> Tensor:
        return (self.share >= 0.5).to(self.up.dtype)

    def _scales(self) -> Tensor:
        return torch.maximum(self._scale * self.factor.exp(), self._smallest)

    def weight(self, share: Tensor) -> Tensor:
        """The layer's weight, in its shape, if numbers go up by these shares."""
        reals = (self._low + share).clamp(*self._ends) * self._scales()
        return reals.reshape(-1).index_select(0, self._places).reshape(self._shape)

    @property
    def solution(self) -> Solution:
        """The integers with all numbers at one of their ends, and the scales."""
        with torch.no_grad():
            integers = (self._low + self._ended()).clamp(*self._ends).numpy().astype(np.float64)
            scale = self._scales().numpy().astype(np.float64)
        grid = self._grid._replace(scale=np.broadcast_to(scale, self._grid.scale.shape))
        return Solution(self._layer.product.weight(integers), self._layer.scales_of(grid))


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array, np.float32))


def _rounding(params: QParams) -> Change:
    """Rounds to the numbers of a point; the gradient is that of an identity between its ends."""
    scale, zero_point = float(params.scales()), int(params.zero_points())
    low, high = (end - zero_point for end in integer_range(params.storage))

    def run(x: Tensor) -> Tensor:
        steps = (x / scale).clamp(low, high)
        return ((steps.round() - steps).detach() + steps) * scale

    return run


def _dropping(change: Change, chance: Any) -> Change:
    """A change of some values, chosen anew each time; the others stay."""
    return lambda x: torch.where(torch.rand(x.shape, generator=chance) < _DROPPED, x, change(x))
