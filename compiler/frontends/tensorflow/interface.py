"""What goes into a model and what comes out: as the user says, as a signature says, or as the graph shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from xdsl.dialects.builtin import TensorType

from ...diagnostics import CompileError
from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC
from ...dtypes import Tensor, element_type
from ...session import ImportOptions
from .graph import Graph, NodeDef, Output, consumers, parse_input
from .source import Signature, Source, TensorInfo
from .tensors import dtype_of

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
_DEFAULTED = "PlaceholderWithDefault"
_NO_OUTPUTS = frozenset({"Const", "NoOp", "Assert", "Print", "PrintV2", _DEFAULTED, *_PLACEHOLDERS})
"""Operators that compute nothing for a user, though nothing reads them."""
_DT_BOOL = 10
_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class Input:
    """An input by the name that users know it by, the node that it replaces, and its type."""

    name: str
    node: str
    type: Tensor

    @property
    def hint(self) -> str | None:
        """What the argument is called in the text."""
        return nn.name_hint(self.name)


@dataclass(frozen=True)
class Result:
    """An output by name, and what computes it."""

    name: str
    node: str
    index: int


class Interface:
    """Inputs and outputs of a model, in order.

    Options win over signatures, and these over what the graph shows: placeholders that outputs depend on, training flags aside,
    are inputs, and nodes that nothing reads are outputs. Raises CompileError for names that the graph does not have.
    """

    def __init__(self, source: Source, graph: Graph, options: ImportOptions):
        self._graph = graph
        self._options = options
        self._where = graph.where
        self._signature = _signature(source, options, self._where)
        self.outputs = self._outputs()
        self.inputs = self._inputs()
        names = [i.name for i in self.inputs]
        for name in options.shapes:
            if name not in names:
                hint = f"inputs are {', '.join(names)}"
                raise CompileError(f"--input-shape names '{name}', which is no input", where=self._where, hint=hint)

    def _outputs(self) -> list[Result]:
        if self._options.outputs:
            given = None if self._signature is None else self._signature.outputs
            results = [
                self._result(name, given[name].name if given and name in given else name)
                for name in self._options.outputs
            ]
        elif self._signature is not None:
            results = [self._result(key, info.name) for key, info in sorted(self._signature.outputs.items())]
        else:
            read = consumers(self._graph)
            ends = [n for n in self._graph.nodes.values() if n.name not in read and n.op not in _NO_OUTPUTS]
            results = [Result(n.name, n.name, 0) for n in ends]
        if not results:
            raise CompileError("has no outputs", where=self._where, hint="--outputs names them")
        self._unique([r.name for r in results], "output")
        return results

    def _result(self, name: str, tensor: str) -> Result:
        output = self._output(tensor, "output")
        return Result(name.removesuffix(":0"), output.node, output.index)

    def _inputs(self) -> list[Input]:
        if self._options.inputs:
            given = None if self._signature is None else self._signature.inputs
            inputs = [self._input(name, given.get(name) if given else None) for name in self._options.inputs]
        elif self._signature is not None:
            inputs = [self._input(key, info) for key, info in sorted(self._signature.inputs.items())]
        else:
            live = {n.name for n in self._graph.live([o.node for o in self.outputs], ())}
            nodes = (n for n in self._graph.nodes.values() if n.op in _PLACEHOLDERS and n.name in live)
            inputs = [self._input(n.name, None) for n in nodes if not is_flag(n)]
        self._unique([i.name for i in inputs], "input")
        return inputs

    def _input(self, name: str, info: TensorInfo | None) -> Input:
        """The input called `name`; `info` is what a signature says of it."""
        output = self._output(name if info is None else info.name, "input")
        if output.index:
            raise CompileError(
                f"input '{name}' is output {output.index} of a node, only 0 can be given", where=self._where
            )
        node = self._graph.nodes[output.node]
        name = name.removesuffix(":0")
        where = f"{self._where}: input '{name}'"
        code = info.dtype if info is not None and info.dtype else _element_code(node)
        return Input(name, node.name, TensorType(element_type(dtype_of(code, where)), self._shape(name, node, info)))

    def _shape(self, name: str, node: NodeDef, info: TensorInfo | None) -> Sequence[int]:
        """Given by option, else by signature, else by the node itself."""
        declared = _declared_shape(node)
        if declared is None and info is not None:
            declared = info.shape
        given = self._options.shapes.get(name)
        if given is None and declared is None:
            hint = f"--input-shape='{name}:1,224,224,3' gives it, -1 for a size that varies"
            raise CompileError(f"the rank of input '{name}' is unknown", where=self._where, hint=hint)
        if given is None or declared is None:
            return tuple(given or declared or ())
        if len(given) != len(declared) or any(
            d not in (DYNAMIC, g) for g, d in zip(given, declared, strict=True) if g != DYNAMIC
        ):
            message = f"--input-shape gives {list(given)} for input '{name}', the model declares {list(declared)}"
            raise CompileError(message, where=self._where)
        return given

    def _output(self, tensor: str, what: str) -> Output:
        try:
            output = parse_input(tensor)
        except ValueError:
            raise CompileError(f"'{tensor}' names no {what}", where=self._where, hint="names are x or x:1") from None
        if output.node not in self._graph.nodes:
            close = ", ".join(get_close_matches(output.node, list(self._graph.nodes), 3) or list(self._graph.nodes)[:8])
            raise CompileError(
                f"has no node '{output.node}' to be an {what}", where=self._where, hint=f"there are {close}"
            )
        return output

    def _unique(self, names: Sequence[str], what: str) -> None:
        if twice := next((n for n, k in Counter(names).items() if k > 1), None):
            raise CompileError(f"{what} '{twice}' is named twice", where=self._where)


def is_flag(node: NodeDef) -> bool:
    """Whether a placeholder holds one truth value, which at inference says that this is no training."""
    if _element_code(node) != _DT_BOOL:
        return False
    shape = _declared_shape(node)
    return not shape


def _signature(source: Source, options: ImportOptions, where: str) -> Signature | None:
    """The signature asked for, else the one for serving, else the only one."""
    known = ", ".join(sorted(source.signatures))
    if options.signature:
        if options.signature not in source.signatures:
            hint = f"signatures are {known}" if known else "the model has none"
            raise CompileError(f"has no signature '{options.signature}'", where=where, hint=hint)
        return source.signatures[options.signature]
    if _SIGNATURE in source.signatures:
        return source.signatures[_SIGNATURE]
    if len(source.signatures) > 1:
        raise CompileError("has several signatures", where=where, hint=f"--signature chooses one of {known}")
    return next(iter(source.signatures.values()), None)


def _element_code(node: NodeDef) -> int:
    """The element type of a node's first output, as far as its attributes say it; float32 where they do not."""
    for name in ("dtype", "T", "DstT", "Tparams"):
        if name in node.attr and node.attr[name].type:
            return node.attr[name].type
    return 1


def _declared_shape(node: NodeDef) -> tuple[int, ...] | None:
    """The shape that a node's attributes give its first output, None for one of unknown rank."""
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    if "_output_shapes" in node.attr and len(node.attr["_output_shapes"].list.shape):
        shape = node.attr["_output_shapes"].list.shape[0]
    if shape is None or shape.unknown_rank:
        return None
    return tuple(d.size if d.size >= 0 else DYNAMIC for d in shape.dim)
