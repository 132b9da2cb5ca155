"""Functions of single elements that are not activations: logarithm, sine and cosine, rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import REAL, Real, real
from .base import Counterpart
from .elementwise import UnaryOp


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm: base -1 stands for e, scale must be 1 and shift 0."""

    name = "ascend.Log"

    MEANS: ClassVar[Counterpart] = nn.LogOp

    base: Real = prop_def(REAL, default_value=real(-1.0))
    scale: Real = prop_def(REAL, default_value=real(1.0))
    shift: Real = prop_def(REAL, default_value=real(0.0))

    def derive(self) -> Sequence[Tensor]:
        if (self.base.value.data, self.scale.value.data, self.shift.value.data) != (-1, 1, 0):
            raise VerifyException("base, scale and shift must be -1, 1 and 0")
        return super().derive()


@irdl_op_definition
class SinOp(UnaryOp):
    """Sine of radians."""

    name = "ascend.Sin"

    MEANS: ClassVar[Counterpart] = nn.SinOp


@irdl_op_definition
class CosOp(UnaryOp):
    """Cosine of radians."""

    name = "ascend.Cos"

    MEANS: ClassVar[Counterpart] = nn.CosOp


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest integer not above x."""

    name = "ascend.Floor"

    MEANS: ClassVar[Counterpart] = nn.FloorOp


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest integer not below x."""

    name = "ascend.Ceil"

    MEANS: ClassVar[Counterpart] = nn.CeilOp


@irdl_op_definition
class RintOp(UnaryOp):
    """The nearest integer, halves to even."""

    name = "ascend.Rint"

    MEANS: ClassVar[Counterpart] = nn.RoundOp


@irdl_op_definition
class SoftsignOp(UnaryOp):
    """`x / (1 + |x|)`."""

    name = "ascend.Softsign"

    MEANS: ClassVar[Counterpart] = nn.SoftsignOp


__all__ = ["CeilOp", "CosOp", "FloorOp", "LogOp", "RintOp", "SinOp", "SoftsignOp"]
