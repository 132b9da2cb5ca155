"""`--balance-channels`: divides outlier channels of a layer's input and multiplies its weight to compensate (AMCT's DMQ)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ....data import Samples
from ....dialects.nn import (
    ConstantOp,
    MulOp,
    ObserveOp,
    OriginAttr,
    Plan,
    WeightedOp,
    constant_of,
    plan_of,
    set_plan,
)
from ....dialects.nn.shapes import element_of, shape_of
from ....engines import Runner
from ....engines.findings import Finding, State, show
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....pipelines.options import Parts
from ....rewriting import (
    Refusal,
    Remarks,
    Roots,
    StepPattern,
    condition,
    erase_dead_constants,
    layer_of,
    rewrite,
    strict,
)
from ....session import Session, session_of
from ....support.diagnostics import op_error
from ..data import load, runs_of
from ..decide.sites import BALANCER, FACTORS, Site, balancer_of, sites
from ..options import DataOptions, EngineOptions
from ..running import runner_of

_WEIGHT = 1
"""The operand that is the weight of every layer that has one."""


@dataclass(frozen=True)
class Balanced:
    """A layer whose input channels are to be balanced."""

    site: Site
    compute: WeightedOp
    plan: Plan

    @property
    def activation(self) -> SSAValue:
        """The layer's input, before its point."""
        value = self.site.activation
        assert value is not None, "weighted has asked for it"
        return value.owner.input if isinstance(value.owner, ObserveOp) else value

    @property
    def weight(self) -> ConstantOp:
        constant = constant_of(self.site.operand(_WEIGHT))
        assert constant is not None, "weighted has asked for it"
        return constant

    @cached_property
    def scaled(self) -> tuple[Array, Array, Array]:
        """The reciprocals of the planned factors, the factors that cancel them, and the weight times these: in the
        input's type, float32 and the weight's. They may be Inf.
        """
        numbers, factors = self.weight.array, np.array(self.plan.balance, np.float32)
        with np.errstate(all="ignore"):
            inverse = (1 / factors).astype(numpy_dtype(element_of(self.activation)))
            if inverse.dtype != np.float32:  # the factors of the rounded ones, so that the two cancel out
                factors = np.float32(1) / inverse.astype(np.float32)
            products = numbers.astype(np.float64) * factors[self.compute.weight_inputs()]
            return inverse, factors, products.astype(numbers.dtype)


class BalanceChannels(StepPattern[Balanced]):
    """a layer with its input divided and its weight multiplied, channel by channel, by the factors of its plan"""

    name = "balance"
    roots: ClassVar[Roots] = (WeightedOp,)

    def __init__(self, remarks: Remarks, layers: Mapping[Operation, Site], sources: Mapping[Operation, str]):
        super().__init__(remarks)
        self.sites = layers
        self.sources = sources
        """The source of factors that were computed: `data` or `synthetic`."""

    @strict()
    def weighted(self, m: Balanced) -> str | None:
        """it has a constant weight, and its input is not computed inside its region"""
        if m.site.activation is not None and constant_of(m.site.operand(_WEIGHT)) is not None:
            return None
        return "has a plan to be balanced, which needs a constant weight and an input from outside"

    @strict()
    def factor_count(self, m: Balanced) -> str | None:
        """its plan has a factor for each input channel"""
        balance, channels = m.plan.balance, m.compute.weight_channels
        if not isinstance(balance, tuple) or len(balance) == channels:
            return None
        return f"has a plan with {len(balance)} factors for {channels} input channels"

    @condition
    def finite(self, m: Balanced) -> str | None:
        """its factors, and its weight times these, lie in the range of their type"""
        whole = all(np.isfinite(numbers).all() for numbers in m.scaled)
        return None if whole else "its factors, or its weight times these, leave the range of their type"

    def match(self, op: Operation) -> Balanced | None:
        site, plan = self.sites.get(op), plan_of(op)
        if site is None or plan is None or plan.balance is None or not isinstance(op, WeightedOp):
            return None
        return Balanced(site, op, plan)

    def refused(self, m: Balanced, refusal: Refusal) -> None:
        set_plan(m.compute, replace(m.plan, balance=None))

    def rewrite(self, m: Balanced, rewriter: PatternRewriter) -> None:
        op, value, weight, source = m.compute, m.activation, m.weight, self.sources.get(m.compute, "record")
        inverse, factors, scaled = m.scaled
        rank, axis = len(shape_of(value)), op.input_axis
        shape = [-1 if i == axis else 1 for i in range(rank)]
        constant = ConstantOp.of(inverse.reshape(shape), f"{layer_of(op)}.dmq.inverse", op.location)
        product = MulOp.make(
            value,
            constant.result,
            result_types=[value.type],
            origin=_origin(op, source),
            location=op.location,
            name=f"{value.name_hint}.dmq" if value.name_hint else None,
        )
        product.attributes[FACTORS] = ConstantOp.of(factors, f"{layer_of(op)}.dmq.factors", op.location).value
        balanced = ConstantOp.of(scaled, f"{weight.key}.balanced", weight.location)
        point = None if m.site.activation is None else m.site.activation.owner
        if isinstance(point, ObserveOp):
            rewriter.insert([constant, product], InsertPoint.before(point))
            point.operands[0] = product.result
        else:
            rewriter.insert([constant, product], InsertPoint.before(m.site.owner))
            m.site.set_operand(0, product.result)
        rewriter.insert(balanced, InsertPoint.before(m.site.owner))
        m.site.set_operand(_WEIGHT, balanced.result)
        span = f"{factors.min(initial=np.inf):.6g} to {factors.max(initial=0):.6g}"
        self.remarks.applied(op, "balanced", f"{factors.size} channels of its input divided by {span} ({source})")
        set_plan(op, replace(m.plan, balance=None))


@dataclass(frozen=True, init=False)
class BalanceChannelsPass(Parts, ModulePass):
    """Divide outlier channels of layers' inputs and multiply the weights by the same factors, if the layer's plan says so.

    Plans come from `--insert-observers=dmq=0.5`, a configuration with a dmq_balancer, or a record with factors.
    """

    name = "balance-channels"

    calibration: DataOptions
    running: EngineOptions

    PATTERNS: ClassVar[tuple[type[BalanceChannels], ...]] = (BalanceChannels,)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        if not any(plan.balance is not None for each in op.walk() if (plan := plan_of(each)) is not None):
            session.warn("--balance-channels has nothing to do: --insert-observers=dmq=0.5 before it plans balancing")
        balance_channels(op, lambda: load(self.calibration, op, session), session, runner_of(self.running))


def balance_channels(module: ModuleOp, samples: Callable[[], Samples], session: Session, runner: Runner) -> None:
    """Balance the layers whose plans ask for it: by data, which leaves factors in the plans, or by the factors of a record.

    The data runs through the model once, and the largest magnitudes count; where plans quantize weights first, only the first
    run of the data, as AMCT has it. Raises CompileError, located at a layer, for
    NaN or Inf in its input, and for a plan that does not fit the layer.
    """
    remarks = Remarks(session, BalanceChannelsPass.name)
    found: dict[Operation, Site] = {site.compute: site for site in sites(module, (WeightedOp,))}
    sources: dict[Operation, str] = {}
    kinds = (*session.patterns_of(BalanceChannelsPass.name), *BalanceChannelsPass.PATTERNS)
    patterns = [kind(remarks, found, sources) for kind in kinds]
    searched: list[Balanced] = []
    for op in found:
        if (first := next(((p, m) for p in patterns if (m := p.match(op)) is not None), None)) is not None:
            pattern, layer = first
            pattern.require(layer, op)
            searched += [layer] if isinstance(layer.plan.balance, float) else []
    if searched:
        data = runs_of(samples(), 1) if any(w.first for each in searched for w in each.plan.weights) else samples()
        for layer, factors in zip(searched, _computed(module, searched, data, session, runner), strict=True):
            set_plan(layer.compute, replace(layer.plan, balance=tuple(factors.tolist())))
            sources[layer.compute] = "synthetic" if data.synthetic else "data"
    rewrite(module, *patterns, erase_dead=False)
    erase_dead_constants(module)
    remarks.flush()


@dataclass
class _Peaks:
    """The largest magnitudes of the channels of a layer's input: float64 [channels]."""

    layer: WeightedOp
    found: Array | None = None

    def show(self, array: Array, run: int) -> None:
        try:
            peaks = activation_peaks(array, self.layer.input_axis)
        except ValueError as e:
            hint = "look for an overflow in the model or its data"
            raise op_error(self.layer, f"has an input whose {e}", hint) from None
        self.merge({"peaks": peaks})

    def state(self) -> State:
        assert self.found is not None, "there are samples"
        return {"peaks": self.found}

    def merge(self, state: State) -> None:
        peaks = state["peaks"]
        self.found = peaks if self.found is None else np.maximum(self.found, peaks)


def _computed(
    module: ModuleOp, layers: Sequence[Balanced], samples: Samples, session: Session, runner: Runner
) -> list[Array]:
    """The factors of every layer, from the magnitudes of its input while the samples run through the model."""
    peaks: dict[tuple[SSAValue, int], _Peaks] = {}
    findings: dict[SSAValue, list[Finding]] = {}
    for layer in layers:
        channels = layer.activation, layer.compute.input_axis
        if channels not in peaks:
            peaks[channels] = _Peaks(layer.compute)
            findings.setdefault(layer.activation, []).append(peaks[channels])
    show(module, findings, samples, session, runner, "balance")
    return [
        balance_factors(
            peaks[layer.activation, layer.compute.input_axis].state()["peaks"],
            weight_peaks(layer.compute, layer.weight.array),
            strength,
            runner,
        )
        for layer in layers
        if isinstance(strength := layer.plan.balance, float)
    ]


def _origin(op: WeightedOp, source: str) -> OriginAttr:
    of_layer = op.origin
    framework = of_layer.framework.data if isinstance(of_layer, OriginAttr) else "onnx"
    return OriginAttr.of(framework, BALANCER, f"{layer_of(op)}.dmq", {"source": StringAttr(source)})


def factors_of(site: Site) -> tuple[float, ...]:
    """The balancing factors of a layer, as records store them; empty if it is not balanced."""
    product = balancer_of(site)
    kept = None if product is None else product.attributes.get(FACTORS)
    return () if kept is None else tuple(map(float, ConstantOp(cast(Any, kept)).array))


_NUMPY = Runner("numpy")
SMALLEST = 1.1920929e-07
"""float32's epsilon. Factors lie between it and its reciprocal, and peaks below that share of the largest one count as zero.
AMCT, which takes no share, balances no channel of small weights.
"""


def balance_factors(activations: Array, weights: Array, strength: float = 0.5, runner: Runner = _NUMPY) -> Array:
    """The factors that divide input channels of an activation and multiply those of the weight: float32 [channels].

    `activations` and `weights` are the largest magnitudes per input channel. `f = a^strength / w^(1 - strength)`; if one of
    the two is zero, f brings the other's peak to the largest of the balanced ones; if both are, it is 1. All is computed in
    float32, powers by the engine (AMCT).
    """
    a, w = activations.astype(np.float32), weights.astype(np.float32)
    no_a, no_w = (peaks <= SMALLEST * min(1.0, peaks.max(initial=0.0)) for peaks in (a, w))
    both = ~no_a & ~no_w
    factors = np.ones_like(a)
    factors[both] = runner.power(a, strength)[both] / runner.power(w, 1 - strength)[both]
    if both.any():
        only_w, only_a = no_a & ~no_w, ~no_a & no_w
        factors[only_w] = np.max(w[both] * factors[both]) / w[only_w]
        factors[only_a] = a[only_a] / np.max(a[both] / factors[both])
    return np.clip(factors, np.float32(SMALLEST), np.float32(1 / SMALLEST))


def weight_peaks(op: WeightedOp, weight: Array) -> Array:
    """The largest magnitude of the weight's numbers per input channel: float64 [channels]."""
    channels = op.weight_inputs()
    others = tuple(i for i, size in enumerate(channels.shape) if size == 1)
    largest = np.abs(weight.astype(np.float64)).max(axis=others, keepdims=True, initial=0.0)
    peaks = np.zeros(op.weight_channels)
    np.maximum.at(peaks, np.broadcast_to(channels, largest.shape), largest)
    return peaks


def activation_peaks(activation: Array, axis: int) -> Array:
    """The largest magnitude per channel: float64 [channels]. Raises ValueError for NaN and Inf."""
    others = tuple(i for i in range(activation.ndim) if i != axis)
    peaks = np.abs(activation).max(axis=others, initial=0).astype(np.float64)
    if not np.isfinite(peaks).all():
        raise ValueError("values hold NaN or Inf")
    return peaks
