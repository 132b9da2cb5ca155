"""The `nn` dialect: framework-neutral neural network operations on ranked tensors, with value semantics.

`func.func @main` is a graph; `?` is a size that is known only at run time. Every operation infers its result types from operands
and properties, and its verifier compares the declared types with them.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Dialect, Operation

from . import (
    arrays,
    attributes,
    constant,
    convolution,
    elementwise,
    expansions,
    fused,
    how,
    linear,
    normalization,
    opaque,
    plan,
    pooling,
    qparams,
    quantization,
    reduction,
    shape,
    space,
    window,
)
from .arrays import *  # noqa: F403
from .attributes import *  # noqa: F403
from .base import MovingOp, NNOp, ints, name_hint, operations_of, set_type
from .constant import *  # noqa: F403
from .convolution import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .expansions import *  # noqa: F403
from .fused import *  # noqa: F403
from .how import *  # noqa: F403
from .linear import *  # noqa: F403
from .normalization import *  # noqa: F403
from .opaque import *  # noqa: F403
from .plan import *  # noqa: F403
from .pooling import *  # noqa: F403
from .qparams import *  # noqa: F403
from .quantization import *  # noqa: F403
from .reduction import *  # noqa: F403
from .shape import *  # noqa: F403
from .space import *  # noqa: F403
from .window import *  # noqa: F403

_Op = TypeVar("_Op", bound=Operation)

_FAMILIES = (
    constant,
    convolution,
    linear,
    normalization,
    elementwise,
    pooling,
    shape,
    space,
    reduction,
    quantization,
    fused,
    opaque,
)
OPERATIONS = tuple(kind for family in _FAMILIES for kind in operations_of(family, Operation))

NN = Dialect("nn", [*OPERATIONS], [*attributes.NN_ATTRIBUTES, plan.PlanAttr])


def kinds(family: type[_Op]) -> tuple[type[_Op], ...]:
    """The operations of a family, for tables by class: `kinds(UnaryOp)`."""
    return tuple(op for op in OPERATIONS if issubclass(op, family))


__all__ = ["NN", "OPERATIONS", "MovingOp", "NNOp", "ints", "kinds", "name_hint", "set_type"]
__all__ += arrays.__all__
__all__ += attributes.__all__
__all__ += constant.__all__
__all__ += convolution.__all__
__all__ += elementwise.__all__
__all__ += expansions.__all__
__all__ += fused.__all__
__all__ += how.__all__
__all__ += linear.__all__
__all__ += normalization.__all__
__all__ += opaque.__all__
__all__ += plan.__all__
__all__ += pooling.__all__
__all__ += qparams.__all__
__all__ += quantization.__all__
__all__ += reduction.__all__
__all__ += shape.__all__
__all__ += space.__all__
__all__ += window.__all__
