"""Record files of AMCT: the quantization parameters of a quantized `nn` module, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, Signedness
from xdsl.ir import Operation, OpResult, SSAValue

from ..configuration.record import (
    CLUSTERS,
    NARROW_WEIGHTS,
    NUMBERS,
    UNWRITTEN,
    LayerRecord,
    Record,
    as_written,
    own_fields,
    record_text,
)
from ..dialects.nn import (
    CORRECTED,
    ConstantOp,
    DequantizeFloatOp,
    DequantizeOp,
    GatherOp,
    QParams,
    QuantizeOp,
    constant_of,
    dequantize_of,
)
from ..dialects.nn.shapes import element_of
from ..ir.dtypes import numpy_dtype
from ..ir.functions import layer_order, main_function
from ..ir.precision import FORCE_FP16, forces_fp16
from ..rewriting import Remarks, layer_of
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.files import replacing
from ..transforms.quantization.decide.grids import Grids
from ..transforms.quantization.decide.layer_inputs import ends_layer, inputs_of
from ..transforms.quantization.decide.layers import is_quantized
from ..transforms.quantization.decide.legality import row_of
from ..transforms.quantization.decide.recurrent import Recurrent, recurrent_layers
from ..transforms.quantization.decide.sites import Site, shift_of, sites
from ..transforms.quantization.profiles import Profile, Row, profile_of
from ..transforms.quantization.recover.balance_channels import factors_of
from . import Target


@dataclass(frozen=True)
class RecordTarget(Target):
    """AMCT's record: scales and offsets by layer."""

    name = "record"
    ending = ".txt"
    graph_only = True

    flavour: str | None = None
    """Whose record it is: onnx, tensorflow, caffe or pytorch; by default that of the profile's AMCT, if it has one. A remark
    marks fields that AMCT's record does not have.
    """

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        if self.flavour not in (None, *NUMBERS):
            raise CompileError(f"-t record: flavour '{self.flavour}' is not one of {', '.join(NUMBERS)}")
        flavour = self.flavour or profile_of(session).amct
        written = record_of(module, session)
        record = Record({name: as_written(layer, flavour) for name, layer in written.layers.items()})
        if flavour == "pytorch":
            record = _as_made(record, module)
            _note_missing(written, session)
        own = {name: None for layer in record.layers.values() for name in own_fields(layer, flavour)}
        if own:
            session.note(
                f"the record marks {', '.join(own)} as amct-opt's own: AMCT's record for {flavour} has no such field"
            )
        with replacing(path) as stream:
            stream.write((_note_of_biases(module) + record_text(record, flavour)).encode())
        return [path]


def _note_of_biases(module: ModuleOp) -> str:
    """A comment, if biases are not those of the model: a record cannot store them."""
    corrected = any(isinstance(op, ConstantOp) and CORRECTED in op.key for op in module.walk())
    return "# Biases were corrected. With this record the model keeps its own.\n" if corrected else ""


def _as_made(record: Record, module: ModuleOp) -> Record:
    """The record in the order of AMCT for PyTorch: balanced layers as they run, then the others as their modules were made."""
    place = {name: i for i, name in enumerate(layer_order(main_function(module)))}

    def key(name: str) -> int:
        return -1 if record.layers[name].tensor_balance_factor else place.get(name.partition("@")[0], len(place))

    return Record({name: record.layers[name] for name in sorted(record.layers, key=key)})


def _note_missing(record: Record, session: Session) -> None:
    """Notes facts that a record of AMCT for PyTorch does not contain, so that nobody can read them from there."""
    given = {name for layer in record.layers.values() for name in layer.given()}
    if missing := sorted(given & UNWRITTEN):
        session.note(
            f"the record does not contain {' and '.join(missing)}: AMCT's for pytorch has only what calibration finds"
        )


def record_of(module: ModuleOp, session: Session) -> Record:
    """The parameters of every quantized layer, including weight-only ones, in program order.

    A layer whose parameters a record cannot express is left out with a remark; a warning reports if no layer is left.
    """
    remarks = Remarks(session, RecordTarget.name)
    profile = profile_of(session)
    layers: dict[str, LayerRecord] = {}
    ambiguous: set[str] = set()
    told: set[str] = set()
    grids = Grids(profile.rows)
    for site in sites(module, profile.rows):
        try:
            for name, layer in _records(site, profile, grids):
                entry = replace(layer, skip_fusion=True) if name in session.skip_fusion else layer
                if layers.setdefault(name, entry) != entry:
                    ambiguous.add(name)
                    raise CompileError(
                        "its operations have different parameters, and a record has one entry for a layer"
                    )
        except CompileError as e:
            told.add(layer_of(site.compute))
            remarks.missed(site.compute, "recorded", e.message)
    for each in recurrent_layers(module):
        if each.is_quantized:
            try:
                layers[each.layer.name] = _recurrent_record(each)
            except CompileError as e:
                remarks.missed(each.op, "recorded", e.message)
    for op in module.walk():
        if isinstance(op, GatherOp) and (table := dequantize_of(op.input)) is not None and constant_of(table.input):
            remarks.missed(op, "recorded", "its table is quantized, and records do not describe tables of embeddings")
    place = {layer_of(op): i for i, op in enumerate(module.walk())}
    names = sorted(layers, key=lambda name: place.get(name) or place.get(name.rpartition(":")[0], 0))
    layers = {name: layers[name] for name in names if name not in ambiguous}
    for op in _unread(module, {*layers, *told}, profile, grids):
        remarks.missed(
            op, "recorded", "its result is quantized, and a record has the inputs of layers: none of them reads it"
        )
    remarks.flush()
    if not layers:
        session.warn("no layer is quantized in a way that can be recorded: the record is empty")
    return Record(layers)


def _unread(module: ModuleOp, layers: Iterable[str], profile: Profile, grids: Grids) -> list[Operation]:
    """The operations whose quantized results none of these layers reads."""
    names = {part for name in layers for part in (name, name.rpartition(":")[0])}
    read: set[SSAValue] = set()
    for site in sites(module, profile.rows):
        if layer_of(site.compute) in names:
            points = (grids.behind(site.operand(i)) for i in range(len(site.compute.operands)))
            read |= {point.input for point in points if isinstance(point, DequantizeOp)}
    for each in recurrent_layers(module):
        read |= {one.input for one in each.activations or () if each.layer.name in names}
    quantized = [op for op in module.walk() if isinstance(op, QuantizeOp) and op.result not in read]
    return [op.input.op if isinstance(op.input, OpResult) else op for op in quantized]


def _records(site: Site, profile: Profile, grids: Grids) -> Iterator[tuple[str, LayerRecord]]:
    """The entry of a layer, and those of further inputs, or of inputs of `tensor_quantize`.

    Raises CompileError for what a record cannot express.
    """
    name, row = layer_of(site.compute), profile.rows[type(site.compute)]
    source = row_of(site.compute, profile.table)
    if source is not None and source.tensor_only:
        yield from _tensor_records(site, [each.value for each in inputs_of(site)] if ends_layer(site) else [], grids)
        return
    params = _params_behind(site.activation, grids)
    if is_quantized(site) or params is not None:
        yield name, _layer_record(site, row, params)
        others = range(len(site.compute.operands)) if row.active else ()
        taken = (0, row.bias) if site.multiplies_inputs else (0, row.weight, row.bias)
        yield from _tensor_records(site, [None if i in taken else site.operand(i) for i in others], grids)


def _tensor_records(site: Site, values: Sequence[SSAValue | None], grids: Grids) -> Iterator[tuple[str, LayerRecord]]:
    """An entry `layer:index` for each quantized value."""
    for i, value in enumerate(values):
        if (params := _params_behind(value, grids)) is not None:
            yield (
                f"{layer_of(site.compute)}:{i}",
                LayerRecord(
                    scale_d=_scale(params),
                    offset_d=params.zero_point[0],
                    act_type=_integers(params),
                    is_tensor_quantize=True,
                    fakequant_precision_mode=_mode(site),
                ),
            )


def _params_behind(value: SSAValue | None, grids: Grids) -> QParams | None:
    """The parameters that a value was dequantized with, before passive operations."""
    point = grids.behind(value)
    return point.qparams.data if isinstance(point, DequantizeOp) else None


def _layer_record(site: Site, row: Row, params: QParams | None) -> LayerRecord:
    """The entry of a layer; `params` are those of the input. Raises CompileError for a quantization that a record cannot
    express.
    """
    value = None if row.weight is None or site.multiplies_inputs else site.operand(row.weight)
    if isinstance(value, OpResult) and isinstance(value.op, DequantizeFloatOp):
        raise CompileError(f"its weight is stored as {element_of(value.op.input)}, and a record has integers")
    weight = dequantize_of(value)
    if row.weight is not None and weight is None and not site.multiplies_inputs:
        raise CompileError("its input is quantized, its weight is not")
    scales, offsets = _scales_of(weight)
    if params is None:
        assert weight is not None, "only layers with weights have these alone"
        return LayerRecord(scale_w=scales, offset_w=offsets, wts_type=_weight_type(weight), weight_compress_only=True)
    levels = () if weight is None else weight.level_list
    return LayerRecord(
        scale_d=_scale(params),
        offset_d=params.zero_point[0],
        scale_w=scales,
        offset_w=offsets,
        shift_bit=() if (shift := shift_of(site.compute)) is None else shift.shift_list,
        tensor_balance_factor=factors_of(site),
        op_data_type=f"FLOAT{8 * numpy_dtype(element_of(site.compute.operands[0])).itemsize}",
        act_type=_integers(params),
        wts_type=None if weight is None else _weight_type(weight),
        fakequant_precision_mode=_mode(site),
        cluster=levels
        if len(levels) in CLUSTERS
        else (),  # fewer integers than requested levels: uniform rounding gives them too
    )


def _recurrent_record(each: Recurrent) -> LayerRecord:
    """The scales of both weights of a recurrent layer, and those of its input and state if these are quantized."""
    w, r = (back for value in each.weights if (back := dequantize_of(value)) is not None)
    (scale_w, offset_w), (scale_r, offset_r) = _scales_of(w), _scales_of(r)
    weights = LayerRecord(
        scale_w=scale_w,
        offset_w=offset_w,
        scale_r=scale_r,
        offset_r=offset_r,
        wts_type=_weight_type(w),
        weight_compress_only=each.activations is None,
    )
    if each.activations is None:
        return weights
    x, h = (one.qparams.data for one in each.activations)
    return replace(
        weights,
        scale_d=_scale(x),
        offset_d=x.zero_point[0],
        act_type=_integers(x),
        scale_h=_scale(h),
        offset_h=h.zero_point[0],
        fakequant_precision_mode=_mode(each.site),
    )


def _scales_of(weight: DequantizeOp | None) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and the same number of offsets; 1 and 0 for a layer without a weight (AMCT)."""
    if weight is None:
        return (1.0,), (0,)
    params = weight.qparams.data
    if params.block is not None:
        raise CompileError("its weight has scales per group, which no record has")
    scales = tuple(map(float, params.scales().reshape(-1)))
    return scales, params.zero_point * len(scales) if len(params.zero_point) == 1 else params.zero_point


def _weight_type(weight: DequantizeOp) -> str:
    """The name of a weight's integer type."""
    stated = "" if weight.bits is None else f"INT{weight.bits.value.data}"
    return stated if stated in NARROW_WEIGHTS else _integers(weight.qparams.data)


def _mode(site: Site) -> str | None:
    return FORCE_FP16 if forces_fp16(site.compute) else None


def _scale(params: QParams) -> float:
    if params.axis is not None:
        raise CompileError("its input has more than one scale")
    return float(params.scales())


def _integers(params: QParams) -> str:
    """The name of the integer type."""
    if params.storage.signedness.data == Signedness.UNSIGNED:
        raise CompileError(f"its integers are {params.storage}")
    return f"INT{params.storage.width.data}"
