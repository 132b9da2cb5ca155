"""Builds the module: every node in order is folded, removed, converted or carried."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Callable, Container, Mapping, MutableMapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import AnyFloat, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import nn
from ...dialects.nn.shapes import compatible, element_of, known, shape_of, tensor_of
from ...formats.onnx.graphs import STANDARD, all_nodes, free_names
from ...formats.onnx.schema import schema_of
from ...formats.onnx.tensors import Array, TensorReader, dimension_names, tensor_type
from ...ir import precision
from ...ir.functions import value_attributes
from ...session import Session
from ...support.diagnostics import CompileError
from .. import naming
from ..import_report import ImportReport
from ..naming import Namer
from .graph import NodeLayer, live_layers, outputs_of, sorted_layers, used_names
from .interface import choose
from .node import Binding, Constant, Node, Shared, Unmapped
from .opaque import carry
from .ops import converter_of
from .regions import Untyped, carry_region, is_control, reason_of, region_of
from .single import function_body, inferred_types
from .source import MEMORY, OLDEST_OPSET, Source, checked, load, opsets
from .symbols import Symbols

_DEFAULTS_SINCE = 4
"""The IR version from which on an initializer that is also declared as an input is a default, not just a weight."""


def read(path: Path, session: Session) -> ModuleOp:
    """The model at `path` as a module in `nn`, with a remark for each node that is carried and one with their number.

    Raises CompileError, located at the file or at a node, for a file that is not such a model and for anything that
    cannot be represented.
    """
    return _module(load(path), session)


def from_model(model: ModelProto, session: Session, path: Path = MEMORY) -> ModuleOp:
    """Imports a ModelProto in memory, like `read`; the model is not changed. `path` is where errors are located.

    Raises CompileError like `read`, and for a model whose tensors are still in files.
    """
    return _module(checked(model, path), session)


def _module(source: Source, session: Session) -> ModuleOp:
    choose(source.model, session.imports, str(source.path))
    importer = _Importer(source, session)
    module = ModuleOp([importer.function()])
    module.attributes["nn.metadata"] = _metadata(source.path, source.model)
    importer.report.finish(importer.shared.sink.kept)
    return module


def _metadata(path: Path, model: ModelProto) -> DictionaryAttr:
    kept = {p.key: p.value for p in model.metadata_props}
    entries = {
        "framework": "onnx",
        "source": path.name,
        "opset": str(opsets(model).get(STANDARD, "")),
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        precision.ENTRY: kept.get(f"amct_opt.{precision.ENTRY}", ""),
    }
    return DictionaryAttr({key: StringAttr(text) for key, text in entries.items() if text})


class _Importer:
    def __init__(self, source: Source, session: Session):
        model = source.model
        self.graph = model.graph
        self.ir_version = model.ir_version
        self.where = str(source.path)
        tensors = TensorReader(source.path, source.weights)
        self.shared = Shared(opsets(model), tensors, Symbols(model), used_names(model.graph))
        self.namer = Namer(self.where, (n.name for n in all_nodes(model.graph.node)))
        self.session = session
        self.report = ImportReport(session, self.where)
        self.declarations: dict[str, TypeProto] = {}

    def function(self) -> FuncOp:
        """The graph as `@main`. Initializers that are also declared as inputs (all are, before IR version 4) are constants."""
        outputs = outputs_of(self.graph, self.where)
        env = self._initializers(self.graph, self.shared.tensors.initializer)
        given = {i.name for i in self.graph.initializer}
        inputs = [i for i in self.graph.input if i.name not in given]
        for value in self.graph.input if self.ir_version >= _DEFAULTS_SINCE else ():
            if value.name in given:
                self.report.note(
                    "default", value.name, "the default of this input is taken, it cannot be given another value"
                )
        block = Block(arg_types=[tensor_type(i.type, f"input '{i.name}'", self.where) for i in inputs])
        for value, argument in zip(inputs, block.args, strict=True):
            argument.name_hint = nn.name_hint(value.name)
            self._define(env, value.name, argument)
        try:
            self.import_nodes(self.graph, env)
        except Untyped as e:
            raise e.error from None
        results = [self._result(o, env) for o in outputs]
        self._note_contradictions(outputs, results)
        arguments = [_attributes(i, a) for i, a in zip(inputs, block.args, strict=True)]
        described = arguments, [_attributes(o, r) for o, r in zip(outputs, results, strict=True)]
        return self.shared.sink.function(block, results, described, self.namer.file)

    def _initializers(self, graph: GraphProto, read: Callable[[TensorProto, str], Array]) -> dict[str, Binding]:
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise CompileError("sparse initializers are not supported", where=f"{self.where}: initializer '{name}'")
        found: dict[str, Binding] = {}
        for tensor in graph.initializer:
            if tensor.name in self.shared.used:
                array = read(tensor, f"{self.where}: initializer '{tensor.name}'")
                found[tensor.name] = Constant(tensor.name, array)
        return found

    def _result(self, output: ValueInfoProto, env: Mapping[str, Binding]) -> SSAValue:
        if output.name not in env:
            raise CompileError(
                f"output '{output.name}' is not computed by any node",
                where=self.where,
                hint="the file may be truncated",
            )
        return self.shared.sink.value(env[output.name])

    def _note_contradictions(self, outputs: Sequence[ValueInfoProto], results: Sequence[SSAValue]) -> None:
        """Reports outputs whose declared type differs from the computed one; the computed types are used."""
        for output, result in zip(outputs, results, strict=True):
            if output.type.tensor_type.HasField("shape"):
                declared = tensor_type(output.type, f"output '{output.name}'", self.where)
                if not compatible(declared, tensor_of(result)):
                    self.report.note(
                        "declared-type", output.name, f"the model declares {declared} and computes {result.type}"
                    )

    def _define(self, env: MutableMapping[str, Binding], name: str, binding: Binding) -> None:
        env[name] = binding
        if isinstance(binding, SSAValue):
            self.shared.symbols.define(name, binding)

    def import_nodes(self, graph: GraphProto, env: MutableMapping[str, Binding]) -> None:
        """Imports the nodes that outputs depend on, in order; `env` contains the defined values, and receives new ones.

        Raises Untyped if an output depends on a value without a type.
        """
        typed = (v for v in [*graph.value_info, *graph.output] if v.type.WhichOneof("value"))
        self.declarations.update({v.name: v.type for v in typed})
        layers = sorted_layers(graph, self.namer, env)
        live = live_layers(layers, [o.name for o in graph.output])
        self.report.unused(len(layers) - len(live))
        pending, outputs = deque(live), {o.name for o in graph.output}
        postponed: set[str] = set()
        while pending:
            try:
                self._node(pending[0], env)
                pending.popleft()
            except Untyped as e:
                pending = deque(self._untyped(list(pending), postponed, outputs, env, e.error))

    def _untyped(
        self,
        layers: Sequence[NodeLayer],
        postponed: set[str],
        outputs: Set[str],
        env: MutableMapping[str, Binding],
        error: CompileError,
    ) -> list[NodeLayer]:
        """Carries the first of the layers with all operations that have no type without it; returns the remaining layers.

        A region that reads results of other layers is placed after these, and its first layer is `postponed`. If they form a
        region that reads from the postponed one, the two are one region. Raises Untyped, with the error, if an output has no
        type either.
        """
        heads = {layers[0].name}
        while True:
            before, region, after = region_of(layers, heads, env, self.shared, self.declarations)
            if not (circular := {layer.name for layer in before} & postponed):
                break
            heads |= circular
        if before:
            postponed |= heads
            return [*before, *region, *after]
        wanted = {*outputs, *(name for layer in after for name in free_names(layer.proto))}
        try:
            self._carry_whole(region, wanted, env)
        except Untyped:
            raise Untyped(error) from None
        return after

    def _carry_whole(
        self, region: Sequence[NodeLayer], wanted: Container[str], env: MutableMapping[str, Binding]
    ) -> None:
        op, names = carry_region(region, wanted, env, self.shared, self.declarations)
        self.report.carried(op, reason_of(region, {i.name for i in self.graph.input}))
        for name, result in zip(names, op.results, strict=True):
            self._define(env, name, result)

    def _node(self, layer: NodeLayer, env: MutableMapping[str, Binding]) -> None:
        proto = layer.proto
        if layer.domain not in self.shared.opsets:
            message = f"{proto.op_type} is of the domain '{layer.domain}', whose opset the model does not name"
            raise CompileError(message, where=layer.where)
        check_form(layer, self.shared.opsets[layer.domain])
        node = Node(layer, [env[n] if n else None for n in proto.input], self.shared)
        branch = taken_branch(node)
        if branch is None and is_control(proto):
            self._carry_whole([layer], self.shared.used, env)
            return
        results = self._convert(node) if branch is None else self._branch(node, branch, env)
        for i, name in enumerate(node.outputs):
            if i < len(results) and name:
                self._define(env, name, results[i])
            elif name in self.shared.used:
                raise node.error(f"has no output {i}")

    def _branch(self, node: Node, branch: GraphProto, env: MutableMapping[str, Binding]) -> list[Binding]:
        """Imports an If with a known condition as the branch that it takes."""
        scope: ChainMap[str, Binding] = ChainMap(self._initializers(branch, self.shared.tensors.read), *_maps(env))
        self.import_nodes(branch, scope)
        self.report.removed()
        if missing := [o.name for o in branch.output if o.name not in scope]:
            raise node.error(f"has a branch that does not compute its output '{missing[0]}'")
        return [scope[o.name] for o in branch.output]

    def _convert(self, node: Node) -> list[Binding]:
        """Converts or carries a node. Results that depend only on constants or known sizes become constants."""
        if node.op_type in self.session.imports.carried:
            return self._carry(node, "--carry names it")
        reasons: list[str] = []
        own = self.session.readers.get(("onnx", f"{node.domain}::{node.op_type}" if node.domain else node.op_type))
        for convert in filter(None, (own, converter_of(node), self._through_function)):
            try:
                results, emitted = node.sink.attempt(partial(convert, node))
            except VerifyException as e:
                raise node.misfit(e) from None
            except Unmapped as e:
                reasons.append(str(e))
                continue
            found = node.sink.bindings(results, emitted, node.outputs)
            self.report.converted(node.inputs, found, emitted)
            for op in emitted:
                if isinstance(op, nn.OpaqueOp) and op not in self.report.all_carried():
                    self.report.carried(
                        op, f"nn has no equivalent of {op.op_type.data}, which is a part of {node.op_type}"
                    )
            return found
        return self._carry(node, reasons[0])

    def _through_function(self, node: Node) -> list[Binding]:
        """Imports the nodes of the function that defines the node. Raises Unmapped without one, and for one that computes
        floats by operators that `nn` does not have; a Pad of sizes at run time moves them only."""
        unmapped = Unmapped(f"nn has no equivalent of {node.op_type}")
        if (function := function_body(node)) is None:
            raise unmapped
        body, opset = function
        inside = _Function(self, node, {**self.shared.opsets, STANDARD: opset}, used_names(body))
        scope = {name: b for name, b in zip(node.proto.input, node.inputs, strict=True) if b is not None}
        try:
            inside.import_nodes(body, scope)
        except (CompileError, Untyped):  # the node is valid and can be carried, even if its definition fails
            raise unmapped from None
        carried = inside.report.all_carried()
        computing = (op for op in carried if op.op_type.data != "Pad")
        if any(isinstance(element_of(r), AnyFloat) for op in computing for r in op.outputs):
            raise unmapped
        for op, reason in carried.items():
            self.report.carried(op, reason)
        return _with_scalars(node, [scope[o.name] for o in body.output])

    def _carry(self, node: Node, reason: str) -> list[Binding]:
        op = carry(node, self.declarations)
        results = node.sink.bindings(op.outputs, [op], node.outputs)
        if all(isinstance(r, Constant) for r in results):
            self.report.folded()
        else:
            self.report.carried(op, reason)
        return results


def _with_scalars(node: Node, results: Sequence[Binding]) -> list[Binding]:
    """The results of a definition, with those reshaped that the operator gives as scalars: definitions that compute
    with vectors of one number (Celu's) make such vectors of scalars.
    """
    if not any(shape_of(r) == (1,) for r in results if isinstance(r, SSAValue)):
        return [*results]
    scalars = {
        i for i, t in inferred_types(node).items() if t.tensor_type.HasField("shape") and not t.tensor_type.shape.dim
    }
    return [
        node.emit(nn.ReshapeOp, r, to=[]).result if i in scalars and isinstance(r, SSAValue) else r
        for i, r in enumerate(results)
    ]


class _Function(_Importer):
    """Imports the nodes of the function that defines a node; the values inside are unknown to the rest of the graph."""

    def __init__(self, outer: _Importer, node: Node, opsets: Mapping[str, int], used: frozenset[str]):
        self.graph = outer.graph
        self.where = outer.where
        self.shared = replace(outer.shared, opsets=opsets, used=used)
        self.session = outer.session
        self.namer = _Inside(outer.namer, node.layer.name)
        self.report = ImportReport(outer.session, outer.where)
        self.declarations: dict[str, TypeProto] = {}

    def _define(self, env: MutableMapping[str, Binding], name: str, binding: Binding) -> None:
        env[name] = binding


class _Inside(Namer):
    """Names the nodes of a function after the node that it defines."""

    def __init__(self, namer: Namer, layer: str):
        self.file = namer.file
        self._namer = namer
        self._layer = layer

    def layer(self, name: str, op_type: str, index: int) -> naming.NamedLayer:
        return self.fresh(f"{self._layer}/{op_type}")

    def fresh(self, wanted: str) -> naming.NamedLayer:
        return self._namer.fresh(wanted)


def check_form(layer: NodeLayer, version: int) -> None:
    """Raises CompileError if the opset is too old and the operator has changed since."""
    if layer.domain != STANDARD or version >= OLDEST_OPSET:
        return
    op_type = layer.proto.op_type
    old, new = (schema_of(op_type, v) for v in (version, OLDEST_OPSET))
    if old is None or new is None or old.since_version != new.since_version:
        raise CompileError(
            f"{op_type} is in the form of opset {version}; {OLDEST_OPSET} and later are read",
            where=layer.where,
            hint="onnx.version_converter converts between opsets",
        )


def taken_branch(node: Node) -> GraphProto | None:
    """The branch of an If whose condition is known; None for every other node."""
    condition = node.array(0) if node.op_type == "If" else None
    if condition is None:
        return None
    attribute = node.attributes.get("then_branch" if condition.all() else "else_branch")
    if attribute is None or not attribute.HasField("g"):
        raise node.error("lacks the branch that it takes")
    return attribute.g


def _maps(env: MutableMapping[str, Binding]) -> list[MutableMapping[str, Binding]]:
    return [*env.maps] if isinstance(env, ChainMap) else [env]


def _attributes(declaration: ValueInfoProto, value: SSAValue) -> DictionaryAttr:
    """Name and dimension names of an input or output; dimension names only for unknown sizes."""
    names, shape = dimension_names(declaration.type), shape_of(value)
    if len(names) != len(shape):
        return value_attributes(declaration.name)
    return value_attributes(declaration.name, ["" if known(d) else n for d, n in zip(shape, names, strict=True)])
