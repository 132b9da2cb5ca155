"""Run by Python on the processor that is tested: FOLDER. Prints how many integers of each network in it differ, as JSON.

Needs numpy and onnxruntime alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Array = np.ndarray[Any, np.dtype[Any]]


def differing(folder: Path) -> tuple[int, int]:
    """The number of integers of a network's folder that are not as expected, and of all."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    inputs, expected = (dict(np.load(folder / f"{name}.npz")) for name in ("inputs", "integers"))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, map(np.asarray, session.run(names, inputs)), strict=True))
    apart = [_apart(found[name].astype(np.int32), integers) for name, integers in expected.items()]
    return sum(apart), sum(integers.size for integers in expected.values())


def _apart(found: Array, expected: Array) -> int:
    """The number of integers that differ. In a file the channels are axis 1; in the interpreter they may be the last axis."""
    arranged = [found, np.moveaxis(found, 1, -1)] if found.ndim > 2 else [found]
    return min(int(np.count_nonzero(each != expected)) for each in arranged if each.shape == expected.shape)


if __name__ == "__main__":
    print(json.dumps({each.name: differing(each) for each in sorted(Path(sys.argv[1]).iterdir())}))
