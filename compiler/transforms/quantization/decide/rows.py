"""Rows of profiles and tables: the quantization of an operation or a layer, with conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from xdsl.dialects.builtin import i16

from ....configuration.layer_settings import LayerSettings
from ....dialects import nn
from ....dialects.nn import NNOp, QParamsAttr
from ....rewriting import Condition, Refusal, layer_of
from .sites import Site

Rule = Condition[Any]
"""A condition of a layer."""
Broken = tuple[Rule, str]
"""A condition that does not hold, and the reason."""


INT16 = QParamsAttr.of(i16, 1.0)
"""Data of 16 bits, with parameters that are not known."""


class Judge(Protocol):
    """Knows a target's operators of integers: each method gives the reason why none of them computes an operation, None
    if one does.
    """

    def integer_refusal(self, op: NNOp, data: QParamsAttr = ..., weight: QParamsAttr = ...) -> Refusal | None:
        """Judges the operation with one quantized activation, which has these parameters, and a quantized weight if the
        operation has one.
        """
        ...

    def product_refusal(self, op: nn.MatMulOp) -> Refusal | None:
        """Judges the product of two quantized activations."""
        ...

    def recurrent_refusal(self, kind: str) -> str | None:
        """The reason why there is no operator for recurrent layers of a type."""
        ...

    def on(self, chip: str) -> Judge:
        """The judge of what has kernels on a chip, too."""
        ...


class ComputedInIntegers(Condition[Site]):
    """The rule of rows whose layers stay float unless the target computes them in integers; a row has it `by` its judge."""

    def __init__(self, statement: str, judge: Judge | None = None):
        super().__init__(self._refused, statement)
        self.judge: Judge | None = judge

    def by(self, judge: Judge) -> ComputedInIntegers:
        """The rule as this judge decides it."""
        judged = ComputedInIntegers(self.statement, judge)
        judged.name = self.name
        return judged

    def on(self, chip: str) -> ComputedInIntegers:
        """The rule for a chip."""
        return self if self.judge is None else self.by(self.judge.on(chip))

    def _refused(self, _: object, site: Site) -> str | None:
        assert self.judge is not None, "check_conditions"
        op = site.compute
        if isinstance(op, nn.MatMulOp) and site.multiplies_inputs:
            refusal = self.judge.product_refusal(op)
        else:
            refusal = self.judge.integer_refusal(op)
        return None if refusal is None else refusal.reason


Alignment = Literal["elementwise", "concat", "pooling", "resize"]
"""The kinds of operations whose operands and results may have to carry equal parameters (PPQ)."""


Mode = Literal["large", "output", "input", "none", "joint"]
"""Ways to align them: `values/alignment.py`."""


@dataclass(frozen=True)
class Row:
    """The quantization of one operation. Operand 0 is the activation; `weight` and `bias` are operand indices.

    `per_channel` gives each output channel its own weight scale. The rules are the target's conditions beyond the table of
    the layer's source framework (`tables.py`).
    """

    weight: int | None = None
    bias: int | None = None
    per_channel: bool = False
    rules: tuple[Rule, ...] = ()
    symmetric: bool = False
    """The activation has no zero point."""
    active: bool = True
    """False if the results contain only elements of operand 0, so that its parameters apply to them."""
    alignment: Alignment | None = None
    between: bool = False
    """Quantized only if its operands are integers anyway and the readers of its results compute in integers."""
    gives_reals: bool = False
    """The target computes real results from integers as fast as integer results: only integer readers get quantized ones."""
    two_inputs: bool = False
    """If the weight is an activation as well, both are quantized, without zero points."""
    low_bits: Literal["planar", "always"] = "planar"
    """The weights that may have fewer than 8 bits while the input is quantized: in two-dimensional convolutions (AMCT), or all.
    """
    as_amct: bool = False
    """Whether its parameters are those of AMCT for PyTorch to the bit: scales of weights that are 1 below float32's epsilon,
    biases divided in float32; INT16 inputs and `ada_quantize` for some types of layers only.
    """
    calibrated_in_float: bool = False
    """Whether its weight stays float while ranges of activations are found, even if weights are quantized first (AMCT's
    transposed convolutions).
    """
    weight_only: Literal["table", "always"] | None = None
    """Whether the weight can be quantized while the input stays float: according to AMCT's table of weights, always, or never."""

    channel_formats: bool = False
    """Whether the weight can be stored in a number format with a scale for each channel while the input stays float."""

    def on(self, chip: str) -> Row:
        """The row for a chip."""
        rules = tuple(each.on(chip) if isinstance(each, ComputedInIntegers) else each for each in self.rules)
        return replace(self, rules=rules)

    @property
    def judge(self) -> Judge | None:
        """Knows which layers the target computes in integers; None if no rule asks it."""
        return next((each.judge for each in self.rules if isinstance(each, ComputedInIntegers)), None)


@dataclass(frozen=True)
class LayerRow:
    """A type of layer, the conditions for quantizing it, and the Ascend IR operators that AMCT maps it to.

    A type can have several rows, distinguished by `operations`, the imported operations (Caffe's Pooling by its mode).
    """

    framework: str
    op_type: str
    operations: tuple[type[NNOp], ...]
    rules: tuple[Rule, ...]
    ascend: tuple[str, ...]
    variants: tuple[str, ...] = ()
    """Types that are not in the table but are other versions or spellings of this type."""
    of_inputs: tuple[Rule, ...] | None = None
    """The conditions of a product of two inputs, instead of `rules`; None where those apply to it as well."""

    @property
    def tensor_only(self) -> bool:
        return any(each.name == "tensor-only" for each in self.rules)

    def rules_of(self, site: Site) -> tuple[Rule, ...]:
        """The conditions of this type's layer at `site`."""
        return self.rules if self.of_inputs is None or not site.multiplies_inputs else self.of_inputs


@dataclass(frozen=True, eq=False)
class Layer(Site):
    """A site of a kind that a profile quantizes: its row, that of the profile's table for its source, and its settings."""

    row: Row = field(kw_only=True)
    source: LayerRow | None = field(kw_only=True)
    """The row of the source layer; None if the table does not have it, or if the profile has no table."""
    settings: LayerSettings | None = field(kw_only=True)
    """The settings of the layer; None if only legality is asked for."""
    number_format: str | None = field(kw_only=True, default=None)
    """The number format of its weight; None for integers."""
    inputs_asked: bool = field(kw_only=True, default=False)
    """Whether tensor_quantize or a record names single inputs of it."""

    @classmethod
    def at(
        cls, site: Site, row: Row, source: LayerRow | None = None, held: LayerSettings | None = None, **more: Any
    ) -> Self:
        owned = site.owner, site.compute, site.half_precision, site.softmax_only, row.two_inputs
        return cls(*owned, row=row, source=source, settings=held, **more)

    @property
    def held(self) -> LayerSettings:
        """The settings of the layer."""
        assert self.settings is not None, "decisions are made with settings"
        return self.settings

    @property
    def name(self) -> str:
        """The user's name of the layer."""
        return layer_of(self.compute)
