"""A small model in two versions, and files in a folder of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODEL = """
func.func @main(%x: tensor<{batch}x2xf32> {{nn.name = "x"}}) -> (tensor<{batch}x2xf32> {{nn.name = "y"}}) {{
  %w = nn.constant dense<[[1.0, 2.0], [3.0, {corner}]]> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<{batch}x2xf32>, tensor<2x2xf32>) -> tensor<{batch}x2xf32>
  %1 = nn.relu %0 from <onnx, "Relu", "relu"> : tensor<{batch}x2xf32>
  func.return %1 : tensor<{batch}x2xf32>
}}
"""


@dataclass(frozen=True)
class Files:
    """Files in a folder of the test's own."""

    folder: Path

    def module(self, name: str = "m.mlir", batch: int | str = "?", corner: float = 4.0) -> Path:
        """`relu(x @ [[1, 2], [3, corner]])` with a first axis of `batch`."""
        return self.text(name, MODEL.format(batch=batch, corner=corner))

    def text(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def npz(self, name: str = "x.npz", **arrays: Any) -> Path:
        path = self.folder / name
        np.savez(path, **arrays)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
