"""The layers of a module from the view of settings: which of them can be quantized, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ....configuration.checks import check_names
from ....configuration.compressed import compressed_operators
from ....configuration.layer_settings import LayerFacts, LayerSettings, number_format_of, settings_for, weight_only
from ....configuration.record import Record
from ....configuration.settings import Settings
from ....dialects.nn import (
    AddOp,
    BiasAddOp,
    ConvolutionOp,
    ConvTransposeOp,
    DequantizeOp,
    MatMulOp,
    NNOp,
    OriginAttr,
    WeightedOp,
)
from ....dialects.nn.shapes import shape_of
from ....ir.functions import main_function
from ....ir.layer_names import LayerNames
from ....rewriting import layer_of
from ....support.diagnostics import CompileError, describe
from ..profiles import Profile, Row
from .deciding import Decide
from .embeddings import Embedding, Experts, tables
from .legality import (
    first_broken,
    has_quantized_weight,
    row_of,
    rules_of_weight,
    types_of,
    weight_only_broken,
)
from .named_layers import in_module
from .recurrent import Recurrent, recurrent_layers
from .rows import INT16
from .sites import Site, sites

NO_SETTINGS = Settings()


def layer_at(site: Site, row: Row) -> LayerFacts:
    """The layer as settings know it."""
    op = site.compute
    dimensions = op.spatial_rank if isinstance(op, ConvolutionOp) and not isinstance(op, ConvTransposeOp) else None
    two_inputs = row.two_inputs and site.multiplies_inputs
    return LayerFacts(
        name=layer_of(op),
        type=op.origin.op_type.data if isinstance(op.origin, OriginAttr) else op.name,
        module=op.origin.module_class if isinstance(op.origin, OriginAttr) else "",
        ascend=_ascend_types(op, dimensions),
        weighted=row.weight is not None and not two_inputs,
        channel_wise=row.per_channel and not _is_batch(op),
        low_bits=row.low_bits == "always" or dimensions == 2,
        packs=_packs(op) if row.as_amct else None,
        symmetric_only=dimensions == 3 or row.symmetric or two_inputs or _is_backprop(op),
        weight_only=rules_of_weight(op, row) is not None,
        channel_formats=row.channel_formats,
        narrow=int16_refusal(site, row) or (_OTHERS if row.as_amct and not _is_wide(op) else ""),
        rounds=not row.as_amct or isinstance(op, MatMulOp) or (isinstance(op, ConvolutionOp) and op.spatial_rank == 2),
    )


def _packs(op: NNOp) -> bool:
    """Whether a layer has one group and an even number of input channels, of which AMCT packs pairs."""
    if isinstance(op, ConvolutionOp):
        return op.group_count == 1 and shape_of(op.weight)[0 if isinstance(op, ConvTransposeOp) else 1] % 2 == 0
    return isinstance(op, MatMulOp) and shape_of(op.lhs)[-2 if op.transpose_a else -1] % 2 == 0


def int16_refusal(site: Site, row: Row) -> str:
    """The reason why a layer cannot have an input of 16 bits: the target would not compute it in integers; else empty."""
    if row.judge is None:
        return ""
    if row.two_inputs and site.multiplies_inputs:
        return "it is a product of two inputs, which are int8"
    refusal = row.judge.integer_refusal(site.compute, INT16)
    return "" if refusal is None else refusal.reason


_OTHERS = "AMCT for PyTorch quantizes inputs of other layers to INT16"


def _is_wide(op: NNOp) -> bool:
    """Whether AMCT for PyTorch quantizes a layer's input to INT16: in convolutions of one and two dimensions, and in products
    with a bias, which the exporter may have left to the addition after it.
    """
    if isinstance(op, MatMulOp):
        return op.bias is not None or any(_is_bias(use.operation, op) for use in op.result.uses)
    return isinstance(op, ConvolutionOp) and op.spatial_rank < 3


def _is_bias(reader: Operation, op: NNOp) -> bool:
    """Whether an operation adds a layer's bias: it is a part of the same module."""
    return isinstance(reader, AddOp | BiasAddOp) and layer_of(reader) == f"{layer_of(op)}/Add"


def _ascend_types(op: NNOp, dimensions: int | None) -> tuple[str, ...]:
    """The operators of Ascend IR that AMCT's table has for a layer; for two-dimensional convolutions without that for three."""
    row = row_of(op)
    other = {3: "Conv2D"}.get(dimensions or 0, "Conv3D")
    return () if row is None else tuple(name for name in row.ascend if name != other or len(row.ascend) == 1)


def _is_batch(op: NNOp) -> bool:
    """A product with a batch of weights. Integer kernels take one scale for all of them."""
    return isinstance(op, MatMulOp) and len(shape_of(op.rhs)) > 2


def _is_backprop(op: NNOp) -> bool:
    """Whether the layer is TensorFlow's transposed convolution; the operator of Ascend IR has no `offset_x`, and
    neither has Conv3D.
    """
    row = row_of(op)
    return row is not None and row.ascend == ("Conv2DBackpropInput",)


def channel_axis(op: NNOp) -> int | None:
    """The axis of the weight that counts output channels; None if no axis does (grouped transposed convolution)."""
    return op.weight_axis if isinstance(op, WeightedOp) else 0


class Candidate(NamedTuple):
    """A layer of a kind that is quantized: a site of the profile, or a recurrent layer."""

    site: Site
    layer: LayerFacts
    whole: str | None
    """The reason that keeps it from computing on integers; None if it can, or does already."""
    alone: Callable[[str | None], str | None]
    """The reason that keeps its weights from being quantized by themselves, to integers or to a number format."""


@dataclass(frozen=True)
class Layers:
    """The layers of a module that a profile could quantize, and the settings for each of them, in the module's names."""

    settings: Settings
    profile: Profile
    candidates: Sequence[Candidate]
    """The candidates in program order; recurrent layers are last."""
    keeps: bool = False
    """Whether layers that settings do not name stay as they are: the module is quantized already."""

    @cached_property
    def held(self) -> Mapping[Operation, LayerSettings]:
        """The settings of each layer, by its operation. Raises CompileError, located in the settings' file, for what a layer
        cannot have.
        """
        held: dict[Operation, LayerSettings] = {
            each.site.compute: settings_for(self.settings, each.layer) for each in self.candidates
        }
        if not self.keeps or self.settings.only_layers or self.settings.enabled is not None:
            return held
        named = {*self.settings.by_layer, *self.settings.weight_bits, *self.settings.bits}
        for op in (each.site.compute for each in self.able if each.layer.name not in named):
            held[op] = replace(held[op], skipped=held[op].skipped or Decide.left_in_float.name)
        return held

    @cached_property
    def able(self) -> Sequence[Candidate]:
        """The candidates that legality allows under these settings: all of the layer, or only its weights."""
        return [each for each in self.candidates if self.broken(each) is None]

    def broken(self, each: Candidate) -> str | None:
        """The reason that keeps a layer from being quantized as settings have it."""
        if not weight_only(self.settings, each.layer):
            return each.whole
        return each.alone(number_format_of(self.settings, each.layer))


def able_names(candidates: Iterable[Candidate]) -> set[str]:
    """The names of the layers that can compute on integers, or do already."""
    return {each.layer.name for each in candidates if each.whole is None}


def candidates(module: ModuleOp, profile: Profile) -> list[Candidate]:
    """The layers of a module that a profile could quantize."""
    found = ((site, profile.rows[type(site.compute)]) for site in sites(module, profile.rows))
    recurrent = [_recurrent(each, profile) for each in recurrent_layers(module)]
    return [*(_candidate(site, row, profile) for site, row in found), *recurrent]


def _candidate(site: Site, row: Row, profile: Profile) -> Candidate:
    layer = layer_at(site, row)
    if is_quantized(site):
        return Candidate(site, layer, None, _is_able)
    whole = _reason(first_broken(site, row.rules, profile.table))

    @cache
    def alone(number_format: str | None) -> str | None:
        return _reason(weight_only_broken(site, row, number_format))

    return Candidate(site, layer, whole, alone)


def _is_able(_: str | None) -> None:
    """Gives no reason: nothing keeps the weights of a quantized layer from being quantized."""


def _recurrent(each: Recurrent, profile: Profile) -> Candidate:
    if each.is_quantized and each.activations is not None:
        whole = None
    else:
        whole = profile.recurrent_refusal(each.op.op_type.data) or _reason(each.float_because)

    def alone(_: str | None) -> str | None:
        return None if each.is_quantized else _reason(each.broken)

    packs = all(shape_of(value)[2] % 2 == 0 for value in each.weights) if profile.amct == "pytorch" else None
    return Candidate(each.site, replace(each.layer, packs=packs), whole, alone)


_TABLE_ALONE = "only its table can be quantized"


def _of_table(each: Embedding) -> Callable[[str | None], str | None]:
    return lambda _: _reason(each.float_because)


def _reason(broken: tuple[object, str] | None) -> str | None:
    return None if broken is None else broken[1]


def is_quantized(site: Site) -> bool:
    """The layer's input is quantized already, of a product of two both, or its weight alone."""
    return all(is_dequantized(site.operand(i)) for i in site.inputs) or has_quantized_weight(site)


def is_dequantized(value: SSAValue | None) -> bool:
    """Whether a value comes from integers."""
    return isinstance(value, OpResult) and isinstance(value.op, DequantizeOp)


def resolve(settings: Settings, module: ModuleOp, profile: Profile) -> Layers:
    """Resolves settings for the layers of a module: everything that they name is in it, files that they name can be
    read, and they do not ask for anything that is not supported. Paths of PyTorch modules and patterns become the names
    of layers (`in_module`).

    Raises CompileError, located in the settings' file or in one that it names.
    """
    check_supported(settings)
    if settings.nuq_config is not None:
        compressed_operators(Path(settings.nuq_config.mapping_file))
    names, found = LayerNames.of(module), candidates(module, profile)
    alone = settings.common is not None and settings.common.weight_compress_only
    picked = (each for each in tables(module) if (alone if isinstance(each, Experts) else settings.embeddings))
    found += [Candidate(each.site, each.layer, _TABLE_ALONE, _of_table(each)) for each in picked]
    layers = Layers(in_module(settings, names, able_names(found)), profile, found)
    operations = [op for op in main_function(module).walk() if isinstance(op, NNOp)]
    able = [each.layer for each in layers.able]
    others = {layer_of(op): f"nothing quantizes {op.name}" for op in operations}
    others |= {each.layer.name: reason for each in found if (reason := layers.broken(each)) is not None}
    for layer in able:
        others.pop(layer.name, None)
    origins = [op.origin for op in operations if isinstance(op.origin, OriginAttr)]
    frameworks = {o.framework.data for o in origins} | {"pytorch" for o in origins if o.module_class}
    check_names(layers.settings, able, others, types_of(frameworks), names.close)
    _check_bits(layers)
    return layers


def _check_bits(layers: Layers) -> None:
    """Raises CompileError for activations of 16 bits that all layers are to have and, on a chip, none can."""
    common, able = layers.settings.common, layers.able
    if layers.profile.chip is None or common is None or common.activation.bits != 16 or not able:
        return
    if all(each.layer.narrow for each in able):
        first = able[0]
        raise CompileError(
            f"bits: no layer can have an input of 16 bits; {first.layer.narrow}",
            where=layers.settings.where or describe(first.site.compute.location),
            hint="8 bits, or leave out chip, for AMCT's form of the file",
            option="bits",
        )


def check_supported(settings: Settings) -> None:
    """Raises CompileError, located in the settings' file, that names the first setting that nothing does, and says why."""
    if (reason := next(_unsupported(settings), None)) is not None:
        raise CompileError(reason, where=settings.where)


def _unsupported(settings: Settings) -> Iterator[str]:
    if settings.skip_approximation_layers:
        yield "skip_approximation_layers is not supported: no layer is approximated here"


def check_record(record: Record, recurrent: Collection[str]) -> None:
    """Raises CompileError, located in the record's file, for fields of recurrent layers at a layer that is not one of
    these, and for one of these without scales of both weights.
    """
    for name, layer in record.layers.items():
        for field in ("scale_h", "scale_r") if name not in recurrent else ():
            if getattr(layer, field):
                raise record.error(name, f"{field} is of LSTM, GRU and RNN layers")
        if name in recurrent and not (layer.scale_w and layer.scale_r):
            raise record.error(name, "needs scale_w and scale_r, of its two weights")
        if name in recurrent and (layer.scale_d is None) != (layer.scale_h is None):
            raise record.error(name, "needs scale_d and scale_h, of its input and its state, or neither")
