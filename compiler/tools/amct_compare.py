"""`amct compare`: how much the outputs of two models or modules differ on the same inputs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from ..support.diagnostics import UsageError
from ..support.tables import print_tables
from .parser import add_command
from .shared import (
    ENGINES,
    INTEGERS,
    add_engine,
    add_json,
    add_pair,
    command_session,
    load_pair,
    print_json,
)

if TYPE_CHECKING:
    from ..runtime.comparison import Comparison, Engine

_DESCRIPTION = """\
Runs A (the reference) and B on the same inputs and prints, per output: SQNR in dB, cosine similarity, largest absolute
difference, and how many elements differ. A and B are models, or .mlir modules of any stage. DATA is for the inputs of A; B takes
those of the same names or, if no name is the same, in the same order."""


def add_parser(commands: Any) -> None:
    """The command `amct compare` and its options."""
    usage, summary = "A B --data DATA [options]", "compare two models or modules on given inputs"
    parser = add_command(commands, "compare", usage, summary, _DESCRIPTION, run)
    add_pair(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--integers", action="store_true", help=f"of B: {INTEGERS}")
    what.add_argument(
        "--layers",
        action="store_true",
        help="also compare every layer that both have, matched by its name in the source",
    )
    text = f"what runs B: {ENGINES}"
    add_engine(parser.add_argument, text, default="numpy")
    add_json(parser.add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for unreadable models, inputs that do not fit, and models without a common output; UsageError for
    options that exclude each other.
    """
    from ..runtime.comparison import compare

    if args.integers and args.engine != "numpy":
        raise UsageError("--integers: only the interpreter runs it", hint="leave out --engine")
    a, b, runs = load_pair(args)
    result = compare(a, b, runs.inputs, layers=args.layers, engine=_engine(args))
    if args.json:
        print_json(args, _as_json(result))
        return
    print_tables(result.tables())


def _engine(args: argparse.Namespace) -> Engine:
    """The engine that runs B."""
    from ..runtime.executor import Executable
    from ..runtime.integer_plan import in_integers

    if args.integers:
        return partial(Executable, rewrite=in_integers)
    session = command_session(args)
    engine = session.engines[args.engine]
    return lambda module, watched: engine(module, session, watched)


def _as_json(result: Comparison) -> dict[str, Any]:
    from ..flows.summary import difference_data

    return {
        "outputs": {name: difference_data(d) for name, d in result.outputs.items()},
        "layers": {name: difference_data(d) for name, d in result.layers.items()},
        "not_compared": dict(result.not_compared),
    }
