"""Whether equalization serves the whole module: quantized on some samples with it and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from .....data import Samples
from .....engines import Runner
from .....rewriting import layer_of
from .....runtime.executor import Executable
from .....runtime.metrics import Parts
from .....session import Session
from ....inline_fused import inline_fused
from ...decide.sites import sites
from ...quantize_channels import quantize_channels
from ...request import Request
from ..layer_effects import exchanged
from ..outputs import Compared, compared, few, lost, lost_by_most

RANKED = 4
"""Number of samples that rank layers, or one run of the model if it takes more: the network runs again after each layer."""


class EqualizationTrial:
    """A module quantized as requested, and the gain of its outputs so far."""

    def __init__(
        self,
        module: ModuleOp,
        request: Request,
        parts: Sequence[tuple[Samples, Samples]],
        session: Session,
        runner: Runner,
    ):
        """`parts` are pairs of samples: the first calibrate, the second judge.

        The module may change later, as long as it computes the same in float.
        """
        self._module = module
        self._original = module.clone()
        self._request = request
        self._parts = parts
        self._session, self._runner = session.silent(), runner
        self._best: Compared | None = None

    def begin(self) -> None:
        """Measure the module as it was before any change."""
        self._best = self._best or self._compared(self._original)

    def lost(self, worth: float) -> str | None:
        """The reason why the module must not be changed so: its outputs win less than `worth` dB on average, or too few
        runs win; None if they do.

        What they have then is what the next change is compared with.
        """
        old, new = self._best, self._compared(self._module)
        assert old is not None, "begin() comes first"
        reason = lost(old.sqnr, new.sqnr, worth) or lost_by_most(old.errors, new.errors)
        if reason is None:
            self._best = new
        return reason

    @property
    def outcome(self) -> str:
        """The present SQNR of the outputs, in words."""
        assert self._best is not None, "begin() comes first"
        return ", ".join(f"{name} has {sqnr:.2f} dB" for name, sqnr in self._best.sqnr.items())

    def noise(self, layers: Collection[str]) -> Mapping[str, float]:
        """The noise of the worst output when only one layer is quantized, before any change, by layer.

        Layers whose names others have, which only modules written by hand contain, are left out.
        """
        fitting, judging = self._parts[0]
        exact, quantized = self._original.clone(), self._quantized(self._original, fitting)
        for module in (exact, quantized):
            inline_fused(module)
        names = Counter(layer_of(site.compute) for site in sites(exact, self._request.profile.rows))
        told_apart = [name for name in layers if names[name] == 1]
        samples = few(judging, RANKED)
        found = exchanged(exact, quantized, told_apart, exact, samples, self._session, "rank links", Parts)
        return {name: each.noise for name, each in found.items()}

    def _compared(self, module: ModuleOp) -> Compared:
        """The outputs of the module's quantized copies."""
        exact = Executable(self._original)
        found, *others = (
            compared(exact, Executable(self._quantized(module, fitting)), judging) for fitting, judging in self._parts
        )
        for other in others:
            found.merge(other)
        return found

    def _quantized(self, module: ModuleOp, samples: Samples) -> ModuleOp:
        copy = module.clone()
        quantize_channels(copy, self._request, lambda: samples, self._session, self._runner)
        return copy
