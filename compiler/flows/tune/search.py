"""The search: trials of options, the best of which is always on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ...configuration.layer_settings import settings_for, weight_bits
from ...configuration.settings import Arq
from ...diagnostics import CompileError
from ...files import filling, reading, replacing
from ...lowering.ascend.fused import inline_fused
from ...pipelines.options import composed, values_of
from ...pipelines.passes import run_on_verified
from ...rewriting import layer_of
from ...runtime.data import Samples
from ...runtime.metrics import Measure
from ...session import Session
from ...targets.onnx import OnnxTarget
from ...transforms.quantization.calibrate.data_options import BackendOptions, DataOptions
from ...transforms.quantization.calibrate.observing import in_batches
from ...transforms.quantization.decide.layers import quantizable_layers
from ...transforms.quantization.decide.sites import Site, sites
from ...transforms.quantization.quantize import Quantize
from ...transforms.quantization.recover.equalize import equalize
from ...transforms.quantization.recover.sensitivity import by_itself, quantized_layers
from ...transforms.quantization.recover.shared_exchange import exchanged_by
from ...transforms.quantization.request import QuantizeOptions
from ..auto_calibration import fewest
from .budget import UNLIMITED, Budget, Costs, computes_on_integers, costs_of
from .goal import Judge
from .widths import FLOAT, LOW, WHOLE, Choice, Program

Changes = Mapping[str, Any]
"""Options of `QuantizeOptions`, by name."""

STEPS: Sequence[Changes] = (
    {"round_weights": "mismatch"},
    {"equalize": True},
    {"correct_bias": True},
    {"fit_ranges": True},
    {"observer": "octav"},
    {"observer": "ifmr{exact=false}"},
    {"observer": "percentile{percentile=0.99999}"},
    {"observer": "minmax"},
)
"""Steps tried before layers are left in float, the most promising first; each is added to the best options so far."""

WIDTHS = "skip_layers", "layer_weight_bits"
"""The options that give layers a width. They add to those that are given for all trials."""

RANKED = 32
"""The largest number of samples used to rank the layers."""

CORRECTIONS = 4
"""How often predicted costs are corrected by measured ones."""


@dataclass(frozen=True)
class Trial:
    """One quantization that was measured."""

    changes: dict[str, Any]
    quality: float
    reached: bool
    """The goal is reached, and the budget kept."""
    kept: bool
    """The budget is kept."""
    costs: Costs
    seconds: float

    @property
    def floats(self) -> Sequence[str]:
        """The layers that this trial left in float."""
        return self.changes.get("skip_layers", ())

    @property
    def recipe(self) -> Changes:
        """The changes that concern all layers."""
        return {name: value for name, value in self.changes.items() if name not in WIDTHS}


@dataclass
class Search:
    """A fused network, and the results so far."""

    whole: ModuleOp
    options: QuantizeOptions
    calibration: DataOptions
    measuring: Samples
    judge: Judge
    budget: Budget
    rank_by: type[Measure]
    macs: Mapping[str, int]
    session: Session
    running: BackendOptions
    onnx: Path
    log: Path
    key: str
    trials: list[Trial] = field(default_factory=list[Trial])
    programs: dict[str, Program] = field(default_factory=dict[str, Program])
    """What layers cost, by the changes with which that was measured."""
    modules: dict[str, ModuleOp] = field(default_factory=dict[str, ModuleOp])
    """The module of the best trial, by its changes; no other module is kept."""

    @property
    def best(self) -> Trial:
        """The best trial; the first of equal ones, which changes less."""
        return max(self.trials, key=lambda t: (t.reached, t.kept, -len(t.floats) if t.reached else 0, t.quality))

    def run(self) -> None:
        """Try the steps until the goal is reached, then leave layers in float."""
        won = self.attempt({}) if self.budget == UNLIMITED else self.fitted({}, 0)
        given = values_of(self.options)
        for step in STEPS:
            if won.reached:
                return
            if any(given[name] for name in step):
                continue  # it is given for all trials
            try:
                trial = self.attempt({**won.changes, **step})
            except CompileError as e:
                self.session.warn(f"{', '.join(step)} is not tried: {e.message}")
                continue
            won = max(won, trial, key=lambda each: (each.reached, each.kept, each.quality))
        if won.reached:
            return
        if self.fitted(won.recipe, 0).reached:  # layers may cost something else with these options
            return
        count = self.program(won.recipe).most_in_float(self.budget)
        fewest(count + 1, lambda number: self.fitted(won.recipe, number).reached)

    def attempt(self, changes: Changes) -> Trial:
        """Quantize and measure, or take the trial from an earlier run. If it is the best so far, its model is written."""
        name = _name(changes)
        if (known := next((t for t in self.trials if _name(t.changes) == name), None)) is not None:
            return known
        start = time.monotonic()
        module = self.quantized(changes)
        costs = costs_of(module, self.macs, self.session)
        quality, reached = self.judge.judge(module)
        kept = self.budget.holds(costs)
        trial = Trial(dict(changes), quality, reached and kept, kept, costs, round(time.monotonic() - start, 2))
        self.trials.append(trial)
        if self.best is not trial:
            self.save()
            return trial
        self.modules = {name: module}
        with filling(self.log.parent) as folder:
            OnnxTarget().write(module, folder / self.onnx.name, self.session)
            (folder / self.log.name).write_bytes(self.results())
        return trial

    def fitted(self, recipe: Changes, floats: int) -> Trial:
        """The widths of least predicted noise within the budget, with so many layers in float, measured.

        What the network costs beside its layers is corrected by what was measured, until that changes no width.
        """
        program, tried = self.program(recipe), list[Trial]()
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

    def quantized(self, changes: Changes) -> ModuleOp:
        """A quantized copy of the network."""
        name, session = _name(changes), self.session.silent()
        if name in self.modules:
            return self.modules[name]
        module = self.whole.clone()
        request = merged(self.options, changes).request(self.session)
        run_on_verified(module, [Quantize(request, self.calibration, self.running)], session)
        return module

    def program(self, recipe: Changes) -> Program:
        """What each layer costs at each width, with rounding that fits each layer to its own inputs, and no corrected biases:
        what a layer corrects of others is not its own.
        """
        ranked = {name: value for name, value in recipe.items() if name != "correct_bias"}
        if ranked.get("round_weights") == "mismatch":
            ranked["round_weights"] = "gptq"
        name = _name(ranked)
        if name not in self.programs:
            program = self._program(ranked)
            program.check(self.budget)
            self.programs[name] = program
            self.save()
        return self.programs[name]

    def _program(self, recipe: Changes) -> Program:
        whole, silent = self.whole.clone(), self.session.silent()
        request = merged(self.options, recipe).request(self.session)
        equalize(whole, request, partial(self.calibration.load, whole, self.session), silent, self.running.runner())
        given = self.quantized(recipe)
        rest = costs_of(given, self.macs, self.session)
        forms = {WHOLE: given.clone()}
        if (low := self._low_layers()) and self.budget.bytes is not None:
            bits = tuple(f"{name}:{LOW}" for name in low)
            forms[LOW] = self.quantized({**recipe, "layer_weight_bits": bits}).clone()
        for module in (whole, *forms.values()):
            inline_fused(module)
        layers = quantized_layers(forms[WHOLE], self.session)
        samples = in_batches(whole, [], self.measuring.head(min(RANKED, self.measuring.count)))
        found: dict[str, list[Choice]] = {name: [] for name in layers}
        for name, site in self._sites(whole, layers).items():
            found[name].append(Choice(name, FLOAT, 0.0, self._costs(site)))
        for bits, module in forms.items():
            names = layers if bits == WHOLE else low
            runner = self.running.runner()
            noise = exchanged_by(
                runner, whole, module, names, whole, samples, self.session, "rank layers", self.rank_by
            )
            for name, site in self._sites(module, names).items():
                found[name].append(Choice(name, bits, noise[name].noise, self._costs(site)))
        for choices in found.values():
            rest -= choices[1].costs
        return Program(tuple(map(tuple, found.values())), rest)

    def _low_layers(self) -> list[str]:
        """The layers whose weights can have `LOW` bits and are to have more, unless their bits are given for all trials."""
        request = self.options.request(self.session).within(self.whole, self.session)
        settings, found = request.settings, list[str]()
        for layer in quantizable_layers(self.whole, request.profile, settings):
            held = settings_for(settings, layer)
            if held.skipped or layer.name in settings.weight_bits or not isinstance(held.weight, Arq):
                continue
            if held.weight.bits > LOW and LOW in weight_bits(layer, held.weight_compress_only):
                found.append(layer.name)
        return found

    def _sites(self, module: ModuleOp, names: Sequence[str]) -> dict[str, Site]:
        found = {
            layer_of(site.compute): site for site in sites(module, self.options.request(self.session).profile.rows)
        }
        return {name: found[name] for name in names if name in found}

    def _costs(self, site: Site) -> Costs:
        integer, name = computes_on_integers(site), layer_of(site.compute)
        stored = OnnxTarget().stored_bytes(by_itself(site), self.session.silent())
        return Costs(stored, 0 if integer else self.macs.get(name, 0), int(integer))

    def save(self) -> None:
        """Write all results, of which none has a better model."""
        with replacing(self.log) as stream:
            stream.write(self.results())

    def results(self) -> bytes:
        """The text of all results."""
        data = {
            "key": self.key,
            "original": self.judge.original,
            "trials": [asdict(trial) for trial in self.trials],
            "layers": {name: asdict(program) for name, program in self.programs.items()},
        }
        return f"{json.dumps(data, indent=2)}\n".encode()

    def resume(self) -> None:
        """Take the results of an earlier run of the same search."""
        try:
            with reading(self.log.parent):
                found = json.loads(self.log.read_text("utf-8"))
            if found["key"] != self.key or not self.onnx.exists():
                return
            trials = [Trial(**(each | {"costs": Costs(**each["costs"])})) for each in found["trials"]]
            programs = {name: Program.of(each) for name, each in found["layers"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return  # no earlier run, or a file of something else
        self.trials, self.programs = trials, programs


def merged(options: QuantizeOptions, changes: Changes) -> QuantizeOptions:
    """The options with the changes of a trial; widths of layers are added to those that are given."""
    widths = {name: (*getattr(options, name), *changes.get(name, ())) for name in WIDTHS}
    return composed(QuantizeOptions, {**values_of(options), **changes, **widths})


def _widths(chosen: Sequence[Choice]) -> Changes:
    """The options that give layers their widths, without empty ones."""
    floats = tuple(each.layer for each in chosen if each.bits == FLOAT)
    low = tuple(f"{each.layer}:{LOW}" for each in chosen if each.bits == LOW)
    return {name: layers for name, layers in zip(WIDTHS, (floats, low), strict=True) if layers}


def _name(changes: Changes) -> str:
    return json.dumps({key: changes[key] for key in sorted(changes)}, default=list)
