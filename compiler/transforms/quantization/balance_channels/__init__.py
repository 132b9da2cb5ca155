"""`--balance-channels`: outlier channels of a layer's input are divided, its weight is multiplied by the same (AMCT's DMQ)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....backends import Runner, Wanted, Work
from ....configuration.layer_settings import settings_for
from ....configuration.record import Record
from ....configuration.settings import Calibration, Settings
from ....diagnostics import CompileError, op_error
from ....dialects.nn import (
    ConstantOp,
    MulOp,
    ObserveOp,
    OriginAttr,
    array_of,
    before_points,
    constant_of,
)
from ....dialects.nn.shapes import element_of, shape_of
from ....dtypes import numpy_dtype
from ....rewriting import Remarks, erase_dead_constants, layer_of
from ....runtime.data import Samples
from ....session import Session, session_of
from ..backend_options import BackendOptions
from ..data_options import DataOptions
from ..layers import checked, is_quantized, layer_at
from ..legality import first_broken
from ..options import SettingsOptions
from ..profiles import Profile, Row, profile_of
from ..rules.layer_rules import weight_constant
from ..sites import Site, sites
from ..skipped import SKIPPED
from .factors import balance_factors
from .input_channels import Weighted, activation_axis, activation_peaks, weight_channels, weight_peaks

Array = np.ndarray[Any, np.dtype[Any]]

BALANCER = "DMQBalancer"
"""The origin's type of the products that balance."""
STRENGTH = 0.5
"""AMCT's default."""


@dataclass(frozen=True)
class BalanceChannelsPass(SettingsOptions, DataOptions, BackendOptions, ModulePass):
    """Divide outlier channels of layers' inputs, and multiply the weights by the same.

    The layers are those that settings give a dmq_balancer, or that the record has factors of; without either, all of them, at
    AMCT's strength of 0.5.
    """

    name = "balance-channels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings, session = self.settings(), session_of(ctx)
        if self.config is None and self.dmq is None:
            settings = replace(settings, common=replace(settings.common or Calibration(), migration_strength=STRENGTH))
        data = self.within(settings)
        balance_channels(op, settings, self.records(settings), lambda: data.load(op, session), session, self.runner())


class Balanced(NamedTuple):
    """A layer whose input channels are balanced."""

    site: Site
    weight: int
    """The index of the weight among the operands."""
    strength: float | None
    """How much of the activation's spread goes into the weight; None where a record gives the factors."""

    @property
    def compute(self) -> Weighted:
        return cast(Weighted, self.site.compute)

    @property
    def activation(self) -> SSAValue:
        value = self.site.activation
        assert value is not None, "legality has asked for it"
        return value

    @property
    def numbers(self) -> Array:
        """The weight's."""
        array = array_of(self.site.operand(self.weight))
        assert array is not None, "legality has asked for it"
        return array


def balance_channels(
    module: ModuleOp,
    settings: Settings,
    record: Record | None,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner,
) -> None:
    """Balance the layers that settings ask for by data, or with a record those that it has factors of, by these.

    All of the data runs through the model once, and the largest magnitudes count. Raises CompileError, located in the file of
    settings or record, or at a layer, for NaN or Inf in its input.
    """
    profile = profile_of(session)
    if not _asked(settings, record):
        return
    if profile.points == "values":
        raise CompileError(
            f"profile {profile.name} does not support dmq_balancer: inputs are quantized where they are made, before balancing",
            where=settings.where if record is None else record.where,
        )
    settings = checked(settings, module, profile)
    remarks = Remarks(session, "balance-channels")
    layers = [*_layers(module, settings, record, profile, remarks)]
    source = "record"
    if record is not None:
        found = [_recorded(layer, record) for layer in layers]
    elif layers:
        data = samples()
        source = "synthetic" if data.synthetic else "data"
        found = _computed(module, layers, data, session, runner)
    else:
        found = []
    for layer, factors in zip(layers, found, strict=True):
        _balance(layer, factors, source, remarks)
    erase_dead_constants(module)
    remarks.flush()


def _asked(settings: Settings, record: Record | None) -> bool:
    if record is not None:
        return any(layer.tensor_balance_factor for layer in record.layers.values())
    every = (settings.common, *settings.by_type.values(), *settings.by_layer.values())
    return any(each is not None and each.migration_strength is not None for each in every)


def _layers(
    module: ModuleOp, settings: Settings, record: Record | None, profile: Profile, remarks: Remarks
) -> Sequence[Balanced]:
    """The layers that are to be balanced and can be; a remark for each that cannot, and a warning where it was named (AMCT)."""
    found: list[Balanced] = []
    for site in sites(module, profile.rows):
        row = profile.rows[type(site.compute)]
        layer = layer_at(site, row)
        if record is not None:
            given = record.layers.get(layer.name)
            strength = None
            wanted = named = given is not None and bool(given.tensor_balance_factor)
        else:
            own = settings.by_layer.get(layer.name)
            strength = settings_for(settings, layer).migration_strength
            named = own is not None and own.migration_strength is not None
            wanted = strength is not None or named
        if not wanted or is_quantized(site) or balancer_of(site) is not None:
            continue
        if (broken := _broken(site, row, settings)) is None:
            assert row.weight is not None, "a condition has asked for it"
            found.append(Balanced(site, row.weight, strength))
            continue
        remarks.missed(site.compute, *broken)
        if named:
            remarks.session.warn(f"dmq_balancer of '{layer.name}' is dropped: {broken[1]}")
    return found


def _broken(site: Site, row: Row, settings: Settings) -> tuple[str, str] | None:
    """The first condition that keeps a layer from being balanced: its name, and the reason."""
    if (skipped := settings_for(settings, layer_at(site, row)).skipped) is not None:
        return skipped, SKIPPED[skipped]
    if row.weight is None:
        return "weight", "it has no weight"
    if (illegal := first_broken(site, (*row.rules, weight_constant))) is not None:
        return illegal[0].name, illegal[1]
    if isinstance(site.activation, OpResult) and isinstance(site.activation.op, ObserveOp):
        return "observed", "its input is observed already: balance first"
    operands = (site.compute.operands[i] for i in (0, row.weight))
    if any(isinstance(v, BlockArgument) and not v.has_one_use() for v in operands if site.owner is not site.compute):
        return "own-operands", "another operation of its region reads the same operand"
    return None


def _recorded(layer: Balanced, record: Record) -> Array:
    """The record's factors. Raises CompileError, located in its file, for another number of them than of input channels."""
    name = layer_of(layer.compute)
    factors = np.array(record.layers[name].tensor_balance_factor, np.float32)
    channels = weight_peaks(layer.compute, layer.numbers).size
    if factors.size != channels:
        raise record.error(
            name, f"tensor_balance_factor has {factors.size} numbers, but it has {channels} input channels"
        )
    return factors


def _computed(
    module: ModuleOp, layers: Sequence[Balanced], samples: Samples, session: Session, runner: Runner
) -> list[Array]:
    """Every layer's factors, from the magnitudes that its input has while the samples run through the model."""
    peaks: dict[tuple[SSAValue, int], Array] = {}
    watched: dict[SSAValue, dict[int, Balanced]] = {}
    for layer in layers:
        watched.setdefault(layer.activation, {})[activation_axis(layer.compute)] = layer

    def watch(value: SSAValue, array: Array) -> None:
        for axis, layer in watched[value].items():
            try:
                found = activation_peaks(array, axis)
            except ValueError as e:
                hint = "look for an overflow in the model or its data"
                raise op_error(layer.compute, f"has an input whose {e}", hint) from None
            peaks[value, axis] = np.maximum(peaks.get((value, axis), 0), found)

    done = count(1)

    def tell() -> None:
        session.progress("balance", next(done), samples.runs)

    runner.run(Work(module, dict.fromkeys(watched, Wanted()), samples, watch, tell, session))
    return [
        balance_factors(
            peaks[layer.activation, activation_axis(layer.compute)],
            weight_peaks(layer.compute, layer.numbers),
            STRENGTH if layer.strength is None else layer.strength,
        )
        for layer in layers
    ]


def _balance(layer: Balanced, factors: Array, source: str, remarks: Remarks) -> None:
    """Divide the input and multiply the weight, unless the numbers leave their types."""
    value, weight = layer.activation, constant_of(layer.site.operand(layer.weight))
    assert weight is not None, "legality has asked for it"
    numbers = weight.array
    with np.errstate(all="ignore"):
        inverse = (1 / factors).astype(numpy_dtype(element_of(value)))
        factors = np.float32(1) / inverse.astype(np.float32)  # of the rounded ones: the two cancel out
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
    balanced = ConstantOp.of(scaled, f"{weight.key}.balanced", weight.location)
    Rewriter.insert_op([constant, product, balanced], InsertPoint.before(layer.site.owner))
    layer.site.set_operand(0, product.result)
    layer.site.set_operand(layer.weight, balanced.result)
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
    """The factors that a layer is balanced by, as records hold them; none where it is not."""
    product = balancer_of(site)
    inverse = None if product is None else array_of(product.operands[1])
    if inverse is None:
        return ()
    return tuple(float(f) for f in np.float32(1) / inverse.astype(np.float32).reshape(-1))
