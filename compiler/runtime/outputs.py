"""Writing arrays by name, so that plain `numpy.load` reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..ir.array import Array
from ..ir.dtypes import AS_BYTES
from ..support.files import replacing

_STORED_AS = {"bfloat16": "float32", **AS_BYTES}
"""Types that numpy's format lacks, each with a wider one that represents the same values."""


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an `.npz` file, all or nothing; any name is allowed (`np.savez` cannot store one called `file`).

    bfloat16 is written as float32, integers of 4 and 2 bits as those of 8. Raises CompileError if the file cannot be written.
    """
    with replacing(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                stored = array.astype(_STORED_AS.get(array.dtype.name, array.dtype), copy=False)
                np.lib.format.write_array(entry, stored, allow_pickle=False)
