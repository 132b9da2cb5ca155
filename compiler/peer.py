"""onnxruntime, where it is installed, opens what was written with its default options, and runs a little of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from .diagnostics import first_line
from .runtime.data import Samples
from .runtime.executor import Executable
from .runtime.metrics import Difference, Differences

RUNS = 2
"""How many runs of the data are compared."""
_FATAL = 4


@dataclass(frozen=True)
class Peer:
    """What onnxruntime makes of a file. `outputs` are those of the interpreter and of onnxruntime, compared."""

    version: str
    failure: str = ""
    """The first line of what it says if it does not open or run the file."""
    runs: int = 0
    outputs: Mapping[str, Difference] = field(default_factory=dict[str, Difference])


def peer_of(path: Path, ours: Executable | None = None, samples: Samples | None = None) -> Peer | None:
    """Open a file with the default options, and compare `ours` on the first samples. None without onnxruntime."""
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError:
        return None
    version = str(onnxruntime.__version__)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    totals: dict[str, Differences] = {}
    runs = 0
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        if ours is not None and samples is not None:
            for inputs in islice(samples.batches(), RUNS):
                theirs = dict(zip(names, session.run(names, dict(inputs)), strict=True))
                for name, array in ours.run(inputs).items():
                    totals.setdefault(name, Differences()).add(array, theirs[name])
                runs += 1
    except Exception as e:  # onnxruntime's have no other base
        return Peer(version, first_line(str(e)))
    return Peer(version, runs=runs, outputs={name: d.result() for name, d in totals.items()})


def refused(peer: Peer | None, source: Path) -> bool:
    """Whether it does not take the file, though it takes the model that the file was made of, if that is its format."""
    if peer is None or not peer.failure:
        return False
    if source.suffix.lower() != ".onnx":
        return True
    before = peer_of(source)
    return before is not None and not before.failure


def described(peer: Peer | None) -> str:
    """One line for a summary."""
    if peer is None:
        return "is not installed: the file was not opened"
    if peer.failure:
        return f"{peer.version} does not run the file: {peer.failure}"
    if not peer.runs:
        return f"{peer.version} opens the file"
    runs = "1 run" if peer.runs == 1 else f"{peer.runs} runs"
    differing = sum(d.differing for d in peer.outputs.values())
    count = sum(d.count for d in peer.outputs.values())
    if not differing:
        return f"{peer.version} runs the file; {runs}: all {count} outputs are the interpreter's"
    largest = max(d.largest for d in peer.outputs.values())
    lowest = min(d.sqnr for d in peer.outputs.values())
    return (
        f"{peer.version} runs the file; {runs}: {differing} of {count} outputs differ from the interpreter's, "
        f"at most by {largest:.6g} ({lowest:.1f} dB)"
    )
