"""The dialect: two operations that `nn` has no word for. As operations of `NNOp` they have its text form and type inference."""

import numpy as np
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, prop_def

from amct_opt import kernel
from amct_opt.dialects.nn.base import REAL
from amct_opt.dialects.nn.elementwise import UnaryOp


@irdl_op_definition
class GainOp(UnaryOp):
    """`x * factor`. Any float shape."""

    name = "toy.gain"

    factor = prop_def(REAL)


@irdl_op_definition
class SquashOp(UnaryOp):
    """`x / (1 + |x|)`. Any float shape."""

    name = "toy.squash"


TOY = Dialect("toy", [GainOp, SquashOp], [])


@kernel(GainOp)
def gain(op: GainOp):
    """How the interpreter computes it: made once per operation, then called with arrays."""
    factor = np.float32(op.factor.value.data)
    return lambda x: x * factor


@kernel(SquashOp)
def squash(op: SquashOp):
    return lambda x: x / (1 + np.abs(x))
