"""The doctor for quantized ONNX files of any tool: what an engine computes in float or wrongly, why, and what mends it.

What is computed in float is what the engine itself says of the file once it has loaded it; the reason follows from the places of
QuantizeLinear and DequantizeLinear. Which sums leave 16 bits follows from the weights, whatever processor this is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
from onnx import NodeProto
from xdsl.dialects.builtin import ModuleOp, Signedness
from xdsl.ir import SSAValue

from ..dialects.nn import QuantizeOp
from ..engines.in_openvino import OpenVino, compiled
from ..ir.array import Array
from ..rewriting import layer_of
from ..runtime.executor import Executable
from ..runtime.metrics import Difference, Differences
from ..session import Session
from ..support.diagnostics import CompileError, first_line
from ..support.files import scratch
from ..support.tables import Table, Tabled
from ..transforms.quantization.convert.layer_weights import Inexact, multiplied_layers
from ..transforms.quantization.portable import AVX2, channels_apart, inexact_on
from ..transforms.quantization.profiles import QDQ
from .float_regions import number_nodes
from .options import Timed
from .peer import overflows
from .qdq_graph import INTEGER_OPERATOR, POINTS, RANGES, WEIGHTED, QdqGraph, read_model, read_quantized
from .runnable import OnnxRuntime

Kind = Literal[
    "refused", "16-bit sums", "-128", "bias scale", "in float", "float island", "concat", "clipped", "wasted"
]
KINDS: Mapping[Kind, str] = {
    "refused": "the engine does not run the file",
    "16-bit sums": "sums of two products may pass 16 bits, and are wrong then",
    "-128": "sums of products of two weights of -128 may wrap around",
    "in float": "layers with weights that are computed in float",
    "float island": "operators in float between integers, with a conversion on both sides",
    "concat": "values that are rounded a second time because scales disagree",
    "clipped": "ranges that clip this data",
    "wasted": "ranges of which this data takes a small part",
}
"""What can be found, in words."""
WRONG: frozenset[Kind] = frozenset(("refused", "16-bit sums", "-128"))
"""Kinds of findings with which the engine does not compute what the file says, on some processor."""
_NAMES: Mapping[Timed, str] = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO"}
_MOVING = frozenset(
    {"Cast", "Concat", "Constant", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad"}
) | frozenset({"Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that take integers as they take floats."""
_NUMBER = re.compile(r"@(\d+)@")
_CLIPPED = 0.01
"""The share of values beyond a range from which it clips: observers that leave out outliers clip a thousandth."""
_USED = 0.25
"""The share of a range that values take below which it wastes bits: two of them."""
_FATAL = 4
_FOLDED = "folding BatchNormalization into the layer before, before quantization, as amct quantize does"
_SMALLER = "amct quantize --profile qdq --portable strict, or weights of 7 bits (--weight-bits 7, or reduce_range)"
_CALIBRATED = "calibration with data like this"


class Finding(NamedTuple):
    """What is wrong with a layer in an engine."""

    layer: str
    """The name of its node, or of the result of a node without a name."""
    kind: Kind
    reason: str
    mend: str
    processors: str = ""
    """Those on which the engine computes it wrongly; empty if all are alike."""

    @property
    def title(self) -> str:
        """What is found, and on which processors."""
        return f"{self.kind}{f' on {self.processors}' if self.processors else ''}: {KINDS[self.kind]}"


@dataclass(frozen=True)
class Checked(Tabled):
    """The findings for a file."""

    file: Path
    engine: Timed
    integers: int
    """The number of layers with weights that the engine computes in integers here."""
    floats: int
    findings: Sequence[Finding]
    outputs: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    """With data: the outputs of the engine on this processor, compared with those that the file specifies."""

    def tables(self) -> Sequence[Table]:
        """One table for each kind of finding, and how far outputs are from what the file specifies."""
        tables = [Table(f"{self.file} in {_NAMES[self.engine]}", (), [("layers with weights", self.layers)])]
        titles = sorted({each.title for each in self.findings}, key=[each.title for each in self.findings].index)
        for title in titles:
            found = [each for each in self.findings if each.title == title]
            mends = {each.mend for each in found}
            apart = len(mends) > 1
            rows = [(each.layer, each.reason, *([each.mend] if apart else [])) for each in found]
            headers = ("layer", "why", *(["mended by"] if apart else []))
            tables.append(Table(title, headers, rows, "" if apart else f"mended by {mends.pop()}"))
        outputs = [(name, f"{each.sqnr:.2f}", f"{each.largest:.6g}") for name, each in self.outputs.items()]
        headers = ("output", "SQNR dB", "largest difference")
        title = "outputs on this processor, compared with what the file specifies"
        return [*tables, *([Table(title, headers, outputs)] if outputs else [])]

    @property
    def layers(self) -> str:
        """The numbers of layers with weights that are computed in integers and in float."""
        return f"{self.integers} in integers, {self.floats} in float"

    def data(self) -> dict[str, Any]:
        """The findings as plain data for JSON."""
        from .summary import difference_data

        return {
            "file": str(self.file),
            "engine": self.engine,
            "integers": self.integers,
            "floats": self.floats,
            "findings": [each._asdict() for each in self.findings],
            "outputs": {name: difference_data(each) for name, each in self.outputs.items()},
        }


def check_file(
    path: Path, engine: Timed, session: Session, runs: Callable[[ModuleOp], Sequence[Mapping[str, Array]]] | None = None
) -> Checked:
    """Examine a quantized ONNX file for an engine, which must be installed. `runs` gives the inputs of a few runs of the module.

    Raises CompileError, located in the file, if it is not an ONNX file or has nothing quantized, and without the engine.
    """
    module, model = read_quantized(path, session)
    graph = QdqGraph(model.graph)
    given: Sequence[Mapping[str, Array]] = () if runs is None else runs(module)
    try:
        where = _where(model, graph, engine)
        outputs = _apart(module, OnnxRuntime(path, "cpu") if engine == "onnxruntime" else OpenVino(path, module), given)
    except CompileError as e:
        if e.hint.startswith("pip install"):
            raise
        refused = Finding(path.name, "refused", e.message, "another engine")
        return Checked(path, engine, 0, 0, [refused])
    weighted = [where[i] for i in where if graph.nodes[i].op_type in WEIGHTED]
    findings: list[Finding] = [
        *_wrong_sums(
            module, engine, given, {graph.layer(graph.nodes[i]) for i, integers in where.items() if not integers}
        ),
        *_rounded(graph, engine, where),
        *_ranges(module, given),
    ]
    return Checked(path, engine, sum(weighted), len(weighted) - sum(weighted), findings, outputs)


def rounded(path: Path) -> list[Finding]:
    """What onnxruntime computes in float, or rounds twice, in a quantized file. Raises CompileError if it refuses the file."""
    model = read_model(path)
    graph = QdqGraph(model.graph)
    return _rounded(graph, "onnxruntime", _where(model, graph, "onnxruntime"))


def _rounded(graph: QdqGraph, engine: Timed, where: Mapping[int, bool]) -> list[Finding]:
    return [*_in_float(graph, engine, where), *_concats(graph)]


def _where(model: onnx.ModelProto, graph: QdqGraph, engine: Timed) -> dict[int, bool]:
    """Whether the engine computes nodes in integers, by number. A layer may have the name of the node that reads it there."""
    numbered = onnx.ModelProto()
    numbered.CopyFrom(model)
    number_nodes(numbered.graph)
    with scratch() as folder:
        path = folder / "numbered.onnx"
        path.write_bytes(numbered.SerializeToString())
        where = _FACTS[engine](path)
    readers = {name: i for i, node in enumerate(graph.nodes) for name in node.input}
    merged = {i: readers.get(node.output[0], i) for i, node in enumerate(graph.nodes) if node.op_type in WEIGHTED}
    return {**{i: where[reader] for i, reader in merged.items() if reader in where}, **where}


def _in_onnxruntime(path: Path) -> dict[int, bool]:
    """Whether onnxruntime computes nodes in integers, by number, for those that are left after its optimizations."""
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        raise CompileError("onnxruntime is not installed", hint="pip install 'amct-opt[onnxruntime]'") from None
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = (
        runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    )  # beyond, floats change layout
    options.optimized_model_filepath = str(path.with_name("optimized.onnx"))
    try:
        runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's have no other base
        raise CompileError(f"onnxruntime does not take the file: {first_line(str(e))}") from None
    optimized = onnx.ModelProto.FromString(path.with_name("optimized.onnx").read_bytes())
    integers, found = set[str](), dict[int, bool]()
    for node in optimized.graph.node:
        by_itself = node.op_type == "QuantizeLinear" or INTEGER_OPERATOR.search(node.op_type) is not None
        reads = node.op_type != "DequantizeLinear" and any(name in integers for name in node.input)
        if in_integers := by_itself or reads:
            integers.update(node.output)
        for number in _NUMBER.findall(f"{node.name} {' '.join(node.output)}"):
            found[int(number)] = found.get(int(number), False) or in_integers
    return found


def _in_openvino(path: Path) -> dict[int, bool]:
    """As `_in_onnxruntime`, for the operations of the model that OpenVINO runs."""
    found: dict[int, bool] = {}
    for op in compiled(path).get_runtime_model().get_ordered_ops():
        facts: Any = op.get_rt_info()
        kind, names, precision = (
            facts[key].astype(str) for key in ("layerType", "originalLayersNames", "runtimePrecision")
        )
        if kind in ("Const", "Convert", "FakeQuantize", "Reorder"):
            continue
        for number in _NUMBER.findall(names):
            found[int(number)] = found.get(int(number), False) or precision in ("u8", "i8")
    return found


_FACTS: Mapping[Timed, Callable[[Path], dict[int, bool]]] = {
    "onnxruntime": _in_onnxruntime,
    "openvino": _in_openvino,
}


def _in_float(graph: QdqGraph, engine: Timed, where: Mapping[int, bool]) -> Iterator[Finding]:
    """Layers with weights that the engine computes in float, and others between integers."""
    for i, node in enumerate(graph.nodes):
        if where.get(i, True) or node.op_type in POINTS or node.op_type in _MOVING:
            continue
        reads = [graph.dequantize(name) for name in node.input if name and not graph.is_constant(name)]
        quantized = any(reader.op_type == "QuantizeLinear" for reader in graph.after(node))
        if node.op_type in WEIGHTED:
            yield Finding(graph.layer(node), "in float", *_why_in_float(graph, engine, node))
        elif any(reads) and quantized:
            yield Finding(graph.layer(node), "float island", *_why_in_float(graph, engine, node))


def _why_in_float(graph: QdqGraph, engine: Timed, node: NodeProto) -> tuple[str, str]:
    """The reason, and what mends it. OpenVINO also merges layers whose results are read in float."""
    found = _why_by_operands(graph, node)
    if found is None and engine == "onnxruntime":
        found = _why_by_result(graph, node)
    mend = _FOLDED if node.op_type == "BatchNormalization" else "float for its neighbours, too, if that is faster"
    return found or (f"{_NAMES[engine]} computes {node.op_type} in float here", mend)


def _why_by_operands(graph: QdqGraph, node: NodeProto) -> tuple[str, str] | None:
    weighted = node.op_type in WEIGHTED
    named = node.input[:2] if weighted else [name for name in node.input if not graph.is_constant(name)]
    for name in filter(None, named):
        back, constant = graph.dequantize(name), graph.is_constant(name)
        what = "weight" if constant else "input"
        if back is None:
            return f"its {what} '{name}' is not quantized", f"QuantizeLinear and DequantizeLinear for '{name}'"
        if bits := graph.bits(back):
            return f"its {what} '{name}' is {bits}, and the engine has no kernel for that", "8 bits"
        scale = graph.scale(back)
        if not constant and scale is not None and scale.size > 1:
            return f"its input '{name}' has a scale for each channel", f"one scale for '{name}'"
    return None


def _why_by_result(graph: QdqGraph, node: NodeProto) -> tuple[str, str] | None:
    """The reason that onnxruntime has, which replaces a node with its QuantizeLinear and DequantizeLinear or not at all."""
    after = graph.after(node)
    if not after or any(each.op_type != "QuantizeLinear" for each in after):
        return _why_not_merged(graph, node, after)
    if bits := next((each for each in map(graph.bits, after) if each), ""):
        return f"its result is {bits}, and the engine has no kernel for that", "8 bits"
    if times := graph.times_of_bias(node):
        reason = f"the scale of its bias is {times:.4g} times that of its sums"
        return reason, "a bias in units of input scale times weight scale"
    return None


def _why_not_merged(graph: QdqGraph, node: NodeProto, after: Sequence[NodeProto]) -> tuple[str, str]:
    """The reason for a node whose result is read in float."""
    reader = next((each for each in after if each.op_type != "QuantizeLinear"), None)
    if reader is None:
        return "its result is an output of the graph in float", "nothing: an output may stay in float"
    points = [each for each in graph.after(reader) if each.op_type == "QuantizeLinear"]
    if reader.op_type in RANGES and points:
        ends = graph.ends(points[0])
        if ends is not None and ends[0] < 0:
            begins = f"the range of '{graph.layer(reader)}', {reader.op_type}, begins at {ends[0]:.4g}"
            return f"{begins}, so that it is not merged", f"a range of '{reader.output[0]}' from 0 on"
    if reader.op_type == "BatchNormalization":
        return f"'{graph.layer(reader)}', BatchNormalization, reads its result in float", _FOLDED
    return (
        f"'{graph.layer(reader)}', {reader.op_type}, reads its result in float",
        f"QuantizeLinear for '{node.output[0]}'",
    )


def _wrong_sums(
    module: ModuleOp, engine: Timed, runs: Sequence[Mapping[str, Array]], floats: Collection[str]
) -> Iterator[Finding]:
    """Layers that are not computed in float and whose weights make sums of two products leave 16 bits, with the processors; the
    number of sums, with data.
    """
    multiplied = map(_ARRANGED[engine], multiplied_layers(module, QDQ))
    found = [(each, _rows(each, engine)) for each in multiplied if layer_of(each.op) not in floats]
    counts = overflows(module, [each for each, rows in found if AVX2 in rows], runs) if runs else {}
    for each, rows in found:
        for processors, (wrong, of) in rows.items():
            channels = f"in {wrong} of {of} output channels"
            if processors != AVX2:
                yield Finding(layer_of(each.op), "-128", channels, "weights of -127 to 127", processors)
                continue
            seen = f"; {counts[each.op]} sums on this data" if each.op in counts else ""
            yield Finding(layer_of(each.op), "16-bit sums", channels + seen, _SMALLER, processors)


_ARRANGED: Mapping[Timed, Callable[[Inexact], Inexact]] = {
    "onnxruntime": lambda each: each,
    "openvino": lambda each: each._replace(matrices=channels_apart(each.matrices, each.op), arranged=channels_apart),
}
"""Layers with the columns in the order of the engine's kernels."""


def _rows(each: Inexact, engine: Timed) -> dict[str, tuple[int, int]]:
    """The rows that are wrong and all rows, by processors. OpenVINO's kernels are known on x86 alone."""
    return {
        processors: (int(np.count_nonzero(rows)), rows.size)
        for processors, rows in inexact_on(each.matrices, each.op).items()
        if rows.any() and (engine == "onnxruntime" or processors == AVX2)
    }


def _concats(graph: QdqGraph) -> Iterator[Finding]:
    """Concat whose inputs have other scales than its result: values are rounded again, or clipped."""
    for node in graph.nodes:
        backs = [graph.dequantize(name) for name in node.input]
        after = [reader for reader in graph.after(node) if reader.op_type == "QuantizeLinear"]
        if node.op_type != "Concat" or not after or not all(backs):
            continue
        scales = [graph.scale(each) for each in (*backs, after[0]) if each is not None]
        if any(scale is None or scale.size != 1 for scale in scales):
            continue
        numbers = [float(np.asarray(scale).reshape(())) for scale in scales]
        if len(set(numbers)) > 1:
            shown = ", ".join(f"{each:.4g}" for each in numbers[:-1])
            reason = f"its inputs have scales {shown}, its result {numbers[-1]:.4g}: values are rounded a second time"
            yield Finding(graph.layer(node), "concat", reason, "one scale for all of them")


def _ranges(module: ModuleOp, runs: Sequence[Mapping[str, Array]]) -> Iterator[Finding]:
    """Ranges that clip values, or whose integers are hardly used, on data."""
    points = {op.input: op for op in module.walk() if isinstance(op, QuantizeOp) and op.qparams.data.axis is None}
    seen: dict[SSAValue, list[tuple[float, float, float]]] = defaultdict(list)

    def see(value: SSAValue, array: Array) -> None:
        (low, high), half = _ends(points[value]), float(points[value].qparams.data.scales()) / 2
        if array.size:
            # a range that begins or ends at 0 is an activation that was merged
            beyond = np.mean((array < low - half if low else False) | (array > high + half if high else False))
            seen[value].append((float(array.min()), float(array.max()), float(beyond)))

    if runs and points:
        executable = Executable(module, [*points])
        for given in runs:
            executable.run(given, see)
    for value, each in seen.items():
        low, high = _ends(points[value])
        least, most = min(a for a, _, _ in each), max(b for _, b, _ in each)
        beyond = float(np.mean([share for _, _, share in each]))
        name, between = value.name_hint or layer_of(points[value]), f"values are {least:.4g} to {most:.4g}"
        if beyond > _CLIPPED:
            reason = f"{100 * beyond:.1f} % of its values are beyond its range, {low:.4g} to {high:.4g}: {between}"
            yield Finding(name, "clipped", reason, _CALIBRATED)
        elif 0 < (used := (min(max(most, 0), high) - max(min(least, 0), low)) / (high - low)) < _USED:
            reason = f"its values take {100 * used:.0f} % of its range, {low:.4g} to {high:.4g}: {between}"
            yield Finding(name, "wasted", reason, _CALIBRATED)


def _ends(point: QuantizeOp) -> tuple[float, float]:
    """The least and the greatest number that a point represents."""
    params, levels = point.qparams.data, 2**point.qparams.data.storage.width.data
    least = 0 if params.storage.signedness.data == Signedness.UNSIGNED else -levels // 2
    scale, zero = float(params.scales()), params.zero_point[0]
    return (least - zero) * scale, (least + levels - 1 - zero) * scale


def _apart(module: ModuleOp, model: Any, runs: Sequence[Mapping[str, Array]]) -> dict[str, Difference]:
    """The outputs of the engine, compared with the interpreter's."""
    found: dict[str, Differences] = {}
    executable = Executable(module) if runs else None
    for given in runs if executable is not None else ():
        theirs = model.run(given)
        for name, array in executable.run(given).items() if executable is not None else ():
            found.setdefault(name, Differences()).add(array, theirs[name])
    return {name: each.result() for name, each in found.items()}
