"""`amct sensitivity`: the cost of each layer's quantization at the network's outputs, and the gain of leaving it in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp

from ..data import Samples
from ..data.inputs import Runnable
from ..engines import Runner
from ..engines.threads import OrderedBatches, Turn, threads_here
from ..ir.functions import main_function, output_names
from ..rewriting import layer_of
from ..runtime.executor import Array, Executable
from ..runtime.metrics import Divergences, Measure, Parts
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.tables import Table, Tabled
from ..transforms.inline_fused import inline_fused
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.decide.sites import sites
from ..transforms.quantization.options import AUTOMATIC, DataOptions, EngineOptions, QuantizeOptions
from ..transforms.quantization.recover.layer_effects import exchanged
from ..transforms.quantization.recover.sensitivity import quantized_layers, sensitivities
from ..transforms.quantization.request import wanted_of
from ..transforms.quantization.running import runner_of
from .network import read_network
from .plausibility import warn_of_data
from .shared_difference import shared_difference
from .summary import between, measured_on

M = TypeVar("M", bound=Measure)

SAMPLES = 32
"""The default number of samples to measure with."""

MEASURES = "sqnr", "kl"
"""The measures of outputs: SQNR in dB, or for classifiers the divergence of their probabilities in nats."""


def measure_of(name: str, samples: Samples) -> Callable[[], Parts | Divergences]:
    """What makes an empty measure by its name (`MEASURES`)."""
    return parts_of(samples) if name == "sqnr" else Divergences


def parts_of(samples: Samples) -> Callable[[], Parts]:
    """What makes empty `Parts` for samples in the batches in which they run."""
    return partial(Parts, samples.at_a_time > 1)


@dataclass(frozen=True)
class LayerSensitivity:
    """A quantized layer. `alone` and `spared` compare the worst output with the float network's, by `MEASURES`."""

    name: str
    op: str
    alone: float
    """The measure when only this layer is quantized."""
    spread: tuple[float, float] | None
    """The least and the largest of it in single runs; None for a divergence, as for `Sensitivity.spread`."""
    spared: float
    """The measure when only this layer stays in float."""
    gain: float
    """The improvement of `spared` over `Sensitivity.quantized`."""
    own: float
    """`0.5 + 0.5 * cosine` of the layer's own results in float and quantized, from equal inputs (AMCT's ranking)."""


@dataclass(frozen=True, repr=False)
class Sensitivity(Tabled):
    """The sensitivities of all quantized layers, the one that costs most by itself first."""

    layers: Sequence[LayerSensitivity]
    quantized: float
    """The quantized network, by the same measure: its worst output."""
    output: str
    """The name of that output, empty if the network has no other."""
    samples: int
    held_back: bool
    """The samples were not used in calibration."""
    measure: str
    """`sqnr` or `kl`."""
    spread: tuple[float, float] | None
    """The least and the largest of `quantized` in single runs."""

    def __repr__(self) -> str:
        return f"Sensitivity({len(self.layers)} layers, quantized {self.shown(self.quantized)} {self.unit})"

    @property
    def unit(self) -> str:
        """The unit of the measure."""
        return "dB" if self.measure == "sqnr" else "nats"

    def shown(self, value: float, sign: str = "") -> str:
        """A number of the measure with its digits."""
        return f"{value:{sign}.{2 if self.measure == 'sqnr' else 6}f}"

    def tables(self) -> Sequence[Table]:
        """The layers, and how they were measured."""
        alone, *others = (f"{name} {self.unit}" for name in ("alone", "spared", "gain"))
        headers = "layer", "operation", alone, "in single runs", *others, "own"
        rows = [
            (
                *(x.name, x.op, self.shown(x.alone), between(x.spread) if x.spread else "-"),
                *(self.shown(x.spared), self.shown(x.gain, "+"), f"{x.own:.6f}"),
            )
            for x in self.layers
        ]
        worst = f" (output '{self.output}', the worst)" if self.output else ""
        single = f": {between(self.spread)} in single runs" if self.spread else ""
        overview = [
            ("quantized network", f"{self.shown(self.quantized)} {self.unit}{worst}{single}"),
            ("measured on", measured_on(self.samples, self.held_back)),
        ]
        note = (
            f"alone: the worst output in {self.unit} if only this layer is quantized; spared: if only this one is not; gain: "
            "what sparing it gives; own: 0.5 + 0.5 * cosine of the layer's own results (AMCT)"
        )
        return [Table("layers", headers, rows, note), Table("summary", (), overview)]


def sensitivity_of(
    model: Path,
    options: QuantizeOptions,
    data: DataOptions,
    session: Session,
    samples: int = SAMPLES,
    running: EngineOptions = AUTOMATIC,
    measure: str = "sqnr",
) -> Sensitivity:
    """Quantize `model` as `amct quantize` does, and measure each quantized layer, alone and spared, on at most `samples` samples.

    A layer alone has its own bias, and weights that do not make up for the layers before, unless that is asked for. `measure` is
    one of `MEASURES`. Raises CompileError, located, for anything that cannot be done, and if no layer of the model is quantized.
    """
    network = read_network(model, wanted_of(options), data, running, session)
    network.request.check_by_layer()
    held, given = network.samples.held, network.samples.calibration
    if given is not None:
        warn_of_data(network.original, given, session)
    network = network.fused().evened()
    whole, other = network.inlined().module, network.quantized().inlined().module
    apart = network.quiet.quantized(network.request.layer_by_layer).inlined().module
    measuring = held.head(min(samples, held.count))
    own = sensitivities(whole, apart, measuring, session)
    if not own:
        raise CompileError("quantizes no layer", where=str(model), hint="amct support says why")
    measuring, names = in_batches(whole, [], measuring), tuple(own)
    compared = measure_of(measure, measuring)
    runner = runner_of(running)
    alone = exchanged(whole, apart, names, whole, measuring, session, "each layer alone", compared, runner)
    spared = exchanged(other, whole, names, whole, measuring, session, "each layer spared", compared, runner)
    total = difference_by(runner, whole, other, measuring, session, compared)
    kinds = {layer_of(site.compute): site.compute.name for site in sites(whole, network.request.profile.rows)}
    better = 1 if measure == "sqnr" else -1
    layers = [
        LayerSensitivity(
            name,
            kinds[name],
            alone[name].worst[1],
            spread_of(alone[name]),
            spared[name].worst[1],
            better * (spared[name].worst[1] - total.worst[1]),
            own[name],
        )
        for name in sorted(alone, key=lambda name: -alone[name].noise)
    ]
    (worst, quantized), outputs = total.worst, output_names(main_function(whole))
    of_several = "" if outputs == [worst] else worst
    held_back, spread = network.samples.apart, spread_of(total)
    return Sensitivity(layers, quantized, of_several, measuring.count, held_back, measure, spread)


def spread_of(measured: Parts | Divergences) -> tuple[float, float] | None:
    """The least and the largest SQNR in dB of the worst part in single runs; None of a divergence."""
    return measured.spread.get(measured.worst[0], (inf, inf)) if isinstance(measured, Parts) else None


def difference_by(
    runner: Runner,
    expected: ModuleOp,
    other: ModuleOp,
    samples: Samples,
    session: Session,
    measure: Callable[[], M],
) -> M:
    """The difference of the outputs of two modules. The cluster of `runner` shares the samples, if it has one."""
    if runner.cluster is not None:
        return shared_difference(runner.cluster, expected, other, samples, session, measure)
    return difference_of(Executable(expected), Executable(other), samples, session, measure)


def difference_of(
    expected: Executable,
    other: Runnable,
    samples: Samples,
    session: Session,
    measure: Callable[[], M],
) -> M:
    """The difference of the outputs of two modules; one thread per core runs them."""
    total = measure()
    done = count(1)

    def compare(inputs: Mapping[str, Array], turn: Turn) -> None:
        outputs, found = expected.run(inputs), other.run(inputs)
        with turn:
            total.add(outputs, found)
            session.progress("measure", next(done), samples.runs)

    OrderedBatches(samples.batches()).run(compare, min(threads_here(), samples.runs))
    return total


def ranked_at_outputs(whole: ModuleOp, quantized: ModuleOp, samples: Samples, session: Session) -> dict[str, float]:
    """The SQNR in dB of the worst output, as `Parts` has them, when only one layer is quantized, by layer, the lowest first."""
    whole, quantized = whole.clone(), quantized.clone()
    for module in (whole, quantized):
        inline_fused(module)
    layers = quantized_layers(quantized, session)
    alone = exchanged(whole, quantized, layers, whole, in_batches(whole, [], samples), session, "rank", Parts)
    return dict(sorted(((name, each.worst[1]) for name, each in alone.items()), key=lambda entry: entry[1]))
