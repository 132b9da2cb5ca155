"""The layers of a model under quantization-aware training. Modules and keys of the state dict have AMCT's names.

Importing it imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amct_opt.configuration.record import LayerRecord, Record, record_text
from amct_opt.support.diagnostics import CompileError
from amct_opt.support.files import made, replacing

from .fake_quantization import (
    EPSILON,
    Arq,
    Ulq,
    asymmetric,
    channels_first,
    finite,
    mean_over_ranks,
    searched_range,
    symmetric,
    torch,
)
from .retrain_config import BITS, LayerRetrain, RetrainConfig, Trainable

nn: Any = torch.nn

_BATCHES = 100.0
"""The number at which AMCT stops counting batches."""


class Ranged:
    """Mixin of modules that learn the range of an input: `acts_clip_max` and `acts_clip_min`, with the last good ones
    as `acts_clip_max_pre` and `acts_clip_min_pre`, which are NaN before there is a range.
    """

    acts_clip_max: Any
    acts_clip_min: Any
    acts_clip_max_pre: Any
    acts_clip_min_pre: Any
    searched: bool
    """Whether the first range is searched for."""
    search: list[Any] | None
    """The batches that the first range is searched on; None if there is a range."""

    def _register_range(
        self: Any, clips: tuple[float | None, float | None], unset: tuple[float, float], device: Any
    ) -> None:
        """`clips` are the upper and the lower end, None if they are searched for: at first they are those of `unset`."""
        self.searched = clips[0] is None
        self.search = [] if self.searched else None
        for name, clip, value in zip(("acts_clip_max", "acts_clip_min"), clips, unset, strict=True):
            self.register_parameter(name, nn.Parameter(torch.tensor(value if clip is None else clip, device=device)))
            self.register_buffer(f"{name}_pre", torch.tensor(torch.nan, device=device))
        self.register_load_state_dict_post_hook(_keep_range)

    def search_again(self) -> None:
        """Search for the range in the next batches; until then it is the present one."""
        self.search = [] if self.searched else None

    def set_range(self: Any, high: Any, low: Any) -> None:
        for name, value in (("acts_clip_max", high), ("acts_clip_min", low)):
            getattr(self, name).data.copy_(value.detach())
            getattr(self, f"{name}_pre").copy_(value.detach())

    def observe(self: Any, x: Any, bits: int, batch_num: int) -> None:
        """Take a batch into the search; the last batch gives the range, until then the range is that of the batch."""
        self.search.append(finite(x, "the input").detach().reshape(-1))
        if len(self.search) < batch_num:
            self.set_range(x.max(), x.min())
            return
        high, low = searched_range(torch.cat(self.search), bits)
        self.set_range(mean_over_ranks(high), mean_over_ranks(low))
        self.search = None

    def settle(self: Any, fixed_min: bool, training: bool) -> None:
        """Undo a step of training after which the range does not contain 0, or is empty."""
        high, low = self.acts_clip_max.detach(), self.acts_clip_min.detach()
        low = torch.zeros_like(low) if fixed_min else low
        if high == low:
            high, low = self.acts_clip_max_pre, self.acts_clip_min_pre
        elif high < 0:
            high = self.acts_clip_max_pre
        elif low > 0:
            low = self.acts_clip_min_pre
        if training:
            high, low = mean_over_ranks(high), mean_over_ranks(low)
        self.set_range(high.clone(), low.clone())


def _keep_range(module: Any, keys: Any) -> None:
    """A range that a checkpoint has is not searched for once more."""
    if torch.isfinite(module.acts_clip_max_pre):
        module.search = None


class QuantizedLayer(Ranged, nn.Module):
    """A layer on a fake-quantized input and weight."""

    cur_batch: Any

    def __init__(self, layer: Any, config: LayerRetrain, fixed_min: bool):
        nn.Module.__init__(self)
        device = layer.weight.device
        self.replaced_module = layer
        self.acts_comp_reuse: Any = None
        self.config = config
        self.fixed_min = fixed_min
        channels = channels_first(layer.weight, self._transposed, getattr(layer, "groups", 1)).shape[0]
        self.num_scales = channels if config.channel_wise else 1
        self.register_buffer("cur_batch", torch.tensor(0.0, device=device))
        self._register_range((config.clip_max, config.clip_min), (1.0, 1.0), device)
        for name in ("acts_scale", "acts_offset"):
            self.register_buffer(name, torch.tensor(torch.nan, device=device))
        self.register_buffer("prune_cur_batch", torch.tensor(0.0, device=device))  # pruning is not supported
        self.register_buffer("wts_mask", torch.full_like(layer.weight.detach(), torch.nan))
        self.register_buffer("s_rec_flag", torch.tensor(0.0, device=device))
        for name in ("wts_scales", "wts_offsets"):
            self.register_parameter(name, nn.Parameter(torch.full((self.num_scales,), torch.nan, device=device)))

    @property
    def _transposed(self) -> bool:
        return isinstance(self.replaced_module, nn.modules.conv._ConvTransposeNd)

    @property
    def ranged(self) -> Any:
        """The layer whose range this one uses: itself, or another one with the same input."""
        return self.acts_comp_reuse or self

    def share(self, other: Any) -> None:
        """Use the range of another layer."""
        for name in ("acts_clip_max", "acts_clip_min"):
            delattr(self, name)
            delattr(self, f"{name}_pre")
        del self.acts_scale, self.acts_offset
        self.search: list[Any] | None = None
        self._load_state_dict_post_hooks.clear()
        del self.acts_comp_reuse
        self.acts_comp_reuse = other

    def input_parameters(self) -> tuple[Any, Any]:
        """Scale and zero point of the input, from its present range."""
        owner = self.ranged
        if not torch.isfinite(owner.acts_clip_max_pre) and owner.search is not None:
            raise CompileError("its input has no range yet", hint="run the model on data first")
        owner.settle(owner.fixed_min, self.training)
        scale, offset = asymmetric(
            owner.acts_clip_max.detach(), owner.acts_clip_min.detach(), BITS[self.config.act_type]
        )
        owner.acts_scale.copy_(scale)
        owner.acts_offset.copy_(offset)
        return scale, offset

    def weight_scales(self) -> Any:
        """The scales of the present weight, one or one per output channel."""
        layer = self.replaced_module
        rows = channels_first(layer.weight.detach(), self._transposed, getattr(layer, "groups", 1))
        scale = symmetric(finite(rows, "the weight"), BITS[self.config.wts_type], self.config.channel_wise)
        self.wts_scales.data.copy_(scale)
        self.wts_offsets.data.zero_()
        return scale

    def forward(self, x: Any) -> Any:
        owner, layer = self.ranged, self.replaced_module
        if owner is not self and owner.search is not None and not torch.isfinite(owner.acts_clip_max_pre):
            owner.set_range(x.max(), x.min())
        scale, offset = self.input_parameters()
        quantized = Ulq.apply(
            finite(x, "the input"), owner.acts_clip_max, owner.acts_clip_min, scale, offset, BITS[self.config.act_type]
        )
        transposed, groups = self._transposed, getattr(layer, "groups", 1)
        scales = self.weight_scales()
        rows = channels_first(layer.weight, transposed, groups)
        rounded = Arq.apply(rows, scales, torch.zeros_like(scales, dtype=torch.int8), BITS[self.config.wts_type])
        weight = _unfolded(rounded, layer.weight, transposed, groups)
        if self.cur_batch < _BATCHES:
            self.cur_batch += 1
        return torch.func.functional_call(layer, {"weight": weight}, (quantized,))


def _unfolded(rows: Any, weight: Any, transposed: bool, groups: int) -> Any:
    return channels_first(rows, transposed, groups).reshape(weight.shape)


class RetrainQuant(nn.Module):
    """A layer under training, with the batch norm after it. In evaluation mode it gives its factors to the record."""

    def __init__(self, name: str, quant_module: QuantizedLayer, record_module: Recorder, bn: Any, bn_name: str):
        nn.Module.__init__(self)
        self.name = name
        self.quant_module = quant_module
        self.record_module = record_module
        self.bn_module = bn
        self.bn_module_name = bn_name
        scales = quant_module.num_scales if bn is None else bn.num_features
        device = quant_module.replaced_module.weight.device
        self.register_buffer("scale_w", torch.ones(scales, device=device))
        self.register_buffer("offset_w", torch.zeros(scales, device=device))

    def forward(self, x: Any) -> Any:
        layer = self.quant_module
        if layer.search is not None:
            layer.observe(x, BITS[layer.config.act_type], self.record_module.config.batch_num)
        result = layer(x)
        result = result if self.bn_module is None else self.bn_module(result)
        if self.training:
            self.record_module.trained()
        elif layer.ranged.search is None:
            self.record_module.evaluated(self.name, self.factors())
        return result

    @torch.no_grad()
    def factors(self) -> LayerRecord:
        """The factors of the layer as deployed: the scales of its weight contain those of the batch norm.

        Raises CompileError, located at the layer, if its input has no range yet.
        """
        layer = self.quant_module
        try:
            scale, offset = layer.input_parameters()
        except CompileError as e:
            raise CompileError(e.message, where=f"layer '{self.name}'", hint=e.hint) from None
        scales = layer.weight_scales().expand(self.scale_w.shape)
        if (bn := self.bn_module) is not None:
            scales = scales.abs() * (bn.weight * torch.rsqrt(bn.running_var + bn.eps)).abs()
        self.scale_w.copy_(torch.where(scales < EPSILON, torch.ones_like(scales), scales))
        self.offset_w.zero_()
        return LayerRecord(
            scale_d=float(scale),
            offset_d=int(offset),
            scale_w=tuple(self.scale_w.tolist()),
            offset_w=(0,) * len(self.scale_w),
            act_type=layer.config.act_type,
            wts_type=layer.config.wts_type,
        )


class Recorder(nn.Module):
    """Writes the record of a model when all of its layers ran in evaluation mode. All layers share one."""

    def __init__(self, record_file: Path, config: RetrainConfig, layers: Mapping[str, Trainable]):
        nn.Module.__init__(self)
        self.register_buffer("quant_layer_num", torch.tensor(0.0))
        self.record_file = record_file
        self.config = config
        self.layers = layers
        self.names: list[str] = [name for name, layer in config.layers.items() if layer.enable]
        self._found: dict[str, LayerRecord] | None = {}

    def trained(self) -> None:
        """The factors change: the record is written once more in the next evaluation."""
        self.quant_layer_num.fill_(len(self.names))
        self._found = {}

    def evaluated(self, name: str, factors: LayerRecord) -> None:
        if self._found is None:
            return
        self._found[name] = factors
        if len(self._found) == len(self.names):
            self.write(self._found)
            self._found = None

    def write(self, factors: Mapping[str, LayerRecord]) -> Path:
        """Write the record, layers in the order of the configuration. Returns its path."""
        record = Record({name: factors[name] for name in self.names})
        with made(self.record_file.parent), replacing(self.record_file) as stream:
            stream.write(record_text(record, "pytorch").encode())
        return self.record_file


def retrained_layers(model: Any) -> Mapping[str, RetrainQuant]:
    """The layers of a model under training, by name."""
    return {module.name: module for module in model.modules() if isinstance(module, RetrainQuant)}
