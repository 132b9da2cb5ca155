"""The search: trials of options, the best of which is always on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...diagnostics import CompileError
from ...pipelines.options import values_of
from ..auto_calibration import fewest
from .budget import UNLIMITED, Budget
from .goal import Judge
from .network import Network
from .trials import WIDTHS, Changes, Trials, TuneTrial, name_of
from .widths import FLOAT, LOW, Choice, Program

STEPS: Sequence[Changes] = (
    {"round_weights": "mismatch"},
    {"equalize": True},
    {"correct_bias": True},
    {"fit_ranges": True},
    {"observer": "octav"},
    {"observer": "ifmr"},
    {"observer": "percentile{percentile=0.99999}"},
    {"observer": "minmax"},
)
"""Steps tried before layers are left in float, the most promising first; each is added to the best options so far."""

CORRECTIONS = 4
"""How often predicted costs are corrected by measured ones."""


@dataclass
class TuneSearch:
    """A network, what judges it, and the results so far."""

    network: Network
    judge: Judge
    budget: Budget
    results: Trials

    def run(self) -> None:
        """Try the steps until the goal is reached, then leave layers in float."""
        won = self.attempt({}) if self.budget == UNLIMITED else self.fitted({}, 0)
        given = values_of(self.network.options)
        for step in STEPS:
            if won.reached:
                return
            if any(given[name] for name in step):
                continue  # it is given for all trials
            try:
                trial = self.attempt({**won.changes, **step})
            except CompileError as e:
                self.network.session.warn(f"{', '.join(step)} is not tried: {e.message}")
                continue
            won = max(won, trial, key=lambda each: (each.reached, each.kept, each.quality))
        if won.reached:
            return
        if self.fitted(won.recipe, 0).reached:  # layers may cost something else with these options
            return
        count = self.program(won.recipe).most_in_float(self.budget)
        fewest(count + 1, lambda number: self.fitted(won.recipe, number).reached)

    def attempt(self, changes: Changes) -> TuneTrial:
        """Quantize and measure, or take the trial from an earlier run. If it is the best so far, its model is written."""
        name = name_of(changes)
        if (known := self.results.find(name)) is not None:
            return known
        start = time.monotonic()
        module = self.network.quantized(changes)
        costs = self.network.costs(module)
        quality, reached = self.judge.judge(module)
        kept = self.budget.holds(costs)
        trial = TuneTrial(dict(changes), quality, reached and kept, kept, costs, round(time.monotonic() - start, 2))
        if self.results.add(trial, module, self.network.session):
            self.network.kept = {name: module}
        return trial

    def fitted(self, recipe: Changes, floats: int) -> TuneTrial:
        """The widths of least predicted noise within the budget, with this many layers in float, measured.

        What the network costs next to its layers is corrected by what was measured, until that changes no width.
        """
        program, tried = self.program(recipe), list[TuneTrial]()
        for _ in range(CORRECTIONS):
            chosen = program.choose(self.budget, floats)
            trial = self.attempt({**recipe, **_widths(chosen)})
            if trial in tried:
                break
            tried.append(trial)
            if self.budget == UNLIMITED:
                break
            program = program.corrected(chosen, trial.costs)
        return max(tried, key=lambda each: (each.reached, each.kept, each.quality))

    def program(self, recipe: Changes) -> Program:
        """What each layer costs at each width, with rounding that fits each layer to its own inputs, and no corrected biases:
        what a layer corrects of others is not its own.
        """
        ranked = {**recipe, "correct_bias": False}
        if ranked.get("round_weights") == "mismatch":
            ranked["round_weights"] = "gptq"
        name = name_of(ranked)
        if name not in self.results.programs:
            program = self.network.program(ranked, low_bits=self.budget.bytes is not None)
            program.check(self.budget)
            self.results.programs[name] = program
            self.results.save()
        return self.results.programs[name]


def _widths(chosen: Sequence[Choice]) -> Changes:
    """The options that give layers their widths, without empty ones."""
    floats = tuple(each.layer for each in chosen if each.bits == FLOAT)
    low = tuple(f"{each.layer}:{LOW}" for each in chosen if each.bits == LOW)
    return {name: layers for name, layers in zip(WIDTHS, (floats, low), strict=True) if layers}
