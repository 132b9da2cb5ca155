"""The operators of ONNX that equal operations of `nn`: the same operands, and properties as attributes with equal defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ...dialects import nn

COUNTERPARTS: Mapping[type[nn.NNOp], str] = {
    nn.AbsOp: "Abs",
    nn.AddOp: "Add",
    nn.AndOp: "And",
    nn.CeilOp: "Ceil",
    nn.CosOp: "Cos",
    nn.DivOp: "Div",
    nn.EluOp: "Elu",
    nn.ErfOp: "Erf",
    nn.ExpOp: "Exp",
    nn.FloorOp: "Floor",
    nn.HardSigmoidOp: "HardSigmoid",
    nn.HardSwishOp: "HardSwish",
    nn.LeakyReluOp: "LeakyRelu",
    nn.LogOp: "Log",
    nn.MaxOp: "Max",
    nn.MinOp: "Min",
    nn.MishOp: "Mish",
    nn.MulOp: "Mul",
    nn.NegOp: "Neg",
    nn.NotOp: "Not",
    nn.OrOp: "Or",
    nn.PReluOp: "PRelu",
    nn.PowOp: "Pow",
    nn.ReciprocalOp: "Reciprocal",
    nn.ReluOp: "Relu",
    nn.RoundOp: "Round",
    nn.SeluOp: "Selu",
    nn.SigmoidOp: "Sigmoid",
    nn.SinOp: "Sin",
    nn.SoftplusOp: "Softplus",
    nn.SoftsignOp: "Softsign",
    nn.SqrtOp: "Sqrt",
    nn.SubOp: "Sub",
    nn.TanhOp: "Tanh",
    nn.WhereOp: "Where",
}
"""Read and written by this table, unless frontend or target has a converter of its own: for other inputs, or older opsets."""
