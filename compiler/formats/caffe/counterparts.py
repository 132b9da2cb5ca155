"""The layers of Caffe that equal operations of `nn` if they have no parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ...dialects import nn

COUNTERPARTS: Mapping[type[nn.UnaryOp], str] = {
    nn.AbsOp: "AbsVal",
    nn.ExpOp: "Exp",
    nn.LogOp: "Log",
    nn.ReluOp: "ReLU",
    nn.Relu6Op: "ReLU6",
    nn.SigmoidOp: "Sigmoid",
    nn.SoftplusOp: "BNLL",
    nn.TanhOp: "TanH",
}
"""Read and written by this table, unless the frontend reads parameters."""
