"""AMCT's evaluator of raw binaries for PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...frontends.torch.library import torch_library
from ..evaluators import Array, RawEvaluator


class ModelEvaluator(RawEvaluator):
    """Runs a module, in evaluation mode, on raw binaries: the inputs of a file each are its arguments, in order."""

    def calibration(self, modified_model: Any, batch_num: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a module on the first `batch_num` files. Raises CompileError if there are fewer."""
        return super().calibration(modified_model, batch_num)

    def evaluate(self, modified_model: Any, iterations: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a module on the first files. Nothing is measured. Raises CompileError if there are fewer."""
        return super().evaluate(modified_model, iterations)

    def run(self, model: Sequence[Any], batches: Iterator[dict[str, Array]]) -> None:
        (module,) = model
        torch = torch_library(type(module).__name__)
        module.eval()
        with torch.no_grad():
            for batch in batches:
                module(*map(torch.from_numpy, batch.values()))
