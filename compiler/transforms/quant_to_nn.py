"""`--quant-to-nn`: converts casts of MLIR's `quant` dialect to `nn.quantize` and `nn.dequantize`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from ..dialects.nn import DequantizeOp, NNOp, QParamsAttr, QuantizeOp
from ..dialects.nn.shapes import element_of, shape_of, tensor
from ..dialects.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformType
from ..rewriting import Remarks
from ..support.diagnostics import first_line, op_error
from .nn_to_quant import PREFIX, SCALE_KEY, erase_unused_casts

_Cast = QuantizeCastOp | DequantizeCastOp | StorageCastOp


@dataclass(frozen=True)
class QuantToNnPass(ModulePass):
    """A rule for each cast of the quant dialect makes quantization of nn of it. Scales are rounded to float32, the type in nn."""

    name = "quant-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        casts = [each for each in op.walk() if isinstance(each, _Cast)]
        conversion = _Conversion(_meanings(casts, remarks), remarks)
        for each in casts:
            conversion.convert(each)
        erase_unused_casts(op)
        for each in casts:
            if isinstance(each, QuantizeCastOp) and each.result in conversion.integers:
                Rewriter.erase_op(each)
        remarks.flush()


def _meanings(casts: list[_Cast], remarks: Remarks) -> dict[SSAValue, QParamsAttr]:
    """The meanings of quantized values in `nn`; a remark for each without one."""
    found: dict[SSAValue, QParamsAttr] = {}
    for each in casts:
        for value in (each.input, each.result):
            if value in found or not isinstance(type_ := element_of(value), UniformType):
                continue
            meaning = _meaning(value, type_)
            if isinstance(meaning, QParamsAttr):
                found[value] = meaning
            else:
                remarks.missed(each, *meaning)
    return found


def _meaning(value: SSAValue, type_: UniformType) -> QParamsAttr | tuple[str, str]:
    """Parameters, or the rule and the reason why there are none."""
    t = type_.data
    if not isinstance(source := value.owner, _Cast):
        name = source.name if isinstance(source, Operation) else "outside"
        return "only-casts", f"its quantized value comes from {name}, not from a cast"
    if others := [use.operation for use in value.uses if not isinstance(use.operation, _Cast)]:
        return "only-casts", f"its quantized value goes to {others[0].name}, not to a cast"
    if not t.whole:
        return "narrow-range", f"nn has all of {t.storage}, not {t.low} to {t.high}"
    if not isinstance(t.storage, IntegerType):
        return "storage-type", f"nn.quantize gives integers, not {t.storage}"
    axis, block = t.axis, None
    if t.blocks:
        cut = [each for each in t.blocks if each.size > 1] or [*t.blocks[:1]]
        if len(cut) > 1 or [each.axis for each in t.blocks] != [*range(len(shape_of(value)))]:
            return "blocks", "nn has blocks along one axis, with scales for each index of the others"
        axis, block = cut[0].axis, cut[0].size
    try:
        return QParamsAttr.of(t.storage, np.array(t.scales), t.zero_points, axis, _key(value), block)
    except VerifyException as e:
        return "parameters", first_line(e)


def _key(value: SSAValue) -> str:
    """The key of scales in the side file: the original one, otherwise the value's name."""
    for op in (value.owner, *(use.operation for use in value.uses)):
        if isinstance(op, Operation) and isinstance(key := op.attributes.get(SCALE_KEY), StringAttr):
            return key.data
    return f"{value.name_hint or 'value'}.scale"


class _Conversion:
    """Converts casts in program order; integers represent quantized values in `nn`."""

    def __init__(self, params: dict[SSAValue, QParamsAttr], remarks: Remarks):
        self.params = params
        self.remarks = remarks
        self.integers: dict[SSAValue, SSAValue] = {}

    def convert(self, op: _Cast) -> None:
        match op:
            case QuantizeCastOp(result=quantized) if quantized in self.params:
                made = self._make(QuantizeOp, op, op.input, quantized)
                self.integers[quantized] = made.results[0]
            case DequantizeCastOp(input=quantized) if quantized in self.params:
                made = self._make(DequantizeOp, op, self.integers[quantized], quantized)
                op.result.replace_all_uses_with(made.results[0])
                Rewriter.erase_op(op)
            case StorageCastOp(input=quantized) if quantized in self.params:
                self._give(op, self.integers[quantized])
            case StorageCastOp(result=quantized) if quantized in self.params:
                self.integers[quantized] = self._take(op)
            case _:
                pass

    def _make(self, kind: type[NNOp], op: _Cast, value: SSAValue, quantized: SSAValue) -> NNOp:
        """The operation of `nn` for a cast, with the properties that the cast kept."""
        params = self.params[quantized]
        types = [tensor(params.data.storage, shape_of(op.result)) if kind is QuantizeOp else op.result.type]
        known = kind.get_irdl_definition().properties
        kept = {n: a for n, a in op.attributes.items() if n.startswith(PREFIX) and n.removeprefix(PREFIX) in known}
        properties: dict[str, Attribute | None] = {n.removeprefix(PREFIX): a for n, a in kept.items()}
        rest = {n: a for n, a in op.attributes.items() if n not in kept and n != SCALE_KEY}
        operands: list[Any] = [value]
        made = kind(
            operands=operands, result_types=types, properties={**properties, "qparams": params}, attributes=rest
        )
        made.location, made.results[0].name_hint = op.location, op.result.name_hint
        try:
            made.verify()
        except VerifyException as e:
            raise op_error(op, f"has no meaning in nn: {first_line(e)}") from None
        Rewriter.insert_op(made, InsertPoint.before(op))
        self.remarks.applied(made, "nn", f"written as {made.name}")
        return made

    def _take(self, op: StorageCastOp) -> SSAValue:
        """The integers that a cast reads as quantized; those of `nn` may be unsigned."""
        wanted = tensor(self.params[op.result].data.storage, shape_of(op.input))
        if op.input.type == wanted:
            return op.input
        if isinstance(owner := op.input.owner, UnrealizedConversionCastOp) and owner.inputs[0].type == wanted:
            return owner.inputs[0]
        return _cast_before(op, op.input, wanted)

    def _give(self, op: StorageCastOp, integers: SSAValue) -> None:
        """Makes users of the stored integers use those of `nn`."""
        for use in list(op.result.uses):
            cast = use.operation
            if isinstance(cast, UnrealizedConversionCastOp) and cast.results[0].type == integers.type:
                cast.results[0].replace_all_uses_with(integers)
                Rewriter.erase_op(cast)
        if integers.type != op.result.type and op.result.uses:
            integers = _cast_before(op, integers, op.result.type)
        op.result.replace_all_uses_with(integers)


def _cast_before(op: Operation, value: SSAValue, wanted: Attribute) -> SSAValue:
    cast = UnrealizedConversionCastOp.get([value], [wanted])
    cast.location = op.location
    Rewriter.insert_op(cast, InsertPoint.before(op))
    return cast.results[0]
