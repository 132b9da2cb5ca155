"""The operators that are written: inputs, outputs, and the element types that TensorFlow supports on a CPU; and those that are
operations of `nn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import IntegerType

from ...dialects import nn
from ...dialects.nn.shapes import element_of, shape_of
from ..rows import Flag, Int, Ints, Is, Layout, Number, Row, row

_REALS = frozenset({"float16", "bfloat16", "float32", "float64"})
_SIGNED = frozenset({"int8", "int16", "int32", "int64"})
_UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
_NUMBERS = _REALS | _SIGNED | _UNSIGNED
_ANY = _NUMBERS | {"bool"}
_NARROW = frozenset({"bfloat16", "float32"})
_IMAGES = _NUMBERS - {"uint32", "uint64"}


@dataclass(frozen=True)
class Operator:
    """`inputs -> outputs`, each a type attribute (`T`) or an element type; `T*` is any number of inputs, counted in `N`."""

    signature: str
    types: frozenset[str]
    """The element types of the first attribute."""

    @cached_property
    def inputs(self) -> Sequence[str]:
        return self.signature.partition("->")[0].split()

    @cached_property
    def output(self) -> str:
        return self.signature.partition("->")[2].strip()

    def bound(self, elements: Sequence[str]) -> dict[str, str]:
        """The element type of each type attribute, for inputs of these. Raises TypeError, with the reason, if they do not fit."""
        wanted = [self.inputs[0].rstrip("*")] * len(elements) if "*" in self.inputs[0] else list(self.inputs)
        if self.inputs and "*" in self.inputs[0]:
            wanted[len(elements) - len(self.inputs) + 1 :] = self.inputs[1:]
        bound: dict[str, str] = {}
        for attribute, element in zip(wanted, elements, strict=True):
            if bound.setdefault(attribute, element if _is_attribute(attribute) else attribute) != element:
                raise TypeError(f"takes {bound[attribute]}, not {element}")
        if wanted and _is_attribute(wanted[0]) and bound[wanted[0]] not in self.types:
            raise TypeError(f"does not compute {bound[wanted[0]]}")
        return {name: element for name, element in bound.items() if _is_attribute(name)}

    @property
    def counted(self) -> bool:
        return "*" in self.signature


def _is_attribute(name: str) -> bool:
    return name[0].isupper() or name == "out_type"


def _operators(signature: str, types: Iterable[str], names: str) -> dict[str, Operator]:
    return {name: Operator(signature, frozenset(types)) for name in names.split()}


OPERATORS: Mapping[str, Operator] = {
    **_operators("T -> T", _ANY, "DepthToSpace Identity OnesLike SpaceToDepth Squeeze"),
    **_operators("T -> T", _NUMBERS, "Relu Relu6 Square"),
    **_operators("T -> T", _REALS | _SIGNED, "Abs Neg"),
    **_operators("T -> T", _REALS | {"int32", "int64"}, "Round"),
    **_operators(
        "T -> T",
        _REALS,
        "AvgPool Ceil Cos Elu Erf Exp Expm1 Floor LeakyRelu Log LogSoftmax Reciprocal Rsqrt Selu Sigmoid Sin Softmax Softplus "
        "Softsign Sqrt Tanh",
    ),
    **_operators("T -> T", _IMAGES, "MaxPool"),
    **_operators("T -> T", _NARROW, "AvgPool3D MaxPool3D"),
    **_operators("T -> T", {"float16", "float32"}, "LRN"),
    **_operators("bool -> bool", (), "LogicalNot"),
    **_operators("bool bool -> bool", (), "LogicalAnd LogicalOr"),
    **_operators("bool T T -> T", _ANY, "SelectV2"),
    **_operators("T T -> T", _NUMBERS, "AddV2 FloorDiv Maximum Minimum Mul Sub TruncateDiv BiasAdd"),
    **_operators("T T -> T", _REALS, "Conv3D DepthwiseConv2dNative RealDiv"),
    **_operators("T T -> T", _REALS | _SIGNED, "Pow"),
    **_operators("T T -> T", _REALS | {"int32"}, "Conv2D"),
    **_operators("T T -> T", _REALS | {"int32", "int64"}, "MatMul"),
    **_operators("T T -> T", _REALS | {"int16", "int32", "int64"}, "BatchMatMulV2"),
    **_operators("T T -> T", {"int32", "int64"}, "BroadcastArgs"),
    **_operators("T T -> bool", _ANY, "Equal NotEqual"),
    **_operators("T T -> bool", _NUMBERS, "Greater GreaterEqual Less LessEqual"),
    **_operators("T U U U U -> T", _REALS - {"float64"}, "FusedBatchNormV3"),
    **_operators("int32 T T -> T", _REALS | {"int32"}, "Conv2DBackpropInput"),
    **_operators("int32 T T -> T", _REALS, "DepthwiseConv2dNativeBackpropInput"),
    **_operators("Tshape T T -> T", {"int32"}, "Conv3DBackpropInputV2"),
    **_operators("T* -> T", _NUMBERS, "AddN"),
    **_operators("T* Tidx -> T", _ANY, "ConcatV2"),
    **_operators("T Tidx -> T", _NUMBERS, "Max Mean Min Prod Sum"),
    **_operators("T Tidx -> T", _ANY, "BroadcastTo"),
    **_operators("T Tidx -> output_type", _ANY, "ArgMax ArgMin"),
    **_operators("T Tdim -> T", _ANY, "ExpandDims"),
    **_operators("T Tpaddings -> T", _ANY, "MirrorPad"),
    **_operators("T Tpaddings T -> T", _ANY, "PadV2"),
    **_operators("T Tperm -> T", _ANY, "Transpose"),
    **_operators("T Tshape -> T", _ANY, "Reshape"),
    **_operators("T Tlen int32 -> T", _ANY, "SplitV"),
    **_operators("T Index Index Index -> T", _ANY, "StridedSlice"),
    **_operators("T Tblock_shape Tpaddings -> T", _NUMBERS, "SpaceToBatchND"),
    **_operators("T Tblock_shape Tcrops -> T", _NUMBERS, "BatchToSpaceND"),
    **_operators("Tparams Tindices Taxis -> Tparams", _ANY, "GatherV2"),
    **_operators("T -> out_type", _ANY, "Shape"),
    **_operators("SrcT -> DstT", _ANY, "Cast"),
    **_operators("T int32 -> float32", _IMAGES, "ResizeBilinear"),
    **_operators("T int32 -> T", _IMAGES, "ResizeNearestNeighbor"),
    **_operators("float32 float32 float32 -> float32", (), "FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel"),
}
"""Operators as registered in tensorflow/core/ops, with the types of tensorflow/core/kernels."""


def _has_channels_last(op: nn.BiasAddOp) -> bool:
    rank = len(shape_of(op.input))
    return op.channel_axis(rank) == rank - 1


def _is_whole(op: nn.DivOp) -> bool:
    return isinstance(element_of(op.lhs), IntegerType)


_AXES, _KEEPDIMS = Ints("axes", input_since=0), Flag("keep_dims", default=False)

ROWS: Sequence[Row] = (
    row(nn.AbsOp, "Abs"),
    row(nn.AddOp, "AddV2"),
    row(nn.AndOp, "LogicalAnd"),
    row(nn.BiasAddOp, "BiasAdd", fits=_has_channels_last, layout=Layout()),
    row(nn.CeilOp, "Ceil"),
    row(nn.CompareOp, "Equal", predicate=Is("eq")),
    row(nn.CompareOp, "Greater", predicate=Is("gt")),
    row(nn.CompareOp, "GreaterEqual", predicate=Is("ge")),
    row(nn.CompareOp, "Less", predicate=Is("lt")),
    row(nn.CompareOp, "LessEqual", predicate=Is("le")),
    row(nn.CompareOp, "NotEqual", predicate=Is("ne")),
    row(nn.CosOp, "Cos"),
    row(nn.DepthToSpaceOp, "DepthToSpace", block=Int("block_size", 2), layout=Layout()),
    row(nn.DivOp, "TruncateDiv", fits=_is_whole),
    row(nn.DivOp, "RealDiv"),
    row(nn.EluOp, "Elu", alpha=Is(1.0)),
    row(nn.ErfOp, "Erf"),
    row(nn.ExpOp, "Exp"),
    row(nn.FloorOp, "Floor"),
    row(nn.LeakyReluOp, "LeakyRelu", alpha=Number("alpha", 0.2)),
    row(nn.LogOp, "Log"),
    row(nn.LogSoftmaxOp, "LogSoftmax", axis=Is(-1)),
    row(nn.MaxOp, "Maximum"),
    row(nn.MinOp, "Minimum"),
    row(nn.MulOp, "Mul"),
    row(nn.NegOp, "Neg"),
    row(nn.NotOp, "LogicalNot"),
    row(nn.OrOp, "LogicalOr"),
    row(nn.PowOp, "Pow"),
    row(nn.ReciprocalOp, "Reciprocal"),
    row(nn.ReduceMaxOp, "Max", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.ReduceMeanOp, "Mean", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.ReduceMinOp, "Min", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.ReduceProdOp, "Prod", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.ReduceSumOp, "Sum", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.Relu6Op, "Relu6"),
    row(nn.ReluOp, "Relu"),
    row(nn.RoundOp, "Round"),
    row(nn.RsqrtOp, "Rsqrt"),
    row(nn.SeluOp, "Selu", alpha=Is(1.67326319217681884765625), gamma=Is(1.05070102214813232421875)),
    row(nn.SigmoidOp, "Sigmoid"),
    row(nn.SinOp, "Sin"),
    row(nn.SoftmaxOp, "Softmax", axis=Is(-1)),
    row(nn.SoftplusOp, "Softplus"),
    row(nn.SoftsignOp, "Softsign"),
    row(nn.SpaceToDepthOp, "SpaceToDepth", block=Int("block_size", 2), layout=Layout()),
    row(nn.SqrtOp, "Sqrt"),
    row(nn.SubOp, "Sub"),
    row(nn.TanhOp, "Tanh"),
    row(nn.TransposeOp, "Transpose", perm=Ints("perm", input_since=0)),
    row(nn.WhereOp, "SelectV2"),
)
"""The operators that are operations of `nn`, read and written.

What reads or writes in another way for other attributes or types has a converter in the frontend or the target.
"""

READ: Sequence[Row] = (
    row(nn.AddOp, "Add"),
    row(nn.BiasAddOp, "BiasAddV1", layout=Layout()),
    row(nn.DivOp, "Div"),
    row(nn.ReciprocalOp, "Inv"),
    row(nn.ReduceMaxOp, "Any", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.ReduceMinOp, "All", axes=_AXES, keepdims=_KEEPDIMS),
    row(nn.RoundOp, "Rint"),
)
"""Older names, and operators that are read as operations which are written in another way."""
