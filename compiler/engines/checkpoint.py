"""Checkpoints: results of workers so far, in a folder, so that a run that was stopped goes on from there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..ir.array import Array
from ..ir.metadata import tool_version
from ..ir.text import write_side_file
from ..ir.weights import WeightError, open_side_file
from ..support.diagnostics import CompileError

_SECONDS = 5
"""Approximate time between two writes, in seconds."""
_MERGED = "merged"


@dataclass
class Checkpoint:
    """The file of one work on shares, in their order; without a path nothing is kept."""

    path: Path | None
    written: float = 0.0

    @staticmethod
    def of(folder: Path | None, key: Callable[[], object]) -> Checkpoint:
        """The file in a folder of the work that plain data identifies. Raises CompileError for a folder that cannot be made."""
        if folder is None:
            return Checkpoint(None)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CompileError(f"cannot be written: {e.strerror}", where=str(folder)) from None
        text = json.dumps((tool_version(), key()))
        return Checkpoint(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.safetensors", time.monotonic())

    def taken_up(self) -> tuple[int, dict[str, Array]]:
        """The number of shares that are done, and the arrays of the file; 0 and none without a file.

        Raises CompileError, located, for a damaged file.
        """
        if self.path is None or not self.path.exists():
            return 0, {}
        try:
            file = open_side_file(self.path)
            arrays = {key: file.array(key) for key in file.keys()}  # noqa: SIM118
            return int(arrays.pop(_MERGED)[0]), arrays
        except (WeightError, KeyError) as e:
            raise CompileError(f"is not a checkpoint: {e}", where=str(self.path), hint="remove it") from None

    def keep(self, arrays: Callable[[], Mapping[str, Array]], merged: int, *, last: bool) -> None:
        """Writes the arrays after this many shares, if that was long ago, or it is the last one."""
        if self.path is not None and (last or time.monotonic() - self.written > _SECONDS):
            write_side_file(self.path, {**arrays(), _MERGED: np.array([merged])})
            self.written = time.monotonic()
