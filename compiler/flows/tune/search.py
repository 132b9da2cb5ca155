"""The search: trials of options, the best of which is always on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from ...pipelines.options import values_of
from ...support.diagnostics import CompileError
from ...transforms.quantization.options import RECOVERY, QuantizeOptions
from ...transforms.quantization.recover.even_out import channels_pass
from ..auto_calibration import fewest
from .budget import UNLIMITED, Budget
from .goal import Judge
from .network import TrialNetwork
from .trials import Changes, Trials, TuneTrial, name_of
from .widths import Program

STEPS: Sequence[Changes] = (
    *({each.option: each.tried} for each in sorted(RECOVERY, key=lambda each: each.place) if each.option),
    {"observer": "octav"},
    {"observer": "ifmr"},
    {"observer": "percentile{percentile=0.99999}"},
    {"observer": "minmax"},
)
"""Steps tried before layers are left in float, the most promising first; each is added to the best options so far."""

CORRECTIONS = 4
"""Number of times that predicted costs are corrected by measured ones."""

MARGIN = 1.01
"""Bits that layers read are saved until less than this factor could be won."""


@dataclass
class TuneSearch:
    """A search: the network, its judge, and the results so far."""

    network: TrialNetwork
    judge: Judge
    budget: Budget
    results: Trials

    def run(self) -> None:
        """Try the steps until the goal is reached, then spend bits."""
        won = self.attempt({}) if self.budget == UNLIMITED else self.narrowed({})
        given, usual = values_of(self.network.options), values_of(QuantizeOptions())
        network = self.network.network
        for step in STEPS:
            if won.reached:
                return
            if any(given[name] != usual[name] for name in step):
                continue  # it is given for all trials
            changes = (each.name for each in RECOVERY if each.of_channels and each.option in step)
            if not all(channels_pass(name).applies(network.module, network.session) for name in changes):
                continue
            try:
                trial = self.attempt({**won.changes, **step})
            except CompileError as e:
                network.session.warn(f"{', '.join(step)} is not tried: {e.message}")
                continue
            won = trial if trial.better else won
        if not won.reached:
            self.spend(won)

    def spend(self, missed: TuneTrial) -> None:
        """Give layers more bits than the options have, and only if the most bits are too few leave layers in float, as few as
        possible. Then save bits as long as the goal is reached.
        """
        recipe, program = missed.recipe, self.program(missed.recipe)
        floats = program.fewest_floats(self.budget)
        if self.budget != UNLIMITED and self.narrowed(recipe).reached:
            return  # layers may cost something else with these options
        widest = self.fitted(recipe, program, floats)
        if not widest.reached:
            count = program.most_in_float(self.budget)
            more = fewest(count - floats + 1, lambda more: self.fitted(recipe, program, floats + more).reached)
            if more is None:
                return
            floats += more
            widest = self.fitted(recipe, program, floats)
        if program != program.narrow:
            self.save(recipe, program, floats, missed.costs.read, widest.costs.read)

    def save(self, recipe: Changes, program: Program, floats: int, low: int, high: int) -> None:
        """Find by bisection how few bits layers may read: more than `low`, at most `high`."""
        while high > MARGIN * low:
            bits = round(sqrt(low * high))
            trial = self.fitted(recipe, program, floats, bits)
            if trial.reached:
                high = min(bits, trial.costs.read)
            else:
                low = bits

    def attempt(self, changes: Changes) -> TuneTrial:
        """Quantize and measure, or take the trial from an earlier run. If it is the best so far, its model is written."""
        name = name_of(changes)
        if (known := self.results.find(name)) is not None:
            return known
        start = time.monotonic()
        modules = self.network.quantized(changes)
        costs = self.network.costs(modules[0])
        quality, reached, errors = self.judge.judge(modules)
        kept = self.budget.holds(costs)
        trial = TuneTrial(dict(changes), quality, reached and kept, kept, costs, round(time.monotonic() - start, 2))
        trial = self.results.add(trial, errors, modules[0], self.network.network.session)
        if trial.better:
            self.network.kept = {name: modules}
        return trial

    def narrowed(self, recipe: Changes) -> TuneTrial:
        """The best widths that keep the budget and do not read more bits than the options have, with only as many
        layers in float as it forces.
        """
        program = self.program(recipe).narrow
        return self.fitted(recipe, program, program.fewest_floats(self.budget))

    def fitted(self, recipe: Changes, program: Program, floats: int, read: int | None = None) -> TuneTrial:
        """The widths of least predicted noise within the budget, with at most this many layers in float, measured. With `read`,
        layers read at most these bits.

        What the network costs next to its layers is corrected by what was measured, until that changes no width.
        """
        tried = list[TuneTrial]()
        for _ in range(CORRECTIONS):
            chosen = program.choose(self.budget, floats, read)
            trial = self.attempt({**recipe, **program.changes(chosen)})
            if trial in tried:
                break
            tried.append(trial)
            if self.budget == UNLIMITED:
                break
            program = program.corrected(chosen, trial.costs)
        return max(tried, key=lambda each: (each.reached, each.kept, each.quality))

    def program(self, recipe: Changes) -> Program:
        """The cost of each layer at each width, with rounding that fits each layer to its own inputs, and no corrected
        biases: what a layer corrects of others is not its own.
        """
        ranked = ranked_recipe(recipe)
        name = name_of(ranked)
        if name not in self.results.programs:
            program = self.network.program(ranked, low_bits=self.budget.bytes is not None)
            program.check(self.budget)
            self.results.programs[name] = program
            self.results.save()
        return self.results.programs[name]


def ranked_recipe(recipe: Changes) -> Changes:
    """The options with which layers are measured."""
    ranked = {**recipe, "correct_bias": False}  # what a bias makes up for is not the layer's own
    if ranked.get("round_weights") == "mismatch":
        ranked["round_weights"] = "gptq"
    return ranked
