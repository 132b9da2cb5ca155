"""`--balance-channels`: divides outlier channels of a layer's input and multiplies its weight to compensate (AMCT's DMQ)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from .....backends import Runner
from .....backends.findings import Finding, State, show
from .....diagnostics import op_error
from .....dialects.nn import (
    ConstantOp,
    ConvolutionOp,
    MatMulOp,
    MulOp,
    ObserveOp,
    OriginAttr,
    array_of,
    before_points,
    constant_of,
    plan_of,
    set_plan,
)
from .....dialects.nn.shapes import element_of, shape_of
from .....ir.dtypes import numpy_dtype
from .....rewriting import Remarks, erase_dead_constants, layer_of
from .....runtime.data import Samples
from .....session import Session, session_of
from ...data_options import BackendOptions, DataOptions
from ...decide.sites import Site, sites
from .input_channels import (
    Weighted,
    activation_axis,
    activation_peaks,
    balance_factors,
    weight_channels,
    weight_peaks,
)

Array = np.ndarray[Any, np.dtype[Any]]

BALANCER = "DMQBalancer"
"""The origin type of the balancing products."""
FACTORS = "nn.factors"
"""The attribute of a balancing product that keeps its factors, float32 [channels]: their reciprocals are rounded."""
_WEIGHT = 1
"""The operand that is the weight of every layer that has one."""


@dataclass(frozen=True)
class BalanceChannelsPass(DataOptions, BackendOptions, ModulePass):
    """Divide outlier channels of layers' inputs and multiply the weights by the same factors, if the layer's plan says so.

    Plans come from `--insert-observers=dmq=0.5`, a configuration with a dmq_balancer, or a record with factors.
    """

    name = "balance-channels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        if not any(plan.balance is not None for each in op.walk() if (plan := plan_of(each)) is not None):
            session.warn("--balance-channels has nothing to do: --insert-observers=dmq=0.5 before it plans balancing")
        balance_channels(op, lambda: self.load(op, session), session, self.runner())


class Balanced(NamedTuple):
    """A layer whose input channels are to be balanced."""

    site: Site
    balance: float | tuple[float, ...]
    """The share of the activation's spread that moves into the weight, or the factors themselves."""

    @property
    def compute(self) -> Weighted:
        return cast(Weighted, self.site.compute)

    @property
    def activation(self) -> SSAValue:
        """The layer's input, before its point."""
        value = self.site.activation
        assert value is not None, "legality has asked for it"
        return value.owner.input if isinstance(value.owner, ObserveOp) else value

    @property
    def numbers(self) -> Array:
        """The weight's values."""
        array = array_of(self.site.operand(_WEIGHT))
        assert array is not None, "legality has asked for it"
        return array


def balance_channels(module: ModuleOp, samples: Callable[[], Samples], session: Session, runner: Runner) -> None:
    """Balance the layers whose plans say so: by data, or by the factors of a record.

    All of the data runs through the model once, and the largest magnitudes count. Raises CompileError, located at a layer, for
    NaN or Inf in its input, and for a plan that does not fit the layer.
    """
    remarks = Remarks(session, "balance-channels")
    planned = [(site, plan) for site in sites(module, (ConvolutionOp, MatMulOp)) if (plan := plan_of(site.compute))]
    layers = [Balanced(site, plan.balance) for site, plan in planned if plan.balance is not None]
    for layer in layers:
        _check(layer)
    searched = [layer for layer in layers if isinstance(layer.balance, float)]
    found: dict[Site, Array] = {}
    source = "record"
    if searched:
        data = samples()
        source = "synthetic" if data.synthetic else "data"
        found = dict(zip((s.site for s in searched), _computed(module, searched, data, session, runner), strict=True))
    for layer in layers:
        if isinstance(layer.balance, float):
            _balance(layer, found[layer.site], source, remarks)
        else:
            _balance(layer, np.array(layer.balance, np.float32), "record", remarks)
    for site, plan in planned:
        set_plan(site.compute, replace(plan, balance=None))
    erase_dead_constants(module)
    remarks.flush()


def _check(layer: Balanced) -> None:
    """Raise CompileError, located at the layer, for a plan that does not fit it, as only a hand-written one can."""
    if layer.site.activation is None or array_of(layer.site.operand(_WEIGHT)) is None:
        raise op_error(
            layer.compute, "has a plan to be balanced, which needs a constant weight and an input from outside"
        )
    channels = weight_peaks(layer.compute, layer.numbers).size
    if isinstance(layer.balance, tuple) and len(layer.balance) != channels:
        reason = f"has a plan with {len(layer.balance)} factors for {channels} input channels"
        raise op_error(layer.compute, reason)


@dataclass
class _Peaks:
    """The largest magnitudes of the channels of a layer's input: float64 [channels]."""

    layer: Weighted
    found: Array | None = None

    def show(self, array: Array, run: int) -> None:
        try:
            peaks = activation_peaks(array, activation_axis(self.layer))
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
    """Every layer's factors, from the magnitudes of its input while the samples run through the model."""
    peaks: dict[tuple[SSAValue, int], _Peaks] = {}
    findings: dict[SSAValue, list[Finding]] = {}
    for layer in layers:
        channels = layer.activation, activation_axis(layer.compute)
        if channels not in peaks:
            peaks[channels] = _Peaks(layer.compute)
            findings.setdefault(layer.activation, []).append(peaks[channels])
    show(module, findings, samples, session, runner, "balance")
    return [
        balance_factors(
            peaks[layer.activation, activation_axis(layer.compute)].state()["peaks"],
            weight_peaks(layer.compute, layer.numbers),
            strength,
        )
        for layer in layers
        if isinstance(strength := layer.balance, float)
    ]


def _balance(layer: Balanced, factors: Array, source: str, remarks: Remarks) -> None:
    """Divide the input and multiply the weight, unless numbers overflow their types."""
    value, weight = layer.activation, constant_of(layer.site.operand(_WEIGHT))
    assert weight is not None, "legality has asked for it"
    numbers = weight.array
    with np.errstate(all="ignore"):
        inverse = (1 / factors).astype(numpy_dtype(element_of(value)))
        if inverse.dtype != np.float32:  # the factors of the rounded ones, so that the two cancel out
            factors = np.float32(1) / inverse.astype(np.float32)
        scaled = (numbers.astype(np.float64) * factors[weight_channels(layer.compute)]).astype(numbers.dtype)
    if not (np.isfinite(factors).all() and np.isfinite(inverse).all() and np.isfinite(scaled).all()):
        remarks.missed(layer.compute, "finite", "its factors, or its weight times these, leave the range of their type")
        return
    name = layer_of(layer.compute)
    rank, axis = len(shape_of(value)), activation_axis(layer.compute)
    shape = [-1 if i == axis else 1 for i in range(rank)]
    constant = ConstantOp.of(inverse.reshape(shape), f"{name}.dmq.inverse", layer.compute.location)
    product = MulOp.make(
        value,
        constant.result,
        result_types=[value.type],
        origin=_origin(layer, source),
        location=layer.compute.location,
        name=f"{value.name_hint}.dmq" if value.name_hint else None,
    )
    product.attributes[FACTORS] = ConstantOp.of(factors, f"{name}.dmq.factors", layer.compute.location).value
    balanced = ConstantOp.of(scaled, f"{weight.key}.balanced", weight.location)
    point = None if layer.site.activation is None else layer.site.activation.owner
    if isinstance(point, ObserveOp):
        Rewriter.insert_op([constant, product], InsertPoint.before(point))
        point.operands[0] = product.result
    else:
        Rewriter.insert_op([constant, product], InsertPoint.before(layer.site.owner))
        layer.site.set_operand(0, product.result)
    Rewriter.insert_op(balanced, InsertPoint.before(layer.site.owner))
    layer.site.set_operand(_WEIGHT, balanced.result)
    span = f"{factors.min(initial=np.inf):.6g} to {factors.max(initial=0):.6g}"
    remarks.applied(layer.compute, "balanced", f"{factors.size} channels of its input divided by {span} ({source})")


def _origin(layer: Balanced, source: str) -> OriginAttr:
    of_layer = layer.compute.origin
    framework = of_layer.framework.data if isinstance(of_layer, OriginAttr) else "onnx"
    return OriginAttr.of(framework, BALANCER, f"{layer_of(layer.compute)}.dmq", {"source": StringAttr(source)})


def balancer_of(site: Site) -> MulOp | None:
    """The product that balances a layer's input, which may be observed or quantized."""
    value = None if site.activation is None else before_points(site.activation)
    if not isinstance(value, OpResult) or not isinstance(op := value.op, MulOp):
        return None
    return op if isinstance(op.origin, OriginAttr) and op.origin.op_type.data == BALANCER else None


def factors_of(site: Site) -> tuple[float, ...]:
    """The balancing factors of a layer, as records store them; empty if it is not balanced."""
    product = balancer_of(site)
    kept = None if product is None else product.attributes.get(FACTORS)
    return () if kept is None else tuple(map(float, ConstantOp(cast(Any, kept)).array))
