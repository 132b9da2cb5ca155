"""What ATC's ONNX parser takes: types and opsets in its registry, names, inputs, and the attributes that its plug-ins read.

`registry.json` has the plug-ins of the open operator repositories (hicann/ops-math, ops-nn, ops-cv, ops-transformer, August
2026), by domain and type: the operator that a plug-in makes (none if it makes several) and its opsets. The order of checks is
that of the parser in hicann/ge.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from ...formats.onnx.attributes import value_of
from ...formats.onnx.graphs import STANDARD, domain_of, subgraphs
from ...formats.onnx.schema import schema_defaults
from ...lowering.ascend.chips import library

Status = Literal["confirmed", "unknown", "refused"]
"""`refused` also if ATC takes a node and computes something else; `unknown` if the repositories do not say."""


class Finding(NamedTuple):
    """What ATC does with a node, or with the whole file."""

    node: str
    """Its name; empty for the file."""
    type: str
    status: Status
    rule: str = ""
    reason: str = ""
    code: str = ""
    """The error that ATC reports; empty if it reports none."""


_NAMES = {STANDARD: "ai.onnx"}
_WITHOUT_PLUGIN = ("Input", "Constant", "FileConstant")
_ELEMENTS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16, TensorProto.BOOL}
    | {TensorProto.INT4, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64}
    | {TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
    | {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}
)
"""The element types of constants that the parser copies."""


@cache
def operator_of(op_type: str, domain: str, opset: int) -> str | None:
    """The operator that the plug-in of a type makes in an opset; empty if it makes several, None if there is no plug-in."""
    for entry in filter(None, _registry().get(_NAMES.get(domain, domain), {}).get(op_type, "").split("; ")):
        *operator, opsets = entry.split(" ")
        ends = ([int(end) for end in part.split("-")] for part in opsets.split(","))
        if any(each[0] <= opset <= each[-1] for each in ends):
            return "".join(operator)
    return None


@cache
def _registry() -> Mapping[str, Mapping[str, str]]:
    return json.loads(Path(__file__).with_name("registry.json").read_text("utf-8"))


@dataclass(frozen=True)
class _Node:
    """A node in its opset."""

    proto: NodeProto
    opset: int
    rank: int | None
    """The number of axes of the first input; None if the file does not say."""

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute, or else its default; None if it has none."""
        given = {each.name: value_of(each) for each in self.proto.attribute}
        return given.get(name, schema_defaults(self.proto.op_type, self.opset, domain_of(self.proto.domain)).get(name))

    @property
    def window(self) -> int:
        """The number of axes of its window."""
        return len(self["kernel_shape"] or self["strides"] or self["dilations"] or self["pads"] or ())


@dataclass(frozen=True)
class _Rule:
    """A condition of a plug-in."""

    holds: Callable[[_Node], object]
    reason: str
    stops: bool = True
    """Whether ATC reports an error; otherwise it computes something else."""


def _is(name: str, *values: object) -> Callable[[_Node], object]:
    return lambda node: node[name] in (None, *values)


def _has(name: str) -> Callable[[_Node], object]:
    return lambda node: node[name] is not None


_LOWER = _Rule(lambda n: n["auto_pad"] != "SAME_LOWER", "computes auto_pad SAME_LOWER as SAME_UPPER", stops=False)
_FIRST = _Rule(_is("select_last_index", 0), "takes select_last_index 0 only")
_NEAREST = {"asymmetric": "floor", "half_pixel": "round", "pytorch_half_pixel": "round", "align_corners": "round"}
"""How ResizeNearestNeighborV2 rounds coordinates, by their transformation; it has no other ones."""

_RULES: Mapping[str, Sequence[_Rule]] = {
    "ArgMax": [_FIRST],
    "ArgMin": [_FIRST],
    "AveragePool": [
        _LOWER,
        _Rule(lambda n: n.window < 3 or n["auto_pad"] == "NOTSET", "does not read auto_pad of three axes", stops=False),
    ],
    "Clip": [
        _Rule(lambda n: n.opset < 11 or any(n.proto.input[1:]), "takes no Clip without bounds"),
    ],
    "Conv": [
        _Rule(lambda n: n.window, "needs kernel_shape, strides, dilations or pads"),
        _Rule(
            lambda n: n.window < 3 or n["auto_pad"] in ("NOTSET", "VALID"),
            "takes auto_pad NOTSET or VALID of three axes",
        ),
    ],
    "ConvTranspose": [
        _Rule(_has("kernel_shape"), "needs kernel_shape"),
        _Rule(
            lambda n: n["output_shape"] is None,
            "does not use output_shape, and pads it and later ones as with auto_pad SAME_LOWER",
            stops=False,
        ),
    ],
    "DepthToSpace": [_Rule(lambda n: n["blocksize"] > 1, "needs a blocksize of 2 or more")],
    "GlobalMaxPool": [_Rule(lambda n: n.rank in (None, 4), "takes the maximum over axes 2 and -1 alone", stops=False)],
    "GatherND": [_Rule(_is("batch_dims", 0), "takes batch_dims 0 only")],
    "MaxPool": [
        _Rule(_is("storage_order", 0), "takes storage_order 0 only"),
        _Rule(lambda n: not any(n.proto.output[1:]), "gives no indices"),
        _LOWER,
        _Rule(
            lambda n: n.window != 2 or all(d == 1 for d in n["dilations"] or ()),
            "does not use dilations: MaxPoolV3 has none",
            stops=False,
        ),
    ],
    "Mod": [_Rule(_is("fmod", 0), "computes fmod 1 as 0", stops=False)],
    "Resize": [
        _Rule(lambda n: n.opset < 11 or len(n.proto.input) > 2, "needs three inputs or four"),
        _Rule(
            lambda n: (
                n["mode"] != "nearest"
                or (n["nearest_mode"] or "floor").startswith(
                    _NEAREST.get(n["coordinate_transformation_mode"] or "asymmetric", "-")
                )
            ),
            "rounds coordinates otherwise: ResizeNearestNeighborV2 takes the floor of asymmetric ones and rounds others",
            stops=False,
        ),
    ],
    "Transpose": [_Rule(_has("perm"), "needs perm")],
}
"""The conditions of plug-ins, as their sources state them."""

_UNREAD: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("AscendQuant", "AscendDequant"), ("fakequant_precision_mode",)),
    "Bernoulli": ("dtype", "seed"),
    "GRU": ("activation_alpha", "activation_beta", "activations", "clip", "layout", "linear_before_reset"),
    "GlobalLpPool": ("p",),
    "LSTM": ("activation_alpha", "activation_beta", "activations", "clip", "input_forget", "layout"),
    "Resize": ("cubic_coeff_a", "exclude_outside", "extrapolation_value"),
    "RoiAlign": ("mode",),
    "SequenceEmpty": ("dtype",),
    "Shape": ("start", "end"),
    "Unique": ("axis",),
}
"""The attributes that change a result and that the plug-in of a type does not read."""


def findings(model: ModelProto) -> list[Finding]:
    """What ATC does with a model: problems of the file first, then every node but constants, once, in order."""
    opsets = {domain_of(each.domain): each.version for each in model.opset_import}
    return [*_of_graph(model.graph, opsets, is_root=True)]


def _of_graph(graph: GraphProto, opsets: Mapping[str, int], is_root: bool) -> Iterator[Finding]:
    for side, ends in (("input", graph.input), ("output", graph.output)):
        if not ends and (is_root or side == "output"):
            yield Finding("", "", "refused", "ends", f"a graph needs an {side}", "E16001")
    for tensor in graph.initializer:
        if tensor.data_type not in _ELEMENTS:
            kind = TensorProto.DataType.Name(tensor.data_type)
            yield Finding("", "", "refused", "elements", f"'{tensor.name}': ATC takes no constant of {kind}", "E19999")
    names = _Names(graph)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _of_graph(inner, opsets, is_root=False)
        if node.op_type not in _WITHOUT_PLUGIN:
            yield _of_node(node, opsets, names)


class _Names:
    """The names of a graph, which are nodes to ATC: those of inputs, and of constants with a suffix."""

    def __init__(self, graph: GraphProto):
        constants = sorted({each.name for each in graph.initializer})
        self.inputs = frozenset(each.name for each in graph.input) - frozenset(constants)
        made = [f"{name}_Initializer_{i}" for i, name in enumerate(constants)]
        self.count = Counter([*self.inputs, *made, *self._of(graph.node)])
        types = ((each.name, each.type.tensor_type) for each in (*graph.input, *graph.value_info))
        self.ranks = {name: len(each.shape.dim) for name, each in types if each.HasField("shape")}
        self.reads_nothing = next((n.name for n in graph.node if "" in n.input), None)
        """A node with an absent input."""

    @staticmethod
    def _of(nodes: Iterable[NodeProto]) -> Iterator[str]:
        unnamed = 0
        for node in nodes:
            yield node.name or f"{node.op_type}_{unnamed}"
            unnamed += not node.name


def _of_node(node: NodeProto, opsets: Mapping[str, int], names: _Names) -> Finding:
    for status, rule, reason, code in _problems(node, opsets, names):
        return Finding(node.name, node.op_type, status, rule, reason, code)
    return Finding(node.name, node.op_type, "confirmed")


def _problems(node: NodeProto, opsets: Mapping[str, int], names: _Names) -> Iterator[tuple[Status, str, str, str]]:
    """Status, rule, reason and code of what ATC does not take, in the order of its checks."""
    domain, op_type = domain_of(node.domain), node.op_type
    if domain not in opsets:
        yield "refused", "domain", f"the file imports no opset of its domain {_NAMES.get(domain, domain)}", "E19999"
        return
    if names.count[node.name] > 1:
        other = "an input" if node.name in names.inputs else "another node"
        yield "refused", "names", f"{other} has the same name", "E13009"
    opset = opsets[domain]
    if (operator := operator_of(op_type, domain, opset)) is None:
        yield from _unregistered(op_type, domain, opset)
        return
    yield from _of_ports(node, operator, names)
    own = _Node(node, opset, names.ranks.get(next(iter(node.input), "")))
    for rule in _RULES.get(op_type, ()) if domain == STANDARD else ():
        if not rule.holds(own):
            yield "refused", "attributes", f"its plug-in {rule.reason}", "E11010" if rule.stops else ""
    defaults = schema_defaults(op_type, opset, domain)
    unread = [
        name
        for name in _UNREAD.get(op_type, ())
        if any(each.name == name for each in node.attribute) and own[name] != defaults.get(name)
    ]
    if unread:
        yield "unknown", "attributes", f"its plug-in does not read {', '.join(unread)}", ""


def _unregistered(op_type: str, domain: str, opset: int) -> Iterator[tuple[Status, str, str, str]]:
    name = _NAMES.get(domain, domain)
    if domain != STANDARD and name not in _registry():
        yield "unknown", "registered", f"the plug-ins of domain {name} are those of its package", ""
        return
    if (entry := _registry()[name].get(op_type)) is None:
        reason = f"ATC has no plug-in for {name}::{op_type}"
    else:
        spans = ", ".join(each.rpartition(" ")[2] for each in entry.split("; "))
        reason = f"ATC has no plug-in for {name}::{op_type} in opset {opset}, it has one in {spans.replace(',', ', ')}"
    yield "refused", "registered", reason, "E16002"


def _of_ports(node: NodeProto, operator: str, names: _Names) -> Iterator[tuple[Status, str, str, str]]:
    for given, known, side in zip((node.input, node.output), _ports(operator), ("inputs", "results"), strict=True):
        if known is not None and len(given) > known:
            yield "refused", "ports", f"has {len(given)} {side}, {operator} has {known}", "E19999"
    if "" in node.output and names.reads_nothing is not None:
        reason = f"ATC connects its absent result to the absent input of '{names.reads_nothing}'"
        yield "refused", "ports", reason, ""


@cache
def _ports(operator: str) -> tuple[int | None, int | None]:
    """The number of operands and results that an operator has at most; None if that is not known, or any number."""
    if (known := library("910b").get(operator)) is None:
        return None, None
    operands, results = (
        None if any(each.endswith("[]") for each in side) else len(side) for side in (known.operands, known.results)
    )
    return operands, results
