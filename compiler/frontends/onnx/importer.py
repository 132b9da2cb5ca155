"""Building the module: every node in order is folded, removed, converted or carried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ...diagnostics import CompileError, Remark
from ...dialects import nn
from ...dialects.nn.shapes import known, shape_of
from ...functions import value_attributes
from ...rewriting import Remarks
from ...session import Session
from . import ops as _converters  # noqa: F401 - fills the table of converters
from .attributes import GRAPHS
from .folding import folded
from .graph import Layer, Namer, outputs_of, sorted_layers
from .node import Binding, Constant, Node, Sink, Unmapped, converter_of
from .opaque import carry
from .source import STANDARD, load, opsets
from .tensors import TensorReader
from .types import dimension_names, tensor_type


def read(path: Path, session: Session) -> ModuleOp:
    """The model at `path` as a module in `nn`, with a remark for each node that is carried and one that counts them all.

    Raises CompileError, located at the file or at a node, for what is no such model and for what cannot be represented.
    """
    model = load(path)
    importer = _Importer(path, model, session)
    module = ModuleOp([importer.function()])
    module.attributes["nn.metadata"] = _metadata(path, model)
    importer.report()
    return module


def _metadata(path: Path, model: ModelProto) -> DictionaryAttr:
    entries = {
        "framework": "onnx",
        "source": path.name,
        "opset": str(opsets(model).get(STANDARD, "")),
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
    }
    return DictionaryAttr({key: StringAttr(text) for key, text in entries.items() if text})


class _Importer:
    def __init__(self, path: Path, model: ModelProto, session: Session):
        self.graph = model.graph
        self.where = str(path)
        self.opsets = opsets(model)
        self.tensors = TensorReader(path.parent)
        self.session = session
        self.remarks = Remarks(session, "import")
        self.namer = Namer(self.where, model.graph.node)
        self.sink = Sink()
        self.counts: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self.declarations: dict[str, TypeProto] = {v.name: v.type for v in [*self.graph.value_info, *self.graph.output]}

    def function(self) -> FuncOp:
        outputs = outputs_of(self.graph, self.where)
        if self.graph.sparse_initializer:
            name = self.graph.sparse_initializer[0].values.name
            raise CompileError("sparse initializers are not supported", where=f"{self.where}: initializer '{name}'")
        constants = self._initializers(self.graph)
        inputs = [i for i in self.graph.input if i.name not in constants]
        block = Block(arg_types=[tensor_type(i.type, f"input '{i.name}'", self.where) for i in inputs])
        env: dict[str, Binding] = {**constants}
        for value, argument in zip(inputs, block.args, strict=True):
            argument.name_hint = nn.name_hint(value.name)
            env[value.name] = argument
        for layer in sorted_layers(self.graph, self.namer):
            self._node(layer, env)
        results = [self._result(o, env) for o in outputs]
        block.add_ops([*self.sink.constants, *self.sink.body, ReturnOp(*results)])
        _erase_unused(block)
        function = FuncOp(
            "main",
            (list(block.arg_types), [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr([_attributes(i, a) for i, a in zip(inputs, block.args, strict=True)]),
            res_attrs=ArrayAttr([_attributes(o, r) for o, r in zip(outputs, results, strict=True)]),
        )
        function.location = self.namer.file
        return function

    def _initializers(self, graph: GraphProto) -> dict[str, Constant]:
        found: dict[str, Constant] = {}
        for tensor in graph.initializer:
            array = self.tensors.read(tensor, f"{self.where}: initializer '{tensor.name}'")
            found[tensor.name] = Constant(tensor.name, array)
        return found

    def _result(self, output: ValueInfoProto, env: Mapping[str, Binding]) -> SSAValue:
        if output.name not in env:
            raise CompileError(
                f"output '{output.name}' is not computed by any node",
                where=self.where,
                hint="the file may be truncated",
            )
        return self.sink.value(env[output.name])

    def _node(self, layer: Layer, env: dict[str, Binding]) -> None:
        proto = layer.proto
        if (version := self.opsets.get(layer.domain)) is None:
            message = f"{proto.op_type} is of domain '{layer.domain}', whose opset the model does not import"
            raise CompileError(message, where=layer.where)
        node = Node(layer, version, [env[n] if n else None for n in proto.input], self.sink, self.tensors)
        results = self._convert(node)
        if len(results) < sum(map(bool, node.outputs)):
            raise node.error(f"has {len(node.outputs)} outputs, {len(results)} are defined")
        env.update({name: r for name, r in zip(node.outputs, results, strict=False) if name})

    def _convert(self, node: Node) -> list[Binding]:
        if (constants := folded(node, self.opsets)) is not None:
            self.counts["folded"] += 1
            return constants
        if (convert := converter_of(node.layer)) is None:
            return self._carry(node, f"nn has no equivalent of {node.op_type}")
        mark = len(self.sink.body)
        try:
            converted = convert(node)
        except Unmapped as e:
            del self.sink.body[mark:]
            return self._carry(node, str(e))
        self.counts["mapped" if len(self.sink.body) > mark else "removed"] += 1
        return [converted] if isinstance(converted, SSAValue | Constant) else list(converted)

    def _carry(self, node: Node, reason: str) -> list[Binding]:
        if any(a.type in GRAPHS for a in node.attributes.values()):
            raise node.error("runs subgraphs; control flow is not supported", hint="export the model without it")
        op = carry(node, self.opsets, self.declarations)
        self.remarks.missed(op, "native", f"carried as opaque: {reason}")
        self.carried[node.op_type] += 1
        return list(op.outputs)

    def report(self) -> None:
        """Tell the remarks, and how many nodes went which way."""
        self.remarks.flush()
        kinds = ", ".join(f"{n} {op_type}" for op_type, n in sorted(self.carried.items()))
        parts = [
            f"{self.counts['mapped']} mapped to nn",
            f"{self.carried.total()} carried as opaque" + (f" ({kinds})" if kinds else ""),
            f"{self.counts['folded']} folded",
            f"{self.counts['removed']} removed",
        ]
        reason = f"{len(self.graph.node)} nodes: {', '.join(parts)}"
        self.session.remark(Remark("analysis", "import", "summary", "main", "func.func", reason, self.where))


def _attributes(declaration: ValueInfoProto, value: SSAValue) -> DictionaryAttr:
    """Name and dimension names of an input or output; names only where the size is in fact not known."""
    names, shape = dimension_names(declaration.type), shape_of(value)
    if len(names) != len(shape):
        return value_attributes(declaration.name)
    return value_attributes(declaration.name, ["" if known(d) else n for d, n in zip(shape, names, strict=True)])


def _erase_unused(block: Block) -> None:
    """Remove operations that no output depends on, such as shape arithmetic that became a property."""
    for op in reversed(list(block.ops)):
        if op.results and not any(r.uses.get_length() for r in op.results):
            op.detach()
            op.erase()
