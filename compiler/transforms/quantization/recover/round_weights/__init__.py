"""`--round-weights`: weights on their grid so that a layer's output changes least, instead of each to its nearest number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .....configuration.settings import Ada
from .....data import Samples
from .....dialects.nn import GatherOp, NNOp, Plan, constant_of, plan_of, set_plan
from .....engines import HERE, Runner, torch_installed
from .....ir.array import Array
from .....pipelines.options import Parts, build
from .....rewriting import Remarks, erase_dead_constants
from .....session import Session, session_of
from .....support.diagnostics import CompileError, op_error
from ...data import load
from ...decide.layers import channel_axis
from ...decide.recurrent import ROWS
from ...options import ClusterOptions, DataOptions, Method
from ...products import is_product
from ...profiles import profile_of
from ...running import sharing_runner
from .adaround import adaround
from .folds import Folds, Usual
from .in_blocks import round_blocks
from .integer_layers import IntegerLayer, integer_layers
from .networks import Networks, Solution, layer_by_layer
from .rounding import WIDE, Factor, Grid, factored, gptq, matched, rounded, with_least_error
from .sums import Rows, Sums

DAMPINGS = (0.0, 0.3, 1.0)
"""Shares of further damping, from which held-back samples choose if rows are few."""
_CHANNELS = 64
"""Approximate number of output channels of a wide layer that choose the damping for all of them."""
_AT_A_TIME = 1 << 22
"""Approximate number of weights that are rounded at a time: the memory for that is several times their size."""
_USUAL = Usual(share=4, fewest=16, most=1 << 14)
"""Number of runs used by default: a row for each input channel is too few, and a few runs do not show whether weights
are fitted to them alone.
"""
_QUICK = Usual(share=10, fewest=16, most=1 << 14)
"""The runs that make up for larger scales, which cost 2 dB at most."""
_FEW_BITS = 4
"""Bits of weights that are rounded by data by default: rounding to the nearest costs their networks many dB."""
_UNEVEN = 4.0
"""Factor of noise by which one scale must be worse for a weight than scales of its output channels to round it by
default: 6 dB.
"""
_STATE = "its weight R is rounded to the nearest numbers: the state that it multiplies is inside of the operator"


@dataclass(frozen=True, init=False)
class RoundWeightsPass(Parts, ModulePass):
    """A search for the integers of weights by what they make of the layers' outputs, one layer after the other. Stands between
    `--calibrate` and `--convert-observers`. Weights then hold numbers of their grid, and plans the scales.
    """

    name = "round-weights"
    positional: ClassVar[str] = "method"

    calibration: DataOptions
    sharing: ClusterOptions
    method: Method = "mismatch"
    """`gptq`: the weights that are rounded later make up for the errors of those before. `mismatch`: the same, after all of them
    have moved to where they make up for what rounding in earlier layers does to the input. `adaround`: each weight up or down, by
    gradient (AMCT's ADA). `block`: the same for the layers between residual sums together, in PyTorch, by the error of their last
    output. `nearest`: only the weights whose plans say so.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        round_weights(
            op, self.method, lambda: load(self.calibration, op, session), session, sharing_runner(self.sharing)
        )


def round_weights(
    module: ModuleOp,
    method: Method | None,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner = HERE,
    usual: Method = "mismatch",
) -> None:
    """Round the weights of the layers whose plans have integer ones, by their plans' method or this one. The cluster of `runner`,
    if it has one, computes the sums. None stands for the `usual` one on some samples, of weights that need it (`_is_coarse`).

    Raises CompileError, located at a layer or in the data.
    """
    if method is None:
        _round_some(module, _is_coarse, usual, _USUAL, samples, session, once=False)
        _round_some(module, _loses_by_scale, usual, _QUICK, samples, session, once=True)
        return
    asked = None if method == "nearest" else method
    plans = [plan for op in module.walk() if (plan := plan_of(op)) is not None]
    if asked is None and not any(weight.rounding for plan in plans for weight in plan.weights):
        return
    layers = integer_layers(module, profile_of(session))
    wanted = [layer for layer in layers if (asked or layer.plan.weights[0].rounding) is not None]
    remarks = _round(module, layers, wanted, asked, lambda: Folds.of(samples()), session, runner)
    if asked:
        remarks.flush_requested("all weights are rounded to the nearest numbers", "no layer has a weight of integers")
    remarks.flush()


def _round_some(
    module: ModuleOp,
    needs: Callable[[IntegerLayer], bool],
    method: Method,
    usual: Usual,
    samples: Callable[[], Samples],
    session: Session,
    *,
    once: bool,
) -> None:
    """Round the weights of the layers that need it, which is the default, on part of the samples."""
    layers, remarks = integer_layers(module, profile_of(session)), Remarks(session, RoundWeightsPass.name)
    wanted = [layer for layer in layers if needs(layer)]
    wide = [layer for layer in wanted if _takes_long(layer) or (once and layer.weight.array.size > _AT_A_TIME)]
    narrow = [layer for layer in wanted if layer not in wide]
    if not wanted or samples().synthetic:
        return
    for layer in wide:
        what = f"{WIDE} input channels or more" if _takes_long(layer) else f"more than {_AT_A_TIME >> 20} M numbers"
        reason = f"its weight has {what}, and rounding takes long; the option round-weights rounds it"
        remarks.missed(layer.compute, "wide", reason)
    folds = Folds.by_default(module, samples(), session, usual)
    if narrow and isinstance(folds, Folds):
        _round(module, layers, narrow, method, lambda: folds, session, once=once).flush()
    for layer in () if isinstance(folds, Folds) else narrow:
        remarks.missed(layer.compute, "samples", f"{folds}; the option round-weights rounds weights with any number")
    remarks.flush()


def _takes_long(layer: IntegerLayer) -> bool:
    return layer.product.matrices(layer.float_weight).shape[2] >= WIDE


def _loses_by_scale(layer: IntegerLayer) -> bool:
    """Whether its scales are larger than those of plain weights, so that its integers are exact on every processor."""
    return layer.plain is not None


def _is_coarse(layer: IntegerLayer) -> bool:
    """Whether its integers are too few for rounding to the nearest: by their bits, or because they have one scale, which the
    largest output channel decides, and most others need a finer one.
    """
    how = layer.weight.how
    if not is_product(layer.compute) or layer.second is not None or how.levels is not None:
        return False
    if how.bits <= _FEW_BITS:
        return True
    if how.axis is not None:
        return False
    largest = np.abs(layer.product.matrices(layer.float_weight)).max(axis=2).astype(np.float64)
    return bool(np.square(largest).max() > _UNEVEN * np.square(largest).mean())


def _round(
    module: ModuleOp,
    layers: Sequence[IntegerLayer],
    wanted: Sequence[IntegerLayer],
    method: Method | None,
    folds: Callable[[], Folds],
    session: Session,
    runner: Runner = HERE,
    *,
    once: bool = False,
) -> Remarks:
    """Round the weights of the wanted layers of all, by their plans' method or this one. `once`: scales stay, and no weight
    changes after GPTQ, which takes a tenth of the time. Returns what is to be reported.
    """
    remarks = Remarks(session, RoundWeightsPass.name)
    if method == "block" and not torch_installed():
        message = "rounding of weights by block requires PyTorch to be installed"
        raise CompileError(message, hint="pip install 'amct-opt[torch]'", option="round-weights")
    broken = {layer.compute: found for layer in wanted if (found := _broken(layer, method)) is not None}
    rounding = {layer.compute for layer in wanted} - set(broken)
    for compute, reason in broken.items():
        remarks.missed(compute, *reason)
    for op in module.walk() if method is not None else ():
        for name in (weight.number_format for weight in (plan_of(op) or Plan()).weights):
            if name is not None:
                remarks.missed(op, "number-format", f"its weight is in {name}: only integers are rounded by outputs")

    by = "mismatch" if method == "block" else method

    def step(layer: IntegerLayer, networks: Networks, remarks: Remarks) -> IntegerLayer:
        return _rounded(layer, by, networks, remarks, once=once) if layer.compute in rounding else layer

    if rounding and method == "block":
        round_blocks(module, layers, rounding, step, folds(), remarks)
    elif rounding:
        work = f"{RoundWeightsPass.name} {method}"
        layer_by_layer(module, layers, step, folds(), remarks, runner, work=work, beside=method == "mismatch")
    for layer in wanted:
        set_plan(layer.compute, _without_rounding(plan_of(layer.compute) or layer.plan))
        if layer.second is not None:
            remarks.note(layer.compute, "recurrent", _STATE)
    erase_dead_constants(module)
    return remarks


def _without_rounding(plan: Plan) -> Plan:
    """The plan after this pass, which has done its rounding or has said why not."""
    return replace(plan, weights=tuple(replace(weight, rounding=None) for weight in plan.weights))


def _broken(layer: IntegerLayer, method: Method | None) -> tuple[str, str] | None:
    """The condition that does not hold, and the reason."""
    if not is_product(layer.compute):
        return "product", "its weight is not that of a product, whose outputs choose integers"
    if layer.plan.input and layer.input_scale is None:
        return "calibrated", "its input has no parameters: --calibrate comes before --round-weights"
    if layer.weight.how.levels is not None and _by_steps(layer.plan.weights[0].rounding or method):
        return (
            "all-levels",
            "it would be rounded up or down by one, but its weight has few levels: use gptq or mismatch",
        )
    if layer.weight.how.axis not in (None, _scale_axis(layer)):
        return "channel-axis", "the scales of its weight are not those of output channels"
    return None


def _by_steps(method: str | None) -> bool:
    """Whether a method rounds each weight up or down."""
    return (method or "").partition("{")[0] in ("adaround", "block")


def _scale_axis(layer: IntegerLayer) -> int | None:
    """The axis of scales per output channel; for groups, that of input channels, which is the other axis of a matrix."""
    axis = channel_axis(layer.compute) if layer.second is None else ROWS
    if layer.weight.how.block is None:
        return axis
    return 1 - axis if axis is not None and layer.weight.array.ndim == 2 else None


_TOKENS = 16
"""The number of tokens below which a remark says how few are sent to an expert."""


def _is_expert(op: NNOp) -> bool:
    """Whether a layer computes on rows that a Gather picks at run time, as an expert of a mixture does on its tokens."""
    value = op.operands[0]
    while isinstance(value.owner, NNOp) and value.owner.operands:
        if isinstance(gather := value.owner, GatherOp):
            return constant_of(gather.input) is None and constant_of(gather.indices) is None
        value = value.owner.operands[0]
    return False


def _rounded(
    layer: IntegerLayer, asked: Method | None, networks: Networks, remarks: Remarks, *, once: bool
) -> IntegerLayer:
    """The layer with the integers that a method finds; with the nearest ones if they are at least as good."""
    method, options = _method(layer, asked)
    weights = layer.product.matrices(layer.float_weight).astype(np.float64)
    grid = layer.grid(*weights.shape[:2])
    by_divergence = layer.plan.weights[0].scaled_by_divergence

    def solve(sums: Sums, held: Rows, damping: float | None) -> Solution:
        fixed = layer.weight.fixed or grid.levels is not None or by_divergence  # levels are those of a scale
        found = _Task(layer, weights, grid, sums, held, options, fixed or once, once).best(damping)
        chosen = {"choice": np.asarray(found.damping), "rows": np.asarray(sums.rows)}
        return {**chosen, "integers": found.integers, "scales": found.scales}

    def output(solution: Solution | None) -> tuple[Array, float]:
        return grid.nearest(weights) if solution is None else solution["integers"] * solution["scales"], 0.0

    make = Sums.of_both if method == "mismatch" else Sums.of_inputs
    solution, gain = networks.solved(layer, weights, make, solve, output)
    before, after = gain.before, gain.after
    few = (tokens := int(solution["rows"])) < _TOKENS and _is_expert(layer.compute)
    result = layer.with_nearest()
    if after > before:
        reason = f"SQNR of its output {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding"
        remarks.applied(layer.compute, "rounded", f"{reason}{networks.measured}", gain)
        scales = layer.scales_of(grid._replace(scale=solution["scales"]))
        result = layer.with_integers(layer.product.weight(solution["integers"]), scales)
    else:
        reason = f"its output has {after:.1f} dB by {method}, {before:.1f} dB by nearest rounding, which stays"
        remarks.missed(layer.compute, "improves", f"{reason}{networks.measured}", gain)
    if few:
        remarks.note(
            layer.compute, "few-tokens", f"{tokens} tokens of the data reach this expert, fewer than {_TOKENS}"
        )
    return result


class _Found(NamedTuple):
    """Integers and their scales, and the damping that they were found with."""

    damping: float
    integers: Array
    scales: Array


class _Task(NamedTuple):
    """The task of choosing the integers of a layer, or of some of its output channels."""

    layer: IntegerLayer
    weights: Array
    grid: Grid
    sums: Sums
    held: Rows
    options: Ada | None
    fixed: bool
    """Whether the scales stay."""
    once: bool
    """Whether no weight changes after GPTQ."""

    def best(self, chosen: float | None) -> _Found:
        """The integers and their scales, with the damping that was chosen or has the least error on samples held back."""
        if not self.sums.are_few or self.options is not None:
            return self._fitted(DAMPINGS[0])
        if chosen is not None:
            return self._fitted(chosen)
        if self.weights.shape[2] >= WIDE:
            return self._best_by_some()
        return max(map(self._fitted, DAMPINGS), key=self._sqnr)

    def _best_by_some(self) -> _Found:
        """The integers and scales of the best damping, chosen by some output channels with the scales of the largest one:
        smaller dampings are tried until one is worse.
        """
        *others, largest = DAMPINGS
        every = self._fitted(largest)
        step = max(1, self.weights.shape[1] // _CHANNELS)
        some = self._replace(grid=self.grid._replace(scale=every.scales), fixed=True)._of_channels(
            slice(None, None, step)
        )
        best, most = largest, some._sqnr(_Found(largest, every.integers[:, ::step], every.scales[:, ::step]))
        for damping in reversed(others):
            found = some._sqnr(some._fitted(damping))
            if found < most:
                break
            best, most = damping, found
        return every if best == largest else self._fitted(best)

    def _of_channels(self, some: slice) -> _Task:
        """The task for some output channels."""
        grid, sums = self.grid.of_channels(some), self.sums.of_channels(some)
        return self._replace(weights=self.weights[:, some], grid=grid, sums=sums, held=self.held.of_channels(some))

    def _sqnr(self, found: _Found) -> float:
        return self.held.sqnr(found.integers * found.scales)

    def _fitted(self, damping: float) -> _Found:
        """The integers with this damping, and their scales."""
        with self.sums.damped(damping) as sums:
            return _Found(damping, *self._replace(sums=sums)._found())

    def _found(self) -> tuple[Array, Array]:
        """Integers for these sums, and their scales: by adaround with its options, otherwise by `gptq`, which takes some output
        channels at a time if these have scales of their own.
        """
        if self.options is not None:
            grid = self._scaled(self.weights)
            return adaround(self.weights, self.sums.h, grid, self.options), grid.scale
        factor, (groups, channels, columns) = factored(self.sums.h), self.weights.shape
        some = max(1, channels if 1 in self.layer.shared else _AT_A_TIME // max(1, groups * columns))
        if some >= channels:
            return self._by_gptq(factor)
        found = [self._of_channels(slice(i, i + some))._by_gptq(factor) for i in range(0, channels, some)]
        return np.concatenate([q for q, _ in found], axis=1), np.concatenate([scale for _, scale in found], axis=1)

    def _by_gptq(self, factor: Factor) -> tuple[Array, Array]:
        c, h = self.sums.c, self.sums.h
        target = self.weights if c is None else matched(self.weights, c, factor)
        if self.once:
            return gptq(target, factor, self.grid), self.grid.scale
        integers, grid = rounded(target, h, factor, self._scaled(target), self.layer.shared, fixed=self.fixed)
        return integers, grid.scale

    def _scaled(self, target: Array) -> Grid:
        return self.grid if self.fixed else with_least_error(target, self.sums.h, self.grid, self.layer.shared)


def _method(layer: IntegerLayer, asked: Method | None) -> tuple[str, Ada | None]:
    """The plan's method for a layer, otherwise the one that is asked for, with the options of adaround.

    Raises CompileError, located at the layer, for a plan with another method or bad options.
    """
    own = layer.plan.weights[0].rounding
    name, brace, options = (own or asked or "").partition("{")
    if own is not None and (name != "adaround" or (brace and not options.endswith("}"))):
        raise op_error(layer.compute, f"has a plan with the rounding '{own}'", "adaround{reg-param=0.01} is one")
    if name != "adaround":
        return name, None
    try:
        return name, build(Ada, options.removesuffix("}"), "adaround")
    except CompileError as e:
        raise op_error(layer.compute, f"has a plan with a bad rounding: {e.message}", e.hint) from None
