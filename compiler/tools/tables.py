"""Tables and progress for people. Names are printed verbatim: without markup, and never truncated in a file or pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from ..diagnostics import printable

_WIDE = 1000
_NAMED = 4


def apart(held_back: bool) -> str:
    """How the samples that measure relate to those that calibrate."""
    return "held back from calibration" if held_back else "the calibration samples: too few to hold some back"


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of text to stdout. Without `headers` there is no header line."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [[Text(printable(cell)) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_header=bool(headers))
    for header in headers or [""] * max(map(len, lines), default=0):
        table.add_column(Text(header), overflow="fold")
    for line in lines:
        table.add_row(*line)
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines() if line.strip()), end="\n\n")


def some(names: Sequence[str]) -> str:
    """The first names of a list, and the number of the others."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"


@contextmanager
def progress_bar() -> Generator[Callable[[str, int, int], None]]:
    """A bar on stderr, called with (phase, done, total); what comes behind a colon may change. Nothing is drawn when stderr is
    not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(TextColumn):
        """Steps per second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.3g}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(""), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def update(phase: str, done: int, total: int) -> None:
            name, _, _ = phase.partition(":")
            if name not in tasks:
                tasks[name] = progress.add_task(phase, total=total)
            progress.update(tasks[name], description=phase, completed=done, total=total)

        yield update
