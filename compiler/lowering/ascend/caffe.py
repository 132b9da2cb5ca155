"""Caffe's elementwise layers: Eltwise of two tensors, Scale and Bias by constants, BatchNorm that was not folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import FB
from ...dialects.nn.shapes import Shape, element_of, known, shape_of
from ..refusal import require
from .rules import Builder, array_of, lowers

ELTWISE, SCALE, BIAS = (("caffe", "Eltwise"),), (("caffe", "Scale"),), (("caffe", "Bias"),)
BATCH_NORM = (("caffe", "BatchNorm"),)

_MODES: Mapping[type[nn.BinaryOp], int] = {nn.MulOp: 0, nn.AddOp: 1, nn.MaxOp: 2}


@lowers(*_MODES, sources=ELTWISE)
def eltwise(build: Builder, op: nn.BinaryOp) -> Sequence[SSAValue]:
    """Eltwise; a layer of more than two tensors becomes one operation for each tensor after the first."""
    alike = shape_of(op.lhs) == shape_of(op.rhs)
    require(alike, "equal-shapes", "Eltwise takes tensors of one shape")
    return [build.add(ascend.EltwiseOp, [op.lhs, op.rhs], N=2, mode=_MODES[type(op)]).y]


@lowers(nn.MulOp, sources=SCALE)
def scale(build: Builder, op: nn.MulOp) -> Sequence[SSAValue]:
    parameter, axis, count = _parameter(build, op, "scale")
    return [build.add(ascend.ScaleOp, op.lhs, parameter, axis=axis, num_axes=count).y]


@lowers(nn.AddOp, sources=(*SCALE, *BIAS))
def bias(build: Builder, op: nn.AddOp) -> Sequence[SSAValue]:
    parameter, axis, count = _parameter(build, op, "bias")
    return [build.add(ascend.BiasOp, op.lhs, parameter, axis=axis, num_axes=count).y]


def _parameter(build: Builder, op: nn.BinaryOp, what: str) -> tuple[SSAValue, int, int]:
    """A constant without the axes of size 1 that make it broadcast; the first axis that it covers, and how many."""
    array, x = array_of(op.rhs, what), shape_of(op.lhs)
    require(element_of(op.lhs) in FB, "float-type", f"Caffe's layers are of floats, not {element_of(op.lhs)}")
    if array.size == 1:
        return build.constant(array.reshape(()), f"{build.hint}_{what}"), 0, 0
    padded = (1,) * (len(x) - array.ndim) + array.shape
    first = next(i for i, d in enumerate(padded) if d != 1)
    last = len(padded) - next(i for i, d in enumerate(reversed(padded)) if d != 1)
    covers = len(padded) == len(x) and _equal(padded[first:last], x[first:last])
    require(covers, "covered-axes", f"its {what} repeats along an axis between others that it covers")
    parameter = build.constant(np.ascontiguousarray(array.reshape(padded[first:last])), f"{build.hint}_{what}")
    return parameter, first, last - first


def _equal(parameter: Shape, covered: Shape) -> bool:
    return all(p == d or not known(d) for p, d in zip(parameter, covered, strict=True))


@lowers(nn.BatchNormOp, sources=BATCH_NORM)
def batch_norm(build: Builder, op: nn.BatchNormOp) -> Sequence[SSAValue]:
    """BNInference; mean and variance are already divided."""
    require(not op.channels_last, "channels-second", "BNInference normalizes axis 1")
    plain = bool((array_of(op.scale, "scale") == 1).all() and (array_of(op.offset, "offset") == 0).all())
    require(plain, "no-scale", "BNInference neither scales nor adds, and something was folded into the layer")
    momentum = build.constant(np.ones(1, np.float32), f"{build.hint}_momentum")
    return [build.add(ascend.BNInferenceOp, op.input, op.mean, op.variance, momentum, epsilon=op.epsilon).y]
