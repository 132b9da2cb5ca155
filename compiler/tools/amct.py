"""`amct`: report what can be quantized, quantize in one command or as AMCT does, write a configuration, run, compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

from ..diagnostics import CompileError
from . import (
    amct_auto_calibration,
    amct_calibration,
    amct_compare,
    amct_convert,
    amct_create_config,
    amct_evaluate,
    amct_quantize,
    amct_report,
    amct_run,
    amct_sensitivity,
    amct_support,
    amct_tune,
)
from .entry import run_tool
from .hints import printed
from .parser import Parser

COMMANDS = (
    amct_support,
    amct_quantize,
    amct_report,
    amct_calibration,
    amct_auto_calibration,
    amct_convert,
    amct_create_config,
    amct_sensitivity,
    amct_tune,
    amct_run,
    amct_compare,
    amct_evaluate,
)
"""Each module adds its parser, which names the function that runs it."""


def main() -> None:
    """The command line `amct`."""
    run_tool("amct", run)


def run(argv: Sequence[str]) -> int:
    """The whole tool on an argument list. Returns the exit status; a user error prints one located line on stderr."""
    try:
        args = parser().parse_args(argv)
        args.run(args)
    except CompileError as e:
        print(printed(e, *_options_around(argv)), file=sys.stderr)
        return 1
    return 0


def _options_around(argv: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The options of the command in an argument list, and all options of amct-opt."""
    from ..universe import new_session
    from .amct_opt import parser as amct_opt

    command = parser().commands().get(argv[0] if argv else "")
    return frozenset() if command is None else command.options(), amct_opt(new_session()).options()


def parser() -> Parser:
    """The parser of the tool: a command, and the command's arguments."""
    tool = Parser("amct", description="Quantize neural networks after training, run and compare them.")
    tool.add_argument("--version", action="version", version=f"amct-opt {version('amct-opt')}")
    commands = tool.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return tool


if __name__ == "__main__":
    main()
