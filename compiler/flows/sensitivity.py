"""`amct sensitivity`: what each layer's quantization costs at the network's outputs, and what leaving it in float would gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..diagnostics import CompileError
from ..lowering.ascend.fused import inline_fused
from ..pipelines.passes import run_on_verified
from ..rewriting import layer_of
from ..runtime.data import Samples
from ..runtime.executor import Executable
from ..runtime.metrics import Differences
from ..session import Session
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data_options import AUTOMATIC, BackendOptions, DataOptions
from ..transforms.quantization.equalize import equalize
from ..transforms.quantization.output_sensitivity import exchanged
from ..transforms.quantization.quantize import Quantize
from ..transforms.quantization.request import QuantizeOptions
from ..transforms.quantization.sensitivity import sensitivities
from ..transforms.quantization.sites import sites
from .model_file import read_model, simplify_and_fuse
from .quantization import split

SAMPLES = 32
"""The default number of samples to measure with."""


@dataclass(frozen=True)
class LayerSensitivity:
    """A quantized layer. `alone` and `spared` are the SQNR in dB of all outputs together against the float network's."""

    name: str
    op: str
    alone: float
    """SQNR when only this layer is quantized: the lower, the more it costs."""
    spared: float
    """SQNR when only this layer stays in float; compare it with `Sensitivity.quantized`."""
    own: float
    """`0.5 + 0.5 * cosine` of the layer's own results in float and quantized, from equal inputs (AMCT's ranking)."""


@dataclass(frozen=True)
class Sensitivity:
    """All quantized layers, the most costly one first."""

    layers: Sequence[LayerSensitivity]
    quantized: float
    """SQNR in dB of the quantized network."""
    samples: int
    held_back: bool
    """The samples were not used in calibration."""


def sensitivity_of(
    model: Path,
    options: QuantizeOptions,
    data: DataOptions,
    session: Session,
    samples: int = SAMPLES,
    running: BackendOptions = AUTOMATIC,
) -> Sensitivity:
    """Quantize `model` as `amct quantize` does, and measure each quantized layer, alone and spared, on at most `samples` samples.

    Raises CompileError, located, for anything that cannot be done, and if no layer of the model is quantized.
    """
    whole = read_model(model, session, ())
    request = options.request(session)
    batch_num = data.batch_num or request.settings.batch_num
    calibration, held, held_back = split(data, batch_num, whole, session)
    simplify_and_fuse(request, whole, session)
    calibrating = DataOptions(calibration, batch_num=batch_num)
    equalize(whole, request, lambda: calibrating.load(whole, session), session, running.runner())
    quantized = whole.clone()
    request = replace(request, recovery=replace(request.recovery, equalize=False))
    run_on_verified(quantized, [Quantize(request, calibrating, running)], session)
    for module in (whole, quantized):
        inline_fused(module)
    measuring = held.head(min(samples, held.count))
    own = sensitivities(whole, quantized, measuring, session)
    if not own:
        raise CompileError("quantizes no layer", where=str(model), hint="amct support says why")
    measuring = in_batches(whole, [], measuring)
    alone = exchanged(whole, quantized, tuple(own), whole, measuring, session, "each layer alone")
    spared = exchanged(quantized, whole, tuple(own), whole, measuring, session, "each layer spared")
    kinds = {layer_of(site.compute): site.compute.name for site in sites(whole, request.profile.rows)}
    layers = [
        LayerSensitivity(name, kinds[name], alone[name].sqnr, spared[name].sqnr, own[name])
        for name in own
        if name in alone
    ]
    layers.sort(key=lambda each: each.alone)
    total = _difference(whole, quantized, measuring)
    return Sensitivity(layers, total.sqnr, measuring.count, held_back)


def _difference(whole: ModuleOp, quantized: ModuleOp, samples: Samples) -> Differences:
    """The difference of all outputs of two modules."""
    first, second, total = Executable(whole), Executable(quantized), Differences()
    for batch in samples.batches():
        found = second.run(batch)
        for name, array in first.run(batch).items():
            total.add(array, found[name])
    return total
