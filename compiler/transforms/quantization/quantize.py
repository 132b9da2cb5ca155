"""`--quantize`: the whole of quantization: observers where missing, calibration, integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .calibrate import CalibratePass
from .convert_observers import ConvertObserversPass
from .insert_observers import InsertObserversPass


@dataclass(frozen=True)
class QuantizePass(ModulePass):
    """Insert observers where missing, calibrate them, and turn activations, weights and biases into integers."""

    name = "quantize"

    data: str | None = None
    """An .npz file or a folder of .npy files, one array per input, samples on the first axis."""
    samples: int | None = None
    observer: str = "minmax"
    bits: Literal[8] = 8
    skip_layers: tuple[str, ...] = ()
    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in (
            InsertObserversPass(self.observer, self.skip_layers),
            CalibratePass(self.data, self.samples, self.seed),
            ConvertObserversPass(),
        ):
            each.apply(ctx, op)
