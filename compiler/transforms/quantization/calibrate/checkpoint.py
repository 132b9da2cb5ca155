"""Checkpoints: what observers have seen so far of a pass, in a folder, so that a run that was stopped goes on from there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ....diagnostics import CompileError
from ....ir.weights import WeightError, open_side_file, write_side_file
from .observations import Observation
from .state import fingerprint, points_data, restore_all, states_of

_SECONDS = 5
"""How much time may pass between two writes, about."""
_MERGED = "merged"


@dataclass
class Checkpoint:
    """The file of one pass over one set of samples."""

    path: Path
    written: float = 0.0

    @staticmethod
    def of(folder: Path, module: ModuleOp, observed: Sequence[Observation], digest: str, turn: int) -> Checkpoint:
        """The file for a module, the points with their settings, samples with this digest, and a pass. Raises CompileError for a
        folder that cannot be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CompileError(f"cannot be written: {e.strerror}", where=str(folder)) from None
        key = json.dumps((fingerprint(module), points_data(observed), digest, turn))
        return Checkpoint(folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.safetensors", time.monotonic())

    def taken_up(self, observed: Sequence[Observation]) -> int:
        """Brings the observers into the state of the file, if there is one. Returns the number of shares that they have seen.

        Raises CompileError, located, for a damaged file.
        """
        if not self.path.exists():
            return 0
        try:
            file = open_side_file(self.path)
            arrays = {key: file.array(key) for key in file.keys()}  # noqa: SIM118
            merged = int(arrays.pop(_MERGED)[0])
        except (WeightError, KeyError) as e:
            raise CompileError(f"is not a checkpoint: {e}", where=str(self.path), hint="remove it") from None
        restore_all(observed, arrays, self.path)
        return merged

    def keep(self, observed: Sequence[Observation], merged: int, *, last: bool) -> None:
        """Writes the state after so many shares, if that was long ago, or it is the last one."""
        if last or time.monotonic() - self.written > _SECONDS:
            write_side_file(self.path, {**states_of(observed), _MERGED: np.array([merged])})
            self.written = time.monotonic()
