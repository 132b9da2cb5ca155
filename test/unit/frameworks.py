"""What tests import when they first take something of it: frameworks to compare with, and scripts. Collecting stays quick."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pytest


class Later:
    """Stands for a module, or for what one holds, that `find` imports or makes."""

    def __init__(self, find: Callable[[], Any]):
        vars(self)["find"] = find

    def __getattr__(self, name: str) -> Any:
        if name == "_mock_name" or name.startswith("__"):  # what pytest asks whatever a file of tests holds
            raise AttributeError(name)
        return getattr(self.find(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.find(), name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.find()(*arguments, **keywords)


def later(path: str) -> Any:
    """What stands at a path such as `tensorflow.raw_ops`. A test that takes something of it is skipped without the package.

    Of any type: those that pyright has for TensorFlow are narrower than what it takes.
    """

    def find() -> Any:
        pytest.importorskip(path.partition(".")[0])
        return resolve_name(path)

    return Later(find)


def needs(*packages: str) -> pytest.MarkDecorator:
    """Tests are skipped unless all of these are installed."""
    absent = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


keras, tf, tf_keras = later("keras"), later("tensorflow"), later("tf_keras")
ReferenceEvaluator = later("onnx.reference.ReferenceEvaluator")

if TYPE_CHECKING:
    import torch as torch
    from torch import nn as nn
else:
    torch, nn = later("torch"), later("torch.nn")
