"""Lowers Caffe's elementwise layers: Eltwise of two tensors, Scale and Bias by constants, BatchNorm that was not folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import FB
from ...dialects.nn.shapes import element_of, known, shape_of
from ...rewriting import Condition, Roots, condition, requires
from .constants import array_of, constant_behind, constant_numbers, numbers_behind
from .rules import Builder, Lowering, Source, Values

_MODES: Mapping[type[nn.BinaryOp], int] = {nn.MulOp: 0, nn.AddOp: 1, nn.MaxOp: 2}


class Eltwise(Lowering[nn.BinaryOp]):
    """Eltwise; a layer of more than two tensors becomes one operation for each tensor after the first"""

    roots: ClassVar[Roots] = tuple(_MODES)
    sources: ClassVar[tuple[Source, ...]] = (("caffe", "Eltwise"),)

    equal_shapes: Condition[Any] = requires(
        lambda op: shape_of(op.lhs) == shape_of(op.rhs),
        "the tensors have one shape",
        "Eltwise takes tensors of one shape",
    )

    def rewrite(self, build: Builder, op: nn.BinaryOp) -> Values:
        return [build.add(ascend.EltwiseOp, [op.lhs, op.rhs], N=2, mode=_MODES[type(op)]).y]


class ByParameter(Lowering[nn.BinaryOp]):
    """A layer by a constant that covers some axes in a row."""

    float_type: Condition[Any] = requires(
        lambda op: element_of(op.lhs) in FB,
        "the tensors are float16, float32 or bfloat16",
        lambda op: f"Caffe's layers are of floats, not {element_of(op.lhs)}",
    )

    @condition
    def covered_axes(self, op: nn.BinaryOp) -> str | None:
        """the parameter covers all axes between the first and the last one that it covers"""
        padded, x = _padded(op), shape_of(op.lhs)
        first, last = _covered(padded)
        pairs = zip(padded[first:last], x[first:last], strict=False)
        covers = not last or (len(padded) == len(x) and all(p == d or not known(d) for p, d in pairs))
        what = _WHAT[type(op)]
        return None if covers else f"its {what} repeats along an axis between others that it covers"

    def parameter(self, build: Builder, op: nn.BinaryOp) -> tuple[SSAValue, dict[str, Any]]:
        """The constant without the axes of size 1 that make it broadcast; the first axis that it covers, and how many."""
        padded = _padded(op)
        first, last = _covered(padded)
        array = np.ascontiguousarray(array_of(op.rhs)).reshape(padded[first:last])
        axes: dict[str, Any] = {"axis": first, "num_axes": last - first}
        return build.constant(array, f"{build.hint}_{_WHAT[type(op)]}"), axes


_WHAT: Mapping[type[nn.BinaryOp], str] = {nn.MulOp: "scale", nn.AddOp: "bias"}


def _padded(op: nn.BinaryOp) -> tuple[int, ...]:
    """The shape of the constant, with axes of size 1 in front; without any if it is one number."""
    shape = shape_of(op.rhs)
    return (1,) * (len(shape_of(op.lhs)) - len(shape)) + shape


def _covered(padded: tuple[int, ...]) -> tuple[int, int]:
    """The first axis of more than one element, and the one after the last; 0 and 0 for one number."""
    wide = [axis for axis, size in enumerate(padded) if size != 1]
    return (wide[0], wide[-1] + 1) if wide else (0, 0)


def _constant(what: str) -> Condition[nn.BinaryOp]:
    reason = f"its {what} is computed at run time"
    return Condition(lambda _, op: reason if constant_behind(op.rhs) is None else None, f"the {what} is constant")


class Scale(ByParameter):
    """Scale"""

    roots: ClassVar[Roots] = (nn.MulOp,)
    sources: ClassVar[tuple[Source, ...]] = (("caffe", "Scale"),)
    constant_scale: Condition[Any] = _constant("scale")

    def rewrite(self, build: Builder, op: nn.BinaryOp) -> Values:
        parameter, axes = self.parameter(build, op)
        return [build.add(ascend.ScaleOp, op.lhs, parameter, **axes).y]


class Bias(ByParameter):
    """Bias"""

    roots: ClassVar[Roots] = (nn.AddOp,)
    sources: ClassVar[tuple[Source, ...]] = (("caffe", "Scale"), ("caffe", "Bias"))
    constant_bias: Condition[Any] = _constant("bias")

    def rewrite(self, build: Builder, op: nn.BinaryOp) -> Values:
        parameter, axes = self.parameter(build, op)
        return [build.add(ascend.BiasOp, op.lhs, parameter, **axes).y]


class BNInference(Lowering[nn.BatchNormOp]):
    """BNInference; mean and variance are already divided"""

    sources: ClassVar[tuple[Source, ...]] = (("caffe", "BatchNorm"),)

    channels_second: Condition[Any] = requires(
        lambda op: not op.channels_last, "the channels are axis 1", "BNInference normalizes axis 1"
    )
    constant_scale: Condition[Any] = constant_numbers("scale")

    @condition
    def no_scale(self, op: nn.BatchNormOp) -> str | None:
        """the scale is 1 and the offset, if it is constant, 0"""
        scale, offset = array_of(op.scale), numbers_behind(op.offset)
        plain = bool((scale == 1).all()) and (offset is None or bool((offset == 0).all()))
        return None if plain else "BNInference neither scales nor adds, and something was folded into the layer"

    constant_offset: Condition[Any] = constant_numbers("offset")

    def rewrite(self, build: Builder, op: nn.BatchNormOp) -> Values:
        momentum = build.constant(np.ones(1, np.float32), f"{build.hint}_momentum")
        return [build.add(ascend.BNInferenceOp, op.input, op.mean, op.variance, momentum, epsilon=op.epsilon).y]


PATTERNS = (Eltwise, Scale, Bias, BNInference)
