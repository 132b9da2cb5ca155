"""Base of the patterns of `--convert-observers`, and the layers that are to be converted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar
from warnings import warn

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.nn import (
    DequantizeOp,
    How,
    NNOp,
    ObserveOp,
    Plan,
    QParams,
    array_of,
    constant_of,
    plan_of,
    set_plan,
)
from ....ir.array import Array
from ....ir.functions import main_function, producer_of
from ....rewriting import M, Refusal, Remarks, Roots, StepPattern
from ....runtime.affine import LEAST_SCALE
from ..decide.embeddings import TABLE, tables
from ..decide.grids import Grids
from ..decide.layers import channel_axis, layer_at
from ..decide.legality import first_broken
from ..decide.recurrent import INPUT, STATE, Recurrent, recurrent_layers
from ..decide.sites import ROUNDED_FROM, Site, sites
from ..numbers.parameters import sum_scales, widened
from ..numbers.weights import Weight
from ..profiles import Profile, Row, profile_of
from .layer_weights import StoredWeights


class PlannedWeight:
    """A constant weight of a layer, with the plan for it, and the bias that is added to its sums."""

    def __init__(
        self,
        layer: NNOp,
        value: SSAValue,
        how: How,
        params: QParams | None,
        bias: Array | None,
        bias_type: type[np.floating] = np.float64,
    ):
        self.how: How = how
        self.params: QParams | None = params
        """The parameters of its multiplied input; None if that stays float, or becomes floats of 8 bits."""
        self.bias: Array | None = bias
        """The numbers of the bias; None if there is none, or if it is not a constant."""
        self.bias_type: type[np.floating] = bias_type
        """The type in which a bias is divided by the scales of the sums."""
        self._layer, self._value = layer, value

    @cached_property
    def planned(self) -> Weight:
        """The weight as its plan has it. Raises CompileError like `Weight.of`."""
        return Weight.of(self._value, self.how, self._layer)

    @cached_property
    def weight(self) -> Weight:
        """The weight, with scales raised until bias and sums fit, unless these are a record's."""
        planned = self.planned
        if planned.fixed or self.params is None:
            return planned
        return planned._replace(scales=widened(planned.scales, self.bias, float(self.params.scales())))

    @cached_property
    def sums(self) -> Array:
        """The scales of the sums, input times weight: float32, [] or [channels]."""
        assert self.params is not None, "its input is quantized"
        return sum_scales(self.weight.scales, self.params.scales())

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """Yields rule and reason of notes on its scales: how many are raised, but for a record's, and how many zero
        their weights, as a record's may, or AMCT's rule, which makes small scales 1.
        """
        if self.how.number_format is not None:
            return
        scales, fixed = self.planned.scales, self.planned.fixed
        rest = f"of {scales.size} weight scales are raised, so that"
        if self.params is not None and not fixed:
            unit = float(self.params.scales())
            if small := int(np.count_nonzero(scales.astype(np.float64) * unit < LEAST_SCALE)):
                yield "scale-range", f"{small} {rest} float32 has the scales of its sums"
            if raised := int(np.count_nonzero(self.weight.scales > widened(scales, None, unit))):
                yield "bias-range", f"{raised} {rest} its bias fits into int32"
        if zeroed := self.planned.zeroed_scales:
            reason = (
                f"all weights under {zeroed} of {scales.size} scales become zero: the scales are too large for them"
            )
            yield "zeroed", reason


class ConvertedLayer:
    """A layer whose input is calibrated, or whose weights are quantized by themselves."""

    def __init__(self, site: Site, row: Row, plan: Plan, params: QParams | None):
        self.site: Site = site
        self.row: Row = row
        self.plan: Plan = plan
        self.params: QParams | None = params
        """The parameters of its input, or of the first of two; None if its input stays float, or becomes floats of 8 bits."""
        point = producer_of(site.activation)
        self.input_format: str | None = number_format_at(point) if isinstance(point, ObserveOp) else None

    @cached_property
    def weights(self) -> Sequence[PlannedWeight]:
        """The constant weights that its plan quantizes; of a recurrent layer both, W and R."""
        index, bias = self.row.weight, None if self.row.bias is None else self.site.operand(self.row.bias)
        value = None if index is None or not self.plan.weights else self.site.operand(index)
        if value is None or constant_of(value) is None:
            return ()
        kind = np.float32 if self.row.as_amct else np.float64
        return (PlannedWeight(self.site.compute, value, self.plan.weights[0], self.params, array_of(bias), kind),)

    @property
    def has_weight(self) -> bool:
        """Whether it has a constant weight that its plan quantizes."""
        return bool(self.weights)

    @property
    def planned_weight(self) -> Weight:
        """The only weight, as its plan has it. Raises CompileError like `Weight.of`."""
        return self.weights[0].planned

    @property
    def weight(self) -> Weight:
        """The only weight, with scales raised until bias and sums fit, unless these are a record's."""
        return self.weights[0].weight


class ConvertedRecurrent(ConvertedLayer):
    """A recurrent layer. Its input and its state are quantized if both have parameters (`inputs`), otherwise only W and R are."""

    def __init__(self, layer: Recurrent, plan: Plan, inputs: Sequence[QParams]):
        super().__init__(layer.site, Row(), plan, inputs[0] if inputs else None)
        self.layer: Recurrent = layer
        self.inputs: Sequence[QParams] = inputs

    @cached_property
    def weights(self) -> Sequence[PlannedWeight]:
        numbers = array_of(self.layer.operand("bias"))
        halves = (None, None) if numbers is None else np.split(numbers.reshape(-1), 2)
        parts = zip(self.layer.weights, self.plan.weights, self.inputs or (None, None), halves, strict=False)
        return tuple(PlannedWeight(self.layer.op, *part) for part in parts)


def number_format_at(point: ObserveOp) -> str | None:
    """The number format that a point's value gets, in place of integers."""
    return None if point.number_format is None else point.number_format.data


class Conversion:
    """A run of the conversion: what is left to convert, and what its patterns share."""

    def __init__(self, module: ModuleOp, remarks: Remarks):
        self.remarks: Remarks = remarks
        self.graph: FuncOp = main_function(module)
        self.weights: StoredWeights = StoredWeights()
        self.layers: dict[Operation, ConvertedLayer] = dict(_layers(module, profile_of(remarks.session)))
        """The layers to convert, by operation; the first pattern that matches a layer takes it."""


def _layers(module: ModuleOp, profile: Profile) -> Iterator[tuple[Operation, ConvertedLayer]]:
    """The layers as they are before anything is converted: afterwards, converted points look like given ones."""
    grids = Grids(profile.rows)
    for site in sites(module, profile.rows):
        plan = _plan_at(site, profile)
        params = grids.params_at(site) if plan.input else None
        if params is not None or not plan.input:
            yield site.compute, ConvertedLayer(site, profile.rows[type(site.compute)], plan, params)
    for each in tables(module):
        if (plan := plan_of(each.op)) is not None and plan.weights:
            yield each.op, ConvertedLayer(each.site, Row(weight=TABLE), plan, None)
    for each in recurrent_layers(module):
        if (plan := plan_of(each.op)) is None or not plan.weights or each.is_quantized:
            continue
        points = (producer_of(each.operand(name)) for name in (INPUT, STATE) if plan.input)
        params = [p.qparams for p in points if isinstance(p, ObserveOp | DequantizeOp)]
        inputs = [one.data for one in params if one is not None]
        if not plan.input or len(inputs) == 2:
            yield each.op, ConvertedRecurrent(each, plan, inputs)


def _plan_at(site: Site, profile: Profile) -> Plan:
    """The layer's plan; if nothing has decided, the plan that an observer placed by hand asks for."""
    if (plan := plan_of(site.compute)) is not None:
        return plan
    row = profile.rows[type(site.compute)]
    if profile.facts.ruled and (broken := first_broken(site, row.rules, profile.table)) is not None:
        return Plan(broken[0].name)
    axis = channel_axis(site.compute) if layer_at(site, row).channel_wise else None
    return Plan(input=True, weights=(How(axis=axis),))


class ConversionPattern(StepPattern[M]):
    """A part of the conversion."""

    def __init__(self, conversion: Conversion):
        super().__init__(conversion.remarks)
        self.conversion = conversion


class ConvertLayer(ConversionPattern[ConvertedLayer]):
    """The conversion of one kind of layer. Subclasses set `name`, and define `takes` and `convert`."""

    roots: ClassVar[Roots] = (NNOp,)

    def __init__(self, conversion: Conversion):
        super().__init__(conversion)
        # of this module: the driver need not visit what the conversion makes
        vars(self)["roots"] = tuple({type(op) for op in conversion.layers if isinstance(op, self.roots)})

    @abstractmethod
    def takes(self, m: ConvertedLayer) -> bool:
        """Whether the layer is of this kind."""

    @abstractmethod
    def convert(self, m: ConvertedLayer) -> str:
        """Quantizes the weight and bias; points have patterns of their own. Returns the text of the remark."""

    def match(self, op: Operation) -> ConvertedLayer | None:
        found = self.conversion.layers.get(op)
        return found if found is not None and self.takes(found) else None

    def refused(self, m: ConvertedLayer, refusal: Refusal) -> None:
        del self.conversion.layers[m.site.compute]

    def rewrite(self, m: ConvertedLayer, rewriter: PatternRewriter) -> None:
        op = m.site.compute
        del self.conversion.layers[op]
        notes = [note for weight in m.weights for note in weight.notes]
        self.remarks.applied(op, "quantized", self.convert(m))
        for rule, reason in notes:
            self.remarks.note(op, rule, reason)
        carry_out(op, self.remarks)


def carry_out(op: Operation, remarks: Remarks) -> None:
    """Drop the plan of a layer, with a remark on the parts that were not done. Sums that are to be shifted keep that part."""
    if (plan := plan_of(op)) is None:
        return
    op.attributes.pop(ROUNDED_FROM, None)
    if plan.balance is not None:
        remarks.missed(op, "balance", "its channels are not balanced: --balance-channels comes before --calibrate")
    if any(weight.rounding is not None for weight in plan.weights):
        remarks.note(op, "rounding", "its weight is rounded to the nearest numbers: --round-weights did not run")
    if plan.shift:
        remarks.note(op, "shift", "its sums keep 32 bits until --shift-accumulators shifts them")
    set_plan(op, Plan(input=True, shift=plan.shift) if plan.shift else None)


def __getattr__(name: str) -> object:
    """`Layer` is the name that `ConvertedLayer` had in the last release."""
    if name != "Layer":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    warn(f"{__name__}.Layer is called ConvertedLayer now", DeprecationWarning, stacklevel=2)
    return ConvertedLayer
