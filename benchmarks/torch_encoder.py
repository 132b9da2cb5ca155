"""Run by an interpreter that has torch (AIMET's environment): OUT NORMS_FIRST POWER. A transformer encoder by torch's exporter.

Three layers of 128 channels, four heads, inputs `x` `[1, 32, 128]`, seeded. Two channels of each norm are 40 and 70 times as
large, as trained ones are; the weights that read a norm are divided by this to the POWER. NORMS_FIRST is 1 or 0.
"""

import sys

import torch
from torch import nn

out, first, power = sys.argv[1], sys.argv[2] == "1", float(sys.argv[3])
torch.manual_seed(0)
width, factors = 128, torch.ones(128)
factors[[5, 77]] = torch.tensor([40.0, 70.0])
layer = nn.TransformerEncoderLayer(width, 4, 256, activation="gelu", batch_first=True, norm_first=first)
encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
network = nn.Sequential(encoder, nn.LayerNorm(width), nn.Linear(width, 10)).eval()
with torch.no_grad():
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight.copy_((0.5 + torch.rand(width)) * factors)
            module.bias.copy_(0.1 * torch.randn(width) * factors)
        if isinstance(module, nn.Linear):
            module.weight.normal_(std=module.in_features**-0.5)
    for name, weight in network.named_parameters():
        if name.endswith(("in_proj_weight", "linear1.weight")) or name == "2.weight":
            weight.div_(factors**power)
torch.onnx.export(network, (torch.zeros(1, 32, width),), out, input_names=["x"], dynamo=True, external_data=False)
