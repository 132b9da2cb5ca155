"""Small nets as prototxt and caffemodel, what becomes of them, and what OpenCV makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.caffe_net import Net, opencv
from xdsl.dialects.builtin import ModuleOp

from amct_opt.frontends.caffe import read
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions, Session
from amct_opt.session.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Caffe:
    """Files in a folder of the test's own."""

    folder: Path
    session: Session

    def save(self, text: str, binary: bytes | None = None, name: str = "net") -> tuple[Path, Path]:
        text_path, binary_path = self.folder / f"{name}.prototxt", self.folder / f"{name}.caffemodel"
        text_path.write_text(text, "utf-8")
        if binary is not None:
            binary_path.write_bytes(binary)
        return text_path, binary_path

    def load(self, net: Net, **options: Any) -> ModuleOp:
        """The net as a verified module, through its files."""
        text, weights = self.save(net.text, net.binary)
        self.session.imports = ImportOptions(**{"weights": weights, **options})
        module = read(text, self.session)
        verify(module)
        return module

    def load_text(self, text: str, **options: Any) -> ModuleOp:
        """The net of a text that needs no weights, or holds them."""
        self.session.imports = ImportOptions(**options)
        module = read(self.save(text)[0], self.session)
        verify(module)
        return module

    def run(self, net: Net, inputs: Mapping[str, Array], **options: Any) -> dict[str, Array]:
        return run(self.load(net, **options), inputs)

    @staticmethod
    def opencv(net: Net, inputs: Mapping[str, Array], layers: Sequence[str] = ()) -> list[Array]:
        pytest.importorskip("cv2")
        return opencv(net, inputs, layers)

    def remarks(self, rule: str = "") -> list[str]:
        """Layer and reason of each remark, of one rule."""
        return [f"{r.layer}: {r.reason}" for r in self.session.remarks if not rule or r.rule == rule]


@pytest.fixture
def caffe(tmp_path: Path) -> Caffe:
    return Caffe(tmp_path, new_session())


@pytest.fixture
def new_net() -> Callable[..., Net]:
    return Net


def close(actual: Array, expected: Array, tolerance: float = 2e-6) -> None:
    """Equal in shape, and to within a part of the largest value."""
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-6)


@pytest.fixture
def assert_close() -> Callable[..., None]:
    return close
