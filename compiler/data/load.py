"""Loads data in the form that its name and the options specify."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdsl.dialects.func import FuncOp

from ..ir.dtypes import Tensor
from ..support.diagnostics import CompileError
from ..support.limits import locating
from .addresses import is_address, local
from .arrays import load_arrays
from .images import Preprocess, image_rows
from .lazy import zarr_rows
from .raw import array_rows, raw_rows
from .samples import Samples, input_types, samples_of
from .shards import OnError, shard_files, shard_rows
from .stored import ArrayRows, Rows
from .stream import from_script

_ARRAYS = (".npz", ".npy")
_FUNCTION = re.compile(r"(.+\.py):(\w+)")


@dataclass(frozen=True)
class Form:
    """The facts that data files do not contain. Raises CompileError if they contradict each other."""

    data_types: tuple[str, ...] = ()
    """Types of raw binaries, one per input."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Shapes of raw binaries, by input; default: the model's."""
    image: Preprocess | None = None
    on_error: OnError = "stop"
    """The treatment of shards that cannot be read."""

    def __post_init__(self) -> None:
        if self.data_types and self.image is not None:
            raise CompileError(
                "data-types applies to raw binaries; preprocess, mean, std, resize and such apply to images: pass one group only",
                option="data-types",
            )
        if self.shapes and not self.data_types:
            message = "input-shape of data applies to raw binaries, which require data-types"
            raise CompileError(message, option="input-shape")


def load_samples(data: str | Path, function: FuncOp, form: Form | None = None, runs: int | None = None) -> Samples:
    """Samples for the inputs of a model: arrays (.npz, .npy, a folder of either, or of one .npy per sample), a group of Zarr
    (`x.zarr`), shards in a folder or at an address (`s3://bucket/folder`), `FILE.py:FUNCTION`, or files in the `form`.

    Folders of raw binaries are separated by `;`. `runs` is the number of batches taken from a function, by default all.
    Raises CompileError, located, for files that cannot be read and data that does not fit.
    """
    with locating(str(data)):
        return _samples(str(data), function, form or Form(), runs)


def _samples(text: str, function: FuncOp, form: Form, runs: int | None) -> Samples:
    if match := _FUNCTION.fullmatch(text):
        if form != Form():
            raise CompileError("batches of a function are taken as they are", where=text)
        return from_script(Path(match[1]), match[2], function, runs)
    types = input_types(function)
    if form.data_types or form.image is not None:
        return samples_of(_rows(text, form, types), types, text)
    if text.rstrip("/").endswith(".zarr"):
        return samples_of(zarr_rows(text), types, text)
    if files := shard_files(text):
        shards = shard_rows(files, form.on_error)
        return replace(samples_of(shards.rows, types, text), skipped=tuple(shards.skipped))
    if is_address(text):
        raise CompileError("this folder holds no .npz, .parquet or .tar files", where=text)
    return samples_of(_rows(text, form, types), types, text)


def data_files(data: str) -> list[Path]:
    """The files and folders that `data` names."""
    if match := _FUNCTION.fullmatch(data):
        return [Path(match[1])]
    return [] if is_address(data) else [local(part) for part in (data, *data.split(";"))]


def _rows(text: str, form: Form, types: Mapping[str, Tensor]) -> Mapping[str, Rows]:
    if form.data_types:
        folders = [Path(part) for part in text.split(";") if part]
        return raw_rows(folders, form.data_types, form.shapes, types)
    path = local(text)
    if form.image is not None and path.suffix.lower() in _ARRAYS:
        message = "holds arrays, which are taken as they are: preprocess, mean, std and the like apply to photos"
        raise CompileError(message, where=text, hint="leave these options out, or give a folder of photos")
    if form.image is not None:
        return image_rows(path, form.image, types)
    if path.suffix == ".py":
        raise CompileError("is a Python file", where=text, hint=f"name its function: {text}:{_function_in(path)}")
    if files := array_rows(path, types):
        return files
    return {name: ArrayRows(array, text) for name, array in load_arrays(path, types).items()}


def _function_in(path: Path) -> str:
    """The name of the last function that a Python file defines, found without executing it; `batches` if there is none."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    return next(reversed(re.findall(r"^def (\w+)\(", text, re.MULTILINE)), "batches")
