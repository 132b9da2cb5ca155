"""The parser of the command-line tools' arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any, NoReturn, cast

from ..support.diagnostics import UsageError
from ..support.registry import References

USAGE = 2
"""The exit status after a `UsageError`."""

_MISSING = "the following arguments are required"


TOOLS = References[Callable[..., "Parser"]]({"amct": ".tools.amct:parser", "amct-opt": ".tools.amct_opt:parser"})
"""The functions that make the parsers of the tools: hints of each name options of the other."""


_MEANT: Mapping[str, str] = dict.fromkeys(("calib", "calib-data", "calibration", "calibration-data", "dataset"), "data")
"""Options of other tools, and the names that they have here."""
_CLAUSE = re.compile(r"[;.] ")
"""Ends the part of an option's text that the brief help shows."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageErrors; the hint is the option that was probably meant."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.others: Callable[[], Iterable[Parser]] = tuple
        """The parsers of other commands, for hints."""
        self.summary = ""
        self.essential: frozenset[str] = frozenset()
        """The options that --help shows, if it does not show all."""
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.unrecognized(unknown)
        return parsed, unknown

    def unrecognized(self, words: Sequence[str]) -> NoReturn:
        raise UsageError(f"unrecognized arguments: {' '.join(words)}", where=self.prog, hint=self.hint(words))

    def error(self, message: str) -> NoReturn:
        missing = message.startswith(_MISSING)
        raise UsageError(message, where=self.prog, hint=self.format_usage().strip() if missing else self.hint(()))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Checks that the value is one of the action's choices, if it has any."""
        choices = action.choices
        if choices is None or value in choices:
            return
        known = [str(choice) for choice in choices]
        close = get_close_matches(str(value), known, 1)
        commands = isinstance(choices, dict)
        what = f"there is no command '{value}'" if commands else f"argument {_shown(action)}: invalid choice: '{value}'"
        listed = f"{'commands' if commands else 'values'} are {', '.join(known)}"
        hint = f"did you mean {close[0]}?" if close else listed
        raise UsageError(what, where=self.prog, hint=hint)

    def hint(self, unknown: Sequence[str]) -> str:
        """A hint for unknown arguments, or for another mistake if there are none."""
        given = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        if elsewhere := [
            f"{option} is an option of {_listed(tools)}" for option in given if (tools := self.having(option))
        ]:
            return "; ".join(elsewhere)
        known = sorted(option.lstrip("-") for option in self.options() if option.startswith("--"))
        meant = [_MEANT.get(word[2:], word[2:]) for word in given]
        close = [f"--{match}" for word in meant for match in get_close_matches(word, known, 1)]
        return f"did you mean {', '.join(close)}?" if close else f"{self.prog} --help lists the options"

    def having(self, option: str) -> list[str]:
        """The other commands that have an option."""
        return [parser.prog for parser in self.others() if option in parser.options()]

    def commands(self) -> dict[str, Parser]:
        """The parsers of the tool's commands, by name."""
        found: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(choices := action.choices, dict):
                found.update(cast("dict[str, Parser]", choices))
        return found

    def value_of(self, action: argparse.Action, text: str) -> Any:
        """Converts `text`, which is given for an option, to its value. Raises ArgumentError or UsageError for a bad value."""
        value = self._get_value(action, text)
        self._check_value(action, value)
        return value

    def actions(self) -> list[argparse.Action]:
        """The arguments that the parser takes; commands have their own."""
        return list(self._actions)

    def groups(self) -> list[Any]:
        """The groups of its options, under their headings."""
        return list(self._action_groups)

    def brief_help(self) -> str:
        """The essential options in their groups, each with the first clause of its text."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        formatter.add_text(self.summary)
        for group in self.groups():
            shown = [copy(each) for each in group._group_actions if self.essential.intersection(each.option_strings)]
            for each in shown:
                each.help = _CLAUSE.split(each.help or "")[0]
            formatter.start_section(group.title)
            formatter.add_arguments(shown)
            formatter.end_section()
        formatter.add_text(f"{self.prog} --help-all shows all {len(self.options())} options")
        return formatter.format_help()

    def options(self) -> frozenset[str]:
        """The options that --help lists, excluding those of commands."""
        shown = (a for a in self._actions if a.help != argparse.SUPPRESS)
        return frozenset(option for action in shown for option in action.option_strings)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class _BriefHelp(argparse.Action):
    """Prints the options that matter most."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        assert isinstance(parser, Parser)
        print(parser.brief_help(), end="")
        parser.exit()


def add_command(
    commands: Any,
    name: str,
    usage: str,
    summary: str,
    description: str,
    run: Callable[[argparse.Namespace], None],
    essential: Collection[str] = (),
) -> Parser:
    """The parser of a command of `amct`. The usage has what a command line needs; --help lists the options below it, or only the
    `essential` ones, and --help-all the others.
    """
    parser: Parser = commands.add_parser(
        name,
        usage=f"%(prog)s {usage}",
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=not essential,
    )
    parser.set_defaults(run=run, command=name)
    if essential:
        parser.summary, parser.essential = summary, frozenset(essential)
        parser.add_argument("-h", "--help", action=_BriefHelp, nargs=0, help="show the options that matter most")
        parser.add_argument("--help-all", action="help", help="show all options")
    return parser


def _shown(action: argparse.Action) -> str:
    return action.option_strings[0] if action.option_strings else str(action.metavar or action.dest)
