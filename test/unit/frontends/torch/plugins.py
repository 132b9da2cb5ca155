"""A network, its data, and how plugins of PyTorch write quantization that is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

X = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    def __init__(self, norm: bool = True):
        torch.manual_seed(0)
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.relu = nn.ReLU()
        self.fc = nn.Linear(4 * 36, 5)

    def forward(self, x: Any) -> Any:
        return self.fc(self.relu(self.bn(self.conv(x))).flatten(1))


class Ste(torch.autograd.Function):
    """Rounding whose gradient is one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class Lsq(nn.Module):
    """Bounds first, rounding past the gradient, a learned scale: Horizon's `lsq`."""

    def __init__(self, scale: Any, low: int = -128):
        super().__init__()
        self.scale, self.low = nn.Parameter(torch.as_tensor(scale)), low

    def forward(self, x: Any) -> Any:
        y = torch.clamp(x / self.scale.abs(), self.low, 127)
        return (y + (y.round() - y).detach()) * self.scale.abs()


class Ulq(nn.Module):
    """AMCT's fake quantization: times the reciprocal, rounding, an offset around the bounds."""

    def __init__(self, scale: Any, offset: float):
        super().__init__()
        self.scale: Any
        self.offset: Any
        self.register_buffer("scale", torch.as_tensor(scale))
        self.register_buffer("offset", torch.tensor(offset))

    def forward(self, x: Any) -> Any:
        y = torch.clamp(Ste.apply(x * (1 / self.scale)) + self.offset, -128, 127)
        return (y - self.offset) * self.scale


class Affine(nn.Module):
    """torch's operators by tensors: Horizon's `fake_quant`."""

    def __init__(self, scale: Any):
        super().__init__()
        self.scale: Any
        self.register_buffer("scale", torch.as_tensor(scale).reshape(-1))

    def forward(self, x: Any) -> Any:
        zero = torch.zeros_like(self.scale, dtype=torch.int32)
        if len(self.scale) > 1:
            return torch.fake_quantize_per_channel_affine(x, self.scale, zero, 0, -128, 127)
        return torch.fake_quantize_per_tensor_affine(x, self.scale, zero, -128, 127)


class Layer(nn.Module):
    """A layer with quantizers of its data and its weight, as plugins replace modules by."""

    def __init__(self, layer: Any, data: Any, weight: Any):
        super().__init__()
        self.layer, self.data, self.weights = layer, data, weight

    def forward(self, x: Any) -> Any:
        weight = self.weights(self.layer.weight)
        if isinstance(self.layer, nn.Linear):
            return nn.functional.linear(self.data(x), weight, self.layer.bias)
        return nn.functional.conv2d(self.data(x), weight, self.layer.bias, padding=1)
