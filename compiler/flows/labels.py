"""Reads the labels of samples: from class folders, tables and arrays."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..data import ImageRows, Samples, load_arrays
from ..runtime.executor import Array
from ..support.diagnostics import CompileError
from ..support.files import refuse_pipe
from .evaluation import Labels

FOLDERS = "folders"
_HEADERS = (["path", "label"], ["label"])


def load_labels(text: str, samples: Samples) -> Labels:
    """The labels of samples, or of all samples that they are a part of.

    `text` is `folders` (an image's class is its folder, by the order of folders' names), a CSV file of `path,label` or
    `label`, or an array: FILE.npy, FILE.npz, FILE.npz:KEY. Raises CompileError, located in the file or folder, for labels that
    cannot be read and for samples without a label.
    """
    images = next((rows for rows in samples.rows.values() if isinstance(rows, ImageRows)), None)
    if text == FOLDERS:
        if images is None:
            hint = "give them as a file: labels.csv, labels.npy or labels.npz:KEY"
            raise CompileError("only images can have their folders as labels", where=samples.source, hint=hint)
        return _folders(images).of(samples)
    path = Path(text)
    if path.suffix.lower() != ".csv":
        _require_order(images, text)
        return Labels(array_named(text), text).of(samples)
    table = _rows(path)
    if len(table[0][1]) == 1:
        _require_order(images, text)
        return Labels(np.array([_class(row[0], f"{path}:{line}") for line, row in table]), text).of(samples)
    if images is None:
        raise CompileError("lists paths, but the samples are not images", where=text, hint="list labels only")
    return Labels(_by_path(path, table, images), text).of(samples)


def _folders(images: ImageRows) -> Labels:
    places = [file.relative_to(images.folder).parts for file in images.files]
    if bare := next((place for place in places if len(place) == 1), None):
        raise CompileError("is not in a class folder", where=str(images.folder / bare[0]))
    names = sorted({place[0] for place in places})
    index = {name: i for i, name in enumerate(names)}
    if all(name.isdecimal() for name in names) and names != sorted(names, key=int):
        moved = next(name for name, other in zip(names, sorted(names, key=int), strict=True) if name != other)
        message = f"folders are classes in the order of their names, so folder '{moved}' is class {index[moved]}"
        hint = "pad the names with zeros, or list path,label in a table: --labels FILE.csv"
        raise CompileError(message, where=str(images.folder), hint=hint)
    return Labels(np.array([index[place[0]] for place in places]), str(images.folder), len(names))


def _require_order(images: ImageRows | None, where: str) -> None:
    """Raises CompileError for images of several folders, whose order is not that of their names."""
    if images is not None and len({file.parent for file in images.files}) > 1:
        hint = "use --labels folders, or a table of path,label"
        raise CompileError("labels without paths are for images in one folder", where=where, hint=hint)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a table with their lines, without its header."""
    refuse_pipe(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, skipinitialspace=True)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, ValueError, csv.Error) as e:
        raise CompileError(f"cannot be read as a table: {e}", where=str(path)) from None
    if rows and [cell.lower() for cell in rows[0][1]] in _HEADERS:
        del rows[0]
    if not rows:
        raise CompileError("lists no labels", where=str(path))
    for line, row in rows:
        if len(row) != len(rows[0][1]) or len(row) > 2:
            raise CompileError("is neither 'path,label' nor 'label'", where=f"{path}:{line}")
    return rows


def _class(text: str, where: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise CompileError(f"label '{text}' is not the number of a class", where=where)
    return int(text)


def _by_path(path: Path, table: Sequence[tuple[int, list[str]]], images: ImageRows) -> Array:
    """The labels of images, in their order; paths are those in the images' folder, or next to the table."""
    known = {file.resolve(): i for i, file in enumerate(images.files)}
    labels: dict[int, int] = {}
    for line, (name, label) in table:
        where = f"{path}:{line}"
        places = [known.get((folder / name).resolve()) for folder in (images.folder, path.parent)]
        index = next((i for i in places if i is not None), None)
        if index is None:
            raise CompileError(f"'{name}' is not an image of {images.folder}", where=where)
        if index in labels:
            raise CompileError(f"lists '{name}' twice", where=where)
        labels[index] = _class(label, where)
    if missing := [images.place(i) for i in known.values() if i not in labels]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CompileError(f"has no label for {missing[0]}{more}", where=str(path))
    return np.array([labels[i] for i in range(len(images.files))])


def array_named(text: str) -> Array:
    """The array of FILE.npy, FILE.npz or FILE.npz:KEY. Raises CompileError, located, for several arrays without a key."""
    match = re.fullmatch(r"(.+\.npz):(.+)", text)
    file, key = (Path(match[1]), match[2]) if match else (Path(text), None)
    arrays: Mapping[str, Array] = load_arrays(file, ["labels"])
    if key is None and len(arrays) != 1:
        raise CompileError("contains several arrays", where=str(file), hint=f"choose one: {file}:{next(iter(arrays))}")
    if key is not None and key not in arrays:
        raise CompileError(f"contains no array '{key}'", where=str(file), hint=f"it contains {', '.join(arrays)}")
    return np.array(arrays[key] if key is not None else next(iter(arrays.values())))
