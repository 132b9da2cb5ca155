"""The `nn` dialect: framework-neutral neural network operations on ranked tensors, with value semantics.

`func.func @main` is a graph; `?` is a size that is known only at run time. Every operation infers its result types from operands
and properties, and its verifier compares the declared types with them.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Attribute, Dialect, Operation

from . import (
    arrays,
    attributes,
    constant,
    convolution,
    elementwise,
    fused,
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
)
from .arrays import *  # noqa: F403
from .attributes import *  # noqa: F403
from .base import (
    MovingOp as MovingOp,
    NNOp as NNOp,
    defined_in,
    ints as ints,
    name_hint as name_hint,
    set_type as set_type,
)
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
OPERATIONS = tuple(kind for family in _FAMILIES for kind in defined_in(family, Operation))

NN_ATTRIBUTES = tuple(kind for family in (attributes, arrays, qparams) for kind in defined_in(family, Attribute))

NN = Dialect("nn", [*OPERATIONS], [*NN_ATTRIBUTES, plan.PlanAttr])


def kinds(family: type[_Op]) -> tuple[type[_Op], ...]:
    """The operations of a family, for tables by class: `kinds(UnaryOp)`."""
    return tuple(op for op in OPERATIONS if issubclass(op, family))
