"""AMCT's modules for quantization-aware training, `Conv2dQAT` and its kin, to build networks of or to take the place of layers.

In AMCT they are in `amct_pytorch.nn.module.quantization`. Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from amct_opt.amct import shared as steps
from amct_opt.support.diagnostics import CompileError

from .fake_quantization import Arq, Ulq, asymmetric, channels_first, finite, symmetric, torch
from .retrain_config import BITS, PER_TENSOR
from .retrained import Ranged

__all__ = ["Conv1dQAT", "Conv2dQAT", "Conv3dQAT", "ConvTranspose1dQAT", "ConvTranspose2dQAT", "LinearQAT"]

_nn: Any = torch.nn
_NONE: Mapping[str, Any] = {}
_CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")


class QATBase(Ranged):
    """A layer that learns the range of its input (ULQ) and rounds its weight (ARQ), in float32.

    `config` has AMCT's keys: `retrain_enable`; in `retrain_data_config` `dst_type` (INT8 or INT16), `batch_num`, `fixed_min`,
    `clip_max` and `clip_min`; in `retrain_weight_config` `dst_type` (INT8) and `channel_wise`. Without clips the first
    `batch_num` batches are not quantized and give the range. Raises CompileError for other keys and values.
    """

    ARGUMENTS: ClassVar[tuple[str, ...]] = _CONV
    """The arguments of the layer that are its attributes, `bias` aside."""
    layer: ClassVar[Any]
    """The layer's class in torch.nn."""

    @steps.as_in_amct
    def _quantize(self: Any, config: Any, device: Any) -> None:
        """Check the configuration and register the learned parameters."""
        name = type(self).__name__
        given = _taken(
            config or {}, name, {"retrain_enable": True, "retrain_data_config": {}, "retrain_weight_config": {}}
        )
        data = {"dst_type": "INT8", "batch_num": 1, "fixed_min": False, "clip_max": None, "clip_min": None}
        data = _taken(given["retrain_data_config"], f"{name}: retrain_data_config", data)
        per_tensor = self.layer.__name__ in PER_TENSOR
        weight = {"dst_type": "INT8", "weights_retrain_algo": "arq_retrain", "channel_wise": not per_tensor}
        weight = _taken(given["retrain_weight_config"], f"{name}: retrain_weight_config", weight)
        problems = {
            "dst_type of inputs must be INT8 or INT16": data["dst_type"] not in ("INT8", "INT16"),
            "batch_num must be an integer of at least 1": not isinstance(data["batch_num"], int)
            or data["batch_num"] < 1,
            "clip_max and clip_min belong together": (data["clip_max"] is None) != (data["clip_min"] is None),
            "clip_max must be above 0": data["clip_max"] is not None and not data["clip_max"] > 0,
            "clip_min must be below 0": data["clip_min"] is not None and not data["clip_min"] < 0,
            "dst_type of weights must be INT8": weight["dst_type"] != "INT8",
            "weights_retrain_algo must be arq_retrain": weight["weights_retrain_algo"] != "arq_retrain",
            "the weight cannot be channel_wise": per_tensor and weight["channel_wise"],
            "padding_mode must be zeros": getattr(self, "padding_mode", "zeros") != "zeros" and given["retrain_enable"],
        }
        if problem := next((text for text, broken in problems.items() if broken), ""):
            raise CompileError(problem, where=name)
        self.retrain_enable: bool = given["retrain_enable"]
        self.batch_num: int = data["batch_num"]
        self.fixed_min: bool = data["fixed_min"]
        self.act_bits: int = BITS[data["dst_type"]]
        self.wts_bits: int = BITS[weight["dst_type"]]
        self.channel_wise: bool = weight["channel_wise"]
        self._register_range((data["clip_max"], data["clip_min"]), (1.0, -1.0), device)
        channels = self.channels_first(self.weight).shape[0] if self.channel_wise else 1
        offset = torch.int16 if self.act_bits == BITS["INT16"] else torch.int8
        self.register_buffer("cur_batch", torch.tensor(0))
        self.register_buffer("acts_scale", torch.full((1,), torch.nan, device=device))
        self.register_buffer("acts_offset_deploy", torch.zeros(1, dtype=offset, device=device))
        for name in ("wts_scales", "wts_offsets"):
            empty = torch.full((channels,), torch.nan, device=device)
            self.register_parameter(name, _nn.Parameter(empty, requires_grad=False))
        self.register_buffer("wts_offsets_deploy", torch.zeros(channels, dtype=torch.int8, device=device))
        self.register_buffer("s_rec_flag", torch.tensor(False, device=device))

    @classmethod
    @steps.as_in_amct
    def from_float(cls, mod: Any, config: Mapping[str, Any] | None = None) -> Any:
        """A module with the weight and the bias of a layer of torch.nn, which it shares."""
        if not isinstance(mod, cls.layer):
            message = f"from_float takes a {cls.layer.__name__}, not a {type(mod).__name__}"
            raise steps.AmctTypeError(CompileError(message, where=cls.__name__))
        arguments = {name: getattr(mod, name) for name in cls.ARGUMENTS}
        made: Any = cast(Any, cls)(**arguments, bias=mod.bias is not None, config=config)
        made.weight, made.bias = mod.weight, mod.bias
        return made.to(mod.weight.device).train(mod.training)

    def channels_first(self: Any, weight: Any) -> Any:
        """The weight with its output channels first; applied twice, the weight itself."""
        return channels_first(weight, getattr(self, "transposed", False), getattr(self, "groups", 1))

    def quantized(self: Any, x: Any) -> tuple[Any, Any]:
        """The fake-quantized input and weight.

        torch's exporter to ONNX (`dynamo=False`) writes QuantizeLinear and DequantizeLinear with the factors of the last run.
        """
        if not self.retrain_enable:
            return x, self.weight
        if x.dtype is not torch.float32:
            raise CompileError(f"the input must be float32, not {x.dtype}", where=type(self).__name__)
        quantizes = self.search is None
        if not torch.onnx.is_in_onnx_export():
            self._update(x)
        elif not quantizes:
            hint = "run the model on data first"
            raise CompileError("the input has no range yet", where=type(self).__name__, hint=hint)
        if quantizes:
            high, low = self.acts_clip_max, self.acts_clip_min
            x = Ulq.apply(x, high, low, self.acts_scale[0], self.acts_offset_deploy[0], self.act_bits)
        scales = self.wts_scales if self.channel_wise else self.wts_scales[0]
        offsets = self.wts_offsets_deploy if self.channel_wise else self.wts_offsets_deploy[0]
        weight = self.channels_first(Arq.apply(self.channels_first(self.weight), scales, offsets, self.wts_bits))
        return x, weight.reshape(self.weight.shape)

    @torch.no_grad()
    def _update(self: Any, x: Any) -> None:
        """Find the factors of the input, as far as its range is known, and of the weight."""
        if self.search is None:
            finite(x, "the input")
            self.settle(self.fixed_min, self.training)
        else:
            self.observe(x, self.act_bits, self.batch_num)
        scale, offset = asymmetric(self.acts_clip_max, self.acts_clip_min, self.act_bits)
        self.acts_scale.copy_(scale)
        self.acts_offset_deploy.copy_(offset)
        rows = finite(self.channels_first(self.weight), "the weight")
        self.wts_scales.copy_(symmetric(rows, self.wts_bits, self.channel_wise))
        self.wts_offsets.zero_()
        self.cur_batch += self.cur_batch < 100


def _taken(given: Any, where: str, defaults: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise CompileError(f"must be a dictionary, not a {type(given).__name__}", where=where)
    values = dict(cast("Mapping[str, Any]", given))
    if unknown := [key for key in values if key not in defaults]:
        raise CompileError(f"unknown key '{unknown[0]}'", where=where, hint=f"keys are {', '.join(defaults)}")
    return {**defaults, **values}


class _ConvQAT(QATBase):
    """A convolution; its arguments are those of torch.nn, then `config`."""

    def __init__(
        self: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        config: Mapping[str, Any] | None = None,
    ):
        self.layer.__init__(
            self,
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )
        self._quantize(config, device)

    @steps.as_in_amct
    def forward(self: Any, x: Any, output_size: Any = None) -> Any:
        x, weight = self.quantized(x)
        if not self.transposed:
            return self._conv_forward(x, weight, self.bias)
        axes = len(self.kernel_size)
        extra = self._output_padding(x, output_size, self.stride, self.padding, self.kernel_size, axes, self.dilation)
        convolve = getattr(_nn.functional, f"conv_transpose{axes}d")
        return convolve(x, weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class Conv1dQAT(_ConvQAT, _nn.Conv1d):
    """A Conv1d layer, whose weight has a scale per output channel or one."""

    layer = _nn.Conv1d


class Conv2dQAT(_ConvQAT, _nn.Conv2d):
    """A Conv2d layer, whose weight has a scale per output channel or one."""

    layer = _nn.Conv2d


class Conv3dQAT(_ConvQAT, _nn.Conv3d):
    """A Conv3d layer, whose weight has a scale per output channel or one."""

    layer = _nn.Conv3d


class ConvTranspose1dQAT(_ConvQAT, _nn.ConvTranspose1d):
    """A ConvTranspose1d layer, whose weight has a scale per output channel or one."""

    layer = _nn.ConvTranspose1d


class ConvTranspose2dQAT(_ConvQAT, _nn.ConvTranspose2d):
    """A ConvTranspose2d layer, whose weight has a scale per output channel or one."""

    layer = _nn.ConvTranspose2d


class LinearQAT(QATBase, _nn.Linear):
    """A Linear layer, whose weight has one scale."""

    ARGUMENTS: ClassVar[tuple[str, ...]] = ("in_features", "out_features")
    layer = _nn.Linear

    def __init__(
        self: Any,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        config: Mapping[str, Any] | None = None,
    ):
        _nn.Linear.__init__(self, in_features, out_features, bias=bias, device=device, dtype=dtype)
        self._quantize(config, device)

    @steps.as_in_amct
    def forward(self: Any, x: Any) -> Any:
        x, weight = self.quantized(x)
        return _nn.functional.linear(x, weight, self.bias)


def __getattr__(name: str) -> Any:
    raise steps.missing(__name__, name)
