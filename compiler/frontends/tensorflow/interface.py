"""The inputs and outputs of a model: from the user, from a signature, or from the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from xdsl.dialects.builtin import TensorType

from ...dialects import nn
from ...formats.tensorflow.schema import DATA_TYPES
from ...formats.tensorflow.tensors import dtype_of
from ...ir.dtypes import Tensor, element_type
from ...pipelines.options import shapes_of
from ...session import ImportOptions
from ...support.diagnostics import CompileError
from ..options import overridden
from .graph import Graph, NodeDef, Output, consumers, parse_input
from .source import Signature, Source, TensorInfo

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
_DEFAULTED = "PlaceholderWithDefault"
_NO_OUTPUTS = frozenset({"Const", "NoOp", "Assert", "Print", "PrintV2", _DEFAULTED, *_PLACEHOLDERS})
"""Operators that are not outputs although nothing reads them."""
_WRITES = frozenset({"Assign", "AssignVariableOp"})
_GUARD = "/AssertGuard/"
"""Part of the names of nodes of tf.debugging.Assert; some of them have no reader (control_flow_assert.py)."""
_TRUTHS = frozenset({
    "Equal", "Greater", "GreaterEqual", "IsFinite", "IsInf", "IsNan", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
    "LogicalOr", "NotEqual",
})  # fmt: skip
"""Operators whose type attribute is that of their inputs."""
_DT_BOOL = DATA_TYPES["DT_BOOL"]
_NO_SCALARS = 21
"""Up to this graph version a placeholder of rank 0 has any shape (Placeholder in core/ops/array_ops.cc)."""
_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class Input:
    """An input: the name for users, the node that it replaces, and its type."""

    name: str
    node: str
    type: Tensor

    @property
    def hint(self) -> str | None:
        """The name of the argument in the text."""
        return nn.name_hint(self.name)


@dataclass(frozen=True)
class Result:
    """An output: its name, and the value."""

    name: str
    node: str
    index: int


class Interface:
    """Inputs and outputs of a model, in order.

    Options win over signatures, and signatures over the graph: there placeholders that outputs depend on, except training flags,
    are inputs, and nodes that nothing reads are outputs. Raises CompileError for names that the graph does not have.
    """

    def __init__(self, source: Source, graph: Graph, options: ImportOptions):
        self._graph = graph
        self._options = options
        self._where = graph.where
        self._old = source.graph.versions.producer <= _NO_SCALARS
        self._signature = _signature(source, options, self._where)
        self.found: bool = not options.outputs and self._signature is None
        """The outputs, found only in the graph."""
        self.outputs: list[Result] = self._outputs()
        self.inputs: list[Input] = self._inputs()

    def _outputs(self) -> list[Result]:
        if self._options.outputs:
            infos: Mapping[str, TensorInfo] = {} if self._signature is None else self._signature.outputs
            results = [self._result(name, infos.get(name, _unsaid(name)).name) for name in self._options.outputs]
        elif self._signature is not None:
            results = [self._result(key, info.name) for key, info in self._signature.outputs.items()]
        else:
            ends = self._ends()
            if writes := next((name for name in ends if self._graph.nodes[name].op in _WRITES), None):
                hint = "freeze it, or name --outputs"
                raise CompileError(
                    f"is not an inference graph: '{writes}' sets a variable", where=self._where, hint=hint
                )
            results = [Result(name, name, 0) for name in ends]
        if not results:
            raise CompileError("has no outputs", where=self._where, hint="--outputs names them")
        self._unique([r.name for r in results], "output")
        return results

    def _ends(self) -> list[str]:
        """The nodes that nothing reads, without those that are not outputs."""
        read = consumers(self._graph)
        ends = (n for n in self._graph.nodes.values() if n.name not in read and n.op not in _NO_OUTPUTS)
        return [n.name for n in ends if _GUARD not in n.name and not self._graph.marks_branch(n)]

    def _result(self, name: str, tensor: str) -> Result:
        output = self._output(tensor, "output")
        return Result(_short(name), output.node, output.index)

    def _inputs(self) -> list[Input]:
        infos: Mapping[str, TensorInfo] = {} if self._signature is None else self._signature.inputs
        if self._options.inputs:
            self._unique([_short(name) for name in self._options.inputs], "input")
            named = {_short(name): infos.get(name, _unsaid(name)) for name in self._options.inputs}
        elif self._signature is not None:
            named = dict(infos)
        else:
            live = {n.name for n in self._graph.live([o.node for o in self.outputs], ())}
            nodes = (n for n in self._graph.nodes.values() if n.op in _PLACEHOLDERS and n.name in live)
            named = {n.name: _unsaid(n.name) for n in nodes if not is_flag(n)}
        given = {_short(name): shape for name, shape in self._options.shapes.items()}
        shapes = shapes_of(list(named), given, self._where)
        inputs = [self._input(name, info, shapes.get(name)) for name, info in named.items()]
        self._unique([i.node for i in inputs], "what is input")
        return inputs

    def _input(self, name: str, info: TensorInfo, given: Sequence[int] | None) -> Input:
        """The input called `name`; `info` is its entry in a signature, `given` the shape from the user."""
        output = self._output(info.name, "input")
        where = f"{self._where}: input '{name}'"
        if output.index:
            raise CompileError(f"is output {output.index} of a node, only 0 can be given", where=where)
        node = self._graph.nodes[output.node]
        if not (code := info.dtype or _element_code(node)):
            raise CompileError(f"the type of what {node.op} computes is unknown", where=where)
        declared = self._declared_shape(node)
        shape = overridden(name, given, info.shape if declared is None else declared, self._where)
        if shape is None:
            hint = f"--input-shape='{name}:1,224,224,3' gives it, ? for a size that varies"
            raise CompileError("its rank is unknown", where=where, hint=hint)
        return Input(name, node.name, TensorType(element_type(dtype_of(code, where)), shape))

    def _declared_shape(self, node: NodeDef) -> tuple[int, ...] | None:
        """The declared shape; in old graphs a placeholder without a shape looks like one of rank 0."""
        shape = _declared_shape(node)
        return None if self._old and node.op in _PLACEHOLDERS and not shape else shape

    def _output(self, tensor: str, what: str) -> Output:
        try:
            output = parse_input(tensor)
        except ValueError:
            raise CompileError(f"'{tensor}' names no {what}", where=self._where, hint="names are x or x:1") from None
        if output.node not in self._graph.nodes:
            message = f"has no node '{output.node}' to be an {what}"
            raise CompileError(
                message, where=self._where, hint=f"there are {', '.join(self._likely(output.node, what))}"
            )
        return output

    def _likely(self, name: str, what: str) -> list[str]:
        """A hint with similar names, otherwise with some names of the model."""
        if self._signature is not None:
            own = list(self._signature.inputs if what == "input" else self._signature.outputs)
        elif what == "input":
            own = [n.name for n in self._graph.nodes.values() if n.op in _PLACEHOLDERS]
        else:
            own = self._ends()
        return get_close_matches(name, dict.fromkeys([*own, *self._graph.nodes]), 3) or own[:8]

    def name_of(self, node: str) -> str:
        """The user's name of the input at node `node`."""
        infos: Mapping[str, TensorInfo] = {} if self._signature is None else self._signature.inputs
        return next((name for name, info in infos.items() if _short(info.name) == node), node)

    def _unique(self, names: Sequence[str], what: str) -> None:
        if twice := next((n for n, k in Counter(names).items() if k > 1), None):
            raise CompileError(f"{what} '{twice}' is named twice", where=self._where)


def is_flag(node: NodeDef) -> bool:
    """Whether a placeholder is a single boolean: a training flag, which is false at inference."""
    if _element_code(node) != _DT_BOOL:
        return False
    shape = _declared_shape(node)
    return not shape


def _signature(source: Source, options: ImportOptions, where: str) -> Signature | None:
    """The requested signature, otherwise the one for serving, otherwise the only one; other outputs are not declared."""
    signatures = source.signatures or {}
    known = ", ".join(sorted(signatures))
    if options.signature:
        if options.signature not in signatures:
            hint = f"signatures are {known}" if known else "the model has none"
            raise CompileError(f"has no signature '{options.signature}'", where=where, hint=hint)
        return signatures[options.signature]
    if _SIGNATURE in signatures:
        return signatures[_SIGNATURE]
    if len(signatures) > 1:
        raise CompileError("has several signatures", where=where, hint=f"--signature chooses one of {known}")
    if not signatures and source.signatures is not None and not options.outputs:
        hint = "save it with one, tf.saved_model.save(..., signatures=...), or name --outputs"
        raise CompileError("is a SavedModel without a signature", where=where, hint=hint)
    return next(iter(signatures.values()), None)


def _unsaid(name: str) -> TensorInfo:
    """A tensor that is not in a signature."""
    return TensorInfo(name, 0, None)


def _short(name: str) -> str:
    """`x` for `x:0`."""
    return name.removesuffix(":0")


def _element_code(node: NodeDef) -> int:
    """The number of the element type of a node's first output, if its attributes specify it, otherwise 0."""
    if node.op in _TRUTHS:
        return _DT_BOOL
    for name in ("dtype", "DstT", "out_type", "output_type", "T", "Tparams"):
        if name in node.attr and node.attr[name].type:
            return node.attr[name].type
    lists = (node.attr[name].list.type for name in ("Tout", "T") if name in node.attr)
    return next((types[0] for types in lists if len(types)), 0)


def _declared_shape(node: NodeDef) -> tuple[int, ...] | None:
    """The shape that a node's attributes give its first output, -1 for an unknown size, None for an unknown rank."""
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    if "_output_shapes" in node.attr and len(node.attr["_output_shapes"].list.shape):
        shape = node.attr["_output_shapes"].list.shape[0]
    if shape is None or shape.unknown_rank:
        return None
    return tuple(d.size for d in shape.dim)
