"""`--faster-than-float`: layers go back to float until onnxruntime takes less time for the file than for the float model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from ..formats.onnx.graphs import replace_names
from ..session import ImportOptions
from ..support.diagnostics import CompileError, Remark
from ..support.files import scratch
from ..support.tables import numbered, some
from ..targets.onnx import OnnxTarget
from ..transforms.quantization.profiles import QDQ, profile_of
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request
from . import latency
from .latency import Inputs, Latencies
from .network import Network

RULE = "faster-than-float"
TURNS = 500
"""Largest number of times that both files run before one counts as faster."""
_GAINED = 1.2
"""Time to win in one turn, as a multiple of the missing time: the parts of a network do not add up to the whole."""
_BORDERS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class Returned:
    """A layer that goes back to float, with the seconds of its region in both forms."""

    layer: str
    integer: float
    floating: float

    @property
    def reason(self) -> str:
        """The reason why the layer is in float."""
        took = f"{self.integer * 1e3:.3g} ms quantized, {self.floating * 1e3:.3g} ms in float"
        return f"onnxruntime takes {took}, including the conversions at its borders"


def layers_to_return(network: Network, onnx: OnnxTarget) -> list[Returned]:
    """The layers of a fused network that have to be in float, the costliest first, so that its ONNX file is faster than the float
    model.

    The network is quantized with one batch and without recovery, which change no operation. Each turn times the file and the
    regions of its layers; those that lose most go back to float, until the file is faster. Raises CompileError, located in the
    model, if no file with a quantized layer is faster, without onnxruntime, and for a profile of another engine.
    """
    session, profile = network.session, profile_of(network.session)
    if profile.timed_in != QDQ.timed_in:
        message = f"layers are timed in {QDQ.timed_in}, and profile {profile.name} is for {profile.target}"
        raise CompileError(message, hint=f"leave it out, or give profile {QDQ.name}", option="faster-than-float")
    with session.phase("time regions"), scratch() as folder:
        try:
            found = _returned(network, onnx, folder)
        except CompileError as e:
            raise e.at(str(network.model)) from None
    count = "1 layer goes" if len(found) == 1 else f"{len(found)} layers go"
    names = some([each.layer for each in found])
    session.note(f"{RULE}: {count} back to float: {names}" if found else f"{RULE}: no layer has to go back to float")
    return found


def _returned(network: Network, onnx: OnnxTarget, folder: Path) -> list[Returned]:
    inputs, one = next(iter(network.samples.held.batches())), network.samples._replace(batch_num=1)
    quiet = replace(network.quiet, samples=one)
    model, file = float_file(network, folder), folder / "int8.onnx"
    found, every, first = list[Returned](), tuple[str, ...](), ""
    in_float: dict[str, float] = {}
    while True:
        module = quiet.quantized(in_float_too(network.request.by_nearest, found)).module
        names = quantized_layers(module, quiet.session)
        if not names:
            raise _impossible(first, network)
        onnx.write(module, file, quiet.session)
        before, after = latency.side_by_side(dict.fromkeys([model, file], inputs), TURNS).models.values()
        if after.faster(before):
            return found
        if not in_float:
            first = f"{before} in float, {after} with {numbered(len(names), 'layer')} quantized"
            fused = folder / "fused.onnx"
            OnnxTarget().write(network.module, fused, quiet.session)
            every, in_float = names, regions(fused, names, inputs)
        in_int8 = regions(file, every, inputs)
        each = [Returned(name, in_int8.get(name, 0), in_float.get(name, 0)) for name in names]
        found += chosen(each, after.median - before.median)


def float_file(network: Network, folder: Path) -> Path:
    """The float model as an ONNX file: the file itself, or one that is written into a folder."""
    if network.model.suffix.lower() == ".onnx" and network.session.imports == ImportOptions():
        return network.model
    file = folder / "float.onnx"
    OnnxTarget().write(network.original, file, network.session.silent())
    return file


def in_float_too(request: Request, returned: Iterable[Returned]) -> Request:
    """The request, with these layers in float as well."""
    names = (each.layer for each in returned)
    settings = replace(request.settings, skip_layers=(*request.settings.skip_layers, *names))
    return replace(request, settings=settings)


def chosen(layers: Sequence[Returned], missing: float) -> list[Returned]:
    """The slowest layers whose return to float saves the missing seconds; half of all layers if none is slower than in float."""
    ranked = sorted(layers, key=lambda each: each.floating - each.integer)
    losing = [each for each in ranked if each.integer > each.floating]
    if not losing:
        return ranked[: -(-len(ranked) // 2)]
    won, found = 0.0, list[Returned]()
    for each in losing:
        if found and won > _GAINED * missing:
            break
        won += each.integer - each.floating
        found.append(each)
    return found


def regions(file: Path, layers: Sequence[str], inputs: Inputs) -> dict[str, float]:
    """The seconds that onnxruntime takes for the region of each layer, by layer name: its node, the nodes that quantize its
    inputs, and those after it up to the next layer. Nodes that onnxruntime adds without a name of the file do not belong to any.
    """
    model = onnx.ModelProto.FromString(file.read_bytes())  # of this run, with its weights where they are
    owners = _owners(model.graph, layers)
    number_nodes(model.graph)
    numbered = file.with_name(f"numbered_{file.name}")
    numbered.write_bytes(model.SerializeToString())
    found: dict[str, float] = {}
    for i, seconds in latency.by_node(numbered, inputs).items():
        if i in owners:
            found[owners[i]] = found.get(owners[i], 0) + seconds
    return found


def number_nodes(graph: onnx.GraphProto) -> None:
    """Name each node and its results by their positions: onnxruntime names fused nodes after one or the other."""
    numbers = {name: f"@{i}@{k}" for i, node in enumerate(graph.node) for k, name in enumerate(node.output) if name}
    for i, node in enumerate(graph.node):
        node.name = f"@{i}@"
        replace_names(node, numbers)
    for output in graph.output:
        output.name = numbers.get(output.name, output.name)
    del graph.value_info[:]


def _owners(graph: onnx.GraphProto, layers: Iterable[str]) -> dict[int, str]:
    """The layer to whose region a node belongs, by the index of the node."""
    known, nodes = set(layers), graph.node
    owners = {i: node.name for i, node in enumerate(nodes) if node.name in known}
    makers = {name: i for i, node in enumerate(nodes) for name in node.output}
    for i in reversed(range(len(nodes))):  # a reader comes after what it reads
        for name in nodes[i].input if i in owners else ():
            made = makers.get(name)
            if made is not None and nodes[made].op_type in _BORDERS:
                owners.setdefault(made, owners[i])
    for i, node in enumerate(nodes):
        sources = (makers[name] for name in node.input if name in makers)
        owner = next((owners[each] for each in sources if each in owners), None)
        if owner is not None:
            owners.setdefault(i, owner)
    return owners


def with_reasons(remarks: Iterable[Remark], rule: str, reasons: Mapping[str, str]) -> list[Remark]:
    """The remarks, with this rule and these reasons, by layer, for layers that went back to float."""
    return [
        replace(remark, rule=rule, reason=reasons[remark.layer])
        if remark.rule == "skip-layers" and remark.layer in reasons
        else remark
        for remark in remarks
    ]


def check_faster(found: Latencies, file: Path) -> None:
    """Raises CompileError, located in the model, unless the second of two files is faster than the first, the float model."""
    before, after = found.models.values()
    if not after.faster(before):
        message = f"the file is not reliably faster than float: {before} float, {after} quantized"
        raise CompileError(message, where=str(file), hint="nothing was written; run it again on an idle machine")


def _impossible(first: str, network: Network) -> CompileError:
    if network.request.settings.dynamic:
        message = "--faster-than-float does not return layers that --dynamic quantizes to float"
        return CompileError(message, hint="leave out --faster-than-float")
    profile = profile_of(network.session)
    hint = "without --faster-than-float the files are written"
    if profile is not QDQ:
        hint = f"--profile {QDQ.name} is for {QDQ.target}; {hint}"
    message = f"onnxruntime takes no less time for any quantized file than for the float model: {first}"
    return CompileError(message if first else "no layer can be quantized", hint=hint)
