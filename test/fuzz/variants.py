"""Other forms of a model, of which the compiler must make the same numbers: they change neither what an operation computes
nor the order in which it adds.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, version_converter
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.support.diagnostics import Remark

T = TypeVar("T")


def reordered(module: ModuleOp, random: np.random.Generator) -> ModuleOp:
    """A copy with operations in another order in which each is after its operands, and values without names."""
    module = module.clone()
    block = main_function(module).body.block
    *ops, end = block.ops

    def before(op: Operation) -> list[Hashable]:
        return [o.owner for inner in op.walk() for o in inner.operands]

    order = _in_random_order(ops, lambda op: [op], before, random)
    for op in ops:
        op.detach()
    for op in order:
        for result in op.results:
            result.name_hint = None
        block.insert_op_before(op, end)
    return module


def rewritten(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """A copy with nodes and initializers in another order and with other names, an Identity on some values, and nodes that
    nothing reads. Nodes with graphs in them keep the names.
    """
    copied = deepcopy(model)
    graph = copied.graph
    nodes = [*graph.node]
    given = {o.name for o in graph.output}
    has_graphs = any(a.HasField("g") or a.graphs for node in nodes for a in node.attribute)
    if not has_graphs:
        _rename(graph, random)
    for i, node in enumerate([] if has_graphs else [*nodes]):
        for k, name in enumerate(node.output):
            if name and name not in given and random.random() < 0.1:
                nodes.append(helper.make_node("Identity", [name], [f"unread{i}.{k}"], f"unread{i}.{k}"))
        for k, name in enumerate(node.input):
            if name and random.random() < 0.1:
                nodes.append(helper.make_node("Identity", [name], [f"same{i}.{k}"], f"same{i}.{k}"))
                node.input[k] = f"same{i}.{k}"
    nodes = _in_random_order(nodes, lambda n: n.output, _read_by, random)
    constants = [deepcopy(graph.initializer[i]) for i in random.permutation(len(graph.initializer))]
    nodes = [deepcopy(node) for node in nodes]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    return copied


def with_constants_moved(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto | None:
    """A copy in which half of the initializers are nodes, and half of such nodes initializers."""
    graph = model.graph
    outside = {v.name for v in (*graph.input, *graph.output)}
    nodes = [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]
    moved = [node for node in nodes if node.output[0] not in outside and random.random() < 0.5]
    others = [tensor for tensor in graph.initializer if tensor.name not in outside and random.random() < 0.5]
    for tensor in others:
        graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
        graph.initializer.remove(tensor)
    for node in moved:
        tensor = deepcopy(node.attribute[0].t)
        tensor.name = node.output[0]
        graph.node.remove(node)
        graph.initializer.append(tensor)
    return model if moved or others else None


def next_opset(model: onnx.ModelProto, _: np.random.Generator) -> onnx.ModelProto | None:
    """A copy of the next opset, if onnx makes one with the same operators."""
    version = next(opset.version for opset in model.opset_import if not opset.domain)
    try:
        converted = version_converter.convert_version(model, version + 1)
    except Exception:  # the classes of onnx have no common base
        return None
    before, after = (Counter(node.op_type for node in each.graph.node) for each in (model, converted))
    return converted if before == after else None


ONNX_FORMS: Mapping[str, Callable[[onnx.ModelProto, np.random.Generator], onnx.ModelProto | None]] = {
    "rewritten": rewritten,
    "constants": with_constants_moved,
    "opset": next_opset,
}
"""What makes another form of an ONNX model, or None where there is none. They may change the model that they get."""


def _rename(graph: onnx.GraphProto, random: np.random.Generator) -> None:
    """Gives all nodes and values inside the graph names in a random order."""
    outside = {"", *(v.name for v in (*graph.input, *graph.output))}
    inside = [*(t.name for t in graph.initializer), *(name for node in graph.node for name in node.output)]
    kept = [name for name in inside if name not in outside]
    names = {name: f"value{i}" for name, i in zip(kept, random.permutation(len(kept)), strict=True)}
    for held in (*graph.initializer, *graph.value_info):
        held.name = names.get(held.name, held.name)
    for node, i in zip(graph.node, random.permutation(len(graph.node)), strict=True):
        node.name = f"node{i}"
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def _read_by(node: onnx.NodeProto) -> list[Hashable]:
    found: list[Hashable] = [*node.input]
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            found += [name for inner in graph.node for name in _read_by(inner)]
            found += [output.name for output in graph.output]
    return found


def _in_random_order(
    items: Sequence[T],
    makes: Callable[[T], Iterable[Hashable]],
    reads: Callable[[T], Iterable[Hashable]],
    random: np.random.Generator,
) -> list[T]:
    """The items, each after those that make what it reads."""
    maker = {made: i for i, item in enumerate(items) for made in makes(item) if made != ""}
    waits = [{maker[r] for r in reads(item) if r in maker} for item in items]
    order: list[T] = []
    left = set(range(len(items)))
    while left:
        ready = sorted(i for i in left if not waits[i] & left)
        chosen = ready[int(random.integers(len(ready)))]
        left.remove(chosen)
        order.append(items[chosen])
    return order


def numbers(module: ModuleOp) -> Counter[Any]:
    """The parameters of all points of a module and the integers of its constants, wherever they are."""

    def digest(op: nn.DequantizeOp) -> str:
        integers = nn.array_of(op.input)
        return "" if integers is None else hashlib.sha256(np.ascontiguousarray(integers).tobytes()).hexdigest()

    found: Counter[Any] = Counter()
    for op in module.walk():
        if isinstance(op, nn.QuantizeOp | nn.DequantizeOp):
            p = op.qparams.data
            scales = p.scales().tobytes(), p.zero_points().tobytes(), p.axis, str(p.storage)
            found[op.name, *scales, digest(op) if isinstance(op, nn.DequantizeOp) else ""] += 1
    return found


def reported(remarks: Iterable[Remark]) -> Counter[Any]:
    """What passes report, without names of layers and of groups: nodes without one get a name by their order."""
    rules = ((r, "" if r.kind == "analysis" else r.rule) for r in remarks if r.pass_name != "import")
    return Counter((r.kind, r.pass_name, rule, r.op) for r, rule in rules)
