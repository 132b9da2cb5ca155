"""Tables with the meaning of their columns below them, and progress bars on a terminal of 80 columns."""

import io
import re
import sys

import pytest

from amct_opt.support.tables import Table, Tabled, _html, progress_bar, text_of


class Result(Tabled):
    def tables(self) -> list[Table]:
        return [Table("right answers", ("model", "p"), [("a", "<1")], "p: by chance & luck")]


def test_a_note_stands_below_the_table() -> None:
    assert str(Result()).splitlines()[-2:] == ["  p: by chance & luck", ""]
    assert Result()._repr_html_().endswith("<td>&lt;1</td></tr></table><p>p: by chance &amp; luck</p>")
    assert "None" not in text_of([Table("empty", (), [("a", "b")])])


def test_names_are_text_in_every_part() -> None:
    """A file may have a name with markup, or one that is not UTF-8; a notebook encodes what it shows."""
    name = "\udcff<b>[/b]\x1b"
    table = Table(name, (name,), [(name,)], name)
    assert _html(table).encode().count(b"\\udcff&lt;b&gt;[/b]\\x1b") == 4
    assert text_of([table]).encode().count(b"\\udcff<b>[/b]\\x1b") == 4


def test_progress_bars_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar() as progress:
        for done in (1, 99_999):
            progress("round weights: model/features/block_12/depthwise_conv2d/weights", done, 100_000)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n").splitlines()
    drawn = [line for line in lines if "/100000" in line]
    assert drawn
    assert all(len(line.rstrip()) <= 80 for line in drawn)
    assert all(re.search(r" \d+/100000 +(\S+/s)? *[-\d]+:[-\d:]+ *$", line) for line in drawn), drawn
    assert any("round weights: model/fe…" in line for line in drawn)
