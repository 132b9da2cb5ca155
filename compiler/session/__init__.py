"""The context of a compilation: xDSL's `Context` plus the options that passes share and the remarks they leave."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..support.diagnostics import CompileError, Remark, shown
from ..support.limits import locating
from ..support.registry import References, Registry, load
from .catalogue import (
    ENGINES,
    FRONTENDS,
    OBSERVERS,
    OTHER_PROFILES,
    PASSES,
    PROFILES,
    TARGETS,
    Numbers,
    pass_named,
    passes,
)

if TYPE_CHECKING:
    from ..ir.array import Array
    from ..observers import Observer
    from ..runtime.boundary import Watched

_Op = TypeVar("_Op", bound=Operation)

FRAMEWORKS = ("onnx", "tensorflow")
"""Frameworks whose operators can have registered converters. Caffe's parameters have numbers, which forks disagree on."""

WRITERS = ("onnx", "tf-fakequant")
"""Targets whose operations can have registered converters."""


def print_remark(remark: Remark) -> None:
    """Print a remark about what stays in float to standard error."""
    if remark.kind == "missed":
        print(remark, file=sys.stderr)


@dataclass(frozen=True)
class ImportOptions:
    """Options for reading a model. Names are those in the source: layers, blobs, tensors."""

    inputs: tuple[str, ...] = ()
    """The inputs, in order; found in the model when not given (`--inputs`)."""
    outputs: tuple[str, ...] = ()
    """The outputs, in order; found in the model when not given (`--outputs`)."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Shapes by input, overriding those in the model; -1 is a size not known before run time (`--input-shape`)."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """The number of each input that becomes a constant, such as the choice of an If's branch (`--input-value`)."""
    carried: tuple[str, ...] = ()
    """Types of operators that are carried as in the source, with the kernels of its runtime (`--carry`)."""
    signature: str = ""
    """The signature to read from a SavedModel with several (`--signature`)."""
    weights: Path | None = None
    """The weights file, if weights are separate from the model (`--weights`)."""


class Frontend(Protocol):
    """A reader of a format: converts a file to a module of `nn`."""

    def __call__(self, path: Path, session: Session) -> ModuleOp:
        """Reads the model at `path`. Raises CompileError, located in the file, for anything that it cannot read."""
        ...


@dataclass(frozen=True)
class Target(ABC):
    """A format to write. Options are the fields of the dataclass, given as `-t 'name{option=value}'`."""

    name: ClassVar[str]
    ending: ClassVar[str]
    """The file ending of the format, with its dot."""
    graph_only: ClassVar[bool] = False
    """Whether files contain only the graph, `@main`."""
    activation_bits: ClassVar[frozenset[int]] = frozenset({4, 8, 16})
    """The possible bits of the integers of activations."""

    def files(self, path: Path) -> list[Path]:
        """The files that writing to `path` may create or replace."""
        return [path]

    def check(self, module: ModuleOp, session: Session) -> None:  # noqa: B027
        """Raises CompileError, located, if an operation of a module that is about to be quantized cannot be written.

        Called before data runs through the module, so that users do not wait for a file that cannot be written. It may find less
        than writing does.
        """

    def warn_of_functions(self, module: ModuleOp, session: Session) -> None:
        """Warn of each function that files do not contain."""
        from ..ir.functions import main_function, other_functions  # a session starts without them

        for function in other_functions(module) if self.graph_only else ():
            name = function.sym_name.data
            session.warn(
                f"target {self.name} writes the graph, @{main_function(module).sym_name.data}, without @{name}"
            )

    @abstractmethod
    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        """Writes the module to `path` and the files next to it, all or nothing. Returns the files written.

        Raises CompileError, located at the operation, if the format cannot express it.
        """


class Engine(Protocol):
    """Prepares modules to be run."""

    def __call__(self, module: ModuleOp, session: Session, watched: Sequence[SSAValue] = (), /) -> Watched:
        """Returns an object that runs a module by input and output name, and shows `watched` values in every run.

        Raises CompileError, located, for a module that it cannot run.
        """
        ...


class Named(Protocol):
    """An object that is registered under a name of its own."""

    @property
    def name(self) -> str:
        """The name."""
        ...


class Pattern(Protocol):
    """A pattern of a pass, to the session: its class has a name."""

    name: ClassVar[str]


class Node(Protocol):
    """A node of a model in a file, to the function that `Session.register_reader` takes; ONNX's and TensorFlow's have more."""

    op_type: str

    def has(self, index: int) -> bool:
        """Whether the node has an input of this index."""
        ...

    def value(self, index: int) -> SSAValue:
        """An input. Raises CompileError if the node does not have it."""
        ...

    def optional(self, index: int) -> SSAValue | None:
        """An input; None if the node does not have it."""
        ...

    def array(self, index: int) -> Array | None:
        """The numbers of an input; None if it is absent or computed at run time."""
        ...

    def known(self, index: int) -> Array:
        """The numbers of an input. Raises `Unmapped`, which leaves the node to others, if they are computed at run time."""
        ...

    def int(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        ...

    def float(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        ...

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        ...

    def emit(self, op: type[_Op], *operands: SSAValue | Sequence[SSAValue] | None, **properties: Any) -> _Op:
        """Builds an operation of `nn`, or of a dialect like it, with the node's name. Raises CompileError if it does not fit."""
        ...

    def constant(self, array: Array, suffix: str = "") -> SSAValue:
        """A constant that the conversion itself needs."""
        ...

    def error(self, message: str, hint: str = "") -> CompileError:
        """An error with the place of the node, to be raised."""
        ...


class Layer(Protocol):
    """A layer that is being written, to the function that `Session.register_writer` takes. An operand is a value of the
    operation, or a name that a node was given.
    """

    def node(self, op_type: str, *inputs: SSAValue | str, **attributes: Any) -> str:
        """Adds the node with the layer's name, and returns the name of its result."""
        ...

    def helper(self, op_type: str, *inputs: SSAValue | str, **attributes: Any) -> str:
        """Adds another node, and returns the name of its result."""
        ...

    def constant(self, array: Array, role: str) -> str:
        """Adds a constant, and returns its name."""
        ...

    def error(self, message: str, hint: str = "") -> CompileError:
        """An error with the place of the operation, to be raised."""
        ...


Reader = Callable[[Any], "SSAValue | Sequence[SSAValue]"]
"""Converts a node (`Node`, as its framework has it) to the values of its outputs."""
Writer = Callable[[Any, Any], "str | Sequence[str]"]
"""Writes an operation (the first argument) by a `Layer` (the second), and returns the names of its results."""


class NumberChecker(Protocol):
    """Checks passes and files by their numbers."""

    def passing(
        self, name: str, module: ModuleOp, session: Session, numbers: Numbers | None = None
    ) -> AbstractContextManager[None]:
        """Checks the pass of this name, which runs inside `with`; `numbers` is its promise where options decide it. Raises
        CompileError if it breaks its promise.
        """
        ...

    def writing(self, path: Path, module: ModuleOp, target: Target, session: Session) -> None:
        """Checks a file that a module was written to. Raises CompileError, located, if its numbers differ."""
        ...

    def summary(self) -> str:
        """Summarizes in one line what was checked."""
        ...


@dataclass(repr=False)
class Session(Context):
    """One compilation: registered names, global options, and the remarks of passes.

    Sessions share nothing. Passes take any xDSL context and get the session with `session_of`. Anything registered in a session
    (`register_...`, and xDSL's `register_dialect`) is known in that session only.
    """

    skip_fusion: frozenset[str] = frozenset()
    """Layers that no fusion pass may touch (`--skip-fusion`)."""
    fusions_skipped: set[str] = field(default_factory=set[str])
    """The names that have kept a pattern of the last fusion pass from being applied, of this list or of a configuration's."""
    profile: str = "ascend"
    """The target profile that decides what is quantized, and how (`--profile`)."""
    chip: str | None = None
    """The chip that a profile for Ascend is for (`--chip`); None for what holds for all."""
    rules: str | None = None
    """The rules of fusions (`--rules`); None where they are not given, which are `extended` ones."""
    as_amct: bool = False
    """Whether layers are those that AMCT has, as for its configurations, records and commands."""
    imports: ImportOptions = ImportOptions()
    """Options for reading models."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    """The line that reads the same model and data, by command of `amct`, for advice; a folder of results is not named."""
    warnings: list[str] = field(default_factory=list[str])
    """All warnings, in order."""
    prints: tuple[str, ...] = ("note", "warning")
    """The kinds of remarks that are printed on stderr at once."""
    on_remark: Callable[[Remark], None] | None = None
    on_progress: Callable[[str, int, int], None] | None = None
    """Called with (phase, done, total) while data runs through the model."""
    phase: Callable[[str], AbstractContextManager[object]] = locating
    """Called with the name of each timed step; the context manager it returns surrounds the step. Steps nest."""
    checker: NumberChecker | None = None
    """Checks every pass by numbers (`--check`)."""
    passes: Registry[type[ModulePass]] = field(default_factory=passes)
    frontends: Registry[Frontend] = field(
        default_factory=lambda: Registry("frontend", "frontends", lambda: References(FRONTENDS))
    )
    patterns: dict[str, Registry[type[Pattern]]] = field(default_factory=dict[str, "Registry[type[Pattern]]"])
    """The patterns that are tried before a pass's own, by pass."""
    targets: Registry[type[Target]] = field(
        default_factory=lambda: Registry("target", "targets", lambda: References(TARGETS))
    )
    engines: Registry[Engine] = field(
        default_factory=lambda: Registry("engine", "engines", lambda: References(ENGINES))
    )
    profiles: Registry[Named] = field(
        default_factory=lambda: Registry("profile", "profiles", lambda: References(PROFILES), OTHER_PROFILES)
    )
    observers: Registry[type[Observer]] = field(
        default_factory=lambda: Registry("observer", "observers", lambda: load(OBSERVERS))
    )
    readers: dict[tuple[str, str], Reader] = field(default_factory=dict[tuple[str, str], "Reader"])
    """Converters of operators, by framework and name; they come before the compiler's."""
    writers: dict[str, dict[type[Operation], Writer]] = field(
        default_factory=dict[str, "dict[type[Operation], Writer]"]
    )
    """Converters to formats, by target and operation; they come before the compiler's."""

    def __repr__(self) -> str:
        return f"Session(profile {self.profile}, {len(self.remarks)} remarks, {len(self.warnings)} warnings)"

    def register_pass(self, pass_class: type[ModulePass]) -> None:
        """Register a pass by its `name`: for pipelines and, from a plugin, as a flag of `amct-opt`.

        Raises CompileError for a name that is taken.
        """
        self.passes.add(pass_class.name, pass_class)

    def register_pattern(self, pass_name: str, pattern: type[Pattern]) -> None:
        """Try a pattern in a pass, before the pass's own: a `Lowering` in `lower-to-ascend`, a `FusionPattern` in a fusion.

        In `legalize-ascend` and `convert-to-linalg` it is applied until nothing changes, before the pass begins.

        Raises CompileError for a pass that tries no patterns of others, and for the name of a pattern that is taken.
        """
        registry = self.patterns.get(pass_name) or self.own_patterns(pass_name)
        registry.add(pattern.name, pattern)
        self.patterns[pass_name] = registry

    def own_patterns(self, pass_name: str) -> Registry[type[Pattern]]:
        """The patterns that a pass has itself. Raises CompileError for a pass that tries no patterns of others."""
        ours: Iterable[type[Pattern]] | None = getattr(self.passes[pass_name], "PATTERNS", None)
        if ours is None:
            here = [
                name for name, row in PASSES.items() if row.reference.startswith(".")
            ]  # the others may not be installed
            made = ", ".join(name for name in here if hasattr(pass_named(name), "PATTERNS"))
            raise CompileError(f"pass '{pass_name}' tries no patterns of others", hint=f"passes that do: {made}")
        return Registry("pattern", "patterns", lambda: {each.name: each for each in ours})

    def patterns_of(self, pass_name: str) -> tuple[type[Any], ...]:
        """The patterns that are registered for a pass, in the order of registration."""
        return tuple(self.patterns[pass_name].added.values()) if pass_name in self.patterns else ()

    def register_frontend(self, ending: str, frontend: Frontend) -> None:
        """Read files with this ending (`.toy`, lower case) with `frontend`, a function of path and session.

        Raises CompileError for an ending that is taken or malformed.
        """
        if ending[:1] != "." or ending != ending.lower():
            raise CompileError(f"'{ending}' is not a file ending", hint="write it with its dot, in lower case")
        self.frontends.add(ending, frontend)

    def register_target(self, target_class: type[Target]) -> None:
        """Register a format by its `name`, for `save` and `-t`. Raises CompileError for a name that is taken."""
        self.targets.add(target_class.name, target_class)

    def register_engine(self, name: str, engine: Engine) -> None:
        """Run modules with `engine` where `--engine` names it: a function from module, session and watched values to what runs.

        Raises CompileError for a name that is taken.
        """
        self.engines.add(name, engine)

    def register_profile(self, profile: Named) -> None:
        """Register a target profile by its `name`. Raises CompileError for a name that is taken."""
        self.profiles.add(profile.name, profile)

    def register_observer(self, name: str, observer_class: type[Observer]) -> None:
        """Register an algorithm for settings and the text of `nn.observe`. Raises CompileError for a name that is taken."""
        self.observers.add(name, observer_class)

    def register_reader(self, framework: str, operator: str, convert: Reader) -> None:
        """Convert nodes of an operator by `convert`, a function from a node to the values of its outputs.

        It comes before a converter that the compiler has, and may raise `Unmapped` to leave a node to it.
        `framework` is `onnx` or `tensorflow`. An ONNX operator of another domain than the standard one has its domain
        before it: `acme::HardClip`. Raises CompileError for another framework, and for an operator that is registered already.
        """
        if framework not in FRAMEWORKS:
            raise CompileError(f"no framework is called '{framework}'", hint=f"frameworks are {', '.join(FRAMEWORKS)}")
        if (framework, operator) in self.readers:
            raise CompileError(f"{framework} operator '{operator}' is registered already")
        self.readers[framework, operator] = convert

    def register_writer(self, target: str, operation: type[Operation], convert: Writer) -> None:
        """Write operations of a class by `convert`, a function from operation and layer to the names of its results.

        `target` is `onnx` or `tf-fakequant`. Raises CompileError for another target, and for an operation that is
        registered already.
        """
        if target not in WRITERS:
            raise CompileError(
                f"target '{target}' takes no converters", hint=f"targets that do are {', '.join(WRITERS)}"
            )
        if operation in self.writers.setdefault(target, {}):
            raise CompileError(f"'{operation.name}' is registered already for target '{target}'")
        self.writers[target][operation] = convert

    def clone(self) -> Session:
        """A session with the same dialects and options, and its own remarks."""
        session = copy(self)
        vars(session).update(vars(super().clone()))
        session.remarks = list(self.remarks)
        session.warnings = list(self.warnings)
        session.fusions_skipped = set()
        session.passes = self.passes.copy()
        session.patterns = {name: registry.copy() for name, registry in self.patterns.items()}
        session.frontends = self.frontends.copy()
        session.targets = self.targets.copy()
        session.engines = self.engines.copy()
        session.profiles = self.profiles.copy()
        session.observers = self.observers.copy()
        session.readers = dict(self.readers)
        session.writers = {target: dict(converters) for target, converters in self.writers.items()}
        return session

    def silent(self) -> Session:
        """A copy that does not report or print anything: for repeated work, or work of which only the result is needed."""
        session = self.clone()
        session.prints = ()
        session.on_remark = session.on_progress = session.checker = None
        return session

    def warn(self, message: str) -> None:
        """Keep one line and print it on stderr: the user must see it whatever else is printed."""
        self.warnings.append(message)
        if "warning" in self.prints:
            print(f"warning: {shown(message)}", file=sys.stderr)

    def note(self, message: str) -> None:
        """Report in one line on stderr something that leaves no other trace on the screen."""
        if "note" in self.prints:
            print(f"note: {shown(message)}", file=sys.stderr)

    def remark(self, remark: Remark) -> None:
        """Keep a remark, and call `on_remark`."""
        self.remarks.append(remark)
        if self.on_remark is not None:
            self.on_remark(remark)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Tell `on_progress` that `done` of `total` steps of a phase are done."""
        if self.on_progress is not None:
            self.on_progress(phase, done, total)


def session_of(ctx: Context) -> Session:
    """`ctx` itself if it is a session; for a foreign driver (plain xdsl-opt) a new one that prints missed remarks to stderr."""
    return ctx if isinstance(ctx, Session) else Session(on_remark=print_remark)
