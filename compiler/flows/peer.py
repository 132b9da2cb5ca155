"""Opens the written file in onnxruntime, if installed, with its default options, and runs a little of the data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..data import Samples
from ..dialects.nn import NNOp, QuantizeOp
from ..engines.onnx_runtime import Arithmetic, arithmetic, processor, providers
from ..ir.array import Array
from ..rewriting import layer_of
from ..runtime.boundary import Boundary
from ..runtime.executor import Executable
from ..runtime.metrics import Difference, Differences
from ..runtime.program import Rewrite
from ..support.diagnostics import first_line
from ..support.tables import numbered
from ..transforms.quantization.convert.layer_weights import Inexact, inexact_layers
from ..transforms.quantization.options import Device
from ..transforms.quantization.profiles import Profile

LEAST = 8
"""Least number of samples to compare, if there are as many."""
_SHOWN = 3
"""Layers in a sentence."""
_KEPT = 64 << 20
"""Bytes of outputs that are kept for this, but at least those of as many samples."""

CLOSE = 60.0
"""Outputs at or above this SQNR (dB) need no explanation: float32 sums are rounded in a different order."""


_FATAL = 4
_FLOATS = frozenset({17, 19})
"""ONNX's codes of float8e4m3fn and float8e5m2."""
_SUB_BYTE = frozenset({21, 22, 25, 26})
"""ONNX's codes of uint4, int4, uint2 and int2, which onnxruntime does not return."""
_MOVED = {2: 1 << 7, 4: 1 << 15, 21: 1 << 3, 25: 1 << 1}
"""Offset between the integers of a file and the signed ones of a module, by ONNX's codes of uint8, uint16, uint4 and uint2."""
_SHORTAGE = re.compile(r"bad_alloc|pthread_create failed|(annot|ailed to) allocate|out of memory", re.IGNORECASE)
"""Messages of onnxruntime if the system gives it no memory."""


@dataclass(frozen=True)
class FirstApart:
    """The first quantized value, in the order of the file, whose integers differ: `differing` of `count`, by at most `steps`."""

    name: str
    differing: int
    count: int
    steps: int


@dataclass
class Expected:
    """The expected outputs of a file: those of the float model and of the simulation, run by run."""

    samples: Sequence[Samples]
    """The samples of the runs; those held back come first."""
    runs: list[tuple[Mapping[str, Array], Mapping[str, Array]]] = field(
        default_factory=list[tuple[Mapping[str, Array], Mapping[str, Array]]]
    )
    _bytes: int = 0

    def add(self, exact: Mapping[str, Array], simulated: Mapping[str, Array]) -> None:
        """Keep the outputs of the next run, unless there are enough."""
        self._bytes += sum(array.nbytes for outputs in (exact, simulated) for array in outputs.values())
        if self._bytes <= _KEPT or len(self.runs) * self.samples[0].batch_size < LEAST:
            self.runs.append((exact, simulated))

    def batches(self) -> Iterator[Mapping[str, Array]]:
        """The inputs of the runs that are kept."""
        return islice(chain.from_iterable(each.batches() for each in self.samples), len(self.runs))


@dataclass(frozen=True)
class Simulation:
    """The reference of a file: the module that it was written from, run with `rewrite`."""

    module: ModuleOp
    rewrite: Rewrite | None
    profile: Profile
    boundary: Boundary = field(default_factory=Boundary)
    """The conversion of samples of the float model to inputs of the file."""

    def overflows(self, batches: Iterable[Mapping[str, Array]]) -> dict[str, int]:
        """The number of sums of two products that leave 16 bits in these runs, by layer that may be inexact; only with
        integer inputs.
        """
        found = Counter[str]()
        layers = inexact_layers(self.module, self.profile)
        for op, count in overflows(self.module, layers, map(self.boundary.integers, batches)).items():
            found[layer_of(op)] += count
        return dict(found)


def overflows(module: ModuleOp, layers: Iterable[Inexact], runs: Iterable[Mapping[str, Array]]) -> dict[NNOp, int]:
    """The number of sums of two products that leave 16 bits in these runs, by operation; only with integer inputs."""
    readers: dict[SSAValue, list[Inexact]] = {}
    for each in layers:
        if each.inputs is not None:
            readers.setdefault(each.inputs, []).append(each)
    found = {each.op: 0 for several in readers.values() for each in several}

    def count(value: SSAValue, array: Array) -> None:
        for each in readers[value]:
            found[each.op] += each.overflows(array)

    if readers:
        executable = Executable(module, [*readers])
        for inputs in runs:
            executable.run(inputs, count)
    return found


@dataclass(frozen=True)
class Peer:
    """The result of running a file in onnxruntime. `outputs` are those of the interpreter and of onnxruntime, compared."""

    version: str
    failure: str = ""
    """The first line of its error message if it cannot open or run the file."""
    runs: int = 0
    outputs: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    accuracy: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    """The outputs of the float model and of the file in onnxruntime, compared."""
    first_apart: FirstApart | None = None
    """The first value in which interpreter and onnxruntime differ, if outputs are below CLOSE."""
    processor: str = ""
    arithmetic: Arithmetic = "exact"
    """The way onnxruntime adds products of 8 bits on this processor."""
    overflows: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of sums of two products that leave 16 bits in these runs, by layer, if `arithmetic` makes a difference."""

    @property
    def wrong(self) -> str:
        """The layers whose sums this processor gets wrong, with their number; empty if outputs are the simulation's."""
        if all(each.sqnr >= CLOSE for each in self.outputs.values()):
            return ""
        layers = sorted(((count, name) for name, count in self.overflows.items() if count), reverse=True)
        shown = ", ".join(f"{name} ({count})" for count, name in layers[:_SHOWN])
        return f"{shown}{f' and {len(layers) - _SHOWN} more' if len(layers) > _SHOWN else ''}"


def peer_of(path: Path, ours: Simulation | None = None, expected: Expected | None = None) -> Peer | None:
    """Open a file with the default options, and compare it with the expected outputs. None without onnxruntime.

    If outputs are below CLOSE, a copy of the file that also outputs its integers is written next to it, run, and removed.
    """
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError:
        return None
    version = str(onnxruntime.__version__)
    totals: dict[str, Differences] = {}
    accuracy: dict[str, Differences] = {}
    apart = None
    try:
        found = Peer(version, processor=processor(), arithmetic=arithmetic())
        session = open_session(onnxruntime, path)
        if ours is None or expected is None:
            return found
        for inputs, (exact, simulated) in zip(expected.batches(), expected.runs, strict=True):
            given = ours.boundary.integers(inputs)
            theirs = ours.boundary.reals(_run(session, given))
            for name, array in simulated.items():
                totals.setdefault(name, Differences()).add(array, theirs[name])
                accuracy.setdefault(name, Differences()).add(exact[name], theirs[name])
            if apart is None and any(d.sqnr < CLOSE for d in totals.values()):
                apart = _first_apart(onnxruntime, path, ours, given)
    except MemoryError:
        raise
    except Exception as e:  # onnxruntime's have no other base
        if _SHORTAGE.search(str(e)):
            raise MemoryError(f"onnxruntime: {first_line(e)}") from None
        return Peer(version, first_line(e))
    return replace(
        found,
        runs=len(expected.runs),
        outputs={name: d.result() for name, d in totals.items()},
        accuracy={name: d.result() for name, d in accuracy.items()},
        first_apart=apart,
        overflows={} if found.arithmetic == "exact" else ours.overflows(expected.batches()),
    )


def open_session(onnxruntime: Any, path: Path, device: Device = "cpu") -> Any:
    """A file in onnxruntime with its default options. Raises what onnxruntime raises."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    # spinning does not affect results, and here it costs more than computing
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=providers(device))


def _run(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


class Shown(NamedTuple):
    """A copy of a file that outputs its integers as well. By value that QuantizeLinear makes, the output, and ONNX's code of its
    type.
    """

    path: Path
    outputs: Mapping[str, str]
    types: Mapping[str, int | None]


def shown_integers(path: Path) -> Shown:
    """Write such a copy next to a file."""
    import onnx

    model = onnx.ModelProto.FromString(path.read_bytes())
    types = {t.name: t.data_type for t in model.graph.initializer}  # those of zero points
    linear = [n for n in model.graph.node if n.op_type == "QuantizeLinear"]
    made = {n.output[0]: next((types.get(point) for point in n.input[2:]), None) for n in linear}
    made = {name: type_ for name, type_ in made.items() if type_ not in _FLOATS}
    outputs = {name: f"{name} as a number" if type_ in _SUB_BYTE else name for name, type_ in made.items()}
    one = onnx.numpy_helper.from_array(np.array(1, np.float32), "one for integers")
    model.graph.initializer.append(one)
    for name, output in outputs.items():
        if output != name:  # onnxruntime's oldest version has no Cast of them
            model.graph.node.append(onnx.helper.make_node("DequantizeLinear", [name, one.name], [output]))
    given = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs.values() if name not in given)
    shown = path.with_name(f"integers_{path.name}")
    shown.write_bytes(model.SerializeToString())
    return Shown(shown, outputs, made)


def simulated_integers(ours: Simulation, shown: Shown, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The integers of all values that have the same name in a file, in the form of its outputs: int32, by output."""
    values: list[SSAValue] = [op.result for op in ours.module.walk() if isinstance(op, QuantizeOp)]
    names = dict(zip(values, _numbered(v.name_hint or "" for v in values), strict=True))
    places = dict(zip(_numbered(re.sub(r"_\d+$", "", each) for each in shown.outputs), shown.outputs, strict=True))
    found: dict[str, Array] = {}

    def keep(value: SSAValue, array: Array) -> None:
        if name := places.get(names[value], ""):
            moved = _MOVED.get(shown.types[name] or 0, 0) if array.dtype.kind == "i" else 0
            found[shown.outputs[name]] = array.astype(np.int32) + moved

    Executable(ours.module, values, ours.rewrite).run(inputs, keep)
    return found


def _first_apart(onnxruntime: Any, path: Path, ours: Simulation, inputs: Mapping[str, Any]) -> FirstApart | None:
    """The first integers that differ, in the order of the file, of values that have the same name and shape on both sides."""
    shown = shown_integers(path)
    try:
        theirs = _run(open_session(onnxruntime, shown.path), inputs)
    finally:
        shown.path.unlink()
    simulated = simulated_integers(ours, shown, inputs)
    for name, output in shown.outputs.items():
        own, other = simulated.get(output), theirs[output]
        if own is not None and own.shape == other.shape:
            apart = np.abs(other.astype(np.int32) - own)
            if differing := int(np.count_nonzero(apart)):
                return FirstApart(name, differing, apart.size, int(apart.max()))
    return None


def _numbered(names: Iterable[str]) -> Iterator[str]:
    """Names with their number among equal ones: the file and the module number equal ones differently."""
    seen = Counter[str]()
    for name in names:
        seen[name] += 1
        yield f"{name} {seen[name]}"


def refused(peer: Peer | None, source: Path) -> bool:
    """Whether it rejects the file although it accepts the source model, if that is an ONNX file."""
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
    runs = numbered(peer.runs, "run")
    differing = sum(d.differing for d in peer.outputs.values())
    count = sum(d.count for d in peer.outputs.values())
    if not differing:
        return f"{peer.version} runs the file; {runs}: all {count} outputs are the interpreter's"
    largest = max(d.largest for d in peer.outputs.values())
    lowest = min(d.sqnr for d in peer.outputs.values())
    return (
        f"{peer.version} runs the file; {runs}: {differing} of {count} outputs differ from the interpreter's, "
        f"at most by {largest:.6g} ({lowest:.1f} dB){_where_apart(peer.first_apart)}"
    )


def _where_apart(first: FirstApart | None) -> str:
    if first is None:
        return ""
    steps = numbered(first.steps, "step")
    return f"; the first integers that differ: {first.name}, {first.differing} of {first.count}, at most by {steps}"
