"""Limits for a quantized network: bytes, multiply-accumulates in float, layers in int8, time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from math import prod
from operator import add, sub
from typing import Any, Self

from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp
from xdsl.ir import OpResult, SSAValue

from ...data import Samples
from ...dialects.nn import DequantizeOp, NNOp, WeightedOp, before_points
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.array import Array
from ...rewriting import layer_of
from ...runtime.executor import Executable
from ...session import Session
from ...support.diagnostics import CompileError
from ...targets.onnx import OnnxTarget
from ...transforms.inline_fused import inline_fused
from ...transforms.quantization.decide.layers import is_dequantized
from ...transforms.quantization.decide.sites import Site, sites
from ...transforms.quantization.profiles import profile_of
from ...transforms.quantization.recover.sensitivity import inputs_of, is_constant

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")
_EXAMPLE = "write --budget bytes=150k, MACs=2M, int8-layers=20 or ms=1.5, or several of them with commas"


@dataclass(frozen=True)
class Costs:
    """The costs of a quantized network."""

    bytes: int
    """The size of all arrays in the ONNX file: weights, biases, scales, zero points."""
    macs: int
    """Multiply-accumulates of convolutions and matrix products in float, for one sample."""
    int8_layers: int
    """Convolutions and matrix products that compute on integers."""
    read: int
    """Bits that layers read for one sample, of their weights and inputs: the cost of wider layers. A weight of 3 bits counts 3.
    """
    ms: float = 0.0
    """Milliseconds of a run in onnxruntime, with one thread; 0 without a budget of time."""

    def __add__(self, other: Costs) -> Costs:
        return Costs(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Costs) -> Costs:
        return Costs(*map(sub, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Budget:
    """Bounds of costs: at most this many bytes, float multiply-accumulates and milliseconds, at least this many int8 layers."""

    bytes: int | None = None
    macs: int | None = None
    int8_layers: int | None = None
    ms: float | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """The budget of a text such as `bytes=150k,MACs=2M`: k is 1000, M 1000 k, G 1000 M. Raises CompileError."""
        bounds: dict[str, Any] = {}
        for part in text.split(","):
            name, _, number = part.partition("=")
            field = {"bytes": "bytes", "MACs": "macs", "int8-layers": "int8_layers", "ms": "ms"}.get(name.strip())
            found = _NUMBER.fullmatch(number.strip())
            if field is None or found is None or field in bounds:
                raise CompileError(f"'{part}' is not a budget", hint=_EXAMPLE, option="budget")
            value = float(found[1]) * _UNITS[found[2]]
            bounds[field] = value if field == "ms" else round(value)
        return cls(**bounds)

    def holds(self, costs: Costs) -> bool:
        """Whether a network keeps the budget."""
        return (
            (self.bytes is None or costs.bytes <= self.bytes)
            and (self.macs is None or costs.macs <= self.macs)
            and (self.int8_layers is None or costs.int8_layers >= self.int8_layers)
            and (self.ms is None or costs.ms <= self.ms)
        )

    def check(self, best: Costs) -> None:
        """Raises CompileError if not even the least costs keep the budget."""
        if self.bytes is not None and best.bytes > self.bytes:
            message = f"no widths keep the budget of {self.bytes:,} bytes: the least is {best.bytes:,}"
            raise CompileError(message, option="budget")
        if self.macs is not None and best.macs > self.macs:
            message = f"no widths keep the budget of {self.macs:,} MACs in float: {best.macs:,} cannot be in integers"
            raise CompileError(message, hint=_REASONS, option="budget")
        if self.int8_layers is not None and best.int8_layers < self.int8_layers:
            message = f"the budget wants {self.int8_layers} layers in int8: only {best.int8_layers} can be in integers"
            raise CompileError(message, hint=_REASONS, option="budget")
        if self.ms is not None and best.ms > self.ms:
            message = (
                f"no widths keep the budget of {self.ms:.4g} ms: the least is about {best.ms:.4g} ms on this machine"
            )
            raise CompileError(message, option="budget")


UNLIMITED = Budget()
_REASONS = "amct support says which layers, and why"


@dataclass(frozen=True)
class Work:
    """The work of layers for one sample, by layer name."""

    macs: Mapping[str, int]
    """Multiply-accumulates of convolutions and matrix products."""
    inputs: Mapping[str, int]
    """The numbers of all computed values that a layer reads."""


def costs_of(module: ModuleOp, work: Work, session: Session) -> Costs:
    """The costs of a quantized module."""
    found = [site for site in sites(module, (WeightedOp,)) if computes_on_integers(site)]
    names = {layer_of(site.compute) for site in found}
    in_float = sum(count for name, count in work.macs.items() if name not in names)
    read = sum(bits_read(site, work) for site in sites(module, profile_of(session).rows))
    return Costs(OnnxTarget().stored_bytes(module, session.silent()), in_float, len(found), read)


def bits_read(site: Site, work: Work) -> int:
    """The bits of the inputs that a layer reads for one sample, and of its weight."""
    op = site.compute
    operands = [site.operand(i) for i in range(len(op.operands))]
    computed = [_width(each) for each in operands if each is not None and not is_constant(before_points(each))]
    weight = operands[1] if isinstance(op, WeightedOp) else None
    stored = 0 if weight is None or not is_constant(weight) else prod(shape_of(weight)) * _width(weight)
    return work.inputs.get(layer_of(op), 0) * max(computed, default=0) + stored


def _width(value: SSAValue) -> int:
    """The bits of a number as integer kernels read it: before it is dequantized, if it is."""
    value = before_passive(value)
    if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp):
        return value.op.bits.value.data if value.op.bits is not None else value.op.qparams.data.storage.width.data
    element = element_of(value)
    return element.bitwidth if isinstance(element, AnyFloat | IntegerType) else 64


def computes_on_integers(site: Site) -> bool:
    """Whether a convolution or matrix product multiplies integers: not if only its weight is quantized."""
    return isinstance(site.compute, WeightedOp) and all(_comes_from_integers(site.operand(i)) for i in (0, 1))


def _comes_from_integers(value: SSAValue | None) -> bool:
    """Whether a value is dequantized, maybe before operations that change no number."""
    return value is not None and is_dequantized(before_passive(value))


def before_passive(value: SSAValue) -> SSAValue:
    """The value whose numbers a value has: before operations that only move elements."""
    while isinstance(value, OpResult) and isinstance(value.op, NNOp) and value.op.is_passive:
        value = value.op.operands[0]
    return value


def work_of(module: ModuleOp, samples: Samples, session: Session) -> Work:
    """Counts the work of a float module's layers for one sample in a run: sizes may be unknown before."""
    module = module.clone()
    inline_fused(module)
    layers = [op for op in module.walk() if isinstance(op, WeightedOp)]
    read = {layer_of(site.compute): inputs_of(site) for site in sites(module, profile_of(session).rows)}
    shapes: dict[SSAValue, tuple[int, ...]] = {}

    def watch(value: SSAValue, array: Array) -> None:
        shapes[value] = array.shape

    multiplied = (value for op in layers for value in (op.operands[0], op.results[0]))
    executable = Executable(module, list({*multiplied, *(value for values in read.values() for value in values)}))
    executable.run(next(iter(samples.batches())), watch)
    in_run = min(samples.batch_size, samples.count)
    return Work(
        {layer_of(op): op.products(shapes[op.operands[0]], shapes[op.results[0]]) // in_run for op in layers},
        {name: sum(prod(shapes[value]) for value in values) // in_run for name, values in read.items()},
    )
