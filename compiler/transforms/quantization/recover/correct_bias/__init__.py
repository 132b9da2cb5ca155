"""`--correct-bias`: compensates the mean shift of a layer's output by quantization in its bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from .....data import Samples
from .....dialects.nn import CORRECTED, ConstantOp, constant_of
from .....engines import HERE, Runner
from .....observers.observer import FEW
from .....pipelines.options import Parts
from .....rewriting import Remarks, erase_dead_constants
from .....session import Session, session_of
from ...data import load
from ...numbers.parameters import bias_fits
from ...options import ClusterOptions, DataOptions
from ...profiles import profile_of
from ...running import sharing_runner
from ..outputs import LOSS
from ..round_weights.folds import HELD_BACK_OF_FEW, Folds, Judged, Usual
from ..round_weights.integer_layers import BIAS, WEIGHT, IntegerLayer, integer_layers
from ..round_weights.networks import Networks, Rivals, Solution, layer_by_layer
from ..round_weights.sums import Array, Means, Rows, decibels

_USUAL = Usual(share=10, fewest=4, most=48, seconds=0.25)
"""Number of runs used by default: means take few."""
_CERTAIN = 2
"""Number of standard deviations, by chance, of the sum of runs' errors that a loss has to exceed."""


@dataclass(frozen=True, init=False)
class CorrectBiasPass(Parts, ModulePass):
    """A measurement: the mean difference between a layer's output in the float network and in the quantized one is added to its
    bias, if the output comes closer on held-back samples. Runs after `--calibrate` (and `--round-weights`), before
    `--convert-observers`.
    """

    name = "correct-bias"

    calibration: DataOptions
    sharing: ClusterOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        runner = sharing_runner(self.sharing)
        correct_bias(op, lambda: all_of(load(self.calibration, op, session)), session, runner, asked=True)


def all_of(samples: Samples) -> Folds:
    """The samples that correct biases if it is asked for."""
    return Folds.of(samples, HELD_BACK_OF_FEW)


def few_of(module: ModuleOp, samples: Samples, session: Session) -> Folds | None:
    """The samples that correct biases by default. None if they are synthetic or, with remarks, too few."""
    if samples.synthetic:
        return None
    found = f"the data has fewer than {FEW} samples"
    if samples.total >= FEW:
        found = Folds.by_default(module, samples, session, _USUAL)
    if isinstance(found, Folds):
        return found
    remarks = Remarks(session, CorrectBiasPass.name)
    for layer in integer_layers(module, profile_of(session)):
        remarks.missed(layer.compute, "samples", f"{found}; the option correct-bias corrects biases with any number")
    remarks.flush()
    return None


def correct_bias(
    module: ModuleOp,
    folds: Callable[[], Folds | None],
    session: Session,
    runner: Runner = HERE,
    rivals: Rivals | None = None,
    *,
    asked: bool = False,
) -> str | None:
    """Correct the biases of layers with planned integer weights, if there are samples; each layer reads the outputs of corrected
    layers before it. The cluster of `runner`, if it has one, computes the means. If it is `asked` for, it warns where
    nothing is corrected.

    Returns what the outputs lose against a network of `rivals`, whose biases are corrected as well: then nothing is changed.
    Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019). Raises CompileError, located at
    a layer or in the data.
    """
    remarks = Remarks(session, CorrectBiasPass.name)
    layers = integer_layers(module, profile_of(session))
    given = folds() if layers else None
    broken = {layer.compute: found for layer in layers if given and (found := _broken(layer)) is not None}
    for compute, reason in broken.items():
        remarks.missed(compute, *reason)

    def step(layer: IntegerLayer, networks: Networks, remarks: Remarks) -> IntegerLayer:
        return layer if layer.compute in broken else _corrected(layer, networks, remarks)

    if given and (rivals or len(broken) < len(layers)):
        work = CorrectBiasPass.name
        outcome = layer_by_layer(module, layers, step, given, remarks, runner, work=work, beside=True, rivals=rivals)
        if (loss := _loss(outcome.judged)) is not None:
            outcome.undone()
            erase_dead_constants(module)
            return loss
    erase_dead_constants(module)
    if asked:
        remarks.flush_requested("no bias is corrected", "no layer has a weight of integers")
    remarks.flush()
    return None


def _loss(judged: Judged) -> str | None:
    """The loss of an output against the network of rivals, in words; None if it is small, or may be chance."""
    losses: dict[str, float] = {}
    for name, errors in judged.rivals.items():
        rival, own = np.array(errors).T
        apart = own - rival
        if apart.sum() > _CERTAIN * np.sqrt(np.square(apart).sum()):
            losses[name] = decibels(own.sum(), rival.sum())
    worst = max(losses, key=lambda name: losses[name], default=None)
    return None if worst is None or losses[worst] <= LOSS else f"output {worst} would lose {losses[worst]:.1f} dB"


def _broken(layer: IntegerLayer) -> tuple[str, str] | None:
    """The condition that is not met, and the reason."""
    if layer.plan.input and layer.input_scale is None:
        return "calibrated", "its input has no parameters: --calibrate comes before --correct-bias"
    if layer.second is not None:
        return "recurrent", "the biases of a recurrent layer act on its state, inside of the operator"
    if layer.bias is None:
        return "bias", "it has no bias"
    return None


def _corrected(layer: IntegerLayer, networks: Networks, remarks: Remarks) -> IntegerLayer:
    """The layer with its corrected bias, or unchanged."""
    product, bias = layer.product, layer.bias
    assert bias is not None, "a condition"
    given = product.matrices(layer.float_weight).astype(np.float64)
    weight = product.matrices(layer.operands()[WEIGHT]).astype(np.float64)

    def shift(means: Means, *_: Rows | float | None) -> Solution:
        target = _output(given, means.f)
        return {
            "shift": by_channel((target - _output(weight, means.q)) / means.count),
            "target": target / means.count,
        }

    def by_channel(shifts: Array) -> Array:
        return shifts.reshape(-1, bias.size).mean(axis=0)  # the matrices of a batch share their bias

    def corrected(solution: Solution) -> Array:
        return (bias + solution["shift"]).astype(bias.dtype)

    def output(solution: Solution | None) -> tuple[Array, Array]:
        rounded = layer.rounded_bias(bias if solution is None else corrected(solution))
        return weight, (rounded - bias).reshape(-1, 1, given.shape[1])

    solution, gain = networks.solved(layer, given, Means.of_layer, shift, output)
    if (means := networks.rival_means) is not None:
        other = product.matrices(networks.rivals.get(layer.compute, layer).operands()[WEIGHT])
        apart = by_channel(solution["target"] - _output(other, means.q / means.count))
        networks.oppose(layer, {BIAS: (bias + apart).astype(bias.dtype)})
    found = corrected(solution)
    if not (np.isfinite(found).all() and (layer.sums is None or bias_fits(found, layer.sums))):
        remarks.missed(layer.compute, "fits", "the corrected bias does not fit into int32 in units of the layer's sums")
        return layer
    before, after = gain.before, gain.after
    if not after > before:
        reason = f"its output has {after:.1f} dB with the corrected bias, {before:.1f} dB with its own, which stays"
        remarks.missed(layer.compute, "improves", f"{reason}{networks.measured}", gain)
        return layer
    reason = f"SQNR of its output {after:.1f} dB with the corrected bias, {before:.1f} dB with its own"
    remarks.applied(layer.compute, "corrected", f"{reason}{networks.measured}", gain)
    _write(layer, found)
    return layer


def _output(weights: Array, inputs: Array) -> Array:
    """The output [G, M] of matrices [G, M, K] for one row of inputs [G, K]."""
    return (weights @ inputs[..., None])[..., 0]


def _write(layer: IntegerLayer, bias: Array) -> None:
    """Replace the layer's bias."""
    value = layer.site.operand(BIAS)
    old = constant_of(value)
    assert old is not None, "a condition"
    constant = ConstantOp.of(bias, old.key.removesuffix(".folded") + CORRECTED, old.location)
    Rewriter.insert_op(constant, InsertPoint.after(old))
    layer.site.set_operand(BIAS, constant.result)
