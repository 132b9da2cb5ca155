"""Options of how passes run data through the model."""

from __future__ import annotations

from dataclasses import dataclass

from ...backends import Name, Runner


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options that change how fast it goes, and nothing else."""

    backend: Name = "auto"
    """`numpy`, `onnxruntime`, or `auto`, which estimates which one finishes first."""
    threads: int | None = None
    """How many batches onnxruntime runs at a time; when not given as many as there are cores, at most 8."""

    def runner(self) -> Runner:
        """Raises CompileError for a backend that is not installed, and for threads that it does not have."""
        return Runner(self.backend, self.threads)


AUTOMATIC = BackendOptions()
