"""Tables and progress for people. Names are printed verbatim: without markup, and never truncated in a file or pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import NamedTuple

from .diagnostics import printable

_WIDE = 1000
_NAMED = 4
_SAID, _BAR = 24, 16
"""Columns of a progress bar for its phase and for the bar, so that a line of 80 columns has room for the numbers."""


class Table(NamedTuple):
    """Text in rows and columns. A table with empty `headers` has no header line."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """An explanation of the columns, for a line below the table."""


class Tabled:
    """A result that is shown as tables: `str` gives them as text, a notebook shows them as HTML."""

    def tables(self) -> Sequence[Table]:
        """The tables, in order."""
        raise NotImplementedError

    def __str__(self) -> str:
        return text_of(self.tables())

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.tables()))


def text_of(tables: Iterable[Table], width: int | None = _WIDE) -> str:
    """Tables as text, each with an empty line after it. Without a width, that of the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as Drawn
    from rich.text import Text

    console = Console(width=width, highlight=False, color_system=None if width else "auto")
    found: list[str] = []
    for title, headers, rows, note in tables:
        lines = [[Text(printable(cell)) for cell in row] for row in rows]
        named = Text(printable(title), "bold")
        table = Drawn(title=named, title_justify="left", box=SIMPLE_HEAD, show_header=bool(headers))
        for header in headers or [""] * max(map(len, lines), default=0):
            table.add_column(Text(printable(header)), overflow="fold")
        for line in lines:
            table.add_row(*line)
        with console.capture() as capture:
            console.print(table)
            console.print(Padding(Text(printable(note)), (0, 2)))
        found += [*(line.rstrip() for line in capture.get().splitlines() if line.strip()), ""]
    return "".join(f"{line}\n" for line in found)


def _html(table: Table) -> str:
    """A table as HTML."""

    def row(cells: Iterable[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(printable(cell))}</{tag}>' for cell in cells)}</tr>"

    head = row(table.headers, "th") if table.headers else ""
    rows = "".join(row(each, "td") for each in table.rows)
    note = f"<p>{escape(printable(table.note))}</p>" if table.note else ""
    return f"<table><caption>{escape(printable(table.title))}</caption>{head}{rows}</table>{note}"


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables to stdout, as wide as they are in a file or a pipe."""
    print(text_of(tables, None if sys.stdout.isatty() else _WIDE), end="")


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print one table."""
    print_tables([Table(title, headers, list(rows))])


def grouped(reasons: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names by the reason that they share: some of the names, and the reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason, []).append(name)
    return [(some(names), reason) for reason, names in groups.items()]


def some(names: Sequence[str]) -> str:
    """The first names of a list, and the number of the others."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"


def listed(names: Iterable[str], most: int = 10) -> str:
    """The first names, and the number of the others."""
    found = [*names]
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{rest}"


def numbered(count: int, noun: str) -> str:
    """`1 sample`, `2 samples`"""
    return f"{count} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress_bar() -> Generator[Callable[[str, int, int], None]]:
    """A bar on stderr, called with (phase, done, total); what comes after a colon may change. Nothing is drawn when stderr is
    not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Speed(TextColumn):
        """Steps per second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.3g}/s")

    said = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=_SAID))
    columns = (said, BarColumn(_BAR), MofNCompleteColumn(), Speed(""), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def update(phase: str, done: int, total: int) -> None:
            name, _, _ = phase.partition(":")
            if name not in tasks:
                tasks[name] = progress.add_task(phase, total=total)
            progress.update(tasks[name], description=phase, completed=done, total=total)

        yield update
