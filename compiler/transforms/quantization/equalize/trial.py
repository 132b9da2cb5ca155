"""Whether equalization serves the whole module: quantized on some samples with it and without."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner
from ....runtime.data import Samples
from ....runtime.executor import Executable
from ....runtime.metrics import Differences
from ....session import Session
from ..recovery_options import NO_RECOVERY
from ..request import Request
from ..steps import quantize_channels

SAMPLES = 32
"""So many samples decide, or one run of the model where it takes more."""
TOLERATED = 0.1
"""dB that an output may lose where others win."""


class Trial:
    """A module quantized as requested, without recovery, and what its outputs have gained so far."""

    def __init__(self, module: ModuleOp, request: Request, samples: Samples, session: Session, runner: Runner):
        """The module may change after that, as long as it computes the same in float."""
        self._module = module
        self._original = module.clone()
        self._request = replace(request, recovery=NO_RECOVERY)
        self._samples = samples.head(min(samples.count, max(1, SAMPLES // samples.batch_size) * samples.batch_size))
        self._session, self._runner = session.silent(), runner
        self._best: dict[str, float] | None = None

    def begin(self) -> None:
        """Measure the module before it is changed."""
        self._best = self._best or self._sqnr()

    def lost(self, worth: float) -> str | None:
        """The reason why the module is not to be changed so: its outputs win less than `worth` dB on average; None where they do.

        What they have then is what the next change is compared with.
        """
        old, new = self._best or {}, self._sqnr()
        gains = {name: new[name] - old[name] for name in old if not isnan(new[name] - old[name])}
        worst = min(gains, key=lambda name: gains[name], default=None)
        if worst is not None and (gains[worst] < -TOLERATED or sum(gains.values()) < worth * len(gains)):
            return (
                f"with it output {worst} of the quantized model has {new[worst]:.2f} dB, without it {old[worst]:.2f} dB"
            )
        self._best = new
        return None

    def _sqnr(self) -> dict[str, float]:
        """The SQNR of each output of reals of the module's quantized copy."""
        copy = self._module.clone()
        quantize_channels(copy, self._request, lambda: self._samples, self._session, self._runner)
        exact, found = Executable(self._original), Executable(copy)
        differences = {name: Differences() for name in exact.outputs}
        for batch in self._samples.batches():
            outputs = found.run(batch)
            for name, array in exact.run(batch).items():
                if array.dtype.kind not in "iub":
                    differences[name].add(array, outputs[name])
        return {name: each.sqnr for name, each in differences.items() if each.count}
