"""The layers of a module as settings see them: which of them can be quantized, and why the others cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ....configuration.checks import check_names
from ....configuration.compressed import compressed_operators
from ....configuration.layer_settings import Layer, weight_only
from ....configuration.record import Record
from ....configuration.settings import Settings
from ....diagnostics import CompileError
from ....dialects.nn import (
    AddOp,
    BiasAddOp,
    ConvolutionOp,
    ConvOp,
    ConvTransposeOp,
    DequantizeOp,
    MatMulOp,
    NNOp,
    OriginAttr,
    constant_of,
)
from ....dialects.nn.shapes import shape_of
from ....ir.functions import main_function
from ....ir.layer_names import LayerNames
from ....rewriting import layer_of
from ..profiles import Profile, Row
from .legality import Broken, first_broken, has_weight_only_mode, row_of, types_of, weight_only_broken
from .named_layers import in_module
from .recurrent import Recurrent, recurrent_layers
from .rules.layer_rules import computes_in_integers
from .sites import Site, sites

NO_SETTINGS = Settings()


def layer_at(site: Site, row: Row) -> Layer:
    """The layer as settings know it."""
    op = site.compute
    dimensions = op.spatial_rank if isinstance(op, ConvOp) else None
    two_inputs = row.two_inputs and site.multiplies_inputs
    return Layer(
        name=layer_of(op),
        type=op.origin.op_type.data if isinstance(op.origin, OriginAttr) else op.name,
        module=op.origin.module_class if isinstance(op.origin, OriginAttr) else "",
        ascend=_ascend_types(op, dimensions),
        weighted=row.weight is not None and not two_inputs,
        channel_wise=row.per_channel and not _is_batch(op),
        low_bits=row.low_bits == "always" or dimensions == 2,
        symmetric_only=dimensions == 3 or row.symmetric or two_inputs or _is_backprop(op),
        weight_only=has_weight_only_mode(op, row),
        wide=takes_int16(site, row) and (not row.as_amct or _is_wide(op)),
        rounds=not row.as_amct or isinstance(op, MatMulOp) or (isinstance(op, ConvolutionOp) and op.spatial_rank == 2),
    )


def takes_int16(site: Site, row: Row) -> bool:
    """Whether a layer may have an input of 16 bits: everywhere, or where Ascend IR computes it in integers then."""
    if computes_in_integers not in row.rules:
        return True
    from ....lowering.ascend.trial import INT16, integer_refusal

    two_inputs = row.two_inputs and site.multiplies_inputs
    return not two_inputs and integer_refusal(site.compute, INT16) is None


def _is_wide(op: NNOp) -> bool:
    """Whether AMCT for PyTorch quantizes a layer's input to INT16: in convolutions of one and two dimensions, and in products
    with a bias, which the exporter may have left to the addition behind it.
    """
    if isinstance(op, MatMulOp):
        return op.bias is not None or any(_is_bias(use.operation, op) for use in op.result.uses)
    return isinstance(op, ConvolutionOp) and op.spatial_rank < 3


def _is_bias(reader: Operation, op: NNOp) -> bool:
    """Whether an operation adds a layer's bias: it is a part of the same module."""
    return isinstance(reader, AddOp | BiasAddOp) and layer_of(reader) == f"{layer_of(op)}/Add"


def _ascend_types(op: NNOp, dimensions: int | None) -> tuple[str, ...]:
    """The operators of Ascend IR that AMCT's table has for a layer; of two-dimensional convolutions not that of three."""
    row = row_of(op)
    other = {3: "Conv2D"}.get(dimensions or 0, "Conv3D")
    return () if row is None else tuple(name for name in row.ascend if name != other or len(row.ascend) == 1)


def _is_batch(op: NNOp) -> bool:
    """A product with a batch of weights. Integer kernels take one scale for all of them."""
    return isinstance(op, MatMulOp) and len(shape_of(op.rhs)) > 2


def _is_backprop(op: NNOp) -> bool:
    """TensorFlow's transposed convolution; the operator of Ascend IR has no `offset_x`, as Conv3D has none."""
    row = row_of(op)
    return row is not None and row.ascend == ("Conv2DBackpropInput",)


def channel_axis(op: NNOp) -> int | None:
    """The axis of the weight that counts output channels; None where no axis does (grouped transposed convolution)."""
    if isinstance(op, ConvTransposeOp):
        return 1 if op.group_count == 1 else None
    if isinstance(op, MatMulOp):
        rank = len(shape_of(op.rhs))
        return None if rank < 2 else rank - (1 if op.transpose_b is None else 2)
    return 0


def quantizable_layers(module: ModuleOp, profile: Profile, settings: Settings = NO_SETTINGS) -> list[Layer]:
    """The layers that the profile quantizes and legality allows as settings have them, in program order.

    Those that are quantized already are among them.
    """
    found = ((site, profile.rows[type(site.compute)]) for site in sites(module, profile.rows))
    layers = [layer_at(site, row) for site, row in found if _broken(site, row, profile, settings) is None]
    recurrent = (e.layer for e in recurrent_layers(module) if recurrent_broken(e, profile, settings) is None)
    return [*layers, *recurrent]


def recurrent_broken(each: Recurrent, profile: Profile, settings: Settings) -> str | None:
    """The reason that keeps a recurrent layer from being quantized as settings have it: all of it, or its weights alone."""
    alone = weight_only(settings, each.layer)
    if each.is_quantized and (alone or each.activations is not None):
        return None
    if not alone and profile.points == "values":
        return f"profile {profile.name} quantizes only its weights, on request"
    broken = each.broken if alone else each.float_because
    return None if broken is None else broken[1]


def _broken(site: Site, row: Row, profile: Profile, settings: Settings) -> Broken | None:
    """The first rule that keeps a layer from being quantized as settings have it: all of it, or its weight alone."""
    if is_quantized(site):
        return None
    if weight_only(settings, layer_at(site, row)):
        return weight_only_broken(site, row)
    return first_broken(site, row.rules, profile.table)


def is_quantized(site: Site) -> bool:
    """The layer's input is quantized already, of a product of two both, or its weight alone."""
    return all(is_dequantized(site.operand(i)) for i in site.inputs) or has_integer_weight(site)


def is_dequantized(value: SSAValue | None) -> bool:
    """Whether a value comes from integers."""
    return isinstance(value, OpResult) and isinstance(value.op, DequantizeOp)


def has_integer_weight(site: Site) -> bool:
    """The layer's weight is quantized already."""
    if not isinstance(site.compute, ConvolutionOp | MatMulOp):
        return False
    weight = site.operand(1)
    return (
        isinstance(weight, OpResult)
        and isinstance(weight.op, DequantizeOp)
        and constant_of(weight.op.input) is not None
    )


def half_quantized(site: Site, row: Row) -> str | None:
    """The reason for a layer whose input is already quantized and whose weight is not."""
    if row.weight is None:
        return None
    weight = site.operand(row.weight)
    if isinstance(weight, OpResult) and isinstance(weight.op, DequantizeOp):
        return None
    return "its input is quantized in the model, its weight is not: both stay so"


def named_in(settings: Settings, module: ModuleOp, profile: Profile) -> Settings:
    """The settings with every layer called by its own name, where they have the path of a PyTorch module (`in_module`)."""
    able = {layer.name for layer in quantizable_layers(module, profile)}
    return in_module(settings, LayerNames.of(module), able)


def checked(settings: Settings, module: ModuleOp, profile: Profile) -> Settings:
    """The settings as `named_in` gives them, for the module: everything that they name is in it, files that they name can be
    read, and nothing is asked that is not done.

    Raises CompileError, located in the settings' file or in one that it names.
    """
    check_supported(settings)
    if settings.nuq_config is not None:
        compressed_operators(Path(settings.nuq_config.mapping_file))
    names = LayerNames.of(module)
    settings = named_in(settings, module, profile)
    layers = quantizable_layers(module, profile, settings)
    operations = [op for op in main_function(module).walk() if isinstance(op, NNOp)]
    others = {layer_of(op): f"nothing quantizes {op.name}" for op in operations}
    for site in sites(module, profile.rows):
        if (broken := _broken(site, profile.rows[type(site.compute)], profile, settings)) is not None:
            others[layer_of(site.compute)] = broken[1]
    for each in recurrent_layers(module):
        if (reason := recurrent_broken(each, profile, settings)) is not None:
            others[each.layer.name] = reason
    origins = [op.origin for op in operations]
    frameworks = {o.framework.data for o in origins if isinstance(o, OriginAttr)}
    frameworks |= {"pytorch" for o in origins if isinstance(o, OriginAttr) and o.module_class}
    for layer in layers:
        others.pop(layer.name, None)
    check_names(settings, layers, others, types_of(frameworks), names.close)
    return settings


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
