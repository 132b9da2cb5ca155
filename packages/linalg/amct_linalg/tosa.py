"""TOSA 1.0: quantized networks in integers alone, as the TOSA specification defines them.

A real is an integer times a scale. TOSA has no scales: `tosa.rescale` multiplies by an integer, adds half, and shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnregisteredOp,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter

from amct_opt.dialects import nn
from amct_opt.dialects.nn import QParams, QParamsAttr
from amct_opt.dialects.nn.elementwise import BoundOp, ElementwiseOp
from amct_opt.dialects.nn.pooling import GlobalPoolOp, PoolOp
from amct_opt.dialects.nn.properties import int_list
from amct_opt.dialects.nn.shape import ReshapingOp
from amct_opt.dialects.nn.shapes import axis_of, element_of, shape_of, static, tensor
from amct_opt.ir.functions import input_names, main_function, output_names
from amct_opt.ir.text import module_text
from amct_opt.runtime.bounds import UNBOUNDED, Bounds
from amct_opt.runtime.kernels import Array, kernel_for
from amct_opt.runtime.kernels.quantized import Result
from amct_opt.runtime.windows import Window
from amct_opt.session import Session
from amct_opt.support.diagnostics import op_error
from amct_opt.support.files import replacing
from amct_opt.targets import Target
from amct_opt.targets.graph import in_layout
from amct_opt.transforms.inline_fused import inline_fused

_QUANTIZE = "quantize with --profile=qdq --fuse-all --quantize; --remarks=missed says what stays float there, and why"
_SIZES = "--infer-shapes=input_shape=NAME:SIZES sets sizes"
_FLOATS = "-t linalg writes every operation, also of floats"
_HEADROOM = 2.0**29
"""The largest summand of an addition: the sum of two stays within int32."""


@dataclass(frozen=True)
class TosaTarget(Target):
    """TOSA 1.0 in integers alone: inputs and outputs are the integers, and comments at the head give their scales.

    A network of `nn`, quantized to int8. An operation that is not quantized, or has no form, is an error; sizes must be known.
    """

    name = "tosa"
    ending = ".mlir"
    graph_only = True
    activation_bits = frozenset({8})

    scale32: bool = True
    """Whether multipliers of `tosa.rescale` are int32, and within 2**-31 of the scale, or int16 (`false`), and within 2**-15."""

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        made, notes = converted(module, session, 31 if self.scale32 else 15)
        with replacing(path) as stream:
            stream.write("".join(f"// {line}\n" for line in notes).encode())
            stream.write(module_text(made).encode())
        return [path]


def converted(module: ModuleOp, session: Session, bits: int = 31) -> tuple[ModuleOp, list[str]]:
    """A module in TOSA, and notes: scales of inputs and outputs, and what multipliers of `bits` lose at each operation.

    Raises CompileError, located at the first operation without a form.
    """
    module = module.clone()
    inline_fused(module)
    module = in_layout(module, "NHWC", session)
    return _Network(main_function(module), session, bits).written()


def multiplier_and_shift(scale: float, bits: int = 31) -> tuple[int, int]:
    """The factor of `tosa.rescale`: `multiplier * 2**-shift`, of 31 or 15 bits, relatively within 2**-bits of the scale.

    Shifts are from 2 to 62 (TOSA 1.0, apply_scale_32 and apply_scale_16): a scale below 2**(bits - 63) loses digits. Raises
    ValueError from 2**(bits - 2) on.
    """
    fraction, exponent = np.frexp(scale)
    multiplier, shift = round(float(fraction) * 2**bits), bits - int(exponent)
    if multiplier == 2**bits:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift > 62:
        multiplier, shift = multiplier >> min(shift - 62, bits), 62
    if shift < 2:
        raise ValueError(f"scale {scale:g} is too large for a multiplier of {bits} bits")
    return multiplier, shift


@dataclass(frozen=True)
class _Held:
    """The integers of a value of reals: `scales * (integers - zero)`, in bounds."""

    value: SSAValue
    scales: Array
    """float64, shape [] or [channels]."""
    zero: int = 0
    axis: int | None = None
    bounds: Bounds = UNBOUNDED
    reals: Array | None = None
    """float32 [256]: what the integers from -128 to 127 mean, after functions of single elements."""
    largest: float = 255.0
    """The bound of the integers without the zero point."""
    error: float = 0.0
    """What earlier rounding has lost, in units of the scale."""

    @property
    def is_activation(self) -> bool:
        return element_of(self.value) == i8 and self.axis is None

    @property
    def table(self) -> Array:
        """`reals`, also where no function was applied."""
        if self.reals is not None:
            return self.reals
        return (np.arange(-128, 128, dtype=np.float32) - np.float32(self.zero)) * np.float32(self.scales)


class NoFormError(Exception):
    """The operation at hand has no form: the reason, and a hint."""

    def __init__(self, reason: str, hint: str = _FLOATS):
        self.reason, self.hint = reason, hint
        super().__init__(reason)


class _Network:
    """One function in TOSA, written from its inputs to its outputs."""

    def __init__(self, function: FuncOp, session: Session, bits: int):
        self.function, self.session, self.bits, self.block = function, session, bits, Block()
        self.integers: dict[SSAValue, SSAValue] = {}
        self.held: dict[SSAValue, _Held] = {}
        self.weights: dict[SSAValue, tuple[Array, QParams]] = {}
        self.constants: dict[tuple[str, tuple[int, ...], bytes], SSAValue] = {}
        self.losses: dict[str, float] = {}

    def written(self) -> tuple[ModuleOp, list[str]]:
        block = self.function.body.block
        notes = ["TOSA 1.0, in integers; a real is scale * (integer - zero_point)"]
        for name, argument in zip(input_names(self.function), block.args, strict=True):
            notes.append(f"input {name}: {self._argument(argument)}")
        for op in block.ops:
            if isinstance(op, ReturnOp):
                break
            try:
                self._write(op)
            except (NoFormError, ValueError) as e:
                hint = e.hint if isinstance(e, NoFormError) else _FLOATS
                raise op_error(op, f"has no form in TOSA: {e}", hint=hint) from e
        results = list[SSAValue]()
        last = cast(ReturnOp, block.last_op)
        for name, value in zip(output_names(self.function), last.arguments, strict=True):
            after = _last_softmax(value)
            found = self._result(value if after is None else after.input, last)
            text = _params_text(found) if isinstance(found, _Held) else str(element_of(found))
            if after is not None:
                text += f", without {after.name} over axis {after.axis.value.data}"
                what = (
                    f"output '{name}' of the file is the operand of the last {after.name}, which is left to its reader"
                )
                self.session.warn(what)
            notes.append(f"output {name}: {text}")
            results.append(found.value if isinstance(found, _Held) else found)
        self.block.add_op(ReturnOp(*results))
        types = [a.type for a in self.block.args], [r.type for r in results]
        made = FuncOp(self.function.sym_name.data, types, Region(self.block))
        return ModuleOp([made]), notes + self._lost()

    def _lost(self) -> list[str]:
        """The losses as lines, the largest first."""
        rows = sorted(self.losses.items(), key=lambda row: -row[1])
        head = "beyond the half step of rounding, and ties, which go up, multipliers lose at most (in steps of the result):"
        return [head, *(f"  {name}: {loss:.2g}" for name, loss in rows)] if rows else []

    def _argument(self, argument: SSAValue) -> str:
        """Adds an input, and returns its parameters as text: those of the first quantization that reads it."""
        if isinstance(element_of(argument), IntegerType):
            self.integers[argument] = self.block.insert_arg(argument.type, len(self.block.args))
            return str(element_of(argument))
        params = _first_quantization(argument)
        if params is None:
            where = next((use.operation for use in argument.uses), self.function)
            raise op_error(where, "has no form in TOSA: it reads an input that is not quantized", hint=_QUANTIZE)
        value = self.block.insert_arg(tensor(i8, shape_of(argument)), len(self.block.args))
        value.name_hint = argument.name_hint
        self.held[argument] = _activation(value, params)
        return _params_text(self.held[argument])

    def _result(self, value: SSAValue, last: Operation) -> _Held | SSAValue:
        if value in self.integers:
            return self.integers[value]
        try:
            return self._read(value)
        except NoFormError as e:
            where = value.owner if isinstance(value.owner, Operation) else last
            raise op_error(where, f"has no form in TOSA: {e.reason}", hint=e.hint) from e

    def _write(self, op: Operation) -> None:
        if isinstance(op, nn.ConstantOp) or (op.results and _last_softmax(op.results[0]) is not None):
            return
        for value in (*op.operands, *op.results):
            if not static(shape_of(value)):
                raise NoFormError(f"{value.type} has an unknown size", _SIZES)
        if isinstance(op, nn.DequantizeOp):
            self._dequantize(op)
            return
        if isinstance(op, nn.QuantizeOp):
            self.integers[op.result] = self._named(self._quantize(op), op)
            return
        if not isinstance(op, nn.NNOp) or len(op.results) != 1:
            raise NoFormError("it is not one of those that TOSA states in integers")
        made = self._bounded(op) or self._curve(op)
        if made is None:
            form = next((f for kind, f in _FORMS.items() if isinstance(op, kind)), None)
            if form is None:
                raise NoFormError("it is not one of those that TOSA states in integers")
            made = form(self, op)
        self._named(made.value, op)
        self.held[op.results[0]] = made

    @staticmethod
    def _named(value: SSAValue, op: Operation) -> SSAValue:
        if value.name_hint is None:
            value.name_hint = op.results[0].name_hint
        return value

    def _dequantize(self, op: nn.DequantizeOp) -> None:
        params, array = op.qparams.data, nn.array_of(op.input)
        if array is not None:
            self.weights[op.result] = array, params
            return
        if op.input not in self.integers:
            raise NoFormError("its integers are not an activation or a constant")
        self.held[op.result] = _activation(self.integers[op.input], params)

    def _read(self, value: SSAValue) -> _Held:
        """The integers of an operand. Bounds that no quantization takes are made here."""
        x = self.held.get(value)
        if x is None:
            raise NoFormError("an operand is not quantized", _QUANTIZE)
        if x.reals is not None:
            raise NoFormError("an operand is a function whose result is not quantized", _QUANTIZE)
        if x.bounds == UNBOUNDED:
            return x
        if not x.is_activation:  # tosa.clamp is not defined for int32
            if x.bounds != (0.0, float("inf")):
                raise NoFormError("an operand is bounded sums, which are not quantized", _QUANTIZE)
            zeros = self.constant(np.zeros([1] * len(shape_of(x.value)), np.int32))
            return replace(x, value=self.emit("maximum", [x.value, zeros], x.value.type), bounds=UNBOUNDED)
        params = _params_of(x)
        return replace(x, value=self._clamped(x.value, Result(params, x.bounds).limits), bounds=UNBOUNDED)

    def _activations(self, values: Sequence[SSAValue]) -> list[_Held]:
        found = [self._read(value) for value in values]
        if not all(x.is_activation for x in found):
            raise NoFormError("an operand is a sum that is not quantized to int8", _QUANTIZE)
        return found

    # -- quantization and functions of single elements -----------------------------------------------------------------

    def _quantize(self, op: nn.QuantizeOp) -> SSAValue:
        params = op.qparams.data
        x = self.held.get(op.input)
        if x is None:
            raise NoFormError("what it quantizes is not computed in integers", _QUANTIZE)
        target = _activation(x.value, params)
        if x.reals is not None:
            kernel = cast(Callable[[Array], Array], kernel_for(op))
            table = self.constant(kernel(x.reals).astype(np.int8))
            return self.emit("table", [x.value, table], x.value.type)
        value = x.value
        if not _alike(x, target):
            value = self._rescaled(x, np.asarray(x.scales / target.scales), i8, target.zero)
            self._note(op.input, x, float(np.max(x.scales / target.scales)))
        return self._clamped(value, Result(params, x.bounds).limits)

    def _note(self, value: SSAValue, x: _Held, factor: float) -> None:
        """Notes what a result loses: earlier roundings, and the multiplier's last digit on results of up to 255 steps."""
        name = value.name_hint or "input"
        self.losses[name] = max(self.losses.get(name, 0.0), x.error * factor + 255 * 2.0**-self.bits)

    def _clamped(self, value: SSAValue, limits: tuple[int, int]) -> SSAValue:
        if limits == (-128, 127):
            return value
        low, high = (IntegerAttr(each, i8) for each in limits)
        return self.emit("clamp", [value], value.type, min_val=low, max_val=high)

    def _bounded(self, op: Operation) -> _Held | None:
        """An activation that only bounds: the quantization after it takes the bounds."""
        if not isinstance(op, BoundOp) or (x := self.held.get(op.operands[0])) is None or x.reals is not None:
            return None
        (low, high), (least, most) = x.bounds, op.bounds
        return replace(x, bounds=(min(max(low, least), most), min(max(high, least), most)))

    def _curve(self, op: Operation) -> _Held | None:
        """A function of single elements of one value, which becomes a table of 256 entries when it is quantized."""
        if not isinstance(op, ElementwiseOp):
            return None
        arrays, base = list[Array](), list[_Held]()
        for operand in op.operands:
            number, x = nn.array_of(operand), self.held.get(operand)
            if x is not None and x.is_activation:
                x = replace(self._read(operand), reals=None) if x.reals is None else x
                arrays.append(x.table)
                base.append(x)
            elif number is not None and number.size == 1:
                arrays.append(number.reshape(()))
            else:
                return None
        if not base or any(x.value is not base[0].value for x in base) or (kernel := kernel_for(op)) is None:
            return None
        reals = np.asarray(kernel(*arrays))
        return replace(base[0], reals=reals) if reals.shape == (256,) else None

    # -- layers --------------------------------------------------------------------------------------------------------

    def _weight(self, value: SSAValue, axis: int | None) -> tuple[Array, Array, int]:
        """int8 integers, float64 scales and zero point of a constant operand with scales along `axis`, or one."""
        array, p = self.weights.get(value, (None, None))
        if array is None or p is None:
            raise NoFormError("its weight is not a quantized constant", _QUANTIZE)
        if p.storage != i8 or p.axis not in (None, axis) or p.block is not None or p.zero_points().ndim:
            raise NoFormError("its weight is not int8 with one scale for each channel, and one zero point")
        return array, p.scales().astype(np.float64), int(p.zero_points())

    def _bias(self, value: SSAValue | None, scales: Array, channels: int) -> tuple[Array, float]:
        """int32 [channels] at the scale of the sums, and how much of a unit rounding it loses."""
        if value is None:
            return np.zeros(channels, np.int32), 0.0
        array, p = self.weights.get(value, (nn.array_of(value), None))
        if array is None:
            raise NoFormError("its bias is not a constant", _QUANTIZE)
        array, scales = array.reshape(-1), np.broadcast_to(scales, channels)
        if (
            p is not None
            and p.storage == i32
            and not any(p.zero_point)
            and np.array_equal(np.broadcast_to(p.scales(), channels), scales.astype(np.float32))
        ):
            return array, 0.0
        found = np.rint(self._reals(value).reshape(-1) / scales)
        if np.any(np.abs(found) >= 2**31):
            raise NoFormError("its bias does not fit in int32 at the scale of the sums")
        return np.broadcast_to(found, channels).astype(np.int32), 0.5

    def conv(self, op: nn.ConvOp) -> _Held:
        (x,), (array, scales, zero) = self._activations([op.input]), self._weight(op.weight, 0)
        groups, (outputs, inputs, *kernel) = op.group_count, array.shape
        depthwise = groups > 1 and inputs == 1 and groups == shape_of(op.input)[-1]
        if len(kernel) != 2 or (groups > 1 and not depthwise):
            raise NoFormError("TOSA has convolutions in two dimensions, in one group or depthwise")
        sums = np.asarray(scales * x.scales)
        bias, error = self._bias(op.bias, sums, outputs)
        magnitude = np.abs(array.astype(np.int64) - zero).reshape(outputs, -1).sum(axis=1)
        value, places, _ = self._windows(op, x.value, kernel)
        if depthwise:
            name, weight = "depthwise_conv2d", array.reshape(groups, -1, *kernel).transpose(2, 3, 0, 1)
        else:
            name, weight = "conv2d", array.transpose(0, 2, 3, 1)
        operands = [value, self.constant(weight), self.constant(bias), self._zero(x.zero), self._zero(zero)]
        result = self.emit(
            name,
            operands,
            tensor(i32, shape_of(op.result)),
            **places,
            dilation=int_list(op.dilation_list),
            acc_type=i32,
        )
        return _sum(result, sums, magnitude * 255.0 + np.abs(bias), error)

    def matmul(self, op: nn.MatMulOp) -> _Held:
        """`[..., M, K] x [K, N]` with a weight, or `[..., M, K] x [..., K, N]` of two activations."""
        shape, (x,) = shape_of(op.result), self._activations([op.lhs])
        if len(shape_of(op.lhs)) < 2 or len(shape_of(op.rhs)) < 2:
            raise NoFormError("TOSA has no products of vectors")
        left = self._swapped(x.value) if op.transpose_a is not None else x.value
        depth, columns = shape_of(left)[-1], shape[-1]
        if op.rhs in self.weights:
            axis = (0 if op.transpose_b is not None else 1) if len(shape_of(op.rhs)) == 2 else None
            array, scales, zero = self._weight(op.rhs, axis)
            matrix = array.swapaxes(-1, -2) if op.transpose_b is not None else array
            magnitude = np.abs(matrix.astype(np.int64) - zero).sum(axis=-2).reshape(-1, columns).max(axis=0) * 255.0
            right = self.constant(matrix if matrix.ndim > 2 else matrix[None])
        else:
            (w,) = self._activations([op.rhs])
            right, scales, zero = self._swapped(w.value) if op.transpose_b is not None else w.value, w.scales, w.zero
            magnitude = np.full(columns, depth * 255.0 * 255.0)
        batched = len(shape_of(op.rhs)) > 2
        batches = prod(shape[:-2]) if batched else 1
        if batched and shape_of(left)[:-2] != shape_of(right)[:-2]:
            raise NoFormError("its batches are broadcast, which those of tosa.matmul are not")
        rows, sums = prod(shape[:-1]) // batches, np.asarray(scales * x.scales)
        operands = [self._shaped(left, [batches, rows, depth]), self._shaped(right, [batches, depth, columns])]
        operands += [self._zero(x.zero), self._zero(zero)]
        result = self.emit("matmul", operands, tensor(i32, [batches, rows, columns]))
        bias, error = self._bias(op.bias, sums, columns)
        if bias.any():
            result = self.emit("add", [result, self.constant(bias.reshape(1, 1, -1))], result.type)
        return _sum(self._shaped(result, shape), sums, magnitude + np.abs(bias), error)

    def add(self, op: nn.AddOp) -> _Held:
        """The sum in a unit so fine that the larger operand takes 29 bits, or as fine as multipliers can make it."""
        held = [None if o in self.weights or nn.array_of(o) is not None else self._read(o) for o in op.operands]
        reals = [self._reals(o) if x is None else None for o, x in zip(op.operands, held, strict=True)]
        units = [np.max(np.abs(c), initial=0.0) / _HEADROOM for c in reals if c is not None]
        for x in filter(None, held):
            units += [np.max(x.scales) * x.largest / _HEADROOM, np.max(x.scales) * 2.0 ** (3 - self.bits)]
        unit, shape, error = np.float64(max(units)), shape_of(op.result), 1.0
        values = list[SSAValue]()
        for x, real in zip(held, reals, strict=True):
            if x is not None:
                value = self._rescaled(x, np.asarray(x.scales / unit), i32, 0)
                error += (x.error + x.largest * 2.0**-self.bits) * float(np.max(x.scales) / unit)
            else:
                value = self.constant(np.rint(np.asarray(real) / unit).astype(np.int32))
            sizes = shape_of(value)
            values.append(self._shaped(value, [*([1] * (len(shape) - len(sizes))), *sizes]))
        result = self.emit("add", values, tensor(i32, shape))
        return _Held(result, np.asarray(unit), largest=2.0**30, error=error)

    def _reals(self, value: SSAValue) -> Array:
        array, p = self.weights.get(value, (nn.array_of(value), None))
        assert array is not None
        if p is None:
            return array.astype(np.float64)
        scales, points = p.broadcastable(array.shape)
        return (array.astype(np.float64) - points) * scales

    def mul(self, op: nn.MulOp) -> _Held:
        one, shape = np.asarray(np.float64(1)), shape_of(op.result)
        found = self._activations(op.operands)
        values = [self._rescaled(x, one, i32, 0) for x in found]
        values = [self._shaped(v, [*([1] * (len(shape) - len(shape_of(v)))), *shape_of(v)]) for v in values]
        result = self.emit("mul", [*values, self._zero(0)], tensor(i32, shape))
        a, b = found
        return _Held(result, np.asarray(a.scales * b.scales), largest=255.0 * 255.0)

    def concat(self, op: nn.ConcatOp) -> _Held:
        """Inputs of several scales get those of the quantization that reads the result."""
        found = self._activations(op.inputs)
        target, values = found[0], [x.value for x in found]
        if not all(_alike(x, target) for x in found):
            params = _first_quantization(op.result)
            if params is None:
                raise NoFormError("its operands have several scales, and its result is not quantized", _QUANTIZE)
            target = _activation(found[0].value, params)
            for i, x in enumerate(found):
                if not _alike(x, target):
                    values[i] = self._rescaled(x, np.asarray(x.scales / target.scales), i8, target.zero)
                    self._note(op.inputs[i], x, float(x.scales / target.scales))
        axis = axis_of(op.axis.value.data, len(shape_of(op.result)))
        result = self.emit("concat", values, tensor(i8, shape_of(op.result)), axis=IntegerAttr(axis, i32))
        return replace(target, value=result, bounds=UNBOUNDED)

    # -- pools and what moves elements ---------------------------------------------------------------------------------

    def pool(self, op: PoolOp | GlobalPoolOp | nn.ReduceMeanOp) -> _Held:
        (x,) = self._activations([op.input])
        if len(shape_of(op.input)) != 4:
            raise NoFormError("TOSA has pools in two dimensions")
        counts_pads, value = False, x.value
        if isinstance(op, PoolOp):
            if any(d != 1 for d in op.dilation_list):
                raise NoFormError("TOSA has no pools with dilations")
            kernel, shape = op.kernel_shape, shape_of(op.result)
            if isinstance(op, nn.AveragePoolOp) and op.count_include_pad is not None:
                counts_pads = True
                if op.ceil_adds_windows:
                    raise NoFormError("padding counts in its means, and elements beyond it do not")
            value, places, pads = self._windows(op, value, kernel)
        else:
            batch, *kernel, channels = shape_of(op.input)
            if isinstance(op, nn.ReduceMeanOp) and sorted(op.axis_list()) != [1, 2]:
                raise NoFormError("it is not the mean over all of space")
            shape, pads = (batch, 1, 1, channels), [0, 0, 0, 0]
            places: dict[str, Attribute] = {"stride": int_list((1, 1)), "pad": int_list(pads)}
        if isinstance(op, nn.MaxPoolOp | nn.GlobalMaxPoolOp):
            value = self.emit("max_pool2d", [value], tensor(i8, shape), kernel=int_list(kernel), **places)
            return replace(x, value=self._shaped(value, shape_of(op.results[0])))
        params, counted = _first_quantization(op.results[0]), any(pads) and not counts_pads
        if counted or (params is not None and _alike(x, _activation(x.value, params))):
            zero = self._zero(x.zero)
            operands = [value, zero, zero]
            value = self.emit(
                "avg_pool2d", operands, tensor(i8, shape), kernel=int_list(kernel), **places, acc_type=i32
            )
            made = replace(x, value=self._shaped(value, shape_of(op.results[0])), error=255 * 2.0**-30)
            self._note(op.results[0], made, 1.0)
            return replace(made, error=0.5 + made.error)
        # the sum of each window, rounded once, by the quantization after it
        ones = self.constant(np.ones((*kernel, shape[-1], 1), np.int8))
        operands = [value, ones, self.constant(np.zeros(shape[-1], np.int32)), self._zero(x.zero), self._zero(0)]
        value = self.emit(
            "depthwise_conv2d", operands, tensor(i32, shape), **places, dilation=int_list((1, 1)), acc_type=i32
        )
        value = self._shaped(value, shape_of(op.results[0]))
        return _sum(value, np.asarray(x.scales / prod(kernel)), np.asarray(255.0 * prod(kernel)), 0.0)

    def _windows(
        self, op: nn.ConvOp | PoolOp, value: SSAValue, kernel: Sequence[int]
    ) -> tuple[SSAValue, dict[str, Attribute], Sequence[int]]:
        """The input, the places of windows and the pads: as TOSA asks, the last window ends where the input does."""
        batch, *sizes, channels = shape_of(value)
        window, outputs, ends = Window.of(op), shape_of(op.result)[1:-1], list[int]()
        begins = window.pads_for(sizes, kernel)[:2]
        for size, k, stride, d, begin, out in zip(
            sizes, kernel, window.strides, window.dilations, begins, outputs, strict=True
        ):
            ends.append((out - 1) * stride + (k - 1) * d + 1 - size - begin)
        if min(begins) < 0:
            raise NoFormError("TOSA has no windows with negative pads")
        if any(end < 0 for end in ends):
            kept = [batch, *(size + min(end, 0) for size, end in zip(sizes, ends, strict=True)), channels]
            value = self._sliced(value, [0, 0, 0, 0], kept)
        pads = [p for begin, end in zip(begins, ends, strict=True) for p in (begin, max(end, 0))]
        return value, {"stride": int_list(window.strides), "pad": int_list(pads)}, pads

    def slice(self, op: nn.SliceOp) -> _Held:
        """A step over rows and columns is a pool of single elements."""
        (x,), shape = self._activations([op.input]), shape_of(op.input)
        taken = [range(*each.indices(size)) for each, size in zip(op.slices(len(shape)), shape, strict=True)]
        steps = [each.step for each in taken]
        if not all(taken) or min(steps) < 1 or (max(steps) > 1 and (len(shape) != 4 or steps[0] > 1 or steps[3] > 1)):
            raise NoFormError("TOSA steps over rows and columns only, and has no empty tensors")
        value = self._sliced(x.value, [each.start for each in taken], [each[-1] - each[0] + 1 for each in taken])
        if max(steps) > 1:
            places = {"kernel": int_list((1, 1)), "stride": int_list(steps[1:3]), "pad": int_list((0, 0, 0, 0))}
            value = self.emit("max_pool2d", [value], tensor(i8, shape_of(op.result)), **places)
        return replace(x, value=value)

    def pad(self, op: nn.PadOp) -> _Held:
        (x,), pads = self._activations([op.input]), nn.ints(op.pads)
        if op.fill != 0 or min(pads) < 0:
            raise NoFormError("only padding by zeros has a form")
        half = len(pads) // 2
        pairs = [p for pair in zip(pads[:half], pads[half:], strict=True) for p in pair]
        operands = [x.value, self._shape(pairs), self._zero(x.zero)]
        return replace(x, value=self.emit("pad", operands, tensor(i8, shape_of(op.result))))

    def _sliced(self, value: SSAValue, starts: Sequence[int], sizes: Sequence[int]) -> SSAValue:
        if tuple(sizes) == tuple(shape_of(value)):
            return value
        operands = [value, self._shape(starts), self._shape(sizes)]
        return self.emit("slice", operands, tensor(element_of(value), sizes))

    def reshape(self, op: ReshapingOp) -> _Held:
        x = self._read(op.operands[0])
        if x.axis is not None:
            raise NoFormError("it moves sums with scales of their own, which are not quantized", _QUANTIZE)
        return replace(x, value=self._shaped(x.value, shape_of(op.results[0])))

    def transpose(self, op: nn.TransposeOp) -> _Held:
        perm, x = list(nn.ints(op.perm)), self._read(op.input)
        axis = None if x.axis is None else perm.index(x.axis)
        return replace(x, value=self._permuted(x.value, perm), axis=axis)

    def _swapped(self, value: SSAValue) -> SSAValue:
        rank = len(shape_of(value))
        return self._permuted(value, [*range(rank - 2), rank - 1, rank - 2])

    def _permuted(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        type_ = tensor(element_of(value), [shape_of(value)[p] for p in perm])
        return self.emit("transpose", [value], type_, perms=DenseArrayBase.from_list(i32, list(perm)))

    def _shaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape) == tuple(shape_of(value)):
            return value
        return self.emit("reshape", [value, self._shape(shape)], tensor(element_of(value), shape))

    # -- operations of TOSA --------------------------------------------------------------------------------------------

    def _rescaled(self, x: _Held, scale: Array, element: IntegerType, zero: int) -> SSAValue:
        """`tosa.rescale`, with a scale for each channel if there are several. Sums fit in int32 (`_sum`)."""
        if np.max(scale * x.largest) >= 2.0**31:
            raise NoFormError("its sums, in steps of the result, may leave int32")
        if x.axis is not None and x.axis != len(shape_of(x.value)) - 1:
            raise NoFormError("it reads sums whose channels are not last", _QUANTIZE)
        pairs = [multiplier_and_shift(float(s), self.bits) for s in scale.reshape(-1)]
        operands = [
            x.value,
            self.constant(np.array([m for m, _ in pairs], np.int32 if self.bits == 31 else np.int16)),
            self.constant(np.array([s for _, s in pairs], np.int8)),
            self._zero(x.zero, element_of(x.value)),
            self._zero(zero, element),
        ]
        return self.emit(
            "rescale",
            operands,
            tensor(element, shape_of(x.value)),
            scale32=BoolAttr.from_bool(self.bits == 31),
            rounding_mode=RoundingModeAttr(),
            per_channel=BoolAttr.from_bool(bool(scale.ndim)),
            input_unsigned=BoolAttr.from_bool(False),
            output_unsigned=BoolAttr.from_bool(False),
        )

    def emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute) -> SSAValue:
        """Appends an operation of TOSA with one result."""
        kind = UnregisteredOp.with_name(f"tosa.{name}")
        op = kind.create(operands=operands, result_types=[type_], properties=properties)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        """A constant of int8, int16 or int32."""
        array = np.ascontiguousarray(array)
        type_ = TensorType({1: i8, 2: i16, 4: i32}[array.itemsize], array.shape)
        return self._kept("const", type_, type_, array)

    def _zero(self, point: int, element: Attribute = i8) -> SSAValue:
        return self.constant(np.array([point], np.int8 if element == i8 else np.int32))

    def _shape(self, sizes: Sequence[int]) -> SSAValue:
        array = np.array(sizes, np.int64)
        return self._kept(
            "const_shape", ShapeType(IntegerAttr(len(sizes), i64)), TensorType(IndexType(), array.shape), array
        )

    def _kept(self, name: str, result: Attribute, type_: TensorType[Any], array: Array) -> SSAValue:
        """A constant, once; constants stand before all else."""
        key = (name + str(array.dtype), array.shape, array.tobytes())
        if key not in self.constants:
            dense = DenseIntOrFPElementsAttr(type_, BytesAttr(key[2]))
            kind = UnregisteredOp.with_name(f"tosa.{name}")
            op = kind.create(result_types=[result], properties={"values": dense})
            last = list(self.constants.values())[-1].owner if self.constants else None
            place = InsertPoint.at_start(self.block) if last is None else InsertPoint.after(cast(Operation, last))
            Rewriter.insert_op(op, place)
            self.constants[key] = op.results[0]
        return self.constants[key]


_FORMS: Mapping[type[Operation], Callable[[_Network, Any], _Held]] = {
    nn.ConvOp: _Network.conv,
    nn.MatMulOp: _Network.matmul,
    nn.AddOp: _Network.add,
    nn.MulOp: _Network.mul,
    nn.ConcatOp: _Network.concat,
    PoolOp: _Network.pool,
    GlobalPoolOp: _Network.pool,
    nn.ReduceMeanOp: _Network.pool,
    ReshapingOp: _Network.reshape,
    nn.TransposeOp: _Network.transpose,
    nn.SliceOp: _Network.slice,
    nn.PadOp: _Network.pad,
}
"""The forms of operations, besides quantization, bounds and functions of single elements."""


def _activation(value: SSAValue, params: QParams) -> _Held:
    if params.storage != i8 or params.axis is not None:
        raise NoFormError("activations of TOSA's networks are int8 with one scale", _QUANTIZE)
    return _Held(value, params.scales().astype(np.float64), int(params.zero_points()))


def _sum(value: SSAValue, scales: Array, largest: Array, error: float) -> _Held:
    """Sums in int32, with scales along the last axis if there are several."""
    if np.max(largest) >= 2.0**31:
        raise NoFormError("its sums may leave int32")
    axis = len(shape_of(value)) - 1 if scales.ndim else None
    return _Held(value, scales, axis=axis, largest=float(np.max(largest)), error=error)


def _last_softmax(value: SSAValue) -> nn.SoftmaxOp | None:
    """The softmax that is an output and nothing else: integers have no use for it, and it keeps the order of classes."""
    op = value.owner
    only = isinstance(op, nn.SoftmaxOp) and all(isinstance(use.operation, ReturnOp) for use in value.uses)
    return cast(nn.SoftmaxOp, op) if only else None


def _alike(a: _Held, b: _Held) -> bool:
    return a.is_activation and b.is_activation and (a.scales, a.zero) == (b.scales, b.zero)


def _first_quantization(value: SSAValue) -> QParams | None:
    """The parameters of the first quantization that reads a value, as it is or moved."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, nn.QuantizeOp):
            return op.qparams.data
        if isinstance(op, nn.NNOp) and op.is_passive and (found := _first_quantization(op.results[0])) is not None:
            return found
    return None


def _params_of(x: _Held) -> QParams:
    scales = tuple(float(s) for s in x.scales.reshape(-1))
    element = cast(IntegerType, element_of(x.value))
    return QParams(storage=element, scale=scales, zero_point=(x.zero,), axis=x.axis)


def _params_text(x: _Held) -> str:
    """`<i8, scale = 0.5, zero_point = 3>`"""
    text = str(QParamsAttr(_params_of(x)))
    return text[text.index("<") :]


@irdl_attr_definition
class RoundingModeAttr(ParametrizedAttribute):
    """`#tosa.rounding_mode<SINGLE_ROUND>`: half is added before the shift."""

    name = "tosa.rounding_mode"

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<SINGLE_ROUND>")


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!tosa.shape<4>`: the sizes of as many axes."""

    name = "tosa.shape"

    rank: IntegerAttr

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rank.value.data}>")
