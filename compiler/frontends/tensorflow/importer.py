"""Builds the module: live nodes, in order, are bound, called, folded, converted or carried.

Import is symbolic execution. Constants, variables, calls and branches are followed as TensorFlow would run them, with training
flags set to false; a loop is read as the recurrent layer that it is; everything else that happens at run time is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.nn import OpaqueOp
from ...formats.tensorflow.schema import Message
from ...formats.tensorflow.tensors import array_of
from ...ir.dtypes import Tensor
from ...ir.functions import value_attributes
from ...session import Session
from ...support.diagnostics import CompileError
from ..building import Binding, Constant, Sink, Unmapped
from ..import_report import ImportReport
from ..naming import Namer
from ..options import take_only
from .graph import LOOPS, MERGES, UNROLL, Graph, NodeDef, Output, flat_index
from .interface import Interface, Result, is_flag
from .node import AttrValue, Node
from .opaque import carry
from .ops import converter_of
from .recurrent import Loop, NotRecurrent, TensorList, step_inputs
from .source import Source, load

_DEEPEST = 100
"""The limit of nested calls, exceeded only by recursion."""
_MOST = 1 << 17
"""The limit of nodes after inlining of functions."""


_ASSIGNMENTS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


class _Dead(Enum):
    """Marks the outputs of nodes on a branch that is not taken."""

    DEAD = "dead"


_DEAD = _Dead.DEAD
_Value = Binding | TensorList | _Dead
_Results = Sequence[_Value] | _Dead


def read(path: Path, session: Session) -> ModuleOp:
    """The model at `path` (frozen graph or SavedModel) as a module in `nn`, with remarks on carried and bound nodes.

    Raises CompileError, located at the file or at a node, for a file that is not such a model and for anything that
    cannot be represented.
    """
    return build(load(path), session)


def build(source: Source, session: Session) -> ModuleOp:
    """Like `read`, for a model that is already loaded."""
    take_only(session.imports, ("inputs", "outputs", "shapes", "signature"), str(source.path))
    importer = _Importer(source, session)
    module = ModuleOp([importer.function()])
    entries = {"framework": "tensorflow", "source": source.path.name, "producer": source.producer}
    module.attributes["nn.metadata"] = DictionaryAttr({key: StringAttr(text) for key, text in entries.items() if text})
    importer.report.finish(importer.sink.kept)
    return module


@dataclass
class _Scope:
    """A graph or function body that is being imported, with the values of its nodes."""

    graph: Graph
    name: str = ""
    """The name of the function; empty for the model's own graph."""
    attributes: Mapping[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    """The attributes of the call, which attributes of the body may refer to."""
    depth: int = 0
    values: dict[str, _Results] = field(default_factory=dict[str, _Results])
    read: dict[str, set[Output]] = field(default_factory=dict[str, set[Output]])
    """The needed outputs of each node."""
    layer: str = ""
    """The name of the layer that calls the function."""

    def where(self, node: NodeDef) -> str:
        return f"{self.graph.where}: node '{node.name}'"

    def resolved(self, node: NodeDef) -> dict[str, AttrValue]:
        """The attributes of a node; placeholders are replaced by the attributes of the call."""
        return self.bound(node.attr)

    def bound(self, attributes: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
        return {k: self._resolved(v) for k, v in attributes.items()}

    def _resolved(self, value: AttrValue) -> AttrValue:
        return self.attributes.get(value.placeholder, value) if value.WhichOneof("value") == "placeholder" else value


class _Importer:
    def __init__(self, source: Source, session: Session):
        self.source = source
        self.where = str(source.path)
        self.graph = Graph.of(source.graph.node, self.where)
        self.interface = Interface(source, self.graph, session.imports)
        self.library = {f.signature.name: f for f in source.graph.library.function}
        self.bodies: dict[str, Graph] = {}
        self.noted: set[str] = set()
        self.namer = Namer(self.where, self.graph.nodes)
        self.sink = Sink()
        self.session = session
        self.report = ImportReport(session, self.where)
        self.constants: dict[tuple[str, str], Constant] = {}
        self.nodes = 0

    def function(self) -> FuncOp:
        """The graph between its inputs and its outputs as `@main`."""
        inputs, outputs = self.interface.inputs, self.interface.outputs
        block = Block(arg_types=[i.type for i in inputs])
        scope = _Scope(self.graph)
        for port, argument in zip(inputs, block.args, strict=True):
            argument.name_hint = port.hint
            scope.values[port.node] = [argument]
        self._run(scope, [Output(o.node, o.index) for o in outputs])
        if self.interface.found:
            self._note_more(scope, outputs)
        results = [self._result(scope, Output(o.node, o.index), f"output '{o.name}'") for o in outputs]
        described = [value_attributes(i.name) for i in inputs], [value_attributes(o.name) for o in outputs]
        return self.sink.function(block, results, described, self.namer.file)

    def _note_more(self, scope: _Scope, outputs: Sequence[Result]) -> None:
        for output in outputs:
            results = scope.values[output.node]
            if not isinstance(results, _Dead) and len(results) > 1:
                reason = f"of its {len(results)} results the first is an output; --outputs={output.name}:1 names others"
                self.report.note("first-result", output.name, reason)

    def _result(self, scope: _Scope, output: Output, what: str) -> SSAValue:
        value = self._value(scope, output, self.where)
        if isinstance(value, _Dead):
            raise CompileError(f"{what} lies on a branch that is not taken", where=self.where)
        if isinstance(value, TensorList):
            raise CompileError(f"{what} is a list of tensors, which only loops read", where=self.where)
        return self.sink.value(value)

    def _run(self, scope: _Scope, outputs: Sequence[Output]) -> None:
        """Imports the nodes that outputs depend on."""
        live = scope.graph.live([o.node for o in outputs], scope.values)
        self.report.unused(len(scope.graph.nodes) - len(live))
        computed = [node for node in live if node.name not in scope.values]
        self._note_assignments(scope)
        self.nodes += len(computed)
        if self.nodes > _MOST:
            raise CompileError(f"holds more than {_MOST} nodes, those of each call counted", where=self.where)
        for output in chain(outputs, *map(scope.graph.inputs, computed)):
            scope.read.setdefault(output.node, set()).add(output)
        for node in computed:
            scope.values[node.name] = self._node(scope, node)

    def _note_assignments(self, scope: _Scope) -> None:
        """Note the assignments of functions, which contain only those that each call makes; a model's own graph
        restores variables.
        """
        for node in scope.graph.nodes.values() if scope.name and scope.name not in self.noted else ():
            if node.op in _ASSIGNMENTS:
                self.report.note("assignment", node.name, "left out: variables keep the values that the model has")
        self.noted.add(scope.name)

    def _value(self, scope: _Scope, output: Output, where: str) -> _Value:
        results = scope.values[output.node]
        if isinstance(results, _Dead):
            return results
        index = self._index(scope, output)
        if index is None or not 0 <= index < len(results):
            which = output.argument or output.index
            raise CompileError(f"reads output {which} of '{output.node}', which has {len(results)}", where=where)
        return results[index]

    def _index(self, scope: _Scope, output: Output) -> int | None:
        """The index among all outputs of the node; None if it does not exist."""
        kind = scope.graph.nodes[output.node].op if output.node in scope.graph.nodes else ""
        if not output.argument or kind not in self.library:
            return flat_index(output, kind)
        names = [a.name for a in self.library[kind].signature.output_arg]
        return names.index(output.argument) if output.argument in names else None

    def _node(self, scope: _Scope, node: NodeDef) -> _Results:
        inputs = [self._value(scope, o, scope.where(node)) for o in scope.graph.inputs(node)]
        dead = any(isinstance(v, _Dead) for v in inputs) and node.op not in MERGES
        if dead or any(isinstance(scope.values[p], _Dead) for p in scope.graph.pivots(node)):
            self.report.removed()
            return _DEAD
        lists = any(isinstance(v, TensorList) for v in inputs)
        if lists and node.op == "Identity":
            return inputs
        if (lists and node.op not in _LISTS) or (node.op in LOOPS and node.op not in _BOUND):
            raise _part_of_loop(scope, node)
        if node.op in self.library:
            return self._call(scope, node, node.op, _alive(inputs), scope.resolved(node))
        if (bind := _BOUND.get(node.op)) is not None:
            return bind(self, scope, node, inputs)
        layer = self.namer.fresh(node.name) if scope.name else self.namer.layer(node.name, node.op, 0)
        used = {self._index(scope, o) for o in scope.read.get(node.name, ())}
        return self._convert(Node(node.op, layer, scope.resolved(node), _alive(inputs), self.sink, used))

    def _convert(self, node: Node) -> list[Binding]:
        """Converts or carries a node. Results that depend only on constants or known sizes become constants."""
        own, unmapped = self.session.readers.get(("tensorflow", node.op_type)), None
        for convert in filter(None, (own, converter_of(node))):
            try:
                results, emitted = self.sink.attempt(partial(convert, node))
            except VerifyException as e:
                raise node.misfit(e) from None
            except Unmapped as e:
                unmapped = e
                continue
            found = self.sink.bindings(results, emitted, ())
            self.report.converted(node.inputs, found, emitted)
            return found
        if unmapped is None:
            return self._carry(node, f"nn has no equivalent of {node.op_type}")
        return self._carry(node, str(unmapped), unmapped.types)

    def _carry(self, node: Node, reason: str, types: Sequence[Tensor] | None = None) -> list[Binding]:
        op = carry(node, types)
        results = self.sink.bindings(op.outputs, [op], ())
        if all(isinstance(r, Constant) for r in results):
            self.report.folded()
        else:
            self.report.carried(op, reason)
        return results

    # Nodes that are followed, not converted

    def constant(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Reads a Const once for all calls of a function; a value from the call is read each time."""
        self.report.folded()
        key = scope.name, node.name
        if key in self.constants:
            return [self.constants[key]]
        value = _attribute(scope, node, "value")
        data = self.source.weights.get("/".join(filter(None, key)))
        constant = Constant(node.name, array_of(value.tensor, scope.where(node), data))
        if node.attr["value"].WhichOneof("value") == "tensor":
            self.constants[key] = constant
        return [constant]

    def variable(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Replaces a variable, or its handle, by its value: nothing is written at inference."""
        self.report.folded()
        key = "", node.name
        if key not in self.constants:
            array = self.source.variables.get(node.name)
            if array is None:
                hint = "freeze the graph, or name the SavedModel folder that holds the variables"
                raise _error(scope, node, "is a variable without a value", hint)
            self.constants[key] = Constant(node.name, array)
        return [self.constants[key]]

    def placeholder(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Converts a placeholder that is not an input: one that a function captures, a training flag, which is false,
        or one with a default.
        """
        if node.name in self.source.variables:
            return self.variable(scope, node, inputs)
        self.report.removed()
        if is_flag(node):
            self.report.note("training-flag", node.name, "bound to false, as at inference; --inputs makes it an input")
            return [Constant(node.name, np.asarray(False))]
        if not inputs:
            name = self.interface.name_of(node.name)
            hint = f"--inputs takes every placeholder that is to be an input, '{name}' among them"
            raise _error(scope, node, "is not an input of the model, but an output depends on it", hint)
        self.report.note("default", node.name, "the default of this input is taken; --inputs makes it an input")
        return inputs[:1]

    def switch(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Passes its input on to one side; the other is dead."""
        self.report.removed()
        taken = bool(self._known(scope, node, inputs[1:2]).any())
        return [_DEAD, inputs[0]] if taken else [inputs[0], _DEAD]

    def merge(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """The live input, and its number."""
        self.report.removed()
        alive = [(i, v) for i, v in enumerate(inputs) if not isinstance(v, _Dead)]
        if not alive:
            return _DEAD
        number, value = alive[0]
        return [value, Constant(f"{node.name}.index", np.asarray(number, np.int32))]

    def if_(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Imports an If with a known condition as a call of the branch that it takes."""
        taken = "then_branch" if self._known(scope, node, inputs[:1]).any() else "else_branch"
        return self._call_of(scope, node, _attribute(scope, node, taken).func, inputs[1:])

    def case(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """Like `if_`, by number; a number out of range means the last branch."""
        branches = _attribute(scope, node, "branches").list.func
        index = int(self._known(scope, node, inputs[:1]).reshape(-1)[0])
        if not branches:
            raise _error(scope, node, "has no branches")
        return self._call_of(scope, node, branches[index if 0 <= index < len(branches) else -1], inputs[1:])

    def partitioned_call(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        return self._call_of(scope, node, _attribute(scope, node, "f").func, inputs)

    # Lists of tensors, and the loops of recurrent layers that read and write them

    def reserved(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """A list that is filled later."""
        self.report.removed()
        return [TensorList()]

    def listed(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """The parts of a tensor along its first axis as a list."""
        self.report.removed()
        return [TensorList(stack=self.sink.value(v)) for v in _alive(inputs[:1])]

    def stacked(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """The elements of a list, in one tensor."""
        self.report.removed()
        match inputs:
            case [TensorList(stack=SSAValue() as stack), *_]:
                return [stack]
            case _:
                raise _part_of_loop(scope, node)

    def item(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """The element that a step of a loop reads."""
        match inputs:
            case [TensorList(item=SSAValue() as item) as given, SSAValue() | Constant() as index, *_]:
                given.read.append(index)
                return [item]
            case _:
                raise _part_of_loop(scope, node)

    def set_item(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """The list with the element that a step of a loop writes."""
        match inputs:
            case [TensorList(), SSAValue() | Constant() as index, SSAValue() | Constant() as value]:
                return [TensorList(written=(index, value))]
            case _:
                raise _part_of_loop(scope, node)

    def while_(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> _Results:
        """A loop of a recurrent layer as one operation; a step is imported to be read, and is gone afterwards."""
        functions = [_attribute(scope, node, name).func for name in ("body", "cond")]
        block, start, mark = Block(), _live(inputs), len(self.sink.body)
        given = step_inputs(block, start, self._passed_on(functions[0].name))
        after, goes_on = (
            _live(self._inlined(scope, node, f.name, given, scope.bound(f.attr), range(len(start)))) for f in functions
        )
        try:
            loop = Loop.of(start, given, after, goes_on, self.sink)
            cell = loop.cell()
        except NotRecurrent as e:
            raise _part_of_loop(scope, node, f", but for those of Keras's LSTM, GRU and SimpleRNN, and {e}") from None
        made = Node(cell.op_type, self.namer.fresh(_layer(scope, node)), {}, (), self.sink, ())
        steps, self.sink.body[mark:] = self.sink.body[mark:], []
        results = loop.results(made, cell)
        for op in reversed(steps):
            op.erase()
        for op in self.sink.body[mark:]:
            if isinstance(op, OpaqueOp):
                self.report.carried(op, f"the loop of a recurrent layer is ONNX's {cell.op_type}")
        return results

    def _passed_on(self, name: str) -> set[int]:
        """The arguments of a function that it returns in the same place."""
        if (function := self.library.get(name)) is None:
            return set()
        nodes, signature, found = {each.name: each for each in function.node_def}, function.signature, set[int]()
        for i, (argument, result) in enumerate(zip(signature.input_arg, signature.output_arg, strict=False)):
            text = function.ret.get(result.name, "")
            while (at := nodes.pop(text.partition(":")[0], None)) is not None and at.op == "Identity" and at.input:
                text = at.input[0]
            found |= {i} if text == argument.name else set()
        return found

    # Calls

    def _known(self, scope: _Scope, node: NodeDef, inputs: Sequence[_Value]) -> np.ndarray:
        if not inputs or not isinstance(inputs[0], Constant) or inputs[0].array.size != 1:
            hint = "name what decides it in --inputs only if it is an input; a flag of training is bound to false"
            raise _error(scope, node, "branches on a value of run time: control flow is not supported", hint)
        return inputs[0].array

    def _call_of(self, scope: _Scope, node: NodeDef, function: Message, inputs: Sequence[_Value]) -> _Results:
        """A call of a function; an attribute names the function and gives its attributes."""
        return self._call(scope, node, function.name, _alive(inputs), scope.bound(function.attr))

    def _call(
        self, scope: _Scope, node: NodeDef, name: str, inputs: Sequence[Binding], attributes: Mapping[str, AttrValue]
    ) -> _Results:
        """A call of a function, of which the results that something reads are needed."""
        needed = {self._index(scope, o) for o in scope.read.get(node.name, ())}
        return self._inlined(scope, node, name, inputs, attributes, needed)

    def _inlined(
        self,
        scope: _Scope,
        node: NodeDef,
        name: str,
        inputs: Sequence[_Value],
        attributes: Mapping[str, AttrValue],
        needed: Collection[int | None],
    ) -> list[_Value]:
        """Inlines the body of a function as far as its results are needed; other results are dead."""
        self.report.removed()
        if (function := self.library.get(name)) is None:
            raise _error(scope, node, f"calls function '{name}', which the model does not hold")
        if scope.depth >= _DEEPEST:
            raise _error(scope, node, f"calls function '{name}', which calls itself")
        arguments = [a.name for a in function.signature.input_arg]
        if len(arguments) != len(inputs):
            raise _error(scope, node, f"gives function '{name}' {len(inputs)} arguments, but it takes {len(arguments)}")
        if name not in self.bodies:
            self.bodies[name] = Graph.of(function.node_def, f"{self.where}: function '{name}'", arguments)
        values: dict[str, _Results] = {a: [v] for a, v in zip(arguments, inputs, strict=True)}
        inner = _Scope(self.bodies[name], name, attributes, scope.depth + 1, values, layer=_layer(scope, node))
        returned = [inner.graph.resolved(function.ret.get(o.name, ""), "return") for o in function.signature.output_arg]
        self._run(inner, [o for i, o in enumerate(returned) if i in needed])
        return [self._value(inner, o, inner.graph.where) if i in needed else _DEAD for i, o in enumerate(returned)]


_Bind = Callable[[_Importer, _Scope, NodeDef, Sequence[_Value]], _Results]


def _table() -> Iterator[tuple[str, _Bind]]:
    kinds: Mapping[_Bind, Sequence[str]] = {
        _Importer.constant: ["Const"],
        _Importer.variable: ["Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"],
        _Importer.placeholder: ["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"],
        _Importer.switch: ["Switch", "RefSwitch"],
        _Importer.merge: ["Merge", "RefMerge"],
        _Importer.if_: ["If", "StatelessIf"],
        _Importer.case: ["Case", "StatelessCase"],
        _Importer.partitioned_call: ["PartitionedCall", "StatefulPartitionedCall"],
        _Importer.reserved: ["TensorListReserve"],
        _Importer.listed: ["TensorListFromTensor"],
        _Importer.stacked: ["TensorListStack"],
        _Importer.item: ["TensorListGetItem"],
        _Importer.set_item: ["TensorListSetItem"],
        _Importer.while_: ["While", "StatelessWhile"],
    }
    return ((op_type, bind) for bind, op_types in kinds.items() for op_type in op_types)


_BOUND = dict(_table())
"""Operators that the importer follows itself."""


_LISTS = frozenset({"TensorListStack", "TensorListGetItem", "TensorListSetItem", "While", "StatelessWhile"})
"""Operators that take lists of tensors."""


def _alive(values: Sequence[_Value]) -> list[Binding]:
    """The values of a live node, without lists of tensors."""
    return [v for v in values if not isinstance(v, _Dead | TensorList)]


def _live(values: Sequence[_Value]) -> list[Binding | TensorList]:
    """The values of a live node."""
    return [v for v in values if not isinstance(v, _Dead)]


def _layer(scope: _Scope, node: NodeDef) -> str:
    """The name of the layer that a node of a loop or a call belongs to: that of the folder of its name."""
    return node.name.rpartition("/")[0] or scope.layer or node.name


def _attribute(scope: _Scope, node: NodeDef, name: str) -> AttrValue:
    if (value := scope.resolved(node).get(name)) is None:
        raise _error(scope, node, f"has no attribute '{name}'")
    return value


def _part_of_loop(scope: _Scope, node: NodeDef, reason: str = "") -> CompileError:
    return _error(scope, node, f"is part of a loop: loops are not supported{reason}", UNROLL)


def _error(scope: _Scope, node: NodeDef, message: str, hint: str = "") -> CompileError:
    return CompileError(f"{node.op} {message}", where=scope.where(node), hint=hint)
