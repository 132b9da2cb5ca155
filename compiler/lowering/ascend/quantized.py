"""Reads the quantized form of `nn`: the integers behind the operands of an operation, and their scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import ascend, nn
from ...dialects.ascend.base import F, data_type_number, i4, i8
from ...dialects.ascend.cube import DATA
from ...dialects.nn import NNOp
from ...dialects.nn.shapes import element_of
from ...ir.precision import forces_fp16, precision_mode, shortened
from ...runtime.affine import are_normal
from ..refusal import NotLowered, require
from .constants import Array
from .rules import Builder, Key, Source, keys, keys_of


@dataclass(frozen=True)
class Activation:
    """A value of int8 or int16, `real = (value - zero_point) * scale`."""

    value: SSAValue
    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class Weight:
    """The other operand of an activation: int8 or int4, symmetric; a constant, or the other activation of a product of
    two.

    float32 scales of shape [] or [channels], `axis` the channels' axis.
    """

    value: SSAValue
    scales: Array
    axis: int | None


@dataclass(frozen=True)
class Bias:
    """A bias for the matrix engine (int32, added to the accumulators), or a float one to add afterwards."""

    integers: SSAValue | None
    floats: SSAValue | None


QuantizedRule = Callable[[Builder, Any, Activation], Sequence[SSAValue]]

QUANTIZED_RULES: dict[Key, QuantizedRule] = {}
"""The rules for integer computation on a quantized activation. If one refuses, the rule for float values is tried."""

_Op = TypeVar("_Op", bound=NNOp)


def lowers_quantized(
    *kinds: type[_Op], sources: Sequence[Source] = ()
) -> Callable[[Callable[[Builder, _Op, Activation], Sequence[SSAValue]]], QuantizedRule]:
    """Registers a rule for these operation classes, on the integers behind their first operand."""

    def register(rule: Callable[[Builder, _Op, Activation], Sequence[SSAValue]]) -> QuantizedRule:
        QUANTIZED_RULES.update(dict.fromkeys(keys(kinds, sources), rule))
        return rule

    return register


def quantized_rules(op: NNOp) -> list[QuantizedRule]:
    """The rules for an operation in integers, the best first."""
    return [QUANTIZED_RULES[key] for key in keys_of(op) if key in QUANTIZED_RULES]


@dataclass
class Quantizer:
    """Makes one AscendQuant per value and parameters, at the first of the quantizations that it replaces."""

    _first: dict[nn.QuantizeOp, nn.QuantizeOp] = field(default_factory=dict[nn.QuantizeOp, nn.QuantizeOp])
    _made: dict[nn.QuantizeOp, SSAValue] = field(default_factory=dict[nn.QuantizeOp, SSAValue])

    @staticmethod
    def of(operations: Iterable[nn.QuantizeOp]) -> Quantizer:
        """Groups equal quantizations, given in program order."""
        quantizer, seen = Quantizer(), dict[tuple[SSAValue, nn.QParamsAttr], nn.QuantizeOp]()
        for op in operations:
            quantizer._first[op] = seen.setdefault((op.input, op.qparams), op)
        return quantizer

    def quantized(self, op: nn.QuantizeOp) -> SSAValue:
        """The integers of AscendQuant for a per-tensor quantization. Raises VerifyException like its verifier."""
        first = self._first[op]
        if first not in self._made:
            params = first.qparams.data
            with np.errstate(over="ignore"):  # an infinite reciprocal is refused by the verifier
                reciprocal = np.float32(1) / np.float32(params.scales())
            quant = ascend.AscendQuantOp.make(
                first.input,
                scale=reciprocal,
                offset=int(params.zero_points()),
                dst_type=ascend.AscendQuantOp.type_number(params.storage),
                fakequant_precision_mode=precision_mode(first),
                origin=first.origin,
                location=first.location,
                name=first.result.name_hint,
            )
            Rewriter.insert_op(quant, InsertPoint.before(first))
            self._made[first] = quant.y
        return self._made[first]

    def activation(self, dequantize: nn.DequantizeOp) -> Activation:
        """The integers behind a dequantized activation. Raises NotLowered if AscendQuant cannot produce them."""
        source = dequantize.input
        if not isinstance(source, OpResult) or not isinstance(source.op, nn.QuantizeOp):
            raise NotLowered("quantize-before", "its activation comes as integers, not from a quantize")
        equal = source.op.qparams == dequantize.qparams
        require(equal, "equal-parameters", "its quantize and dequantize differ")
        return self.integers(source.op)

    def integers(self, quantize: nn.QuantizeOp) -> Activation:
        """The integers of a quantize. Raises NotLowered if AscendQuant cannot produce them."""
        params = quantize.qparams.data
        require(params.storage in DATA, "integer-activation", f"its activation is {params.storage}, not i8 or i16")
        require(params.axis is None, "per-tensor-activation", "AscendQuant has one scale for the whole tensor")
        element = element_of(quantize.input)
        require(element in F, "float-type", f"AscendQuant takes {' or '.join(map(str, F))}, not {element}")
        return Activation(self.quantized(quantize), np.float32(params.scales()), int(params.zero_points()))


def weight_of(value: SSAValue) -> Weight:
    """The constant behind a dequantized weight. Raises NotLowered if there is none."""
    if (dequantize := nn.dequantize_of(value)) is None:
        raise NotLowered("int8-weight", "its weight is not quantized")
    params = dequantize.qparams.data
    require(params.storage in (i8, i4), "int8-weight", f"its weight is {params.storage}, not i8 or i4")
    require(nn.constant_of(dequantize.input) is not None, "constant-weight", "its weight is computed at run time")
    require(not params.zero_points().any(), "symmetric-weight", "its weight has zero points that are not 0")
    require(params.block is None, "channel-scales", "its weight has scales per group, not per output channel")
    return Weight(dequantize.input, params.scales(), params.axis)


def stored_as_int8(build: Builder, weight: SSAValue) -> SSAValue:
    """The constant as int8; int4 weights are stored as int8."""
    constant = nn.constant_of(weight)
    assert constant is not None
    if element_of(weight) == i8:
        return weight
    return build.constant(constant.array.astype(np.int8), constant.key, constant.location)


def dequantization_scale(activation: Activation, weight: Weight) -> Array:
    """`float32(s_x) * float32(s_w)` in float32: shape [] or [channels]. Raises NotLowered for one out of range."""
    with np.errstate(over="ignore", under="ignore"):
        scales = np.asarray(activation.scale * weight.scales)
    require(are_normal(scales), "scale-range", "activation scale times weight scale leaves the normal range of float32")
    return scales


def bias_of(value: SSAValue | None, scales: Array) -> Bias:
    """The bias of an operation whose accumulators have these scales. Raises NotLowered for integers of other scales."""
    if (dequantize := nn.dequantize_of(value)) is None:
        return Bias(None, value)
    params = dequantize.qparams.data
    require(params.storage == i32, "int32-bias", f"its bias is {params.storage}, not i32")
    require(nn.constant_of(dequantize.input) is not None, "constant-bias", "its bias is computed at run time")
    require(not params.zero_points().any(), "symmetric-bias", "its bias has zero points that are not 0")
    equal = bool(np.all(params.scales() == scales))
    require(equal, "bias-scale", "the scale of its bias is not activation scale times weight scale")
    return Bias(dequantize.input, None)


def stored(build: Builder, scales: Array) -> Array:
    """Scales of accumulators in the form of deq_scale: FORCE_FP16_QUANT clears their last bits."""
    return shortened(scales) if forces_fp16(build.op) else scales


def dequantized(build: Builder, accumulator: SSAValue, scales: Array) -> SSAValue:
    """AscendDequant of an accumulator to the source operation's element type; scales of shape [1], [C] or of full rank."""
    constant = build.constant(np.asarray(scales, np.float32), f"{build.hint}_deq_scale")
    dtype = data_type_number(element_of(build.op.results[0]))
    return build.add(
        ascend.AscendDequantOp,
        accumulator,
        constant,
        dtype=dtype,
        fakequant_precision_mode=precision_mode(build.op),
        name=f"{build.hint}_deq",
    ).y
