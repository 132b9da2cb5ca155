"""The layers of Caffe that are operations of `nn`: these rows read and write them. Names are those of a message and its field.

What reads or writes in another way for other parameters has a converter in the frontend or the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import nn
from ..rows import Axis, Int, Ints, Number, Row, row

ROWS: Sequence[Row] = (
    row(nn.AbsOp, "AbsVal"),
    row(nn.EluOp, "ELU", alpha=Number("elu_param.alpha", 1.0)),
    row(nn.ExpOp, "Exp"),
    row(
        nn.LRNOp,
        "LRN",
        size=Int("lrn_param.local_size", 5),
        alpha=Number("lrn_param.alpha", 1.0),
        beta=Number("lrn_param.beta", 0.75),
        bias=Number("lrn_param.k", 1.0),
    ),
    row(nn.LeakyReluOp, "ReLU", alpha=Number("relu_param.negative_slope", 0.0)),
    row(nn.LogOp, "Log"),
    row(nn.NegOp, "Power", only={"power_param.scale": -1.0}),
    row(nn.ReciprocalOp, "Power", only={"power_param.power": -1.0}),
    row(nn.Relu6Op, "ReLU6"),
    row(nn.ReluOp, "ReLU"),
    row(nn.RsqrtOp, "Power", only={"power_param.power": -0.5}),
    row(nn.SigmoidOp, "Sigmoid"),
    row(nn.SoftmaxOp, "Softmax", axis=Axis("softmax_param.axis", 1)),
    row(nn.SoftplusOp, "BNLL"),
    row(nn.SqrtOp, "Power", only={"power_param.power": 0.5}),
    row(nn.TanhOp, "TanH"),
    row(nn.TransposeOp, "Permute", perm=Ints("permute_param.order")),  # of SSD's forks, OpenCV and Ascend's converter
)
