"""Markdown tables on pages, which are all that is kept of earlier runs: rows that a run does not measure stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

Row = Sequence[str]
Key = tuple[str, ...]


class Table(NamedTuple):
    """A table between the marks `<!-- begin NAME (benchmarks/SCRIPT.py) -->` and `<!-- end NAME -->` of a page."""

    page: Path
    name: str
    script: str
    headers: Row
    keys: int = 1
    """How many cells at the beginning of a row tell what was measured; several rows may have the same."""

    @property
    def marks(self) -> tuple[str, str]:
        return f"<!-- begin {self.name} (benchmarks/{self.script}.py) -->\n", f"<!-- end {self.name} -->"

    def by_key(self, rows: Iterable[Row]) -> dict[Key, list[Row]]:
        """The rows of each key; those of one key stand together."""
        return {key: list(group) for key, group in groupby(rows, lambda row: tuple(row[: self.keys]))}


def markdown(headers: Row, rows: Sequence[Row]) -> str:
    """A table whose cells contain no `|`, which would end them."""
    lines = (headers, ["---"] * len(headers), *rows)
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def known(table: Table) -> dict[Key, list[Row]]:
    """The rows on the page."""
    lines = _between(table)[1].splitlines()[2:]
    return table.by_key([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)


def update(table: Table, measured: Iterable[Row], order: Iterable[Key]) -> Mapping[Key, list[Row]]:
    """Replace the rows on the page by those measured of the same key; the table has the keys of `order`, in this order.

    Returns the rows that are now on the page.
    """
    rows = {**known(table), **table.by_key(measured)}
    shown = {key: rows[key] for key in order if key in rows}
    before, _, after = _between(table)
    body = markdown(table.headers, [row for group in shown.values() for row in group])
    begin, end = table.marks
    table.page.write_text(f"{before}{begin}{body}\n{end}{after}", "utf-8")
    return shown


def _between(table: Table) -> tuple[str, str, str]:
    """The page before the marks, between them, and after them. Raises ValueError if it has no such marks."""
    begin, end = table.marks
    before, found, rest = table.page.read_text("utf-8").partition(begin)
    body, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{table.page}: no table {table.name!r}")
    return before, body, after
