"""How the command-line tools read their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NoReturn, cast

from ..diagnostics import CompileError

_UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """Mistakes are CompileErrors, with the option that was meant as the hint."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix(_UNKNOWN).split() if message.startswith(_UNKNOWN) else []
        raise CompileError(message, where=self.prog, hint=self.hint(unknown))

    def hint(self, unknown: Sequence[str]) -> str:
        """What to do about arguments that are not known, or about another mistake where there are none."""
        options = list(_options(self))
        given = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        close = [match for word in given for match in get_close_matches(word, options, 1)]
        return f"did you mean {', '.join(close)}?" if close else f"{self.prog} --help lists the options"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a parser and of its commands."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        yield from action.option_strings
        if isinstance(commands := action.choices, dict):
            for command in cast("dict[str, argparse.ArgumentParser]", commands).values():
                yield from _options(command)
