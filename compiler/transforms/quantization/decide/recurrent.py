"""ONNX's LSTM, GRU and RNN, which `nn` carries.

An LSTM or a GRU of one direction whose states are inputs computes in integers: its input, its state, W, R and the biases are
quantized. Of every other recurrent layer only the weights W and R can be integers, while everything else stays float.
AMCT's record has fields for both operands (`scale_d` and `scale_w`, `scale_h` and `scale_r`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ....configuration.layer_settings import LayerFacts
from ....configuration.record import LayerRecord
from ....dialects.nn import DequantizeOp, NNOp, OpaqueOp, array_of, constant_of, dequantize_of, plan_of
from ....dialects.nn.shapes import element_of, shape_of
from ....ir.dtypes import is_float
from ....ir.functions import main_function
from ....rewriting import Condition, Refusal, Roots, condition, layer_of
from .deciding import SETTINGS, Decide, first_refusal
from .sites import Site

TYPES = frozenset({"GRU", "LSTM", "RNN"})

ROWS = 1
"""The axis of W `[directions, gates * hidden, input]` and R `[directions, gates * hidden, hidden]` that counts gate outputs.
Both directions share its scales.
"""

INPUT, STATE = "input", "state"
_PLACES = {INPUT: 0, "W": 1, "R": 2, "bias": 3, "sequence_lens": 4, STATE: 5, "cell": 6, "peepholes": 7}
"""The inputs of ONNX's operators. A GRU has no cell state and no peepholes."""


class Recurrent(NamedTuple):
    """A recurrent layer, by the operation that carries it."""

    op: OpaqueOp

    @property
    def layer(self) -> LayerFacts:
        """The layer in the form that settings use."""
        return LayerFacts(layer_of(self.op), self.op.op_type.data, channel_wise=True, weight_only=True)

    @property
    def compute(self) -> NNOp:
        return self.op

    @property
    def site(self) -> Site:
        return Site(self.op, self.op, half_precision=False)

    def place(self, name: str) -> int | None:
        """The operand that is this input of the operator; None if the input is absent."""
        inputs, place = self.op.arguments(), _PLACES[name]
        if place >= len(inputs) or inputs[place] is None:
            return None
        return sum(value is not None for value in inputs[:place])

    def operand(self, name: str) -> SSAValue | None:
        """An input of the operator, by its name here."""
        place = self.place(name)
        return None if place is None else self.op.operands[place]

    @property
    def weights(self) -> tuple[SSAValue, SSAValue]:
        """W and R."""
        return self.op.operands[1], self.op.operands[2]

    @property
    def activations(self) -> tuple[DequantizeOp, DequantizeOp] | None:
        """The dequantizations of the input and the state; None unless both are quantized."""
        found = [dequantize_of(value) for name in (INPUT, STATE) if (value := self.operand(name)) is not None]
        return (found[0], found[1]) if len(found) == 2 and found[0] is not None and found[1] is not None else None

    @property
    def is_quantized(self) -> bool:
        """Whether both weights come from integer constants."""
        return all(
            isinstance(v, OpResult) and isinstance(v.op, DequantizeOp) and constant_of(v.op.input) is not None
            for v in self.weights
        )

    @property
    def broken(self) -> Refusal | None:
        """The condition that keeps the weights float, by its name, and the reason."""
        return first_refusal(None, self, (DecideRecurrent.weight_constant,))

    @property
    def float_because(self) -> Refusal | None:
        """The condition that keeps the layer from computing in integers, by its name, and the reason."""
        return first_refusal(None, self, DecideRecurrent.own())


def recurrent_layers(module: ModuleOp) -> Iterator[Recurrent]:
    """The recurrent layers of ONNX's own domain, in program order."""
    for op in main_function(module).body.block.ops:
        if (found := recurrent_at(op)) is not None:
            yield found


def recurrent_at(op: Operation) -> Recurrent | None:
    """The recurrent layer that an operation carries."""
    if not isinstance(op, OpaqueOp) or op.framework.data != "onnx" or (op.domain is not None and op.domain.data):
        return None
    return Recurrent(op) if op.op_type.data in TYPES else None


class DecideRecurrent(Decide[Recurrent]):
    """An LSTM or a GRU: its input, its state, W, R and the biases; W and R by themselves need only `weight-constant`."""

    name = "quantize-recurrent"
    roots: ClassVar[Roots] = (OpaqueOp,)

    def match(self, op: Operation) -> Recurrent | None:
        m = recurrent_at(op)
        if m is None or m.is_quantized:
            return None
        return m if plan_of(op) is None or self.request.record is not None else None

    def asked(self, m: Recurrent) -> Iterable[Condition[Any]]:
        if self.alone(m):
            return (*SETTINGS, DecideRecurrent.record, DecideRecurrent.weight_constant)
        return self.conditions

    def given(self, m: Recurrent) -> LayerRecord | None:
        """The entry of a layer in the record; None if there is none."""
        return None if self.request.record is None else self.request.record.layers.get(m.layer.name)

    @abstractmethod
    def alone(self, m: Recurrent) -> bool:
        """Whether only its weights are to be quantized."""

    @classmethod
    def own(cls) -> Sequence[Condition[Any]]:
        """The conditions of the layer itself, for computing in integers."""
        return [each for each in cls.conditions if each not in (*SETTINGS, cls.record, cls.weight_only)]

    @condition
    def record(self, m: Recurrent) -> str | None:
        """the record, where there is one, has scales of both weights"""
        given = self.given(m)
        unlisted = self.request.record is not None and (given is None or not given.scale_r)
        return "the record does not list it" if unlisted else None

    @condition
    def weight_only(self, m: Recurrent) -> str | None:
        """the profile's target computes recurrent layers in integers, not only their weights"""
        return self.request.profile.recurrent_refusal(m.op.op_type.data)

    @condition
    def recurrent_type(self, each: Recurrent) -> str | None:
        """the layer is an LSTM or a GRU"""
        kind = each.op.op_type.data
        return None if kind in ("LSTM", "GRU") else f"no operator computes {kind} in integers"

    @condition
    def weight_constant(self, each: Recurrent) -> str | None:
        """the weights W and R are finite constants"""
        for name, value in zip("WR", each.weights, strict=True):
            constant = constant_of(value)
            if constant is None:
                return f"its weight {name} is computed at run time"
            if not is_float(element_of(value)) or not constant.finite:
                return f"its weight {name} does not hold finite floats"
        return None

    @condition
    def one_direction(self, each: Recurrent) -> str | None:
        """the layer runs forward only"""
        directions, direction = (
            shape_of(each.weights[0])[0],
            _value(_attributes(each).get("direction", StringAttr("forward"))),
        )
        return None if directions == 1 and direction == "forward" else f"its direction is {direction}"

    @condition
    def initial_state(self, each: Recurrent) -> str | None:
        """the initial state, of an LSTM both, depends on an input of the model (AMCT)"""
        for name in (STATE, "cell") if each.op.op_type.data == "LSTM" else (STATE,):
            value = each.operand(name)
            if value is None:
                return f"it has no initial {name}: the model does not take one as an input"
            if constant_of(value) is not None:
                return f"its initial {name} is a constant, not an input of the model"
        return None

    @condition
    def no_lengths(self, each: Recurrent) -> str | None:
        """all sequences have one length, and there are no peepholes"""
        given = [name for name in ("sequence_lens", "peepholes") if each.place(name) is not None]
        return f"it has the input {given[0]}" if given else None

    @condition
    def default_activations(self, each: Recurrent) -> str | None:
        """activations, clip, input_forget and layout are not set (AMCT)"""
        given = _attributes(each)
        set_to = [
            f"{name} {_value(given[name])}" for name in _USUAL if name in given and _value(given[name]) != _USUAL[name]
        ]
        written = [name for name in _ABSENT if name in given]
        return f"its {[*set_to, *written][0]} is set" if set_to or written else None

    @condition
    def linear_before_reset(self, each: Recurrent) -> str | None:
        """a GRU multiplies its state before it applies the reset gate (linear_before_reset, as PyTorch does)"""
        given = _attributes(each).get("linear_before_reset")
        if each.op.op_type.data != "GRU" or (given is not None and _value(given)):
            return None
        return "its linear_before_reset is 0"

    @condition
    def all_outputs(self, each: Recurrent) -> str | None:
        """the node has all of its outputs (AMCT)"""
        wanted = 3 if each.op.op_type.data == "LSTM" else 2
        given = len(each.op.results)
        return None if given == wanted else f"its node has {given} of {wanted} outputs"

    @condition
    def bias_constant(self, each: Recurrent) -> str | None:
        """the bias, where there is one, is a finite constant"""
        if (bias := each.operand("bias")) is None:
            return None
        numbers = array_of(bias)
        if numbers is None:
            return "its bias is computed at run time"
        return None if np.all(np.isfinite(numbers)) else "its bias holds NaN or Inf"


_USUAL = {"direction": "forward", "input_forget": 0, "layout": 0}
"""Attributes that may be written only if they have this value."""
_ABSENT = ("activations", "activation_alpha", "activation_beta", "clip")


def _value(attribute: Attribute) -> object:
    return attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else getattr(attribute, "data", None)


def _attributes(each: Recurrent) -> Mapping[str, Attribute]:
    return dict[str, Attribute]() if each.op.attrs is None else each.op.attrs.data
