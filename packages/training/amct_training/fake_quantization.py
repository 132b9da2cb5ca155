"""Fake quantization that torch can train: ULQ of inputs, whose range is learned, and ARQ of weights.

Importing it imports torch. Numbers are AMCT's, in float32.
"""

from __future__ import annotations

import math
from typing import Any

from amct_opt.frontends.torch.library import torch_library
from amct_opt.support.diagnostics import CompileError

torch: Any = torch_library("amct_opt.amct.pytorch")

EPSILON: float = torch.finfo(torch.float32).eps
"""Smaller scales become 1."""
_CANDIDATES = (0.7, 1.3, 0.01)
_PERCENTILE = 0.999999


def limits(bits: int) -> tuple[int, int]:
    """The least and the largest integer."""
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def asymmetric(high: Any, low: Any, bits: int) -> tuple[Any, Any]:
    """Scale and zero point of a range, which is widened to contain 0: tensors in float32 and int32."""
    high, low = high.float().clamp(min=0), low.float().clamp(max=0)
    least, largest = limits(bits)
    scale = (high - low) / (largest - least)
    tiny = scale < EPSILON
    scale = torch.where(tiny, torch.ones_like(scale), scale)
    offset = torch.where(tiny, torch.full_like(scale, least), least - low / scale)
    return scale, offset.round().to(torch.int32)


def symmetric(weight: Any, bits: int, channel_wise: bool) -> Any:
    """The scales of a weight of shape [channels, ...]: one, or one per channel. The larger end of its range is exact."""
    rows = weight.float().reshape(weight.shape[0] if channel_wise else 1, -1)
    high, low = rows.max(dim=1).values, rows.min(dim=1).values
    least, largest = limits(bits)
    scale = torch.maximum(high.abs(), low.abs()) / torch.where(high.abs() < low.abs(), -least, largest)
    scale = torch.where(scale < EPSILON, torch.ones_like(scale), scale)
    return scale if channel_wise else scale.reshape(())


def channels_first(weight: Any, transposed: bool, groups: int) -> Any:
    """The weight with its output channels first; that of a transposed convolution is [in, out / groups, ...].

    Applied twice it gives the weight itself.
    """
    if not transposed:
        return weight
    grouped = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
    return grouped.reshape(-1, *grouped.shape[2:])


def finite(tensor: Any, what: str) -> Any:
    """Raises CompileError for a tensor with inf or nan."""
    if not torch.isfinite(tensor).all():
        raise CompileError(f"{what} to be quantized has inf or nan")
    return tensor


def searched_range(values: Any, bits: int) -> tuple[Any, Any]:
    """The symmetric range of least squared error (AMCT's IFMR without an offset): its upper and its lower end."""
    flat = values.detach().reshape(-1).float()
    beyond = flat.numel() - int(_PERCENTILE * flat.numel())
    high = flat.topk(beyond).values[-1].clamp(min=0)
    low = flat.topk(beyond, largest=False).values[-1].clamp(max=0)
    least, largest = limits(bits)
    end = torch.maximum(high.abs(), low.abs())
    candidates = torch.arange(*_CANDIDATES, dtype=torch.float32, device=flat.device) * end
    scales = candidates / (-least if high.abs() < low.abs() else largest)
    scales = torch.where(scales < EPSILON, torch.ones_like(scales), scales)
    losses = [
        torch.nn.functional.mse_loss(torch.round(flat.clamp(-limit, limit) / scale) * scale, flat)
        for limit, scale in zip(candidates, scales, strict=True)
    ]
    scale = scales[torch.stack(losses).argmin()]
    return scale * largest, scale * least


def mean_over_ranks(value: Any) -> Any:
    """The mean of a tensor over the processes of distributed training."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and (ranks := distributed.get_world_size()) > 1:
        value = value.clone()
        distributed.all_reduce(value)
        value /= ranks
    return value


class Ulq(torch.autograd.Function):
    """Rounds an input to integers of `bits` and back. Both ends of the range get gradients: the sign of the rounding error
    inside, 1 for what is clipped.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, high: Any, low: Any, scale: Any, offset: Any, bits: int) -> Any:
        ctx.save_for_backward(x, *(each.detach().clone() for each in (high, low, scale, offset)))
        ctx.bits = bits
        shift = offset.to(torch.int32)
        return (torch.round(x / scale + shift).clamp(*limits(bits)) - shift) * scale

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        x, high, low, scale, offset = ctx.saved_tensors
        (gradient,) = gradients
        least, largest = limits(ctx.bits)
        shift = offset.to(torch.int32)
        above, below = x > scale * (largest - shift), x < scale * (least - shift)
        scaled = torch.where(below, low, torch.where(above, high, x)) / scale
        error = (torch.round(scaled) - scaled) / (largest - least)
        to_high = ((error + above.to(error.dtype)) * gradient).sum()
        to_low = ((below.to(error.dtype) - error) * gradient).sum()
        through = torch.where(above | below, torch.zeros_like(gradient), gradient)
        return through, to_high, to_low, None, None, None

    @staticmethod
    def symbolic(g: Any, x: Any, high: Any, low: Any, scale: Any, offset: Any, bits: int) -> Any:
        """Writes the operator in torch's export to ONNX."""
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, offset), scale, offset)


class Arq(torch.autograd.Function):
    """Rounds a weight of shape [channels, ...] to integers of `bits` and back, by one scale or one per channel. The gradient
    passes unchanged.
    """

    @staticmethod
    def forward(ctx: Any, weight: Any, scale: Any, offset: Any, bits: int) -> Any:
        steps = scale.reshape(-1, *(1 for _ in weight.shape[1:])) if scale.numel() > 1 else scale
        return torch.round(weight / steps).clamp(*limits(bits)) * steps

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return gradients[0], None, None, None

    @staticmethod
    def symbolic(g: Any, weight: Any, scale: Any, offset: Any, bits: int) -> Any:
        """Writes the operator in torch's export to ONNX, opset 13 or later: output channels are the first axis."""
        axis = {} if math.prod(scale.type().sizes()) == 1 else {"axis_i": 0}
        integers = g.op("QuantizeLinear", weight, scale, offset, **axis)
        return g.op("DequantizeLinear", integers, scale, offset, **axis)
