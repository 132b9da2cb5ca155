"""The `nn` dialect: framework-neutral neural network operations on ranked tensors, with value semantics.

`func.func @main` is a graph; `?` is a size that is known only at run time. Every operation infers its result types from operands
and properties, and its verifier compares the declared types with them.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Dialect, Operation

from . import (
    constant,
    convolution,
    elementwise,
    fused,
    linear,
    normalization,
    opaque,
    pooling,
    quantization,
    reduction,
    shape,
    space,
)
from .arrays import External, ExternalAttr
from .attributes import (
    NN_ATTRIBUTES,
    AutoPad,
    AutoPadAttr,
    Coordinates,
    CoordinatesAttr,
    DepthMode,
    DepthModeAttr,
    GraphAttr,
    Layout,
    LayoutAttr,
    Nearest,
    NearestAttr,
    OriginAttr,
    PadMode,
    PadModeAttr,
    ParamsSource,
    ParamsSourceAttr,
    Predicate,
    PredicateAttr,
    RangeAttr,
    RealsAttr,
    ResizeMode,
    ResizeModeAttr,
    ShapeAttr,
)
from .base import MovingOp, NNOp, ints, name_hint, operations_of, set_type
from .constant import ConstantOp, array_of, constant_ints, constant_of
from .convolution import ConvolutionOp, ConvOp, ConvTransposeOp
from .elementwise import *  # noqa: F403
from .expansions import Expansion, expandable, expanded
from .fused import FusedOp, YieldOp, is_layer
from .linear import BiasAddOp, MatMulOp
from .normalization import BatchNormOp, GroupNormOp, InstanceNormOp, LayerNormOp, LogSoftmaxOp, LRNOp, SoftmaxOp
from .opaque import QUANTIZING, RANDOM, OpaqueOp
from .plan import Plan, PlanAttr, Point, Spec, Unobserved, WeightPlan, plan_of, set_plan, weights_of
from .pooling import AveragePoolOp, GlobalAveragePoolOp, GlobalMaxPoolOp, GlobalPoolOp, MaxPoolOp, PoolOp
from .qparams import QParams, QParamsAttr, blocks_of, spread
from .quantization import DequantizeOp, ObserveOp, PointOp, QuantizeOp, ShiftAccumulatorOp, before_points, dequantize_of
from .reduction import (
    ArgMaxOp,
    ArgMinOp,
    ArgOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
)
from .shape import (
    ConcatOp,
    ExpandOp,
    FlattenOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ReshapingOp,
    ResizeOp,
    ShapeOp,
    SliceOp,
    SplitOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from .space import BatchToSpaceOp, DepthToSpaceOp, SpaceToBatchOp, SpaceToDepthOp
from .window import LayoutOp, WindowOp

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

NN = Dialect("nn", [*OPERATIONS], [*NN_ATTRIBUTES, PlanAttr])


def kinds(family: type[_Op]) -> tuple[type[_Op], ...]:
    """The operations of a family, for tables by class: `kinds(UnaryOp)`."""
    return tuple(op for op in OPERATIONS if issubclass(op, family))


__all__ = [
    "NN",
    "NN_ATTRIBUTES",
    "OPERATIONS",
    "QUANTIZING",
    "RANDOM",
    "ArgMaxOp",
    "ArgMinOp",
    "ArgOp",
    "AutoPad",
    "AutoPadAttr",
    "AveragePoolOp",
    "BatchNormOp",
    "BatchToSpaceOp",
    "BiasAddOp",
    "ConcatOp",
    "ConstantOp",
    "ConvOp",
    "ConvTransposeOp",
    "ConvolutionOp",
    "Coordinates",
    "CoordinatesAttr",
    "DepthMode",
    "DepthModeAttr",
    "DepthToSpaceOp",
    "DequantizeOp",
    "ExpandOp",
    "Expansion",
    "External",
    "ExternalAttr",
    "FlattenOp",
    "FusedOp",
    "GatherOp",
    "GlobalAveragePoolOp",
    "GlobalMaxPoolOp",
    "GlobalPoolOp",
    "GraphAttr",
    "GroupNormOp",
    "InstanceNormOp",
    "LRNOp",
    "LayerNormOp",
    "Layout",
    "LayoutAttr",
    "LayoutOp",
    "LogSoftmaxOp",
    "MatMulOp",
    "MaxPoolOp",
    "MovingOp",
    "NNOp",
    "Nearest",
    "NearestAttr",
    "ObserveOp",
    "OpaqueOp",
    "OriginAttr",
    "PadMode",
    "PadModeAttr",
    "PadOp",
    "ParamsSource",
    "ParamsSourceAttr",
    "Plan",
    "PlanAttr",
    "Point",
    "PointOp",
    "PoolOp",
    "Predicate",
    "PredicateAttr",
    "QParams",
    "QParamsAttr",
    "QuantizeOp",
    "RangeAttr",
    "RealsAttr",
    "ReduceMaxOp",
    "ReduceMeanOp",
    "ReduceMinOp",
    "ReduceOp",
    "ReduceProdOp",
    "ReduceSumOp",
    "ReshapeOp",
    "ReshapingOp",
    "ResizeMode",
    "ResizeModeAttr",
    "ResizeOp",
    "ShapeAttr",
    "ShapeOp",
    "ShiftAccumulatorOp",
    "SliceOp",
    "SoftmaxOp",
    "SpaceToBatchOp",
    "SpaceToDepthOp",
    "Spec",
    "SplitOp",
    "SqueezeOp",
    "TransposeOp",
    "Unobserved",
    "UnsqueezeOp",
    "WeightPlan",
    "WindowOp",
    "YieldOp",
    "array_of",
    "before_points",
    "blocks_of",
    "constant_ints",
    "constant_of",
    "dequantize_of",
    "expandable",
    "expanded",
    "ints",
    "is_layer",
    "kinds",
    "name_hint",
    "plan_of",
    "set_plan",
    "set_type",
    "spread",
    "weights_of",
]
__all__ += elementwise.__all__
