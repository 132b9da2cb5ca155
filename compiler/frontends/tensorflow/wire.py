"""Where a TensorFlow model keeps its weights: in the values of Const nodes, of the graph itself and of the functions it calls."""

from __future__ import annotations

from ...formats.wire import Field, Places, only, rewritten, text, without

_META_GRAPH, _GRAPH = 2, 2
"""SavedModel.meta_graphs, MetaGraphDef.graph_def"""
_NODE, _LIBRARY = 1, 2
"""GraphDef.node, GraphDef.library"""
_FUNCTION = 1
"""FunctionDefLibrary.function"""
_SIGNATURE, _NODE_DEF = 1, 3
"""FunctionDef.signature, FunctionDef.node_def"""
_NAME, _OP, _ATTR = 1, 2, 5
"""NodeDef.name, NodeDef.op, NodeDef.attr; OpDef.name, too, is 1"""
_KEY, _VALUE = 1, 2
"""An entry of a map"""
_TENSOR, _CONTENT = 8, 4
"""AttrValue.tensor, TensorProto.tensor_content"""


def key_of(function: str, node: str) -> str:
    """What the weight in a Const node is known by: the node, after the function in whose body it stands."""
    return f"{function}/{node}" if function else node


def graph_without_weights(data: memoryview) -> tuple[bytes, Places]:
    """A GraphDef without the bytes of its large constants, and where these are in `data`, by `key_of` their nodes.

    Raises MalformedError where `data` breaks off or is no protobuf message.
    """
    places: Places = {}
    return _graph(data, Field.whole(data), places), places


def saved_model_without_weights(data: memoryview) -> tuple[bytes, Places]:
    """As `graph_without_weights`, for a SavedModel."""
    places: Places = {}

    def meta_graph(field: Field) -> bytes:
        return rewritten(data, field, {_GRAPH: lambda graph: _graph(data, graph, places)})

    return rewritten(data, Field.whole(data), {_META_GRAPH: meta_graph}), places


def _graph(data: memoryview, field: Field, places: Places) -> bytes:
    def library(field: Field) -> bytes:
        return rewritten(data, field, {_FUNCTION: function})

    def function(field: Field) -> bytes:
        signature = only(data, field, _SIGNATURE)
        name = "" if signature is None else text(data, only(data, signature, _NAME))
        return rewritten(data, field, {_NODE_DEF: lambda node: _node(data, node, name, places)})

    return rewritten(data, field, {_NODE: lambda node: _node(data, node, "", places), _LIBRARY: library})


def _node(data: memoryview, field: Field, function: str, places: Places) -> bytes:
    name, op = (text(data, only(data, field, number)) for number in (_NAME, _OP))
    key = key_of(function, name)

    def attribute(field: Field) -> bytes:
        rules = {_VALUE: value} if text(data, only(data, field, _KEY)) == "value" else {}
        return rewritten(data, field, rules)

    def value(field: Field) -> bytes:
        return rewritten(data, field, {_TENSOR: tensor})

    def tensor(field: Field) -> bytes:
        content = only(data, field, _CONTENT)
        if content is None or key in places:
            return bytes(data[field.value : field.end])
        places[key] = content.value, content.end
        return without(data, field, content)

    return rewritten(data, field, {_ATTR: attribute} if op == "Const" else {})
