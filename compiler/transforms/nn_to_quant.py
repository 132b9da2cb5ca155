"""`--nn-to-quant`: `nn.quantize` and `nn.dequantize` as casts of MLIR's `quant` dialect."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects.nn import DequantizeFloatOp, DequantizeOp, QuantizeFloatOp, QuantizeOp
from ..dialects.nn.qparams import QParams
from ..dialects.nn.shapes import DYNAMIC, Shape, element_of, shape_of, tensor
from ..dialects.quant import (
    MOST_BITS,
    Blocks,
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    Uniform,
    UniformType,
    in_range,
    stored,
)
from ..ir.dtypes import integer_range
from ..ir.weights import Weight
from ..rewriting import Remarks

PREFIX = "nn."
"""The prefix of attributes on casts for facts that `quant` cannot express: `nn.origin`, `nn.group` and so on."""
SCALE_KEY = "nn.scale"
"""The attribute with the key of scales that `nn` stores next to the text."""


@dataclass(frozen=True)
class NnToQuantPass(ModulePass):
    """A rule for each operation turns quantization into casts of the quant dialect; --quant-to-nn is the inverse."""

    name = "nn-to-quant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        for each in list(op.walk()):
            if isinstance(each, QuantizeOp):
                _quantize(each, remarks)
            elif isinstance(each, DequantizeOp):
                _dequantize(each, remarks)
            elif isinstance(each, QuantizeFloatOp | DequantizeFloatOp):
                stored = each.result if isinstance(each, QuantizeFloatOp) else each.input
                remarks.missed(each, "storage-type", f"quant stores integers, not {element_of(stored)}")
        erase_unused_casts(op)
        remarks.flush()


def _quantize(op: QuantizeOp, remarks: Remarks) -> None:
    if (type_ := _type_of(op, element_of(op.input), remarks)) is None:
        return
    cast = QuantizeCastOp(op.input, tensor(type_, shape_of(op.result)))
    made = [cast, *storage_casts(cast.result, op.result.type)]
    _replace(op, cast, made, remarks)


def _dequantize(op: DequantizeOp, remarks: Remarks) -> None:
    if (type_ := _type_of(op, element_of(op.result), remarks)) is None:
        return
    source = _quantized(op.input, type_)
    casts = [] if source is not None else _from_storage(op.input, type_)
    cast = DequantizeCastOp(casts[-1].results[0] if source is None else source, op.result.type)
    _replace(op, cast, [*casts, cast], remarks)


def _quantized(value: SSAValue, type_: UniformType) -> SSAValue | None:
    """The quantized value whose storage these integers are, if it has this type."""
    if isinstance(value.owner, UnrealizedConversionCastOp):
        value = value.owner.inputs[0]
    owner = value.owner
    return owner.input if isinstance(owner, StorageCastOp) and element_of(owner.input) == type_ else None


def storage_casts(quantized: SSAValue, wanted: Attribute) -> list[Operation]:
    """Casts a quantized value to integers of a type of `nn`. Upstream stores unsigned integers as signless."""
    type_ = element_of(quantized)
    assert isinstance(type_, UniformType)
    cast = StorageCastOp(quantized, tensor(stored(type_.data), shape_of(quantized)))
    return [cast] if cast.result.type == wanted else [cast, UnrealizedConversionCastOp.get([cast.result], [wanted])]


def _from_storage(integers: SSAValue, type_: UniformType) -> list[Operation]:
    casts: list[Operation] = []
    bits = tensor(stored(type_.data), shape_of(integers))
    if integers.type != bits:
        casts.append(UnrealizedConversionCastOp.get([integers], [bits]))
        integers = casts[0].results[0]
    return [*casts, StorageCastOp(integers, tensor(type_, shape_of(integers)))]


def _replace(op: QuantizeOp | DequantizeOp, cast: Operation, made: list[Operation], remarks: Remarks) -> None:
    """Replaces an operation by others; `cast` keeps its properties."""
    cast.attributes.update(op.attributes)
    cast.attributes.update({f"{PREFIX}{k}": v for k, v in op.properties.items() if k != "qparams"})
    if isinstance(scale := op.qparams.data.scale, Weight):
        cast.attributes[SCALE_KEY] = StringAttr(scale.key)
    for each in made:
        each.location = op.location
    remarks.applied(op, "quant", f"written as {cast.name}")
    cast.results[0].name_hint = op.result.name_hint
    Rewriter.replace_op(op, made, [made[-1].results[0]])


def _type_of(op: QuantizeOp | DequantizeOp, expressed: Attribute, remarks: Remarks) -> UniformType | None:
    """The type of the quantized values; None, with a remark, if upstream has none."""
    params = op.qparams.data
    scales = [float(s) for s in params.scales().reshape(-1)]
    if params.storage.width.data > MOST_BITS:
        remarks.missed(op, "storage-bits", f"quant stores at most {MOST_BITS} bits, not {params.storage}")
        return None
    if params.block is not None and (reason := _uncut(params, shape_of(op.input))) is not None:
        remarks.missed(op, "blocks", f"quant has blocks of one size: {reason}")
        return None
    if outside := [s for s in scales if not in_range(s, expressed)]:
        remarks.missed(op, "scale-range", f"quant has no scale {outside[0]:g} for {expressed}")
        return None
    return UniformType(_uniform(params, expressed, scales, shape_of(op.input)))


def _uncut(params: QParams, shape: Shape) -> str | None:
    """The reason why a tensor is not cut into whole blocks."""
    assert params.axis is not None, "blocks have an axis"
    assert params.block is not None
    if DYNAMIC in shape:
        return "a size is not known"
    left = shape[params.axis] % params.block
    return f"the last one along axis {params.axis} has {left} elements, not {params.block}" if left else None


def _uniform(params: QParams, expressed: Attribute, scales: list[float], shape: Shape) -> Uniform:
    points = params.zero_point * len(scales) if len(params.zero_point) == 1 else params.zero_point
    whole = params.storage, *integer_range(params.storage), expressed, tuple(scales), points
    if params.block is None:
        return Uniform(*whole, params.axis)
    sizes = ((axis, params.block if axis == params.axis else 1) for axis in range(len(shape)))
    return Uniform(*whole, blocks=tuple(Blocks(axis, size, shape[axis] // size) for axis, size in sizes))


def erase_unused_casts(module: ModuleOp) -> None:
    """Removes unused casts of integers."""
    for op in reversed(list(module.walk())):
        if isinstance(op, StorageCastOp | UnrealizedConversionCastOp) and not op.results[0].uses:
            Rewriter.erase_op(op)
