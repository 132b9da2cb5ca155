"""The trials of a search, which are on disk next to the model of the best one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from ...runtime.metrics import Parts
from ...session import Session
from ...support.files import filling, reading, replacing
from ...support.tables import some
from ...targets.onnx import OnnxTarget
from .budget import Costs
from .widths import WIDTHS, Program

Changes = Mapping[str, Any]
"""Options of `QuantizeOptions`, by name."""


@dataclass(frozen=True)
class TuneTrial:
    """A quantization that was measured."""

    changes: dict[str, Any]
    quality: float
    reached: bool
    """The goal is reached, and the budget kept."""
    kept: bool
    """The budget is kept."""
    costs: Costs
    seconds: float
    better: bool = False
    """It is better than all trials before."""

    @property
    def floats(self) -> Sequence[str]:
        """The layers that this trial left in float."""
        return self.changes.get("skip_layers", ())

    @property
    def worth(self) -> tuple[float, ...]:
        """The larger, the better, whatever the quality: the goal, the budget and, once it is reached, what it costs."""
        return self.reached, self.kept, *((-len(self.floats), -self.costs.read) if self.reached else (0, 0))

    @property
    def recipe(self) -> Changes:
        """The changes that concern all layers."""
        return {name: value for name, value in self.changes.items() if name not in WIDTHS}

    @property
    def result(self) -> str:
        """`reached`, `missed` or `over budget`."""
        return "reached" if self.reached else "missed" if self.kept else "over budget"

    def _widths(self) -> Iterator[str]:
        """Yields the number of layers of each width that the trial sets, for weights and for inputs."""
        for name, letter in (("layer_weight_bits", "W"), ("layer_bits", "A")):
            counts = Counter(int(each.rpartition(":")[2]) for each in self.changes.get(name, ()))
            yield from (f"{count} {letter}{bits}" for bits, count in sorted(counts.items()))

    @property
    def cells(self) -> tuple[str, ...]:
        """The trial in a table: its options, their result, and its costs."""
        costs = self.costs
        return (
            " ".join(_flags(self.recipe)) or "as given",
            some(self.floats) if self.floats else "-",
            ", ".join(self._widths()) or "-",
            f"{self.quality:.2f}",
            self.result,
            f"{costs.bytes / 1000:,.1f}",
            f"{costs.read / 8000:,.1f}",
            f"{costs.macs:,}",
            str(costs.int8_layers),
            f"{costs.ms:.4g}" if costs.ms else "-",
            f"{self.seconds:.1f}",
        )


def _flags(options: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in options.items():
        found.append(f"--{'no-' if value is False else ''}{name.replace('_', '-')}")
        if not isinstance(value, bool):
            found.append(",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value))
    return found


@dataclass
class Trials:
    """The results of a search so far."""

    onnx: Path
    """The model of the best trial."""
    log: Path
    key: str
    """A hash of everything that the search depends on."""
    original: float | None
    """The quality of the float network, if that says anything."""
    trials: list[TuneTrial] = field(default_factory=list[TuneTrial])
    programs: dict[str, Program] = field(default_factory=dict[str, Program])
    """Costs of layers, by the changes with which they were measured."""
    errors: Parts | None = None
    """The errors of the best trial, for a goal of SQNR."""

    @property
    def best(self) -> TuneTrial:
        """The best trial: of those that reach the goal the one with the fewest layers in float, then the fewest bits;
        the first of equal ones, because it changes less. Errors differ if they do by more than chance explains.
        """
        return next(each for each in reversed(self.trials) if each.better)

    def _improves(self, trial: TuneTrial, errors: Parts | None) -> bool:
        """Whether a new trial is better than the best one."""
        if not self.trials or trial.worth != self.best.worth:
            return not self.trials or trial.worth > self.best.worth
        if self.errors is None or errors is None:
            return trial.quality > self.best.quality
        return self.errors.gains(errors)

    def find(self, name: str) -> TuneTrial | None:
        """The trial of these changes."""
        return next((t for t in self.trials if name_of(t.changes) == name), None)

    def add(self, trial: TuneTrial, errors: Parts | None, module: ModuleOp, session: Session) -> TuneTrial:
        """Write a new trial and, if it is the best so far, its model. Returns the trial, which says whether it is."""
        trial = replace(trial, better=self._improves(trial, errors))
        self.trials.append(trial)
        if not trial.better:
            self.save()
            return trial
        self.errors = errors
        with filling(self.log.parent) as folder:
            OnnxTarget().write(module, folder / self.onnx.name, session)
            (folder / self.log.name).write_bytes(self.text())
        return trial

    def save(self) -> None:
        """Write all results, none of which has a better model."""
        with replacing(self.log) as stream:
            stream.write(self.text())

    def text(self) -> bytes:
        """The text of all results."""
        data = {
            "key": self.key,
            "original": self.original,
            "errors": self.errors and self.errors.data(),
            "trials": [asdict(trial) for trial in self.trials],
            "layers": {name: asdict(program) for name, program in self.programs.items()},
        }
        return f"{json.dumps(data, indent=2)}\n".encode()

    def resume(self) -> None:
        """Take the results of an earlier run of the same search."""
        try:
            with reading(self.log.parent):
                found = json.loads(self.log.read_text("utf-8"))
            if found["key"] != self.key:
                return
            trials = [TuneTrial(**(each | {"costs": Costs(**each["costs"])})) for each in found["trials"]]
            programs = {name: Program.of(each) for name, each in found["layers"].items()}
            errors = None if found["errors"] is None else Parts().taken_up(found["errors"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # no earlier run, or a file of something else
        self.trials, self.programs, self.errors = trials, programs, errors


def name_of(changes: Changes) -> str:
    """A name of changes, the same for equal ones."""
    return json.dumps({key: changes[key] for key in sorted(changes)}, default=list)
