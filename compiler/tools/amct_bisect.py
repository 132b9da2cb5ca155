"""`amct bisect`: the first layer where two models part."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..support.tables import print_tables
from .parser import add_command
from .shared import (
    ENGINES,
    NAMES_OF_INPUTS,
    add_engine,
    add_json,
    add_pair,
    command_session,
    load_pair,
    print_json,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..examine.checking.bisection import Bisection
    from ..examine.checking.following import Graph

_DESCRIPTION = """\
Runs A, then every layer of B on the values that A has there, so that an error of one layer does not reach the next. Prints how
far each layer is from A's, compared with what its operations explain: rounding in any order of their sums and, if only one of
the two is quantized, rounding to integers. The first layer beyond that is named, and the status is 1. The first samples are used,
or as many as --num-samples says.

A and B are models of any format, or .mlir modules of any stage; layers are matched by their names in the source."""


def add_parser(commands: Any) -> None:
    """The command `amct bisect` and its options."""
    usage, summary = "A B --inputs DATA [options]", "find the first layer where two models part"
    parser = add_command(commands, "bisect", usage, summary, _DESCRIPTION, run)
    add_pair(parser, "--inputs", inputs=NAMES_OF_INPUTS)
    text = f"what runs A: {ENGINES}"
    add_engine(parser.add_argument, text, default="numpy")
    add_json(parser.add_argument)


def run(args: argparse.Namespace) -> None:
    """Raises CompileError for unreadable models, inputs that do not fit, and, located at the layer, for models that part."""
    from ..examine.checking.bisection import bisect, few
    from ..examine.checking.following import layer_error
    from ..ir.functions import main_function

    a, b, runs = load_pair(args, NAMES_OF_INPUTS)
    inputs = few(runs.inputs, main_function(a), args.batch) if args.samples is None else runs.inputs
    result = bisect(a, b, inputs, _engine(args))
    if args.json:
        print_json(args, _as_json(result))
    else:
        print_tables(result.tables())
        if result.first is None:
            print("the models compute the same" + (", apart from quantization" if result.quantized else ""))
    if result.first is not None:
        raise layer_error(result.first.name, result.first, "the models part here", result.hint)


def _engine(args: argparse.Namespace) -> Callable[[ModuleOp], Graph]:
    """The engine that runs A."""
    from ..examine.checking.following import Graph

    if args.engine == "numpy":
        return Graph
    from ..examine.checking.native import NativeGraph

    session = command_session(args)
    return lambda module: NativeGraph(module, session, session.engines[args.engine])


def _as_json(result: Bisection) -> Mapping[str, Any]:
    return {
        "first": None if result.first is None else result.first.name,
        "quantized": result.quantized,
        "layers": {
            each.name: {
                "operation": each.op,
                "verdict": each.verdict,
                "difference": each.largest,
                "explained": each.bound,
            }
            for each in result.layers
        },
        "not_compared": dict(result.not_compared),
    }
