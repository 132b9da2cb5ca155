"""Graphs and function bodies of a TensorFlow model: nodes by name, edges, and the order of import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.diagnostics import CompileError
from ..ordering import CycleError, in_order

NodeDef = Any
"""A protobuf message, as declared by `schema`."""

LOOPS = frozenset(
    {"Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"}
    | {"While", "StatelessWhile", "For"}
    | {"EmptyTensorList", "TensorListFromTensor", "TensorListReserve", "TensorArrayV3"}
)
"""The operators of loops, and of the tensor lists that they read and write."""
UNROLL = "recurrent layers of Keras can be read when they are made with unroll=True"

MERGES = frozenset({"Merge", "RefMerge"})
_SWITCHES = frozenset({"Switch", "RefSwitch"})
_PIVOTS = _SWITCHES | {"Identity"}
"""Operators that branches use as control inputs, so that nodes are dead if the branch is not taken."""


@dataclass(frozen=True)
class Output:
    """An output of a node: by index, or in a function's body by the name of an output argument and an index into it."""

    node: str
    index: int = 0
    argument: str = ""


def parse_input(text: str) -> Output:
    """Parses `x`, `x:1`, and in a function's body `x:y:1`. Raises ValueError for other text."""
    name, *rest = text.split(":")
    if not name or len(rest) > 2:
        raise ValueError(text)
    index = int(rest[-1]) if rest else 0
    return Output(name, index, rest[0] if len(rest) == 2 else "")


@dataclass(frozen=True)
class Graph:
    """Nodes of a graph or of a function's body. `where` locates it, `arguments` are the names that its caller defines."""

    nodes: Mapping[str, NodeDef]
    where: str
    arguments: frozenset[str] = frozenset()

    @staticmethod
    def of(nodes: Iterable[NodeDef], where: str, arguments: Collection[str] = ()) -> Graph:
        """Raises CompileError for a node without a name, and for two with the same name."""
        named: dict[str, NodeDef] = {}
        for node in nodes:
            if not node.name:
                raise CompileError(f"a {node.op or 'node'} has no name", where=where)
            if node.name in named or node.name in arguments:
                raise CompileError(
                    f"defines '{node.name}', which is defined already", where=f"{where}: node '{node.name}'"
                )
            named[node.name] = node
        return Graph(named, where, frozenset(arguments))

    def inputs(self, node: NodeDef) -> list[Output]:
        """The data inputs of a node. Raises CompileError, located at the node, for an undefined one."""
        return [self.resolved(text, node.name) for text in node.input if not text.startswith("^")]

    def resolved(self, text: str, reader: str) -> Output:
        """The output that `text` names. Raises CompileError, located at its reader, if there is none."""
        where = f"{self.where}: node '{reader}'"
        try:
            output = parse_input(text)
        except ValueError:
            raise CompileError(f"reads '{text}', which names no output of a node", where=where) from None
        if output.node not in self.nodes and output.node not in self.arguments:
            message = f"reads '{output.node}', which nothing defines"
            raise CompileError(message, where=where, hint="the file may be truncated")
        return output

    def pivots(self, node: NodeDef) -> list[str]:
        """The control inputs of the node that make it dead if they are dead."""
        names = [text[1:] for text in node.input if text.startswith("^")]
        return [n for n in names if n in self.nodes and self.nodes[n].op in _PIVOTS]

    def marks_branch(self, node: NodeDef) -> bool:
        """Whether a node only marks which branch is taken: a condition switched by itself, or a merge of such nodes."""
        inputs = [self.nodes[o.node] for o in self.inputs(node) if o.node in self.nodes]
        if node.op in MERGES:
            return any(i.op == "Identity" and self.marks_branch(i) for i in inputs)
        return node.op == "Identity" and any(i.op in _SWITCHES and len(set(self.inputs(i))) == 1 for i in inputs)

    def live(self, outputs: Iterable[str], fed: Collection[str]) -> list[NodeDef]:
        """The nodes that outputs depend on, each after its inputs; in the file's order if possible.

        Nodes that are `fed` are not computed. Raises CompileError for a cycle.
        """
        needs = self._needs(outputs, fed)
        names = [name for name in self.nodes if name in needs]
        place = {name: i for i, name in enumerate(names)}
        try:
            order = in_order([{place[n] for n in needs[name]} for name in names])
        except CycleError as e:
            node = self.nodes[names[e.cycle[-1]]]
            where = f"{self.where}: node '{node.name}'"
            if any(self.nodes[names[i]].op in LOOPS for i in e.cycle):
                raise CompileError("is part of a loop: loops are not supported", where=where, hint=UNROLL) from None
            raise CompileError(e.text(names), where=where) from None
        return [self.nodes[names[i]] for i in order]

    def _needs(self, outputs: Iterable[str], fed: Collection[str]) -> dict[str, set[str]]:
        """The inputs of each node that outputs depend on, by node."""
        needs: dict[str, set[str]] = {}
        stack = [o for o in outputs if o in self.nodes]
        while stack:
            name = stack.pop()
            if name in needs:
                continue
            node = self.nodes[name]
            read = () if name in fed else (*(o.node for o in self.inputs(node)), *self.pivots(node))
            needs[name] = {n for n in read if n in self.nodes}
            stack.extend(needs[name])
        return needs


def consumers(graph: Graph) -> set[str]:
    """The names of nodes that others read by data edges."""
    return {o.node for node in graph.nodes.values() for o in graph.inputs(node)}


_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "FusedBatchNorm": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "FusedBatchNormV2": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "FusedBatchNormV3": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    "Switch": ("output_false", "output_true"),
    "RefSwitch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
    "TopK": ("values", "indices"),
    "TopKV2": ("values", "indices"),
    "Unique": ("y", "idx"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "BroadcastGradientArgs": ("r0", "r1"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "QuantizeV2": ("output", "output_min", "output_max"),
}
"""Output arguments of operators with several, each of one tensor: a function's body refers to them."""


def flat_index(output: Output, op_type: str) -> int | None:
    """The index among all outputs of the node; None if the operator's output arguments are unknown."""
    if not output.argument:
        return output.index
    arguments = _ARGUMENTS.get(op_type)
    if arguments is None:
        return output.index
    return arguments.index(output.argument) if output.argument in arguments else None
