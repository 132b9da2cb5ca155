"""The operators of ONNX that are operations of `nn`: these rows read and write them.

What reads or writes in another way for other inputs or opsets has a converter in the frontend or the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f64

from ...dialects import nn
from ...dialects.nn.shapes import axis_of, element_of, shape_of
from ..rows import Flag, Int, Ints, Is, Row, Word, row

_KEEPDIMS = Flag("keepdims", default=True)


def _has_whole_parameters(op: nn.LayerNormOp) -> bool:
    """Whether scale and bias have the shape that is normalized, and the type of the computation, float32, is wide enough."""
    normalized = shape_of(op.input)[axis_of(op.axis.value.data, len(shape_of(op.input))) :]
    parameters = [shape_of(v) for v in (op.scale, op.bias) if v is not None]
    return all(p == normalized for p in parameters) and element_of(op.input) != f64


ROWS: Sequence[Row] = (
    row(nn.AbsOp, "Abs"),
    row(nn.AddOp, "Add"),
    row(nn.AndOp, "And"),
    *(
        row(kind, op_type, axis=Int("axis", 0), keepdims=_KEEPDIMS, last=Flag("select_last_index", False, since=12))
        for kind, op_type in ((nn.ArgMaxOp, "ArgMax"), (nn.ArgMinOp, "ArgMin"))
    ),
    row(nn.BatchNormOp, "BatchNormalization"),
    row(nn.CeilOp, "Ceil"),
    row(nn.CompareOp, "Equal", predicate=Is("eq")),
    row(nn.CompareOp, "Greater", predicate=Is("gt")),
    row(nn.CompareOp, "GreaterOrEqual", since=12, predicate=Is("ge")),
    row(nn.CompareOp, "Less", predicate=Is("lt")),
    row(nn.CompareOp, "LessOrEqual", since=12, predicate=Is("le")),
    row(nn.ConcatOp, "Concat", axis=Int("axis")),
    row(nn.CosOp, "Cos"),
    row(
        nn.DepthToSpaceOp,
        "DepthToSpace",
        block=Int("blocksize"),
        mode=Word("mode", "DCR", {"DCR": "dcr", "CRD": "crd"}),
    ),
    row(nn.DivOp, "Div"),
    row(nn.EluOp, "Elu"),
    row(nn.ErfOp, "Erf"),
    row(nn.ExpOp, "Exp"),
    row(nn.FlattenOp, "Flatten", axis=Int("axis", 1)),
    row(nn.FloorOp, "Floor"),
    row(nn.GatherOp, "Gather", axis=Int("axis", 0)),
    row(nn.GeluOp, "Gelu", since=20, tanh_approximation=Word("approximate", "none", {"none": False, "tanh": True})),
    row(nn.GlobalAveragePoolOp, "GlobalAveragePool"),
    row(nn.GlobalMaxPoolOp, "GlobalMaxPool"),
    row(nn.GroupNormOp, "GroupNormalization", since=21, num_groups=Int("num_groups")),
    row(nn.HardShrinkOp, "Shrink", only={"bias": 0.0}),
    row(nn.HardSigmoidOp, "HardSigmoid"),
    row(nn.HardSwishOp, "HardSwish", since=14),
    row(nn.InstanceNormOp, "InstanceNormalization"),
    row(nn.LRNOp, "LRN", size=Int("size")),
    row(nn.LayerNormOp, "LayerNormalization", since=17, fits=_has_whole_parameters, axis=Int("axis", -1)),
    row(nn.LeakyReluOp, "LeakyRelu"),
    row(nn.LogOp, "Log"),
    row(nn.LogSoftmaxOp, "LogSoftmax", axis=Int("axis", -1)),
    row(nn.MaxOp, "Max"),
    row(nn.MinOp, "Min"),
    row(nn.MishOp, "Mish", since=18),
    row(nn.MulOp, "Mul"),
    row(nn.NegOp, "Neg"),
    row(nn.NotOp, "Not"),
    row(nn.OrOp, "Or"),
    row(nn.PReluOp, "PRelu"),
    row(
        nn.PadOp,
        "Pad",
        pads=Ints("pads", input_since=11, required=True),
        mode=Word("mode", "constant", {mode.value: mode for mode in nn.PadMode}),
    ),
    row(nn.PowOp, "Pow"),
    row(nn.ReciprocalOp, "Reciprocal"),
    row(nn.ReduceMaxOp, "ReduceMax", axes=Ints("axes", input_since=18), keepdims=_KEEPDIMS),
    row(nn.ReduceMeanOp, "ReduceMean", axes=Ints("axes", input_since=18), keepdims=_KEEPDIMS),
    row(nn.ReduceMinOp, "ReduceMin", axes=Ints("axes", input_since=18), keepdims=_KEEPDIMS),
    row(nn.ReduceProdOp, "ReduceProd", axes=Ints("axes", input_since=18), keepdims=_KEEPDIMS),
    row(nn.ReduceSumOp, "ReduceSum", axes=Ints("axes", input_since=13), keepdims=_KEEPDIMS),
    row(nn.ReluOp, "Relu"),
    row(nn.RoundOp, "Round"),
    row(nn.SeluOp, "Selu"),
    row(nn.SigmoidOp, "Sigmoid"),
    row(nn.SinOp, "Sin"),
    row(
        nn.SliceOp,
        "Slice",
        starts=Ints("starts", input_since=10, required=True),
        ends=Ints("ends", input_since=10, required=True),
        axes=Ints("axes", input_since=10),
        steps=Ints("steps", input_since=10),
    ),
    row(nn.SoftmaxOp, "Softmax", axis=Int("axis", -1)),
    row(nn.SoftplusOp, "Softplus"),
    row(nn.SoftsignOp, "Softsign"),
    row(nn.SpaceToDepthOp, "SpaceToDepth", block=Int("blocksize")),
    row(nn.SplitOp, "Split", axis=Int("axis", 0), sizes=Ints("split", input_since=13)),
    row(nn.SqrtOp, "Sqrt"),
    row(nn.SqueezeOp, "Squeeze", axes=Ints("axes", input_since=13)),
    row(nn.SubOp, "Sub"),
    row(nn.TanhOp, "Tanh"),
    row(nn.TransposeOp, "Transpose", perm=Ints("perm")),
    row(nn.UnsqueezeOp, "Unsqueeze", axes=Ints("axes", input_since=13, required=True)),
    row(nn.WhereOp, "Where"),
)

READ: Sequence[Row] = (row(nn.MatMulOp, "MatMul"), row(nn.CompareOp, "Xor", predicate=Is("ne")))
"""The operators that are read as operations of `nn` which are written in another way."""
