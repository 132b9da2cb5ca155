"""Checks the promises of passes about numbers: the module after a pass is compared with the module before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ... import frontends
from ...data import Samples, synthetic_samples
from ...dialects.nn import ConstantOp
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import is_float
from ...ir.functions import main_function
from ...runtime.boundary import boundary_of
from ...runtime.comparison import common_layers
from ...runtime.executor import RunError
from ...runtime.kernels import Array
from ...session import ImportOptions, Session
from ...session.catalogue import PASSES, Numbers
from ...support.diagnostics import CompileError
from ...support.tables import numbered, some
from ...targets import Target
from .following import WEIGHT_STEPS, Analysis, Follower, Graph, Known, as_it_is, in_any_order, layer_error
from .peers import CannotRunError, beside_onnxruntime

RUNS = 2
"""Number of runs of the samples that are compared."""

SEED = 2
"""The seed of synthetic samples; calibration and measuring use 0 and 1."""

_COMPOSED = "quantize"
"""The pass whose phases are passes on the same module."""

Inputs = Mapping[str, Array]


class Traced:
    """A module with all values of its runs."""

    def __init__(self, module: ModuleOp, runs: Sequence[Inputs], known: Sequence[Known] = ()):
        """Traces the runs; values that are already known of a run are not computed again. Raises CompileError, located,
        for operations that cannot be run.
        """
        self.graph: Graph = Graph(module)
        self.runs: Sequence[Inputs] = runs
        each = zip_longest(runs, known)
        self.values: list[dict[int, Array]] = [self.graph.trace(inputs, known) for inputs, known in each]
        self.known: list[Known] = [self.graph.known(values) for values in self.values]

    def outputs(self, index: int) -> dict[str, Array]:
        """The outputs of one run, by name."""
        return {name: self.values[index][slot] for name, slot in self.graph.outputs.items()}


def compare(before: Traced, after: ModuleOp, numbers: Numbers, weight_steps: float = WEIGHT_STEPS) -> Follower:
    """Compares a module with another one that promises these numbers. Raises CompileError for operations that cannot be run."""
    graph = Graph(after)
    common, _, _ = common_layers(before.graph.module, after)
    pairs = {name: (a, b) for name, (a, b) in common.items() if is_float(element_of(a)) == is_float(element_of(b))}
    slots = {graph.slots[b]: before.graph.slots[a] for a, b in pairs.values()}
    layers = {graph.slots[b]: name for name, (_, b) in pairs.items()}
    outputs = {s: before.graph.outputs[n] for n, s in graph.outputs.items() if n in before.graph.outputs}
    layers |= {slot: name for name, slot in graph.outputs.items() if slot not in layers}
    bits = numbers in ("kept", "equal")
    follower = Follower(graph, layers, as_it_is if bits else in_any_order, bits)
    follower.steps = weight_steps if numbers == "quantized" else None
    for inputs, values, known in zip(before.runs, before.values, before.known, strict=True):
        analysis = Analysis(before.graph, values, set(slots.values()))
        given = {slot: values[other] for slot, other in slots.items()}
        expected = {slot: values[other] for slot, other in outputs.items()}
        errors = {**outputs, **slots}
        follower.follow(inputs, given, lambda slot, a=analysis, of=errors: a.error(of[slot]), expected, known)
    return follower


class Checker:
    """Checks every pass of a compilation. Passes that run others inside are checked part by part, by their phases."""

    def __init__(self, samples: Samples | None, runs: int = RUNS):
        """`samples` of any number; None for synthetic ones, which are made when the module is known."""
        self._samples = samples
        self._count = runs
        self._runs: list[Inputs] = []
        self._model: ModuleOp | None = None
        self._before: Traced | None = None
        self._of: ModuleOp | None = None
        self._reason = ""
        self._chosen_weights = False
        self.checked: list[str] = []
        """Passes that kept their promise, in order."""
        self.files: list[str] = []
        """Files that compute the same, in order."""
        self.skipped: dict[str, str] = {}
        """Passes and files that were not checked, with the reason."""
        self.unbounded: dict[str, None] = {}
        """Layers whose quantization was not checked (`Follower.unbounded`)."""

    def runs_of(self, module: ModuleOp) -> list[Inputs]:
        """The inputs of the runs: samples for the first module, in the form of this one."""
        if self._model is None:
            samples = self._samples or synthetic_samples(main_function(module), SEED, self._count)
            self._runs, self._model = list(islice(samples.batches(), self._count)), module.clone()
        return [*map(boundary_of(module, self._model).integers, self._runs)]

    @contextmanager
    def passing(self, name: str, module: ModuleOp, session: Session, numbers: Numbers | None = None) -> Generator[None]:
        """Checks the pass of this name, which runs inside `with`, and the passes inside it, whose phases have their names.
        `numbers` is its promise where options decide it.

        Raises CompileError, located at the first layer that breaks the promise of the first of them that does.
        """
        self._see(module)
        outer = session.phase
        running: list[str] = []

        @contextmanager
        def phase(inner: str) -> Generator[None]:
            running.append(inner)
            with outer(inner):
                yield
                if running == [_COMPOSED, inner] and inner in PASSES:  # deeper ones belong to trials
                    self._check(inner, module)
            running.pop()

        session.phase = phase
        try:
            yield
        finally:
            session.phase = outer
        with outer("check"):
            self._check(name, module, numbers)

    def _see(self, module: ModuleOp) -> None:
        """Keep a module as the one that the next pass changes."""
        if self._before is None or self._of is not module:
            self._keep(module)
            self._of = module

    def _keep(self, module: ModuleOp) -> None:
        try:
            known = () if self._before is None else self._before.known
            self._before = Traced(module.clone(), self.runs_of(module), known)
        except RunError as e:
            raise self._unusable(e) from None
        except CompileError as e:
            self._before, self._reason = None, e.message

    def _check(self, name: str, module: ModuleOp, numbers: Numbers | None = None) -> None:
        """`numbers` is the promise of a pass whose options decide it."""
        before = self._before
        if before is not None and before.graph.module.is_structurally_equivalent(module):
            self._kept(name)
            return
        if numbers is None:
            numbers = PASSES[name].numbers if name in PASSES else "rounded"
        if numbers == "kept":
            raise CompileError(f"--check: --{name} changed the module, which it must not")
        if numbers == "fused" and before is not None and _computed(before.graph.module) == _computed(module):
            numbers = "equal"
        if name == "round-weights":
            self._chosen_weights = True
        if numbers == "quantized" and self._chosen_weights:
            numbers = "chosen"
        if before is None:
            self.skipped[name] = f"the module before it cannot be run: {self._reason}"
        elif numbers == "chosen":
            self.skipped[name] = "it chooses other numbers"
        else:
            try:
                follower = compare(before, module, numbers)
            except RunError as e:
                raise CompileError(
                    f"--check: after --{name} the module does not run: {e.message}", where=e.where
                ) from None
            except CompileError as e:
                self.skipped[name] = f"the module after it cannot be run: {e.message}"
            else:
                if (first := follower.first()) is not None:
                    raise layer_error(first.name, first, f"--check: after --{name}")
                self.unbounded |= dict.fromkeys(sorted(follower.unbounded))
                self._kept(name)
        self._keep(module)

    def _kept(self, name: str) -> None:
        if self.checked[-1:] != [name]:
            self.checked.append(name)

    def reading(self, path: Path, module: ModuleOp) -> None:
        """Checks a module that was read from an ONNX file by onnxruntime, if that is installed and runs the file.

        Raises CompileError, located at the first layer that differs.
        """
        if path.suffix.lower() == ".onnx":
            self._beside(path, module, "reading", f"--check: read from {path}")

    def _beside(self, path: Path, module: ModuleOp, what: str, message: str) -> None:
        try:
            follower = beside_onnxruntime(path, module, self.runs_of(module))
        except CannotRunError as e:
            self.skipped[f"{what} {path.name}"] = str(e)
            return
        except RunError as e:
            raise self._unusable(e) from None
        if (first := follower.first()) is not None:
            raise layer_error(first.name, first, f"{message}: not what onnxruntime computes")
        self.files.append(path.name)

    def writing(self, path: Path, module: ModuleOp, target: Target, session: Session) -> None:
        """Checks a file that a module was written to: read again, and run by onnxruntime.

        Raises CompileError, located at the first layer that differs.
        """
        if target.ending not in session.frontends or not path.is_file():
            return
        if session.chip is not None and target.name in ("onnx-ascend", "tf-ascend"):
            self.skipped[f"writing {path.name}"] = f"it rounds to float16 where chip {session.chip} does"
            return
        reading = session.silent()
        weights = next((each for each in target.files(path) if each.suffix == ".caffemodel"), None)
        reading.imports = ImportOptions(weights=weights)  # the options that were given are for the source
        read = frontends.read(path, reading)
        numbers: Numbers = "equal" if target.name == "mlir" else "rounded"
        try:
            follower = compare(Traced(module, self.runs_of(module)), read, numbers)
        except RunError as e:
            raise self._unusable(e) from None
        except CompileError as e:
            self.skipped[f"writing {path.name}"] = e.message
            return
        if (first := follower.first()) is not None:
            raise layer_error(first.name, first, f"--check: written to {path}")
        if target.name == "onnx":
            self._beside(path, read, "writing", f"--check: written to {path}")
        else:
            self.files.append(path.name)

    def _unusable(self, error: RunError) -> CompileError:
        """The model does not run on the samples."""
        hint = "give samples that the model takes: --check=FILE.npz" if self._samples is None else ""
        data = "synthetic inputs" if self._samples is None else "these samples"
        return CompileError(f"--check: the model does not run on {data}: {error.message}", where=error.where, hint=hint)

    def summary(self) -> str:
        """Summarizes in one line what was checked."""
        data = "synthetic inputs" if self._samples is None else "samples"
        parts = [
            f"--check: {len(self.checked)} passes kept their numbers in {numbered(len(self._runs), 'run')} of {data}"
        ]
        parts += [f"same numbers: {', '.join(dict.fromkeys(self.files))}"] if self.files else []
        parts += [f"not checked: {name}, {reason}" for name, reason in self.skipped.items()]
        if self.unbounded:
            names = some(list(self.unbounded))
            parts.append(
                f"not checked: {names}, for a carried operator reads what was rounded to integers, which no rule bounds"
            )
        return "; ".join(parts)


def _computed(module: ModuleOp) -> Counter[str]:
    """The number of operations of each kind, without constants."""
    return Counter(op.name for op in module.walk() if not isinstance(op, ConstantOp))
