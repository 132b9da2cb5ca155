"""How the command-line tools read their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn, cast

from ..diagnostics import CompileError

_UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """An argument parser that raises CompileErrors; the hint is the option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix(_UNKNOWN).split() if message.startswith(_UNKNOWN) else []
        raise CompileError(message, where=self.prog, hint=self.hint(unknown))

    def hint(self, unknown: Sequence[str]) -> str:
        """A hint for unknown arguments, or for another mistake if there are none."""
        options = [o for each in (self, *self.commands().values()) for a in each._actions for o in a.option_strings]
        given = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        close = [match for word in given for match in get_close_matches(word, options, 1)]
        return f"did you mean {', '.join(close)}?" if close else f"{self.prog} --help lists the options"

    def commands(self) -> dict[str, Parser]:
        """The parsers of the tool's commands, by name."""
        found: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(choices := action.choices, dict):
                found.update(cast("dict[str, Parser]", choices))
        return found

    def options(self) -> frozenset[str]:
        """The options, excluding those of commands and an `--inputs` that is the data of a run rather than a list of names."""
        actions = [a for a in self._actions if a.dest != DATA]
        return frozenset(option for a in actions for option in a.option_strings)


DATA = "inputs"
"""The attribute that the option for the data of a run sets."""
