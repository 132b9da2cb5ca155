"""Measurements of `amct quantize`: outputs, layers and right answers of a network in each form, and the time of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ..data import Samples
from ..dialects.nn import weights_of
from ..engines.threads import OrderedBatches, Turn, threads_here
from ..examine.reports.measures import MEASURING, measure_layers
from ..ir.metadata import metadata
from ..runtime.boundary import Boundary, InReals, Watched, boundary_of
from ..runtime.executor import Array, Executable
from ..runtime.integer_plan import in_integers
from ..runtime.metrics import Difference, Differences, Parts
from ..runtime.plan import RunError
from ..session import Session
from ..support.diagnostics import CompileError
from ..support.files import scratch
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data import Split
from ..transforms.quantization.options import BY_DEFAULT, NO_RECOVERY, RecoveryOptions
from ..transforms.quantization.profiles import QDQ, profile_of
from . import latency
from .evaluation import Labels, ranks
from .float_regions import TURNS, check_faster, float_file
from .latency import Latencies
from .network import Network
from .peer import LEAST, Expected, Peer, Simulation, peer_of
from .plausibility import doubts_of_data, doubts_of_result, doubts_of_split, doubts_of_use
from .significance import Pair, Share
from .summary import Answers, Summary

STAGES: Mapping[str, str] = {
    "fake_quantized": "fake-quantized (nn)",
    "integer": "integer (ascend)",
    "kernels": "integer kernels (nn)",
}
"""The measured forms: the fields of `Accuracy`, and their names in messages."""

HUGE = 1 << 28
"""Size of weights in bytes from which on a model is not timed, because onnxruntime would have it twice in memory, and from which
on its ONNX file keeps arrays apart if the model's does.
"""


@dataclass(frozen=True)
class Measurement:
    """Measures a quantized network in its forms."""

    network: Network
    """The network, quantized."""
    ascend: ModuleOp | None
    """The lowered module, where there is one."""
    expected: Expected
    """The expected outputs of the ONNX file."""
    parts: Parts = field(default_factory=Parts)
    """The errors of the outputs that the target computes, sample by sample, once `differences` has measured them."""

    @cached_property
    def boundary(self) -> Boundary:
        """The inputs and outputs of the quantized forms in place of the original's floats."""
        return boundary_of(self.network.module, self.network.original)

    @cached_property
    def stages(self) -> Mapping[str, Callable[[], Watched]]:
        """Functions that make the programs of the quantized forms, by `STAGES`."""
        programs: dict[str, Callable[[], Executable]] = {"fake_quantized": partial(Executable, self.network.module)}
        if self.ascend is not None:
            programs["integer"] = partial(Executable, self.ascend)
        if (kernels := integer_kernels(self.network.module, self.network.session)) is not None:
            programs["kernels"] = kernels
        return {name: partial(_in_reals, program, self.boundary) for name, program in programs.items()}

    @property
    def runs(self) -> bool:
        """Whether the model runs: on the data that is given, or on synthetic data that its quantization needed."""
        return self.network.samples.calibration is not None or metadata(self.network.module).get("synthetic") == "true"

    def differences(self) -> dict[str, dict[str, Difference]]:
        """Each stage's difference from the original's outputs; none for a model that does not run."""
        if not self.runs:
            return {}
        network, stages = self.network, self.stages
        found: list[dict[str, Difference]] = []
        # each keeps its smaller weights as float32
        for together in [[stage] for stage in stages] if network.large else [[*stages]]:
            network.settle()
            simulated, target = (
                together.index(stage) if stage in together else None
                for stage in (self.simulated_stage, self.target_stage)
            )
            # no name keeps the programs of one turn while those of the next are made
            found += measure(
                Executable(network.original),
                [stages[stage]() for stage in together],
                network.samples.held,
                network.session,
                self.expected,
                simulated,
                target,
                self.parts,
            )
            for weight in weights_of(network.original):
                weight.release()
        network.settle()
        return dict(zip(stages, found, strict=True))

    def warn_of_doubts(self, differences: Mapping[str, Mapping[str, Difference]], recovery: RecoveryOptions) -> None:
        """Warn where data and results are not plausible."""
        original, samples, session = self.network.original, self.network.samples, self.network.session
        if samples.calibration is None:
            return
        by_stage = {STAGES[stage]: each for stage, each in differences.items()}
        used = "samples" in metadata(self.network.module) or recovery not in (BY_DEFAULT, NO_RECOVERY)
        for doubt in (
            *doubts_of_use(samples.calibration, used),
            *doubts_of_data(original, samples.calibration, session.commands),
            *doubts_of_result(original, by_stage, session.commands),
            *(doubts_of_split(samples.calibration, samples.held) if samples.apart else ()),
        ):
            session.warn(doubt)

    def answers(self, labels: Labels) -> dict[str, Answers]:
        """The right answers of the float model and of each stage, by the names in the summary."""
        network = self.network.quiet
        programs = {"float": partial(Executable, network.original), **self.stages}
        right = {
            name: ranks(program(), network.samples.held, labels, network.session).right
            for name, program in programs.items()
        }
        return {name: Answers(Share.of(each), Pair.of(right["float"], each)) for name, each in right.items()}

    def layers(self) -> dict[str, Any]:
        """Measures each layer for the report."""
        network, session = self.network, self.network.session
        if not self.runs:
            return {"commands": session.commands}
        held = network.samples.held
        with session.phase("measure layers"):
            few = in_batches(network.reference, [], held.head(_whole(min(MEASURING.samples, held.count), held)))
            measured = measure_layers(network.reference, network.module, few, session)
        network.settle()
        return {"commands": session.commands, **measured}

    @property
    def simulated_stage(self) -> str:
        """The stage that computes the same as the ONNX file."""
        return "kernels" if "kernels" in self.stages else "fake_quantized"

    @property
    def target_stage(self) -> str:
        """The stage that the target computes."""
        return next((each for each in ("kernels", "integer") if each in self.stages), "fake_quantized")

    def peer(self, file: Path) -> Peer | None:
        """Runs a file in onnxruntime, and compares it with the module if that runs."""
        if not self.runs:
            return peer_of(file)
        network, rewrite = self.network, in_integers if "kernels" in self.stages else None
        network.settle()
        simulation = Simulation(network.module, rewrite, profile_of(network.session), self.boundary)
        return peer_of(file, simulation, self.expected)

    def timed(self, int8: Path) -> Latencies:
        """Time the float model and an ONNX file on one run. Raises CompileError if the profile's engine does not run both."""
        with self.network.session.phase("time"), scratch() as folder:
            before = float_file(self.network, folder)
            inputs = next(iter(self.network.samples.held.batches()))
            files = {before: inputs, int8: self.boundary.integers(inputs)}
            return latency.side_by_side(files, TURNS, profile_of(self.network.session).timed_in)

    def check_faster(self, int8: Path) -> None:
        """Raises CompileError if a file is not faster than the float model, in two measurements."""
        before, after = self.timed(int8).models.values()
        if not after.faster(before):  # something else may have run meanwhile
            check_faster(self.timed(int8), self.network.model)

    def latencies(self, summary: Summary, int8: Path) -> Latencies | None:
        """Time the float model and the ONNX file, which is `int8` now, on one run; warn if the file is the slower one.

        None, with a note that says why, if the weights are too large or the engine does not run the float model.
        """
        session = self.network.session
        if summary.sizes.float_weights > HUGE:
            session.note(f"{summary.model}: latency is not measured: weights have more than {HUGE >> 20} MiB")
            return None
        try:
            found = self.timed(int8)
        except CompileError as e:  # the files are written already
            made_up = isinstance(e, RunError) and self.network.samples.held.synthetic
            on = " on inputs that are made up without --data" if made_up else ""
            session.note(f"{summary.model}: latency is not measured{on}: {e.message}")
            return None
        before, after = found.models.values()
        if after.slower(before):
            profile = profile_of(session)
            advice = f"; profile {profile.name} is for {profile.target}, --profile {QDQ.name} for {QDQ.target}"
            if profile is QDQ:
                advice = "; --faster-than-float returns layers to float until it is faster"
            session.warn(
                f"{found.engine} takes {after} for {int8.name} on this machine, and {before} for the float model"
                f"{advice if found.engine == QDQ.timed_in else ''}"
            )
        return replace(found, models={summary.model: before, summary.files["onnx"]: after})


def compared(samples: Split) -> list[Samples]:
    """The samples on which onnxruntime runs the file: those held back, and others if these are few."""
    held, given = samples.held, samples.calibration
    missing = LEAST - held.count
    if not samples.apart or given is None or missing <= 0:
        return [held]
    return [held, given.head(min(given.count, -(-missing // given.batch_size) * given.batch_size))]


def measure(
    exact: Executable,
    others: Sequence[Watched],
    samples: Samples,
    session: Session,
    expected: Expected,
    simulated: int | None,
    target: int | None,
    parts: Parts,
) -> list[dict[str, Difference]]:
    """Run modules on the same samples, one thread per core. Returns each module's difference from the exact outputs. Those of
    the module with number `simulated` are expected of the file, on some further samples as well; those of number `target` make
    `parts`.
    """
    totals = [{name: Differences() for name in exact.outputs} for _ in others]
    done = count(1)

    def compare(inputs: Mapping[str, Array], turn: Turn) -> None:
        outputs, found = exact.run(inputs), [other.run(inputs) for other in others]
        with turn:
            for arrays, total in zip(found, totals, strict=True):
                for name, array in arrays.items():
                    total[name].add(outputs[name], array)
            if simulated is not None:
                expected.add(outputs, found[simulated])
            if target is not None:
                parts.add(outputs, found[target])
            session.progress("measure", next(done), samples.runs)

    with session.phase("measure"):
        OrderedBatches(samples.batches()).run(compare, min(threads_here(), samples.runs))
        if simulated is not None:
            for inputs in chain.from_iterable(more.batches() for more in expected.samples[1:]):
                expected.add(exact.run(inputs), others[simulated].run(inputs))
    return [{name: d.result() for name, d in total.items()} for total in totals]


def _in_reals(program: Callable[[], Executable], boundary: Boundary) -> Watched:
    return InReals(program(), boundary)


def integer_kernels(quantized: ModuleOp, session: Session) -> Callable[[], Executable] | None:
    """The module as integer kernels compute it; None unless the profile targets them and the module has work for them."""
    if not profile_of(session).facts.kernels:
        return None
    stage = partial(Executable, quantized, rewrite=in_integers)
    try:
        stage()
    except CompileError:  # no operation has both integer inputs and integer results
        return None
    return stage


def _whole(count: int, samples: Samples) -> int:
    """A number of samples in whole batches, at least one."""
    return max(1, count // samples.batch_size) * samples.batch_size
