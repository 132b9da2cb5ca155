"""`--rules`: the rules of AMCT for TensorFlow as conditions of the patterns that are wider.

Source: "Fusion Support" of AMCT's manual for TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...dialects.nn import BiasAddOp, OriginAttr
from ...rewriting import Condition, layer_of, matched_operations
from ...session import Session

M = TypeVar("M")

_STRICT = "rules amct, tf1.15 and tf2.6"
_OTHERS = ("caffe", "onnx")
"""Frameworks whose AMCT has other fusions."""


def is_strict(session: Session) -> bool:
    """Whether fusions follow AMCT's rules."""
    return session.rules not in (None, "extended")


def of_tensorflow(op: Operation) -> bool:
    """Whether AMCT's rules for TensorFlow are about an operation: it has a source, which is not another framework."""
    origin = op.properties.get("origin")
    return isinstance(origin, OriginAttr) and origin.framework.data not in _OTHERS


def amct(check: Callable[[Any, M], str | None]) -> Condition[M]:
    """Decorator: a condition by AMCT's rules alone, on operations that come from TensorFlow."""

    def checked(pattern: Any, m: M) -> str | None:
        strict = is_strict(pattern.remarks.session) and any(map(of_tensorflow, matched_operations(m)))
        return check(pattern, m) if strict else None

    return Condition(checked, f"{_STRICT}: {cleandoc(check.__doc__ or '')}")


def warn_if_idle(module: ModuleOp, session: Session) -> None:
    """Warn of rules that are given for a module without operations that they are about."""
    if is_strict(session) and not any(map(of_tensorflow, module.walk())):
        session.warn(f"--rules {session.rules} changes nothing: no operation comes from TensorFlow")


def type_of(op: Operation) -> str:
    """TensorFlow's type of an operation; its own name without one."""
    origin = op.properties.get("origin")
    return origin.op_type.data if isinstance(origin, OriginAttr) else op.name


def unlisted(types: Sequence[str], *ops: Operation) -> str | None:
    """The reason against the first operation whose type is not one of these."""
    other = next((op for op in ops if type_of(op) not in types), None)
    return None if other is None else f"{layer_of(other)} is {type_of(other)}, AMCT fuses {listed(types)}"


def listed(types: Sequence[str]) -> str:
    """The types in words."""
    return " or ".join(filter(None, (", ".join(types[:-1]), types[-1])))


def apart(between: Sequence[Operation]) -> str | None:
    """The reason against operations between a layer and what is fused into it, other than a BiasAdd."""
    other = next((op for op in between if not isinstance(op, BiasAddOp)), None)
    return None if other is None else f"{layer_of(other)}, {type_of(other)}, is between"


SUMS = ("Add", "AddV2")
CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
BATCH_MATMULS = ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


def unlisted_norm(norm: Operation) -> str | None:
    """The reason against a batch norm of another type; one that was small operations has the type of the last one."""
    return None if type_of(norm) in SUMS else unlisted(_NORMS, norm)
