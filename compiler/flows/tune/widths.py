"""Chooses the width of each layer: an integer program over sensitivities that add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ...support.diagnostics import CompileError
from .budget import UNLIMITED, Budget, Costs

WIDTHS = "skip_layers", "layer_weight_bits", "layer_bits"
"""The options that give layers a width. They add to those that are given for all trials."""
FLOAT, LOW, WHOLE = 0, 4, 8
"""Bits of a layer in float, of weights in files of few bytes, and of weights and activations by default."""


class Width(NamedTuple):
    """Bits of a layer's weight, None if it has none, and of its activations (`layer_bits`). 0 is float: both for a layer that is
    not quantized, the input alone for one whose weight is quantized by itself.
    """

    bits: int | None
    inputs: int


@dataclass(frozen=True)
class Choice:
    """A layer at a width: the noise that it alone causes at the network's outputs, and the costs that it adds."""

    layer: str
    bits: int | None
    inputs: int
    noise: float
    costs: Costs

    @property
    def width(self) -> Width:
        """The bits of the layer."""
        return Width(self.bits, self.inputs)


@dataclass(frozen=True)
class LayerWidth:
    """The width of a layer in a trial. Noise is what the layer alone causes at the outputs, as a share of the sum of
    all layers as given.
    """

    layer: str
    bits: int | None
    """Bits of the weight, if it has one; 0 in float."""
    inputs: int
    """Bits of the activations; 0 in float."""
    given_noise: float
    noise: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The layer in a table."""
        bits = ["-" if each is None else str(each or "float") for each in (self.bits, self.inputs)]
        return self.layer, *bits, f"{100 * self.given_noise:.3g} %", f"{100 * self.noise:.3g} %"


def changes_of(chosen: Mapping[str, Width], given: Mapping[str, Width]) -> dict[str, tuple[str, ...]]:
    """The options that give layers their widths, if these differ from those that they have, without empty ones."""
    skipped = tuple(name for name, width in chosen.items() if width.bits == FLOAT)
    others = {name: width for name, width in chosen.items() if width.bits != FLOAT}
    weights = tuple(f"{name}:{width.bits}" for name, width in others.items() if width.bits != given[name].bits)
    inputs = tuple(f"{name}:{width.inputs}" for name, width in others.items() if width.inputs != given[name].inputs)
    return {name: layers for name, layers in zip(WIDTHS, (skipped, weights, inputs), strict=True) if layers}


@dataclass(frozen=True)
class Program:
    """The choices of each layer, float first, then as the options have it, then others; and the costs of everything else."""

    layers: tuple[tuple[Choice, ...], ...]
    rest: Costs

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """A program from plain data, as `dataclasses.asdict` makes it."""
        layers = (
            (Choice(**(choice | {"costs": Costs(**choice["costs"])})) for choice in each) for each in data["layers"]
        )
        return cls(tuple(map(tuple, layers)), Costs(**data["rest"]))

    @property
    def given(self) -> list[Choice]:
        """Each layer at the width of the options."""
        return [layer[1] for layer in self.layers]

    def changes(self, chosen: Sequence[Choice]) -> dict[str, tuple[str, ...]]:
        """The options that give layers these widths."""
        return changes_of({each.layer: each.width for each in chosen}, {each.layer: each.width for each in self.given})

    @property
    def narrow(self) -> Program:
        """The program without widths that read more bits than the options have, but float."""
        layers = ((layer[0], *(c for c in layer[1:] if c.costs.read <= layer[1].costs.read)) for layer in self.layers)
        return replace(self, layers=tuple(layers))

    def choose(self, budget: Budget, floats: int, read: int | None = None) -> list[Choice]:
        """A choice for each layer with the least sum of noise: within the budget, with at most this many layers in float, and
        reading at most these bits.

        Raises CompileError if no choices keep the budget, and if scipy is not installed. Without a budget and a bound of bits
        the widest choices, and float for the layers of most noise, are the solution.
        """
        if budget == UNLIMITED and read is None:
            widest = [min(layer[1:], key=lambda choice: (choice.noise, choice.costs.read)) for layer in self.layers]
            left = {choice.layer for choice in sorted(widest, key=lambda choice: -choice.noise)[:floats]}
            return [
                layer[0] if choice.layer in left else choice for layer, choice in zip(self.layers, widest, strict=True)
            ]
        return self._solved(budget, floats, read)

    def fewest_floats(self, budget: Budget) -> int:
        """The least number of layers in float that keeps a budget of time; 0 without one. Raises as `choose` does."""
        if budget.ms is None:
            return 0
        chosen = self._solved(budget, len(self.layers), None, lambda choice: float(choice.bits == FLOAT))
        return sum(choice.bits == FLOAT for choice in chosen)

    def _solved(
        self,
        budget: Budget,
        floats: int,
        read: int | None,
        least: Callable[[Choice], float] = lambda choice: choice.noise,
    ) -> list[Choice]:
        each = [choice for layer in self.layers for choice in layer]
        sizes = [len(layer) for layer in self.layers]
        found = _solved(each, sizes, budget, self.rest, floats, read, list(map(least, each)))
        if found is None:
            self.check(budget)
            raise CompileError("no widths keep the budget", option="budget")
        return [choice for choice, taken in zip(each, found, strict=True) if taken]

    def check(self, budget: Budget) -> None:
        """Raises CompileError if no widths keep the budget."""
        smallest = self.costs([min(layer[1:], key=lambda choice: choice.costs.bytes) for layer in self.layers])
        fastest = self.costs([min(layer, key=lambda choice: choice.costs.ms) for layer in self.layers])
        budget.check(replace(smallest, ms=fastest.ms))

    def most_in_float(self, budget: Budget) -> int:
        """The most layers that can be in float: not all of them, and within the budget as many as causes the least noise."""
        if budget == UNLIMITED:
            return len(self.layers) - 1
        return sum(choice.bits == FLOAT for choice in self.choose(budget, len(self.layers) - 1))

    def costs(self, chosen: Sequence[Choice]) -> Costs:
        """The costs of a network of these choices, as far as costs add up."""
        return sum((choice.costs for choice in chosen), self.rest)

    def corrected(self, chosen: Sequence[Choice], measured: Costs) -> Program:
        """The program with other costs of everything else, such that these choices have the measured costs."""
        return replace(self, rest=self.rest + (measured - self.costs(chosen)))


def layer_widths(program: Program, changes: Mapping[str, Any]) -> list[LayerWidth]:
    """The width of each layer by the options of a trial, the one first that alone costs most as given."""
    total = sum(each.noise for each in program.given)
    skipped, weights, inputs = (changes.get(name, ()) for name in WIDTHS)
    bits, wide = (
        {name: int(each) for name, _, each in (text.rpartition(":") for text in own)} for own in (weights, inputs)
    )
    found: list[LayerWidth] = []
    for choices in program.layers:
        layer, given = choices[1].layer, choices[1]
        width = Width(bits.get(layer, given.bits), wide.get(layer, given.inputs))
        chosen = choices[0] if layer in skipped else next(each for each in choices if each.width == width)
        noise = (each.noise / total if total else 0.0 for each in (given, chosen))
        found.append(LayerWidth(layer, *chosen.width, *noise))
    return sorted(found, key=lambda each: -each.given_noise)


def _solved(
    each: Sequence[Choice],
    sizes: Sequence[int],
    budget: Budget,
    rest: Costs,
    floats: int,
    read: int | None,
    least: Sequence[float],
) -> Sequence[bool] | None:
    """Whether each choice is taken, such that the sum of `least` is the smallest; `sizes` are the numbers of choices of
    the layers. None without a solution.
    """
    optimize = _scipy()
    owner = np.repeat(np.arange(len(sizes)), sizes)
    one_each = np.arange(len(sizes))[:, None] == owner
    bounds: list[tuple[Any, float, float]] = [
        (one_each, 1, 1),
        ([choice.bits == FLOAT for choice in each], 0, floats),
    ]
    if budget.bytes is not None:
        bounds.append(([choice.costs.bytes for choice in each], -np.inf, budget.bytes - rest.bytes))
    if budget.macs is not None:
        bounds.append(([choice.costs.macs for choice in each], -np.inf, budget.macs - rest.macs))
    if budget.int8_layers is not None:
        bounds.append(([choice.costs.int8_layers for choice in each], budget.int8_layers - rest.int8_layers, np.inf))
    if budget.ms is not None:
        bounds.append(([choice.costs.ms for choice in each], -np.inf, budget.ms - rest.ms))
    if read is not None:
        bounds.append(([choice.costs.read for choice in each], -np.inf, read - rest.read))
    noise = np.nan_to_num(least, nan=np.inf).clip(0, 1e30)
    found = optimize.milp(
        noise / max(noise.max(initial=0), np.finfo(float).tiny),
        integrality=np.ones(len(each)),
        bounds=optimize.Bounds(0, 1),
        constraints=[optimize.LinearConstraint(np.atleast_2d(rows), low, high) for rows, low, high in bounds],
        options={"mip_rel_gap": 0},
    )
    return None if found.x is None else [taken > 0.5 for taken in found.x]


def _scipy() -> Any:
    try:
        from scipy import optimize  # pyright: ignore
    except ImportError:
        raise CompileError("the choice of widths requires scipy", hint="pip install 'amct-opt[tune]'") from None
    return optimize
