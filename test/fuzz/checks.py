"""What is checked of one model: every stage of the compiler computes what the program of its format computes.

* The import in float agrees with the oracle, each float pass with the import, and a float file with both. The bound is that of
  sums in float32, plus what the network itself makes of a change of its inputs in the last bits.
* Text, the files of modules, and the integer stages that follow from each other agree to the bit, and so do other forms of the
  model: operations in another order, other names of values, identities, constants as nodes, the next opset, a module that is
  printed and parsed between passes, data in another number of files, another number of threads, the same once more.
* Exported QDQ files in onnxruntime agree with the simulation up to a part of what quantization changes: numbers that lie on the
  border of two steps may go either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.engines.onnx_runtime import arithmetic
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.options import build
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import Executable, RunError
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.session import ImportOptions, Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from .case import Array, Case
from .choices import Choices
from .graph import run as onnxruntime_run
from .variants import ONNX_FORMS, numbers, reordered, reported

BOUND = 1e-4
"""Of the largest number of an output: some tens of layers of sums of up to some hundred products in float32."""
AMPLIFIED = 64
"""Times what changes of the inputs in their last bits make of an output: those of many inputs cancel out in part."""
HALF_BOUND = 2e-2
"""The same of networks that compute partly in float16."""
ROUGH = frozenset({"op InstanceNormalization"})
"""Operators for which onnxruntime subtracts numbers much larger than their difference: `x * s + (bias - mean * s)`."""
ROUGH_BOUND = 1e-3
"""The bound of networks with such operators."""
AGREEMENT_DB = 25.0
"""Signal to difference of two ways to compute the same integers: some values on the border of two steps go either way."""
AGREEMENT_OF_INTEGERS_DB = 40.0
"""The same of two files with the same integers, of which only layers in float round otherwise."""
STEPS = frozenset(
    f"op {kind}"
    for kind in (
        "Floor", "Ceil", "Round", "Sign", "Mod", "ArgMax", "ArgMin", "Hardmax", "Less", "Greater", "TopK", "QuantizeLinear",
        "Cast", "ThresholdedRelu", "Shrink", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs",
        "FloorDiv", "FloorMod", "Rint",
    )
)  # fmt: skip
"""Operators whose results jump."""
QUANTIZED = frozenset({"op QuantizeLinear", "op FakeQuantWithMinMaxArgs", "op FakeQuantWithMinMaxVars"})
"""Operators of sources that are quantized already."""
PORTABLE = frozenset({"qdq", "ppq"})
"""Profiles whose weights have sums of products that onnxruntime adds exactly on every processor."""
FEW = 0.5
"""The part of an output that may lie after such a jump."""
ACCIDENTS = {
    "NOT_IMPLEMENTED": "onnxruntime has no kernel",
    " in node ().": "onnxruntime rejects the function by which ONNX defines an operator",
    "ScalesValidation": "onnxruntime moves a transpose past a Resize, and rejects what it made",
    "LayerNormFusion": "onnxruntime moves a norm before the Cast in front of it, and rejects what it made",
}
"""What onnxruntime says of files that are valid, and why."""
NAMED = frozenset({"variants again", "variants printed", "variants shards", "variants threads"})
"""Forms with the same names in the same order, of which the text is the same too."""
PART_OF_NOISE = 0.5
"""Or the difference in terms of what quantization itself changes."""

NOT_IN_RECORDS = ("rotate", "equalize", "round-weights", "correct-bias")
"""Options that change weights and biases, of which a record has the scales only."""


class Mismatch(AssertionError):
    """A stage that computes something else, or breaks. The stage stands before the first colon."""

    def __init__(self, stage: str, text: str):
        self.stage = stage
        super().__init__(f"{stage}: {' '.join(text.split())[:400]}")


@dataclass
class Outcome:
    """What happened to one model: the stages that passed, and those that refused it, with their reasons."""

    passed: list[str] = field(default_factory=list[str])
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Stop(Exception):
    """A stage refused the model; what depends on it cannot be checked."""


@contextmanager
def _stage(name: str, outcome: Outcome, *, refuses: bool = True) -> Iterator[None]:
    """Errors of the compiler are results where it `refuses`, located and of one line; all else that is raised is a failure."""
    try:
        yield
        outcome.passed.append(name)
    except (Mismatch, Stop):
        raise
    except CompileError as e:
        if "\n" in e.message or not e.message:
            raise Mismatch(name, f"the error is not one line: {e}") from e
        if not refuses and "NOT_IMPLEMENTED" not in e.message:  # onnxruntime has no kernel for what is carried
            raise Mismatch(name, f"refused: {e}") from e
        outcome.refused.append((name, str(e)))
        raise Stop from e
    except Exception as e:
        raise Mismatch(name, f"{type(e).__name__}: {e}") from e


@contextmanager
def _optional() -> Iterator[None]:
    with suppress(Stop):
        yield


def check(case: Case, choices: Choices, folder: Path) -> Outcome:
    """Raises Mismatch at the first stage that computes something else than it should."""
    outcome = Outcome()
    with suppress(Stop):
        _Check(case, choices, folder, outcome).all()
    return outcome


@dataclass(frozen=True)
class Compiled:
    """What became of one form of a model."""

    outputs: Mapping[str, Mapping[str, Array]]
    """By the pass before, then by name."""
    numbers: Counter[Any]
    remarks: Counter[Any]
    file: str
    """The text of its modules."""
    quantized: ModuleOp


class _Check:
    def __init__(self, case: Case, choices: Choices, folder: Path, outcome: Outcome):
        self.case, self.choices, self.folder, self.outcome = case, choices, folder, outcome
        self.session = self.new_session()
        self.wild = not all(_finite(a) for a in case.expected.values()) or any(
            t.startswith("weights") for t in case.traits
        )
        self.lost = not {"weights nan", "weights inf"}.isdisjoint(
            case.traits
        )  # each runtime has its own maximum of NaN
        self.spread: dict[str, float] = {}
        rough = not ROUGH.isdisjoint(case.traits)
        self.bound = HALF_BOUND if not case.exact else ROUGH_BOUND if rough else BOUND

    def new_session(self) -> Session:
        session = new_session()
        session.warn = session.note = lambda message: None  # type: ignore[method-assign]
        session.profile = self.choices.profile
        return session

    def stage(self, name: str, *, refuses: bool = True) -> Any:
        return _stage(name, self.outcome, refuses=refuses)

    def read(self, path: Path, *, original: bool = False) -> ModuleOp:
        session = self.session if original else self.new_session()
        session.imports = ImportOptions(**self.case.imports) if original else ImportOptions()
        module = frontends.read(path, session)
        session.imports = ImportOptions()
        verify(module)
        return module

    def run(self, module: ModuleOp, rewrite: Any = None) -> dict[str, Array]:
        return Executable(module, rewrite=rewrite).run(self.case.inputs)

    def all(self) -> None:
        with self.stage("import"):
            module = self.read(self.case.path, original=True)
        with self.stage("run"):
            found = self.run(module)
            self.spread = self._spread(module, found)
            self.near("run", found, self.case.expected)
        self.text("text", module)
        if "variants" in self.choices.checks:
            with _optional():
                self.variants(module)
        if "float file" in self.choices.checks:
            with _optional():
                self.float_file(module)
        fused = self.passes(module) if "passes" in self.choices.checks else module.clone()
        with self.stage("fuse-all"):
            run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], self.session)
            self.near("fuse-all", self.run(module), self.case.expected)
        if self.choices.passes[0] in ("canonicalize", "fuse-all"):
            module = fused
        self.quantized(module)

    def text(self, stage: str, module: ModuleOp) -> None:
        if stage not in self.choices.checks:
            return
        with self.stage(stage, refuses=False):
            text = module_text(module)
            again = parse_module(self.session, text)
            if module_text(again) != text:
                raise Mismatch(stage, "the text of the parsed text differs")
            # equal constants may lie in another order in memory, in which BLAS adds otherwise
            self.near(stage, self.run(again), self.run(module))

    def passes(self, module: ModuleOp) -> ModuleOp:
        module = module.clone()
        for each in self.choices.passes:
            name, _, options = each.partition("=")
            with self.stage(f"pass {name}"):
                run_passes(module, [make_pass(name, options)], self.session)
                self.near(f"pass {name}", self.run(module), self.case.expected)
        return module

    # Other forms of the model

    def variants(self, module: ModuleOp) -> None:
        """They give the same integers, and what is computed from them, to the bit, and the same remarks."""
        with self.stage("variants"):
            expected = self.compiled(module.clone())
        for name in ("reordered", "rewritten", *self.choices.forms):
            if name in ONNX_FORMS and self.case.format != "onnx":
                continue
            # onnxruntime has no kernel for some of what is carried, and a quantized file may divide by zero
            with _optional(), self.stage(f"variants {name}", refuses=name in ("threads", "twice")):
                before, found = self.form(name, module, expected)
                self.equal(f"variants {name}", found, before)

    def form(self, name: str, module: ModuleOp, expected: Compiled) -> tuple[Compiled, Compiled]:
        """What became of one form, after what it must be equal to. Raises Stop if it has other operators."""
        if name == "printed":
            return expected, self.compiled(module.clone(), between=self.printed)
        if name == "shards":
            return expected, self.compiled(module.clone(), f"data={self.shards}")
        if name == "threads":
            one, two = (f"data={self.data} engine=onnxruntime threads={n}" for n in (1, 2))
            return self.compiled(module.clone(), one), self.compiled(module.clone(), two)
        if name == "twice" and _is_quantized(expected.quantized):
            return self.twice(expected.quantized)
        other = module.clone() if name == "again" else None
        if name == "reordered":
            other = reordered(module, np.random.default_rng(0))
        if name in ONNX_FORMS:
            other = self.onnx_form(name)
        if other is None or _carried(other) != _carried(module):
            self.outcome.refused.append((f"variants {name}", "the form has other operators"))
            raise Stop
        return expected, self.compiled(other)

    def twice(self, quantized: ModuleOp) -> tuple[Compiled, Compiled]:
        """What became of a quantized file, after what was read of it: nothing changes, and nothing is added."""
        path = self.folder / "twice.onnx"
        self.write(quantized, "onnx", path)
        source = self.read(path)
        found = self.compiled(source.clone())
        return replace(found, outputs={}, numbers=numbers(source)), found

    def printed(self, module: ModuleOp) -> ModuleOp:
        return parse_module(self.new_session(), module_text(module))

    def onnx_form(self, name: str) -> ModuleOp | None:
        """Another form of the file, in a file of its own: weights are mapped, and writing over a file changes them.

        None if onnxruntime does not compute the same with it.
        """
        model = ONNX_FORMS[name](onnx.load(self.case.path), np.random.default_rng(0))
        if model is None or (name == "opset" and not self.computes_the_same(model)):
            return None
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path)
        return self.read(path)

    def computes_the_same(self, model: onnx.ModelProto) -> bool:
        """Whether it does in onnxruntime: files of onnx's converter may be wrong."""
        try:
            found = onnxruntime_run(model, dict(self.case.inputs), optimized=False)
        except Exception:  # onnxruntime raises classes of its own
            return False
        return all(_equal(found[name], array) for name, array in self.case.expected.items())

    def equal(self, stage: str, found: Compiled, expected: Compiled) -> None:
        for after, outputs in expected.outputs.items():
            same(f"{stage} {after}", found.outputs[after], outputs)
        if found.numbers != expected.numbers:
            raise Mismatch(stage, "integers or parameters differ")
        if found.remarks != expected.remarks:
            more, less = found.remarks - expected.remarks, expected.remarks - found.remarks
            raise Mismatch(stage, f"remarks differ: {[*more][:2]} in place of {[*less][:2]}")
        if stage in NAMED and found.file != expected.file:
            raise Mismatch(stage, "the files that are written differ")

    def compiled(
        self, module: ModuleOp, data: str = "", between: Callable[[ModuleOp], ModuleOp] | None = None
    ) -> Compiled:
        """The module becomes quantized, and lowered where its profile is ascend; `between` is done after each pass."""
        session = self.new_session()
        outputs: dict[str, dict[str, Array]] = {}
        given = [each for each in self.choices.quantize if not ("engine=" in data and each.startswith("engine="))]
        quantize = " ".join([data or f"data={self.data}", *given])

        def run(name: str, options: str = "") -> None:
            nonlocal module
            run_passes(module, [make_pass(name, options)], session)
            module = between(module) if between else module
            outputs[name] = self.run(module)

        run("canonicalize")
        run("fuse-all")
        run("quantize", quantize)
        quantized, file = module.clone(), module_text(module)
        if self.choices.profile.startswith("ascend"):
            run("lower-to-ascend")
            file += module_text(module)
        return Compiled(outputs, numbers(quantized), reported(session.remarks), file, quantized)

    @cached_property
    def shards(self) -> Path:
        """The same data, a file for each batch."""
        folder = self.folder / "shards"
        folder.mkdir()
        with np.load(self.data) as whole:
            for i in range(self.choices.batches):
                parts: dict[str, Any] = {n: np.split(a, self.choices.batches)[i] for n, a in whole.items()}
                np.savez(folder / f"{i}.npz", **parts)
        return folder

    @cached_property
    def data(self) -> Path:
        """The file that calibrates: the inputs of the case, and more batches of normal numbers."""
        path = self.folder / "data.npz"
        random = np.random.default_rng(0)
        more: dict[str, Any] = {
            n: np.concatenate([a, *(random.normal(0, 1, a.shape).astype(a.dtype) for _ in range(self.choices.batches - 1))])
            if a.dtype.kind == "f" else np.concatenate([a] * self.choices.batches)
            for n, a in self.case.inputs.items()
        }  # fmt: skip
        np.savez(path, **more)
        return path

    # Files in float

    def float_file(self, module: ModuleOp) -> None:
        name = self.choices.float_target
        stage = f"write {name}"
        path = self.folder / f"float{_ending(name)}"
        options = f"opset={self.choices.opset}" if name == "onnx" and self.choices.opset else ""
        with self.stage(stage):
            files = self.write(module, f"{name}{{{options}}}", path)
        if name == "onnx":
            with self.stage("float file in onnxruntime"):
                # onnxruntime moves a source's own Q/DQ across outputs, in the source as well
                for optimized in (False, True) if QUANTIZED.isdisjoint(self.case.traits) else (False,):
                    found = self.onnxruntime(path, optimized=optimized, stage="float file in onnxruntime")
                    if found is not None:
                        self.near("float file in onnxruntime", found, self.case.expected)
        with self.stage(f"read back {name}", refuses=False):
            self.near(f"read back {name}", self.renamed(self.run_back(files)), self.case.expected)

    def run_back(self, files: Sequence[Path]) -> dict[str, Array]:
        """What a file computes that was written. Frozen graphs of TensorFlow are read without the inputs that nothing reads."""
        session = self.new_session()
        weights = [f for f in files if f.suffix == ".caffemodel"]
        session.imports = ImportOptions(weights=weights[0] if weights else None)
        module = frontends.read(files[0], session)
        verify(module)
        executable = Executable(module)
        given = self.case.inputs
        if len(executable.inputs) == len(given):
            given = dict(zip(executable.inputs, given.values(), strict=True))
        if not given.keys() >= {*executable.inputs}:  # one is not read, and the other has another name
            raise Stop
        try:
            return executable.run({name: given[name] for name in executable.inputs})
        except RunError:  # Caffe's files have a batch of one where the model has any
            if not weights:
                raise
            raise Stop from None

    def renamed(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by the names of the model, where the file spells its only output in another way.

        Raises Stop for several outputs in another spelling: formats without a list of outputs order them as they like.
        """
        if found.keys() == self.case.expected.keys():
            return {name: found[name] for name in self.case.expected}
        if len(found) == len(self.case.expected) == 1:
            return dict(zip(self.case.expected, found.values(), strict=True))
        raise Stop

    def write(self, module: ModuleOp, target: str, path: Path) -> list[Path]:
        name, _, options = target.removesuffix("}").partition("{")
        made = build(self.session.targets[name], options, f"target {name}")
        return made.write(module.clone(), path, self.session)

    def onnxruntime(self, path: Path, *, optimized: bool, stage: str) -> dict[str, Array] | None:
        """None where onnxruntime has no kernel for an operator that the file shares with the model, or breaks the file itself."""
        model = onnx.load(path)
        try:
            return onnxruntime_run(model, dict(self.case.inputs), optimized=optimized)
        except Exception as e:  # onnxruntime raises classes of its own
            if (reason := next((r for text, r in ACCIDENTS.items() if text in str(e)), None)) is not None:
                self.outcome.refused.append((stage, reason))
                return None
            raise Mismatch(stage, f"onnxruntime{'' if optimized else ' without optimization'}: {e}") from e

    # Quantized

    def quantized(self, module: ModuleOp) -> None:
        floats = module.clone()
        with self.stage("quantize"):
            options = " ".join([f"data={self.data}", *self.choices.quantize])
            run_passes(module, [make_pass("quantize", options)], self.session)
        if "quantize again" in self.choices.checks:
            with self.stage("quantize again", refuses=False):
                again = module.clone()
                run_passes(again, [make_pass("quantize", options)], self.new_session())
                if module_text(again) != module_text(module):
                    raise Mismatch("quantize again", "quantizing a quantized module changes it")
        with self.stage("simulation"):
            simulated = self.run(module)
            self.sane("simulation", simulated)
        if not _is_quantized(module):
            self.outcome.passed.append("nothing is quantized")
        self.text("quantized text", module)
        if "quantized file" in self.choices.checks:
            with self.stage("quantized file", refuses=False):
                self.write(module, "mlir", self.folder / "quantized.mlir")
                same("quantized file", self.run(self.read(self.folder / "quantized.mlir")), simulated)
        if "quant dialect" in self.choices.checks:
            with self.stage("quant dialect", refuses=False):
                other = module.clone()
                run_passes(other, [make_pass("nn-to-quant"), make_pass("quant-to-nn")], self.session)
                same("quant dialect", self.run(other), simulated)
        with _optional():
            self.qdq(module, simulated)
        if "deployed" in self.choices.checks:
            with _optional():
                self.deployed(module, floats, simulated)
        if self.choices.profile.startswith("ascend"):
            self.ascend(module, simulated)

    def qdq(self, module: ModuleOp, simulated: Mapping[str, Array]) -> None:
        path = self.folder / "qdq.onnx"
        with self.stage("write qdq"):
            options = f"opset={self.choices.opset}" if self.choices.opset else ""
            self.write(module, f"onnx{{{options}}}", path)
        with self.stage("qdq in onnxruntime"):
            if "qdq without optimization" in self.choices.checks:
                plain = self.onnxruntime(path, optimized=False, stage="qdq in onnxruntime")
                if plain is not None:
                    self.close("qdq without optimization", plain, simulated)
            usual = self.onnxruntime(path, optimized=QUANTIZED.isdisjoint(self.case.traits), stage="qdq in onnxruntime")
            if usual is not None and (self.choices.profile in PORTABLE or arithmetic() == "exact"):
                self.close("qdq in onnxruntime", usual, simulated)
        if "read back qdq" in self.choices.checks:
            with self.stage("read back qdq", refuses=False):
                self.close("read back qdq", self.renamed(self.run_back([path])), simulated)
        if usual is None or self.choices.profile.startswith("ascend"):
            return
        try:
            executable = Executable(module, rewrite=in_integers)
        except CompileError:  # nothing in it computes in integers
            return
        with self.stage("integers"):
            self.close("integers", executable.run(self.case.inputs), usual)

    def deployed(self, module: ModuleOp, floats: ModuleOp, simulated: Mapping[str, Array]) -> None:
        target = self.choices.quantized_target
        name = target.partition("{")[0]
        with self.stage(f"write {target}"):
            files = self.write(module, target, self.folder / f"deployed{_ending(name)}")
        if name == "record":
            with self.stage("record"):
                again = floats.clone()
                left_out = any(r.kind == "missed" and r.rule == "recorded" for r in self.session.remarks)
                recovered = any(option.startswith(NOT_IN_RECORDS) for option in self.choices.quantize)
                if left_out or recovered:
                    raise Stop
                run_passes(again, [make_pass("quantize", f"record={files[0]}")], self.session)
                self.close("record", self.run(again), simulated)
            return
        with self.stage(f"read back {target}", refuses=False):
            self.close(f"read back {target}", self.renamed(self.run_back(files)), simulated)

    def ascend(self, module: ModuleOp, simulated: Mapping[str, Array]) -> None:
        with self.stage("lower-to-ascend"):
            run_passes(module, [make_pass("lower-to-ascend")], self.session)
            lowered = self.run(module)
            self.close("lower-to-ascend", lowered, simulated)
        self.text("ascend text", module)
        with _optional():
            path = self.folder / "ascend.onnx"
            with self.stage("write onnx-ascend of ascend"):
                self.write(module, "onnx-ascend", path)
            with self.stage("onnx-ascend", refuses=False):
                # products that stay in float may read their weights transposed
                self.close("onnx-ascend", self.renamed(self.run_back([path])), lowered, AGREEMENT_OF_INTEGERS_DB)
        with self.stage("fuse-requant"):
            run_passes(module, [make_pass("fuse-requant")], self.session)
            self.close("fuse-requant", self.run(module), lowered)  # one rounding in place of two
        with self.stage("legalize-ascend"):
            run_passes(module, [make_pass("legalize-ascend")], self.session)

    # Bounds

    def _spread(self, module: ModuleOp, found: Mapping[str, Array]) -> dict[str, float]:
        """What a change of the inputs in their last bits makes of each output, at most."""
        random = np.random.default_rng(1)
        executable = Executable(module)
        most = dict.fromkeys(found, 0.0)
        for _ in range(4):
            near = {
                n: (a * (1 + random.choice([-1, 1], a.shape) * 2.0**-20)).astype(a.dtype)
                if a.dtype == np.float32
                else a
                for n, a in self.case.inputs.items()
            }
            for name, array in executable.run(near).items():
                if array.shape == found[name].shape and array.dtype.kind == "f":
                    most[name] = max(most[name], _difference(array, found[name]))
        return most

    def near(self, stage: str, found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
        """Equal but for rounding in float."""
        _alike(stage, found, expected)
        if self.lost:
            return
        for name, array in expected.items():
            if array.dtype.kind != "f":
                if not np.array_equal(found[name], array) and not self.spread.get(name):
                    raise Mismatch(stage, f"{name} differs")
                continue
            largest = max(1.0, float(np.abs(array[np.isfinite(array)], dtype=np.float64).max(initial=0)))
            bound = self.bound * largest + AMPLIFIED * self.spread.get(name, 0.0)
            error = _difference(_bounded(found[name]), _bounded(array))
            if error > bound and not self.steps(found[name], array, bound):
                raise Mismatch(stage, f"{name} is off by {error:g}, at most {bound:g}")

    def steps(self, found: Array, expected: Array, bound: float) -> bool:
        """Whether the network has steps, on whose border a rounding decides, and only a few numbers differ."""
        if not any(t in STEPS for t in self.case.traits):
            return False
        with np.errstate(all="ignore"):
            return bool((np.abs(found.astype(np.float64) - expected) > bound).mean() < FEW)

    def close(
        self, stage: str, found: Mapping[str, Array], expected: Mapping[str, Array], least: float = AGREEMENT_DB
    ) -> None:
        """Equal but for values that lie on the border of two steps."""
        _alike(stage, found, expected)
        if self.wild:
            return
        for name, array in expected.items():
            wide = array.astype(np.float64)
            difference = float(np.square(found[name].astype(np.float64) - wide).sum())
            noise = float(np.square(wide - self.case.expected[name].astype(np.float64)).sum())
            signal = float(np.square(wide).sum())
            allowed = max(signal * 10 ** (-least / 10), PART_OF_NOISE * noise) + 1e-9
            if not difference <= allowed and not self.steps(found[name], array, self.bound * float(np.abs(wide).max())):
                ratio = 10 * np.log10(signal / difference) if signal else -np.inf
                raise Mismatch(
                    stage, f"{name} agrees by {ratio:.1f} dB only; quantization changes {noise / (signal or 1):.2g}"
                )

    def sane(self, stage: str, found: Mapping[str, Array]) -> None:
        """Finite, unless what it was made of is not, or a divisor rounds to zero; what follows is then not compared."""
        _alike(stage, found, self.case.expected)
        for name, array in found.items():
            if self.wild or _finite(array):
                continue
            if "divides" not in self.case.traits:
                raise Mismatch(stage, f"{name} is not finite")
            self.wild = True


def _ending(target: str) -> str:
    return {"onnx": ".onnx", "onnx-ascend": ".onnx", "caffe": ".prototxt", "record": ".txt"}.get(target, ".pb")


def _is_quantized(module: ModuleOp) -> bool:
    return any(isinstance(op, nn.QuantizeOp | nn.DequantizeOp | nn.DequantizeFloatOp) for op in module.walk())


def _carried(module: ModuleOp) -> int:
    return sum(isinstance(op, nn.OpaqueOp) for op in module.walk())


def _finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _difference(a: Array, b: Array) -> float:
    """The largest difference; infinite where one is NaN or infinite and the other is not the same."""
    if not a.size:
        return 0.0
    with np.errstate(all="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        gaps = np.asarray(np.abs(a - b))
        gaps[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
        return float(np.nan_to_num(gaps, nan=np.inf).max())


def _bounded(array: Array) -> Array:
    """With the largest numbers in place of infinite ones, as a Clip without bounds has them in onnxruntime only."""
    return np.nan_to_num(array, nan=np.nan)


def _alike(stage: str, found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    if [*found] != [*expected]:
        raise Mismatch(stage, f"outputs {list(found)}, not {list(expected)}")
    for name, array in expected.items():
        if found[name].shape != array.shape or found[name].dtype != array.dtype:
            got, want = found[name], array
            raise Mismatch(stage, f"{name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}")


def _equal(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=b.dtype.kind == "f")


def same(stage: str, found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Equal to the bit."""
    _alike(stage, found, expected)
    for name, array in expected.items():
        if not _equal(found[name], array):
            raise Mismatch(stage, f"{name} differs by {_difference(found[name], array):g}")
