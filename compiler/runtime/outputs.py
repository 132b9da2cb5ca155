"""Writing arrays by name, so that plain `numpy.load` reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..files import replacing
from ..ir.array import Array

_STORED_AS = {"bfloat16": "float32", "int4": "int8", "uint4": "uint8"}
"""Types that numpy's format lacks, each with a wider one that represents the same values."""


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an `.npz` file, all or nothing; any name is allowed (`np.savez` cannot store one called `file`).

    bfloat16 is written as float32, 4-bit integers as 8-bit ones. Raises CompileError if the file cannot be written.
    """
    with replacing(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                stored = array.astype(_STORED_AS.get(array.dtype.name, array.dtype), copy=False)
                np.lib.format.write_array(entry, stored, allow_pickle=False)
