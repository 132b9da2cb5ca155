"""Which layer gets which width: an integer program over sensitivities that add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ...diagnostics import CompileError
from .budget import UNLIMITED, Budget, Costs

FLOAT, LOW, WHOLE = 0, 4, 8
"""Widths: float; weights of 4 bits; weights as the options have them, of 8 bits by default."""


@dataclass(frozen=True)
class Choice:
    """A layer at a width: the noise that it alone causes at the network's outputs, and what it adds to the costs."""

    layer: str
    bits: int
    noise: float
    costs: Costs


@dataclass(frozen=True)
class Program:
    """The choices of each layer, float first, and the costs of everything else."""

    layers: tuple[tuple[Choice, ...], ...]
    rest: Costs

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """A program from plain data, as `dataclasses.asdict` makes it."""
        layers = (
            (Choice(**(choice | {"costs": Costs(**choice["costs"])})) for choice in each) for each in data["layers"]
        )
        return cls(tuple(map(tuple, layers)), Costs(**data["rest"]))

    def choose(self, budget: Budget, floats: int) -> list[Choice]:
        """A choice for each layer with the least sum of noise, within the budget and with at most this many layers in float.

        Raises CompileError if no choices keep the budget, and if scipy is not installed. Without a budget the layers of most
        noise are the solution.
        """
        if budget == UNLIMITED:
            left = {id(layer) for layer in sorted(self.layers, key=lambda layer: -layer[1].noise)[:floats]}
            return [layer[0] if id(layer) in left else layer[1] for layer in self.layers]
        each = [choice for layer in self.layers for choice in layer]
        found = _solved(each, [len(layer) for layer in self.layers], budget, self.rest, floats)
        if found is None:
            self.check(budget)
            raise CompileError("no widths keep the budget", option="budget")
        return [choice for choice, taken in zip(each, found, strict=True) if taken]

    def check(self, budget: Budget) -> None:
        """Raises CompileError if no widths keep the budget."""
        budget.check(self.costs([min(layer[1:], key=lambda choice: choice.costs.bytes) for layer in self.layers]))

    def most_in_float(self, budget: Budget) -> int:
        """How many layers can be in float: not all of them, and within the budget as many as causes the least noise."""
        if budget == UNLIMITED:
            return len(self.layers) - 1
        return sum(choice.bits == FLOAT for choice in self.choose(budget, len(self.layers) - 1))

    def costs(self, chosen: Sequence[Choice]) -> Costs:
        """What a network of these choices costs, as far as costs add up."""
        return sum((choice.costs for choice in chosen), self.rest)

    def corrected(self, chosen: Sequence[Choice], measured: Costs) -> Program:
        """The program with other costs of everything else, such that these choices cost what was measured."""
        return replace(self, rest=self.rest + (measured - self.costs(chosen)))


def _solved(
    each: Sequence[Choice], sizes: Sequence[int], budget: Budget, rest: Costs, floats: int
) -> Sequence[bool] | None:
    """Whether each choice is taken; `sizes` are the numbers of choices of the layers. None without a solution."""
    optimize = _scipy()
    owner = np.repeat(np.arange(len(sizes)), sizes)
    one_each = np.arange(len(sizes))[:, None] == owner
    bounds: list[tuple[Any, float, float]] = [(one_each, 1, 1), ([choice.bits == FLOAT for choice in each], 0, floats)]
    if budget.bytes is not None:
        bounds.append(([choice.costs.bytes for choice in each], -np.inf, budget.bytes - rest.bytes))
    if budget.macs is not None:
        bounds.append(([choice.costs.macs for choice in each], -np.inf, budget.macs - rest.macs))
    if budget.int8_layers is not None:
        bounds.append(([choice.costs.int8_layers for choice in each], budget.int8_layers - rest.int8_layers, np.inf))
    noise = np.nan_to_num([choice.noise for choice in each], nan=np.inf).clip(0, 1e30)
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
        raise CompileError("a budget requires scipy", hint="pip install 'amct-opt[tune]'", option="budget") from None
    return optimize
