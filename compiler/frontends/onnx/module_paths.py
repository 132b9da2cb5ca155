"""The PyTorch modules that a node computes, from the exporter's metadata (`dynamo=True`) or names (TorchScript)."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import cast

from onnx import NodeProto

from ...ir.layer_names import module_path

_SCOPES = "pkg.torch.onnx.name_scopes"
"""Paths from the model (`''`) to the innermost module, then the name of the node in the traced graph, as a Python list."""
_UNKNOWN = "_empty_nn_module_stack"
"""The path of operators that torch adds for the sizes of inputs."""
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_NAMESPACE = "namespace"
"""The key of the path and class of each module, as `path: class` joined by slashes."""
_RULES = "pkg.onnxscript.rewriter.rule_name"
"""The rule with which the exporter's optimizer made the node. A node that replaces others has the metadata of the last of them.
"""
MODULE = "amct_opt.module"
"""The class of torch.nn whose only operator the node is, as the importer of PyTorch finds it."""
_FOLDS_NORM = "FuseBatchNormInto"
_CALL = re.compile(r"@\d+")
"""The number of a call of a module in a traced graph: `conv@1`."""
_COMPUTED = re.compile(r"onnx::Conv_\d+")
"""The name of a weight that TorchScript's exporter has computed, such as a folded batch norm: not a parameter's name."""


def module_paths(node: NodeProto) -> tuple[str, ...]:
    """The paths of the modules, in the order of the data; empty if the node's name contains them (`layer_names.module_path`).

    The last one is empty if the exporter has folded a batch norm whose name is lost. Metadata in another form than the
    exporter's is ignored.
    """
    metadata = _metadata(node)
    scopes = scopes_of(node)
    if not scopes:
        return _by_names(node)
    path = _CALL.sub("", scopes[-2]) if len(scopes) > 1 else ""
    folded = _parameter_owner(node) if _FOLDS_NORM in metadata.get(_RULES, "") else ""
    return tuple(dict.fromkeys(filter(None, (folded, path))))


def scopes_of(node: NodeProto) -> Sequence[str]:
    """The scopes in the metadata: paths from the model (`""`) to the innermost module, then the node of the traced graph.

    A path has the number of a further call of its module (`conv@1`). Empty without metadata of the exporter.
    """
    metadata = _metadata(node)
    scopes = _scopes(metadata.get(_SCOPES, "")) or _namespace(metadata.get(_NAMESPACE, ""))
    return ["" if scope.startswith(_UNKNOWN) else scope for scope in scopes]


def classes_of(node: NodeProto) -> Sequence[str]:
    """The classes of the modules among its scopes, then the operator of the traced graph."""
    return _scopes(_metadata(node).get(_CLASSES, ""))


def module_class(node: NodeProto) -> str:
    """The class of torch.nn that the node is a call of; empty for other nodes."""
    return _metadata(node).get(MODULE, "")


def _metadata(node: NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def _scopes(text: str) -> Sequence[str]:
    try:
        scopes: object = ast.literal_eval(text) if text else ()
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return [str(scope) for scope in cast("list[object]", scopes)] if isinstance(scopes, list) else ()


def _namespace(text: str) -> Sequence[str]:
    return [part.partition(": ")[0] for part in text.split("/")] if ": " in text else ()


def _by_names(node: NodeProto) -> tuple[str, ...]:
    """The module paths from names. A second call has a number in its path, which the names of its parameters lack."""
    path, owner = module_path(node.name), _parameter_owner(node)
    if not path:
        return ()
    if node.op_type == "Conv" and len(node.input) > 1 and _COMPUTED.fullmatch(node.input[1]):
        return path, ""
    return (owner,) if owner and re.fullmatch(rf"{re.escape(owner)}_\d+", path) else ()


def _parameter_owner(node: NodeProto) -> str:
    """The path of the module that the second input, a parameter, belongs to: `conv1` of `conv1.weight`."""
    return node.input[1].rpartition(".")[0] if len(node.input) > 1 else ""
