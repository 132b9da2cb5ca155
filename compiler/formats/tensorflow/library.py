"""TensorFlow itself, for the few tasks that need it: Keras models, shape inference of a node, and running a node."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from ...dialects.nn import RANDOM
from ...dialects.nn.shapes import DYNAMIC, Shape
from ...ir.dtypes import Tensor, numpy_dtype
from ...support.diagnostics import CompileError, first_line
from .schema import GraphDef, Message
from .tensors import Array, code_of, shape_proto, tensor_proto

_NODE = "node"
_INPUT = "input{}"

_REFUSED = frozenset(
    {"Copy", "CopyHost", "CustomAggregator", "DebugIdentity", "DebugNanCount", "DebugNumericSummary", "ImmutableConst"}
    | {"PyFuncStateless"}
)
"""Operators declared stateless that read or write files, or call into the process."""


def tensorflow(what: str, where: str) -> Any:
    """The package, imported quietly and without GPUs unless the program has already imported it.

    Raises CompileError, located at `where`, that `what` requires it, if it is not installed.
    """
    first = "tensorflow" not in sys.modules
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with _silence() if first else nullcontext():
            import tensorflow  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        hint = "pip install 'amct-opt[tensorflow]'"
        raise CompileError(f"{what} requires TensorFlow", where=where, hint=hint) from None
    library: Any = tensorflow
    if first:
        library.config.set_visible_devices([], "GPU")
    return library


@contextmanager
def _silence() -> Generator[None]:
    """Silences stderr at the file descriptor: TensorFlow writes there before it reads its log level."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def inferred(
    op_type: str, attributes: Mapping[str, Message], inputs: Sequence[Array | Tensor], where: str
) -> list[tuple[int, Shape | None]]:
    """The element types (by TensorFlow's number) and the shapes of an operator's results; None for unknown rank.

    `inputs` are arrays where they are known, else types. Raises CompileError, located at `where`, when TensorFlow is not
    installed, for operators that it does not have, that have a state or no result, and for what does not fit together.
    """
    tf = tensorflow(f"{op_type}, which nn has no equivalent of,", where)
    with tf.Graph().as_default() as graph:
        try:
            tf.graph_util.import_graph_def(_loaded(tf, _single(op_type, attributes, inputs)), name="")
        except Exception as e:  # the shape function of the operator may raise anything
            raise CompileError(f"{op_type} is not valid: {first_line(e)}", where=where) from None
        node = graph.get_operation_by_name(_NODE)
        try:
            results = [(o.dtype.as_datatype_enum, _sizes(o.shape)) for o in node.outputs]
        except ValueError as e:  # a negative size, which shape functions let pass
            raise CompileError(f"{op_type} is not valid: {first_line(e)}", where=where) from None
    if (reason := _objection(op_type, node.op_def)) is not None:
        raise CompileError(f"{op_type} cannot be carried: {reason}", where=where)
    return results


def runner(
    op_type: str, attributes: Mapping[str, Message], inputs: Sequence[Tensor], where: str
) -> Callable[..., list[Array]]:
    """A function that runs an operator on arrays of these types. Raises CompileError like `inferred`; it raises ValueError."""
    count = len(inferred(op_type, attributes, inputs, where))
    tf = tensorflow(f"{op_type}, which nn has no equivalent of,", where)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(_loaded(tf, _single(op_type, attributes, inputs)), name="")
    session = tf.compat.v1.Session(graph=graph)  # runs whatever graph the program itself is building
    fed, results = [f"{_INPUT.format(i)}:0" for i in range(len(inputs))], [f"{_NODE}:{i}" for i in range(count)]

    def run(*arrays: Array) -> list[Array]:
        try:
            return [np.asarray(y) for y in session.run(results, dict(zip(fed, arrays, strict=True)))]
        except tf.errors.OpError as e:
            raise ValueError(f"TensorFlow failed on '{op_type}': {_reason(e.message)}") from None

    return run


def _reason(message: str) -> str:
    """The part of an error before the name of the node."""
    return first_line(message.partition(" [[{{node")[0].rstrip().rpartition("\n")[2] or message)


def _objection(op_type: str, definition: Any) -> str | None:
    """The reason why an operator must not run: it may have effects besides its results."""
    if not definition.output_arg:
        return "it has no result"
    if op_type in _REFUSED or (definition.is_stateful and op_type not in RANDOM["tensorflow"]):
        return "it has a state or side effects"
    return None


def _loaded(tf: Any, graph: Message) -> Any:
    """The graph as a message of TensorFlow's own classes."""
    loaded = tf.compat.v1.GraphDef.FromString(graph.SerializeToString())
    loaded.versions.producer = tf.version.GRAPH_DEF_VERSION
    return loaded


def _single(op_type: str, attributes: Mapping[str, Message], inputs: Sequence[Array | Tensor]) -> Message:
    """A GraphDef of only the node. A known input is a constant in it; an input with only a known type is a placeholder."""
    graph = GraphDef()
    for i, given in enumerate(inputs):
        node = graph.node.add(name=_INPUT.format(i))
        if isinstance(given, TensorType):
            node.op = "Placeholder"
            node.attr["dtype"].type = code_of(numpy_dtype(given.element_type))
            node.attr["shape"].shape.CopyFrom(shape_proto(given.get_shape()))
        else:
            node.op = "Const"
            node.attr["dtype"].type = code_of(given.dtype)
            node.attr["value"].tensor.CopyFrom(tensor_proto(given))
    node = graph.node.add(name=_NODE, op=op_type, input=[_INPUT.format(i) for i in range(len(inputs))])
    for name, value in attributes.items():
        node.attr[name].MergeFromString(value.SerializeToString())
    return graph


def _sizes(shape: Any) -> Shape | None:
    """The sizes in one of TensorFlow's shapes."""
    return None if shape.rank is None else tuple(DYNAMIC if d is None else d for d in shape.as_list())
