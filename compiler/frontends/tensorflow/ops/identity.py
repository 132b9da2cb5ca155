"""Operators that pass their input on."""

from __future__ import annotations

from ..node import Binding, Converted, Node, converter


@converter(
    "CheckNumerics",
    "DebugGradientIdentity",
    "DebugGradientRefIdentity",
    "EnsureShape",
    "GuaranteeConst",
    "Identity",
    "PreventGradient",
    "Print",
    "ReadVariableOp",
    "RefIdentity",
    "Snapshot",
    "StopGradient",
)
def identity(node: Node) -> Converted:
    """The first input; checks and messages only matter to users of the source model."""
    return node.binding(0)


@converter("IdentityN")
def identities(node: Node) -> list[Binding]:
    return [node.binding(i) for i in range(len(node.inputs))]
