"""What the patterns of `--convert-observers` share: the layers that are to be converted, and the base of their patterns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar
from warnings import warn

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.nn import (
    NNOp,
    ObserveOp,
    OpaqueOp,
    Plan,
    QParams,
    WeightPlan,
    array_of,
    constant_of,
    plan_of,
    set_plan,
)
from ....ir.array import Array
from ....ir.functions import main_function
from ....rewriting import M, Remarks, Roots, StepPattern
from ....runtime.affine import LEAST_SCALE
from ..decide.embeddings import TABLE, embeddings
from ..decide.layers import channel_axis, layer_at
from ..decide.legality import first_broken
from ..decide.recurrent import Recurrent, recurrent_layers
from ..decide.sites import Site, producer_of, sites
from ..place.grids import Grids
from ..profiles import Profile, Row, profile_of
from .layer_weights import StoredWeights, Weight, weight_as, zeroed_scales
from .parameters import sum_scales, widened

ROUNDED_FROM = "nn.rounded_from"
"""The attribute of a layer that keeps its weight from before `--round-weights`, which `--correct-bias` compares with."""


class ConvertedLayer:
    """A layer whose input is calibrated, or whose weight is quantized by itself."""

    def __init__(self, site: Site, row: Row, plan: Plan, params: QParams | None):
        self.site: Site = site
        self.row: Row = row
        self.plan: Plan = plan
        self.params: QParams | None = params
        """The parameters of its input, or of the first of two; None if its input stays float, or becomes floats of 8 bits."""
        point = producer_of(site.activation)
        self.input_format: str | None = number_format_at(point) if isinstance(point, ObserveOp) else None

    @property
    def has_weight(self) -> bool:
        """Whether it has a constant weight that its plan quantizes."""
        index = self.row.weight
        return index is not None and bool(self.plan.weights) and constant_of(self.site.operand(index)) is not None

    @property
    def number_format(self) -> str | None:
        """The number format that its weight gets, in place of integers."""
        return self.plan.weights[0].number_format if self.has_weight else None

    @cached_property
    def planned_weight(self) -> Weight:
        """The weight as its plan has it. Raises CompileError like `weight_as`."""
        assert self.row.weight is not None, "it has a weight"
        value = self.site.operand(self.row.weight)
        assert value is not None, "a constant is a value"
        return weight_as(value, self.plan.weights[0], self.site.compute)

    @cached_property
    def weight(self) -> Weight:
        """The weight, with scales raised until bias and sums fit, unless these are a record's."""
        weight = self.planned_weight
        if weight.fixed or self.params is None:
            return weight
        return weight._replace(scales=widened(weight.scales, self.bias_numbers, float(self.params.scales())))

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """Rule and reason of what is said of scales of its weight: how many are raised, but for a record's, and how many zero
        their weights, as a record's may, or AMCT's rule, which makes small scales 1.
        """
        if not self.has_weight or self.number_format is not None:
            return
        scales, fixed = self.planned_weight.scales, self.planned_weight.fixed
        rest = f"of {scales.size} weight scales are raised, so that"
        if self.params is not None and not fixed:
            unit = float(self.params.scales())
            if small := int(np.count_nonzero(scales.astype(np.float64) * unit < LEAST_SCALE)):
                yield "scale-range", f"{small} {rest} float32 has the scales of its sums"
            if raised := int(np.count_nonzero(self.weight.scales > widened(scales, None, unit))):
                yield "bias-range", f"{raised} {rest} its bias fits into int32"
        if zeroed := zeroed_scales(self.planned_weight):
            reason = (
                f"all weights under {zeroed} of {scales.size} scales become zero: the scales are too large for them"
            )
            yield "zeroed", reason

    @property
    def bias(self) -> SSAValue | None:
        return None if self.row.bias is None else self.site.operand(self.row.bias)

    @property
    def bias_numbers(self) -> Array | None:
        """The numbers of a constant bias."""
        return array_of(self.bias)

    @property
    def bias_type(self) -> type[np.floating]:
        """The type in which a bias is divided by the scales of the sums."""
        return np.float32 if self.row.as_amct else np.float64

    @cached_property
    def sums(self) -> Array:
        """The scales of the sums, input times weight: float32, [] or [channels]."""
        assert self.params is not None, "its input is quantized"
        return sum_scales(self.weight.scales, self.params.scales())


def number_format_at(point: ObserveOp) -> str | None:
    """The number format that a point's value gets, in place of integers."""
    return None if point.number_format is None else point.number_format.data


class Conversion:
    """One run of the conversion: what is left to convert, and what its patterns share."""

    def __init__(self, module: ModuleOp, remarks: Remarks):
        self.remarks: Remarks = remarks
        self.graph: FuncOp = main_function(module)
        self.weights: StoredWeights = StoredWeights()
        self.layers: dict[Operation, ConvertedLayer] = dict(_layers(module, profile_of(remarks.session)))
        """By operation; the first pattern that matches a layer takes it."""
        self.recurrent: dict[OpaqueOp, Recurrent] = {each.op: each for each in recurrent_layers(module)}


def _layers(module: ModuleOp, profile: Profile) -> Iterator[tuple[Operation, ConvertedLayer]]:
    """The layers as they are before anything is converted: afterwards, converted points look like those that were given."""
    grids = Grids(profile.rows)
    for site in sites(module, profile.rows):
        plan = _plan_at(site, profile)
        params = point_of(site, profile, grids) if plan.input else None
        if params is not None or not plan.input:
            yield site.compute, ConvertedLayer(site, profile.rows[type(site.compute)], plan, params)
    for each in embeddings(module):
        if (plan := plan_of(each.op)) is not None and plan.weights:
            yield each.op, ConvertedLayer(each.site, Row(weight=TABLE), plan, None)


def _plan_at(site: Site, profile: Profile) -> Plan:
    """The layer's plan; where nothing has decided, what an observer that was placed by hand asks for."""
    if (plan := plan_of(site.compute)) is not None:
        return plan
    row = profile.rows[type(site.compute)]
    if profile.facts.ruled and (broken := first_broken(site, row.rules, profile.table)) is not None:
        return Plan(broken[0].name)
    axis = channel_axis(site.compute) if layer_at(site, row).channel_wise else None
    return Plan(input=True, weights=(WeightPlan(8, axis),))


def point_of(site: Site, profile: Profile, grids: Grids) -> QParams | None:
    """The parameters of a site whose activation is on the grid of a calibrated point: the first that did not come quantized."""
    values = map(site.operand, site.inputs if profile.rows[type(site.compute)].two_inputs else (0,))
    points = map(grids.behind, values)
    calibrated = (p.qparams.data for p in points if isinstance(p, ObserveOp) and p.qparams is not None)
    return next(calibrated, None)


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
        """Quantizes its weight and bias; its points are patterns of their own. Returns the text of the remark."""

    def match(self, op: Operation) -> ConvertedLayer | None:
        found = self.conversion.layers.get(op)
        return found if found is not None and self.takes(found) else None

    def refused(self, m: ConvertedLayer) -> None:
        del self.conversion.layers[m.site.compute]

    def rewrite(self, m: ConvertedLayer, rewriter: PatternRewriter) -> None:
        op = m.site.compute
        del self.conversion.layers[op]
        notes = [*m.notes]
        self.remarks.applied(op, "quantized", self.convert(m))
        for rule, reason in notes:
            self.remarks.note(op, rule, reason)
        carry_out(op, self.remarks)


def carry_out(op: Operation, remarks: Remarks) -> None:
    """Drop the plan of a layer, with a remark on what was not done of it. Sums that are to be shifted keep that part."""
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
