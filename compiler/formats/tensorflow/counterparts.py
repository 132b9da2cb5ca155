"""The operators of TensorFlow that equal operations of `nn`: the same operands, no attributes except the type."""

from __future__ import annotations

from collections.abc import Mapping

from ...dialects import nn

COUNTERPARTS: Mapping[type[nn.NNOp], str] = {
    nn.AbsOp: "Abs",
    nn.AddOp: "AddV2",
    nn.AndOp: "LogicalAnd",
    nn.CeilOp: "Ceil",
    nn.CosOp: "Cos",
    nn.EluOp: "Elu",
    nn.ErfOp: "Erf",
    nn.ExpOp: "Exp",
    nn.FloorOp: "Floor",
    nn.LogOp: "Log",
    nn.MaxOp: "Maximum",
    nn.MinOp: "Minimum",
    nn.MulOp: "Mul",
    nn.NegOp: "Neg",
    nn.NotOp: "LogicalNot",
    nn.OrOp: "LogicalOr",
    nn.ReciprocalOp: "Reciprocal",
    nn.ReluOp: "Relu",
    nn.Relu6Op: "Relu6",
    nn.RoundOp: "Round",
    nn.RsqrtOp: "Rsqrt",
    nn.SeluOp: "Selu",
    nn.SigmoidOp: "Sigmoid",
    nn.SinOp: "Sin",
    nn.SoftplusOp: "Softplus",
    nn.SoftsignOp: "Softsign",
    nn.SqrtOp: "Sqrt",
    nn.SubOp: "Sub",
    nn.TanhOp: "Tanh",
    nn.WhereOp: "SelectV2",
}
"""Read and written by this table, unless frontend or target has a converter of its own."""
