"""The quantized form of `nn`: the conditions that patterns in integers share, and the integers of operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, cast

import numpy as np
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import F, data_type_number, i4, i8
from ...dialects.ascend.cube import DATA, PACKED
from ...dialects.nn import NNOp, QParams
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import as_stored
from ...ir.precision import forces_fp16, precision_mode, shortened
from ...rewriting import condition
from ...runtime.affine import are_normal
from .constants import Array
from .quantizer import Activation
from .rules import Builder, Lowering, Op

Inputs = Sequence[tuple[str, nn.DequantizeOp | None]]
"""The dequantizations of inputs that are to be integers, by name."""


class QuantizedInputs(Lowering[Op], Generic[Op]):
    """The operator takes the integers of a quantize in front of each of its inputs."""

    def inputs(self, op: Op) -> Inputs:
        return (("activation", nn.dequantize_of(op.operands[0])),)

    @condition
    def quantize_before(self, op: Op) -> str | None:
        """a quantize gives the integers of the input"""
        for name, dequantize in self.inputs(op):
            if dequantize is None:
                return f"its {name} is not quantized"
            if not isinstance(dequantize.input.owner, nn.QuantizeOp):
                return f"its {name} comes as integers, not from a quantize"
        return None

    @condition
    def equal_parameters(self, op: Op) -> str | None:
        """the quantize and the dequantize of the input have equal parameters"""
        found = [(each.input.owner, each) for _, each in self.inputs(op) if each is not None]
        equal = all(isinstance(q, nn.QuantizeOp) and q.qparams == each.qparams for q, each in found)
        return None if equal else "its quantize and dequantize differ"


class FromAscendQuant(Lowering[Op], Generic[Op]):
    """AscendQuant makes the integers."""

    def quantizes(self, op: Op) -> Sequence[nn.QuantizeOp]:
        """The quantizations that AscendQuant is to replace."""
        raise NotImplementedError

    @condition
    def integer_activation(self, op: Op) -> str | None:
        """the input is quantized to int8 or int16, which AscendQuant gives"""
        types = (each.qparams.data.storage for each in self.quantizes(op))
        return next((f"its activation is {storage}, not i8 or i16" for storage in types if storage not in DATA), None)

    @condition
    def per_tensor_activation(self, op: Op) -> str | None:
        """the input has one scale"""
        whole = all(each.qparams.data.axis is None for each in self.quantizes(op))
        return None if whole else "AscendQuant has one scale for the whole tensor"

    @condition
    def float_type(self, op: Op) -> str | None:
        """what is quantized is float16 or float32"""
        elements = (element_of(each.input) for each in self.quantizes(op))
        wrong = next((each for each in elements if each not in F), None)
        return None if wrong is None else f"AscendQuant takes {' or '.join(map(str, F))}, not {wrong}"


class InIntegers(FromAscendQuant[Op], QuantizedInputs[Op], Generic[Op]):
    """The operator computes on the integers of its first operand."""

    def match(self, op: Operation) -> Op | None:
        if (found := super().match(op)) is None or not found.operands or nn.dequantize_of(found.operands[0]) is None:
            return None
        return found if second_activation(found) is None else None

    def quantizes(self, op: Op) -> Sequence[nn.QuantizeOp]:
        return [cast(nn.QuantizeOp, each.input.owner) for _, each in self.inputs(op) if each is not None]

    def params(self, op: Op) -> QParams:
        """The parameters of the first input."""
        ((_, dequantize), *_rest) = self.inputs(op)
        assert dequantize is not None
        return dequantize.qparams.data

    def activations(self, build: Builder, op: Op) -> list[Activation]:
        """The integers of the inputs. Raises VerifyException if AscendQuant cannot have their parameters."""
        return [build.quantizer.activation(each) for _, each in self.inputs(op) if each is not None]


def second_activation(op: NNOp) -> nn.DequantizeOp | None:
    """The dequantize of a product's second operand, if that operand is computed."""
    dequantize = nn.dequantize_of(op.rhs) if isinstance(op, nn.MatMulOp) else None
    return None if dequantize is None or nn.constant_of(dequantize.input) is not None else dequantize


class IntegerWeight(Lowering[Op], Generic[Op]):
    """The weight is a constant of integers."""

    def weights(self, op: Op) -> Sequence[SSAValue]:
        return (op.operands[1],)

    @condition
    def int8_weight(self, op: Op) -> str | None:
        """the weight is int8 or int4"""
        for value in self.weights(op):
            if (dequantize := nn.dequantize_of(value)) is None:
                return "its weight is not quantized"
            if (storage := dequantize.qparams.data.storage) not in (i8, i4):
                return f"its weight is {storage}, not i8 or i4"
        return None


class SymmetricWeight(IntegerWeight[Op], Generic[Op]):
    """The weight is symmetric, with scales per output channel."""

    PER: ClassVar[str] = "output channel"

    def channels(self, op: Op) -> int | None:
        """The axis of the weight that counts output channels; None if none does."""
        raise NotImplementedError

    @condition
    def constant_weight(self, op: Op) -> str | None:
        """the weight is constant"""
        constant = all(nn.constant_of(each.input) is not None for each in self._weights(op))
        return None if constant else "its weight is computed at run time"

    @condition
    def symmetric_weight(self, op: Op) -> str | None:
        """the zero points of the weight are 0"""
        points = any(each.qparams.data.zero_points().any() for each in self._weights(op))
        return "its weight has zero points that are not 0" if points else None

    @condition
    def channel_scales(self, op: Op) -> str | None:
        """the weight has one scale, or one per output channel"""
        for params in (each.qparams.data for each in self._weights(op)):
            if params.block is not None:
                return "its weight has scales per group, not per output channel"
            if params.axis is not None and (axis := self.channels(op)) != params.axis:
                wrong = f"its weight has scales along axis {params.axis}, not per {self.PER}"
                return "its grouped weight has one scale for several output channels" if axis is None else wrong
        return None

    def _weights(self, op: Op) -> list[nn.DequantizeOp]:
        return [each for value in self.weights(op) if (each := nn.dequantize_of(value)) is not None]


class MatrixEngine(Lowering[Op], Generic[Op]):
    """Products of integers are summed into int32, with an int32 bias, and AscendDequant scales the sums."""

    def scales(self, op: Op) -> Array:
        """`float32(s_x) * float32(s_w)` in float32, shape [] or [channels]: the scales of the sums."""
        raise NotImplementedError

    def bias(self, op: Op) -> nn.DequantizeOp | None:
        """The dequantize of a quantized bias that the operator adds to its sums."""
        return nn.dequantize_of(cast(nn.MatMulOp, op).bias)

    def bias_scales(self, op: Op) -> Array:
        """The scales of the bias: those of the sums."""
        return self.scales(op)

    @condition
    def scale_range(self, op: Op) -> str | None:
        """activation scale times weight scale is a normal float32 number"""
        normal = are_normal(self.scales(op))
        return None if normal else "activation scale times weight scale leaves the normal range of float32"

    @condition
    def int32_bias(self, op: Op) -> str | None:
        """a quantized bias is int32"""
        storage = i32 if (bias := self.bias(op)) is None else bias.qparams.data.storage
        return None if storage == i32 else f"its bias is {storage}, not i32"

    @condition
    def constant_bias(self, op: Op) -> str | None:
        """a quantized bias is constant"""
        constant = (bias := self.bias(op)) is None or nn.constant_of(bias.input) is not None
        return None if constant else "its bias is computed at run time"

    @condition
    def symmetric_bias(self, op: Op) -> str | None:
        """the zero points of a quantized bias are 0"""
        symmetric = (bias := self.bias(op)) is None or not bias.qparams.data.zero_points().any()
        return None if symmetric else "its bias has zero points that are not 0"

    @condition
    def bias_scale(self, op: Op) -> str | None:
        """a quantized bias has the scales of the sums"""
        equal = (bias := self.bias(op)) is None or bool(np.all(bias.qparams.data.scales() == self.bias_scales(op)))
        return None if equal else "the scale of its bias is not activation scale times weight scale"


def scale_of(value: SSAValue) -> Array:
    """The scales of a dequantized value, float32 of shape [] or [channels]."""
    dequantize = nn.dequantize_of(value)
    assert dequantize is not None
    return dequantize.qparams.data.scales()


def products(x: Array, weight: Array) -> Array:
    """The products `float32(s_x) * float32(s_w)` in float32; `scale_range` refuses products out of range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.float32(x) * weight)


def integers_behind(value: SSAValue | None) -> tuple[SSAValue | None, SSAValue | None]:
    """A bias as int32 integers for the matrix engine, or as the floats to add afterwards."""
    dequantize = nn.dequantize_of(value)
    return (None, value) if dequantize is None else (dequantize.input, None)


def stored_as_int8(build: Builder, weight: SSAValue) -> SSAValue:
    """The constant as int8; int4 weights are stored as int8."""
    constant = nn.constant_of(weight)
    assert constant is not None
    if element_of(weight) == i8:
        return weight
    return build.constant(as_stored(constant.array), constant.key, constant.location)


def int8_behind(build: Builder, weight: SSAValue) -> SSAValue:
    """The integers of a dequantized weight, as int8."""
    dequantize = nn.dequantize_of(weight)
    assert dequantize is not None
    return stored_as_int8(build, dequantize.input)


def pack_in_files(build: Builder, *weights: SSAValue) -> None:
    """Mark the layer that is built: weights of four bits are packed in files, if it comes from PyTorch (AMCT). Recurrent layers
    have such weights only there.
    """
    origin, found = build.op.origin, [nn.dequantize_of(weight) for weight in weights]
    of_torch = isinstance(build.op, nn.OpaqueOp) or (origin is not None and origin.module_class)
    if not of_torch or any(w is None or element_of(w.input) != i4 for w in found):
        return
    for each in build.made:
        if isinstance(each, ascend.CubeOp | ascend.WindowCacheOp):
            each.attributes[PACKED] = UnitAttr()


def stored(op: NNOp, scales: Array) -> Array:
    """Scales of accumulators in the form of deq_scale: FORCE_FP16_QUANT clears their last bits."""
    return shortened(scales) if forces_fp16(op) else scales


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
