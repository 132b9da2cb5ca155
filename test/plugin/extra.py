"""A plugin with one part of each kind, as small as they get. Tests register its parts, and install it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

import amct_opt
from amct_opt import Profile, Session
from amct_opt.observers.minmax import MinMaxObserver
from amct_opt.rewriting import Remarks
from amct_opt.runtime.executor import Array, Executable, Watch
from amct_opt.targets import Target


@dataclass
class DoubledObserver(MinMaxObserver):
    """Twice the range that was seen, or as often as the option says."""

    times: float = 2.0

    def finish(self) -> tuple[float, float]:
        low, high = super().finish()
        return low * self.times, high * self.times


@dataclass(frozen=True)
class CountPass(ModulePass):
    """Count operations, 100 % of them."""

    name = "count"

    kind: str = "nn"

    def apply(self, ctx: Any, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        found = [each for each in op.walk() if each.name.startswith(f"{self.kind}.")]
        remarks.note(found[0], "count", str(len(found)))
        remarks.flush()


@dataclass(frozen=True)
class CountTarget(Target):
    name = "count"
    ending = ".txt"

    unit: str = "operations"

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        path.write_text(f"{sum(1 for _ in module.walk())} {self.unit}")
        return [path]


def read_twice(path: Path, session: Session) -> ModuleOp:
    text = path.read_text()
    return amct_opt.parse(text + text.replace("@f", "@g"), session).module


class Negated(Executable):
    """Outputs with the other sign."""

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        return {name: -array for name, array in super().run(inputs, watch).items()}


def negated(module: ModuleOp, session: Session, watched: Sequence[SSAValue] = ()) -> Negated:
    return Negated(module, watched)


def add_parser(commands: Any) -> None:
    """The command `amct greet`."""
    parser = commands.add_parser("greet")
    parser.add_argument("name")
    parser.set_defaults(run=lambda args: print(f"hello, {args.name}"), command="greet")


def register(session: Session) -> None:
    session.register_pass(CountPass)
    session.register_target(CountTarget)
    session.register_profile(Profile("nothing", rows={}))
    session.register_observer("doubled", DoubledObserver)
    session.register_engine("negated", negated)
    session.register_frontend(".twice", read_twice)
