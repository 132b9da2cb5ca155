"""`amct`: report what can be quantized, quantize in one command or as AMCT does, write a configuration, run, compare."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from ..support.diagnostics import CompileError, UsageError
from ..support.limits import HELP
from ..support.registry import call_plugins
from . import (
    amct_atc_check,
    amct_auto_calibration,
    amct_benchmark,
    amct_bisect,
    amct_calibration,
    amct_check,
    amct_compare,
    amct_convert,
    amct_create_config,
    amct_evaluate,
    amct_quantize,
    amct_reduce,
    amct_report,
    amct_run,
    amct_sensitivity,
    amct_support,
    amct_tune,
)
from .entry import explained, run_tool
from .hints import printed
from .parser import TOOLS, USAGE, Parser
from .settings_file import located, settings_of
from .shared import check_files

COMMANDS = (
    amct_support,
    amct_quantize,
    amct_report,
    amct_calibration,
    amct_auto_calibration,
    amct_convert,
    amct_atc_check,
    amct_create_config,
    amct_sensitivity,
    amct_tune,
    amct_run,
    amct_compare,
    amct_bisect,
    amct_reduce,
    amct_evaluate,
    amct_benchmark,
    amct_check,
)
"""Modules of commands: each adds its parser, which names the function that runs it. Plugins add others."""


def main() -> None:
    """The command line `amct`."""
    run_tool("amct", run)


def run(argv: Sequence[str]) -> int:
    """The whole tool on an argument list. Returns the exit status; a user error prints one located line on stderr."""
    args, tool = argparse.Namespace(), Parser("amct")
    try:
        tool = parser()
        if not argv:
            tool.print_help()
            return USAGE
        args = arguments(tool, argv)
        check_files(args)
        with _quiet(args):
            args.run(args)
    except CompileError as e:
        if getattr(args, "settings", None) is not None:
            e = located(e, args, tool.commands()[argv[0]])
        command = tool.commands().get(argv[0])
        own = frozenset[str]() if command is None else command.options()
        print(printed(e, own, lambda: _amct_opt().options()), file=sys.stderr)
        return USAGE if isinstance(e, UsageError) else 1
    except (OSError, MemoryError) as e:
        if isinstance(e, BrokenPipeError):
            raise
        command = f"amct {argv[0]}"
        where = str(getattr(args, "model", command)) if isinstance(e, MemoryError) else command
        print(explained(e, where), file=sys.stderr)
        return 1
    return 0


def arguments(tool: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with those of a settings file if the command line does not have them."""
    first = argv[0].partition("=")[0]
    if first.startswith("--") and not any(option.startswith(first) for option in tool.options()):
        tool.unrecognized([first])  # else its value would be taken for a command
    args = tool.parse_args(argv)
    if getattr(args, "settings", None) is None:
        return args
    commands = tool.commands()
    commands[argv[0]].set_defaults(**settings_of(args, commands[argv[0]], commands["quantize"]))
    return tool.parse_args(argv)


@contextmanager
def _quiet(args: argparse.Namespace) -> Generator[None]:
    """Prints nothing on stderr with --quiet, and nothing on stdout if the command writes files and stdout is not asked for."""
    if not args.quiet:
        yield
        return
    writes = any(hasattr(args, name) for name in _WRITTEN) and not getattr(args, "json", False)
    with (
        Path(os.devnull).open("w") as nothing,
        redirect_stderr(nothing),
        redirect_stdout(nothing if writes else sys.stdout),
    ):
        yield


def _amct_opt() -> Parser:
    """The parser of the other tool."""
    from ..session.universe import new_session

    return TOOLS["amct-opt"](new_session())


class _Completion(argparse.Action):
    """Prints a script for a shell, which completes commands and options."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, *_: Any) -> NoReturn:
        import shtab

        assert isinstance(parser, Parser)
        print(shtab.complete(parser, values))
        sys.exit()


def parser() -> Parser:
    """The parser of the tool: a command, and the command's arguments."""
    about = "Quantize neural networks after training, run and compare them."
    tool = Parser("amct", description=about, epilog=HELP)
    tool.add_argument("--version", action="version", version=f"amct-opt {version('amct-opt')}")
    text = "print a script that completes commands and options, for bash, zsh or fish, and exit"
    tool.add_argument("--print-completion", choices=("bash", "zsh", "fish"), action=_Completion, help=text)
    commands = tool.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    call_plugins("amct_opt.commands", commands)
    tool.others = lambda: [*tool.commands().values(), _amct_opt()]
    for each in tool.commands().values():
        each.others = tool.others
        add = each.add_argument_group("what is printed").add_mutually_exclusive_group().add_argument
        add("-q", "--quiet", action="store_true", help=_QUIET)
        add(
            "-v", "--verbose", action="store_true", help="print all tables, and all remarks to stderr, as they are made"
        )
    return tool


_QUIET = "print errors only, without warnings, progress, and tables about files that are written"
_WRITTEN = ("output", "save_path")
"""Arguments for the files that a command writes."""


if __name__ == "__main__":
    main()
