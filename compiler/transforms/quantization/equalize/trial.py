"""Whether equalization serves the whole module: quantized on some samples with it and without."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from ....backends import Runner
from ....runtime.data import Samples
from ....runtime.executor import Executable
from ....session import Session
from ..outputs import Sqnr, few, lost, sqnr_of_outputs
from ..recovery_options import NO_RECOVERY
from ..request import Request
from ..steps import quantize_channels


class Trial:
    """A module quantized as requested, without recovery, and what its outputs have gained so far."""

    def __init__(self, module: ModuleOp, request: Request, samples: Samples, session: Session, runner: Runner):
        """The module may change after that, as long as it computes the same in float."""
        self._module = module
        self._original = module.clone()
        self._request = replace(request, recovery=NO_RECOVERY)
        self._samples = few(samples)
        self._session, self._runner = session.silent(), runner
        self._best: Sqnr | None = None

    def begin(self) -> None:
        """Measure the module before it is changed."""
        self._best = self._best or self._sqnr()

    def lost(self, worth: float) -> str | None:
        """The reason why the module is not to be changed so: its outputs win less than `worth` dB on average; None where they do.

        What they have then is what the next change is compared with.
        """
        new = self._sqnr()
        reason = lost(self._best or {}, new, worth)
        if reason is None:
            self._best = new
        return reason

    def _sqnr(self) -> Sqnr:
        """The SQNR of each output of reals of the module's quantized copy."""
        copy = self._module.clone()
        quantize_channels(copy, self._request, lambda: self._samples, self._session, self._runner)
        return sqnr_of_outputs(Executable(self._original), Executable(copy), self._samples)
