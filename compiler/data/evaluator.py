"""AMCT's evaluators: a Python file whose `calibration(model)` runs the model on data of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ..ir.functions import main_function
from ..runtime.executor import Executable
from ..support.diagnostics import CompileError
from .samples import Samples
from .script import MODULE, load_script, running
from .stored import Array
from .stream import Spool

_NAME = "evaluator"

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
"""Runs a model: arrays by input in, arrays by output out."""


class FloatModel:
    """The argument of an evaluator's methods and of metrics: a model that takes and returns floats.

    The first `runs` runs are kept in `spool`. `samples` is the data that was given with the evaluator. `run` takes the place of
    the interpreter.
    """

    def __init__(
        self, module: ModuleOp, spool: Spool, runs: int = 0, samples: Samples | None = None, run: Run | None = None
    ):
        self.module = module
        self._run: Run = run or Executable(module).run
        self._spool = spool
        self._runs = runs
        self._samples = samples

    @property
    def inputs(self) -> dict[str, tuple[int | None, ...]]:
        """The shapes of the inputs, by name; None for a size that is known only at run time."""
        shapes = {name: type_.get_shape() for name, type_ in self._spool.types.items()}
        return {name: tuple(None if n < 0 else n for n in shape) for name, shape in shapes.items()}

    def batches(self) -> Iterator[dict[str, Array]]:
        """The given data: the inputs of each run. Raises CompileError if there is none."""
        if self._samples is None:
            raise CompileError("no data was given to take batches from", where=self._spool.source)
        yield from self._samples.batches()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Returns the outputs, by name, for arrays by input. The first runs, up to the requested number, calibrate.

        Raises CompileError for arrays that do not fit.
        """
        return self._run(self.keep(inputs))

    def keep(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Converts the inputs of a run for the model, and keeps them if the run calibrates. Raises CompileError like `run`."""
        batch = self._spool.fitting(inputs)
        if self._spool.count < self._runs:
            self._spool.add(batch)
        return batch


def load_evaluator(path: Path) -> Any:
    """The object or class called `evaluator` of a Python file, else the only object, else the only class that has a method
    `calibration`; a class is called without arguments. The file is executed.

    Raises CompileError, located in the file, if there is none or several, or if the file raises.
    """
    found = _evaluator(path)
    with running(path):
        return found() if isinstance(found, type) else found


def calibration_runs(evaluator: Any, path: Path, module: ModuleOp, runs: int) -> Samples:
    """The samples on which an evaluator's `calibration` runs the model.

    Raises CompileError, located in its file, if it raises, or for fewer runs than requested.
    """
    with closing(Spool(main_function(module), str(path))) as spool:
        with running(path):
            evaluator.calibration(FloatModel(module, spool, runs))
        if spool.count < runs:
            raise CompileError(f"runs the model {spool.count} times, not {runs} (batch_num)", where=str(path))
        return spool.samples()


def _evaluator(path: Path) -> Any:
    names = load_script(path)
    if (named := names.get(_NAME)) is not None and _calibrates(named):
        return named
    own = [v for v in names.values() if _calibrates(v) and (not isinstance(v, type) or v.__module__ == MODULE)]
    objects = [v for v in own if not isinstance(v, type)]
    classes = [v for v in own if isinstance(v, type)]
    for candidates in (objects, classes):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise CompileError(
                f"defines {len(candidates)} evaluators", where=str(path), hint=f"call the one that is meant {_NAME}"
            )
    hint = "define a class with a method calibration(self, model)"
    raise CompileError("defines no evaluator", where=str(path), hint=hint)


def _calibrates(value: object) -> bool:
    return callable(getattr(value, "calibration", None))
