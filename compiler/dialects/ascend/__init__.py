"""The `ascend` dialect: operations named as Huawei's Ascend IR names them, with explicit integer semantics.

int8 operands of cube operations give an exact int32 result; `offset_x` is the zero point, padding contributes 0. Quantization
rounds in one order, written at each operation.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from ..nn.base import defined_in
from . import (
    arithmetic,
    base,
    caffe,
    convolution,
    elementwise,
    indexing,
    linear,
    logic,
    normalization,
    pooling,
    quantization,
    recurrent,
    shape,
    space,
    transposed,
    weights,
)
from .arithmetic import *  # noqa: F403
from .base import *  # noqa: F403
from .caffe import *  # noqa: F403
from .convolution import *  # noqa: F403
from .cube import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .expansions import *  # noqa: F403
from .indexing import *  # noqa: F403
from .linear import *  # noqa: F403
from .logic import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .quantization import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .shape import *  # noqa: F403
from .space import *  # noqa: F403
from .transposed import *  # noqa: F403
from .weights import *  # noqa: F403

_FAMILIES = (
    quantization,
    recurrent,
    weights,
    convolution,
    transposed,
    linear,
    pooling,
    elementwise,
    normalization,
    shape,
    space,
    indexing,
    arithmetic,
    logic,
    caffe,
)
OPERATIONS = tuple(kind for family in _FAMILIES for kind in defined_in(family, base.AscendOp))

ASCEND = Dialect("ascend", [*OPERATIONS], [])
