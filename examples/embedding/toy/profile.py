"""The target profile: what the imaginary device computes in integers. Matrix products only, inputs without zero points."""

from amct_opt import Profile, Row
from amct_opt.dialects.nn import MatMulOp
from amct_opt.transforms.quantization.decide.conditions import DecideWeighted

RULES = (DecideWeighted.weight_constant, DecideWeighted.bias_constant)

PROFILE = Profile(
    name="toy",
    rows={MatMulOp: Row(weight=1, bias=2, per_channel=True, symmetric=True, rules=RULES)},
    table=(),
)
