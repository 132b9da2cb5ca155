"""Calibration state files: the states of observers, and the data that they have seen, so that several processes can
share the work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....data import Samples
from ....dialects.nn import ConstantOp
from ....engines.cluster import Workers
from ....engines.data_hash import digest_of
from ....ir.metadata import tool_version
from ....ir.text import write_side_file
from ....ir.weights import WeightError, open_side_file
from ....observers.state import State
from ....rewriting import Array
from ....session import Session
from ....support.diagnostics import CompileError
from .observing import Observation, passes

_FORMAT = "amct-opt calibration state, version 1"


class Part(NamedTuple):
    """The data of one calibration call."""

    digest: str
    samples: int
    synthetic: bool
    source: str

    @staticmethod
    def of(samples: Samples, session: Session, cluster: str | Workers | None) -> Part:
        """Makes a part of data whose hash a cluster may help to compute. Raises CompileError if it cannot be read."""
        return Part(digest_of(samples, session, cluster), samples.total, samples.synthetic, samples.source)

    def among(self, parts: Iterable[Part]) -> bool:
        """Whether one of the parts has the same data."""
        return self.digest in {part.digest for part in parts}


class Progress(NamedTuple):
    """The data seen so far: by the first pass, and by the current pass, which is numbered from 0."""

    turn: int = 0
    first: tuple[Part, ...] = ()
    present: tuple[Part, ...] = ()

    def missing(self) -> list[Part]:
        """The parts that the first pass saw and the current pass did not see yet."""
        return [part for part in self.first if not part.among(self.present)]

    def with_part(self, *parts: Part) -> Progress:
        """The progress after the current pass saw these parts too."""
        present = (*self.present, *parts)
        return Progress(self.turn, self.first if self.turn else present, present)


def sources(parts: Sequence[Part]) -> str:
    """The sources of the parts' data, for messages."""
    return ", ".join(part.source for part in parts)


def write_state(path: Path, module: ModuleOp, observed: Sequence[Observation], progress: Progress) -> None:
    """Write the observers' state to `path`, a safetensors file, completely or not at all. Raises CompileError."""
    header = {
        "format": _FORMAT,
        "tool": tool_version(),
        "model": fingerprint(module),
        "points": points_data(observed),
        "pass": progress.turn,
        "passes": passes(observed),
        "first": progress.first,
        "present": progress.present,
    }
    arrays = states_of(observed)
    arrays["header"] = np.frombuffer(json.dumps(header, indent=1).encode(), np.uint8)
    write_side_file(path, {**arrays, "checksum": np.frombuffer(_checksum(arrays), np.uint8)})


def states_of(observed: Sequence[Observation]) -> dict[str, Array]:
    """The states of all observers as arrays of one file."""
    return {f"{i}/{name}": a for i, each in enumerate(observed) for name, a in each.observer.state().items()}


def merge_states(paths: Sequence[Path], module: ModuleOp, observed: Sequence[Observation]) -> Progress:
    """Bring fresh observers into the state that they would have after seeing the data of all files in order.

    Raises CompileError, located in the file, if it is damaged or belongs to another model, other points or another pass.
    """
    model, merged, begun = fingerprint(module), Progress(), Path()
    for path in paths:
        arrays = _read(path)
        progress = _progress(arrays.pop("header"), path, model, observed)
        if not merged.first:
            merged, begun = progress, path
            restore_all(observed, arrays, path)
            continue
        _check_same_pass(merged, progress, begun, path)
        others = [each.fresh() for each in observed]
        restore_all(others, arrays, path)
        for one, other in zip(observed, others, strict=True):
            _merge(one, other, merged.turn, path)
        merged = merged.with_part(*progress.present)
    return merged


def _read(path: Path) -> dict[str, Array]:
    """The file's arrays. Raises CompileError, located, if the file is not intact."""
    try:
        file = open_side_file(path)
        arrays = {key: file.array(key) for key in file.keys()}  # noqa: SIM118
    except WeightError as e:
        raise CompileError(str(e).removeprefix(f"{path}: "), where=str(path)) from None
    checksum = arrays.pop("checksum", None)
    if checksum is None or "header" not in arrays:
        raise CompileError("is not a calibration state", where=str(path), hint="--calibrate=save-state= writes one")
    if checksum.tobytes() != _checksum(arrays):
        raise CompileError("is corrupted: checksum mismatch", where=str(path))
    return arrays


def _checksum(arrays: Mapping[str, Array]) -> bytes:
    state = hashlib.sha256()
    for name in sorted(arrays):
        state.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.digest()


def _progress(header: Array, path: Path, model: str, observed: Sequence[Observation]) -> Progress:
    """The content of a header. Raises CompileError if it belongs to another model or to other points."""
    try:
        found: Any = json.loads(header.tobytes())
        known = found["format"] == _FORMAT
        progress = Progress(int(found["pass"]), *(tuple(map(_part, found[key])) for key in ("first", "present")))
        theirs, of_model = cast("list[object]", found["points"]), found["model"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CompileError("is not a calibration state: unrecognized header", where=str(path)) from None
    if not known or not progress.first:
        raise CompileError(f"holds a state of another version than '{_FORMAT}'", where=str(path))
    if (difference := next(_differences(points_data(observed), theirs), None)) is not None:
        hint = "states are of one model, after the same passes with the same options"
        raise CompileError(f"is a state of other points: {difference}", where=str(path), hint=hint)
    if of_model != model:
        hint = "states are of one model with the same weights, after the same passes with the same options"
        raise CompileError("is a state of another model", where=str(path), hint=hint)
    if not 0 <= progress.turn < (total := passes(observed)):
        raise CompileError(f"is a state of pass {progress.turn + 1}, of {total}", where=str(path))
    return progress


def _part(fields: Any) -> Part:
    digest, samples, synthetic, source = fields
    return Part(str(digest), int(samples), bool(synthetic), str(source))


def points_data(observed: Sequence[Observation]) -> list[dict[str, object]]:
    """The points and their settings as plain data."""
    return [
        {
            "points": [point.point.data for point in each.points],
            "observer": each.points[0].observer.data,
            "bits": each.observer.bits,
            "symmetric": each.observer.symmetric,
        }
        for each in observed
    ]


def _differences(ours: Sequence[object], theirs: Sequence[object]) -> Iterator[str]:
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            yield f"{json.dumps(other)}, here {json.dumps(mine)}"
    if len(ours) != len(theirs):
        yield f"{len(theirs)} of them, here {len(ours)}"


def restore_all(observed: Sequence[Observation], arrays: Mapping[str, Array], path: Path) -> None:
    """Restore states that `states_of` made. Raises CompileError, located in the file, for those of other observers."""
    for i, each in enumerate(observed):
        state: State = {n.removeprefix(f"{i}/"): a for n, a in arrays.items() if n.startswith(f"{i}/")}
        try:
            each.observer.restore(state)
        except ValueError as e:
            name = each.points[0].point.data
            raise CompileError(f"the state of point '{name}' cannot be taken up: {e}", where=str(path)) from None


def _check_same_pass(merged: Progress, other: Progress, begun: Path, path: Path) -> None:
    if merged.turn != other.turn:
        raise CompileError(
            f"is a state of pass {other.turn + 1}, {begun} of pass {merged.turn + 1}",
            where=str(path),
            hint="merge the states of one pass",
        )
    if merged.turn and {part.digest for part in merged.first} != {part.digest for part in other.first}:
        raise CompileError(f"began from another first pass than {begun}", where=str(path))
    if twice := [part for part in other.present if part.among(merged.present)]:
        raise CompileError(f"has seen {sources(twice)}, which another state has seen too", where=str(path))


def _merge(one: Observation, other: Observation, turn: int, path: Path) -> None:
    """Merge a file's state. Observers that are done have the same state in all files, that of earlier passes."""
    name = one.points[0].point.data
    try:
        if one.observer.passes > turn:
            one.observer.merge(other.observer)
        elif not _equal(one.observer.state(), other.observer.state()):
            raise ValueError("it began from another state")
    except ValueError as e:
        raise CompileError(f"the state of point '{name}' cannot be merged: {e}", where=str(path)) from None


def _equal(a: State, b: State) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


def fingerprint(module: ModuleOp) -> str:
    """SHA-256 over operations, attributes and weights; locations, names of values and metadata do not count."""
    state = hashlib.sha256()
    numbers: dict[SSAValue, int] = {}
    for op in module.walk():
        for value in (*(a for region in op.regions for b in region.blocks for a in b.args), *op.results):
            numbers[value] = len(numbers)
        properties = {k: str(v) for k, v in op.properties.items() if not (isinstance(op, ConstantOp) and k == "value")}
        types = [str(result.type) for result in op.results]
        state.update(repr((op.name, [numbers[o] for o in op.operands], sorted(properties.items()), types)).encode())
        if isinstance(op, ConstantOp):
            state.update(np.ascontiguousarray(op.array).tobytes())
    return state.hexdigest()
