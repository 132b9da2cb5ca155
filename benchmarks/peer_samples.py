"""Reads the samples of peers. Other interpreters import this module, so it needs nothing but numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def reader(model: Any, data: str) -> Callable[[int], dict[str, Array]]:
    """Returns a function from the number of a row to the inputs of one run of an ONNX model.

    The data are an array `.npy` for the input `data`, or an `.npz` with an array per input. A row is a sample of a batch. If an
    array has one dimension more than the model's input, a row is the whole input.
    """
    loaded = np.load(data, mmap_mode="r")
    arrays: dict[str, Array] = dict(loaded) if isinstance(loaded, Mapping) else {"data": loaded}
    ranks = {given.name: len(given.type.tensor_type.shape.dim) for given in model.graph.input}

    def inputs(row: int) -> dict[str, Array]:
        return {
            name: np.array(array[row] if array.ndim > ranks[name] else array[row : row + 1])
            for name, array in arrays.items()
        }

    return inputs
